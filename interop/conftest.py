"""One cluster for a process of the run, what was produced into it, and what Pulsar's own reader returned of that."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from interop import machine
from interop.cluster import Cluster
from interop.comparison import in_the_same_words
from interop.java_client import JavaClient, Lines
from interop.keys import KeyPair, make_key_pair
from interop.processes import Processes
from interop.s3_server import S3Server
from interop.stages import stage, table, taken
from interop.workload import Workload, make_workload

_SHARE_A_CLUSTER = {
    f"test_{name}.py"
    for name in ("broker_reading", "new_ledgers", "reading", "restored_settings", "schemas", "serving", "typed_imports")
}
_FOLDER = pytest.StashKey[Path]()
_REPORTED = pytest.StashKey[list[tuple[dict[str, float], str]]]()


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Everything that the run writes; it stays, with the logs in it, when a test failed."""
    made = Path(tempfile.mkdtemp(prefix="interop-"))
    request.config.stash[_FOLDER] = made
    # What ends last: ledgerfs notes what it learned when the process ends, and would make the folder anew.
    removal = weakref.finalize(machine, shutil.rmtree, made, ignore_errors=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERFS_CACHE_DIR", str(made / "cache"))
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(name, "/dev/null")
        for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            patch.delenv(name, raising=False)
        yield made
    if request.session.testsfailed:
        removal.detach()


@pytest.fixture(scope="session")
def processes(folder: Path) -> Iterator[Processes]:
    """The servers; none of them runs on afterwards."""
    made = Processes(folder)
    try:
        yield made
    finally:
        made.stop_all()


@pytest.fixture(scope="session")
def original(folder: Path, processes: Processes) -> S3Server:
    """The server with the bucket that Pulsar writes."""
    return S3Server("s3-original", folder / "s3-original", processes).start()


@pytest.fixture(scope="session")
def cluster(folder: Path, processes: Processes, original: S3Server) -> Cluster:
    """A running Pulsar."""
    machine.require_commands()
    with stage("start Pulsar"):
        made = Cluster(folder, processes)
        made.start(original)
    return made


@pytest.fixture(scope="session")
def classes(folder: Path) -> Path:
    """Our programs in Java, compiled."""
    machine.require_commands()
    return machine.compiled_clients(folder / "classes")


@pytest.fixture(scope="session")
def keys(folder: Path) -> KeyPair:
    """The keys of the encrypted topics."""
    return make_key_pair(folder / "keys")


@pytest.fixture(scope="session")
def java(cluster: Cluster, classes: Path, keys: KeyPair) -> JavaClient:
    """The Java client."""
    return JavaClient(cluster, classes, keys)


@pytest.fixture(scope="session")
def workload(cluster: Cluster, java: JavaClient) -> Workload:
    """Topics that only the bucket has."""
    return make_workload(cluster, java)


@pytest.fixture(scope="session")
def truth(cluster: Cluster, java: JavaClient, workload: Workload, original: S3Server) -> Lines:
    """What Pulsar's reader returns of each topic, from the objects that Pulsar wrote."""
    with stage("restart the broker"):
        cluster.restart_broker(original)
    with stage("Pulsar's reader"):
        return in_the_same_words(java.read(workload.topics))


class _Clusters(LoadFileScheduling):
    """Lets the tests that know all that is in a bucket share one cluster in one process; each other file starts its own servers."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "offloaded" if file.rpartition("/")[2] in _SHARE_A_CLUSTER else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Clusters:
    """Have processes share the tests by clusters."""
    return _Clusters(config, log)


class _FailuresAtOnce:
    """Shows a failure when it happens: what ends a run from outside leaves no time for that at its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Show why a test failed."""
        if report.failed:
            terminal = self._config.pluginmanager.get_plugin("terminalreporter")
            assert terminal is not None
            terminal.write_line(f"\n{report.nodeid} failed:\n{report.longreprtext}")


def pytest_configure(config: pytest.Config) -> None:
    """Have the process that shares tests out show failures."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailuresAtOnce(config))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that shares tests out what it is to print at the end."""
    reported = getattr(session.config, "workeroutput", None)
    if reported is not None:
        reported["stages"] = taken()
        reported["folder"] = str(session.config.stash.get(_FOLDER, ""))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what such a process told; one that crashed told nothing."""
    reported = getattr(node, "workeroutput", {})
    node.config.stash.setdefault(_REPORTED, []).append((reported.get("stages", {}), reported.get("folder", "")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say where the time went, and where the logs of a failed run are."""
    reported = config.stash.get(_REPORTED, [(taken(), str(config.stash.get(_FOLDER, "")))])
    terminalreporter.section("stages")
    for line in table(*(stages for stages, _ in reported)):
        terminalreporter.write_line(line)
    if terminalreporter.stats.keys() & {"failed", "error"}:
        for _, folder in reported:
            if folder and Path(folder).exists():
                terminalreporter.write_line(f"logs and data of this run: {folder}")

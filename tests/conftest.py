"""Fixtures that all tests share: the golden bucket on disk and on a real S3-speaking server."""

import gc
import itertools
import json
import logging
import os
import signal
import subprocess
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from hypothesis import settings

from ledgerfs import Bucket, open_bucket
from ledgerfs.cache.block_cache import process_cache
from tests.support.needs import needs_of, processes_started
from tests.support.shares import Shares, in_order

if TYPE_CHECKING:  # fixtures import the rest when a test asks for them
    from tests.support.s3 import FaultProxy, S3Server

GOLDEN = Path(__file__).parent / "data" / "golden"
_TESTS = itertools.count()

# No test fails because the machine is slow, nor by an example that no other run has; LEDGERFS_RANDOM_EXAMPLES=1 looks for new ones.
settings.register_profile(
    "untimed", deadline=None, max_examples=60, derandomize="LEDGERFS_RANDOM_EXAMPLES" not in os.environ
)
settings.load_profile("untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with what it needs, by which `make check` leaves it out."""
    for item in items:
        for need in needs_of(item):
            item.add_marker(need)
    in_order(items, os.environ.get("LEDGERFS_TEST_ORDER"), longest_first=hasattr(config, "workerinput"))


def pytest_collection_finish() -> None:
    """Leave what is there before the first test out of every search for garbage: a million objects that stay."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares | None:
    """Have processes share the tests as `Shares` does, where they share them by files."""
    return Shares(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def _starts_what_it_says(request: pytest.FixtureRequest) -> Iterator[None]:
    """See to it that a test which starts processes is marked as one that does."""
    started = processes_started()
    yield
    if request.node.get_closest_marker("process") is None:
        assert processes_started() == started, "it starts processes: mark it with `pytest.mark.process`"


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """Have programs that tests start hear Ctrl-C, also where a shell runs the tests in the background, which has all of them ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # As with nohup.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def _no_cloud_of_ours() -> Iterator[None]:
    """Keep the credentials and the metadata service of the machine out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", "/dev/null")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        for name in (
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_PROFILE",
            "AWS_ENDPOINT_URL",
        ):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def _cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep catalogs and rendered files out of the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERFS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("LEDGERFS_DISK_CACHE_BYTES", raising=False)
        patch.delenv("LEDGERFS_CATALOG_MAX_AGE", raising=False)
        patch.delenv("LEDGERFS_CACHE_BYTES", raising=False)
        # A store that always fails is given up sooner than users would like.
        # A store that is only slow, as on a machine that stands still for a while, fails no test. Where faults stay, tests set less.
        patch.setenv("LEDGERFS_STORE_TIMEOUT", "240")
        # The same for servers of clusters, here and in the processes of tests.
        patience = {"timeout_s": 240.0}
        patch.setenv("FSSPEC_PULSAR+ZK", json.dumps(patience))
        patch.setitem(fsspec.config.conf, "pulsar+zk", patience)
        yield


@pytest.fixture(autouse=True)
def _cache_of_the_test(
    _cache_of_the_tests: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give each test a cache of its own, so that none begins with the catalogs of others; what modules share has the cache of all."""
    process_cache.clear()
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "caches" / str(next(_TESTS))))


def _unpacked(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(folder)  # our own archive; Debian's Python 3.11.2 knows no filters yet
    return folder / name


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden set: ``bucket/``, ``damaged/``, ``expected/``, ``objects.json``, ``stats.json``, ``metadata.json``."""
    return _unpacked("pulsar-s3", tmp_path_factory)


@pytest.fixture(scope="session")
def golden_mapfiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the filesystem offloader wrote: ``bucket/``, ``expected/``, ``stats.json``, ``metadata.json``."""
    return _unpacked("pulsar-filesystem", tmp_path_factory)


@pytest.fixture(scope="session")
def golden_typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topics with schemas: ``bucket/``, ``schemas/``, ``expected-typed/`` (each message by its own schema), ``expected-latest/``."""
    return _unpacked("pulsar-typed", tmp_path_factory)


@pytest.fixture(scope="session")
def typed(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    """The bucket of these with their schemas, for tests that change nothing in it; modules that have another one shadow it."""
    from tests.support.typed_golden import bucket_with_schemas

    return bucket_with_schemas(golden_typed, tmp_path_factory.mktemp("typed") / "bucket")


@pytest.fixture(scope="session")
def golden_entries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ledgers as a bookie and ZooKeeper had them: nodes in ``ledgers/``, and ``entries-of-<id>``, each after its int32 size."""
    return _unpacked("bookie-entries", tmp_path_factory)


@pytest.fixture(scope="session")
def golden_url(golden: Path) -> str:
    return f"file://{golden}/bucket"


@pytest.fixture(scope="module")
def bucket(golden_url: str) -> Bucket:
    """The golden bucket, opened; modules that have another one shadow it."""
    return open_bucket(golden_url)


@pytest.fixture(scope="session")
def truncated_url(golden: Path) -> str:
    """The bucket with the ledger that Pulsar lost while it reported success."""
    return f"file://{golden}/damaged/truncated-but-successful"


@pytest.fixture(autouse=True, scope="session")
def _quiet_server() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)


@pytest.fixture(scope="session")
def s3() -> "Iterator[S3Server]":
    from s3fs import S3FileSystem

    from tests.support.s3 import S3Server

    server = S3Server()
    with pytest.MonkeyPatch.context() as patch:
        # Its 5 s to connect and 15 s for an answer are not enough for a machine that is busy with other tests.
        patch.setattr(S3FileSystem, "connect_timeout", 240)
        patch.setattr(S3FileSystem, "read_timeout", 240)
        yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_golden(s3: "S3Server", golden: Path) -> str:
    """URL of the golden bucket on S3, with the user metadata that Pulsar wrote."""
    s3.make_golden_bucket("golden", golden)
    return "s3://golden"


@pytest.fixture
def s3_bucket(s3: "S3Server") -> str:
    """Name of an empty bucket of the test's own."""
    name = f"test-{uuid.uuid4()}"
    s3.make_bucket(name, {})
    return name


@pytest.fixture
def proxy(s3: "S3Server") -> "Iterator[FaultProxy]":
    from tests.support.s3 import FaultProxy

    made = FaultProxy(s3.address).start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def quick_java(golden_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The options with which Java starts soon: those of every Spark session from now on."""
    # Spark, which this imports, is of no use to most tests.
    from tests.support.spark_java import IN_HASTE, java_options

    options = java_options(golden_url, tmp_path_factory.mktemp("java"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", options)
        patch.setenv("SPARK_LAUNCHER_OPTS", IN_HASTE)
        patch.setenv("SPARK_AUTH_SOCKET_TIMEOUT", "1800")
        yield options


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "ledgerfs-test", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)

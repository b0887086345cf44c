"""A standalone Spark cluster on loopback, and what a user brings to one: the wheel of this project, where nothing else of it is."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.support.spark_java import PATIENT

ROOT = Path(__file__).parent.parent.parent
SPARK_HOME = Path(pyspark.__file__).parent
SITE_PACKAGES = SPARK_HOME.parent

_WITHIN = 1800
_MARK = "LEDGERFS_TEST_CLUSTER"
_DAEMON = "org.apache.spark.deploy"
_OF_JAVA = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_AUTH_SOCKET_TIMEOUT")


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this repository as ``pip`` would, with a build backend that is installed here."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=_WITHIN)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path) -> Path:
    """Make a virtual environment that has what ledgerfs depends on, which is that of the tests, and not ledgerfs. Returns its Python.

    The editable installation of this repository is not seen from there: the file that leads to it counts in its own folder only.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=_WITHIN)
    (_site_packages(folder) / "dependencies.pth").write_text(f"{SITE_PACKAGES}\n")
    return folder / "bin" / "python"


def install_wheel(wheel: Path, environment: Path) -> None:
    """Install a wheel in a virtual environment."""
    uv = Path(sys.executable).parent / "uv"
    python = str(environment / "bin" / "python")
    command = [str(uv), "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, str(wheel)]
    subprocess.run(command, check=True, capture_output=True, timeout=_WITHIN)
    for path in _site_packages(environment).rglob("*.py"):
        # Whole seconds, which an archive keeps: compiled kernels that are packed with it are then not compiled again.
        os.utime(path, (0x60000000, 0x60000000))
    subprocess.run([python, "-m", "compileall", "-q", str(_site_packages(environment))], check=True, timeout=_WITHIN)


def copy_kernels(environment: Path) -> None:
    """Copy the kernels that are compiled in this repository to where an environment has the wheel: their code is the same."""
    for path in (ROOT / "ledgerfs").rglob("*.nb[ci]"):
        to = _site_packages(environment) / path.relative_to(ROOT)
        to.parent.mkdir(exist_ok=True)
        shutil.copy(path, to)


def _site_packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def packed(environment: Path, archive: Path) -> Path:
    """Pack an environment as the documentation tells."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(environment, ".")
    return archive


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master and its workers.

    Attributes
    ----------
    url
        The master's.
    work
        The folder in which executors run, those of a worker below one of its own.
    mark
        What the environment of each process of the cluster holds, and of all that it starts.

    """

    url: str
    work: Path
    mark: str

    def run(
        self, command: list[str], python: str | Path, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a driver; ``python`` is that of the workers. One that is not submitted has one executor."""
        conf = {
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_SUBMIT_ARGS": shlex.join([*self.submit_options(1), "pyspark-shell"]),
            **(env or {}),
        }
        done = subprocess.run(
            command, env={**environment(self.mark), **conf}, cwd=self.work, capture_output=True, text=True, timeout=_WITHIN, check=False
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done

    def submit_options(self, executors: int) -> list[str]:
        """Return what ``spark-submit`` is to be told: so many executors of a core, and no job before all of them are there."""
        java = os.environ.get("SPARK_SUBMIT_OPTS", "").removesuffix(PATIENT)
        settings = {
            "spark.cores.max": str(executors),
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": java,
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
        }
        return ["--master", self.url, *(part for one in settings.items() for part in ("--conf", "=".join(one)))]

    def logs(self) -> str:
        """Return what the executors of the last application wrote to their standard errors, for a failure."""
        last = max((path.name for path in self.work.glob("*/app-*")), default="none")
        return "\n".join(path.read_text()[-4000:] for path in sorted(self.work.glob(f"*/{last}/*/stderr")))


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a master and workers of a core each, and stop them; sees to it that nothing that they started is left."""
    mark = str(uuid.uuid4())
    with ExitStack() as stack:
        stack.callback(_wait_for_ends, mark)
        started = [*("--host", "127.0.0.1"), *("--port", "0"), *("--webui-port", "0")]
        log = stack.enter_context(_daemon(f"{_DAEMON}.master.Master", started, folder / "master.log", mark))
        url = _waited(log, r"Starting Spark master at (spark://\S+)")
        _waited(log, r"(New state: ALIVE)")
        for number in range(workers):
            own = ["--cores", "1", "--memory", "512m", "--work-dir", str(folder / f"worker-{number}"), url]
            name = folder / f"worker-{number}.log"
            log = stack.enter_context(_daemon(f"{_DAEMON}.worker.Worker", [*started, *own], name, mark))
            _waited(log, r"(Successfully registered with master)")
        yield Cluster(url, folder, mark)


@contextmanager
def _daemon(name: str, arguments: list[str], log: Path, mark: str) -> Iterator[Callable[[], str]]:
    """Run one of Spark's daemons in a group of its own; gives what it has logged until now."""
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), name, *arguments],
            env=environment(mark), stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True, cwd=log.parent,
        )  # fmt: skip

    def read() -> str:
        assert process.poll() is None, log.read_text()
        return log.read_text()

    try:
        yield read
    finally:
        process.terminate()
        try:
            process.wait(_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _waited(log: Callable[[], str], pattern: str) -> str:
    deadline = time.monotonic() + _WITHIN
    while (found := re.search(pattern, log())) is None:
        assert time.monotonic() < deadline, log()
        time.sleep(0.1)
    return found.group(1)


def environment(mark: str = "none") -> dict[str, str]:
    """Return what machines of a cluster have: Spark, but neither a Python that has ledgerfs nor anybody's credentials."""
    gone = ("PYSPARK_", "PYTHON", "VIRTUAL_ENV", "SPARK_", "AWS_ACCESS", "AWS_SECRET", "HADOOP_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    # How Java starts is nothing that a machine has to have.
    java = {name: os.environ[name] for name in _OF_JAVA if name in os.environ}
    return {
        **kept,
        **java,
        "SPARK_DAEMON_JAVA_OPTS": java.get("SPARK_SUBMIT_OPTS", ""),
        "PATH": os.defpath if "JAVA_HOME" in kept else f"{os.defpath}:{os.environ['PATH']}",
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        _MARK: mark,
    }


def _wait_for_ends(mark: str) -> None:
    """Wait until no process has the mark: executors and Python workers end when those do that started them."""
    deadline = time.monotonic() + _WITHIN
    while left := _marked(mark):
        if time.monotonic() > deadline:
            for process in left:
                os.kill(process, signal.SIGKILL)
            raise AssertionError(f"processes of the cluster were left: {left}")
        time.sleep(0.1)


def _marked(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:  # it has ended, or is somebody else's
            continue
        if f"{_MARK}={mark}".encode() in environment:
            found.append(int(folder.name))
    return found

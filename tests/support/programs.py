"""One Python process that runs one program after the other, so that they share what takes long to start: imports, Java, Spark's workers.

Each has its own arguments and folder, its own ``__main__`` and session of Spark, and its own output and exit code. A context of Spark
serves the programs that ask for no other settings. Whatever else a program leaves in its process is there for the next one, as in a
notebook.
"""

import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Self

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support.commands import LEDGERFS

ROOT = Path(__file__).parent.parent.parent
SMALL_SESSION = (
    "--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1",
    "--conf", "spark.driver.host=127.0.0.1",
)  # fmt: skip


class Programs:
    """The process; it ends at the end of the ``with``."""

    def __init__(self, env: dict[str, str] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        # Java keeps the standard error that it is started with: what is new in the files is a program's.
        paths = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        self._files = [path.open("w+b", buffering=0) for path in paths]
        self._connection, other = socket.socketpair()
        with other:
            stdout, stderr = (os.open(file.name, os.O_WRONLY | os.O_APPEND) for file in self._files)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(other.fileno())],
                env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, pass_fds=[other.fileno()],
            )  # fmt: skip
            os.close(stdout)
            os.close(stderr)

    def run(
        self, program: str | Path, *arguments: str, folder: Path = ROOT, timeout: float = 1800
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a file of Python; ``timeout`` is in seconds, and ends the process."""
        command = [str(program), *arguments]
        asked = json.dumps({"command": command, "folder": str(folder)}).encode()
        self._connection.sendall(len(asked).to_bytes(4, "big") + asked)
        if not select.select([self._connection], [], [], timeout)[0]:
            self._process.kill()
            raise subprocess.TimeoutExpired(command, timeout, *self._written())
        code = self._connection.recv(4)
        return subprocess.CompletedProcess(
            command, int.from_bytes(code, "big") if code else self._process.wait(), *self._written()
        )

    def command(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
        """Run ``ledgerfs spark`` in a small local session; see to it that it ends with ``code``, and without a traceback."""
        done = self.run(LEDGERFS, "spark", *arguments, *SMALL_SESSION)
        assert done.returncode == code, done
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done

    def _written(self) -> list[bytes]:
        return [file.read() for file in self._files]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.wait(1800)
        for file in self._files:
            file.close()
        self._folder.cleanup()


def _serve(connection: socket.socket) -> None:
    _share_contexts()
    requests = connection.makefile("rb")
    while length := requests.read(4):
        asked = json.loads(requests.read(int.from_bytes(length, "big")))
        code = _run(asked["command"], asked["folder"])
        connection.sendall(code.to_bytes(4, "big"))


def _run(command: list[str], folder: str) -> int:
    """Run one program, and return its exit code."""
    os.chdir(folder)
    _have_java_resolve_paths_in(folder)
    sys.argv[:] = command
    sys.path[0] = str(Path(command[0]).parent)
    code: object = 0
    try:
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001  (as Python ends: with a traceback, and 1)
        traceback.print_exc()
        code = 1
    _renew_session()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout.flush()
    sys.stderr.flush()
    if isinstance(code, str):
        os.write(2, f"{code}\n".encode())
    return code if isinstance(code, int) else int(code is not None)


def _have_java_resolve_paths_in(folder: str) -> None:
    """Have relative paths mean the same to Spark, which keeps the folder that Java was started in."""
    java = SparkContext._jvm
    if java is not None:
        hadoop = java.org.apache.hadoop
        hadoop.fs.FileSystem.getLocal(hadoop.conf.Configuration()).setWorkingDirectory(hadoop.fs.Path(folder))


def _share_contexts() -> None:
    """Have Spark's context go on after a program that stops its session, for the programs whose settings it has.

    Settings of a store are those of the program alone: it may be what is tested that they reach the source.
    """
    stop, get_or_create = SparkSession.stop, SparkSession.Builder.getOrCreate
    fixed: dict[str, str] = {}

    def shared(builder: SparkSession.Builder) -> SparkSession:
        session = SparkSession.getActiveSession()
        asked = {name: str(value) for name, value in builder._options.items() if name != "spark.app.name"}
        if session is not None:
            # The others are the session's own.
            asked = {name: value for name, value in asked.items() if not session.conf.isModifiable(name)}
            others = fixed.keys() - asked.keys()
            if not asked.items() <= fixed.items() or any(name.startswith("spark.hadoop.") for name in others):
                stop(session)
                session = None
        made = get_or_create(builder)
        if session is None:
            fixed.clear()
            fixed.update({name: value for name, value in asked.items() if not made.conf.isModifiable(name)})
        return made

    SparkSession.Builder.getOrCreate = shared  # type: ignore[method-assign]
    SparkSession.stop = lambda _: None  # type: ignore[method-assign]


def _renew_session() -> None:
    """End the jobs of a program, and leave the next one a session without its views, settings and registered sources."""
    session = SparkSession.getActiveSession()
    if session is not None:
        session.sparkContext.cancelAllJobs()
        new = session.newSession()
        SparkSession._instantiatedSession = SparkSession._activeSession = new
        of_java = session._jvm.org.apache.spark.sql.classic.SparkSession
        of_java.setDefaultSession(new._jsparkSession)
        of_java.setActiveSession(new._jsparkSession)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))

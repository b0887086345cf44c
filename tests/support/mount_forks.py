"""Processes that serve mounts, forked from one that has all modules: Python alone would take two seconds to start each.

Each is a process of its own, with its own environment, folder and files, in a session of its own.
"""

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

LIBRARIES = (
    "aiobotocore.session",
    "aiohttp",
    "botocore.args",
    "botocore.signers",
    "fsspec.implementations.local",
    "ledgerfs.fuse_mount.binding",
    "ledgerfs.fuse_mount.daemon",
    "ledgerfs.storage.s3.store",
    "ledgerfs.tables.table_files",
    "lz4.frame",
    "numba.extending",
    "pyarrow.parquet",
    "s3fs",
    "tests.support.matrix",
    "tests.support.mounts",
    "tests.support.tries",
    "zstandard",
)

Constants = Mapping[str, Any]
"""Values of constants by ``module.NAME``."""


class MountProcess:
    """A process that was forked, with pipes as its standard input and output: as much of `subprocess.Popen` as its users need.

    Parameters
    ----------
    entry : str
        ``module:function`` that it calls; what that returns is its exit code.
    arguments
        Those of the function, as JSON has them.
    stderr : int
        Descriptor of its standard error.
    constants : mapping, optional
        Constants of modules that have other values in it.
    environment : mapping, optional
        Its variables; by default those of this process.

    """

    def __init__(
        self,
        entry: str,
        *arguments: Any,
        stderr: int = 2,
        constants: Constants | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        asked = {
            "entry": entry,
            "arguments": arguments,
            "constants": dict(constants or {}),
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(Path.cwd()),
        }
        text = json.dumps(asked).encode()
        given, taken = os.pipe(), os.pipe()
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_server())
        socket.send_fds(self._connection, [len(text).to_bytes(4, "big")], [given[0], taken[1], stderr])
        self._connection.sendall(text)
        os.close(given[0])
        os.close(taken[1])
        self.stdin: IO[bytes] = os.fdopen(given[1], "wb")
        self.stdout: IO[bytes] = os.fdopen(taken[0], "rb")
        self.returncode: int | None = None
        self.pid = self._number()

    def _number(self) -> int:
        line = b""
        while not line.endswith(b"\n"):
            piece = self._connection.recv(1)
            assert piece, "the process that forks others has ended"
            line += piece
        return int(line)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code; raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired("a forked process", timeout or 0)
            self.returncode = self._number()
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def terminate(self) -> None:
        """Send it SIGTERM, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


@cache
def _server() -> str:
    """Start the process to fork from, which ends with this one; returns the path of its socket."""
    path = str(Path(tempfile.mkdtemp()) / "mounts")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    root = Path(__file__).parents[2]
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, str(listener.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    listener.close()

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        Path(path).unlink()
        Path(path).parent.rmdir()

    atexit.register(end)
    return path


def _serve(listener: socket.socket) -> None:
    """Fork a process a connection, and write its number and its exit code there; returns when standard input is closed."""
    running: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    return
                if key.fd in running:
                    selector.unregister(key.fd)
                    process, connection = running.pop(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(process, 0)
                    _write(connection, os.waitstatus_to_exitcode(status))
                    connection.close()
                    continue
                connection, _ = listener.accept()
                length, files, _, _ = socket.recv_fds(connection, 4, 3)
                asked = json.loads(connection.makefile("rb").read(int.from_bytes(length, "big")))
                process = os.fork()
                if not process:
                    selector.close()
                    for other in (listener, connection, *(kept for _, kept in running.values())):
                        other.close()
                    for handle in running:
                        os.close(handle)
                    _become(asked, files)
                for file in files:
                    os.close(file)
                handle = os.pidfd_open(process)
                running[handle] = process, connection
                selector.register(handle, selectors.EVENT_READ)
                _write(connection, process)


def _write(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for this one
        connection.sendall(b"%d\n" % number)


def _become(asked: dict[str, Any], files: list[int]) -> None:
    """Be the process that was asked for, to its end."""
    code = 1
    try:
        os.setsid()
        for at, file in enumerate(files):
            os.dup2(file, at)
            os.close(file)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, closefd=False, errors="backslashreplace")  # noqa: SIM115
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        for name, value in asked["constants"].items():
            module, _, attribute = name.rpartition(".")
            setattr(import_module(module), attribute, value)
        module, _, function = asked["entry"].partition(":")
        code = getattr(import_module(module), function)(*asked["arguments"]) or 0
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001  (shown as at the end of any program)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    import gc

    for library in LIBRARIES:
        import_module(library)
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))

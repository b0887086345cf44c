"""Processes of commands and mounts that cost no imports: they are forked from one that has all modules, and the kernels that are kept.

Each is a process of its own, with its own arguments, environment, folder, files and exit code. What commands import by themselves is what
``tests/cli/test_lazy_commands.py`` is about. That an interpreter takes itself apart without a word is seen where commands are started as
users start them: here it would take ten times as long as most commands, for all that was forked with it.
"""

import atexit
import contextlib
import json
import os
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Self

# What these say is read once: when the interpreter, a library or a module starts.
READ_AT_START = (
    "PYTHON", "LC_", "LANG", "LD_", "MALLOC", "FSSPEC", "NUMBA", "OMP", "OPENBLAS", "COVERAGE", "LEDGERFS_CACHE_BYTES",
)  # fmt: skip
LIBRARIES = (
    "click", "rich.console", "rich.table", "rich.progress", "fsspec.implementations.local", "fsspec.implementations.memory",
    "fsspec.asyn", "s3fs", "aiobotocore.session", "botocore.args", "botocore.signers", "aiohttp", "cachetools", "cramjam", "lz4.frame",
    "numba.extending", "llvmlite.binding", "numpy", "zstandard", "pyarrow.parquet", "pyarrow.csv", "pyarrow.compute", "pyarrow.ipc",
    "google.protobuf.message", "multiprocessing.pool", "concurrent.futures",
)  # fmt: skip
ROOMS_OF_OTHERS = ("spark", "fuse_mount", "testing")
"""Rooms of ledgerfs that the commands which are forked have no use for."""
COMMAND = "ledgerfs.cli:main"
"""What a process runs as ``module:function``, if nothing else is named. The module is imported before the fork."""


def can_be_forked(environment: dict[str, str]) -> bool:
    """Whether a command in this environment would begin as the process that is forked began."""
    return _read_at_start(environment) == _server().environment


def run_forked(
    command: str,
    arguments: tuple[str, ...],
    env: dict[str, str],
    timeout: float,
    *,
    given: bytes = b"",
    file_size: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run the command of this name, and return its output, as ``subprocess.run`` does.

    Parameters
    ----------
    given
        What it reads on standard input.
    file_size
        How large its files may become, in bytes.

    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(given)
        stdin.seek(0)
        files = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        with Forked(command, arguments, env, files, file_size) as process:
            code = process.wait(timeout)
        texts = [os.pread(file, os.fstat(file).st_size, 0) for file in files[1:]]
    return subprocess.CompletedProcess([command, *arguments], code, *texts)


class Forked:
    """A command that runs, for ``with``: at the end it is killed if it still does.

    ``files`` are its standard input, output and error, ``entry`` is what it runs, as `COMMAND` is.

    Attributes
    ----------
    pid
        Number of the process.
    returncode
        Its exit code, once that was asked for.

    """

    def __init__(
        self,
        command: str,
        arguments: tuple[str, ...],
        env: dict[str, str],
        files: tuple[int, int, int],
        file_size: int | None = None,
        entry: str = COMMAND,
    ) -> None:
        self._line = [command, *arguments]
        folder = str(Path.cwd())
        asked = {"entry": entry, "arguments": self._line, "env": env, "folder": folder, "file_size": file_size}
        text = json.dumps(asked).encode()
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_server().path)
        socket.send_fds(self._connection, [len(text).to_bytes(4, "big")], files)
        self._connection.sendall(text)
        self.pid = self._answer()
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._connection.close()

    def wait(self, timeout: float = 300) -> int:
        """Return its exit code; one that takes longer is killed, which is an error."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                self.kill()
                raise subprocess.TimeoutExpired(self._line, timeout)
            self.returncode = self._answer()
        return self.returncode

    def poll(self) -> int | None:
        """Return its exit code; None if it still runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.returncode = self._answer()
        return self.returncode

    def _answer(self) -> int:
        """Return the next number, and nothing that follows it: `select` knows only what is not read yet."""
        line = b""
        while not line.endswith(b"\n"):
            piece = self._connection.recv(1)
            assert piece, "the process that forks commands has ended"
            line += piece
        return int(line)

    def send_signal(self, number: int) -> None:
        """Send it a signal, as `subprocess.Popen` does: not if it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, if it still runs."""
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)


class Piped(Forked):
    """A command with pipes, ``stdin`` and ``stdout``, as ``subprocess.Popen`` has them."""

    def __init__(self, command: str, arguments: tuple[str, ...], env: dict[str, str], stderr: int, entry: str) -> None:
        given, taken = os.pipe(), os.pipe()
        super().__init__(command, arguments, env, (given[0], taken[1], stderr), entry=entry)
        os.close(given[0])
        os.close(taken[1])
        self.stdin, self.stdout = os.fdopen(given[1], "wb"), os.fdopen(taken[0], "rb")

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.stdin.close()
        self.stdout.close()


@dataclass(frozen=True, slots=True)
class _Server:
    path: str
    environment: dict[str, str]


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


@cache
def _server() -> _Server:
    """Start the process to fork from, which ends with this one."""
    path = str(Path(tempfile.mkdtemp()) / "commands")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, str(listener.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        cwd=Path(__file__).parent.parent.parent,
    )
    listener.close()

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        Path(path).unlink()
        Path(path).parent.rmdir()

    atexit.register(end)
    return _Server(path, _read_at_start(os.environ))


def _serve(listener: socket.socket) -> Callable[[], object]:
    """Fork a process a connection and tell its id and exit code there; return in each that is forked what it runs."""
    running: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    os._exit(0)
                elif key.fd in running:
                    selector.unregister(key.fd)
                    process, connection = running.pop(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(process, 0)
                    _tell(connection, os.waitstatus_to_exitcode(status))
                    connection.close()
                else:
                    connection, _ = listener.accept()
                    length, files, _, _ = socket.recv_fds(connection, 4, 3)
                    asked = json.loads(connection.makefile("rb").read(int.from_bytes(length, "big")))
                    module, _, function = asked["entry"].partition(":")
                    main: Callable[[], object] = getattr(import_module(module), function)
                    process = os.fork()
                    if not process:
                        selector.close()
                        for other in (listener, connection, *(kept for _, kept in running.values())):
                            other.close()
                        for ended in running:
                            os.close(ended)
                        _become(asked, files)
                        return main
                    for file in files:
                        os.close(file)
                    handle = os.pidfd_open(process)
                    running[handle] = process, connection
                    selector.register(handle, selectors.EVENT_READ)
                    _tell(connection, process)


def _tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # of a test that has given up
        connection.sendall(b"%d\n" % number)


def _become(asked: dict[str, object], files: list[int]) -> None:
    """Take on the arguments, environment, folder and files of a command."""
    for at, file in enumerate(files):
        os.dup2(file, at)
        os.close(file)
    # The interpreter's own remember what kind of file they began with.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False, errors=sys.stdout.errors)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    os.environ.clear()
    os.environ.update(asked["env"])  # type: ignore[call-overload]
    os.chdir(str(asked["folder"]))
    if asked["file_size"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["file_size"],) * 2)  # type: ignore[arg-type]
    sys.argv[:] = asked["arguments"]  # type: ignore[call-overload]
    time.tzset()
    # As the installed command begins: with its own folder, not that of whoever starts it.
    sys.path[0] = str(Path(sys.argv[0]).parent)


def _run_to_the_end(main: Callable[[], object]) -> None:
    """Run a command, and end the process as the interpreter does, but without freeing what it has. Unusual ends are left to it."""
    code: object = None
    try:
        main()
    except SystemExit as end:
        code = end.code
    if code is None or isinstance(code, int):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(str(code))


def _load_everything() -> None:
    """Import libraries and what commands import of ledgerfs, and load the kernels that are kept on disk."""
    # As the command itself has it before it imports numba.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    for library in LIBRARIES:
        import_module(library)
    package = Path(__file__).parent.parent.parent / "ledgerfs"
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if not set(ROOMS_OF_OTHERS) & set(parts):
            _load_kernels(import_module(".".join(parts).removesuffix(".__init__")))


def _load_kernels(module: ModuleType) -> None:
    """Load the kernels of a module from the disk, for the types that they were compiled for."""
    from numba.core.dispatcher import Dispatcher

    for kernel in vars(module).values():
        # An inner kernel is compiled into those that call it, and kept with them.
        is_kept = isinstance(kernel, Dispatcher) and hasattr(kernel._cache, "_cache_file")
        if is_kept and kernel.__module__ == module.__name__:
            for signature, *_ in kernel._cache._cache_file._load_index():
                kernel.compile(signature)


if __name__ == "__main__":
    import gc

    _load_everything()
    gc.freeze()
    _run_to_the_end(_serve(socket.socket(fileno=int(sys.argv[1]))))

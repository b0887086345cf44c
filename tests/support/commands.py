"""The command ``ledgerfs`` as a user runs it: a process of its own, its output, its exit code."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.forked import Forked, can_be_forked, run_forked

LEDGERFS = str(Path(sys.executable).parent / "ledgerfs")
SECONDS = 600.0
"""After which a command hangs."""


def run(
    *arguments: str, code: int = 0, env: dict[str, str] | None = None, given: bytes = b"", file_size: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command, and see to it that it ends with ``code`` and without a traceback; more options as `run_forked` has them."""
    environment = {**os.environ, **(env or {})}
    if can_be_forked(environment):
        done = run_forked(LEDGERFS, arguments, environment, SECONDS, given=given, file_size=file_size)
    else:
        assert file_size is None, "only a command that is forked"
        done = subprocess.run(
            [LEDGERFS, *arguments], input=given, capture_output=True, env=environment, timeout=SECONDS, check=False
        )
    assert done.returncode == code, done
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def output(*arguments: str, code: int = 0, env: dict[str, str] | None = None) -> str:
    return run(*arguments, code=code, env=env).stdout.decode()


def on_terminal(*arguments: str, columns: int = 80, env: dict[str, str] | None = None) -> tuple[str, str]:
    """Run a command whose standard output and error are terminals; return what it writes to each."""
    ends = [pty.openpty() for _ in range(2)]
    for _, slave in ends:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", **(env or {})}
    environment.pop("COLUMNS", None)
    with Path(os.devnull).open("rb") as nothing:
        process = _started(arguments, environment, (nothing.fileno(), ends[0][1], ends[1][1]))
    for _, slave in ends:
        os.close(slave)
    # Both are read at once: a terminal holds a few kilobytes that nobody reads.
    with process, ThreadPoolExecutor(2) as readers:
        texts = [readers.submit(_all_of, master) for master, _ in ends]
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        printed, reported = (one.result().decode().replace("\r\n", "\n") for one in texts)
    assert code == 0, (printed, reported)
    return printed, reported


@contextmanager
def running(
    *arguments: str, env: dict[str, str] | None = None, printed: Path | None = None, reported: Path | None = None
) -> Iterator["Forked | subprocess.Popen[bytes]"]:
    """Run a command beside the test, and kill it at the end if it still runs.

    ``printed`` and ``told`` are files for its standard output and error.
    """
    environment = {**os.environ, **(env or {})}
    with ExitStack() as files:
        nothing = files.enter_context(Path(os.devnull).open("r+b"))
        ends = [nothing, *(files.enter_context(path.open("wb")) if path else nothing for path in (printed, reported))]
        stdin, stdout, stderr = (one.fileno() for one in ends)
        process = _started(arguments, environment, (stdin, stdout, stderr))
    with process:
        try:
            yield process
        finally:
            process.kill()


def _started(
    arguments: tuple[str, ...], environment: dict[str, str], files: tuple[int, int, int]
) -> "Forked | subprocess.Popen[bytes]":
    if can_be_forked(environment):
        return Forked(LEDGERFS, arguments, environment, files)
    stdin, stdout, stderr = files
    return subprocess.Popen([LEDGERFS, *arguments], stdin=stdin, stdout=stdout, stderr=stderr, env=environment)


def _all_of(master: int) -> bytes:
    """Read what a terminal is sent until all who write to it have ended."""
    text = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:  # what Linux says at the end of a terminal
            piece = b""
        if not piece:
            os.close(master)
            return text
        text += piece

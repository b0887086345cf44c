"""The command ``ledgerfs`` as a user runs it: a process of its own, its output, its exit code."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from tests.support.forked import can_be_forked, run_forked

LEDGERFS = str(Path(sys.executable).parent / "ledgerfs")


def run(*arguments: str, code: int = 0, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a command, and see to it that it ends with ``code`` and without a traceback."""
    environment = {**os.environ, **(env or {})}
    if can_be_forked(environment):
        done = run_forked(LEDGERFS, arguments, environment, timeout=120)
    else:
        done = subprocess.run([LEDGERFS, *arguments], capture_output=True, env=environment, timeout=120, check=False)
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
    process = subprocess.Popen([LEDGERFS, *arguments], stdout=ends[0][1], stderr=ends[1][1], env=environment)
    for _, slave in ends:
        os.close(slave)
    texts = tuple(_all_of(master).decode().replace("\r\n", "\n") for master, _ in ends)
    assert process.wait(timeout=120) == 0, texts
    return texts[0], texts[1]


def _all_of(master: int) -> bytes:
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

"""Servers that end with whoever started them, in whatever way that is."""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

LEASH = ("setpriv", "--pdeathsig", "KILL", "--")
"""Goes before a command: the kernel kills it when this process is gone, however that came."""


_given: set[int] = set()


class ServerFailedError(Exception):
    """A server ended, or never listened; the text shows the end of its log."""


@dataclass
class Processes:
    """Processes by name, each with a log in ``folder``."""

    folder: Path
    _running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], port: int, seconds: float = 600
    ) -> None:
        """Start a server and wait until it listens on ``port``."""
        self.launch(name, command, environment)
        self.wait_for(name, port, seconds)

    def launch(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a server without waiting for it; only the main thread may, whose end the leash goes by.

        It has a session of its own, so that Ctrl-C leaves it to ``stop_all``.
        """
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*LEASH, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def stop(self, name: str, seconds: float = 120) -> None:
        """Ask a server to end; insist after ``seconds``."""
        process = self._running.pop(name, None)
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self, name: str) -> None:
        """End a server as a crash does."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Stop a server as SIGSTOP does, and let it go on after the ``with``."""
        process = self._running[name]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def is_running(self, name: str) -> bool:
        """Whether a server was started and has not ended."""
        process = self._running.get(name)
        return process is not None and process.poll() is None

    def pid(self, name: str) -> int:
        """Return the process id of a server that was started."""
        return self._running[name].pid

    def exit_code(self, name: str) -> int | None:
        """Return what a server ended with; None while it runs."""
        return self._running[name].poll()

    def stop_all(self) -> None:
        """End all at once; nobody waits for what they still have to say."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()

    def log(self, name: str) -> Path:
        """Return where a server's output goes."""
        return self.folder / f"{name}.log"

    def wait_for(self, name: str, port: int, seconds: float = 600) -> None:
        """Wait until a server listens on ``port``; raises `ServerFailedError` if it ends, or does not."""
        end = time.monotonic() + seconds
        while not _listens(port):
            if self._running[name].poll() is not None or time.monotonic() > end:
                tail = self.log(name).read_text(errors="replace")[-3000:]
                raise ServerFailedError(f"{name} does not listen on port {port}:\n{tail}")
            time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, below those that the kernel hands out to clients.

    None is returned twice, neither here nor by another process that shares these tests: who asks for a port may listen much later.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(15_000 + number, 32_000, processes)
        if port not in _given and not _listens(port) and _can_bind(port):
            _given.add(port)
            found.append(port)
    return found


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

"""Three real ZooKeeper servers on loopback, one quorum; each may be killed, stopped, and kept from its leader."""

import contextlib
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from interop import machine
from interop.cluster import java_command
from interop.links import Link
from interop.processes import Processes, free_ports
from interop.waiting import wait_until

SERVERS = (1, 2, 3)
TICK_MS = 500
"""Sessions live for 1 to 10 s."""

_SETTINGS = {
    "tickTime": TICK_MS,
    "initLimit": 60,
    # A follower that hears nothing of its leader serves what it has for a minute, and a leader believes that long that it leads.
    "syncLimit": 120,
    "4lw.commands.whitelist": "srvr",
}
_OPTIONS = ["-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024", "-Dreadonlymode.enabled=true"]


@dataclass
class Ensemble:
    """The servers, which are called 1 to 3; all that they write is below ``folder``."""

    folder: Path
    processes: Processes
    _ports: list[int] = field(default_factory=lambda: free_ports(3 * len(SERVERS)))
    _to_others: dict[tuple[int, int], Link] = field(default_factory=dict)

    def start(self) -> None:
        """Start all, and wait until they have a leader."""
        for one in SERVERS:
            for other in SERVERS:
                if one != other:
                    # Who follows a leader that does not listen yet, and is sent away, is not waited for again for `initLimit`.
                    self._to_others[one, other] = Link(self._quorum_port(other), patience_s=5)
        for one in SERVERS:
            self._launch(one)
        self.wait_until_whole()

    def close(self) -> None:
        """End all."""
        for one in SERVERS:
            self.processes.stop(self._name(one), seconds=0)
        for link in self._to_others.values():
            link.close()

    def client_port(self, server: int) -> int:
        """Return where clients connect to a server."""
        return self._ports[server - 1]

    def address(self, *servers: int) -> str:
        """Return the addresses of servers, in this order, as clients have them."""
        return ",".join(f"127.0.0.1:{self.client_port(one)}" for one in servers)

    def log(self, server: int) -> str:
        """Return what a server has said."""
        return self.processes.log(self._name(server)).read_text(errors="replace")

    # What they are.

    def mode(self, server: int) -> str:
        """Return ``leader``, ``follower``, ``read-only``, or nothing for a server that serves nobody."""
        reported = self._reported(server)
        found = re.search(r"^Mode: (\S+)", reported, re.MULTILINE)
        return found[1] if found else ""

    def leader(self) -> int:
        """Return which server leads; raises `StopIteration` if none does."""
        return next(one for one in SERVERS if self.is_up(one) and self.mode(one) == "leader")

    def followers(self) -> list[int]:
        """Return those that follow."""
        return [one for one in SERVERS if self.is_up(one) and self.mode(one) == "follower"]

    def is_up(self, server: int) -> bool:
        """Whether a server was started and has not ended."""
        return self.processes.is_running(self._name(server))

    def wait_until_whole(self) -> None:
        """Wait until one leads, and all others follow."""
        wait_until(
            lambda: sorted(map(self.mode, SERVERS)) == ["follower", "follower", "leader"], "a whole ensemble", 90
        )

    # What is done to them.

    def kill(self, *servers: int) -> None:
        """End servers as crashes do."""
        for one in servers:
            self.processes.kill(self._name(one))

    def restart(self, *servers: int) -> None:
        """Start servers that were ended, with what is on their disks, and wait until all have a leader."""
        for one in servers:
            self._launch(one)
        self.wait_until_whole()

    @contextmanager
    def paused(self, server: int) -> Iterator[None]:
        """Stop a server as SIGSTOP does."""
        with self.processes.paused(self._name(server)):
            yield

    @contextmanager
    def behind(self, *followers: int) -> Iterator[None]:
        """Have followers hear nothing of their leader, and the leader nothing of them: they answer reads with what they have."""
        with ExitStack() as held:
            for (one, _), link in self._to_others.items():
                if one in followers:
                    held.enter_context(link.held())
            yield

    @contextmanager
    def deposed(self, leader: int) -> Iterator[None]:
        """Have the followers of a leader elect another one, which the first one does not notice during the ``with``."""
        links = [link for (_, other), link in self._to_others.items() if other == leader]
        try:
            for link in links:
                link.abandon()
            others = [one for one in SERVERS if one != leader]
            wait_until(lambda: "leader" in map(self.mode, others), "another leader", 60)
            yield
        finally:
            for link in links:
                link.target = self._quorum_port(leader)
                link.cut()

    # Within.

    def _launch(self, server: int) -> None:
        folder = self.folder / self._name(server)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "myid").write_text(f"{server}\n")
        settings = {**_SETTINGS, "dataDir": folder, "clientPort": self.client_port(server)}
        for other in SERVERS:
            quorum = self._quorum_port(other) if other == server else self._to_others[server, other].port
            settings[f"server.{other}"] = f"127.0.0.1:{quorum}:{self._ports[6 + other - 1]}"
        path = self.folder / f"{self._name(server)}.conf"
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        path.write_text((machine.HERE / "conf" / "zookeeper.conf").read_text() + lines)
        command = java_command("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(path), heap="128m")
        command[1:1] = _OPTIONS
        self.processes.launch(self._name(server), command, {})

    def _reported(self, server: int) -> str:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.client_port(server)), 2) as asked,
        ):
            asked.sendall(b"srvr")
            return b"".join(iter(lambda: asked.recv(4096), b"")).decode(errors="replace")
        return ""

    def _quorum_port(self, server: int) -> int:
        return self._ports[3 + server - 1]

    @staticmethod
    def _name(server: int) -> str:
        return f"zookeeper{server}"


def orders() -> Sequence[tuple[int, ...]]:
    """Return the servers in different orders, as clients are told them."""
    return ((1, 2, 3), (3, 1, 2), (2, 3, 1))

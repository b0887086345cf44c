"""Services of the lifecycle as processes: that end by themselves, or are held at one point of their work."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from kazoo.client import KazooClient

from interop.live_cluster import LiveCluster
from interop.processes import LEASH
from interop.s3_server import BUCKET
from interop.waiting import wait_until
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH

LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))
_REPOSITORY = Path(__file__).parents[1]
_PATIENCE_S = 120


@dataclass(frozen=True)
class Ended:
    """How a service ended, and what it said."""

    code: int
    said: str


@dataclass
class Running:
    """A service that runs; what it says is in ``folder``."""

    folder: Path
    process: "subprocess.Popen[bytes]"

    @property
    def said(self) -> str:
        """All that it has said."""
        return (self.folder / "said").read_text()

    def wait_until_held(self) -> None:
        """Wait until it has come to its point; raises `AssertionError` if it ends before."""

        def is_held() -> bool:
            assert self.process.poll() is None, self.said
            return (self.folder / "reached").exists()

        wait_until(is_held, "the service is at its point", _PATIENCE_S)

    def go(self) -> None:
        """Let it go on."""
        (self.folder / "go").touch()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()

    def ended(self) -> Ended:
        """Wait until it has ended by itself."""
        code = self.process.wait(_PATIENCE_S)
        return Ended(code, self.said)


@dataclass(frozen=True)
class Services:
    """Starts services for a cluster; what they write is below ``folder``."""

    live: LiveCluster
    folder: Path

    def policy(self, match: str, **wishes: str) -> Path:
        """Write a policy for the topics of some namespaces; return where it is."""
        lines = "\n".join(f'{name} = "{value}"' for name, value in wishes.items())
        path = Path(mkdtemp(dir=self.folder)) / "policy.toml"
        path.write_text(
            f"""
            cluster = "pulsar+zk://{self.live.cluster.zookeeper}"
            admin = "{self.live.cluster.admin.address}"
            [service]
            every = "1s"
            [defaults]
            trash_grace = "0s"
            via = "direct"
            [buckets.tier]
            url = "s3://{BUCKET}"
            bucket = "{BUCKET}"
            region = "us-east-1"
            endpoint = "{self.live.s3.endpoint}"
            block_size = "5MiB"
            [[topics]]
            match = "{match}/.*"
            bucket = "tier"
            {lines}
            """
        )
        return path

    def run(self, policy: Path) -> None:
        """Have a service do once what is due; raises `AssertionError` for another exit code than 0."""
        self.wait_until_free()
        with self._started(LEDGERFS, "lifecycle", "run", str(policy), "--once", "--yes") as service:
            ended = service.ended()
        assert ended.code == 0, ended.said

    @contextmanager
    def held(self, point: str, policy: Path) -> Iterator[Running]:
        """Lend a service that is held at a point (`interop.held_service`), once it is there."""
        self.wait_until_free()
        arguments = ["lifecycle", "run", str(policy), "--once", "--yes"]
        with self._started(sys.executable, "-m", "interop.held_service", "FOLDER", point, *arguments) as service:
            service.wait_until_held()
            yield service

    def wait_until_free(self) -> None:
        """Wait until nobody has the lock: that of a service that was killed is there as long as its session."""
        with self.live.unrecorded() as nodes:
            wait_until(lambda: is_free(nodes), "nobody has the lock")

    @contextmanager
    def _started(self, *command: str) -> Iterator[Running]:
        folder = Path(mkdtemp(dir=self.folder))
        reported = [str(folder) if one == "FOLDER" else one for one in command]
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [*LEASH, *reported], stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, cwd=_REPOSITORY
            )
        try:
            yield Running(folder, process)
        finally:
            process.kill()
            process.wait()


def is_free(nodes: KazooClient) -> bool:
    """Whether nobody has the lock."""
    return nodes.exists(LOCK_PATH) is None

"""A real Pulsar with three bookies that is read while it lives, and that notices nothing of it but reads.

Bookies are known by addresses at which we record what they are sent. Brokers look the name of a bookie up, and find it where it listens;
ledgerfs takes it as it is. So all that passes here is of ledgerfs, from whatever process of it.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from interop.cluster import Cluster
from interop.processes import Processes
from interop.recording import (
    BookieRequest,
    Recorder,
    ZooKeeperRequest,
    bookie_requests,
    is_read,
    zookeeper_requests,
)
from interop.s3_server import CREDENTIALS, S3Server
from interop.stages import stage
from interop.waiting import wait_until
from interop.workload import make_tenant

_BOOKIES = 3
_SETTINGS: dict[str, dict[str, object]] = {
    "broker": {
        # Entries are striped over all bookies, two copies of each; ledgers are short, and all of this is over soon.
        "managedLedgerDefaultEnsembleSize": 3,
        "managedLedgerDefaultWriteQuorum": 2,
        "managedLedgerDefaultAckQuorum": 2,
        "managedLedgerMaxEntriesPerLedger": 250,
        "managedLedgerOffloadDeletionLagMs": 1000,
        "metadataStoreSessionTimeoutMillis": 5000,
    },
    # A bookie forgets what is deleted at its next collection of garbage.
    # Nobody but brokers and readers is to do anything: repairs of BookKeeper's own would change and fence ledgers when a bookie crashes.
    "bookie": {
        "autoRecoveryDaemonEnabled": "false",
        "zkTimeout": 4000,
        "gcWaitTime": 2000,
        "gcOverreplicatedLedgerWaitTime": 3_600_000,
    },
}


class Znode(NamedTuple):
    """A node as ZooKeeper has it: that its transactions are the same tells that nobody touched it."""

    data: bytes
    version: int
    modified_zxid: int
    children_version: int
    children_zxid: int


@dataclass
class LiveCluster:
    """The servers, and recorders before them."""

    cluster: Cluster
    s3: S3Server
    bookies: list[Recorder]
    zookeeper: Recorder
    away: set[int] = field(default_factory=set)

    @property
    def url(self) -> str:
        """The cluster's URL for ledgerfs."""
        return f"pulsar+zk://{self.zookeeper.address}"

    def kill_bookie(self, number: int) -> None:
        """End a bookie as a crash does."""
        self.cluster.processes.kill(f"bookie{number}")
        self.bookies[number].stop()
        self.away.add(number)

    def start_bookie(self, number: int) -> None:
        """Start a killed bookie, as soon as ZooKeeper has forgotten the dead one."""
        path = f"/ledgers/available/{self.bookies[number].address}"
        with self.unrecorded() as client:
            wait_until(lambda: client.exists(path) is None, f"{path} is gone")
            self.cluster.start_bookie(number)
            wait_until(lambda: client.exists(path) is not None, f"{path} is there")
        self.bookies[number].start()
        self.away.discard(number)

    def kill_broker(self) -> None:
        """End the broker as a crash does, and wait until the cluster has forgotten it: from then on nothing in it changes."""
        self.cluster.processes.kill("broker")
        with self.unrecorded() as client:
            # ZooKeeper removes this folder when the broker's session is over, and then those above it.
            wait_until(lambda: client.exists("/loadbalance/brokers") is None, "the broker's session is over")
        wait_until(self._is_quiet, "the cluster is quiet")

    def znodes(self) -> dict[str, Znode]:
        """Return all nodes that outlive a session."""
        with self.unrecorded() as client:
            found: dict[str, Znode] = {}
            level = ["/"]
            while level:
                pending = [(path, client.get_async(path), client.get_children_async(path)) for path in level]
                level = []
                for path, got, children in pending:
                    try:
                        data, stat = got.get()
                        names = children.get()
                    except NoNodeError:
                        continue
                    if not stat.ephemeralOwner:
                        found[path] = Znode(data, stat.version, stat.mzxid, stat.cversion, stat.pzxid)
                    level += [f"{path.rstrip('/')}/{name}" for name in names]
            return found

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Compare all nodes of a quiet cluster before and after."""
        before = self.znodes()
        yield
        after = self.znodes()
        assert len(before) > 100
        paths = before.keys() | after.keys()
        changed = {path: (before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path)}
        assert not changed, changed

    def requests(self) -> Counter[BookieRequest | ZooKeeperRequest]:
        """Return what bookies and ZooKeeper were asked, and how often."""
        asked: Counter[BookieRequest | ZooKeeperRequest] = Counter(zookeeper_requests(self.zookeeper))
        for bookie in self.bookies:
            asked.update(bookie_requests(bookie))
        return asked

    def ledgers_asked_for(self) -> set[int]:
        """Return the ledgers of which bookies were asked for entries."""
        return {one.ledger_id for one in self.requests() if isinstance(one, BookieRequest)}

    def require_only_reads(self) -> None:
        """Raise if anything was sent that is no read."""
        others = {request: count for request, count in self.requests().items() if not is_read(request)}
        assert others == {}

    @contextmanager
    def unrecorded(self) -> Iterator[KazooClient]:
        """Lend a client that is not recorded."""
        client = KazooClient(self.cluster.zookeeper)
        client.start(timeout=60)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def _is_quiet(self) -> bool:
        before = self.znodes()
        time.sleep(1.5)
        return self.znodes() == before


def _started(folder: Path, broker: Mapping[str, object] | None) -> LiveCluster:
    """Start everything, the broker with settings besides the usual ones."""
    folder.mkdir()
    processes = Processes(folder)
    bookies = [Recorder() for _ in range(_BOOKIES)]
    settings = {**_SETTINGS, "broker": {**_SETTINGS["broker"], **(broker or {})}}
    cluster = Cluster(folder / "pulsar", processes, [one.address for one in bookies], settings)
    s3 = S3Server("s3", folder / "s3", processes)
    zookeeper = Recorder(int(cluster.zookeeper.rpartition(":")[2]))
    made = LiveCluster(cluster, s3, bookies, zookeeper)
    try:
        cluster.start(s3.start())
    except BaseException:
        processes.stop_all()
        raise
    for number, bookie in enumerate(bookies):
        bookie.target_port = cluster.bookie_port(number)
    for one in (zookeeper, *bookies):
        one.start()
    return made


@contextmanager
def lent_live_cluster(folder: Path, broker: Mapping[str, object] | None = None) -> Iterator[LiveCluster]:
    """Start everything, with the tenant of the namespaces, and the bucket's credentials in the environment; end all servers afterwards."""
    with stage(f"{folder.name}: start Pulsar"):
        made = _started(folder, broker)
    try:
        make_tenant(made.cluster)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in CREDENTIALS.items():
                patch.setenv(name, value)
            yield made
    finally:
        made.cluster.processes.stop_all()
        for one in (made.zookeeper, *made.bookies):
            one.stop()

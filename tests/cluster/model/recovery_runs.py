"""Runs of ``ledgerfs recover run`` into one new cluster: ended anywhere, met by others, replaced in the middle, as operators start them.

What a run is told is what the command makes of its options (`lost_of`). After those that may fail there is one that may not.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import click
import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.writing.copy_ledgers import copy_ledgers
from ledgerfs_cluster.cli.recover.request import lost_of
from ledgerfs_cluster.errors import LockHeldError
from ledgerfs_cluster.offload.offload_driver import driver_of_bucket
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster
from ledgerfs_cluster.recovery.new_cluster import NewCluster
from ledgerfs_cluster.recovery.recovery import Lost, run
from ledgerfs_cluster.recovery.report import Outcome, Report
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH, ClusterLock
from tests.cluster.model.service_requests import ALL, CHANGES, Died, Requests, met_at
from tests.cluster.support.live_clusters import LiveCluster
from tests.cluster.support.living_clusters import living
from tests.cluster.support.pulsar_settings import PulsarSettings
from tests.cluster.support.zookeeper import WriteFault


@dataclass(frozen=True, slots=True)
class Asked:
    """What an operator asks for: options of the command."""

    dump: str | None = None
    no_dump: bool = False
    disks: str | None = None
    topics: tuple[str, ...] = ()
    template: str = ""
    new_ids: bool = False

    def options(self) -> dict[str, object]:
        """Return those that tell of the lost cluster."""
        return {name: getattr(self, name) for name in ("dump", "no_dump", "topics", "template")}


@dataclass(frozen=True, slots=True)
class Done:
    """How a run ended, and the dump that it took."""

    report: Report
    dump: DumpedCluster | None
    dump_name: str | None


@dataclass
class RecoveryRuns:
    """See the module.

    Attributes
    ----------
    restored
        {managed ledger in the new cluster}, of those that a run has told to be restored: one run, once.
    snapshots
        {topic: the last snapshot of its aborted transactions}.

    """

    bucket: str
    new: LiveCluster
    brokers: PulsarSettings
    chance: random.Random
    history: list[str]
    restored: set[str] = field(default_factory=set)
    snapshots: dict[str, bytes] = field(default_factory=dict)

    def to_the_end(self, asked: Asked) -> Done:
        """Have some runs that may end anywhere, then one that may not, and return how that ended."""
        for _ in range(self.chance.choice([0, 0, 1, 1, 2, 3])):
            how: Callable[[Asked], None] = self.chance.choice(
                [self._expired, self._killed, self._killed, self._met, self._replaced, self._of_some]
            )
            self.history.append(how.__name__)
            how(asked)
        return self._run(asked)

    def _expired(self, asked: Asked) -> None:
        fault = self.chance.choice([WriteFault.EXPIRED_BEFORE, WriteFault.EXPIRED_AFTER])
        self.new.zookeeper.write_faults.extend([WriteFault.NONE] * self.chance.randint(0, 9) + [fault])
        try:
            self._tried(asked)
        finally:
            self.new.zookeeper.write_faults.clear()

    def _of_some(self, asked: Asked) -> None:
        self._tried(replace(asked, topics=("public/[^/]*/[ap].*",)))

    def _killed(self, asked: Asked) -> None:
        """End the process; its session, and its lock, stay until they expire."""
        requests = self._at_any(dies=True)
        with met_at(requests), _locks_stay(requests):
            self._tried(asked)
            is_held = self._is_locked()
            requests.is_dead, requests.dies_at = False, -1
            if is_held:
                with pytest.raises(LockHeldError):
                    self._run(asked)
            self.new.zookeeper.expire_owner(LOCK_PATH)

    def _met(self, asked: Asked) -> None:
        """Have a second run begin in the middle of one."""
        requests = self._at_any()
        requests.act = lambda: self._second(asked)
        with met_at(requests):
            self._tried(asked)

    def _replaced(self, asked: Asked) -> None:
        """Have the session of a run end in the middle, and another run to its end; then the first one goes on."""
        requests, reports = self._at_any(), self.chance.random() < 0.5

        def act() -> None:
            self.new.zookeeper.expire_owner(LOCK_PATH)
            if reports:
                self.new.zookeeper.drop_connections()
            self._second(asked)

        requests.act = act
        with met_at(requests):
            self._tried(asked)

    def _second(self, asked: Asked) -> None:
        is_held = self._is_locked()
        try:
            self._run(asked)
        except LockHeldError:
            assert is_held, "refused a lock that nobody has"
        else:
            assert not is_held, "two runs at once"

    def _tried(self, asked: Asked) -> None:
        try:
            self._run(asked)
        except (LedgerfsError, Died) as error:
            self.history.append(f"ended: {type(error).__name__}")

    def _run(self, asked: Asked) -> Done:
        with click.Context(click.Command("recover")) as context, living(self.new) as cluster:
            what = lost_of(context, open_bucket(self.bucket), asked.options(), cluster)
            if asked.disks is not None:
                self._copy_from_disks(asked.disks, what)
            driver, new_ids = driver_of_bucket("aws-s3", "tier"), asked.new_ids
            into = NewCluster(cluster, self.brokers.requests, driver, publish=self._published, gives_new_ids=new_ids)
            report = run(what, into, _untold, _unsaid)
            for one in report.topics:
                if one.outcome is Outcome.RESTORED:
                    assert one.target not in self.restored, f"{one.target} is restored twice"
                    self.restored.add(one.target)
            return Done(report, what.dump, what.dump_name)

    def _copy_from_disks(self, url: str, what: Lost) -> None:
        """Copy what only disks have, as `ledgerfs offload` does; what cannot be copied stays away."""
        disks = open_bucket(url, {"metadata": what.dump_name, "open_end": "recovered"})
        topics = [topic_of(name) for name in disks.refresh().managed_ledgers if name is not None]
        if topics:
            copy_ledgers(disks, what.bucket, topics=topics, allow_incomplete=True)

    def _published(self, topic: str, key: str, data: bytes) -> None:
        assert topic.endswith("/__transaction_buffer_snapshot")
        self.snapshots[key] = data

    def _at_any(self, *, dies: bool = False) -> Requests:
        kinds, count = self.chance.choice([(ALL, 300), (CHANGES, 40)])
        at = self.chance.randrange(count)
        return Requests(dies_at=at, kinds=kinds) if dies else Requests(at=at, kinds=kinds)

    def _is_locked(self) -> bool:
        return self.new.zookeeper.get(self.new.chroot + LOCK_PATH) is not None


@contextmanager
def _locks_stay(requests: Requests) -> Iterator[None]:
    """Have nobody give back the lock of a process that is killed, before the end of the block."""
    left: list[ClusterLock] = []
    release = ClusterLock.release
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterLock, "release", lambda self: left.append(self) if requests.is_dead else release(self))
        yield
    for one in left:
        one.release()


def _untold(what: str, done: int, total: int | None) -> None:
    """Take progress."""


def _unsaid(what: str) -> None:
    """Take what is said."""

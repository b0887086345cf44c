"""Watching a cluster while anything may happen to it: lists, BookKeeper's copies, the journal, objects, and who has the lock.

What is seen to be gone was gone before, so nothing that is said here to be gone in time was deleted too early by more than one look.
"""

import json
import re
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from interop.live_cluster import LiveCluster
from interop.surveys import ledgers_of
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.offload.journal import ROOT, JournalRecord, RecordKind, parse_record
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH
from ledgerfs_cluster.zookeeper.node import Node

_EVERY_S = 0.2
_DELETED = re.compile(r"(?:closed & deleted ledger|Delete complete for empty ledger) (\d+)")


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock, held by one session: the process that its node tells, and when the node was made, ms since 1970 UTC."""

    session: int
    pid: int
    since_ms: int


@dataclass
class Watcher:
    """Notes what is seen, and when it was missed first, ms since 1970 UTC.

    Attributes
    ----------
    seen, gone_ms
        The ledgers that each topic listed, as they were seen last, and when its list was first seen without them.
    copies_gone_ms
        When ledgers were first seen to be gone from BookKeeper.
    marked_ms
        When what is marked was seen first, by its path; and ``marked``, its record.
    objects_gone_ms
        When objects were first seen to be gone.
    attempts
        Names of the data objects of attempts to offload that the service noted.
    locks
        Who had the lock, one after the other.
    failures
        What ended a look; the next one is made anew.

    """

    live: LiveCluster
    seen: dict[str, dict[int, LedgerInfo]] = field(default_factory=dict)
    gone_ms: dict[str, dict[int, int]] = field(default_factory=dict)
    copies_gone_ms: dict[int, int] = field(default_factory=dict)
    marked: dict[str, JournalRecord] = field(default_factory=dict)
    marked_ms: dict[str, int] = field(default_factory=dict)
    objects_gone_ms: dict[str, int] = field(default_factory=dict)
    attempts: set[str] = field(default_factory=set)
    locks: list[HeldLock] = field(default_factory=list)
    looks: int = 0
    failures: list[str] = field(default_factory=list)
    _objects: set[str] = field(default_factory=set)
    _ending: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self, names: list[str]) -> Iterator[None]:
        """Watch until the end of the ``with``."""
        thread = threading.Thread(target=self._watch, args=(names,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()

    def _watch(self, names: list[str]) -> None:
        with self.live.unrecorded() as nodes:
            while not self._ending.wait(_EVERY_S):
                try:
                    self._look_all(nodes, names)
                except (KazooException, OSError) as error:
                    self.failures.append(repr(error))
                else:
                    self.looks += 1

    def _look_all(self, nodes: KazooClient, names: list[str]) -> None:
        for topic in names:
            with suppress(NoNodeError):
                self._look(topic, {one.ledger_id: one for one in ledgers_of(nodes, topic)})
        self._look_at_copies(nodes)
        self._look_at_journal(nodes)
        self._look_at_objects()
        self._look_at_lock(nodes)

    def _look(self, topic: str, now: dict[int, LedgerInfo]) -> None:
        seen = self.seen.setdefault(topic, {})
        gone = self.gone_ms.setdefault(topic, {})
        for ledger_id in seen.keys() - now.keys() - gone.keys():
            gone[ledger_id] = now_ms()
        seen.update(now)

    def _look_at_copies(self, nodes: KazooClient) -> None:
        ids = [one for listed in self.seen.values() for one in listed if one not in self.copies_gone_ms]
        asked = [(one, nodes.exists_async(ledger_path(one))) for one in ids]
        for one, answer in asked:
            if answer.get(30) is None:
                self.copies_gone_ms[one] = now_ms()

    def _look_at_journal(self, nodes: KazooClient) -> None:
        for one in records_now(nodes):
            if one.is_marked:
                self.marked[one.path] = one
                self.marked_ms.setdefault(one.path, one.noted_ms)
            else:
                self.attempts.add(one.key.data_key)
        for one in self.marked.values():
            is_known = one.kind is not RecordKind.ORPHAN or one.ledger_id in self.copies_gone_ms
            if not is_known and nodes.exists(ledger_path(one.ledger_id)) is None:
                self.copies_gone_ms[one.ledger_id] = now_ms()

    def _look_at_objects(self) -> None:
        now = self.live.s3.names()
        self.objects_gone_ms.update(dict.fromkeys(self._objects - now, now_ms()))
        self._objects = now

    def _look_at_lock(self, nodes: KazooClient) -> None:
        held = lock_of(nodes)
        if held is not None and (not self.locks or self.locks[-1].session != held.session):
            self.locks.append(held)

    # What went too early.

    def copies_gone_early(self, names: Sequence[str], lag_ms: int) -> list[str]:
        """Return what is said against copies that BookKeeper lost of topics of which nothing is trimmed."""
        found = []
        for topic in names:
            for one in self.seen[topic].values():
                gone_ms = self.copies_gone_ms.get(one.ledger_id)
                if gone_ms is None or not one.entries:
                    # A broker that loads a topic forgets a last ledger that has no entries.
                    continue
                offloaded_ms = one.context.offloaded_ms if one.is_offloaded and one.context else None
                if offloaded_ms is None:
                    found.append(f"{topic}: ledger {one.ledger_id} is gone from BookKeeper, and not offloaded")
                elif gone_ms < offloaded_ms + lag_ms:
                    found.append(
                        f"{topic}: ledger {one.ledger_id} is gone {gone_ms - offloaded_ms} ms after its offload"
                    )
        return found

    def marked_gone_early(self, grace_ms: int, by_brokers: Collection[int] = ()) -> list[str]:
        """Return the deletions before the grace of their record was over, without ledgers that brokers deleted.

        A ledger that failed, of a cursor or empty, is in no list any more, so it is marked; the broker that had it deletes it, too.
        """
        found = []
        for path, one in self.marked.items():
            if one.kind is RecordKind.ORPHAN and one.ledger_id in by_brokers:
                continue
            gone = [self.copies_gone_ms.get(one.ledger_id)]
            if one.kind is RecordKind.OBJECTS:
                gone = [self.objects_gone_ms.get(name) for name in (one.key.data_key, one.key.index_key)]
            found += [
                f"{one.name} is gone {gone_ms - self.marked_ms[path]} ms after it was marked"
                for gone_ms in gone
                if gone_ms is not None and gone_ms < self.marked_ms[path] + grace_ms
            ]
        return found

    def trimmed_early(self, names: Sequence[str], retention_ms: int) -> list[str]:
        """Return what is said against ledgers that went from the lists of topics before their retention was over."""
        found = []
        for topic in names:
            for ledger_id, gone_ms in self.gone_ms[topic].items():
                one = self.seen[topic][ledger_id]
                if one.entries and gone_ms < one.closed_ms + retention_ms:
                    found.append(
                        f"{topic}: ledger {ledger_id} is gone {gone_ms - one.closed_ms} ms after it was closed"
                    )
        return found


def deleted_by_brokers(log: Path) -> set[int]:
    """Return the ids of the ledgers that a broker deleted since they had failed or were empty, by its log."""
    with log.open(errors="replace") as lines:
        return {int(found[1]) for line in lines if (found := _DELETED.search(line)) is not None}


def records_now(nodes: KazooClient) -> Iterator[JournalRecord]:
    """Yield the records of the journal."""
    try:
        names = nodes.get_children(ROOT)
    except NoNodeError:
        return
    asked = [(f"{ROOT}/{name}", nodes.get_async(f"{ROOT}/{name}")) for name in names]
    for path, answer in asked:
        with suppress(NoNodeError):
            data, stat = answer.get(30)
            yield parse_record(Node(path, data, stat.ctime, stat.mtime, stat.version, 0))


def lock_of(nodes: KazooClient) -> HeldLock | None:
    """Return who has the lock."""
    try:
        data, stat = nodes.get(LOCK_PATH)
    except NoNodeError:
        return None
    return HeldLock(stat.ephemeralOwner, int(json.loads(data)["pid"]), stat.ctime)


def now_ms() -> int:
    """Return the time, ms since 1970 UTC; ZooKeeper has the same clock, being on the same machine."""
    return time.time_ns() // 1_000_000

"""Clusters that are lost at any moment, with a dump of some time before, and restored by runs that end anywhere.

What is served then is what the bucket has of each topic, as a reader of the lost cluster saw it, no more and no less; what is missing is
told. The oracle knows each entry, whose transaction ended how, and what the list of each topic had when it was dumped. What brokers would
serve is read by the lists of the new cluster, from the objects that these name.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path

from ledgerfs import open_bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.managed_ledgers.cursor_info import CursorInfo, parse_cursor_info
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position, parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.messages.decode.metadata_walk import Meta, walk_metadata
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.offload.offload_driver import driver_of_bucket
from ledgerfs.recovery.lost.dumped_cluster import DumpedCluster
from ledgerfs.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs.recovery.planning.planning import Wanted
from ledgerfs.recovery.running.recovery import Into, Lost, run
from ledgerfs.recovery.running.report import Report
from ledgerfs.recovery.settings.setting_again import SettingAgain
from ledgerfs.recovery.topics.restoring import How
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.recovery.lost import dump_of
from tests.support.entries import frame, metadata
from tests.support.live_clusters import LiveCluster
from tests.support.pulsar_settings import pulsar_settings
from tests.support.zookeeper import WriteFault

TOPICS = ("public/default/a", "public/default/b", "public/default/p-partition-0", "public/default/p-partition-1")
_COMMIT, _ABORT = 21, 22


@dataclass
class Entry:
    """One entry as the oracle knows it: its value, or what its marker ends."""

    value: str | None
    transaction: int = 0
    ends: str | None = None

    def frame(self) -> bytes:
        told = {"transaction_most": 7, "transaction_least": self.transaction} if self.transaction else {}
        if self.ends is not None:
            kind = _COMMIT if self.ends == "committed" else _ABORT
            return frame(metadata(**told, marker_type=kind), b"")
        assert self.value is not None
        return frame(metadata(**told), self.value.encode())


@dataclass
class AtDump:
    """What a dump is to have: lists, how many entries each ledger had, and what the subscription had acknowledged."""

    dump: DumpedCluster
    lists: dict[str, tuple[LedgerInfo, ...]]
    sizes: dict[int, int]
    cursors: dict[str, CursorInfo]


@dataclass
class RecoveryWalk:
    """A walk of its own by a seed."""

    seed: int
    folder: Path
    entries: dict[int, list[Entry]] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    open: dict[str, set[int]] = field(default_factory=dict)
    at_dump: AtDump | None = None
    history: list[str] = field(default_factory=list)
    transactions: int = 0
    values: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def run(self, steps: int) -> None:
        """Walk, lose the cluster, restore it, and compare."""
        with LiveCluster(self.folder / "old", bookies=3) as self.old:
            for topic in TOPICS:
                self.entries[self.old.write_ledger(topic, ())] = []
                self.open[topic] = set()
            self.old.set_partitions("public/default/p", 2)
            acts = [self.publish] * 5 + [self.begin, self.end, self.end, self.roll_over, self.roll_over, self.offload]
            acts += [self.offload, self.acknowledge, self.trim, self.lose, self.offload_again]
            dumped_at = self.chance.choice([None, self.chance.randrange(steps), steps - 1])
            for number in range(steps):
                act = self.chance.choice(acts)
                topic = self.chance.choice(TOPICS)
                act(topic)
                self.history.append(f"{act.__name__} {topic}")
                if number == dumped_at:
                    self.dump(number)
            self.restore()

    # What happens in the lost cluster.

    def last(self, topic: str) -> int:
        return self.old.list_of(topic).ledgers[-1].ledger_id

    def add(self, topic: str, *some: Entry) -> None:
        self.old.append(self.last(topic), [one.frame() for one in some])
        self.entries[self.last(topic)] += some

    def value(self) -> str:
        self.values += 1
        return f"v{self.values}"

    def publish(self, topic: str) -> None:
        of = [0, *self.open[topic]]
        self.add(topic, *(Entry(self.value(), self.chance.choice(of)) for _ in range(self.chance.randint(1, 4))))

    def begin(self, topic: str) -> None:
        self.transactions += 1
        self.open[topic].add(self.transactions)
        self.add(topic, Entry(self.value(), self.transactions))

    def end(self, topic: str) -> None:
        if self.open[topic]:
            one = self.chance.choice(sorted(self.open[topic]))
            self.open[topic].discard(one)
            self.add(topic, Entry(None, one, self.chance.choice(["committed", "aborted"])))

    def roll_over(self, topic: str) -> None:
        if self.entries[self.last(topic)]:
            self.entries[self.old.roll_over(topic)] = []

    def offload(self, topic: str) -> None:
        due = [one for one in self.old.list_of(topic).ledgers[:-1] if not one.is_offloaded]
        if due:
            self.old.offload(topic, self.chance.choice(due).ledger_id)

    def offload_again(self, topic: str) -> None:
        """Offload one that is offloaded, as after a list that was lost: there are two copies then."""
        done = [
            one for one in self.old.list_of(topic).ledgers[:-1] if one.is_offloaded and one.ledger_id not in self.lost
        ]
        if done:
            self.old.offload(topic, self.chance.choice(done).ledger_id)

    def acknowledge(self, topic: str) -> None:
        ledgers = [one for one in self.old.list_of(topic).ledgers if self.entries[one.ledger_id]]
        if not ledgers:
            return
        at = self.chance.choice(ledgers).ledger_id
        size = len(self.entries[at])
        mark = self.chance.randint(-1, size - 1)
        holes = []
        if mark < size - 2:
            first = self.chance.randint(mark + 1, size - 2)
            holes = [(Position(at, first), Position(at, self.chance.randint(first + 1, size - 1)))]
        stale = self.chance.choice([None, (ledgers[0].ledger_id, -1)])
        self.old.add_cursor(topic, "s", (at, mark), holes=holes, stale=stale)

    def trim(self, topic: str) -> None:
        ledgers = self.old.list_of(topic).ledgers
        if len(ledgers) > 2 and ledgers[0].ledger_id not in self.lost:
            # Its objects may stay, as where a deletion failed.
            self.old.trim(topic, ledgers[0].ledger_id, only_list=self.chance.random() < 0.5)

    def lose(self, topic: str) -> None:
        """Have somebody delete the objects of a ledger, all copies."""
        done = [one.ledger_id for one in self.old.list_of(topic).ledgers if one.is_offloaded]
        if done and self.chance.random() < 0.3:
            ledger_id = self.chance.choice(done)
            self.lost.add(ledger_id)
            for file in self.old.bucket().glob(f"*-ledger-{ledger_id}*"):
                file.unlink()

    def dump(self, number: int) -> None:
        """Dump the cluster as it is."""
        cursors = {}
        for topic in TOPICS:
            data = self.old.nodes.get(self.old.chroot + cursor_path(managed_ledger_of(topic), "s"))
            if data is not None:
                cursors[topic] = self._state(topic, data)
        self.at_dump = AtDump(
            dump_of(self.old, self.folder / f"dump-{number}"),
            {topic: self.old.list_of(topic).ledgers for topic in TOPICS},
            {ledger_id: len(some) for ledger_id, some in self.entries.items()},
            cursors,
        )
        self.history.append("dump")

    def _state(self, topic: str, node: bytes) -> CursorInfo:
        from ledgerfs.formats.managed_ledgers.cursor_info import parse_position_info

        told = parse_cursor_info(node, key=topic)
        if told.is_in_the_node:
            return told
        newest = self.old.written[told.cursors_ledger].payloads[-1]
        return parse_position_info(newest, key=topic)

    # What is restored, and compared.

    def restore(self) -> None:
        """Restore what is left, by runs that end anywhere, and compare."""
        with LiveCluster(self.folder / "new") as new, pulsar_settings() as brokers:
            new.zookeeper.takes_writes = True
            dump = None if self.at_dump is None else self.at_dump.dump
            what = Lost(open_bucket(self.old.bucket_url()), Wanted(), dump)
            living = ClusterFileSystem(timeout_s=5).cluster(new.url.removeprefix("pulsar+zk://"))
            settings = SettingAgain(brokers.requests, DumpedSettings() if dump is None else dump.settings)
            into = Into(living, settings, How(driver_of_bucket("aws-s3", "tier")))
            try:
                report = self._report(what, into, new)
            finally:
                living.nodes.close()
            for topic in TOPICS:
                self._compare(topic, new, report)

    def _report(self, what: Lost, into: Into, new: LiveCluster) -> Report:
        for _ in range(self.chance.randint(0, 3)):
            fault = self.chance.choice([WriteFault.EXPIRED_BEFORE, WriteFault.EXPIRED_AFTER])
            new.zookeeper.write_faults.extend([WriteFault.NONE] * self.chance.randint(0, 9) + [fault])
            try:
                run(what, into, None, _untold, _unsaid)
            except LedgerfsError as error:
                self.history.append(f"ended: {type(error).__name__}")
            finally:
                new.zookeeper.write_faults.clear()
        return run(what, into, None, _untold, _unsaid)

    def expected(self, topic: str) -> list[int]:
        """Return the ledgers of a topic that the bucket has, and that were the topic's when it was dumped, or came later."""
        data = (file.name for file in self.old.bucket().glob("*-ledger-*") if not file.name.endswith("-index"))
        there = {int(name.partition("-ledger-")[2]) for name in data}
        name = managed_ledger_of(topic)
        owned = [
            one
            for one, made in sorted(self.old.written.items())
            if one in self.entries and made.node.managed_ledger == name
        ]
        found = [one for one in owned if one in there and one not in self.lost and self.entries[one]]
        if self.at_dump is None:
            return found
        listed = [one.ledger_id for one in self.at_dump.lists[topic]]
        return [one for one in found if one in listed or one > listed[-1]]

    def visible(self, ledgers: list[int]) -> list[str]:
        """Return what a reader gets of these ledgers: a transaction whose end is in none of them counts as one that did not end."""
        ends = {one.transaction: one.ends for ledger_id in ledgers for one in self.entries[ledger_id] if one.ends}
        return [
            one.value
            for ledger_id in ledgers
            for one in self.entries[ledger_id]
            if one.value is not None and (not one.transaction or ends.get(one.transaction) == "committed")
        ]

    def _compare(self, topic: str, new: LiveCluster, report: Report) -> None:
        name, told = managed_ledger_of(topic), f"seed {self.seed}, {topic}: {self.history}"
        lines = [one for one in report.topics if one.plan.source == name]
        ledgers = self.expected(topic)
        path = new.chroot + managed_ledger_path(name)
        if path not in new.nodes:
            assert ledgers == [] or any(one.why for one in lines), told
            return
        listed = parse_managed_ledger_info(new.nodes[path], key=path).ledgers[:-1]
        assert [one.ledger_id for one in listed] == ledgers, told
        assert [one.entries for one in listed] == [len(self.entries[one]) for one in ledgers], told
        assert self._served(listed) == self.visible(ledgers), told
        self._compare_missing(topic, ledgers, report, told)
        if self.at_dump is not None and topic in self.at_dump.cursors:
            data = new.nodes[new.chroot + cursor_path(name, "s")]
            before, after = self.at_dump.cursors[topic], parse_cursor_info(data, key=name)
            entries = [Position(one, entry) for one in ledgers for entry in range(len(self.entries[one]))]
            assert _acknowledged(after, entries) == _acknowledged(before, entries), told

    def _served(self, listed: tuple[LedgerInfo, ...]) -> list[str]:
        """Return the values that a broker sends: of what these lists name, all but markers, whatever transactions it knows of."""
        catalog = open_bucket(self.old.bucket_url()).refresh()
        bucket = open_bucket(self.old.bucket_url())
        found = []
        for one in listed:
            assert one.context is not None
            reader = bucket.uncached_reader(
                next(ref for ref in catalog.all_of(one.ledger_id) if ref.uuid == one.context.uuid)
            )
            for batch in reader.batches(0, one.entries - 1):
                table = walk_metadata(batch)
                for row in range(len(batch)):
                    if table[Meta.MARKER][row] != ABSENT:
                        continue
                    # A new coordinator gives the same ids again, so that no id may be left.
                    assert table[Meta.TRANSACTION_LEAST][row] == ABSENT
                    found.append(
                        bytes(batch.buffer)[
                            int(table[Meta.PAYLOAD_AT][row]) : int(table[Meta.PAYLOAD_END][row])
                        ].decode()
                    )
        return found

    def _compare_missing(self, topic: str, ledgers: list[int], report: Report, told: str) -> None:
        """See to it that what is missing of what the dump's list had is counted, all of it."""
        if self.at_dump is None:
            return
        plan = next(one.plan for one in report.topics if one.plan.source == managed_ledger_of(topic))
        lacking = [one.ledger_id for one in self.at_dump.lists[topic] if one.ledger_id not in ledgers]
        assert plan.missing_entries == sum(self.at_dump.sizes[one] for one in lacking), told
        if any(len(self.entries[one]) != self.at_dump.sizes[one] for one in lacking):
            assert not plan.is_missing_exact, told


def _acknowledged(cursor: CursorInfo, entries: list[Position]) -> list[Position]:
    assert cursor.mark_delete is not None
    ranges = list(cursor.acknowledged_ranges())
    return [one for one in entries if one <= cursor.mark_delete or any(lower < one <= upper for lower, upper in ranges)]


def _untold(what: str, done: int, total: int | None) -> None:
    """Take progress."""


def _unsaid(what: str) -> None:
    """Take what is said."""

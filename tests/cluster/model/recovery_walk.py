"""Clusters that are lost at any moment and restored into new ones, which are lost, too: what is served is what the oracle knows to be left.

What is left of a cluster is its bucket, dumps that were kept there, and disks of its bookies, each with something gone perhaps. Of each
message it is known whether it has to be served, or was aborted, so that no reader gets it; what is missing of a dump's lists is to be told,
all of it. What brokers would serve is read by the lists of the new cluster, from the objects that these name.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path

from ledgerfs import open_bucket
from ledgerfs.formats.topic_names import managed_ledger_of, topic_of
from ledgerfs.messages.decode.metadata_walk import Meta, walk_metadata
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs_cluster.check.check import Rules, check_cluster
from ledgerfs_cluster.check.tier_listing import Tier
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import CursorInfo, parse_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, is_of_transactions, managed_ledger_path
from ledgerfs_cluster.recovery.report import TopicRecovery
from ledgerfs_cluster.rules.findings import FindingKind
from ledgerfs_cluster.snapshot.answers import LastEnd
from tests.cluster.model.dump_history import Recording
from tests.cluster.model.kept_dump_acts import DumpActs
from tests.cluster.model.left_disks import LeftDisks, leave_disks
from tests.cluster.model.losing_cluster import SUBSCRIPTION, Act, LosingCluster, given_before
from tests.cluster.model.read_bucket import compare_bucket
from tests.cluster.model.recovery_runs import Asked, Done, RecoveryRuns
from tests.cluster.model.written_ledgers import FROM_DISKS, Content, WrittenLedgers, copies_in, is_made, values
from tests.cluster.support.live_clusters import LiveCluster
from tests.cluster.support.living_clusters import living
from tests.cluster.support.pulsar_settings import pulsar_settings
from tests.cluster.support.transaction_snapshots import parsed_snapshot

TOPICS = ("public/default/a", "public/default/b", "public/default/p-partition-0", "public/default/p-partition-1")
LATER = ("public/default/c", "public/default/d")


@dataclass
class RecoveryWalk:
    """A walk of its own by a seed."""

    seed: int
    folder: Path
    ledgers: WrittenLedgers = field(default_factory=WrittenLedgers)
    history: list[str] = field(default_factory=list)
    drills: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def run(self, steps: int) -> None:
        """Have a cluster live, lose it, restore it, and compare; then the new one perhaps."""
        with self._cluster(0) as first:
            for topic in TOPICS:
                self.ledgers.begin(first.write_ledger(topic, ()), topic)
            first.set_partitions("public/default/p", 2)
            losing = LosingCluster(first, self.ledgers, self.chance, list(TOPICS), list(LATER))
            self._lose(losing, steps, 1, self.chance.choice([1, 1, 2, 2, 3]))

    def _lose(self, losing: LosingCluster, steps: int, generation: int, generations: int) -> None:
        dumps = self._live(losing, steps)
        disks = leave_disks(losing, self.chance, self.folder / f"disks-{generation}")
        with self._cluster(generation) as new, pulsar_settings() as brokers:
            new.zookeeper.takes_writes = True
            runs = RecoveryRuns(new.bucket_url(), new, brokers, self.chance, self.history)
            asked, recording = self._asked(dumps, disks, generation)
            template = f"public/{{namespace}}{generation}/{{topic}}"
            for one in (
                Asked(asked.dump, asked.no_dump, asked.disks, template=self.chance.choice(["", "", template])),
                Asked(asked.dump, asked.no_dump, asked.disks, template=f"{template[:-8]}x/{{topic}}", new_ids=True),
            ):
                if not one.new_ids or self.chance.random() < 0.4:
                    self.history.append(f"restore {one}")
                    Restored(self, losing, new, disks if one.disks else None, recording).compare(runs, one)
            losing = self._taken_over(new)
            if generation < generations and losing.topics:
                self.history.append("the new cluster lives")
                self._lose(losing, steps // 2, generation + 1, generations)

    def _cluster(self, number: int) -> LiveCluster:
        """Return one of several clusters that have the same bucket."""
        made = LiveCluster(self.folder / f"cluster-{number}", bookies=4, instance_id=f"cluster-{number}")
        made.buckets = self.folder / "buckets"
        return made

    def _live(self, losing: LosingCluster, steps: int) -> DumpActs:
        def live(act: Act | None = None) -> None:
            act, topic = act or self.chance.choice(losing.acts()), self.chance.choice(losing.topics)
            act(topic)
            self.history.append(f"{act.__name__} {topic}")
            dumps.note()

        dumps = DumpActs(losing, self.chance, live)
        dumping = [dumps.dump, dumps.dump, dumps.damage] if self.chance.random() < 0.8 else []
        for _ in range(4):
            live(losing.be_cut_off)
        for _ in range(steps):
            if dumping and self.chance.random() < 0.12:
                act = self.chance.choice(dumping)
                self.history.append(act.__name__)
                act("")
            else:
                live()
            if losing.bucket.exists() and self.chance.random() < 0.01:
                self._drill(losing)
        for _ in range(4):
            live(losing.be_cut_off)
        if dumping and self.chance.random() < 0.3:
            dumps.dump("")
        return dumps

    def _drill(self, living: LosingCluster) -> None:
        """Restore what the bucket has of a cluster in use into another one, under other names, as somebody does who tries it out."""
        self.drills += 1
        self.history.append("drill")
        with self._cluster(100 + self.drills) as new, pulsar_settings() as brokers:
            new.zookeeper.takes_writes = True
            runs = RecoveryRuns(living.cluster.bucket_url(), new, brokers, self.chance, self.history)
            before = copies_in(living.bucket)
            runs.to_the_end(Asked(no_dump=True, template=f"public/drill{self.drills}/{{topic}}"))
            assert copies_in(living.bucket) == before

    def _asked(self, dumps: DumpActs, disks: LeftDisks, generation: int) -> tuple[Asked, Recording | None]:
        """Return what is asked for, and what the dump that is to be taken may have."""
        kept = dumps.readable()
        if not kept:
            return Asked(no_dump=True), None
        recording = dumps.recordings[kept[-1].key]
        recording.key = kept[-1].key
        url = disks.url if self.chance.random() < 0.6 else None
        if len(list(dumps.losing.bucket.glob("_ledgerfs/dumps/*"))) == 1:
            return Asked(disks=url), recording
        return Asked(dump=f"{dumps.losing.cluster.bucket_url()}/{kept[-1].key}", disks=url), recording

    def _taken_over(self, new: LiveCluster) -> LosingCluster:
        """Return the new cluster, once brokers have loaded all topics."""
        prefix = new.chroot + managed_ledger_path("")
        names = [path.removeprefix(prefix) for path, data in new.nodes.items() if path.startswith(prefix) and data]
        topics = [
            topic_of(name).removeprefix("persistent://")
            for name in names
            if name.count("/") == 3 and not is_of_transactions(name)
        ]
        for topic in topics:
            self.ledgers.begin(new.load_restored(topic), topic)
        return LosingCluster(new, self.ledgers, self.chance, sorted(topics), list(LATER[: 2 - len(topics) // 6]))


@dataclass
class Restored:
    """One restoring, and its comparison with what the oracle knows."""

    walk: RecoveryWalk
    losing: LosingCluster
    new: LiveCluster
    disks: LeftDisks | None
    recording: Recording | None
    before: dict[int, set[str]] = field(default_factory=dict)
    snapshots: dict[str, bytes] = field(default_factory=dict)

    @property
    def ledgers(self) -> WrittenLedgers:
        """What was written."""
        return self.walk.ledgers

    def compare(self, runs: RecoveryRuns, asked: Asked) -> None:
        """Restore, and compare all topics."""
        self._compare_bucket()
        self.before = copies_in(self.losing.bucket)
        if self.recording is None:
            # Nobody knows that these ids were given; they may be given again.
            self.ledgers.forget_but(self.before)
        self.snapshots = runs.snapshots
        done = runs.to_the_end(asked)
        self._note_ended()
        self._compare_dump(done)
        self._note_copies_from_disks(done)
        there = copies_in(self.losing.bucket)
        made: list[tuple[TopicRecovery, tuple[LedgerInfo, ...]]] = []
        names = {one.source: one for one in done.report.topics}
        copied = {one.target for one in done.report.topics}
        topics = sorted({*self.ledgers.topics.values(), *self.losing.topics})
        assert names.keys() <= {managed_ledger_of(topic) for topic in topics}, f"{names.keys()}: {self.walk.history}"
        for topic in topics:
            if managed_ledger_of(topic) in names:
                made += self._compare_topic(topic, names[managed_ledger_of(topic)], done, there)
            else:
                name = managed_ledger_of(topic)
                assert name in copied or not self._ids(topic, None, there), (
                    f"{topic} is in no report: {self.walk.history}"
                )
        for plan, listed in made:
            self._note_copies(plan, listed)
        self._compare_bucket()
        if made:
            self._call_no_orphans()

    def _call_no_orphans(self) -> None:
        """Have the new cluster's doctor look at the bucket: nothing that a lost cluster wrote there is to be deleted, whoever names it."""
        tiers = [Tier(open_bucket(self.losing.cluster.bucket_url()), frozenset({"tier"}))]
        with living(self.new) as seen:
            found = check_cluster(seen, None, tiers, Rules(0, 0.0), lambda *_: None).findings
        orphans = {one for line in found if line.kind is FindingKind.ORPHAN_OBJECT for one in line.ledger_ids}
        assert orphans <= self.new.written.keys(), f"seed {self.walk.seed}: {orphans} after {self.walk.history}"

    def _compare_bucket(self) -> None:
        compare_bucket(self.losing.cluster.bucket_url(), self.ledgers, f"seed {self.walk.seed}: {self.walk.history}")

    def _compare_dump(self, done: Done) -> None:
        if self.recording is None:
            assert done.dump is None
            return
        assert done.dump is not None
        reported = f"seed {self.walk.seed}: {self.walk.history}"
        assert done.dump_name is not None
        assert "://" not in done.dump_name or done.dump_name.endswith(self.recording.key), reported
        topics = {topic for one in self.recording.moments for topic in one.lists}
        self.recording.require_true(done.dump, {topic: managed_ledger_of(topic) for topic in topics}, reported)

    def _compare_topic(
        self, topic: str, line: TopicRecovery, done: Done, there: dict[int, set[str]]
    ) -> list[tuple[TopicRecovery, tuple[LedgerInfo, ...]]]:
        plan, reported = line, self._reported(line)
        info = None if done.dump is None else done.dump.lists.get(plan.source)
        path = self.new.chroot + managed_ledger_path(plan.target)
        must, may = self._must_and_may(topic, info.ledgers if info is not None else None, done, there)
        if path not in self.new.nodes:
            is_deleted = "had deleted it" in str(line.reason)
            if is_deleted:
                assert done.dump is not None
                assert info is None, reported
                # What was there when the cluster was lost, and not when it was dumped, is younger than the dump.
                is_younger = any(one in self.losing.cluster.written for one in must)
                assert not is_younger or self._was_there_at_dump(topic), reported
            assert is_deleted or "another partition of the topic cannot be restored" in str(line.reason) or not must, (
                reported
            )
            return []
        assert line.reason is None, f"{reported}: {line.reason}"
        assert info is not None or done.dump is None or topic in self.losing.topics, reported
        listed = parse_managed_ledger_info(self.new.nodes[path], key=path).ledgers[:-1]
        ids = [one.ledger_id for one in plan.ledgers]
        assert set(must) <= set(ids) <= {*must, *may}, f"{reported}: {ids} instead of {must}, perhaps {may}"
        assert ids == sorted(ids), reported
        if [one.ledger_id for one in listed] != ids:
            assert plan.target != plan.source, reported
            assert len(listed) == len(ids), reported
            assert not {one.ledger_id for one in listed} & self.ledgers.topics.keys(), reported
        named = {} if info is None else {one.ledger_id: one.context for one in info.ledgers}
        for ref in plan.ledgers:
            context = named.get(ref.ledger_id)
            assert ref.uuid in there[ref.ledger_id], reported
            if context is not None and context.is_complete and context.uuid in self.before.get(ref.ledger_id, ()):
                assert ref.uuid == context.uuid, (
                    f"{reported}: {ref} instead of {context.uuid} of {there[ref.ledger_id]}"
                )
        contents = self.ledgers.seen([(ref.ledger_id, ref.uuid) for ref in plan.ledgers])
        assert [one.entries for one in listed] == [len(one) for one in contents], reported
        assert self._served(plan.target_topic, listed) == values(contents), reported
        if plan.target == plan.source:
            self._is_nothing_open(plan, contents)
        self._compare_missing(plan, info.ledgers if info is not None else None, done, reported)
        self._compare_cursor(topic, plan, listed, done, reported)
        return [(plan, listed)]

    def _ids(self, topic: str, listed: dict[int, LedgerInfo] | None, there: dict[int, set[str]]) -> list[int]:
        """Return the ledgers of a topic that the bucket has, and that were the topic's when it was dumped, or came later."""
        own = [one for one, name in self.ledgers.topics.items() if name == topic and one in there]
        if listed is None:
            return sorted(own)
        last = max(listed, default=-1)
        named = {
            one
            for one, info in listed.items()
            if info.context is not None and info.context.is_complete and info.context.uuid in there.get(one, ())
        }
        return sorted({one for one in own if one in listed or one > last} | named)

    def _must_and_may(
        self, topic: str, ledgers: tuple[LedgerInfo, ...] | None, done: Done, there: dict[int, set[str]]
    ) -> tuple[list[int], list[int]]:
        """Return the ledgers that have to be served, and those of which so much is gone from disks that they need not be."""
        listed = None if ledgers is None else {one.ledger_id: one for one in ledgers}
        must = self._ids(topic, listed, there)
        if listed is None or self.disks is None:
            return must, []
        # What is copied from disks is in the bucket by now; what has to be copied is what lies there as a whole.
        due = [one for one in listed if one not in must and self._is_whole_on_disks(one, done)]
        assert not due, f"{due} are on disks, and not in the bucket: {self.walk.history}"
        return must, []

    def _is_whole_on_disks(self, ledger_id: int, done: Done) -> bool:
        """Whether all of a ledger lies on disks, and the dump tells enough to know that."""
        assert self.disks is not None
        assert self.recording is not None
        count = len(self.ledgers.entries.get(ledger_id, ()))
        if not count or not self.disks.has(ledger_id, count):
            return False
        if ledger_id not in self.recording.moments[-1].ensembles:
            return False
        if self.recording.was_always(lambda one: ledger_id not in one.open):
            return True
        now = self.losing.cluster.written[ledger_id].node.ensembles
        is_same = self.recording.was_always(lambda one: one.ensembles.get(ledger_id, now) == now)
        return self.disks.is_whole and is_same

    def _note_copies_from_disks(self, done: Done) -> None:
        """Take what was copied from disks, of each ledger from its first entry on, and see to it that it is as much as is there."""
        for ref in open_bucket(self.new.bucket_url()).refresh().refs():
            key = (ref.ledger_id, ref.uuid)
            if ref.uuid != FROM_DISKS or key in self.ledgers.copies:
                continue
            assert self.disks is not None
            reported = f"seed {self.walk.seed}: ledger {ref.ledger_id} has {ref.entries} entries from disks: {self.walk.history}"
            known = self.ledgers.entries[ref.ledger_id] + self.ledgers.unacknowledged.get(ref.ledger_id, [])
            assert ref.entries <= len(known), reported
            assert ref.entries <= self.disks.prefix(ref.ledger_id), reported
            if self._is_whole_on_disks(ref.ledger_id, done):
                assert ref.entries >= len(self.ledgers.entries[ref.ledger_id]), reported
            self.ledgers.copies[key] = known[: ref.entries]

    def _note_ended(self) -> None:
        """Know the ledgers with which this recovery ended transactions."""
        bucket = open_bucket(self.new.bucket_url())
        for ref in bucket.refresh().refs():
            if is_made(ref) and ref.ledger_id not in self.ledgers.made:
                self.ledgers.note_made(bucket.reader(ref))

    def _is_nothing_open(self, plan: TopicRecovery, contents: list[Content]) -> None:
        """See to it that readers of the bucket wait for no transaction of the lost cluster."""
        bucket = open_bucket(self.new.bucket_url())
        catalog = bucket.refresh()
        ids = [ref.ledger_id for ref in plan.ledgers]
        if ids and not catalog.absent_of(plan.source) and ids == catalog.table_of(plan.source)["ledger_id"].tolist():
            table = bucket.topic(plan.topic).scan(["value"], transactions="readable").to_arrow()
            assert [value.decode() for value in table["value"].to_pylist()] == values(contents), self._reported(plan)

    def _served(self, topic: str, listed: tuple[LedgerInfo, ...]) -> list[str]:
        """Return the values that a broker sends: of what these lists name, all but markers and what its snapshot hides."""
        bucket = open_bucket(self.new.bucket_url())
        catalog = bucket.refresh()
        found, aborted = [], set[tuple[int, int]]()
        if topic in self.snapshots:
            reported = parsed_snapshot(self.snapshots[topic])
            assert reported.topic == topic
            assert reported.end == (listed[-1].ledger_id, listed[-1].entries - 1), "brokers would read on from there"
            aborted = set(reported.aborted)
        for one in listed:
            assert one.context is not None
            reader = bucket.uncached_reader(
                next(ref for ref in catalog.all_of(one.ledger_id) if ref.uuid == one.context.uuid)
            )
            for batch in reader.batches(0, one.entries - 1):
                table, data = walk_metadata(batch), bytes(batch.buffer)
                for row in range(len(batch)):
                    if table[Meta.MARKER][row] == ABSENT:
                        of = int(table[Meta.TRANSACTION_MOST][row]), int(table[Meta.TRANSACTION_LEAST][row])
                        # A new coordinator must not give an id again.
                        assert of[1] < given_before(self.new)
                        if of in aborted:
                            continue
                        found.append(data[table[Meta.PAYLOAD_AT][row] : table[Meta.PAYLOAD_END][row]].decode())
        return found

    def _compare_missing(
        self, plan: TopicRecovery, ledgers: tuple[LedgerInfo, ...] | None, done: Done, reported: str
    ) -> None:
        """See to it that what is missing of what the dump's list had is counted, all of it."""
        if ledgers is None or self.recording is None or done.dump is None:
            return
        restored = {ref.ledger_id: ref.entries for ref in plan.ledgers}
        missing, is_exact = 0, True
        for one in ledgers:
            end = done.dump.ends.get(one.ledger_id) if one is ledgers[-1] else None
            count: int | None = one.entries
            if not one.entries:
                count = None if end is None or end.end in {LastEnd.UNKNOWN, LastEnd.GONE} else end.entries
            missing += max(0, (count or 0) - restored.get(one.ledger_id, 0))
            written = (
                len(self.ledgers.entries[one.ledger_id]) if one.ledger_id in self.losing.cluster.written else count
            )
            is_lacking = one.ledger_id not in restored or restored[one.ledger_id] < (count or 0)
            if is_lacking and written != count:
                is_exact = False
        assert plan.missing_entries == missing, reported
        assert is_exact or not plan.is_missing_exact, reported
        if not plan.missing_entries and plan.is_missing_exact:
            begun = self.recording.moments[0].sizes
            at_dump = {one.ledger_id: begun.get(one.ledger_id, (one.entries,))[0] for one in ledgers}
            assert all(restored.get(one, 0) >= count for one, count in at_dump.items()), reported

    def _compare_cursor(
        self, topic: str, plan: TopicRecovery, listed: tuple[LedgerInfo, ...], done: Done, reported: str
    ) -> None:
        if done.dump is None or self.recording is None or SUBSCRIPTION not in done.dump.cursors.get(plan.source, {}):
            return
        data = self.new.nodes[self.new.chroot + cursor_path(plan.target, SUBSCRIPTION)]
        after = _acknowledged(
            parse_cursor_info(data, key=topic),
            [Position(one.ledger_id, entry) for one in listed for entry in range(one.entries)],
        )
        entries = [Position(ref.ledger_id, entry) for ref in plan.ledgers for entry in range(ref.entries)]
        assert after in [_acknowledged(one, entries) for one in self.recording.cursors(topic)], reported

    def _was_there_at_dump(self, topic: str) -> bool:
        return self.recording is not None and any(topic in one.lists for one in self.recording.moments)

    def _note_copies(self, plan: TopicRecovery, listed: tuple[LedgerInfo, ...]) -> None:
        """Know the copies that a recovery has made."""
        for ref, one in zip(plan.ledgers, listed, strict=True):
            assert one.context is not None
            assert one.context.uuid is not None
            if one.ledger_id != ref.ledger_id:
                self.ledgers.topics[one.ledger_id] = topic_of(plan.target).removeprefix("persistent://")
            if (one.ledger_id, one.context.uuid) != (ref.ledger_id, ref.uuid):
                self.ledgers.copies[one.ledger_id, one.context.uuid] = self.ledgers.content(ref.ledger_id, ref.uuid)

    def _reported(self, plan: TopicRecovery) -> str:
        return f"seed {self.walk.seed}, {plan.topic} as {plan.target_topic}: {self.walk.history}"


def _acknowledged(cursor: CursorInfo, entries: list[Position]) -> list[int]:
    assert cursor.mark_delete is not None
    ranges = list(cursor.acknowledged_ranges())
    return [
        number
        for number, one in enumerate(entries)
        if one <= cursor.mark_delete or any(lower < one <= upper for lower, upper in ranges)
    ]

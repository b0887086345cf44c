"""A living cluster as a model: a broker and its bookies go on while readers list, scan, use kept listings and export, and a doctor checks.

A step is something that the broker, a bookie or a reader does, and perhaps something else in the middle of it: whenever a reader asks
ZooKeeper or a bookie, the other may act first. Of every read the truth is known from both sides: what was safe when the listing began has
to be there, what was never written must not, and nothing twice. A ledger that is trimmed meanwhile is an error, and the only one.

Steps are drawn from a seed, not by hypothesis: how often real servers are asked depends on their threads, so no example is ever quite the
same twice.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import MissingLedgerError, NotFoundError, StaleObjectError, StoreUnreachableError
from ledgerfs.export.export import export_topic
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.bookies.connection import BookieConnection
from ledgerfs_cluster.check.check import Rules, check_cluster
from ledgerfs_cluster.check.tier_listing import Tier
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.rules.findings import FindingKind
from ledgerfs_cluster.zookeeper.nodes import Nodes
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.living_clusters import PATIENCE_S, living
from tests.model.meetings import Meeting

TOPICS = ("public/default/a", "public/default/b", "public/default/c-partition-0")
ENSEMBLES = dict(zip(TOPICS, (3, 2, 3), strict=True))
"""Of two bookies each has all entries: they are asked for runs."""

Row = tuple[int, int]
Act = Callable[["World"], None]
Met = tuple[int, Act] | None

_ORPHANS = (FindingKind.ORPHAN_LEDGER, FindingKind.ORPHAN_OBJECT)
_GONE = (StaleObjectError, NotFoundError)


@dataclass(slots=True)
class Reader:
    """Somebody who reads: his bucket, which keeps its listing, and what was true when it was listed."""

    bucket: Bucket
    listed: dict[str, set[Row]] = field(default_factory=dict)


@dataclass(slots=True)
class Exported:
    """What exports of a topic into one folder have written and told; and which ledgers were gone before the first of them ended."""

    gone_before: set[int]
    rows: set[Row] = field(default_factory=set)
    is_loss_reported: bool = False


class World:
    """The cluster, its readers, and what was ever written to it."""

    topics = TOPICS

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = self.new_cluster(folder)
        self.cluster.__enter__()
        self.values: dict[tuple[str, Row], bytes] = {}
        self.trimmed: set[int] = set()
        self.orphans: set[int] = set()
        self.count = 0
        self.readers = [Reader(self.opened(end)) for end in ("confirmed", "acknowledged")]
        self.exported: dict[str, Exported] = {}
        self.in_flight: set[str] = set()
        self.unsafe: set[Row] = set()
        self.begin()

    def new_cluster(self, folder: Path) -> LiveCluster:
        return LiveCluster(folder, bookies=4)

    def begin(self) -> None:
        """Make the first topics."""
        for topic in TOPICS[:2]:
            self.cluster.write_ledger(topic, (), ensemble=ENSEMBLES[topic])

    def opened(self, end: str) -> Bucket:
        options = {"open_end": end, "timeout_s": PATIENCE_S, "bucket_urls": {"tier": self.cluster.bucket_url("tier")}}
        return open_bucket(self.cluster.url, options, cache_dir=str(self.folder / "cache"))

    def close(self) -> None:
        self.cluster.__exit__()

    def publish(self, topic: str, count: int) -> None:
        """Write messages whose values tell them apart, as far as bookies take them."""
        if not self.has(topic):
            self.cluster.write_ledger(topic, (), ensemble=ENSEMBLES.get(topic, 3))
        elif topic in self.in_flight:
            # A writer that waits for a bookie in vain ends its ledger.
            self.cluster.roll_over(topic, ensemble=ENSEMBLES.get(topic, 3))
        self.in_flight.discard(topic)
        made = messages(count, "v", first=self.count)
        self.count += count
        for position, _ in zip(self.cluster.publish(topic, made), made, strict=True):
            self.values[topic, position] = b""
        for ledger_id, entry_id, payload in self.cluster.entries_of(topic):
            self.values[topic, (ledger_id, entry_id)] = payload

    def acknowledged(self, topic: str) -> set[Row]:
        """Return all that the writer was told is safe, and that is listed."""
        return {(ledger, entry) for ledger, entry, _ in self.cluster.entries_of(topic)} if self.has(topic) else set()

    def confirmed(self, topic: str) -> set[Row]:
        """Return what every reader sees: of an open ledger one entry less, which the next one confirms."""
        rows = self.acknowledged(topic)
        for one in self.cluster.list_of(topic).ledgers if self.has(topic) else ():
            ledger = self.cluster.written[one.ledger_id]
            if not ledger.node.is_closed:
                rows.discard((one.ledger_id, ledger.acknowledged))
        return rows

    def has(self, topic: str) -> bool:
        return managed_ledger_of(topic) in self.cluster._lists

    def dead(self) -> list[int]:
        return [number for number, one in enumerate(self.cluster.bookies) if not one.is_running]


def publish(topic: str, count: int) -> Act:
    return lambda world: world.publish(topic, count)


def begin_writing(topic: str) -> Act:
    """Put an entry on one bookie: it is not safe, but tells of all before that they are."""

    def act(world: World) -> None:
        last = world.cluster.list_of(topic).ledgers[-1].ledger_id if world.has(topic) else -1
        if last >= 0 and topic not in world.in_flight and not world.cluster.written[last].node.is_closed:
            (made,) = messages(1, "flying", first=world.count)
            world.count += 1
            for entry_id in world.cluster.append(last, [made], only_on=1):
                world.values[topic, (last, entry_id)] = made
                world.unsafe.add((last, entry_id))
            world.in_flight.add(topic)

    return act


def roll_over(topic: str) -> Act:
    def act(world: World) -> None:
        if world.has(topic):
            world.in_flight.discard(topic)
            world.cluster.roll_over(topic, ensemble=ENSEMBLES[topic])

    return act


def change_ensemble(topic: str) -> Act:
    def act(world: World) -> None:
        if world.has(topic) and not world.dead():
            last = world.cluster.list_of(topic).ledgers[-1].ledger_id
            ledger = world.cluster.written[last]
            first = ledger.node.ensembles[-1].first_entry
            if not ledger.node.is_closed and ledger.acknowledged + 1 > first and topic not in world.in_flight:
                world.cluster.change_ensemble(last, ledger.acknowledged + 1)

    return act


def offload(topic: str, *, and_delete: bool, collected: bool = True) -> Act:
    """Offload the oldest closed ledger that is not, and delete what is offloaded from BookKeeper."""

    def act(world: World) -> None:
        closed = world.cluster.list_of(topic).ledgers[:-1] if world.has(topic) else ()
        for one in closed:
            if not one.is_offloaded and one.entries:
                world.cluster.offload(topic, one.ledger_id)
                break
        if and_delete:
            for one in world.cluster.list_of(topic).ledgers if world.has(topic) else ():
                if one.context is not None and not one.context.is_deleted_from_bookkeeper:
                    world.cluster.delete_from_bookkeeper(one.ledger_id, collected=collected)

    return act


def trim(topic: str) -> Act:
    """Trim the oldest ledger, but for the last one."""

    def act(world: World) -> None:
        closed = world.cluster.list_of(topic).ledgers[:-1] if world.has(topic) else ()
        if closed:
            world.trimmed.add(closed[0].ledger_id)
            world.cluster.trim(topic, closed[0].ledger_id)

    return act


def crash_in_trim(topic: str) -> Act:
    """Take the oldest ledger from the list, and nothing more: a broker that dies leaves it, and its objects, to nobody."""

    def act(world: World) -> None:
        closed = world.cluster.list_of(topic).ledgers[:-1] if world.has(topic) else ()
        if closed and closed[0].entries:
            world.trimmed.add(closed[0].ledger_id)
            world.cluster.trim(topic, closed[0].ledger_id, only_list=True)
            world.orphans.add(closed[0].ledger_id)

    return act


def holder_dies(topic: str) -> Act:
    """The bookie dies that alone has an entry in flight, if all are there."""

    def act(world: World) -> None:
        last = world.cluster.list_of(topic).ledgers[-1].ledger_id if topic in world.in_flight else -1
        entries = [entry for ledger, entry in world.unsafe if ledger == last]
        for one in world.cluster.bookies if entries and not world.dead() else ():
            if entries[0] in one.entries(last):
                one.kill()
                break

    return act


def bookie_dies(number: int) -> Act:
    """One bookie of the four dies, or the one that is dead comes back: never two are."""

    def act(world: World) -> None:
        dead = world.dead()
        if dead:
            world.cluster.bookies[dead[0]].start()
        else:
            world.cluster.bookies[number].kill()

    return act


def drawn(random: Random) -> tuple[str, Act]:
    """Return something that happens to the cluster, and its name."""
    topic = random.choice(TOPICS)
    acts = {
        "publish": publish(topic, random.randint(1, 12)),
        "publish one": publish(topic, 1),
        "begin to write": begin_writing(topic),
        "roll over": roll_over(topic),
        "change ensemble": change_ensemble(topic),
        "offload": offload(topic, and_delete=False),
        "offload and delete": offload(topic, and_delete=True, collected=random.random() < 0.7),
        "trim": trim(topic),
        "crash in trim": crash_in_trim(topic),
        "bookie": bookie_dies(random.randrange(4)),
    }
    name = random.choices(list(acts), [6, 3, 2, 4, 1, 2, 3, 1, 1, 3])[0]
    return f"{name} {topic}", acts[name]


@contextmanager
def meeting(world: World, met: Met) -> Iterator[None]:
    """Let somebody act when a reader asks ZooKeeper or a bookie for the n-th time."""
    if met is None:
        yield
        return
    number, act = met
    one = Meeting(number, lambda: act(world))
    with pytest.MonkeyPatch.context() as patch:
        asking = [(Nodes, name) for name in ("get", "get_many", "children", "children_many")]
        for owner, name in ((BookieConnection, "send"), *asking):
            original = getattr(owner, name)

            def asked(self: object, *args: object, original: Callable[..., object] = original) -> object:
                one.met()
                return original(self, *args)

            patch.setattr(owner, name, asked)
        # What looks ahead does so in a thread of its own, where nobody is to act.
        patch.setattr("ledgerfs_cluster.live_source.reader.LiveReader.expect", lambda _: None)
        yield


class Walk:
    """Steps of a broker and of readers, by a seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.world = self.new_world(folder)
        self.reported: list[str] = []

    def new_world(self, folder: Path) -> World:
        return World(folder)

    def run(self, steps: int) -> None:
        """Do so many steps; whatever fails names them all."""
        try:
            for _ in range(steps):
                self.step()
                assert not self.world.cluster.not_reads()
        except BaseException as error:
            error.add_note("\n".join(self.reported))
            raise
        finally:
            self.world.close()

    def step(self) -> None:
        for _ in range(self.random.randint(0, 4)):
            name, act = drawn(self.random)
            self.reported.append(name)
            act(self.world)
        topic, met = self.random.choice(TOPICS), None
        if self.random.random() < 0.6:
            name, act = drawn(self.random)
            met = (self.random.randrange(10), act)
            self.reported.append(f"  meanwhile, at {met[0]}: {name}")
        who, anew = self.random.randrange(2), self.random.random() < 0.7
        what = self.random.random()
        if what < 0.3:
            if what < 0.1:
                self.reported.append("  twice, and what confirmed the end goes in between")
                begin_writing(topic)(self.world)
                self.export(topic, None, self.world.readers[0].bucket)
                holder_dies(topic)(self.world)
            self.reported.append(f"export {topic}{'' if anew else ' by a bucket that is kept'}")
            self.export(topic, met, self.world.opened("confirmed") if anew else self.world.readers[0].bucket)
        elif what < 0.5:
            self.reported.append("check")
            self.check(met)
        else:
            self.reported.append(f"read {topic} by {who}{', anew' if anew else ''}")
            self.read(self.world.readers[who], topic, anew=anew, met=met)

    def export(self, topic: str, met: Met, bucket: Bucket) -> None:
        """Export into the folder of earlier exports: nothing is lost or doubled, whichever ledgers grew or went since."""
        world = self.world
        least, trimmed = world.confirmed(topic), set(world.trimmed)
        if not least:
            return
        folder = self.folder / "export" / topic.replace("/", "-")
        try:
            with meeting(world, met):
                report = export_topic(bucket.topic(topic), folder, "parquet")
        except _GONE:
            assert world.trimmed != trimmed
            return
        rows = rows_in(folder)
        self.compare(topic, rows, least)
        known = world.exported.setdefault(topic, Exported(set(world.trimmed)))
        found = {(ledger, entry) for ledger, entry, _ in rows}
        assert not found & world.unsafe, "a row that nobody was told is safe"
        assert known.rows <= found, "rows of an earlier export are gone"
        known.rows, known.is_loss_reported = found, known.is_loss_reported or bool(report.held)
        # What was trimmed while this one ran, the next one tells.
        gone = {row for of, row in world.values if of == topic and row[0] in trimmed - known.gone_before}
        gone -= found | world.unsafe
        assert not gone or known.is_loss_reported, f"nobody was told that rows are lost: {sorted(gone)[:5]}"

    def check(self, met: Met) -> None:
        """Have the doctor look: what has no owner since before it began is named, and nothing else that is of ledgers."""
        world = self.world
        least, was_dead = set(world.orphans), bool(world.dead())
        world.cluster.bucket().mkdir(parents=True, exist_ok=True)
        tier = Tier(open_bucket(world.cluster.bucket_url()), frozenset({"tier"}), None)
        with living(world.cluster) as cluster, meeting(world, met):
            check = check_cluster(cluster, NewestEntries(cluster.reading), [tier], Rules(0, 0), lambda *_: None)
        named = {
            kind: {one for found in check.findings if found.kind is kind for one in found.ledger_ids}
            for kind in FindingKind
        }
        orphans = set().union(*(named[kind] for kind in _ORPHANS))
        assert least <= orphans <= world.orphans, f"{sorted(orphans)}: {check.findings}"
        away = {FindingKind.UNDER_REPLICATED} if was_dead or world.dead() else set()
        odd = {kind: ids for kind, ids in named.items() if ids and kind not in {*_ORPHANS, *away}}
        assert not odd, f"{check.findings}"

    def read(self, reader: Reader, topic: str, *, anew: bool, met: Met) -> None:
        """Read a topic, and compare: by a new listing, or by the one that the reader has."""
        world, trimmed = self.world, set(self.world.trimmed)
        if anew or not reader.listed:
            reader.listed = {name: world.confirmed(name) for name in world.topics}
            trimmed_before = trimmed
            reader.bucket.expire()
        else:
            trimmed_before = set()
        least, was_dead = reader.listed[topic], bool(world.dead())
        try:
            with meeting(world, met):
                # A reader lists what he has not listed: also if somebody told him that it has changed.
                rows = [
                    (row["ledger_id"], row["entry_id"], row["value"])
                    for batch in reader.bucket.topic(topic).scan(columns=["ledger_id", "entry_id", "value"])
                    for row in batch.to_pylist()
                ]
        except (StoreUnreachableError, MissingLedgerError):
            # Whether an entry is on as many bookies as its writer waits for, nobody can tell while one of them is away.
            assert reader is world.readers[1]
            assert was_dead or world.dead()
            reader.listed = {}
            return
        except _GONE:
            is_nowhere = not least
            assert is_nowhere or world.trimmed != trimmed_before
            # The next read lists again.
            reader.listed = {}
            return
        self.compare(topic, rows, least)

    def compare(self, topic: str, rows: list[tuple[int, int, bytes]], least: set[Row]) -> None:
        world = self.world
        found = [(ledger, entry) for ledger, entry, _ in rows]
        assert len(found) == len(set(found)), "rows are there twice"
        missing = {row for row in least - set(found) if row[0] not in world.trimmed}
        assert not missing, f"rows are missing: {sorted(missing)[:5]}"
        for ledger, entry, value in rows:
            assert world.values[topic, (ledger, entry)].endswith(value), "a row has another value"
            assert value, "a row that nobody was told is safe"
        assert found == sorted(found)


def rows_in(folder: Path) -> list[tuple[int, int, bytes]]:
    """Return the rows of an export; there are no files if all ledgers were trimmed while it was made."""
    columns = ["ledger_id", "entry_id", "value"]
    tables = [pq.read_table(path, columns=columns) for path in folder.rglob("*.parquet")]
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())

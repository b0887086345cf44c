"""The operations that hypothesis chooses, as values that say in a failing example who did what: each is done by calling it."""

from dataclasses import dataclass
from typing import Protocol

from hypothesis import strategies as st

from ledgerfs.catalog.layouts_known import OF_BUCKETS
from ledgerfs.writing.write import IfExists
from tests.model import reading, spark_jobs, writing
from tests.model.brokers import HOUR
from tests.model.bucket_model import Content, Message, Row
from tests.model.meetings import Meeting
from tests.model.world import USERS_IDS, Actor, Refusals, World, objects_of
from tests.support.ledgers import CREATED_MS

WHOLE = "persistent://public/default/orders"
TOPICS = tuple(f"{WHOLE}-partition-{number}" for number in range(2))
"""The two partitions of one topic; the first one is also the first cluster's, the second one the other's."""
NAMES = (*TOPICS, WHOLE)
"""What can be read and exported."""


class Act(Protocol):
    """An operation, for whoever is to do it, with a meeting in the middle of it."""

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Import:
    """Rows become a ledger, of an id that is chosen for them, or of one's own."""

    bucket: int
    topic: int
    rows: int
    hours: tuple[int, ...]
    batch: int
    own_id: int | None

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        content = Content(TOPICS[self.topic], world.rows(self.rows, self.hours))
        ledger_id = None if self.own_id is None else USERS_IDS[2 * self.bucket + self.own_id]
        writing.import_rows(world, actor, self.bucket, content, ledger_id=ledger_id, batch=self.batch, meeting=meeting)


@dataclass(frozen=True, slots=True)
class Put:
    """A file of records becomes a ledger, through fsspec; with ``is_again`` it has the records of the one that is there."""

    bucket: int
    topic: int
    rows: int
    how: str
    if_exists: str
    own_id: int
    is_again: bool

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        ledger_id = USERS_IDS[2 * self.bucket + self.own_id]
        file = None
        if self.is_again:
            file = writing.file_there(world, self.bucket, TOPICS[self.topic], ledger_id)
        policy = IfExists(self.if_exists)
        if policy is IfExists.NEW_COPY and file is None:
            policy = IfExists.FAIL  # a copy with other rows would hide those that are there
        if policy is IfExists.SKIP and self.how == "open":
            policy = IfExists.FAIL  # what is opened for writing cannot be skipped
        file = file or writing.new_file(Content(TOPICS[self.topic], world.rows(self.rows)))
        writing.put_file(
            world, actor, self.bucket, file, ledger_id=ledger_id, how=self.how, if_exists=policy, meeting=meeting
        )


@dataclass(frozen=True, slots=True)
class SparkWrite:
    """A DataFrame becomes ledgers, one a partition, as Spark has the data source write it."""

    bucket: int
    topic: int
    partitions: tuple[int, ...]

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        topic = TOPICS[self.topic]
        contents = [Content(topic, world.rows(rows)) for rows in self.partitions]
        spark_jobs.write(world, actor, self.bucket, contents, meeting=meeting)


@dataclass(frozen=True, slots=True)
class Repair:
    """A bucket is repaired, also of what was written just now."""

    bucket: int

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        writing.repair(world, actor, self.bucket)


@dataclass(frozen=True, slots=True)
class Remove:
    """One of the ledgers is deleted by its path."""

    bucket: int
    place: int

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        state = world.models[self.bucket].now
        ledgers = sorted({(copy.content.topic, ledger_id) for (_, ledger_id), copy in state.items() if copy.has_data})
        if ledgers:
            topic, ledger_id = ledgers[self.place % len(ledgers)]
            writing.remove(world, actor, self.bucket, topic, ledger_id, meeting=meeting)


@dataclass(frozen=True, slots=True)
class Offload:
    """All ledgers of a bucket are copied into the other one, with ``unbatch`` under new ids, an entry a message."""

    source: int
    if_exists: str
    new_uuid: bool
    unbatch: bool

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        writing.offload(
            world,
            actor,
            self.source,
            1 - self.source,
            if_exists=IfExists(self.if_exists),
            new_uuid=self.new_uuid,
            unbatch=self.unbatch,
            meeting=meeting,
        )


@dataclass(frozen=True, slots=True)
class Read:
    """A topic, or both partitions as one, is read, all of it, or from one of its messages to another one."""

    bucket: int
    topic: int
    how: str
    start: int | None
    end: int | None

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        topic, how = NAMES[self.topic], self.how
        if topic == WHOLE and how in reading.OF_FILES:
            how = "table"
        copies = (copy for copy in world.models[self.bucket].now.values() if copy.content.topic.startswith(topic))
        known = sorted({_time_of(message) for copy in copies for message in copy.content.messages})
        times = tuple(known[end % len(known)] if known and end is not None else None for end in (self.start, self.end))
        if None not in times and times[0] >= times[1]:
            times = times[0], times[0] + 1
        reading.read(world, actor, self.bucket, topic, how=how, times=times, meeting=meeting)


@dataclass(frozen=True, slots=True)
class ReadOneLayout:
    """A bucket is looked at in one layout, whatever catalogs are kept."""

    bucket: int
    layout: str

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        reading.list_topics(world, actor, self.bucket, layout=self.layout, meeting=meeting)


def _time_of(message: Message) -> int:
    return message.time_ms if isinstance(message, Row) else message.row.time_ms


@dataclass(frozen=True, slots=True)
class Export:
    """A topic is exported into the folder that it always is exported to, or into that of another bucket's topic of this name.

    ``window`` is a range of time: from so many hours after the beginning on, and before so many.
    """

    bucket: int
    topic: int
    kind: str
    window: tuple[int, int] | None
    into: int

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        topic = NAMES[self.topic]
        name = topic.removeprefix("persistent://").replace("/", "-")
        folder = world.folder / "exports" / f"{(self.bucket + self.into) % 2} {name} {self.kind} {self.window}"
        times = (None, None) if self.window is None else tuple(CREATED_MS + hour * HOUR for hour in self.window)
        reading.export(world, actor, self.bucket, topic, folder, kind=self.kind, times=times, meeting=meeting)


@dataclass(frozen=True, slots=True)
class Verify:
    """A bucket is verified."""

    bucket: int

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        reading.check(world, actor, self.bucket, meeting=meeting)


@dataclass(frozen=True, slots=True)
class Arrive:
    """A broker's ledger arrives: any one that waits, so that smaller ids may come later; with ``is_half`` half of it first."""

    bucket: int
    cluster: int
    place: int
    is_half: bool
    rows: int
    is_chunked: bool
    is_mapfile: bool

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        broker = world.clusters[self.cluster]
        if not broker.waiting:
            topic = TOPICS[self.cluster]
            world.seal(self.cluster, topic, self.rows, is_chunked=self.is_chunked, is_mapfile=self.is_mapfile)
        if self.is_half and broker.halves:
            world.arrive(*broker.halves.pop(), is_begun=True)
            return
        sealed = broker.waiting.pop(self.place % len(broker.waiting))
        if self.is_half:
            broker.halves.append((self.bucket, sealed))
            world.begin_to_arrive(self.bucket, sealed)
        else:
            world.arrive(self.bucket, sealed)


@dataclass(frozen=True, slots=True)
class Vanish:
    """Objects of a ledger vanish, past all of ledgerfs."""

    bucket: int
    place: int
    what: str

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        keys = sorted(world.models[self.bucket].now)
        if keys:
            key = keys[self.place % len(keys)]
            world.destroy(self.bucket, key, data=self.what != "index", index=self.what != "data")


@dataclass(frozen=True, slots=True)
class WhileRefused:
    """An operation, during which the store refuses objects of a ledger, or to list the bucket and its folder of MapFiles."""

    act: Import | Put | SparkWrite | Repair | Remove | Offload | Read | ReadOneLayout | Export | Verify
    place: int
    what: str
    passes: int
    times: int
    is_archived: bool

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        bucket = self.act.source if isinstance(self.act, Offload) else self.act.bucket
        state = world.models[bucket].now
        keys = sorted(state)
        names: tuple[str, ...] = ("", "public/")
        if keys and self.what != "listing":
            key = keys[self.place % len(keys)]
            data, index = objects_of(key, state[key])
            names = {"data": (data,), "index": (index,)}.get(self.what, (data, index))
        is_archived = self.is_archived and "" not in names
        world.refusals[bucket] = Refusals(names, self.passes, self.times, is_archived=is_archived)
        try:
            self.act(world, actor, meeting)
        finally:
            world.refusals[bucket] = Refusals()
            if actor.is_session:
                # From now on it is to find everything again.
                actor.files(bucket).invalidate_cache()
                actor.forget(bucket)


ACTORS = st.integers(0, 5)
SESSIONS = st.integers(4, 5)
numbers = st.integers(0, 1)
_names = st.integers(0, 2)
places = st.integers(0, 7)
_shifts = st.sampled_from([(), (-3,), (3,), (2, -2), (-5, 5, 0)])

IMPORTS = st.builds(
    Import,
    numbers,
    numbers,
    st.integers(1, 4),
    _shifts,
    st.sampled_from([1, 2, 1000]),
    st.sampled_from([None, None, 0, 1]),
)
PUTS = st.builds(
    Put,
    numbers,
    numbers,
    st.integers(1, 3),
    st.sampled_from(["pipe", "put", "open"]),
    st.sampled_from(["fail", "skip", "new-copy"]),
    numbers,
    st.booleans(),
)
REMOVALS = st.builds(Remove, numbers, places)
_rarely = st.sampled_from([False, False, True])
OFFLOADS = st.builds(Offload, numbers, st.sampled_from(["skip", "skip", "fail"]), _rarely, _rarely)
READS = st.builds(
    Read, numbers, _names, st.sampled_from(sorted(reading.READERS)), st.none() | places, st.none() | places
)
ONE_LAYOUT = st.builds(ReadOneLayout, numbers, st.sampled_from(OF_BUCKETS))
EXPORTS = st.builds(
    Export,
    numbers,
    _names,
    st.sampled_from(["parquet", "jsonl"]),
    st.sampled_from([None, None, (2, 6)]),
    st.sampled_from([0, 0, 0, 1]),
)
SPARK_WRITES = st.builds(SparkWrite, numbers, numbers, st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple))
REPAIRS = st.builds(Repair, numbers)
CHECKS = st.builds(Verify, numbers)
ARRIVALS = st.builds(
    Arrive,
    numbers,
    numbers,
    places,
    st.sampled_from([False, False, True]),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
LOSSES = st.builds(Vanish, numbers, places, st.sampled_from(["both", "index", "data"]))


READERS = st.one_of(READS, READS, ONE_LAYOUT, EXPORTS, CHECKS)
WRITERS = st.one_of(IMPORTS, PUTS, SPARK_WRITES, REPAIRS, REPAIRS, REMOVALS, OFFLOADS, OFFLOADS)


def while_refused(acts: st.SearchStrategy[Act]) -> st.SearchStrategy[Act]:
    """Return the operations on a store that refuses something."""
    whats = st.sampled_from(["index", "index", "both", "data", "listing"])
    return st.builds(
        WhileRefused, acts, places, whats, st.sampled_from([0, 0, 1, 3]), st.sampled_from([1, 1000]), st.booleans()
    )


@dataclass(frozen=True, slots=True)
class Between:
    """Another actor's operation in the middle of one, at its n-th point (`tests.model.meetings`): any other one, or None for the same.

    The other actor is told by how far he is from the first.
    """

    number: int
    step: int
    act: Act | None


OTHERS = st.one_of(IMPORTS, PUTS, SPARK_WRITES, REMOVALS, OFFLOADS, EXPORTS, ARRIVALS, LOSSES, READS)


def meetings_with(others: st.SearchStrategy[Act]) -> st.SearchStrategy[Between | None]:
    """Return meetings of the same operation, or of one of others; or none."""
    same_or_other = st.booleans().flatmap(lambda is_same: st.none() if is_same else others)
    return st.booleans().flatmap(
        lambda is_met: st.builds(Between, st.integers(0, 9), st.integers(1, 5), same_or_other) if is_met else st.none()
    )


MEETINGS = meetings_with(OTHERS)

"""The operations about schemas that hypothesis chooses: clusters change theirs, people save them or give them by hand, import and read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.writing import imports
from ledgerfs.writing.schemas_of_rows import SchemaOfRows
from tests.model import acts, typed_reading
from tests.model.acts import NAMES, TOPICS, WHOLE, Act, numbers
from tests.model.brokers import HOUR
from tests.model.bucket_model import Content, Row, Written
from tests.model.meetings import Meeting
from tests.model.schemas import KINDS, Kind, kind_of, typed
from tests.model.world import Actor, Options, World

_SLIGHTLY_LATER = (0, 5_000, 3_000 - HOUR)
"""When a schema is registered: before the next messages, some seconds after the first of them, or just after the last ones."""


@dataclass(frozen=True, slots=True)
class ChangeSchemas:
    """The clusters register a schema, or delete all, so that numbers go on, or begin again."""

    how: str
    kind: str
    place: int

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        world.registry.change(self.how, self.kind, world.clock + _SLIGHTLY_LATER[self.place % len(_SLIGHTLY_LATER)])


@dataclass(frozen=True, slots=True)
class SaveSchemas:
    """What a cluster says of its schemas is saved; it may say something else by then."""

    bucket: int

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        said = [one.reported for one in world.registry.visible]
        with world.acting(actor, meeting):
            try:
                SavedSchemas(actor.bucket(self.bucket).raw_store).add(WHOLE, said)
            except LedgerfsError as error:
                raise AssertionError(f"{actor} cannot save schemas: {error!r}") from error


@dataclass(frozen=True, slots=True)
class SetByHand:
    """Somebody says what a number means, or all that nothing else tells of, or takes that back.

    With ``is_timed`` he says it of the time when the cluster had that schema, and says what is true.
    """

    bucket: int
    place: int
    kind: str
    is_timed: bool
    is_taken_back: bool

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        known = [one for one in world.registry.ever if not one.is_deletion]
        world.words += 1
        if self.is_timed and known:
            one = known[self.place % len(known)]
            said = SchemaVersion(one.version, KINDS[one.kind].schema, one.time_ms, source=BY_HAND, saved_ms=world.words)
        else:
            versions = [ANY_VERSION, *(one.version for one in known), _own_number(self.bucket)]
            schema = SchemaInfo("NONE") if self.is_taken_back else KINDS[self.kind].schema
            number = versions[self.place % len(versions)]
            said = SchemaVersion(number, schema, None, self.is_taken_back, BY_HAND, world.words)
        with world.acting(actor, meeting):
            SavedSchemas(actor.bucket(self.bucket).raw_store).add(WHOLE, [said])


@dataclass(frozen=True, slots=True)
class ImportTyped:
    """Rows become a ledger, with values by a schema.

    Schema and number are "reported", those that the clusters have now; "saved", some of those in the bucket; "wrong", the number that the
    clusters have now, of whatever schema; or none is given ("none"); else the number is the bucket's own ("own").
    """

    bucket: int
    topic: int
    rows: int
    hours: tuple[int, ...]
    batch: int
    kind: str
    number: str
    is_flat: bool

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        name, version = self._chosen(world)
        kind = KINDS[name]
        plain = world.rows(self.rows, self.hours)
        topic = TOPICS[self.topic]
        by_number: dict[int, Content] = {}

        def content_of(*_: object) -> Content:
            assert actor.running is not None
            number = actor.running.schema_version
            assert number is not None
            assert version in {None, number}
            rows = tuple(typed(row, Written(name, number, self.bucket)) for row in plain)
            return by_number.setdefault(number, Content(topic, rows))

        actor.seen.setdefault(self.bucket, world.models[self.bucket].moment)
        with world.acting(actor, meeting, content_of) as running:
            try:
                done = imports.import_rows(
                    actor.bucket(self.bucket), _table(kind, plain, is_flat=self.is_flat), topic, batch=self.batch,
                    block_size=world.block_size, schema=kind.schema, schema_version=version,
                )  # fmt: skip
            except LedgerfsError as error:
                world.require_nothing_left(self.bucket, running, error)
                return
            assert done.schema_version == running.schema_version
            key = done.written.ledger.key
            world.acknowledge(self.bucket, running, [(key.uuid, key.ledger_id)])

    def _chosen(self, world: World) -> tuple[str, int | None]:
        """Return the schema, and the number that is given."""
        in_use = world.registry.in_use
        match self.number:
            case "none":
                # Of a topic of which nothing is known it is the first one, which is what it is in the clusters, too.
                return (self.kind if world.saved[self.bucket].now else FIRST), None
            case "wrong" if in_use:
                return self.kind, in_use[-1].version
            case "reported" if in_use:
                return in_use[-1].kind, in_use[-1].version
            case "saved":
                known = [one for one in world.saved[self.bucket].now if one.version >= 0 and not one.is_deletion]
                if known:
                    one = known[self.rows % len(known)]
                    return kind_of(one.schema), one.version
        return self.kind, _own_number(self.bucket)


FIRST = "first"
"""The schema with which the clusters begin."""


def _own_number(bucket: int) -> int:
    """Return a number that no cluster and no other bucket has."""
    return 100 + bucket


def _table(kind: Kind, rows: Sequence[Row], *, is_flat: bool) -> pa.Table:
    times = pa.array([row.time_ms * 1000 for row in rows], pa.timestamp("us", "UTC"))
    values: list[Any] = [kind.decode(typed(row, Written(kind.name, 0, 0)).value.encode()) for row in rows]
    columns = pa.Table.from_pylist(values) if is_flat and kind.fields else pa.table({"value": values})
    return columns.append_column("publish_time", times)


def begin(world: World) -> None:
    """Have the clusters begin with a schema."""
    world.registry.change("register", FIRST, world.clock)


def numbers_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an import tell which number it has chosen, before it publishes anything."""
    chosen = SchemaOfRows.of

    def of(bucket: Any, *given: Any) -> SchemaOfRows:
        made = chosen(bucket, *given)
        bucket.raw_store.witness.chosen(made.version)
        return made

    monkeypatch.setattr(SchemaOfRows, "of", of)


@dataclass(frozen=True, slots=True)
class ReadTyped:
    """A topic, or both partitions as one, is read with values as columns."""

    bucket: int
    topic: int
    how: str
    values: str
    version: object
    on_undecodable: str
    flatten: bool

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        topic, how = NAMES[self.topic], self.how
        if topic == WHOLE and how in typed_reading.OF_FILES:
            how = "table"
        options = _options(world, self.bucket, self.values, self.version, self.on_undecodable)
        if how in typed_reading.OF_FILES and self.on_undecodable == "skip":
            options = tuple(one for one in options if one[0] != "on_undecodable")
        if self.flatten and how not in {"parts", *typed_reading.OF_FILES}:
            options += (("flatten", True),)
        typed_reading.read(world, actor, self.bucket, topic, how=how, options=options, meeting=meeting)


@dataclass(frozen=True, slots=True)
class ExportTyped:
    """A topic is exported with values as columns, into the folder that is for these options."""

    bucket: int
    topic: int
    version: object
    on_undecodable: str

    def __call__(self, world: World, actor: Actor, meeting: Meeting | None) -> None:
        options = _options(world, self.bucket, "typed", self.version, self.on_undecodable)
        name = "-".join([str(self.bucket), str(self.topic), *(str(value) for _, value in options)])
        folder = world.folder / "exports" / f"typed {name}"
        topic = NAMES[self.topic]
        typed_reading.export(world, actor, self.bucket, topic, folder, options=options, meeting=meeting)


def _options(world: World, bucket: int, values: str, version: object, on_undecodable: str) -> Options:
    """Return options of a scan; the n-th version is the n-th number that is saved."""
    if isinstance(version, int):
        known = sorted({one.version for one in world.saved[bucket].now if one.version >= 0})
        version = known[version % len(known)] if known else 0
    return ("values", values), ("schema_version", version), ("on_undecodable", on_undecodable)


_names = st.integers(0, 2)
_kinds = st.sampled_from(["first", "first", "like first", "like first", "longer", "text", "number", "document"])
_buckets = st.sampled_from([0, 0, 0, 1])
_places = st.integers(0, 7)
_versions = st.sampled_from(["latest", "latest", "each", "each", 0, 1, 2])
_failures = st.sampled_from(["null", "null", "skip", "raise"])
_rarely = st.sampled_from([False, False, True])

CHANGES = st.builds(
    ChangeSchemas, st.sampled_from(["register", "register", "again", "again", "delete", "force"]), _kinds, _places
)
SAVES = st.builds(SaveSchemas, _buckets)
WORDS = st.builds(SetByHand, _buckets, _places, _kinds, _rarely, _rarely)
TYPED_IMPORTS = st.builds(
    ImportTyped,
    _buckets,
    numbers,
    st.integers(1, 3),
    st.sampled_from([(), (), (-3,), (3,), (-5, 5, 0)]),
    st.sampled_from([1, 1000]),
    _kinds,
    st.sampled_from(["reported", "saved", "own", "own", "none", "wrong"]),
    st.booleans(),
)
TYPED_READS = st.builds(
    ReadTyped,
    _buckets,
    _names,
    st.sampled_from(sorted(typed_reading.READERS)),
    st.sampled_from(["typed", "typed", "auto"]),
    _versions,
    _failures,
    st.booleans(),
)
TYPED_EXPORTS = st.builds(ExportTyped, _buckets, _names, _versions, _failures)
OF_SCHEMAS: st.SearchStrategy[Act] = st.one_of(
    SAVES, CHANGES, WORDS, TYPED_IMPORTS, TYPED_IMPORTS, TYPED_IMPORTS, TYPED_READS, TYPED_READS, TYPED_EXPORTS
)
OF_BUCKETS: st.SearchStrategy[Act] = st.one_of(
    acts.ARRIVALS, acts.ARRIVALS, acts.OFFLOADS, acts.REMOVALS, acts.IMPORTS, acts.CHECKS, acts.REPAIRS
)
ALL: st.SearchStrategy[Act] = st.one_of(OF_SCHEMAS, OF_SCHEMAS, OF_BUCKETS)
MEETINGS = acts.meetings_with(st.one_of(OF_SCHEMAS, OF_SCHEMAS, acts.OTHERS))

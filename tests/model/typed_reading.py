"""What actors do that read values as columns, and of which moments that may tell."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ledgerfs.bucket.partitions import Partition
from ledgerfs.errors import InvalidOptionError, LedgerfsError, UndecodableValueError, UnknownSchemaError
from ledgerfs.export.export import export_topic
from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.scan.report import ScanReport
from ledgerfs.spark.source.message_rows import read_partition
from ledgerfs.spark.source.planning import plan_parts, plan_values
from ledgerfs.spark.source.read_options import read_options
from tests.model.bucket_model import State, is_whole, merged_rows_of, rows_by_file, rows_of
from tests.model.meetings import Meeting
from tests.model.schemas import EACH, KINDS, Shape
from tests.model.spark_jobs import using
from tests.model.typed_oracle import Expectation, Found, Saved, Table, difference
from tests.model.world import Actor, Options, World

_PLACE = "ledger_id"
"""A column beside the value, or its fields."""


@dataclass(slots=True)
class Reading:
    """One reading of a topic, with the options of scans.

    Attributes
    ----------
    since
        The states of ledgers and of schemas since which it may tell.
    shape
        What values are, as far as that is known.

    """

    actor: Actor
    number: int
    topic: str
    options: Options
    since: tuple[int, int]
    shape: Shape | None = None
    rows: list[Found] = field(default_factory=list)
    undecodable: list[Undecodable] | None = None
    count: int | None = None

    @property
    def is_skipped(self) -> bool:
        return dict(self.options).get("on_undecodable") == "skip"

    @property
    def table(self) -> Table:
        """What was found."""
        if self.undecodable is None:
            return Table(self.rows, None, self.is_skipped)
        counts = Counter[bool]()
        for one in self.undecodable:
            counts[one.is_error] += one.count
        return Table(self.rows, (counts[True], counts[False]), self.is_skipped)


def read(
    world: World, actor: Actor, number: int, topic: str, *, how: str, options: Options, meeting: Meeting | None
) -> None:
    """Read values as columns, and compare them with what was written, and what was known of schemas while it was read."""
    model, saved = world.models[number], world.saved[number]
    actor.seen.setdefault(number, model.moment)
    reading = Reading(actor, number, topic, options, (model.moment, saved.moment))
    error: LedgerfsError | None = None
    with world.acting(actor, meeting):
        try:
            READERS[how](reading)
        except LedgerfsError as raised:
            error = raised
    states = list(model.history[reading.since[0] :]) if how in OF_FILES else actor.may_see(number, reading.since[0])
    rows_in = merged_rows_of if how == "merged" else rows_of
    known = saved.history[reading.since[1] :]
    what = f"{actor} reads {topic} of bucket {number} as {how} {dict(options)}"
    expected = [
        [Expectation(row, known, number) for row in rows_in(state, topic)] for state in states if is_whole(state, topic)
    ]
    if error is not None:
        require_error(what, error, reading, states, known, expected)
        return
    assert expected, f"{what}: ledgers of it are missing"
    differences = [_difference(reading, rows) for rows in expected]
    assert None in differences, f"typed: {what}: {differences[-1]}; saved is {known[-1]}"


def _difference(reading: Reading, expected: Sequence[Expectation]) -> str | None:
    if reading.count is None:
        return difference(reading.table, expected, reading.shape)
    assert reading.shape is not None
    shape = reading.shape
    least = sum(not one.may_fail(shape) for one in expected) if reading.is_skipped else len(expected)
    return None if least <= reading.count <= len(expected) else f"{reading.count} of {least} to {len(expected)} rows"


def require_error(
    what: str,
    error: LedgerfsError,
    reading: Reading,
    states: Sequence[State],
    known: Sequence[Saved],
    expected: Sequence[Sequence[Expectation]],
) -> None:
    """Say that an error was right: the topic was not whole, or has values that cannot be decoded, or no schema."""
    if len(states) > 1 or not is_whole(states[0], reading.topic):
        return
    options = dict(reading.options)
    if isinstance(error, UndecodableValueError):
        assert options.get("on_undecodable", "raise") == "raise", f"typed: {what}: {error!r}"
        shapes = [reading.shape] if reading.shape is not None else _SHAPES
        is_right = any(one.may_fail(shape) for rows in expected for one in rows for shape in shapes)
    elif isinstance(error, UnknownSchemaError):
        version = options.get("schema_version", "latest")
        is_right = any(
            not _numbers(saved) if version == "latest" else version not in _numbers(saved) for saved in known
        )
    else:
        is_right = False
    assert is_right, f"typed: {what}: {error!r}; saved is {known[-1]}"


_SHAPES: tuple[Shape, ...] = (EACH, *(one.shape for one in KINDS.values()))


def _numbers(saved: Saved) -> set[int]:
    """Return the numbers that certainly have a schema."""
    words = {one.version for one in saved if one.is_by_hand and one.timestamp_ms is None}
    last = {
        number: max(
            (one for one in saved if one.version == number and one.is_by_hand), key=lambda one: one.saved_ms or 0
        )
        for number in words
    }
    given = {number for number, one in last.items() if not one.is_deletion}
    return given | {
        one.version for one in saved if not one.is_deletion and not (one.is_by_hand and one.timestamp_ms is None)
    }


def shape_of(schema: pa.Schema) -> Shape:
    """Return what the values of a table are, which may be flattened."""
    names: tuple[str, ...] = tuple(name for name in schema.names if name != _PLACE)
    if names == ("value",):
        kind = schema.field("value").type
        if not pa.types.is_struct(kind):
            return _PLAIN[str(kind)]
        names = tuple(kind.names)
    return names if "who" in names else EACH


_PLAIN: dict[str, Shape] = {"int64": ("INT64",), "string": ("STRING",), "binary": ("bytes",)}


def found_in(table: pa.Table | pa.RecordBatch) -> list[Found]:
    """Return the rows of a table of values, and perhaps their places."""
    shape = shape_of(table.schema)
    rows = table.to_pylist()
    values = []
    for row in rows:
        row.pop(_PLACE, None)
        value = row["value"] if list(row) == ["value"] else row
        if isinstance(value, dict):
            there = {name: one for name, one in value.items() if one is not None}
            if shape == EACH:
                assert len(there) <= 1, f"a value of several versions: {value}"
                value = next(iter(there.values()), None)
            else:
                value = value if there else None
        values.append(Found(value, shape))
    return values


def _scan(reading: Reading, order: str = "partition") -> None:
    topic = reading.actor.bucket(reading.number).topic(reading.topic)
    scan: Any = topic.scan([_PLACE, "value"], order=order, **dict(reading.options))
    reading.shape = shape_of(scan.schema)
    reading.actor.met()
    report = ScanReport()
    for batch in scan.batches(report):
        reading.actor.met()
        reading.rows += found_in(batch)
    reading.undecodable = report.undecodable


def _merged(reading: Reading) -> None:
    _scan(reading, "publish_time")


def _again(reading: Reading) -> None:
    """Read twice by one plan."""
    topic = reading.actor.bucket(reading.number).topic(reading.topic)
    scan: Any = topic.scan([_PLACE, "value"], **dict(reading.options))
    reading.shape = shape_of(scan.schema)
    first = scan.to_arrow()
    reading.actor.met()
    report = ScanReport()
    table = scan.to_arrow(report)
    assert table.equals(first), "one plan reads two tables"
    reading.rows, reading.undecodable = found_in(table), report.undecodable


def _count(reading: Reading) -> None:
    topic = reading.actor.bucket(reading.number).topic(reading.topic)
    reading.shape = shape_of(topic.scan(["value"], **dict(reading.options)).schema)
    if len(reading.actor.world.saved[reading.number].history) > reading.since[1] + 1:
        reading.shape = EACH
    reading.count = topic.count(**dict(reading.options))


def _in_parts(reading: Reading) -> None:
    """Read in parts that are as small as can be, as Spark plans them first and has tasks read them later."""
    actor, number = reading.actor, reading.number
    place = actor.world.places[number]
    given = {_OF_SPARK[name]: str(value) for name, value in reading.options}
    reported: list[Undecodable] = []
    with using(actor, number):
        options = read_options({"path": place.url, "topic": reading.topic, "partitionBytes": "1", **given})
        scan = replace(options.scan, columns=("value",))
        values = plan_values(options)
        reading.shape = shape_of(values.schema(scan))
        actor.met()
        for part, schemas in plan_parts(options, values):
            actor.met()
            with using(actor, number):
                for batch in read_partition(
                    Partition.of(part), options.storage, scan,
                    on_end=lambda report: reported.extend(report.undecodable), schemas=schemas,
                ):  # fmt: skip
                    reading.rows += found_in(batch)
    reading.undecodable = reported


_OF_SPARK = {
    "values": "values",
    "schema_version": "schemaVersion",
    "on_undecodable": "onUndecodable",
    "flatten": "flatten",
}


def _parquet(reading: Reading) -> None:
    fs, *since = reading.actor.typed_files(reading.number, reading.options)
    reading.since = (since[0], since[1])
    for path in fs.ls(f"parquet/{reading.topic.removeprefix('persistent://')}", detail=False):
        reading.actor.met()
        if "@" not in path:
            with fs.open(path) as file:
                reading.rows += found_in(pq.read_table(file, columns=["value"]))


READERS: dict[str, Callable[[Reading], None]] = {
    "table": _scan,
    "merged": _merged,
    "twice": _again,
    "count": _count,
    "parts": _in_parts,
    "parquet": _parquet,
}
OF_FILES = {"parquet"}
"""Those that read the tree, which has a folder for each partition."""


def export(
    world: World, actor: Actor, number: int, topic: str, folder: Path, *, options: Options, meeting: Meeting | None
) -> None:
    """Export values as columns into a folder: what is in it is what an export into a new one would be, or it is refused."""
    model, saved = world.models[number], world.saved[number]
    actor.seen.setdefault(number, model.moment)
    reading = Reading(actor, number, topic, options, (model.moment, saved.moment))
    error: LedgerfsError | None = None
    is_first = folder not in world.exporting
    world.exporting.add(folder)
    with world.acting(actor, meeting):
        try:
            opened = actor.bucket(number).topic(topic)
            report = export_topic(opened, folder, "parquet", columns=[_PLACE, "value"], **dict(options))
            reading.undecodable = report.undecodable
        except LedgerfsError as raised:
            error = raised
    if is_first:
        world.exporting.discard(folder)
    states, known = actor.may_see(number, reading.since[0]), saved.history[reading.since[1] :]
    earlier = world.typed_exports.setdefault(folder, [])
    is_other = any(one != known[-1] for one in (*earlier, *known))
    earlier += known
    what = f"{actor} exports columns of {topic} of bucket {number} to {folder.name}"
    expected = [
        {name: [Expectation(row, known, number) for row in rows] for name, rows in rows_by_file(state, topic).items()}
        for state in states
        if is_whole(state, topic)
    ]
    if error is not None:
        if (is_other and isinstance(error, InvalidOptionError)) or not is_first:
            return
        rows = [[one for rows in by_file.values() for one in rows] for by_file in expected]
        require_error(what, error, reading, states, known, rows)
        return
    assert expected, f"{what}, and ledgers of it are missing"
    files = {path.stem: found_in(pq.read_table(path)) for path in folder.glob("[0-9]*.parquet")}
    ever = {name for one in model.history for name in rows_by_file(one, topic)}
    differences = [_difference_of_files(reading, by_file, files) for by_file in expected]
    assert not set(files) - ever, f"files of no ledger: {set(files) - ever}"
    assert None in differences, f"typed: {what}: {differences[-1]}; saved is {known[-1]}"


def _difference_of_files(
    reading: Reading, expected: dict[str, list[Expectation]], files: dict[str, list[Found]]
) -> str | None:
    shapes: Iterable[Shape] = {one.shape for rows in files.values() for one in rows}
    shape = next(iter(shapes), EACH)
    for name, rows in expected.items():
        reported = difference(Table(files.get(name, []), None, reading.is_skipped), rows, shape)
        if reported is not None:
            return f"file {name}: {reported}"
    return None

"""What actors do that read, and of which moments that may tell."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.errors import LedgerfsError
from ledgerfs.export.export import export_topic
from ledgerfs.scan.options import Order
from ledgerfs.verification.verify import verify
from tests.model import spark_jobs
from tests.model.bucket_model import (
    Row,
    State,
    is_whole,
    merged_rows_of,
    rows_by_file,
    rows_of,
)
from tests.model.meetings import Meeting
from tests.model.world import Actor, World

Select = Callable[[Row], bool]


def read(
    world: World,
    actor: Actor,
    number: int,
    topic: str,
    *,
    how: str,
    times: tuple[int | None, int | None],
    meeting: Meeting | None,
) -> None:
    """Read a topic, and compare it with what was true while it was read."""
    model = world.models[number]
    begin = model.moment
    actor.seen.setdefault(number, begin)
    start, end = times
    found: list[str] | int | None = None
    error: LedgerfsError | None = None
    with world.acting(actor, meeting):
        try:
            found = READERS[how](actor, number, topic, times)
        except LedgerfsError as raised:
            error = raised
    select = _within(start, end) if how in TIMED else _all
    require_true(
        f"{actor} reads {topic} of bucket {number} as {how} {times}",
        actor.may_see(number, begin),
        topic,
        select,
        found,
        error,
        (lambda state, name: merged_rows_of(state, name, select)) if how == "merged" else rows_of,
        was_refused=number in actor.refused,
    )


def list_topics(world: World, actor: Actor, number: int, *, layout: str, meeting: Meeting | None) -> None:
    """List the topics of a bucket in one layout, and compare them with what was true meanwhile."""
    begin = world.models[number].moment
    with world.acting(actor, meeting):
        try:
            found = {topic.name for topic in actor.bucket(number, layout).topics() if topic.ledgers}
        except LedgerfsError:
            assert number in actor.refused
            return
    states = world.models[number].history[0 if actor.max_age else begin :]
    expected = [
        {copy.content.topic for copy in state.values() if copy.has_data and layout in {AUTO, copy.layout}}
        for state in states
    ]
    if number in actor.refused:
        # A topic may be known of which no ledger can be read.
        assert any(found <= topics for topics in expected), f"{actor} lists {found}, and there was {expected[-1]}"
        return
    assert found in expected, f"{actor} lists bucket {number} in {layout}: {found}, and there was {expected[-1]}"


def require_true(
    what: str,
    states: Sequence[State],
    topic: str,
    select: Select,
    found: list[str] | int | None,
    error: LedgerfsError | None,
    rows_in: Callable[[State, str], list[Row]] = rows_of,
    *,
    was_refused: bool,
) -> None:
    """Say that what a reader found is the topic as it was at one of some moments, or that an error was right."""
    if error is not None:
        # A bucket that changed meanwhile may be told as that.
        assert was_refused or len(states) > 1 or not is_whole(states[0], topic), f"{what}: {error!r}"
        return
    expected = [
        [row.value for row in rows_in(state, topic) if select(row)] for state in states if is_whole(state, topic)
    ]
    matching = [len(rows) if isinstance(found, int) else rows for rows in expected]
    assert matching, f"{what}: returned {found}, and ledgers of it are missing"
    assert found in matching, f"{what}: returned\n{found}, and there was\n{expected[-1]}"


def _all(row: Row) -> bool:
    return True


def _within(start: int | None, end: int | None) -> Select:
    return lambda row: (start is None or row.time_ms >= start) and (end is None or row.time_ms < end)


Times = tuple[int | None, int | None]


def _scan(actor: Actor, number: int, topic: str, times: Times, order: Order = "partition") -> list[str]:
    scan = actor.bucket(number).topic(topic).scan(["value"], start_time=times[0], end_time=times[1], order=order)
    found: list[str] = []
    for batch in scan:
        actor.met()
        found += _texts(batch.column("value").to_pylist())
    return found


def _merged(actor: Actor, number: int, topic: str, times: Times) -> list[str]:
    return _scan(actor, number, topic, times, "publish_time")


def _count(actor: Actor, number: int, topic: str, times: Times) -> int:
    return actor.bucket(number).topic(topic).count(start_time=times[0], end_time=times[1])


def _in_parts(actor: Actor, number: int, topic: str, times: Times) -> list[str]:
    return spark_jobs.read(actor, number, topic)


def _by_id(actor: Actor, number: int, topic: str, times: Times) -> list[str]:
    opened = actor.bucket(number).topic(topic)
    ids = opened.scan(["ledger_id", "entry_id", "partition", "batch_index"]).to_arrow().to_pylist()
    actor.met()
    found = []
    for row in ids:
        place = (row["ledger_id"], row["entry_id"])
        index = row["batch_index"]
        if opened.is_partitioned:
            # Two clusters have ledgers of one id.
            place = (*place, row["partition"])
            index = index or 0
        value = opened.message(place if index is None else (*place, index)).value
        found += _texts([value])
    return found


def _jsonl(actor: Actor, number: int, topic: str, times: Times) -> list[str]:
    fs = actor.files(number)
    found = []
    for path in fs.ls(f"jsonl/{topic.removeprefix('persistent://')}", detail=False):
        actor.met()
        if "@" not in path:
            found += [json.loads(line)["value"] for line in fs.cat_file(path).splitlines()]
    return found


def _parquet(actor: Actor, number: int, topic: str, times: Times) -> list[str]:
    fs = actor.files(number)
    found = []
    for path in fs.ls(f"parquet/{topic.removeprefix('persistent://')}", detail=False):
        actor.met()
        if "@" not in path:
            with fs.open(path) as file:
                found += _texts(pq.read_table(file, columns=["value"]).column("value").to_pylist())
    return found


def _texts(values: Sequence[bytes | None]) -> list[str]:
    return [(value or b"").decode() for value in values]


READERS: dict[str, Callable[[Actor, int, str, Times], list[str] | int]] = {
    "table": _scan,
    "merged": _merged,
    "count": _count,
    "parts": _in_parts,
    "messages": _by_id,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
TIMED = {"table", "merged", "count"}
OF_FILES = {"jsonl", "parquet"}
"""Those that read the tree, which has a folder for each partition."""


def export(
    world: World,
    actor: Actor,
    number: int,
    topic: str,
    folder: Path,
    *,
    kind: str,
    times: Times,
    meeting: Meeting | None,
) -> None:
    """Export a topic into a folder, and compare that with what was true meanwhile."""
    model = world.models[number]
    begin = model.moment
    actor.seen.setdefault(number, begin)
    what = f"{actor} exports {topic} of bucket {number} to {folder.name}"
    options = {} if times == (None, None) else {"start_time": times[0], "end_time": times[1]}
    error: LedgerfsError | None = None
    is_first = folder not in world.exporting
    world.exporting.add(folder)
    with world.acting(actor, meeting):
        try:
            opened = actor.bucket(number).topic(topic)
            export_topic(opened, folder, kind, columns=["ledger_id", "value"], **options)
        except LedgerfsError as raised:
            error = raised
    if is_first:
        world.exporting.discard(folder)
    known = world.exports.setdefault(folder, {})
    states = actor.may_see(number, begin)
    if error is not None:
        # One that failed half way has made the folder its bucket's, perhaps.
        is_reported = (
            number in actor.refused
            or len(states) > 1
            or not is_whole(states[0], topic)
            or set(known) - {number}
            or not is_first
        )
        known.setdefault(number, False)
        assert is_reported, f"{what}: {error!r}"
        return
    others = [other for other, is_done in known.items() if is_done and other != number]
    assert not others, f"{what}, which holds an export of bucket {others}"
    known[number] = True
    whole = [state for state in states if is_whole(state, topic)]
    assert whole, f"{what}, and ledgers of it are missing"
    files = _files(folder)
    differences = [_difference(state, model.history, topic, _within(*times), files) for state in whole]
    assert None in differences, f"{what}: {differences[-1]}"


def _files(folder: Path) -> dict[str, list[str]]:
    found = {}
    for path in folder.glob("[0-9]*.parquet"):
        found[path.stem] = _texts(pq.read_table(path, columns=["value"]).column("value").to_pylist())
    for path in folder.glob("[0-9]*.jsonl"):
        found[path.stem] = [json.loads(line)["value"] for line in path.read_bytes().splitlines()]
    return found


def _difference(
    state: State, history: Sequence[State], topic: str, select: Select, files: dict[str, list[str]]
) -> str | None:
    """Return how a folder differs from a state, but for ledgers that were in the bucket earlier: their files stay."""
    for name, rows in rows_by_file(state, topic).items():
        expected = [row.value for row in rows if select(row)]
        if files.get(name, []) != expected:
            return f"ledger {name} has {expected}, its file {files.get(name)}"
    ever = {name for one in history for name in rows_by_file(one, topic)}
    strange = set(files) - ever
    return f"files of no ledger: {strange}" if strange else None


def check(world: World, actor: Actor, number: int, *, meeting: Meeting | None) -> None:
    """Verify a bucket: it has damage where the data of a ledger is missing, and none where every object has its other half."""
    model = world.models[number]
    begin = model.moment
    actor.seen.setdefault(number, begin)
    with world.acting(actor, meeting):
        try:
            report = verify(actor.bucket(number), threads=1)
        except LedgerfsError:
            assert model.moment > begin or number in actor.refused
            return
    if model.moment > begin:
        return
    was_refused = number in actor.refused
    harmless = {Severity.REMARK, Severity.UNCHECKED} if was_refused else {Severity.REMARK}
    damage = [finding for finding in report.findings if finding.severity not in harmless]
    # A copy under an id of its own is read after the ledgers of its cluster that come later.
    damage = [finding for finding in damage if finding.kind != "wrong-order"]
    topics = {copy.content.topic for copy in model.now.values()}
    if not all(is_whole(model.now, topic) for topic in topics):
        assert damage or was_refused, f"{actor} verifies bucket {number}: nothing is said of data that is missing"
    elif not model.halves:
        assert not damage, f"{actor} verifies bucket {number}, which is whole: {damage}"

"""What actors do that write and delete, and what may come of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pytest

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.origin import Origin
from ledgerfs.formats.pulsar_blob.index import OffloadIndex
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.records import scan_records
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.pulsar_blob import ledger_group
from ledgerfs.repair import plan_repair
from ledgerfs.writing import bucket_copy, imports
from ledgerfs.writing.bucket_copy import CopiedLedger, CopyOutcome
from ledgerfs.writing.copy_ledgers import copy_ledgers
from ledgerfs.writing.write import IfExists
from tests.model.brokers import entries_of
from tests.model.bucket_model import (
    BucketModel,
    Content,
    Copy,
    Key,
    Row,
    State,
    contents_of,
    ledgers_of,
    rows_of,
    topics_of,
)
from tests.model.meetings import Meeting
from tests.model.world import Actor, World, content_of_messages
from tests.support.writes import records


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to import."""

    rows: Sequence[Row]

    @property
    def _table(self) -> pa.Table:
        return pa.table(
            {
                "value": pa.array([row.value.encode() for row in self.rows], pa.binary()),
                "publish_time": pa.array([row.time_ms * 1000 for row in self.rows], pa.timestamp("us", "UTC")),
            }
        )

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches())


def import_rows(
    world: World,
    actor: Actor,
    number: int,
    content: Content,
    *,
    ledger_id: int | None,
    batch: int,
    meeting: Meeting | None,
) -> None:
    """Import rows; those of a ledger that is said to be written are there from then on."""
    actor.seen.setdefault(number, world.models[number].moment)
    with world.acting(actor, meeting, content_of_messages(content)) as running:
        try:
            done = imports.import_rows(
                actor.bucket(number),
                Rows([message for message in content.messages if isinstance(message, Row)]),
                content.topic,
                ledger_id=ledger_id,
                batch=batch,
                block_size=world.block_size,
            )
        except LedgerfsError as error:
            world.require_nothing_left(number, running, error)
            return
        key = done.written.ledger.key
        assert done.messages == len(content.messages)
        assert ledger_id in {None, key.ledger_id}
        world.acknowledge(number, running, [(key.uuid, key.ledger_id)])


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of records, and what it holds."""

    content: Content
    data: bytes

    @property
    def as_copy(self) -> Copy:
        """The ledger that it becomes, as its index tells."""
        entries = len(scan_records(memoryview(self.data), 0, 0, 1 << 30).batch)
        return Copy(self.content, entries - 1, len(self.data) - 12 * entries)


def new_file(content: Content) -> RecordFile:
    return RecordFile(content, records(entries_of(content.messages)))


def file_there(world: World, number: int, topic: str, ledger_id: int) -> RecordFile | None:
    """Return the file of a ledger that is there, as somebody sees it who comes anew; None where there is none."""
    found = contents_of(ledgers_of(world.models[number].now, topic).get(ledger_id, []))
    if not found:
        return None
    with world.acting(world.witness):
        try:
            return RecordFile(found[0], world.witness.files(number).cat_file(path_of(topic, ledger_id)))
        except LedgerfsError:
            return None


def put_file(
    world: World,
    actor: Actor,
    number: int,
    wanted: RecordFile,
    *,
    ledger_id: int,
    how: str,
    if_exists: IfExists,
    meeting: Meeting | None,
) -> None:
    """Make a file of records a ledger, through fsspec."""
    model = world.models[number]
    begin = model.moment
    actor.seen.setdefault(number, begin)
    path, uuid = path_of(wanted.content.topic, ledger_id), str(uuid4())
    local = world.folder / f"{uuid}.entries"
    local.write_bytes(wanted.data)
    with world.acting(actor, meeting, content_of_messages(wanted.content)) as running:
        fs = actor.files(number)
        try:
            if how == "pipe":
                fs.pipe_file(path, wanted.data, if_exists=if_exists, uuid=uuid)
            elif how == "put":
                fs.put_file(str(local), path, if_exists=if_exists, uuid=uuid)
            else:
                with fs.open(path, "wb", if_exists=if_exists, uuid=uuid) as file:
                    actor.met()
                    file.write(wanted.data)
        except LedgerfsError as error:
            world.require_nothing_left(number, running, error)
            return
        if running.published or if_exists is not IfExists.SKIP:
            world.acknowledge(number, running, [(uuid, ledger_id)])
        else:
            _require_skipped(model.history[begin:], ledger_id, wanted.as_copy)


def _require_skipped(states: Sequence[State], ledger_id: int, wanted: Copy) -> None:
    """Say that a ledger that was left alone, since it is there already, was there: of this topic, as many entries and bytes."""
    is_there = any(_has_same(state, ledger_id, wanted) for state in states)
    assert is_there, f"ledger {ledger_id} of {wanted.content.topic} is said to be there, and is not"


def _has_same(state: State, ledger_id: int, wanted: Copy) -> bool:
    return any(
        other == ledger_id
        and copy.has_data
        and (copy.content.topic, copy.last_entry, copy.length)
        == (wanted.content.topic, wanted.last_entry, wanted.length)
        for (_, other), copy in state.items()
    )


def remove(world: World, actor: Actor, number: int, topic: str, ledger_id: int, *, meeting: Meeting | None) -> None:
    """Delete a ledger by its path."""
    model = world.models[number]
    begin = model.moment
    actor.seen.setdefault(number, begin)
    with world.acting(actor, meeting, may_delete=True) as running:
        try:
            actor.files(number).rm(path_of(topic, ledger_id))
        except LedgerfsError:
            return
        wrong = [key for key in running.removed if not _is_named(world.contents[key], key, topic, ledger_id)]
        assert not wrong, f"deleted {wrong} in place of {ledger_id} of {topic}"
        was_always_there = all(ledger_id in _readable(state, topic) for state in model.history[begin:])
        assert running.removed or not was_always_there, (
            f"ledger {ledger_id} of {topic} is said to be deleted, and is there"
        )


def _is_named(content: Content, key: Key, topic: str, ledger_id: int) -> bool:
    return content.topic == topic and key[1] == ledger_id


def _readable(state: State, topic: str) -> set[int]:
    return {ledger_id for ledger_id, copies in ledgers_of(state, topic).items() if contents_of(copies)}


def offload(
    world: World,
    actor: Actor,
    source: int,
    target: int,
    *,
    if_exists: IfExists,
    new_uuid: bool,
    unbatch: bool,
    meeting: Meeting | None,
) -> None:
    """Copy all ledgers of a bucket into the other one, perhaps under new ids with an entry a message, and read them back."""
    begins = [model.moment for model in world.models]
    for number, begin in enumerate(begins):
        actor.seen.setdefault(number, begin)
    done: list[CopiedLedger] = []
    with world.acting(actor, meeting, lambda key, index: _content_of_copy(world, key, index)) as running:
        try:
            here, there = actor.bucket(source), actor.bucket(target)
            catalog = here.refresh()
            report = copy_ledgers(
                here, there, if_exists=if_exists, new_uuid=new_uuid, unbatch=unbatch, allow_incomplete=True,
                catalog=catalog, on_ledger=done.append,
            )  # fmt: skip
        except LedgerfsError:
            # What was copied before stays, and is whole.
            world.acknowledge(target, running, [key for key in running.published if key not in running.removed])
            return
        _require_copied(world, target, begins[target], done)
        copied = [(one.uuid or "", one.ledger_id) for one in done if one.outcome is CopyOutcome.COPIED]
        world.acknowledge(target, running, copied)
        _require_once(world.models[target], begins[target], copied)
        if report.is_complete:
            _require_all(world.models[source].history[begins[source] :], done)


def _content_of_copy(world: World, key: LedgerKey, index: OffloadIndex) -> Content:
    """Return what a copy holds: what the ledger holds that it is of, or was made of."""
    metadata, topic = index.metadata, topic_of(index.metadata.managed_ledger)
    known = world.contents.get((key.uuid, key.ledger_id))
    if known is not None and known.topic == topic:
        return known
    reported = metadata.origin or Origin(key.ledger_id, metadata.last_entry, metadata.length)
    found = [
        copy.content
        for model in world.models
        for state in reversed(model.history)
        for (_, ledger_id), copy in state.items()
        if copy.content.topic == topic and Origin(ledger_id, copy.last_entry, copy.length) == reported
    ]
    assert found, f"{key} is a copy of nothing"
    return found[0]


def _require_copied(world: World, target: int, begin: int, done: Sequence[CopiedLedger]) -> None:
    """Say that what was skipped is there: under its id, or its messages under another one."""
    states = world.models[target].history[begin:]
    for one in done:
        content = world.contents[one.source.uuid, one.source.ledger_id]
        if one.outcome is CopyOutcome.SKIPPED and one.ledger_id == one.source.ledger_id:
            _require_skipped(states, one.ledger_id, Copy(content, one.source.last_entry, one.source.length))
        elif one.outcome is CopyOutcome.SKIPPED:
            held = [copy.content for state in states for copy in state.values() if copy.has_data]
            assert content in held, f"the messages of {one.source.ledger_id} are said to be there, and are not"


def _require_once(model: BucketModel, begin: int, copied: Sequence[Key]) -> None:
    """Say that none of the copied messages were there under another id, and still are."""
    for key in copied:
        content = model.now[key].content if key in model.now else None
        twice = [
            other
            for other, copy in model.history[begin].items()
            if other[1] != key[1] and copy.has_data and copy.content == content and other in model.now
        ]
        assert not twice, f"{key} was copied, and its messages were there as {twice}"


def _require_all(states: Sequence[State], done: Sequence[CopiedLedger]) -> None:
    """Say that every ledger was told of that the source had at one of some moments."""
    reported = {(one.source.topic, one.source.ledger_id) for one in done}
    had = [
        {(copy.content.topic, ledger_id) for (_, ledger_id), copy in state.items() if copy.has_data} for state in states
    ]
    assert reported in had, f"ledgers of the source were left out: {reported}, and it had {had[-1]}"


def repair(world: World, actor: Actor, number: int) -> None:
    """Mend what can be mended, while nobody else writes; deletes nothing that is the only copy of its rows."""
    model = world.models[number]
    before = {topic: rows_of(model.now, topic) for topic in topics_of(model.now)}
    actor.seen.setdefault(number, model.moment)
    with world.acting(actor, None, lambda key, index: world.contents[key.uuid, key.ledger_id]):
        try:
            plan = plan_repair(actor.bucket(number), older_than_s=-3600)
            done = list(plan.carry_out())
        except LedgerfsError:
            assert number in actor.refused
            done = []
    assert number in actor.refused or not [one for one in done if one.error is not None]
    for topic, rows in before.items():
        lost = set(rows) - set(rows_of(model.now, topic))
        assert not lost, f"repair has lost {lost} of {topic}"


def path_of(topic: str, ledger_id: int) -> str:
    return f"entries/{topic.removeprefix('persistent://')}/{ledger_id}.entries"


def one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy ledgers in one thread, so that the same operations meet at the same points each time."""
    monkeypatch.setattr(bucket_copy, "_THREADS", 1)
    monkeypatch.setattr(ledger_group, "_THREADS", 1)

"""Every entry that Pulsar could write, against a slow reading of the format in plain Python."""

import base64
import binascii
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS, MESSAGE_SCHEMA
from ledgerfs.messages.proto.message_metadata_pb2 import (
    BatchedMetadataRecord,
    BrokerMetadataRecord,
    MessageMetadataRecord,
    Property,
)
from tests.support.entries import (
    TOPIC,
    batch_of,
    batched,
    compress,
    decode,
    decode_entries,
    frame,
    framed,
    metadata,
    varint,
)

TOPICS = (TOPIC, f"{TOPIC}-partition-12", f"{TOPIC}-partition-x")
ALL = tuple(MESSAGE_SCHEMA.names)
SETTINGS = settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))


@dataclass
class Sent:
    """What one send of a producer became: an entry, or several when it was chunked."""

    meta: MessageMetadataRecord
    broker: BrokerMetadataRecord | None
    messages: list[tuple[BatchedMetadataRecord, bytes]] | None
    value: bytes
    entries: list[bytes]


Placed = tuple[int, int, Sent, bool]  # ledger, entry, what was sent, whether this is all or the last part of it


# The reference.


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def micros(milliseconds: int) -> int | None:
    signed = wrapped(milliseconds)
    return signed * 1000 if abs(signed) < 2**63 // 1000 else None


def wrapped(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def optional(record: Any, name: str) -> Any:
    return getattr(record, name) if record is not None and record.HasField(name) else None


def key_of(record: Any) -> dict[str, Any]:
    key = None if record.key_is_null else optional(record, "key")
    if key is None or not record.key_is_base64:
        return {"key": None if key is None else text(key), "key_bytes": None}
    try:
        return {"key": None, "key_bytes": base64.b64decode(key, validate=True)}
    except binascii.Error:
        return {"key": None, "key_bytes": key}


def pairs_of(record: Any) -> list[tuple[str, str]]:
    return [(text(one.key), text(one.value)) for one in record.property]


def state_of(transaction: tuple[int, int], ledger_id: int, entry_id: int) -> str:
    assert entry_id >= 0
    return f"state of {transaction[0]} and {transaction[1]} in {ledger_id}"


def rows_of(topic: str, ledger: int, entry: int, sent: Sent) -> list[dict[str, Any]]:
    meta = sent.meta
    in_transaction = meta.HasField("transaction_least") and meta.HasField("transaction_most")
    transaction = (wrapped(meta.transaction_most), wrapped(meta.transaction_least))
    number = topic.rpartition("-partition-")[2]
    last_index = optional(sent.broker, "last_index")
    broker_time = optional(sent.broker, "broker_time_ms")
    common = {
        "topic": topic,
        "ledger_id": ledger,
        "entry_id": entry,
        "batch_index": None,
        "publish_time": micros(meta.publish_time_ms),
        "event_time": micros(meta.event_time_ms) if meta.event_time_ms else None,
        "ordering_key": optional(meta, "ordering_key"),
        "value": None if meta.value_is_null else sent.value,
        "properties": pairs_of(meta),
        "producer_name": text(meta.producer_name),
        "sequence_id": wrapped(meta.sequence_id),
        "schema_version": optional(meta, "schema_version"),
        "partition": int(number) if number.isdigit() else None,
        "broker_index": last_index,
        "broker_time": None if broker_time is None else micros(broker_time),
        "txn_id": f"({transaction[0]},{transaction[1]})" if in_transaction else None,
        "txn_state": state_of(transaction, ledger, entry) if in_transaction else None,
        "deliver_at_time": micros(meta.deliver_at_ms) if meta.deliver_at_ms else None,
        "replicated_from": text(meta.replicated_from) if meta.HasField("replicated_from") else None,
        **key_of(meta),
    }
    if sent.messages is None:
        return [common]
    rows = []
    for index, (single, value) in enumerate(sent.messages):
        row = {**common, **key_of(single), "batch_index": index}
        row["ordering_key"] = optional(single, "ordering_key")
        row["properties"] = pairs_of(single)
        if last_index is not None:
            row["broker_index"] = last_index - len(sent.messages) + 1 + index
        if single.HasField("event_time_ms"):
            row["event_time"] = micros(single.event_time_ms) if single.event_time_ms else None
        if single.HasField("sequence_id"):
            row["sequence_id"] = wrapped(single.sequence_id)
        is_null = single.value_is_null if single.HasField("value_is_null") else meta.value_is_null
        row["value"] = None if is_null else value
        if not single.compacted_out:
            rows.append(row)
    return rows


def expected_of(topic: str, placed: list[Placed], *, markers: bool = False, start=None, end=None):
    rows = []
    for ledger, entry, sent, is_last in placed:
        time = wrapped(sent.meta.publish_time_ms)
        in_time = (start is None or time >= start) and (end is None or time < end)
        if is_last and in_time and (markers or not sent.meta.HasField("marker_type")):
            rows += rows_of(topic, ledger, entry, sent)
    return rows


# What producers send.

INT64 = st.integers(0, 2**64 - 1).filter(lambda n: n != 2**63)  # one below all int64 is how the kernels say "absent"
TIMES = st.one_of(st.integers(0, 2**42), st.just(0))
ANY_TIME = st.one_of(TIMES, INT64)
TEXTS = st.one_of(st.text(max_size=12).map(str.encode), st.binary(max_size=6))
KEYS = st.one_of(TEXTS, st.binary(max_size=9).map(base64.b64encode))
PROPERTIES = st.lists(
    st.one_of(
        st.builds(Property, key=TEXTS, value=TEXTS),
        st.sampled_from([Property(key=b"twice", value=b"1"), Property(key=b"twice", value=b"2"), Property()]),
    ),
    max_size=4,
)


def unknown_field(number: int, kind: int, data: bytes) -> bytes:
    body = {0: varint(len(data) * 77), 1: data.ljust(8, b"x")[:8], 2: varint(len(data)) + data, 5: b"abcd"}[kind]
    return varint(number << 3 | kind) + body


UNKNOWN = st.lists(
    st.builds(
        unknown_field,
        st.sampled_from([33, 39, 40, 41, 1000, 2**29 - 1]),
        st.sampled_from([0, 1, 2, 5]),
        st.binary(max_size=12),
    ),
    max_size=3,
)

OPTIONAL = {
    "property": PROPERTIES,
    "replicated_from": TEXTS,
    "key": KEYS,
    "replicate_to": st.lists(TEXTS, max_size=2),
    "event_time_ms": ANY_TIME,
    "encryption_algorithm": TEXTS,
    "encryption_iv": st.binary(max_size=12),
    "schema_version": st.one_of(st.just(b""), st.binary(min_size=8, max_size=8)),
    "key_is_base64": st.booleans(),
    "ordering_key": st.binary(max_size=9),
    "deliver_at_ms": st.one_of(TIMES, st.integers(-(2**63) + 1, 2**63 - 1)),
    "transaction_least": INT64,
    "transaction_most": INT64,
    "highest_sequence_id": INT64,
    "value_is_null": st.booleans(),
    "key_is_null": st.booleans(),
    "schema_id": TEXTS,
}
OPTIONAL_OF_BATCHED = {
    "property": PROPERTIES,
    "key": KEYS,
    "event_time_ms": ANY_TIME,
    "key_is_base64": st.booleans(),
    "ordering_key": st.binary(max_size=9),
    "sequence_id": INT64,
    "value_is_null": st.booleans(),
    "key_is_null": st.booleans(),
}


def pieces_of(record: Any) -> list[bytes]:
    """Return every value of every field of a record as a message of its own."""
    pieces = []
    for field, value in record.ListFields():
        values = value if field.is_repeated else [value]
        for one in values:
            piece = type(record)()
            if not field.is_repeated:
                setattr(piece, field.name, one)
            elif field.name == "property":
                piece.property.append(one)
            else:
                getattr(piece, field.name).extend([one])
            pieces.append(piece.SerializeToString())
    return pieces


@st.composite
def serialized(draw: st.DrawFn, record: Any) -> bytes:
    """Write a record with its fields in any order (repeated ones in theirs), and fields that nobody knows."""
    unknown = draw(UNKNOWN)
    if not draw(st.booleans()):
        return record.SerializeToString() + b"".join(unknown)
    pieces = pieces_of(record)
    names = [field.name for field, value in record.ListFields() for _ in (value if field.is_repeated else [0])]
    places = draw(st.permutations(range(len(pieces) + len(unknown))))
    # Values of one repeated field keep their order.
    ranked = sorted(range(len(pieces)), key=lambda i: places[i])
    by_name = {name: iter([i for i, other in enumerate(names) if other == name]) for name in names}
    out = [(places[i], pieces[next(by_name[names[i]])]) for i in ranked]
    out += zip(places[len(pieces) :], unknown, strict=True)
    return b"".join(piece for _, piece in sorted(out))


@st.composite
def sends(draw: st.DrawFn, identity: int, *, compacted: bool = True) -> Sent:
    fields = draw(st.fixed_dictionaries({}, optional=OPTIONAL))
    meta = MessageMetadataRecord(
        producer_name=draw(TEXTS), sequence_id=draw(INT64), publish_time_ms=draw(TIMES), **fields
    )
    kind = draw(st.sampled_from(["alone", "batch", "chunks", "marker"]))
    if kind == "marker":
        meta.marker_type = draw(st.sampled_from([0, 10, 13, 20, 21, 22, -1]))
    value = draw(st.one_of(st.binary(max_size=40), st.just(b"again and " * 300)))
    messages, plain = None, value
    if kind == "batch":
        messages = draw(st.lists(st.tuples(batched_records(compacted=compacted), st.binary(max_size=12)), max_size=5))
        meta.messages_in_batch = len(messages)
        if meta.key_is_null:  # see test_null_keys_of_a_batch
            meta.key_is_null = False
        sizes = [(one, len(payload)) for one, payload in messages]
        for one, size in sizes:
            one.payload_size = size
        plain = b"".join(framed(draw(serialized(one)), payload) for one, payload in messages)
    codec = draw(st.integers(0, 4))
    if codec or draw(st.booleans()):
        meta.compression = codec
    if codec:
        meta.uncompressed_size = len(plain)
    elif draw(st.booleans()):
        meta.uncompressed_size = draw(st.integers(0, 2**32 - 1))  # means nothing
    stored = compress(codec, plain, finish=draw(st.booleans()))
    broker = None
    if draw(st.booleans()):
        optional_fields = {"broker_time_ms": TIMES, "last_index": st.integers(0, 2**40)}
        broker = BrokerMetadataRecord(**draw(st.fixed_dictionaries({}, optional=optional_fields)))
    parts = [stored]
    if kind == "chunks":
        size = max(1, -(-len(stored) // draw(st.integers(1, 4))))
        parts = [stored[at : at + size] for at in range(0, len(stored), size)] or [stored]
        meta.chunked_id = f"producer-{identity}".encode()
        meta.chunks = len(parts)
        meta.chunked_size = len(stored)
    entries = []
    for chunk, part in enumerate(parts):
        if kind == "chunks":
            meta.chunk = chunk
        head = draw(serialized(meta))
        front = None if broker is None else draw(serialized(broker))
        entries.append(frame(head, part, broker=front, checksum=draw(st.booleans())))
    return Sent(meta, broker, messages, value, entries)


@st.composite
def batched_records(draw: st.DrawFn, *, compacted: bool) -> BatchedMetadataRecord:
    extra = {"compacted_out": st.booleans()} if compacted else {}
    return BatchedMetadataRecord(**draw(st.fixed_dictionaries({}, optional=OPTIONAL_OF_BATCHED | extra)))


@st.composite
def topics(draw: st.DrawFn, *, compacted: bool = True) -> tuple[list[Placed], list[tuple[int, int, list[bytes]]]]:
    """Interleave what several producers send; return it in order, and as (ledger, first entry, entries)."""
    sent = [draw(sends(i, compacted=compacted)) for i in range(draw(st.integers(1, 5)))]
    turns = draw(st.permutations([i for i, one in enumerate(sent) for _ in one.entries]))
    ledger, entry = 5, 0
    done = [0] * len(sent)
    placed: list[Placed] = []
    batches: list[tuple[int, int, list[bytes]]] = []
    for i in turns:
        cut = draw(st.sampled_from(["none", "none", "batch", "ledger"]))
        if cut == "ledger":
            ledger, entry = ledger + draw(st.integers(1, 9)), 0
        if cut != "none" or not batches:
            batches.append((ledger, entry, []))
        batches[-1][2].append(sent[i].entries[done[i]])
        done[i] += 1
        placed.append((ledger, entry, sent[i], done[i] == len(sent[i].entries)))
        entry += 1
    return placed, batches


def as_rows(table: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return plain rows, times as microseconds: datetime ends with the year 9999."""
    arrays = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.itercolumns()
    ]
    return [
        dict(zip(table.schema.names, row, strict=True))
        for row in zip(*(array.to_pylist() for array in arrays), strict=True)
    ]


def decoded(topic: str, batches: list[tuple[int, int, list[bytes]]], **options: Any) -> list[dict[str, Any]]:
    decoder = TopicDecoder(topic, DecodeOptions(**options), state_of=state_of)
    rows = []
    for ledger, first, entries in batches:
        table = decode(decoder, batch_of(entries, first), ledger)
        table.validate(full=True)
        assert table.schema == decoder.schema
        rows += as_rows(table)
    assert decoder.skipped == []
    assert decoder.chunks.finish() == []
    return rows


@pytest.mark.long
@SETTINGS
@given(
    topic=st.sampled_from(TOPICS),
    compacted=st.booleans(),
    columns=st.lists(st.sampled_from(ALL), min_size=1, unique=True),
    markers=st.booleans(),
    data=st.data(),
)
def test_any_topic_in_any_columns_and_times(topic, compacted, columns, markers, data):
    """Of one topic, which takes longer to draw than to read: default columns, all of them, some in any order, and a range of time."""
    placed, batches = data.draw(topics(compacted=compacted))
    whole = expected_of(topic, placed)
    assert decoded(topic, batches) == [{name: row[name] for name in DEFAULT_COLUMNS} for row in whole]
    rows = decoded(topic, batches, columns=ALL, include_markers=markers)
    assert rows == expected_of(topic, placed, markers=markers)
    if not any(single.compacted_out for _, _, sent, _ in placed for single, _ in sent.messages or ()):
        rows = decoded(topic, batches, columns=columns)
        assert rows == [{name: row[name] for name in columns} for row in whole]
        assert all(list(row) == columns for row in rows)
    times = sorted({sent.meta.publish_time_ms for _, _, sent, _ in placed})
    moments = st.one_of(st.none(), st.sampled_from(times), st.sampled_from(times).map(lambda time: time + 1))
    start, end = data.draw(moments), data.draw(moments)
    rows = decoded(topic, batches, columns=ALL, start_ms=start, end_ms=end)
    assert rows == expected_of(topic, placed, start=start, end=end)


@pytest.mark.parametrize("of_message", [None, False, True])
def test_null_keys_of_a_batch(of_message):
    """A message says itself whether its key is null; where it does not, its batch does."""
    single = BatchedMetadataRecord(key=b"k") if of_message is None else BatchedMetadataRecord(key_is_null=of_message)
    single.key = b"k"
    table = decode_entries([batched([(single, b"v")], key_is_null=True)], columns=["key"])
    assert table.to_pydict() == {"key": ["k" if of_message is False else None]}


def test_a_property_with_fields_that_nobody_knows_keeps_key_and_value():
    pair = Property(key=b"k", value=b"v").SerializeToString()
    for unknown in (unknown_field(3, kind, b"abc") for kind in (0, 1, 2, 5)):
        head = metadata().SerializeToString() + b"\x22" + varint(len(unknown + pair)) + unknown + pair
        assert MessageMetadataRecord.FromString(head).property[0].key == b"k"
        table = decode_entries([frame(head)], columns=["properties"])
        assert table.to_pydict() == {"properties": [[("k", "v")]]}, unknown


def test_messages_without_optional_fields():
    (row,) = as_rows(decode_entries([frame(metadata())], columns=ALL))
    given_fields = {"topic", "ledger_id", "entry_id", "publish_time", "value", "properties", "producer_name"}
    assert {name for name, value in row.items() if value is not None} == given_fields | {"sequence_id"}


HANGS = """
from tests.support.entries import decode_entries, frame, framed, metadata

for field in (b"\\x20\\x01", b"\\x21" + bytes(8), b"\\x25" + bytes(4)):
    alone = frame(metadata().SerializeToString() + field)
    single = b"\\x18\\x00" + bytes([field[0] & 7 | 8]) + field[1:]
    for entry in (alone, frame(metadata(messages_in_batch=1), framed(single))):
        assert decode_entries([entry], columns=["properties"]).to_pylist() == [{"properties": []}], entry
print("properties are read", flush=True)
"""
TAKES_ALL_MEMORY = """
import resource
from ledgerfs.errors import LedgerfsError

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
count = 1 << 16
for name in ("producer_name", "schema_version", "replicated_from"):
    meta = metadata(messages_in_batch=count, **{name: b"x" * 65536})
    try:
        decode_entries([frame(meta, framed(b"\\x18\\x00") * count)], columns=["entry_id", name])
    except LedgerfsError:
        pass
print("texts are bounded", flush=True)
"""


def test_entries_that_might_hang_or_take_all_memory_do_neither():
    """A property of another wire type is unknown. Many messages may not repeat more text of their entry than an array can hold.

    65536 messages of a producer whose name has 65536 bytes are 4 GiB of names from an entry of half a MiB.
    """
    command = [sys.executable, "-c", HANGS + TAKES_ALL_MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "properties are read\ntexts are bounded\n"), done.stderr

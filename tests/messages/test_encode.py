"""Rows become entries that our decoder, protobuf and another CRC32C agree on."""

import base64
import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ledgerfs.errors import InvalidOptionError, InvalidRowsError
from ledgerfs.formats.decompression import decompress
from ledgerfs.formats.records import EntryBatch, ScanStop, scan_records
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.messages.encode import rows as encode
from ledgerfs.messages.encode.input_columns import IGNORED_COLUMNS, INPUT_COLUMNS
from ledgerfs.messages.encode.rows import EncodeOptions, MessageEncoder
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord, MessageMetadataRecord
from tests.support.each import for_each
from tests.support.entries import TOPIC, decode

CODECS = ("none", "lz4", "zlib", "zstd", "snappy")
COLUMNS = tuple(INPUT_COLUMNS)
SCHEMA = pa.schema([MESSAGE_SCHEMA.field(name).with_nullable(nullable=True) for name in COLUMNS])
NOW = 1_700_000_000_000
SETTINGS = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


def entries_of(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema = SCHEMA, **options: Any
) -> tuple[MessageEncoder, list[EntryBatch]]:
    encoder = MessageEncoder(schema, EncodeOptions(**{"publish_time_ms": NOW, **options}))
    made = [one for rows in batches for one in encoder.encode(rows)]
    return encoder, [*made, *encoder.finish()]


def rescanned(batches: Iterable[EntryBatch]) -> EntryBatch:
    """What a reader finds in the records, one buffer after the other."""
    pieces = [bytes(b.buffer[b.offsets[0] - 12 : b.offsets[-1] + b.lengths[-1]]) for b in batches]
    buffer = memoryview(b"".join(pieces))
    count = sum(map(len, batches))
    scan = scan_records(buffer, 0, 0, count)
    assert (scan.stop, scan.position) == (ScanStop.COMPLETE, len(buffer))
    return scan.batch


def decoded(batches: Iterable[EntryBatch], columns: Iterable[str] = COLUMNS) -> list[dict[str, Any]]:
    decoder = TopicDecoder(TOPIC, DecodeOptions(columns=tuple(columns)))
    table = decode(decoder, rescanned(list(batches)))
    times = [name for name in table.schema.names if name.endswith("_time")]
    for name in times:
        table = table.set_column(table.schema.names.index(name), name, table[name].cast(pa.int64()))
    return table.to_pylist()


def parsed(entry: memoryview) -> tuple[MessageMetadataRecord, bytes, list[tuple[BatchedMetadataRecord, bytes]]]:
    """Take an entry apart with protobuf."""
    data = bytes(entry)
    magic, checksum, size = struct.unpack(">HII", data[:10])
    assert magic == 0x0E01
    assert google_crc32c.value(data[6:]) == checksum
    meta, payload = MessageMetadataRecord.FromString(data[10 : 10 + size]), data[10 + size :]
    assert meta.SerializeToString() == data[10 : 10 + size]  # fields in their order, none twice
    if meta.compression:
        payload = decompress(meta.compression, memoryview(payload), meta.uncompressed_size, 1 << 30)
    messages = []
    at = 0
    while meta.HasField("messages_in_batch") and at < len(payload):
        (size,) = struct.unpack_from(">I", payload, at)
        single = BatchedMetadataRecord.FromString(payload[at + 4 : at + 4 + size])
        assert single.SerializeToString() == payload[at + 4 : at + 4 + size]
        at += 4 + size + single.payload_size
        messages.append((single, payload[at - single.payload_size : at]))
    assert not messages or len(messages) == meta.messages_in_batch
    return meta, payload, messages


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the reader says of rows: defaults filled in."""
    made = []
    for number, one in enumerate(rows):
        row = {name: one.get(name) for name in COLUMNS}
        row["properties"] = list(row["properties"] or [])
        row["publish_time"] = NOW * 1000 if row["publish_time"] is None else row["publish_time"]
        row["sequence_id"] = number if row["sequence_id"] is None else row["sequence_id"]
        row["producer_name"] = "ledgerfs" if row["producer_name"] is None else row["producer_name"]
        made.append(row)
    return made


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MILLISECONDS = st.sampled_from([1, -1, 1_700_000_000_123, 253_402_300_799_999, 1 - 2**63 // 1000]).map(
    lambda ms: ms * 1000
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"value": st.none() | st.binary(max_size=300)},
        optional={
            "key": st.none() | TEXTS,
            "ordering_key": st.none() | st.binary(max_size=9),
            "properties": st.none() | st.lists(st.tuples(TEXTS, TEXTS), max_size=4),
            "event_time": st.none() | MILLISECONDS,
            "publish_time": st.none() | st.sampled_from([0, 5000, 6000, 253_402_300_799_999_000]),
            "producer_name": st.none() | st.sampled_from(["p", "producer-of-more-1", "producer-of-more-2"]),
            "sequence_id": st.none() | st.sampled_from([0, 1, 127, 128, 2**40, 2**63 - 1, -1]),
            "schema_version": st.none() | st.sampled_from([b"", bytes(8), b"\0\0\0\0\0\0\0\1"]),
            "deliver_at_time": st.none() | st.sampled_from([8000, 9000]),
            "replicated_from": st.none() | st.sampled_from(["", "eu"]),
        },
    ),
    max_size=40,
)


def with_key_bytes(rows: list[dict[str, Any]], which: list[bool]) -> list[dict[str, Any]]:
    return [
        {**row, "key": None, "key_bytes": row["key"].encode()} if is_bytes and row.get("key") is not None else row
        for row, is_bytes in zip(rows, which, strict=False)
    ]


@pytest.mark.long
@SETTINGS
@given(
    rows=ROWS,
    which=st.lists(st.booleans(), min_size=40, max_size=40),
    cuts=st.lists(st.integers(1, 9), max_size=6),
    batch=st.sampled_from([1, 2, 7, 1000]),
    codec=st.sampled_from(CODECS),
    limit=st.sampled_from([900, 5 << 20]),
)
@example(rows=[{"value": b"v"}] * 40, which=[False] * 40, cuts=[], batch=1000, codec="zstd", limit=900)
def test_rows_come_back(
    rows: list[dict[str, Any]], which: list[bool], cuts: list[int], batch: int, codec: str, limit: int
) -> None:
    rows = with_key_bytes(rows, which)
    limit = max(limit, 500 + max((16 * len(repr(row)) for row in rows), default=0)) if limit == 900 else limit
    whole = pa.RecordBatch.from_pylist(rows, SCHEMA)
    parts = list(in_parts(whole, cuts))
    encoder, made = entries_of(parts, batch=batch, compression=codec, max_entry_bytes=limit)
    assert encoder.messages == len(rows)
    assert encoder.entries == sum(map(len, made))
    assert decoded(made) == expected(rows)
    times = [row["publish_time"] // 1000 for row in expected(rows)]
    assert encoder.earliest_publish_ms == min(times, default=None)
    _, again = entries_of([whole], batch=batch, compression=codec, max_entry_bytes=limit)
    assert [bytes(e) for b in made for _, e in b] == [bytes(e) for b in again for _, e in b]
    if codec == "none":
        assert max((int(b.lengths.max()) for b in made), default=0) <= limit
    for one in made:
        for _, entry in one:
            meta, payload, messages = parsed(entry)
            assert len(messages) <= batch
            check_java_fields(meta, payload, messages, codec)


def in_parts(rows: pa.RecordBatch, cuts: list[int]) -> Iterator[pa.RecordBatch]:
    at = 0
    for size in cuts:
        yield rows.slice(at, size)
        at = min(at + size, rows.num_rows)
    yield rows.slice(at)


def check_java_fields(
    meta: MessageMetadataRecord, payload: bytes, messages: list[tuple[BatchedMetadataRecord, bytes]], codec: str
) -> None:
    """What golden entries show of Java's client."""
    is_batch = meta.HasField("messages_in_batch")
    assert is_batch == bool(messages)
    assert meta.HasField("uncompressed_size") == (not is_batch or codec != "none")
    assert meta.uncompressed_size in {0, len(payload)}
    assert meta.compression == CODECS.index(codec)
    assert meta.HasField("key_is_base64") == meta.HasField("key")
    assert meta.HasField("highest_sequence_id") == is_batch
    if is_batch:
        first, last = messages[0][0], messages[-1][0]
        assert meta.messages_in_batch > 1
        assert (meta.sequence_id, meta.highest_sequence_id) == (first.sequence_id, last.sequence_id)
        assert (meta.HasField("key"), meta.key) == (first.HasField("key"), first.key)
        assert (meta.HasField("ordering_key"), meta.ordering_key) == (
            first.HasField("ordering_key"),
            first.ordering_key,
        )
        assert not meta.property
        assert not meta.HasField("event_time_ms")
        assert not meta.HasField("value_is_null")


@for_each("codec", CODECS)
@for_each("batch", [1, 1000])
@for_each("threads", [0, 2])
def test_many_portions(monkeypatch: pytest.MonkeyPatch, codec: str, batch: int, threads: int) -> None:
    monkeypatch.setattr(encode, "_PORTION_ROWS", 1024)
    count = 5_000
    values = [b"%d" % i * (i % 30) for i in range(count)]
    rows = pa.record_batch({"value": values, "key": [f"k{i}" for i in range(count)]})
    options = EncodeOptions(batch=batch, compression=codec, publish_time_ms=NOW)
    with ThreadPoolExecutor(2) as pool:
        encoder = MessageEncoder(rows.schema, options, *((pool.map, threads) if threads else ()))
        made = [one for start in range(0, count, 333) for one in encoder.encode(rows.slice(start, 333))]
        made += encoder.finish()
    assert len(made) > 2
    assert [one.first_entry for one in made] == np.cumsum([0, *map(len, made)])[:-1].tolist()
    assert encoder.entries == (count if batch == 1 else 5)
    back = decoded(made, ("value", "key", "sequence_id"))
    assert back == [{"value": v, "key": f"k{i}", "sequence_id": i} for i, v in enumerate(values)]


TYPES = {
    "value": [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()],
    "key": [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
    "key_bytes": [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())],
    "ordering_key": [pa.string(), pa.binary(), pa.binary(2), pa.null()],
    "producer_name": [pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.large_string())],
    "sequence_id": [pa.int8(), pa.int64(), pa.uint64(), pa.null()],
    "event_time": [
        pa.int64(),
        pa.uint64(),
        pa.timestamp("s"),
        pa.timestamp("ms", "Europe/Paris"),
        pa.timestamp("ns", "UTC"),
    ],
}


@for_each(("name", "kind"), [(name, kind) for name, kinds in TYPES.items() for kind in kinds])
def test_types(name: str, kind: pa.DataType) -> None:
    values: list[Any]
    if name == "event_time":
        values = [NOW, None, NOW + 1000]
        if pa.types.is_timestamp(kind):
            column = pa.array(values, pa.timestamp("ms")).cast(pa.timestamp(kind.unit)).cast(kind)
        else:
            column = pa.array(values, kind)
        wanted = [NOW * 1000, None, (NOW + 1000) * 1000]
    elif name == "sequence_id":
        values = [7, None, 9] if not pa.types.is_null(kind) else [None] * 3
        column, wanted = pa.array(values, kind), [7, 1, 9] if values[0] else [0, 1, 2]
    else:
        values = ["ab", None, "cd"] if not pa.types.is_null(kind) else [None] * 3
        column = cast(values, kind)
        is_text = MESSAGE_SCHEMA.field(name).type == pa.string()
        wanted = [one if is_text or one is None else one.encode() for one in values]
        if name == "producer_name":
            wanted[1] = "ledgerfs"
    columns = {"value": pa.array(["x", "y", "z"])} | {name: column}
    rows = pa.record_batch(columns)
    _, made = entries_of([rows.slice(0, 2), rows.slice(2)], rows.schema)
    assert [row[name] for row in decoded(made, (name,))] == wanted


def cast(values: list[str | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode().cast(kind)
    return pa.array([None if one is None else one.encode() for one in values], kind)


def test_a_key_of_bytes_is_base64() -> None:
    rows = pa.record_batch({"value": ["x", "y"], "key": [b"\xff\0", b""]})
    _, made = entries_of([rows], rows.schema)
    assert decoded(made, ("key", "key_bytes")) == [
        {"key": None, "key_bytes": b"\xff\0"},
        {"key": None, "key_bytes": b""},
    ]
    meta, _, messages = parsed(next(iter(made[0]))[1])
    assert (meta.key, meta.key_is_base64) == (base64.b64encode(b"\xff\0"), True)
    assert [one.key_is_base64 for one, _ in messages] == [True, True]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"a": "1", "b": None}, None, {"a": None, "b": "2"}]),
        pa.array(['{"a":"1"}', None, '{"b":"2"}']),
        pa.array([[("a", "1")], None, [("b", "2")]], pa.map_(pa.large_string(), pa.string_view())),
    ],
    ids=["struct", "json", "map"],
)
def test_properties(column: pa.Array) -> None:
    rows = pa.record_batch({"value": ["x", "y", "z"], "properties": column})
    for parts in ([rows], [rows.slice(0, 1), rows.slice(1)]):
        _, made = entries_of(parts, rows.schema)
        assert [row["properties"] for row in decoded(made, ("properties",))] == [[("a", "1")], [], [("b", "2")]]


def test_columns_of_a_place_are_ignored() -> None:
    rows = pa.RecordBatch.from_pylist([{"topic": "t", "ledger_id": 3, "value": b"v"}], MESSAGE_SCHEMA)
    encoder, made = entries_of([rows], rows.schema)
    assert encoder.ignored_columns == IGNORED_COLUMNS
    assert decoded(made)[0]["value"] == b"v"


@for_each(
    ("schema", "text"),
    [
        (
            pa.schema([("value", pa.binary()), ("colour", pa.string())]),
            r"colour: no such column; accepted are value, key",
        ),
        (pa.schema([("key", pa.string())]), r"value: the column is missing"),
        (pa.schema([("value", pa.float64())]), r"value: the column has the type double, expected text or bytes"),
        (pa.schema([("value", pa.binary()), ("event_time", pa.string())]), r"event_time: .*timestamps, or integers"),
        (pa.schema([("value", pa.binary()), ("key_bytes", pa.string())]), r"key_bytes: .*expected bytes"),
        (pa.schema([("value", pa.binary()), ("value", pa.binary())]), r"value: the column occurs twice"),
        (pa.schema([("value", pa.binary()), ("properties", pa.map_(pa.string(), pa.int64()))]), r"properties: .*a map"),
    ],
)
def test_wrong_columns(schema: pa.Schema, text: str) -> None:
    with pytest.raises(InvalidRowsError, match=text):
        MessageEncoder(schema, EncodeOptions())


@for_each(
    "options",
    [{"batch": 0}, {"compression": "rar"}, {"max_entry_bytes": 1}, {"producer_name": ""}, {"publish_time_ms": 2**62}],
)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        MessageEncoder(SCHEMA, EncodeOptions(**options))


TIMES_THAT_ARE_NONE = [
    (253_402_300_800_000, "a time of 253402300800000 ms is after the year 9999"),
    (1_700_000_000_123_456, "a time of 1700000000123456 ms is after the year 9999; perhaps these are microseconds"),
    (1_700_000_000_123_456_789, "a time of 1700000000123456789 ms is .*; perhaps these are nanoseconds"),
    (-(2**63) // 1000, "a time of -9223372036854776 ms is too early to be read back"),
    (1_700_000_000, "1700000000 looks like seconds; expected ms since 1970, such as 1700000000000"),
    (99_999_999_999, "99999999999 looks like seconds"),
    (-1, "-1 looks like seconds"),
]
TIMES_OF_UNITS = [
    (pa.timestamp("us"), 1_700_000_000_123_999, "the time is finer than 1 ms"),
    (pa.timestamp("us", "Europe/Paris"), -1, "the time is finer than 1 ms"),
    (pa.timestamp("us"), 1, "the time is finer than 1 ms"),
    (pa.timestamp("s"), 10**14, "a time of .* year 9999"),
    (pa.timestamp("s"), 2**62, ""),
]
MAP = MESSAGE_SCHEMA.field("properties").type


@for_each(
    ("columns", "text"),
    [
        (
            {"value": [b"v"] * 3 + [bytes(3000)]},
            r"row 3: the message needs an entry of 3\d\d\d bytes, but the limit is 2000",
        ),
        ({"value": [b"v"] * 3 + [bytes(1990)]}, r"row 3: the message needs an entry of 20\d\d bytes"),
        (
            {"value": ["v"] * 4, "key": ["a"] * 4, "key_bytes": [None, None, b"", None]},
            r"row 2: the row has both key and key_bytes",
        ),
        *(
            (
                {"value": ["v"] * 4, name: [NOW, -NOW, time, None]},
                f"row 2: its {name} is invalid: {text}",
            )
            for name in ("publish_time", "event_time", "deliver_at_time")
            for time, text in TIMES_THAT_ARE_NONE
        ),
        *(
            ({"value": ["v"] * 4, name: pa.array([1000, None, time, 0], kind)}, f"row 2: its {name} is invalid: {text}")
            for name in ("publish_time", "event_time", "deliver_at_time")
            for kind, time, text in TIMES_OF_UNITS
        ),
        *(
            (
                {"value": ["v"] * 4, name: pa.array([NOW, None, 0, 1], kind)},
                f"row 2: its {name} is invalid: a time of 0",
            )
            for name in ("event_time", "deliver_at_time")
            for kind in (pa.int64(), pa.uint64(), pa.timestamp("ms", "UTC"))
        ),
        ({"value": ["v"] * 4, "sequence_id": pa.array([1, 2**63, 0, 0], pa.uint64())}, r"row 1: its sequence_id"),
        ({"value": ["v"] * 4, "properties": ["{}", "{}", "[", None]}, r"row 2: its properties"),
        ({"value": ["v"] * 4, "properties": ["{}", '{"a":1}', None, None]}, r"row 1: its properties"),
        (
            {"value": ["v"] * 4, "properties": pa.array([[("a", "b")], [], [], [("a", None)]], MAP)},
            r"row 3: a property has no value",
        ),
    ],
)
def test_wrong_rows(columns: dict[str, Any], text: str) -> None:
    rows = pa.record_batch(columns)
    with pytest.raises(InvalidRowsError, match=text):
        entries_of([rows.slice(0, 1), rows.slice(1)], rows.schema, max_entry_bytes=2000)


def test_rows_of_another_schema() -> None:
    with pytest.raises(InvalidRowsError, match=r"other columns than the first ones: value \(string\)"):
        entries_of([pa.record_batch({"value": ["x"]})], pa.schema([("value", pa.binary())]))


def test_what_would_grow_beyond_the_limit_stays_plain() -> None:
    value = np.random.default_rng(1).bytes(1930)
    rows = pa.record_batch({"value": [value, b"a" * 3000]})
    for codec in CODECS[1:]:
        _, made = entries_of([rows], rows.schema, compression=codec, max_entry_bytes=2000, batch=1)
        metas = [parsed(entry)[0] for one in made for _, entry in one]
        assert [meta.compression for meta in metas][1] == CODECS.index(codec)
        assert metas[0].uncompressed_size == 1930
        assert [row["value"] for row in decoded(made, ("value",))] == [value, b"a" * 3000]


def test_nothing() -> None:
    encoder, made = entries_of([pa.RecordBatch.from_pylist([], SCHEMA)])
    assert made == []
    assert (encoder.messages, encoder.entries, encoder.earliest_publish_ms) == (0, 0, None)


def test_the_time_is_taken_once() -> None:
    rows = pa.record_batch({"value": ["x"] * 3})
    _, made = entries_of([rows.slice(0, 1), rows.slice(1)], rows.schema, publish_time_ms=None)
    assert len({row["publish_time"] for row in decoded(made)}) == 1
    assert encode.EncodeOptions().publish_time_ms is None


def test_the_earliest_time_may_be_any() -> None:
    rows = pa.record_batch({"value": ["x"] * 4, "publish_time": pa.array([7, 0, 5, -3], pa.timestamp("ms"))})
    encoder = MessageEncoder(rows.schema, EncodeOptions(batch=1))
    seen = []
    for i in range(4):
        list(encoder.encode(rows.slice(i, 1)))
        list(encoder.finish())
        seen.append(encoder.earliest_publish_ms)
    assert seen == [7, 0, 0, -3]

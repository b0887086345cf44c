"""What a scan does with damage, choices, and the libraries that take it."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta, timezone
from inspect import signature
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.catalog.time_arguments import milliseconds_of
from ledgerfs.errors import CorruptLedgerError, CorruptMessageError, InvalidOptionError
from ledgerfs.export.export import export_topic
from ledgerfs.fsspec_impl.filesystem import LedgerFileSystem
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import DecodeOptions, Skipped
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord
from ledgerfs.scan import message_by_id
from ledgerfs.scan import scan as scan_module
from ledgerfs.scan.message_by_id import read_message
from ledgerfs.scan.options import (
    SCAN_OPTIONS,
    MessageOptions,
)
from ledgerfs.scan.scan import make_scan
from ledgerfs.scan.topic_entries import Reach
from tests.support.each import for_each
from tests.support.entries import ZSTD, batched, compress, frame, framed, metadata
from tests.support.ledgers import CREATED_MS, Offload, offload, put_in_folder

COMMIT, ABORT = 21, 22


def message(i: int, **fields: object) -> bytes:
    return frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i, **fields), b"value %d" % i)


def topic_of(folder: Path, *ledgers: Offload) -> Topic:
    return open_bucket(put_in_folder(folder, *ledgers)).topic("persistent://public/default/orders")


def topic_with(folder: Path, *entries: Sequence[bytes], block_size: int = 1 << 20) -> Topic:
    """Make a topic of ledgers 1, 2, … from the entries of each."""
    made = [offload(one, i, uuid=i, block_size=block_size, created_ms=CREATED_MS) for i, one in enumerate(entries, 1)]
    return topic_of(folder, *made)


def damaged(made: Offload, at: int, data: bytes) -> Offload:
    return replace(made, data=made.data[:at] + data + made.data[at + len(data) :])


def ids_of(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table["ledger_id"].to_pylist(), table["entry_id"].to_pylist(), strict=True))


# Damage.

BATCH = batched([(BatchedMetadataRecord(), b"one"), (BatchedMetadataRecord(), b"two")])
DAMAGE = {
    "CRC32C": message(2)[:-1] + b"?",
    "frame claims more": frame(metadata(), checksum=False)[:9],
    "not a protobuf": frame(metadata().SerializeToString() + b"\xff", checksum=False),
    "lacks producer name": frame(b"\x10\x01\x18\x02"),
    "outside the calendar": frame(metadata(publish_time_ms=2**63)),
    "not the batch": frame(metadata(messages_in_batch=3), b"\xff" * 40),
    "broken LZ4": frame(metadata(compression=1, uncompressed_size=9), b"no lz4"),
    "broken ZLIB": frame(metadata(compression=2, uncompressed_size=9), b"no zlib"),
    "broken ZSTD": frame(metadata(compression=3, uncompressed_size=9), b"no zstd"),
    "SNAPPY": frame(metadata(compression=4, uncompressed_size=9), b"no snappy"),
    "unknown compression 5": frame(metadata(compression=5, uncompressed_size=9), b"abc"),
    "without its uncompressed size": frame(metadata(compression=1), b"abc"),
    "3 bytes of LZ4 hold 765 at most": frame(metadata(compression=1, uncompressed_size=10 << 20), b"abc"),
}


@for_each("reason", DAMAGE)
def test_damage_is_left_out_with_its_reason_and_the_rest_is_there(tmp_path_factory, reason):
    tmp_path = tmp_path_factory.mktemp("case")
    topic = topic_with(tmp_path, [message(0), message(1), DAMAGE[reason], message(3)], [message(0)])
    scan = topic.scan(on_corrupt="skip")
    assert ids_of(scan.to_table()) == [(1, 0), (1, 1), (1, 3), (2, 0)]
    (skipped,) = scan.skipped
    assert (skipped.ledger_id, skipped.first_entry, skipped.last_entry) == (1, 2, 2)
    assert reason in skipped.reason
    with pytest.raises(CorruptMessageError, match=f"entry 1:2.*{reason}"):
        topic.scan().to_table()


def test_an_entry_that_is_damaged_twice_is_left_out_once(tmp_path):
    """Both its metadata and its checksum tell of the one damaged byte."""
    entry = bytearray(message(1))
    entry[10] ^= 0xFF
    scan = topic_with(tmp_path, [message(0), bytes(entry), message(2)]).scan(on_corrupt="skip")
    assert ids_of(scan.to_table()) == [(1, 0), (1, 2)]
    assert [one.first_entry for one in scan.skipped] == [1]


def test_the_first_damaged_entry_is_the_one_that_is_raised_for(tmp_path):
    topic = topic_with(tmp_path, [message(0), DAMAGE["CRC32C"], DAMAGE["not a protobuf"]])
    with pytest.raises(CorruptMessageError, match="entry 1:1"):
        topic.scan().to_table()


def test_checksums_need_not_be_checked(tmp_path):
    topic = topic_with(tmp_path, [message(0)[:-1] + b"?"])
    assert topic.scan(columns=["value"], check_checksums=False).to_table()["value"].to_pylist() == [b"value ?"]


def blocks(tmp_path: Path) -> tuple[Offload, list[int]]:
    """Return a ledger of several blocks and the first entry of each."""
    entries = [message(i, key=b"k" * 60) for i in range(10)]
    size = 128 + 4 * (12 + len(entries[0]))
    made = offload(entries, block_size=size)
    assert len(made.data) > 2 * size
    return made, [0, 4, 8]


@for_each("entry", range(10))
def test_a_damaged_record_leaves_out_the_rest_of_its_block(tmp_path_factory, entry):
    tmp_path = tmp_path_factory.mktemp("case")
    made, firsts = blocks(tmp_path)
    at = made.data.index(b"\0" * 7 + bytes([entry]) + b"\x0e\x01") - 4  # after a length of 4 bytes
    topic = topic_of(tmp_path, damaged(made, at, b"\xff\xff\xff\xff"))
    scan = topic.scan(on_corrupt="skip")
    behind = min(first for first in [*firsts, 10] if first > entry)
    assert ids_of(scan.to_table()) == [(1, i) for i in range(10) if not entry <= i < behind]
    (skipped,) = scan.skipped
    assert (skipped.ledger_id, skipped.first_entry, skipped.last_entry) == (1, entry, behind - 1)
    assert skipped.reason
    with pytest.raises(CorruptLedgerError):
        topic.scan().to_table()


def test_the_ledger_that_pulsar_lost_is_told_of(truncated_url):
    for info in open_bucket(truncated_url).topics():
        topic = open_bucket(truncated_url).topic(info.name)
        scan = topic.scan(on_corrupt="skip")
        seen = {entry for _, entry in ids_of(scan.to_table())}
        lost = {i for one in scan.skipped for i in range(one.first_entry, one.last_entry + 1)}
        assert lost
        assert seen.isdisjoint(lost)
        assert max(lost) == topic.ledgers[-1].last_entry


def transaction(i: int, number: int = 1, **fields: object) -> bytes:
    return message(i, transaction_least=number, transaction_most=7, **fields)


def marker(kind: int, number: int = 1) -> bytes:
    return frame(metadata(marker_type=kind, transaction_least=number, transaction_most=7))


def test_damage_where_outcomes_of_transactions_are_looked_for_is_left_out_too(tmp_path):
    padding = [message(i, key=b"k" * 60) for i in range(4)]
    size = 128 + 4 * (12 + len(padding[0]))
    second = offload([*padding, marker(COMMIT)], 2, uuid=2, block_size=size)
    topic = topic_of(tmp_path, offload([transaction(0)]), damaged(second, 128, b"\xff\xff\xff\xff"))
    scan = topic.scan(on_corrupt="skip")
    assert ids_of(scan.to_table()) == [(1, 0)]
    assert [(one.ledger_id, one.first_entry, one.last_entry) for one in scan.skipped] == [(2, 0, 3)]


def chunk(number: int, count: int = 3, identity: bytes = b"a") -> bytes:
    meta = metadata(chunked_id=identity, chunks=count, chunk=number, publish_time_ms=CREATED_MS)
    return frame(meta, b"part %d;" % number)


def test_damage_where_earlier_chunks_are_looked_for_is_left_out_too(tmp_path):
    first = offload([message(0), chunk(0)])
    topic = topic_of(tmp_path, damaged(first, 128, b"\xff\xff\xff\xff"), offload([chunk(1), message(1)], 2, uuid=2))
    scan = replace(topic.scan(on_corrupt="skip"), part=Reach.of(range(1, 2)))
    assert ids_of(scan.to_table()) == [(2, 1)]
    assert len(scan.incomplete) == 1


# Chunks.


def test_chunks_that_never_become_whole_are_told(tmp_path):
    topic = topic_with(tmp_path, [chunk(0), chunk(0, 2, b"b"), message(1)], [chunk(1), chunk(1, 2, b"b")])
    scan = topic.scan(columns=["ledger_id", "entry_id", "value"])
    table = scan.to_table()
    assert ids_of(table) == [(1, 2), (2, 1)]
    assert table["value"].to_pylist() == [b"value 1", b"part 0;part 1;"]
    assert scan.incomplete == [Incomplete(1, 0, 2, 3)]
    assert scan.skipped == []


def test_a_part_does_not_tell_of_chunked_messages_that_go_on_behind_it(tmp_path):
    topic = topic_with(tmp_path, [chunk(0), chunk(0, 2, b"b"), message(1)], [chunk(1), chunk(2)], [chunk(1, 9, b"c")])
    scan = topic.scan()
    parts = [replace(scan, part=Reach.of(range(i, i + 1))) for i in range(3)]
    assert [part.to_table().num_rows for part in parts] == [1, 1, 0]
    # The last part looked back for "c", and so knows what else never became whole.
    told = [Incomplete(3, 0, 1, 9), Incomplete(1, 1, 1, 2)]
    assert [part.incomplete for part in parts] == [[], [], told]
    scan.to_table()
    assert scan.incomplete == told


# What may still come.


def is_final(scan):
    assert not scan.is_final
    scan.to_table()
    return scan.is_final


def test_rows_are_final_unless_a_later_ledger_could_change_them(tmp_path):
    topic = topic_with(tmp_path, [message(0), transaction(1), chunk(0)], [marker(COMMIT), chunk(1), chunk(2)])
    assert is_final(topic.scan())
    assert is_final(topic.scan(transactions="all"))
    assert is_final(replace(topic.scan(), part=Reach.of(range(1))))


def test_rows_that_wait_for_an_outcome_are_not_final(tmp_path):
    topic = topic_with(tmp_path, [message(0), transaction(1)], [message(2)])
    assert not is_final(topic.scan())
    assert not is_final(topic.scan(transactions="all"))
    assert not is_final(replace(topic.scan(), part=Reach.of(range(1))))
    assert is_final(replace(topic.scan(), part=Reach.of(range(1, 2))))
    # All messages without their states are what they are.
    assert is_final(topic.scan(columns=["value"], transactions="all"))


def test_rows_that_wait_for_chunks_at_the_end_of_the_topic_are_not_final(tmp_path):
    topic = topic_with(tmp_path, [chunk(0), chunk(0, 2, b"b"), chunk(1, 2, b"b")], [message(0)])
    assert not is_final(topic.scan())
    assert is_final(replace(topic.scan(), part=Reach.of(range(1))))


def test_a_scan_that_was_left_early_is_not_final(tmp_path):
    topic = topic_with(tmp_path, [message(0)], [message(1)])
    scan = topic.scan()
    assert next(iter(scan)).num_rows == 1
    assert not scan.is_final
    assert scan.count() == 2
    assert scan.is_final


# Counting, and tables without columns.


def test_counting_decompresses_and_decrypts_nothing(tmp_path):
    lz4 = frame(metadata(compression=1, uncompressed_size=99, messages_in_batch=3), b"no lz4")
    encrypted = metadata(messages_in_batch=2)
    encrypted.encryption_key.add(name=b"k", wrapped=b"w")
    topic = topic_with(tmp_path, [message(0), BATCH, lz4, DAMAGE["broken LZ4"], frame(encrypted, b"x" * 40)])
    assert topic.count() == 1 + 2 + 3 + 1 + 2
    assert topic.count(on_encrypted="null") == 1 + 2 + 3 + 1 + 1
    assert topic.count(on_encrypted="skip") == 1 + 2 + 3 + 1


def test_counting_tells_of_damage_and_of_what_it_reads(tmp_path):
    entries = [message(0), DAMAGE["CRC32C"], chunk(0), transaction(1)]
    topic = topic_with(tmp_path, entries)
    with pytest.raises(CorruptMessageError, match="entry 1:1"):
        topic.count()
    scan = topic.scan(on_corrupt="skip")
    seen = []
    scan.on_read = seen.append
    assert scan.count() == 1
    assert sum(seen) == sum(map(len, entries))
    assert [one.first_entry for one in scan.skipped] == [1]
    assert scan.incomplete == [Incomplete(1, 2, 1, 3)]
    assert not scan.is_final


def test_a_table_without_columns_has_its_rows(tmp_path):
    topic = topic_with(tmp_path, [message(i) for i in range(5)], [BATCH])
    scan = topic.scan(columns=[])
    assert scan.schema == pa.schema([])
    assert [(batch.num_rows, batch.num_columns) for batch in scan] == [(5, 0), (2, 0)]
    assert scan.to_table().num_rows == pa.table(scan).num_rows == pl.DataFrame(scan).height == 7
    assert scan.to_reader().read_all().num_rows == 7
    assert scan.to_pandas().shape == (7, 0)


# Transactions.


def test_outcomes_are_read_ahead_no_further_than_to_the_last_that_is_needed(tmp_path):
    later = [message(i, key=b"k" * 60) for i in range(4)]
    size = 128 + 4 * (12 + len(later[0]))
    first = offload([transaction(0), marker(COMMIT)])
    second = offload([transaction(0, 2), *later, marker(ABORT, 2)], 2, uuid=2, block_size=size)
    topic = topic_of(tmp_path, first, damaged(second, size + 128, b"\xff\xff\xff\xff"))
    batches = iter(topic.scan(columns=["entry_id"]))
    assert next(batches).num_rows == 1
    with pytest.raises(CorruptLedgerError):
        next(batches)


def test_markers_come_when_they_are_asked_for_and_tell_the_same_state_in_every_part(tmp_path):
    topic = topic_with(tmp_path, [transaction(0)], [marker(COMMIT)])
    scan = topic.scan(columns=["ledger_id", "txn_state"], include_markers=True)
    assert scan.to_table().to_pydict() == {"ledger_id": [1, 2], "txn_state": ["committed", "committed"]}
    second = replace(scan, part=Reach.of(range(1, 2))).to_table()
    assert second.to_pydict() == {"ledger_id": [2], "txn_state": ["committed"]}


# Choices.


def test_unknown_columns_choices_and_times_are_told_at_once(tmp_path):
    topic = topic_with(tmp_path, [message(0)])
    for options, word in [
        ({"columns": ["key", "kye"]}, "kye"),
        ({"columns": "key"}, "k"),
        ({"transactions": "some"}, "transactions='some'"),
        ({"on_corrupt": "ignore"}, "on_corrupt='ignore'"),
        ({"on_encrypted": "no"}, "on_encrypted='no'"),
        ({"values": "avro"}, "values='avro': expected one of bytes, typed, json, auto"),
        ({"flatten": "yes"}, "flatten='yes': expected True or False"),
        ({"on_undecodable": "ignore"}, "on_undecodable='ignore'"),
        ({"start_time": "yesterday"}, "yesterday"),
        ({"end_time": "2026-13-01"}, "2026-13-01"),
        ({"end_time": ""}, "not a time"),
        ({"start_time": CREATED_MS // 1000}, f"{CREATED_MS // 1000}: looks like seconds; .* such as {CREATED_MS}"),
        ({"end_time": CREATED_MS * 1000}, f"looks like microseconds; .* such as {CREATED_MS}"),
        ({"end_time": CREATED_MS * 1_000_000}, f"looks like nanoseconds; .* such as {CREATED_MS}"),
        ({"end_time": 2**63 - 1}, "leave it out"),
        ({"start_time": -5}, "not a time from 2010 to 2200"),
        ({"order": "key"}, "order='key': one of partition, publish_time"),
        *(({name: value}, name) for name in ("include_markers", "check_checksums") for value in ("false", "", None, 1)),
        *(({"clock_slack_ms": value}, "clock_slack_ms") for value in (-1, 1.5, "1", None, True)),
        *(({"max_message_bytes": value}, "max_message_bytes") for value in (0, -1, 1.5, True, "5 MiB", None)),
    ]:
        with pytest.raises(InvalidOptionError, match=word):
            topic.scan(**options)
    for options, word in [
        ({"start_tme": 0}, "start_tme: no such option; .*did you mean start_time"),
        ({"start_ms": 0}, "start_ms: no such option; .*did you mean start_time"),
        ({"maxMessageBytes": 0}, "did you mean max_message_bytes"),
        ({"order": "publish_time"}, "order: no such option"),
        ({"values": "avro"}, "values='avro': expected one of bytes, typed, json, auto"),
        ({"values": "typed", "on_undecodable": "skip"}, "a file of the tree has all messages"),
    ]:
        with pytest.raises(InvalidOptionError, match=word):
            open_bucket(str(tmp_path), scan_options=options)


def defaults_of(function):
    """Return the default of each argument that is given by its name only."""
    return {name: one.default for name, one in signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY}


def test_functions_of_a_topic_have_the_defaults_of_a_scan():
    made = {one.name: one.default for one in fields(DecodeOptions)} | defaults_of(make_scan)
    of_scan = defaults_of(Topic.scan)
    assert [name for name in of_scan.keys() & made.keys() if of_scan[name] != made[name]] == []
    assert defaults_of(Topic.count) == {name: of_scan[name] for name in SCAN_OPTIONS[1:]}
    of_message = {name: of_scan[name] for name in MessageOptions.__annotations__}
    assert defaults_of(Topic.message) == defaults_of(read_message) == of_message


def test_every_option_of_a_topic_is_handed_on(tmp_path, monkeypatch):
    """Each with a value that is not its default, so that one that is forgotten is seen."""
    given = {
        "start_time": CREATED_MS, "end_time": CREATED_MS + 5, "clock_slack_ms": 7, "transactions": "all", "on_corrupt": "skip",
        "private_keys": {}, "on_encrypted": "null", "include_markers": True, "check_checksums": False, "max_message_bytes": 9999,
        "values": "auto", "schema_version": "each", "flatten": True, "on_undecodable": "null",
    }  # fmt: skip
    assert given.keys() == set(SCAN_OPTIONS[1:])
    told = []
    monkeypatch.setattr(
        scan_module,
        "make_scan",
        # Markers have no typed values: both together are told of, and not read.
        lambda *_, schemas, **options: (
            told.append(options) or make_scan(*_, schemas=schemas, **(options | {"include_markers": False}))
        ),
    )
    topic = topic_with(tmp_path, [message(0)])
    topic.scan(["sequence_id"], **given, order="publish_time")
    topic.count(**given)
    export_topic(topic, tmp_path / "out", "csv", columns=["sequence_id"], **given)
    assert told == [{"columns": columns, **given} for columns in (["sequence_id"], (), ["sequence_id"])]
    read = []
    monkeypatch.setattr(message_by_id, "read_message", lambda *_, **options: read.append(options))
    of_message = {name: given[name] for name in MessageOptions.__annotations__}
    topic.message("1:0", **of_message)
    assert read == [of_message]


def test_moments_of_every_kind():
    moment = datetime(2026, 11, 1, 12, tzinfo=UTC)
    ms = 1_793_534_400_000
    assert milliseconds_of(None) is None
    for same in (
        ms,
        moment,
        moment.replace(tzinfo=None),
        moment.astimezone(timezone(timedelta(hours=5, minutes=30))),
        "2026-11-01T12:00:00Z",
        "2026-11-01T12:00:00",
        "2026-11-01 12:00",
        "2026-11-01T13:00:00+01:00",
    ):
        assert milliseconds_of(same) == ms, same
    assert milliseconds_of("2026-11-01") == ms - 12 * 3600 * 1000
    assert milliseconds_of("2026-11-01T12:00:00.001Z") == ms + 1
    assert milliseconds_of(date(2026, 11, 1)) == ms - 12 * 3600 * 1000
    for wrong in (1.5, True, b"2026-11-01", [], timedelta(1), moment.time()):
        with pytest.raises(InvalidOptionError, match="is not a time"):
            milliseconds_of(wrong)


# Who takes a scan.


@pytest.fixture
def topic(tmp_path):
    return topic_with(tmp_path, [message(0, key=b"a"), BATCH], [message(2, value_is_null=True), DAMAGE["CRC32C"]])


def test_arrow_polars_duckdb_and_pandas_take_a_scan(topic):
    scan = topic.scan(on_corrupt="skip")
    table = scan.to_table()
    assert table.num_rows == 4
    assert pa.table(scan) == table
    assert pa.RecordBatchReader.from_stream(scan).read_all() == table
    assert scan.to_reader().read_all() == table
    frame_of_polars = pl.DataFrame(topic.scan(columns=["entry_id", "value", "publish_time"], on_corrupt="skip"))
    assert frame_of_polars["value"].to_list() == table["value"].to_pylist()
    assert frame_of_polars["publish_time"].to_list() == table["publish_time"].to_pylist()
    assert pl.DataFrame(scan).height == 4
    relation = duckdb.from_arrow(scan.to_reader())
    assert relation.aggregate("count(*), count(value), min(key), max(entry_id)").fetchall() == [(4, 3, "a", 1)]
    pandas = scan.to_pandas()
    assert list(pandas.columns) == list(DEFAULT_COLUMNS)
    assert pandas["value"].tolist() == table["value"].to_pylist()
    assert str(scan.to_pandas(types_mapper={pa.int64(): None}.get)["entry_id"].dtype) == "int64"


def test_an_error_comes_through_every_one_of_them(topic):
    scan = topic.scan()
    for take in (list, pa.table, pl.DataFrame, type(scan).to_table, type(scan).to_pandas):
        with pytest.raises(Exception, match="entry 2:1"):
            take(scan)


def test_a_scan_iterates_anew_each_time(topic):
    scan = topic.scan(on_corrupt="skip")
    assert scan.skipped == []
    tables = []
    for _ in range(3):
        tables.append(pa.Table.from_batches(list(scan), scan.schema))
        assert [(one.ledger_id, one.first_entry) for one in scan.skipped] == [(2, 1)]
        assert isinstance(scan.skipped[0], Skipped)
    assert tables[0] == tables[1] == tables[2]
    one, other = iter(scan), iter(scan)
    assert next(one) == next(other)
    assert [batch.num_rows for batch in one] == [batch.num_rows for batch in other]


def test_a_scan_of_nothing_is_an_empty_table(topic):
    scan = topic.scan(end_time=0)
    assert scan.to_table().num_rows == pa.table(scan).num_rows == scan.to_pandas().shape[0] == 0
    assert scan.to_table().schema == scan.schema


LIMITED = """
import resource
import sys
from itertools import islice
from ledgerfs import open_bucket
from ledgerfs.errors import LedgerfsError

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
topic = open_bucket(sys.argv[1]).topic("persistent://public/default/orders")
"""
COMPRESSIBLE = """
for column in ("value", "batch_index"):
    print(sum(batch.num_rows for batch in topic.scan(columns=[column])))
"""
MANY_CLAIMED = """
try:
    for batch in islice(topic.scan(columns=["batch_index"]), 3):
        assert batch.num_rows <= 50_000_000
except LedgerfsError:
    pass
print("done")
"""
PLAIN = framed(BatchedMetadataRecord(), bytes((1 << 20) - 100)) * 5


@pytest.mark.parametrize(
    ("messages", "entries", "stored", "program", "prints"),
    [(5, 450, compress(ZSTD, PLAIN), COMPRESSIBLE, "2250\n2250\n"), (800_000, 750, b"no zstd", MANY_CLAIMED, "done\n")],
    ids=["compressible", "many claimed"],
)
def test_a_window_of_more_than_memory_holds_comes_in_pieces(
    messages: int, entries: int, stored: bytes, program: str, prints: str, tmp_path: Path
) -> None:
    """450 sound batches of 5 MiB that compress to a few hundred bytes each, as a load test's do; claims of 600 million messages.

    Without a look at the payloads nothing but the claims say how many rows there are: that may be damage.
    """
    meta = metadata(compression=ZSTD, uncompressed_size=len(PLAIN), messages_in_batch=messages)
    url = put_in_folder(tmp_path, offload([frame(meta, stored)] * entries))
    command = [sys.executable, "-c", LIMITED + program, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, prints), done.stderr[-1000:]


@for_each("values", ["typed", "json", "auto"])
def test_markers_have_no_values_of_a_schema(values: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("case")
    marker = message(1, marker_type=COMMIT)
    topic = topic_with(tmp_path, [message(0), marker])
    given: dict[str, Any] = {"include_markers": True, "values": values}
    why = r"include_markers: markers are the broker's own, .* values='bytes'"
    with pytest.raises(InvalidOptionError, match=why):
        topic.scan(["value"], **given)
    with pytest.raises(InvalidOptionError, match=why):
        export_topic(topic, tmp_path / "out", "jsonl", **given)
    with pytest.raises(InvalidOptionError, match=why):
        LedgerFileSystem(fo=topic.bucket.store.url, target_protocol="file", scan_options=given)
    found = topic.scan(["value"], include_markers=True).to_table()["value"].to_pylist()
    assert found == [b"value 0", b"value 1"]

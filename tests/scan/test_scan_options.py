"""What a scan does with damage, choices, and the libraries that take it."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
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
from ledgerfs.scan.options import SCAN_OPTIONS, ScanKeywords, ScanOptions
from ledgerfs.scan.part_reading import decode_options
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.topic_entries import Reach
from tests.support.each import for_each
from tests.support.entries import ZSTD, batched, compress, frame, framed, metadata
from tests.support.ledgers import CREATED_MS, Offload, offload, put_in_folder
from tests.support.scans import part_of

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
    "frame is longer": frame(metadata(), checksum=False)[:9],
    "not a protobuf": frame(metadata().SerializeToString() + b"\xff", checksum=False),
    "lacks producer name": frame(b"\x10\x01\x18\x02"),
    "publish time is out of range": frame(metadata(publish_time_ms=2**63)),
    "does not match the batch": frame(metadata(messages_in_batch=3), b"\xff" * 40),
    "broken LZ4": frame(metadata(compression=1, uncompressed_size=9), b"no lz4"),
    "broken ZLIB": frame(metadata(compression=2, uncompressed_size=9), b"no zlib"),
    "broken ZSTD": frame(metadata(compression=3, uncompressed_size=9), b"no zstd"),
    "SNAPPY": frame(metadata(compression=4, uncompressed_size=9), b"no snappy"),
    "unknown compression 5": frame(metadata(compression=5, uncompressed_size=9), b"abc"),
    "has no uncompressed size": frame(metadata(compression=1), b"abc"),
    "3 bytes of LZ4 contain at most 765": frame(metadata(compression=1, uncompressed_size=10 << 20), b"abc"),
}


@for_each("reason", DAMAGE)
def test_damage_is_left_out_with_its_reason_and_the_rest_is_there(tmp_path_factory, reason):
    tmp_path = tmp_path_factory.mktemp("case")
    topic = topic_with(tmp_path, [message(0), message(1), DAMAGE[reason], message(3)], [message(0)])
    scan = topic.scan(on_corrupt="skip")
    report = ScanReport()
    assert ids_of(scan.to_arrow(report)) == [(1, 0), (1, 1), (1, 3), (2, 0)]
    (skipped,) = report.skipped
    assert (skipped.ledger_id, skipped.first_entry, skipped.last_entry) == (1, 2, 2)
    assert reason in skipped.reason
    with pytest.raises(CorruptMessageError, match=f"entry 1:2.*{reason}"):
        topic.scan().to_arrow()


def test_an_entry_that_is_damaged_twice_is_left_out_once(tmp_path):
    """Both its metadata and its checksum tell of the one damaged byte."""
    entry = bytearray(message(1))
    entry[10] ^= 0xFF
    scan = topic_with(tmp_path, [message(0), bytes(entry), message(2)]).scan(on_corrupt="skip")
    report = ScanReport()
    assert ids_of(scan.to_arrow(report)) == [(1, 0), (1, 2)]
    assert [one.first_entry for one in report.skipped] == [1]


def test_the_first_damaged_entry_is_the_one_that_is_raised_for(tmp_path):
    topic = topic_with(tmp_path, [message(0), DAMAGE["CRC32C"], DAMAGE["not a protobuf"]])
    with pytest.raises(CorruptMessageError, match="entry 1:1"):
        topic.scan().to_arrow()


def test_checksums_need_not_be_checked(tmp_path):
    topic = topic_with(tmp_path, [message(0)[:-1] + b"?"])
    assert topic.scan(columns=["value"], check_checksums=False).to_arrow()["value"].to_pylist() == [b"value ?"]


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
    report = ScanReport()
    assert ids_of(scan.to_arrow(report)) == [(1, i) for i in range(10) if not entry <= i < behind]
    (skipped,) = report.skipped
    assert (skipped.ledger_id, skipped.first_entry, skipped.last_entry) == (1, entry, behind - 1)
    assert skipped.reason
    with pytest.raises(CorruptLedgerError):
        topic.scan().to_arrow()


def test_the_ledger_that_pulsar_lost_is_reported_of(truncated_url):
    for info in open_bucket(truncated_url).topics():
        topic = open_bucket(truncated_url).topic(info.name)
        scan = topic.scan(on_corrupt="skip")
        report = ScanReport()
        seen = {entry for _, entry in ids_of(scan.to_arrow(report))}
        lost = {i for one in report.skipped for i in range(one.first_entry, one.last_entry + 1)}
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
    report = ScanReport()
    assert ids_of(scan.to_arrow(report)) == [(1, 0)]
    assert [(one.ledger_id, one.first_entry, one.last_entry) for one in report.skipped] == [(2, 0, 3)]


def chunk(number: int, count: int = 3, identity: bytes = b"a") -> bytes:
    meta = metadata(chunked_id=identity, chunks=count, chunk=number, publish_time_ms=CREATED_MS)
    return frame(meta, b"part %d;" % number)


def test_damage_where_earlier_chunks_are_looked_for_is_left_out_too(tmp_path):
    first = offload([message(0), chunk(0)])
    topic = topic_of(tmp_path, damaged(first, 128, b"\xff\xff\xff\xff"), offload([chunk(1), message(1)], 2, uuid=2))
    scan = part_of(topic.scan(on_corrupt="skip"), Reach.of(range(1, 2)))
    report = ScanReport()
    assert ids_of(scan.to_arrow(report)) == [(2, 1)]
    assert len(report.incomplete) == 1


# Chunks.


def test_chunks_that_never_become_whole_are_reported(tmp_path):
    topic = topic_with(tmp_path, [chunk(0), chunk(0, 2, b"b"), message(1)], [chunk(1), chunk(1, 2, b"b")])
    scan = topic.scan(columns=["ledger_id", "entry_id", "value"])
    report = ScanReport()
    table = scan.to_arrow(report)
    assert ids_of(table) == [(1, 2), (2, 1)]
    assert table["value"].to_pylist() == [b"value 1", b"part 0;part 1;"]
    assert report.incomplete == [Incomplete(1, 0, 2, 3)]
    assert report.skipped == []


def test_a_part_does_not_tell_of_chunked_messages_that_go_on_behind_it(tmp_path):
    topic = topic_with(tmp_path, [chunk(0), chunk(0, 2, b"b"), message(1)], [chunk(1), chunk(2)], [chunk(1, 9, b"c")])
    scan = topic.scan()
    parts = [part_of(scan, Reach.of(range(i, i + 1))) for i in range(3)]
    reports = [ScanReport() for _ in parts]
    assert [part.to_arrow(one).num_rows for part, one in zip(parts, reports, strict=True)] == [1, 1, 0]
    # The last part looked back for "c", and so knows what else never became whole.
    reported = [Incomplete(3, 0, 1, 9), Incomplete(1, 1, 1, 2)]
    assert [one.incomplete for one in reports] == [[], [], reported]
    report = ScanReport()
    scan.to_arrow(report)
    assert report.incomplete == reported


# What may still come.


def is_final(scan):
    report = ScanReport()
    scan.to_arrow(report)
    return report.is_final


def test_rows_are_final_unless_a_later_ledger_could_change_them(tmp_path):
    topic = topic_with(tmp_path, [message(0), transaction(1), chunk(0)], [marker(COMMIT), chunk(1), chunk(2)])
    assert is_final(topic.scan())
    assert is_final(topic.scan(transactions="all"))
    assert is_final(part_of(topic.scan(), Reach.of(range(1))))


def test_rows_that_wait_for_an_outcome_are_not_final(tmp_path):
    topic = topic_with(tmp_path, [message(0), transaction(1)], [message(2)])
    assert not is_final(topic.scan())
    assert not is_final(topic.scan(transactions="all"))
    assert not is_final(part_of(topic.scan(), Reach.of(range(1))))
    assert is_final(part_of(topic.scan(), Reach.of(range(1, 2))))
    # All messages without their states are what they are.
    assert is_final(topic.scan(columns=["value"], transactions="all"))


def test_rows_that_wait_for_chunks_at_the_end_of_the_topic_are_not_final(tmp_path):
    topic = topic_with(tmp_path, [chunk(0), chunk(0, 2, b"b"), chunk(1, 2, b"b")], [message(0)])
    assert not is_final(topic.scan())
    assert is_final(part_of(topic.scan(), Reach.of(range(1))))


def test_a_scan_that_was_left_early_is_not_final(tmp_path):
    topic = topic_with(tmp_path, [message(0)], [message(1)])
    scan = topic.scan()
    report = ScanReport()
    assert next(iter(scan.batches(report))).num_rows == 1
    assert not report.is_final
    report = ScanReport()
    assert scan.count(report) == 2
    assert report.is_final


# Counting, and tables without columns.


def test_counting_decompresses_and_decrypts_nothing(tmp_path):
    lz4 = frame(metadata(compression=1, uncompressed_size=99, messages_in_batch=3), b"no lz4")
    encrypted = metadata(messages_in_batch=2)
    encrypted.encryption_key.add(name=b"k", wrapped=b"w")
    topic = topic_with(tmp_path, [message(0), BATCH, lz4, DAMAGE["broken LZ4"], frame(encrypted, b"x" * 40)])
    assert topic.count() == 1 + 2 + 3 + 1 + 2
    assert topic.count(on_encrypted="null") == 1 + 2 + 3 + 1 + 1
    assert topic.count(on_encrypted="skip") == 1 + 2 + 3 + 1


def test_counting_reports_of_damage_and_of_what_it_reads(tmp_path):
    entries = [message(0), DAMAGE["CRC32C"], chunk(0), transaction(1)]
    topic = topic_with(tmp_path, entries)
    with pytest.raises(CorruptMessageError, match="entry 1:1"):
        topic.count()
    scan = topic.scan(on_corrupt="skip")
    seen = []
    report = ScanReport()
    assert replace(scan, on_read=seen.append).count(report) == 1
    assert sum(seen) == sum(map(len, entries))
    assert [one.first_entry for one in report.skipped] == [1]
    assert report.incomplete == [Incomplete(1, 2, 1, 3)]
    assert not report.is_final


def test_a_table_without_columns_has_its_rows(tmp_path):
    topic = topic_with(tmp_path, [message(i) for i in range(5)], [BATCH])
    scan = topic.scan(columns=[])
    assert scan.schema == pa.schema([])
    assert [(batch.num_rows, batch.num_columns) for batch in scan] == [(5, 0), (2, 0)]
    assert scan.to_arrow().num_rows == pa.table(scan).num_rows == pl.DataFrame(scan).height == 7
    assert scan.to_arrow_batch_reader().read_all().num_rows == 7
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
    assert scan.to_arrow().to_pydict() == {"ledger_id": [1, 2], "txn_state": ["committed", "committed"]}
    second = part_of(scan, Reach.of(range(1, 2))).to_arrow()
    assert second.to_pydict() == {"ledger_id": [2], "txn_state": ["committed"]}


# Choices.


def test_unknown_columns_choices_and_times_are_reported_at_once(tmp_path):
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
        ({"start_time": "last week"}, "last week"),
        ({"start_time": "-1y"}, "or -1h, -2d, now, today, yesterday"),
        ({"start_time": CREATED_MS, "end_time": CREATED_MS}, "the time range is empty"),
        ({"start_time": "now", "end_time": "-1h"}, "the time range is empty"),
        ({"limit": -1}, "limit=-1: expected a number of rows, 0 or more"),
        ({"threads": 0}, "threads=0"),
        ({"key": 7}, "key=7: expected text or bytes"),
        ({"where": "key = 'a'"}, "expected a pyarrow.compute.Expression"),
        ({"where": pc.field("kye") == "a"}, "where: No match for FieldRef.Name.kye.*; there are topic, "),
        ({"where": pc.field("entry_id") == "a"}, "where: "),
        ({"where": pc.field("entry_id")}, "where: Filter expression must evaluate to bool"),
        ({"end_time": "2026-13-01"}, "2026-13-01"),
        ({"end_time": ""}, "not a time"),
        ({"start_time": CREATED_MS // 1000}, f"{CREATED_MS // 1000}: looks like seconds; .* such as {CREATED_MS}"),
        ({"end_time": CREATED_MS * 1000}, f"looks like microseconds; .* such as {CREATED_MS}"),
        ({"end_time": CREATED_MS * 1_000_000}, f"looks like nanoseconds; .* such as {CREATED_MS}"),
        ({"end_time": 2**63 - 1}, "leave out the option"),
        ({"start_time": -5}, "not a time from 2010 to 2200"),
        ({"order": "key"}, "order='key': expected one of partition, publish_time"),
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
        ({"limit": 5}, "limit=5: applies to a whole topic"),
        ({"values": "avro"}, "values='avro': expected one of bytes, typed, json, auto"),
        ({"values": "typed", "on_undecodable": "skip"}, "a file of the tree contains all messages"),
    ]:
        with pytest.raises(InvalidOptionError, match=word):
            open_bucket(str(tmp_path), scan_options=options)


def test_keywords_are_the_options_and_their_defaults_those_of_a_decoder():
    assert ("columns", *ScanKeywords.__annotations__) == SCAN_OPTIONS
    assert decode_options(ScanOptions(), None) == DecodeOptions()


def test_options_are_given_whole_or_as_keywords_to_everything_that_reads(tmp_path):
    (tmp_path / "bucket").mkdir()
    topic = topic_with(tmp_path / "bucket", [message(i, key=b"k%d" % (i % 2)) for i in range(6)])
    options = ScanOptions(columns=["sequence_id"], key="k1", start_time=CREATED_MS + 2)
    keywords = {"columns": ["sequence_id"], "key": "k1", "start_time": CREATED_MS + 2}
    for given in ({"options": options}, keywords):
        assert topic.scan(**given).to_arrow().to_pydict() == {"sequence_id": [3, 5]}
    assert (
        topic.scan(options=options, key="k0").count()
        == topic.count(options)
        == topic.count(key="k1", start_time=CREATED_MS + 2)
        == 2
    )
    assert topic.scan(["key"], options).to_arrow().to_pydict() == {"key": ["k1", "k1"]}
    assert export_topic(topic, tmp_path / "one", "jsonl", options=options).rows == 2
    assert export_topic(topic, tmp_path / "other", "jsonl", **keywords).rows == 2
    assert [path.read_bytes() for path in sorted(tmp_path.glob("*/1.jsonl"))] == [
        b'{"sequence_id":3}\n{"sequence_id":5}\n'
    ] * 2
    tree = open_bucket(str(tmp_path / "bucket"), scan_options=options)
    assert tree.scan_options is options
    assert topic.message("1:0", options).sequence_id == topic.message("1:0", check_checksums=False).sequence_id == 0
    with pytest.raises(InvalidOptionError, match="limit: no such option"):
        topic.message("1:0", limit=1)


# Rows that are wanted.


def test_a_limit_ends_reading_and_decoding(tmp_path):
    topic = topic_with(tmp_path, [message(0), BATCH, message(1)], [DAMAGE["CRC32C"]])
    for limit in range(5):
        scan = topic.scan(["entry_id", "batch_index"], limit=limit)
        report = ScanReport()
        assert scan.to_arrow(report) == topic.scan(scan.schema.names, on_corrupt="skip").to_arrow().slice(0, limit)
        assert scan.count() == limit
        assert not report.is_final
    with pytest.raises(CorruptMessageError):
        topic.scan(limit=5).to_arrow()


def test_a_condition_may_name_every_column_and_prunes_what_cannot_have_rows(tmp_path):
    """Damage in ledgers without wanted rows is not met."""
    topic = topic_with(
        tmp_path, [DAMAGE["CRC32C"]], [message(i, key=b"k%d" % (i % 3)) for i in range(9)], [DAMAGE["CRC32C"]]
    )
    published, ledger = pc.field("publish_time"), pc.field("ledger_id")
    at = [datetime.fromtimestamp((CREATED_MS + i) / 1000, UTC) for i in range(10)]
    for where, wanted in [
        (ledger == 2, range(9)),
        ((ledger > 1) & (ledger < 3) & (pc.field("key") == "k1"), [1, 4, 7]),
        ((ledger == 2) & (published >= at[3]) & (published < at[5]), [3, 4]),
        ((ledger == 2) & published.isin([at[1], at[8]]), [1, 8]),
        ((ledger == 2) & ((published < at[1]) | (published > at[7])), [0, 8]),
        ((ledger == 2) & (ledger == 3), []),
        ((ledger == 2) & (published < at[2]) & (published > at[4]), []),
        ((ledger == 2) & pc.field("value").is_null(), []),
    ]:
        assert topic.scan(["entry_id"], where=where).to_arrow()["entry_id"].to_pylist() == list(wanted), str(where)
        assert topic.count(where=where) == len(wanted)
    with pytest.raises(CorruptMessageError):
        topic.scan(where=pc.field("key") == "k1").to_arrow()
    # A cast that cannot hold all ids prunes nothing.
    for where in (ledger <= 2.5, ledger.cast("float32") > 1.5):
        assert topic.scan(["entry_id"], where=where, on_corrupt="skip").count() == 9


def test_threads_change_no_row_and_no_report(tmp_path):
    entries = [message(i, key=b"k" * (i % 50)) for i in range(200)]
    entries[70:73] = [DAMAGE["CRC32C"], DAMAGE["broken LZ4"], chunk(0)]
    entries[150:152] = [chunk(1), chunk(2)]
    topic = topic_with(tmp_path, *[entries] * 5, block_size=1500)
    found = []
    for threads in (1, 2, 5):
        report = ScanReport()
        table = topic.scan(on_corrupt="skip", threads=threads).to_arrow(report)
        found.append((table, report))
    assert found[0] == found[1] == found[2]
    assert len(found[0][1].skipped) == 10
    with pytest.raises(CorruptMessageError, match="entry 1:70"):
        topic.scan(threads=4).to_arrow()
    rows: list[int] = []
    with pytest.raises(CorruptMessageError, match="entry 1:70"):
        rows.extend(row for batch in topic.scan(["entry_id"], threads=4) for row in batch["entry_id"].to_pylist())
    assert rows
    assert rows == list(range(len(rows)))


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
    now = datetime.now(UTC)
    for text, ago in [("now", 0), ("-90s", 90), ("-2m", 120), ("-1h", 3600), ("-3d", 3 * 86400), ("-1w", 7 * 86400)]:
        assert 0 <= milliseconds_of(text) / 1000 - now.timestamp() + ago < 60, text
    day = 86400 * 1000
    assert milliseconds_of("today") % day == milliseconds_of("yesterday") % day == 0
    assert 0 < now.timestamp() * 1000 - milliseconds_of("yesterday") < 2 * day + 60_000
    assert milliseconds_of(milliseconds_of(date(1999, 1, 1))) == milliseconds_of("1999-01-01")
    for wrong in (1.5, True, b"2026-11-01", [], timedelta(1), moment.time()):
        with pytest.raises(InvalidOptionError, match="is not a time"):
            milliseconds_of(wrong)


# Who takes a scan.


@pytest.fixture
def topic(tmp_path):
    return topic_with(tmp_path, [message(0, key=b"a"), BATCH], [message(2, value_is_null=True), DAMAGE["CRC32C"]])


def test_arrow_polars_duckdb_and_pandas_take_a_scan(topic):
    scan = topic.scan(on_corrupt="skip")
    table = scan.to_arrow()
    assert table.num_rows == 4
    assert pa.table(scan) == table
    assert pa.RecordBatchReader.from_stream(scan).read_all() == table
    assert scan.to_arrow_batch_reader().read_all() == table
    frame_of_polars = pl.DataFrame(topic.scan(columns=["entry_id", "value", "publish_time"], on_corrupt="skip"))
    assert frame_of_polars["value"].to_list() == table["value"].to_pylist()
    assert frame_of_polars["publish_time"].to_list() == table["publish_time"].to_pylist()
    assert pl.DataFrame(scan).height == 4
    relation = duckdb.from_arrow(scan.to_arrow_batch_reader())
    assert relation.aggregate("count(*), count(value), min(key), max(entry_id)").fetchall() == [(4, 3, "a", 1)]
    assert scan.to_polars().height == scan.to_duckdb().count("*").fetchall()[0][0] == 4
    assert [one.value for one in scan.rows()] == table["value"].to_pylist()
    pandas = scan.to_pandas()
    assert list(pandas.columns) == list(DEFAULT_COLUMNS)
    assert pandas["value"].tolist() == table["value"].to_pylist()
    assert str(scan.to_pandas(types_mapper={pa.int64(): None}.get)["entry_id"].dtype) == "int64"


def test_an_error_comes_through_every_one_of_them(topic):
    scan = topic.scan()
    for take in (
        list,
        pa.table,
        pl.DataFrame,
        type(scan).to_arrow,
        type(scan).to_pandas,
        type(scan).to_polars,
        lambda one: one.to_duckdb().fetchall(),
    ):
        with pytest.raises(Exception, match="entry 2:1"):
            take(scan)


def test_a_scan_iterates_anew_each_time(topic):
    scan = topic.scan(on_corrupt="skip")
    tables = []
    for _ in range(3):
        report = ScanReport()
        tables.append(pa.Table.from_batches(list(scan.batches(report)), scan.schema))
        assert [(one.ledger_id, one.first_entry) for one in report.skipped] == [(2, 1)]
        assert isinstance(report.skipped[0], Skipped)
    assert tables[0] == tables[1] == tables[2]
    report = ScanReport()
    one, other = iter(scan.batches(report)), iter(scan.batches(report))
    assert next(one) == next(other)
    assert [batch.num_rows for batch in one] == [batch.num_rows for batch in other]


def test_a_scan_of_nothing_is_an_empty_table(topic):
    scan = topic.scan(end_time=0)
    assert scan.to_arrow().num_rows == pa.table(scan).num_rows == scan.to_pandas().shape[0] == 0
    assert scan.to_arrow().schema == scan.schema


LIMITED = """
import resource
import sys
from itertools import islice
from ledgerfs import open_bucket
from ledgerfs.scan.report import ScanReport
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
    why = r"include_markers: markers are messages of the broker .* values='bytes'"
    with pytest.raises(InvalidOptionError, match=why):
        topic.scan(["value"], **given)
    with pytest.raises(InvalidOptionError, match=why):
        export_topic(topic, tmp_path / "out", "jsonl", **given)
    with pytest.raises(InvalidOptionError, match=why):
        LedgerFileSystem(fo=topic.bucket.store.url, target_protocol="file", scan_options=given)
    found = topic.scan(["value"], include_markers=True).to_arrow()["value"].to_pylist()
    assert found == [b"value 0", b"value 1"]

"""A part of a topic has the rows that the whole of it has there, however far apart belongs together."""

import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import InvalidOptionError, NotFoundError
from ledgerfs.export.export import export_topic
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.scan import message_by_id
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.scan import Scan
from ledgerfs.scan.topic_entries import Place, Reach
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.scans import part_of

NAME = "persistent://public/default/orders"
COLUMNS = ["ledger_id", "entry_id", "value", "txn_id", "txn_state"]
COMMIT, ABORT = 21, 22


def message(i: int, **fields: object) -> bytes:
    return frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i, **fields), b"value %d;" % i)


def chunk(i: int, of: int, name: bytes = b"a") -> bytes:
    return message(i, chunked_id=name, chunk=i, chunks=of)


def in_transaction(i: int, number: int = 1, **fields: object) -> bytes:
    return message(i, transaction_least=number, transaction_most=0, **fields)


def topic_with(folder: Path, *ledgers: list[bytes], block_size: int = 1 << 20) -> Topic:
    made = [offload(entries, i, uuid=i, block_size=block_size) for i, entries in enumerate(ledgers, 1)]
    return open_bucket(put_in_folder(folder, *made)).topic(NAME)


def parts_of(scan: Scan, cuts: list[Place]) -> list[pa.Table]:
    return [part_of(scan, Reach(low, high)).to_arrow() for low, high in pairwise(cuts)]


def by_ledger(scan: Scan) -> list[pa.Table]:
    return parts_of(scan, [Place(number, 0) for number in range(len(scan.parts[0].ledgers) + 1)])


def test_parts_of_a_chunked_message_ten_ledgers_apart_are_joined(tmp_path: Path) -> None:
    topic = topic_with(
        tmp_path, [chunk(0, 3)], *[[message(9)]] * 10, [chunk(1, 3)], *[[message(9)]] * 10, [chunk(2, 3)]
    )
    scan = topic.scan(["value"])
    assert pa.concat_tables(by_ledger(scan)) == scan.to_arrow()
    last = part_of(scan, Reach.of(range(22, 23)))
    assert last.to_arrow()["value"].to_pylist() == [b"value 0;value 1;value 2;"]
    for position in ((1, 0), (12, 0), (23, 0)):
        assert topic.message(position).value == b"value 0;value 1;value 2;"


def test_a_message_by_id_whose_parts_are_too_far_apart_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topic_with(tmp_path, [chunk(0, 2)], *[[message(9)]] * 10, [chunk(1, 2)], [chunk(0, 2, b"b")], [message(9)])
    with pytest.raises(NotFoundError, match="the topic lacks other parts"):
        topic.message((13, 0))
    monkeypatch.setattr(message_by_id, "MOST_BYTES_AROUND", 200)
    for position in ((1, 0), (12, 0)):
        with pytest.raises(NotFoundError, match="scan the topic instead"):
            topic.message(position, max_message_bytes=1)


def test_a_last_part_that_was_sent_twice_is_no_message_that_lacks_parts(tmp_path: Path) -> None:
    topic = topic_with(tmp_path, [chunk(0, 2), chunk(1, 2)], [message(9)], [chunk(1, 2)])
    scan = part_of(topic.scan(["value"]), Reach.of(range(2, 3)))
    report = ScanReport()
    assert (scan.to_arrow(report).num_rows, report.incomplete) == (0, [])
    whole = topic.scan(["value"])
    report = ScanReport()
    assert (whole.to_arrow(report).num_rows, report.incomplete) == (2, [])


def test_half_of_an_id_is_no_transaction(tmp_path: Path) -> None:
    """As to Pulsar's reader, which asks for both halves."""
    topic = topic_with(tmp_path, [message(0, transaction_least=7), message(1, transaction_most=7), message(2)])
    scan = topic.scan(COLUMNS)
    report = ScanReport()
    table = scan.to_arrow(report)
    assert table["value"].to_pylist() == [b"value 0;", b"value 1;", b"value 2;"]
    assert table["txn_id"].to_pylist() == table["txn_state"].to_pylist() == [None, None, None]
    assert report.is_final


class Disorder:
    """Makes entries of chunked messages and transactions in any order at all, repeated and missing ones included."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def entry(self) -> bytes:
        i, kind = self.draw.randrange(100), self.draw.random()
        if kind < 0.5:
            return chunk(self.draw.randrange(3), 3, self.draw.choice((b"a", b"b")))
        if kind < 0.8:
            marker = {"marker_type": self.draw.choice((COMMIT, ABORT))} if self.draw.random() < 0.4 else {}
            return in_transaction(i, self.draw.randrange(2), **marker)
        return message(i)


@pytest.mark.long
@settings(deadline=None, max_examples=45)
@given(data=st.data())
def test_parts_are_the_whole_whatever_the_order(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = Disorder(data.draw(st.integers(0, 2**32)))
    ledgers = [[made.entry() for _ in range(made.draw.randint(1, 8))] for _ in range(data.draw(st.integers(1, 8)))]
    topic = topic_with(tmp_path_factory.mktemp("made"), *ledgers, block_size=data.draw(st.sampled_from((300, 100_000))))
    places = [Place(n, block.first_entry) for n, one in enumerate(topic.ledgers) for block in one.index.blocks]
    for options in ({"transactions": "all"}, {}):
        scan = topic.scan(COLUMNS, **options)
        whole = scan.to_arrow()
        cuts = sorted({Place(0, 0), Place(len(ledgers), 0), *data.draw(st.lists(st.sampled_from(places), max_size=4))})
        assert pa.concat_tables(parts_of(scan, cuts)) == whole
        apart = [part_of(scan, Reach(*ends)).to_arrow() for ends in pairwise(cuts)]
        assert pa.concat_tables(apart) == whole


def test_what_is_readable_ends_where_pulsars_reader_stops(tmp_path: Path) -> None:
    """At the first message of an open transaction, in whatever ledger and whatever range of time is asked for."""
    first = [message(0), in_transaction(1), in_transaction(2, 2), in_transaction(3, marker_type=COMMIT), message(4)]
    topic = topic_with(tmp_path, [message(10), in_transaction(11, marker_type=ABORT)], first, [message(20)])
    scan = topic.scan(COLUMNS, transactions="readable")
    report = ScanReport()
    assert scan.to_arrow(report)["value"].to_pylist() == [b"value 10;", b"value 0;", b"value 1;"]
    assert not report.is_final
    assert topic.count(transactions="readable") == 3
    assert topic.count() == 5
    assert topic.count(transactions="readable", start_time=CREATED_MS + 20, clock_slack_ms=0) == 0


def test_a_part_of_a_topic_is_not_asked_for_what_is_readable(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    topic = topic_with(tmp_path / "bucket", [message(0)])
    with pytest.raises(InvalidOptionError, match="whole topic"):
        export_topic(topic, tmp_path / "out", "parquet", transactions="readable")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InvalidOptionError, match="whole topic"):
        open_bucket(str(tmp_path / "bucket"), scan_options={"transactions": "readable"})


def test_a_marker_that_comes_late_between_changes_what_is_exported(tmp_path: Path) -> None:
    """An id of a transaction that was used again has two outcomes; that of a message is the first marker after it."""
    folder, out = tmp_path / "bucket", tmp_path / "out"
    folder.mkdir()
    topic = topic_with(folder, [in_transaction(0)], *[[message(9)]] * 3, [in_transaction(1, marker_type=ABORT)])
    first = next(iter(by_ledger(topic.scan(COLUMNS))))
    assert first.num_rows == 0
    report = ScanReport()
    part_of(topic.scan(), Reach.of(range(1))).to_arrow(report)
    assert not report.is_final
    (folder / f"{offload([message(9)], 3, uuid=3).uuid}-ledger-3").unlink()
    (folder / f"{offload([message(9)], 3, uuid=3).uuid}-ledger-3-index").unlink()
    topic = open_bucket(str(folder)).topic(NAME)
    assert export_topic(topic, out, "jsonl").rows == 2
    put_in_folder(folder, offload([in_transaction(1, marker_type=COMMIT)], 3, uuid=33))
    topic = open_bucket(str(folder)).topic(NAME)
    assert topic.scan(COLUMNS).to_arrow()["value"].to_pylist()[0] == b"value 0;"
    assert export_topic(topic, out, "jsonl").rows == 1
    assert b'"value":"value 0;"' in (out / "1.jsonl").read_bytes()


def test_a_ledger_that_was_copied_from_elsewhere_ends_no_other_one(tmp_path: Path) -> None:
    """Its creation is not between those of its neighbours, even if it looks so."""
    minute = 60_000
    hour = [frame(metadata(publish_time_ms=CREATED_MS + i * minute), b"v%d" % i) for i in range(60)]
    elsewhere = offload(
        [message(1)], 9, uuid=9, name="public/default/persistent/other", created_ms=CREATED_MS + 20 * minute
    )
    put_in_folder(tmp_path, offload(hour, 1, uuid=1), elsewhere)
    late = {"start_time": CREATED_MS + 45 * minute, "clock_slack_ms": 0}
    assert open_bucket(str(tmp_path)).topic(NAME).count(**late) == 15
    fs = LedgerFileSystem(fo=str(tmp_path), target_protocol="file", skip_instance_cache=True)
    fs.cp("entries/public/default/other/9.entries", "entries/public/default/orders/90.entries")
    assert open_bucket(str(tmp_path)).topic(NAME).count(**late) == 15


def test_a_message_that_is_no_chunk_has_no_first_part(tmp_path: Path) -> None:
    topic = topic_with(tmp_path, [chunk(0, 2), message(1), chunk(1, 2), message(3)])
    assert topic.message("1:0:-1;1:2:-1").value is not None
    for wrong in ("1:0;1:3", "7:0;1:1"):
        with pytest.raises(NotFoundError, match="not a part of a chunked message"):
            topic.message(wrong)

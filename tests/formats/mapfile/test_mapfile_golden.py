"""Every ledger that Pulsar's filesystem offloader wrote, read wholly, against what Pulsar's own reader returned."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import CorruptIndexError, CorruptLedgerError, LedgerfsError
from ledgerfs.formats.ledger_metadata import LedgerMetadata, parse_ledger_metadata
from ledgerfs.formats.mapfile.first_record import METADATA_KEY, read_metadata_value
from ledgerfs.formats.mapfile.header import Codec, RecordCompression, parse_header
from ledgerfs.formats.mapfile.index import parse_index
from ledgerfs.formats.mapfile.names import MapFileLedger, parse_ledger_folder
from ledgerfs.formats.topic_names import topic_of
from tests.support.golden_rows import expected_of, rows_of, wanted
from tests.support.ledgers import offload, put_in_folder
from tests.support.mapfiles import read_all, window_of

Golden = dict[MapFileLedger, tuple[bytes, bytes]]


@pytest.fixture(scope="module")
def ledgers(golden_mapfiles: Path) -> Golden:
    """Data and index of each."""
    bucket = golden_mapfiles / "bucket"
    found: Golden = {}
    for path in sorted(bucket.rglob("data")):
        ledger = parse_ledger_folder(path.parent.relative_to(bucket).as_posix())
        assert ledger is not None
        found[ledger] = path.read_bytes(), path.with_name("index").read_bytes()
    assert len(found) == 63
    return found


def metadata_of(data: bytes, size: int | None = None) -> LedgerMetadata:
    size = len(data) if size is None else size
    while True:
        window = window_of(data, 0, size)
        header = parse_header(window)
        found = 2 * size if header is None else read_metadata_value(window, header)
        if isinstance(found, bytes):
            return parse_ledger_metadata(found)
        assert found > size
        size = found


def test_all_are_in_blocks_of_zlib(ledgers: Golden) -> None:
    for data, index in ledgers.values():
        header = parse_header(window_of(data, 0, len(data)))
        assert header is not None
        assert (header.compression, header.codec, header.size) == (RecordCompression.BLOCK, Codec.DEFAULT, 138)
        assert data[header.size + 4 : header.size + 20] == header.sync
        assert header.sync not in index


def test_metadata_is_the_ledgers(ledgers: Golden) -> None:
    for ledger, (data, _) in ledgers.items():
        metadata = metadata_of(data)
        assert metadata.managed_ledger == ledger.managed_ledger
        assert metadata.is_in_place
        for first in (1, 138, 200, 4096):
            assert metadata_of(data, first) == metadata


@pytest.mark.parametrize("window", [None, 4096, 1])
def test_keys_are_the_metadata_and_every_entry(ledgers: Golden, window: int | None) -> None:
    for data, _ in ledgers.values():
        records = read_all(data, window_bytes=window)
        metadata = parse_ledger_metadata(records[0][1])
        assert metadata == metadata_of(data)
        assert [key for key, _ in records] == list(range(METADATA_KEY, metadata.entries))
        assert sum(len(entry) for _, entry in records[1:]) == metadata.length


def test_index_tells_where_a_walk_begins(ledgers: Golden) -> None:
    for data, index in ledgers.values():
        records = read_all(data)
        parsed = parse_index(index, data_size=len(data))
        assert parsed.keys.dtype == parsed.positions.dtype == np.int64
        assert parsed.keys[0] == METADATA_KEY
        for key, position in zip(parsed.keys.tolist(), parsed.positions.tolist(), strict=True):
            assert (key, records[key + 1][1]) in read_all(data, start=position)


def test_every_message_is_what_pulsar_reads(ledgers: Golden, golden_mapfiles: Path, tmp_path: Path) -> None:
    """By way of ledgers of the other offloader, made of the entries, and all that decodes them."""
    topics = defaultdict(list)
    for ledger, (data, _) in ledgers.items():
        topics[ledger.managed_ledger].append(ledger)
        entries = [entry for _, entry in read_all(data)[1:]]
        made = offload(entries, ledger.ledger_id, name=ledger.managed_ledger, uuid=ledger.uuid)
        put_in_folder(tmp_path, made)
    bucket = open_bucket(f"file://{tmp_path}")
    assert len(topics) == len(list((golden_mapfiles / "expected").iterdir()))
    for name in topics:
        topic = topic_of(name)
        assert rows_of(bucket.topic(topic).scan()) == wanted(expected_of(golden_mapfiles, topic)), topic


def test_a_file_cut_anywhere_is_cut_short(ledgers: Golden) -> None:
    """Each has one block, so a part has no record: only one that ends with the header is well formed, and has no metadata."""
    for data, index in ledgers.values():
        for size in {*range(0, min(len(data), 300), 7), *range(0, len(data), len(data) // 40), len(data) - 1} - {138}:
            with pytest.raises(CorruptLedgerError, match="cut short") as caught:
                read_all(data[:size])
            assert caught.value.key == "data"
            assert caught.value.offset is not None
            assert caught.value.offset <= size
        with pytest.raises(CorruptLedgerError, match="without records"):
            metadata_of(data[:138])
        for size in {*range(len(index))} - {137}:
            with pytest.raises(CorruptIndexError, match="cut short"):
                parse_index(index[:size], data_size=len(data))
        assert len(parse_index(index[:137], data_size=len(data))) == 0


@pytest.mark.parametrize("bit", [0, 5])
def test_a_file_with_any_byte_flipped_gives_the_same_values_or_our_error(ledgers: Golden, bit: int) -> None:
    data = min((data for data, _ in ledgers.values()), key=len)
    expected, same = read_all(data), 0
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit
        try:
            found = read_all(bytes(damaged))
        except LedgerfsError:
            continue
        assert found == expected
        same += 1
    assert same < 10

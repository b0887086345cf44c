"""Every ledger that Pulsar's filesystem offloader wrote, read wholly, against what Pulsar's own reader returned."""

from pathlib import Path

import pytest

from ledgerfs.formats.bookkeeper.ledger_metadata import LedgerMetadata, parse_ledger_metadata
from ledgerfs.formats.mapfile.first_record import METADATA_KEY, read_metadata_value
from ledgerfs.formats.mapfile.header import Codec, RecordCompression, parse_header
from ledgerfs.formats.mapfile.names import MapFileLedger, parse_ledger_folder
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

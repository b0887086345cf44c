"""Entries of made-up MapFiles: every compression, any range, wherever it is damaged, whatever its index says."""

import os
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import LedgerfsError, UnsupportedFormatError
from ledgerfs.formats.mapfile.header import Codec, RecordCompression
from ledgerfs.verification import verify
from tests.support.entries import frame, metadata
from tests.support.mapfile_buckets import MadeMapFile, mapfile, messages, put_file, put_mapfiles
from tests.support.mapfiles import MapFileWriter, header
from tests.support.remote import RemoteFolder

SMALL = {"sync_interval": 2000, "block_bytes": 3000, "index_interval": 8}
WRITERS = [MapFileWriter(compression, **SMALL) for compression in RecordCompression]
LARGE = messages(5, 3000, 2000)


def read_all(reader: LedgerReader, first: int = 0, last: int | None = None) -> list[bytes]:
    return [bytes(one.data) for one in reader.read(first, reader.last_entry if last is None else last)]


def remote(folder: Path) -> tuple[Bucket, RemoteFolder]:
    store = RemoteFolder(folder)
    return Bucket(store), store


def test_small_ledgers(tmp_path: Path) -> None:
    for number, (compression, codec) in enumerate(product(RecordCompression, [Codec.DEFAULT, Codec.GZIP])):
        case = f"{compression}, {codec}"
        made = mapfile(messages(1, 200), writer=MapFileWriter(compression, codec, **SMALL))
        bucket = open_bucket(put_mapfiles(tmp_path / str(number), made))
        (ref,) = bucket.catalog.refs()
        assert (ref.is_sound, ref.last_entry, ref.cuts, ref.is_ordered) == (True, 199, 1, True), case
        reader = bucket.reader(ref)
        assert read_all(reader) == list(made.entries), case
        for first, last in ((0, 0), (7, 8), (199, 199), (100, 130)):
            assert read_all(reader, first, last) == list(made.entries[first : last + 1]), case
        assert not verify(bucket).findings[1:], (case, verify(bucket).findings)
        assert reader.metadata() is not None, case
        assert reader.describe()["compression"] == compression.value


@cache
def large(compression: RecordCompression, ledger_id: int = 5) -> MadeMapFile:
    return mapfile(LARGE, ledger_id, writer=MapFileWriter(compression))


@pytest.mark.parametrize("compression", RecordCompression)
def test_large_ledgers_begin_at_positions_of_the_index(compression: RecordCompression, tmp_path: Path) -> None:
    put_mapfiles(tmp_path, large(compression))
    bucket, store = remote(tmp_path)
    (ref,) = bucket.catalog.refs()
    assert 4 <= ref.cuts <= 6
    reader = bucket.reader(ref)
    assert reader.cuts().size == ref.cuts
    assert read_all(reader) == LARGE
    for cut in reader.cuts().tolist():
        store.requests.clear()
        glance = bucket.uncached_reader(ref).glance(cut, 40)
        assert (bytes(glance.front), glance.size) == (LARGE[cut][:40], len(LARGE[cut]))
        assert store.bytes_asked < 5 << 20
    for first, last in ((2990, 2999), (1500, 1501), (511, 1100), (2999, 2999)):
        assert read_all(bucket.uncached_reader(ref), first, last) == LARGE[first : last + 1]
    store.requests.clear()
    assert read_all(bucket.uncached_reader(ref), 1500, 1500) == LARGE[1500:1501]
    assert store.bytes_asked < 4 << 20


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.compression.value)
def test_a_file_cut_anywhere_never_lacks_entries_without_a_word(writer: MapFileWriter, tmp_path: Path) -> None:
    made = mapfile(messages(1, 40, 30), writer=writer)
    topic = "persistent://public/default/orders"
    for size in range(0, len(made.data), 97 if len(made.data) > 2000 else 7):
        put_mapfiles(tmp_path, made)
        put_file(tmp_path / made.folder / "data", made.data[:size])
        bucket = open_bucket(f"file://{tmp_path}")
        with pytest.raises(LedgerfsError):
            bucket.topic(topic).scan().to_arrow()
        assert verify(bucket, quick=True).is_damaged, size
        assert verify(bucket).is_damaged, size
        rows = bucket.topic(topic).scan(on_corrupt="skip").to_arrow().num_rows
        assert rows <= 40


def test_what_is_not_read_is_named_and_hides_nothing_else(tmp_path: Path) -> None:
    good, other = mapfile(messages(1, 5), 1), mapfile(messages(2, 5), 2)
    url = put_mapfiles(tmp_path, good, other)
    writer = MapFileWriter(RecordCompression.BLOCK)
    own = len(header(writer))
    data = header(writer, codec="org.apache.hadoop.io.compress.SnappyCodec") + other.data[own:]
    put_file(tmp_path / other.folder / "data", data)
    bucket = open_bucket(url)
    assert [ref.ledger_id for ref in bucket.catalog.refs()] == [1]
    (missing,) = bucket.catalog.missing_of("public/default/persistent/orders")
    assert (missing.ledger_id, missing.key) == (2, f"{other.folder}/data")
    with pytest.raises(UnsupportedFormatError, match="SnappyCodec"):
        bucket.catalog.fragments[1].why_not(2)
    with pytest.raises(LedgerfsError, match="cannot be read"):
        bucket.topic("public/default/orders").scan().to_arrow()
    assert bucket.topic("public/default/orders").scan(on_corrupt="skip").to_arrow().num_rows == 5
    assert [one.kind for one in verify(bucket).findings if one.severity.value == "damage"] == ["unreadable-ledger"]


@pytest.mark.long
def test_large_entries(tmp_path: Path) -> None:
    entries = [frame(metadata(sequence_id=i), os.urandom(9 << 20)) for i in range(3)]
    for compression in RecordCompression:
        made = mapfile(entries, writer=MapFileWriter(compression, level=1))
        bucket = open_bucket(put_mapfiles(tmp_path, made))
        reader = bucket.reader(next(bucket.catalog.refs()))
        assert read_all(reader) == entries
        assert read_all(reader, 1, 1) == entries[1:2]

"""Damage in the data of a MapFile: reading goes on at the next marker, and what is lost in between is told, entry by entry."""

import os
import struct
from pathlib import Path

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.catalog.findings import Finding
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.mapfile.header import RecordCompression
from ledgerfs.layouts.mapfile import key_walk
from ledgerfs.verification import verify
from tests.support.mapfile_buckets import MadeMapFile, mapfile, messages, put_file, put_mapfiles
from tests.support.mapfiles import SYNC, MapFileWriter
from tests.support.remote import RemoteFolder

MARKER = b"\xff" * 4 + SYNC
WRITERS = [
    MapFileWriter(compression, sync_interval=2000, block_bytes=3000, index_interval=8)
    for compression in RecordCompression
]
ENTRIES = messages(1, 400, 100)
LAST = len(ENTRIES) - 1


def markers_of(data: bytes) -> list[int]:
    found, at = [], data.find(MARKER, 200)
    while at >= 0:
        found.append(at)
        at = data.find(MARKER, at + 1)
    return found


def put(tmp_path: Path, made: MadeMapFile, data: bytes, *, index: bool) -> Bucket:
    put_mapfiles(tmp_path, made)
    put_file(tmp_path / made.folder / "data", data)
    if not index:
        (tmp_path / made.folder / "index").unlink()
    return open_bucket(f"file://{tmp_path}")


def reader_of(bucket: Bucket) -> LedgerReader:
    return bucket.reader(next(bucket.catalog.refs()))


def read_past(reader: LedgerReader, first: int = 0, last: int = LAST) -> tuple[dict[int, bytes], list[tuple[int, int]]]:
    """Return the entries that can be had, and the ranges that are told to be lost."""
    lost: list[tuple[int, int]] = []
    batches = reader.batches(first, last, lambda first, last, _: lost.append((first, last)))
    return {entry: bytes(data) for batch in batches for entry, data in batch}, lost


def require_all_reported(reader: LedgerReader, first: int = 0, last: int = LAST) -> list[tuple[int, int]]:
    """Every entry is there as it was written, or told to be lost, once."""
    found, lost = read_past(reader, first, last)
    ids = [entry for low, high in lost for entry in range(low, high + 1)]
    assert sorted([*found, *ids]) == list(range(first, last + 1))
    # Where nothing is compressed, nothing but its own checksum tells of the one in which damage begins.
    assert all(found[entry] == ENTRIES[entry] or entry + 1 in ids for entry in found)
    return lost


def damage_of(bucket: Bucket) -> list[Finding]:
    return [one for one in verify(bucket).findings if one.kind == "damaged-records"]


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.compression.value)
@pytest.mark.parametrize("index", [True, False])
def test_reading_goes_on_at_the_next_marker(writer: MapFileWriter, index: bool, tmp_path: Path) -> None:
    made = mapfile(ENTRIES, writer=writer)
    markers = markers_of(made.data)
    assert len(markers) > 10
    damaged = bytearray(made.data)
    for number in (3, 7):
        damaged[markers[number] + 20 : markers[number] + 36] = bytes(16)
    bucket = put(tmp_path, made, bytes(damaged), index=index)
    reader = reader_of(bucket)
    with pytest.raises(CorruptLedgerError):
        reader.read(0, LAST)
    lost = require_all_reported(reader)
    assert len(lost) == 2
    # No more is lost than what is between two markers.
    assert all(high - low < 60 for low, high in lost)
    for first, last in (
        (0, lost[0][0]),
        (lost[0][0], LAST),
        (lost[0][1], lost[0][1]),
        (lost[0][0] + 1, lost[0][1] + 1),
        (lost[1][1] + 1, LAST),
    ):
        require_all_reported(reader, first, last)
    # `verify` tells the same, with the bytes.
    found = damage_of(bucket)
    assert len(found) == 2
    for number, one, (low, high) in zip((3, 7), found, lost, strict=True):
        assert f"entries {low} to {high} are lost, with the bytes " in one.message
        assert f" to {markers[number + 1] - 1}" in one.message
        assert one.offset is not None
        assert markers[number] <= one.offset < markers[number + 1]
    assert verify(bucket).entries == len(ENTRIES) - sum(high - low + 1 for low, high in lost)
    assert bucket.topic("public/default/orders").scan(on_corrupt="skip").to_arrow().num_rows == verify(bucket).entries


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.compression.value)
def test_whatever_is_broken_every_entry_is_read_or_reported(writer: MapFileWriter, tmp_path: Path) -> None:
    made = mapfile(ENTRIES, writer=writer)
    markers = markers_of(made.data)
    cases = {
        "marker": made.data[: markers[4] + 6] + b"?" + made.data[markers[4] + 7 :],
        "cut out": made.data[: markers[4]] + made.data[markers[6] :],
        "put in": made.data[: markers[4]] + os.urandom(700) + made.data[markers[4] :],
        "twice": made.data[: markers[6]] + made.data[markers[4] :],
        "swapped": made.data[: markers[4]]
        + made.data[markers[5] : markers[6]]
        + made.data[markers[4] : markers[5]]
        + made.data[markers[6] :],
        "last": made.data[: markers[-1] + 40] + bytes(len(made.data) - markers[-1] - 40),
        "nearly all": made.data[: markers[1] + 40] + bytes(markers[-1] - markers[1] - 40) + made.data[markers[-1] :],
    }
    for name, data in cases.items():
        bucket = put(tmp_path, made, data, index=False)
        require_all_reported(reader_of(bucket)), name
        assert verify(bucket).is_damaged, name
    for at in range(markers[0], len(made.data), 1777):
        flipped = bytearray(made.data)
        flipped[at] ^= 0x10
        bucket = put(tmp_path, made, bytes(flipped), index=False)
        found, lost = read_past(reader_of(bucket))
        assert sorted([*found, *(i for low, high in lost for i in range(low, high + 1))]) == list(
            range(len(ENTRIES))
        ), at


def test_a_wrong_key_alone(tmp_path: Path) -> None:
    """All that stands before it in the same read is there; it is named by its own offset."""
    made = mapfile(ENTRIES, writer=WRITERS[0])
    where = made.data.index(struct.pack(">ii", 8 + 4 + len(ENTRIES[123]), 8) + struct.pack(">q", 123))
    bucket = put(tmp_path, made, made.data[: where + 8] + struct.pack(">q", 7) + made.data[where + 16 :], index=True)
    ((first, last),) = require_all_reported(reader_of(bucket))
    assert first == 123
    (finding,) = damage_of(bucket)
    assert finding.offset == where
    assert f"found key 7, expected 123; entries 123 to {last} are lost, with the bytes {where} to " in finding.message


@pytest.mark.long
def test_values_that_look_like_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a part of the file itself, told apart by its keys; where there are too many, the rest is given up, and told."""
    writer = WRITERS[0]
    inner = mapfile(ENTRIES[:50], writer=writer).data
    entries = [*ENTRIES[:200], inner, (MARKER + bytes(12)) * 3000, *ENTRIES[202:]]
    made = mapfile(entries, writer=writer)
    damaged = bytearray(made.data)
    for value in entries[200:202]:
        where = made.data.index(value) - 20
        damaged[where : where + 16] = bytes(16)
    bucket = put(tmp_path, made, bytes(damaged), index=False)
    for most in (5000, 1000):
        monkeypatch.setattr(key_walk, "_MOST_MARKERS", most)
        found, lost = read_past(reader_of(bucket))
        assert lost[0][0] == 200
        assert sorted([*found, *(i for low, high in lost for i in range(low, high + 1))]) == list(range(len(entries)))
        assert all(found[entry] == entries[entry] for entry in found)
        assert (LAST in found) == (most == 5000)


def test_large_damage_is_passed_over_by_reading_it_once(tmp_path: Path) -> None:
    entries = messages(1, 3000, 4000)
    made = mapfile(entries, writer=MapFileWriter(RecordCompression.NONE))
    put_mapfiles(tmp_path, made)
    put_file(tmp_path / made.folder / "data", made.data[: 2 << 20] + bytes(5 << 20) + made.data[7 << 20 :])
    store = RemoteFolder(tmp_path)
    bucket = Bucket(store)
    reader = bucket.uncached_reader(next(bucket.catalog.refs()))
    store.requests.clear()
    found, lost = read_past(reader, 0, 2999)
    ((first, last),) = lost
    assert sorted([*found, *range(first, last + 1)]) == list(range(3000))
    assert (last - first) * 4000 < 6 << 20
    assert store.bytes_asked < 6 * len(made.data)

"""Files on disks that are read: again once they have changed, over what was made longer before, and where a disk gives nothing."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgerfs.errors import BucketNotFoundError, StoreError
from ledgerfs_cluster.disks import disk_files, reading, scanning
from ledgerfs_cluster.disks.disk_files import DiskFile, list_disks
from ledgerfs_cluster.disks.index import KeptTables, index_disks
from ledgerfs_cluster.disks.scanning import ScannedFile
from ledgerfs_cluster.errors import CorruptLogError
from ledgerfs_cluster.formats.bookkeeper.log_records import least_window_bytes
from tests.cluster.support.bookie_disks import MadeLedger, make_disk, write_log

LEDGER = MadeLedger(7, payloads=[b"%d" % number * 50 for number in range(400)])


def records(first: int, last: int) -> bytes:
    stored = [LEDGER.stored(entry) for entry in range(first, last)]
    return b"".join(len(one).to_bytes(4, "big") + one for one in stored)


def listed(disk: Path) -> DiskFile:
    (file,) = list_disks([str(disk)]).files
    return file


def entries(found: ScannedFile) -> list[int]:
    return found.table.entry_ids.tolist()


@pytest.fixture(params=["log", "journal"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    current = make_disk(tmp_path / "disk")
    if request.param == "log":
        return write_log(current, 1, [])
    journal = current / "a.txn"
    journal.write_bytes(b"BKLG" + (6).to_bytes(4, "big") + bytes(504))
    return journal


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> int:
    """Files are read in the smallest windows."""
    size = -(-least_window_bytes() // 4096) * 4096
    monkeypatch.setattr(scanning, "WINDOW_BYTES", size)
    return size


def test_what_is_written_over_zeros_is_found(path: Path, tmp_path: Path, windows: int) -> None:
    """Bookies make files longer with zeros before they need them, by more than is read at once."""
    tables = KeptTables(str(tmp_path / "cache"))
    head = path.read_bytes()
    end = len(head)
    path.write_bytes(head + records(0, 3) + bytes(3 * windows))
    assert entries(tables.scanned(listed(tmp_path / "disk"))) == [0, 1, 2]
    with path.open("r+b") as file:
        file.seek(end + len(records(0, 3)))
        file.write(records(3, 400))
    assert entries(tables.scanned(listed(tmp_path / "disk"))) == list(range(400))


def test_a_file_that_has_not_changed_is_read_once(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(path.read_bytes() + records(0, 300))
    KeptTables(str(tmp_path / "cache")).scanned(listed(tmp_path / "disk"))
    monkeypatch.setattr(reading.os, "preadv", None)
    assert entries(KeptTables(str(tmp_path / "cache")).scanned(listed(tmp_path / "disk"))) == list(range(300))


def test_a_log_that_goes_while_it_is_looked_at_has_the_disks_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bookie compacts: the new log came behind the place of the listing, and the old one goes before it is looked at."""
    current = make_disk(tmp_path / "disk")
    old = write_log(current, 1, [LEDGER.stored(entry) for entry in range(9)])
    look, seen = os.stat, [old]

    def compacted(path: Any, **options: Any) -> os.stat_result:
        if str(path) == str(old) and seen:
            seen.clear()
            write_log(current, 2, [LEDGER.stored(entry) for entry in range(9)])
            old.unlink()
        return look(path, **options)

    monkeypatch.setattr(disk_files.os, "stat", compacted)
    index = index_disks([str(tmp_path / "disk")], KeptTables(str(tmp_path / "cache")))
    assert index.missing(7, 8) == []
    assert [Path(one.file.path).name for one in index.files] == ["2.log"]


def test_another_file_of_the_same_name_is_read_anew(path: Path, tmp_path: Path) -> None:
    tables = KeptTables(str(tmp_path / "cache"))
    head = path.read_bytes()
    path.write_bytes(head + records(0, 300))
    tables.scanned(listed(tmp_path / "disk"))
    other = path.with_suffix(".new")
    other.write_bytes(head + records(100, 400))
    other.rename(path)
    assert entries(tables.scanned(listed(tmp_path / "disk"))) == list(range(100, 400))
    # Also if the same file was written anew.
    path.write_bytes(head + records(200, 390))
    assert entries(tables.scanned(listed(tmp_path / "disk"))) == list(range(200, 390))


def test_a_kept_table_that_is_damaged_is_made_anew(path: Path, tmp_path: Path) -> None:
    path.write_bytes(path.read_bytes() + records(0, 300))
    KeptTables(str(tmp_path / "cache")).scanned(listed(tmp_path / "disk"))
    (kept,) = (tmp_path / "cache" / "files").glob("*.locations")
    data = bytearray(kept.read_bytes())
    data[200] ^= 1
    kept.write_bytes(data)
    assert entries(KeptTables(str(tmp_path / "cache")).scanned(listed(tmp_path / "disk"))) == list(range(300))


def test_what_a_disk_does_not_give_is_named_and_all_else_is_read(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the disk in one place of 64 KiB."""
    data = path.read_bytes()
    path.write_bytes(data + b"".join(records(0, 400) for _ in range(12)))
    whole = os.preadv

    def preadv(descriptor: int, buffers: list[Any], offset: int) -> int:
        end = offset + sum(len(one) for one in buffers)
        if offset < 150_000 < end:
            raise OSError(errno.EIO, "Input/output error")
        return whole(descriptor, buffers, offset)

    monkeypatch.setattr(reading.os, "preadv", preadv)
    tables = KeptTables(str(tmp_path / "cache"))
    found = tables.scanned(listed(tmp_path / "disk"))
    (gap,) = found.table.gaps.tolist()
    assert gap[0] < 131_072 + 300
    assert 196_608 <= gap[1] < 196_608 + 300
    assert 3000 < found.table.entries < 4800
    assert isinstance(found.trouble, StoreError)
    assert 100_000 < (found.trouble.offset or 0) < 150_000
    # It may be read the next time: nothing of it is kept.
    monkeypatch.undo()
    assert tables.scanned(listed(tmp_path / "disk")).table.entries == 4800


def test_a_header_that_is_none_is_reported_and_the_entries_are_found(path: Path, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes() + records(0, 9))
    data[:4] = b"BKXX"
    path.write_bytes(data)
    found = scanning.scan_file(listed(tmp_path / "disk"))
    assert isinstance(found.trouble, CorruptLogError)
    assert entries(found) == list(range(9))


def test_a_folder_without_disks_is_none(tmp_path: Path) -> None:
    (tmp_path / "a" / "current").mkdir(parents=True)
    for wrong in (tmp_path, tmp_path / "none"):
        with pytest.raises(BucketNotFoundError):
            list_disks([str(wrong)])


def test_disks_are_joined_by_what_names_their_bookie(tmp_path: Path) -> None:
    for folder, name in (("x/journal", "b1:1"), ("x/ledgers", "b1:1"), ("y", "b2:1")):
        write_log(make_disk(tmp_path / folder, name), 1, [LEDGER.stored(0)])
    nameless = make_disk(tmp_path / "z")
    write_log(nameless, 1, [])
    (nameless / "VERSION").unlink()
    found = list_disks([str(tmp_path / one) for one in ("x", "y", "z")])
    assert found.bookies == ("b1:1", "b2:1", str(tmp_path / "z"))
    assert [file.bookie for file in found.files] == [0, 0, 1, 2]
    assert found.named == 2
    assert np.all(np.diff([file.bookie for file in found.files]) >= 0)


def test_entries_that_are_larger_than_pulsars_are_found_where_that_is_said(path: Path, tmp_path: Path) -> None:
    """Where ``maxMessageSize`` was raised: more than a window has, and between small ones."""
    ledger = MadeLedger(7, payloads=[b"a", b"b" * (6 << 20), b"c", b"d", b"e" * (25 << 20), b"f", b"g"])
    stored = [ledger.stored(entry) for entry in range(7)]
    path.write_bytes(path.read_bytes() + b"".join(len(one).to_bytes(4, "big") + one for one in stored))
    cache = str(tmp_path / "cache")
    without = KeptTables(cache).scanned(listed(tmp_path / "disk"))
    assert entries(without) == [0, 2, 3, 5, 6]
    assert int(np.diff(without.table.gaps).sum()) == len(stored[1]) + len(stored[4]) + 8
    # Tables that were kept by another rule are not taken.
    assert entries(KeptTables(cache, 6 << 20).scanned(listed(tmp_path / "disk"))) == [0, 1, 2, 3, 5, 6]
    found = KeptTables(cache, 25 << 20).scanned(listed(tmp_path / "disk"))
    assert (entries(found), found.table.gaps.size) == ([0, 1, 2, 3, 4, 5, 6], 0)
    assert entries(KeptTables(cache).scanned(listed(tmp_path / "disk"))) == [0, 2, 3, 5, 6]

"""Where a ledger that is not closed ends is not told by what was not found, if it may have been there: nothing is left out in silence."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import CorruptLedgerError, MissingLedgerError
from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs.verification.verify import verify
from ledgerfs_cluster.disks import reading
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from tests.cluster.support.bookie_disks import MadeLedger, list_node, make_disk, write_dump, write_log
from tests.support.entries import frame, metadata
from tests.support.invoked import run

TOPIC = "t/n/persistent/x"
BOOKIES = ("b1:3181", "b2:3181", "b3:3181")
OPEN_ENDS = ("confirmed", "recovered")
OTHER = MadeLedger(3, payloads=[b"other %d" % number for number in range(200)])


class OneDisk:
    """A disk with an open ledger, whose entries lie between those of another one."""

    def __init__(self, folder: Path, count: int = 100) -> None:
        self.folder = folder
        payloads = [frame(metadata(publish_time_ms=number), b"%03d" % number) for number in range(count)]
        self.ledger = MadeLedger(7, payloads=payloads, managed_ledger=TOPIC)
        self.current = make_disk(folder / "disk")
        self.info = LedgerInfo(7, 0, 0, 0)
        self.is_closed = False
        self.last: int | None = None
        half = count // 2
        stored = [
            *map(self.ledger.stored, range(half)),
            *map(OTHER.stored, range(10)),
            *map(self.ledger.stored, range(half, count)),
            *map(OTHER.stored, range(10, 20)),
        ]
        self.log = write_log(self.current, 1, stored)

    def place(self, entry: int) -> int:
        """Return where the record of an entry begins."""
        return self.log.read_bytes().index(self.ledger.stored(entry)) - 4

    def put(self, at: int, data: bytes) -> None:
        """Overwrite bytes of the log; its size, inode and end stay."""
        with self.log.open("r+b") as file:
            file.seek(at)
            file.write(data)

    def open(self, **options: str) -> Bucket:
        node = self.ledger.zookeeper_node(is_closed=self.is_closed, last=self.last)
        (self.folder / "dump").unlink(missing_ok=True)
        write_dump(self.folder / "dump", [list_node(TOPIC, self.info), node])
        return open_bucket(
            f"bookies://{self.folder}/disk",
            {"metadata": str(self.folder / "dump"), **options},
            cache_dir=str(self.folder / "cache"),
        )

    def rows(self, **options: str) -> list[int]:
        table = self.open(**options).topic(TOPIC).scan(["entry_id"]).to_arrow()
        return [int(one) for one in table["entry_id"].to_pylist()]

    def kinds(self, **options: str) -> list[str]:
        return [one.kind for one in verify(self.open(**options)).findings]


@pytest.fixture
def disk(tmp_path: Path) -> OneDisk:
    return OneDisk(tmp_path)


def garbage(disk: OneDisk) -> None:
    disk.put(disk.place(50), b"\xab" * (disk.place(99) - disk.place(50) + 80))


def zeros(disk: OneDisk) -> None:
    disk.put(disk.place(50), bytes(disk.log.read_bytes().index(OTHER.stored(10)) - 4 - disk.place(50)))


def no_log(disk: OneDisk) -> None:
    zeros_of_another_log = disk.current / "2.log"
    zeros_of_another_log.write_bytes(b"BKLO" + bytes(500))


def a_folder(disk: OneDisk) -> None:
    (disk.current / "2.log").mkdir()


@pytest.mark.parametrize("damage", [garbage, zeros, no_log, a_folder])
def test_an_end_is_not_known_where_entries_may_have_been(
    disk: OneDisk, damage: Callable[[OneDisk], None], tmp_path: Path
) -> None:
    for open_end in OPEN_ENDS:
        assert len(disk.rows(open_end=open_end)) == 99 + (open_end != "confirmed"), open_end
    damage(disk)
    for open_end in OPEN_ENDS:
        with pytest.raises(MissingLedgerError, match="its last entry is unknown"):
            disk.rows(open_end=open_end)
        assert "unknown-end" in disk.kinds(open_end=open_end), open_end
    disk_and_dump = (str(tmp_path / "disk"), "--metadata", str(tmp_path / "dump"), "-o", "open_end=recovered")
    refused = run("offload", disk_and_dump[0], str(tmp_path / "tier"), *disk_and_dump[1:], code=1)
    assert b"ledger 7 of persistent://t/n/x" in refused.stderr


def test_an_end_is_not_known_where_a_disk_does_not_give_bytes(disk: OneDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, at = os.preadv, disk.place(80)

    def preadv(descriptor: int, buffers: Sequence[Any], offset: int) -> int:
        if offset <= at < offset + sum(map(len, buffers)):
            raise OSError(errno.EIO, "Input/output error")
        return whole(descriptor, buffers, offset)

    monkeypatch.setattr(reading.os, "preadv", preadv)
    with pytest.raises(MissingLedgerError, match="its last entry is unknown"):
        disk.rows()


def test_a_record_that_was_being_written_says_nothing_against_an_end(disk: OneDisk) -> None:
    with disk.log.open("ab") as file:
        file.write((400).to_bytes(4, "big") + b"half")
    for open_end in OPEN_ENDS:
        assert len(disk.rows(open_end=open_end)) == 99 + (open_end != "confirmed"), open_end


def test_a_damaged_size_says_nothing_against_an_end(disk: OneDisk) -> None:
    """The entry is read all the same: nothing was there but its size."""
    disk.put(disk.place(60), b"\x00\x01")
    assert len(disk.rows()) == 99


def test_what_two_of_three_have_as_a_whole_is_certain(tmp_path: Path) -> None:
    payloads = [frame(metadata(publish_time_ms=number), b"%03d" % number) for number in range(30)]
    ledger = MadeLedger(7, BOOKIES, 2, 2, payloads=payloads, managed_ledger=TOPIC)
    currents = [make_disk(tmp_path / f"disk{number}", name) for number, name in enumerate(BOOKIES)]
    for number, current in enumerate(currents):
        write_log(current, 0, [ledger.stored(one) for one in range(30) if number in {one % 3, (one + 1) % 3}])
    (currents[0] / "1.log").write_bytes(b"nothing")
    nodes = [list_node(TOPIC, LedgerInfo(7, 0, 0, 0)), ledger.zookeeper_node(is_closed=False)]
    write_dump(tmp_path / "dump", nodes)
    paths = ",".join(str(tmp_path / f"disk{number}") for number in range(3))
    options = {"metadata": str(tmp_path / "dump"), "open_end": "recovered"}
    bucket = open_bucket(f"bookies://{paths}", options, cache_dir=str(tmp_path / "cache"))
    assert bucket.topic(TOPIC).scan(["entry_id"]).to_arrow().num_rows == 30


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_hole_that_is_filled_later_is_read(disk: OneDisk, is_closed: bool) -> None:
    """As ddrescue copies a failing disk: what it could not read at first comes into the same file."""
    disk.is_closed = is_closed
    with disk.log.open("ab") as file:
        # More than is compared of a file's end.
        file.write(b"".join(len(one).to_bytes(4, "big") + one for one in map(OTHER.stored, range(20, 200))) * 10)
    whole = disk.log.read_bytes()
    begin, end = disk.place(50), whole.index(OTHER.stored(10)) - 4
    disk.put(begin, bytes(end - begin))
    with pytest.raises((MissingLedgerError, CorruptLedgerError)):
        disk.rows()
    disk.put(begin, whole[begin:end])
    assert len(disk.rows()) == 99 + is_closed


def test_a_list_that_closes_what_its_metadata_call_open_is_believed(disk: OneDisk) -> None:
    """The ledger was rolled over while the dump was made, whose ledgers are read before its lists."""
    size = sum(map(len, disk.ledger.payloads))
    disk.info = LedgerInfo(7, 100, size, 5)
    assert len(disk.rows()) == 100
    disk.info = LedgerInfo(7, 102, size + 40, 5)
    with pytest.raises(CorruptLedgerError, match="entry 100 is missing on all"):
        disk.rows()
    assert "lost-entries" in disk.kinds()


def test_a_list_that_has_entries_of_what_was_closed_without_any_contradicts_it(disk: OneDisk) -> None:
    disk.is_closed, disk.last, disk.info = True, -1, LedgerInfo(7, 100, 1000, 5)
    with pytest.raises(MissingLedgerError):
        disk.rows()
    assert "unreadable-object" in disk.kinds()


def test_entries_of_a_ledger_that_has_none_are_reported(tmp_path: Path) -> None:
    disk = OneDisk(tmp_path, 1)
    assert disk.rows() == []
    assert disk.kinds() == ["beyond-the-end"]


def test_sound_copies_that_differ_are_not_offloaded(tmp_path: Path) -> None:
    disk = OneDisk(tmp_path)
    disk.is_closed, disk.info = True, LedgerInfo(7, 100, sum(map(len, disk.ledger.payloads)), 5)
    another = [*disk.ledger.payloads]
    another[3] = another[3][:-3] + b"xyz"
    write_log(disk.current, 2, [MadeLedger(7, payloads=another).stored(3)])
    disk.open()
    arguments = ("--metadata", str(tmp_path / "dump"))
    refused = run("offload", str(tmp_path / "disk"), str(tmp_path / "tier"), *arguments, code=1)
    assert b"differ, although the digests of both match" in refused.stderr
    assert not list((tmp_path / "tier").glob("*-ledger-7"))


def test_without_digests_an_id_that_is_not_its_own_ends_no_ledger(tmp_path: Path) -> None:
    disk = OneDisk(tmp_path)
    disk.ledger.digest = Digest(DigestType.DUMMY)
    stored = [bytearray(disk.ledger.stored(entry)) for entry in range(100)]
    disk.log = write_log(disk.current, 1, [bytes(one) for one in stored])
    for open_end in OPEN_ENDS:
        assert len(disk.rows(open_end=open_end)) == 99 + (open_end != "confirmed"), open_end
    stored[0][10] ^= 1
    write_log(disk.current, 1, [bytes(one) for one in stored])
    for open_end in OPEN_ENDS:
        with pytest.raises(MissingLedgerError, match="its last entry is unknown"):
            disk.rows(open_end=open_end)


def test_a_pipe_that_is_called_as_a_file_is_not_waited_for(disk: OneDisk) -> None:
    (disk.current / "VERSION").unlink()
    os.mkfifo(disk.current / "VERSION")
    os.mkfifo(disk.current / "2.txn")
    (disk.current / "3.log").symlink_to("nowhere")
    disk.is_closed, disk.info = True, LedgerInfo(7, 100, sum(map(len, disk.ledger.payloads)), 5)
    assert len(disk.rows()) == 100
    assert disk.kinds().count("unreadable-object") == 3

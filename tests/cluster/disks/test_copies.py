"""Entries of several bookies: whichever copy is sound is read, what is lost or differs is named, and logs may move meanwhile."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.findings import Severity
from ledgerfs.errors import CorruptLedgerError, InvalidOptionError, MissingLedgerError, UnplacedLedgersWarning
from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs.verification.verify import check_ledger, verify
from ledgerfs_cluster.disks import entries, index
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.bookie_disks import MadeLedger, list_node, make_disk, write_dump, write_log
from tests.cluster.support.encoders import build_ledger_node

TOPIC = "t/n/persistent/x"
BOOKIES = ("b1:3181", "b2:3181", "b3:3181")


class Disks:
    """Three bookies, on which each entry of one ledger is twice."""

    def __init__(self, folder: Path, digest: Digest | None = None) -> None:
        self.folder = folder
        payloads = [b"%03d" % number * (1 + number) for number in range(30)]
        self.ledger = MadeLedger(7, BOOKIES, 2, 2, digest or Digest(), payloads)
        self.currents = [make_disk(folder / f"disk{number}", name) for number, name in enumerate(BOOKIES)]
        for number, current in enumerate(self.currents):
            write_log(current, 0, [self.ledger.stored(entry) for entry in self.entries_of(number)])
        self.write_dump(is_closed=True)

    def entries_of(self, number: int) -> list[int]:
        return [entry for entry in range(30) if number in {entry % 3, (entry + 1) % 3}]

    def write_dump(self, *, is_closed: bool, entries: int = 30) -> None:
        closed_ms = 5 if is_closed else 0
        info = LedgerInfo(7, entries if is_closed else 0, 100 if is_closed else 0, closed_ms, None)
        nodes = [self.ledger.zookeeper_node(is_closed=is_closed, last=entries - 1), list_node(TOPIC, info)]
        write_dump(self.folder / "dump", nodes)

    def open(self, *numbers: int, **options: str) -> Bucket:
        paths = ",".join(f"{self.folder}/disk{number}" for number in numbers or (0, 1, 2))
        metadata = {"metadata": str(self.folder / "dump"), **options}
        return open_bucket(f"bookies://{paths}", metadata, cache_dir=str(self.folder / "cache"))

    def damage(self, number: int, entry: int) -> None:
        """Flip a bit of an entry's payload on one disk."""
        path = self.currents[number] / "0.log"
        data = bytearray(path.read_bytes())
        at = data.index(self.ledger.stored(entry))
        data[at + len(self.ledger.stored(entry)) - 1] ^= 1
        path.write_bytes(data)


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    return Disks(tmp_path)


def payloads(bucket: Bucket, last: int = 29) -> list[bytes]:
    return [bytes(entry.data) for entry in bucket.ledger(7).read(0, last)]


def findings(bucket: Bucket, severity: Severity | None = None) -> list[tuple[str, str]]:
    return [(one.kind, one.message) for one in verify(bucket).findings if severity in {None, one.severity}]


@pytest.mark.parametrize("kind", [DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC, DigestType.DUMMY])
def test_striped_ledgers_come_together(kind: DigestType, tmp_path: Path) -> None:
    password = b"secret" if kind is DigestType.HMAC else b""
    disks = Disks(tmp_path, Digest(kind, password))
    bucket = disks.open()
    assert payloads(bucket) == disks.ledger.payloads
    assert [topic.name for topic in bucket.topics()] == ["persistent://t/n/x"]
    assert findings(bucket, Severity.DAMAGE) == []


def test_what_two_disks_had_is_lost_and_named(disks: Disks) -> None:
    bucket = disks.open(0)
    with pytest.raises(CorruptLedgerError, match="entry 1 is missing on all given disks"):
        payloads(bucket)
    lost = [number for number in range(30) if number % 3 == 1]
    reported: list[int] = []
    batches = list(bucket.ledger(7).batches(0, 29, lambda first, last, _: reported.extend(range(first, last + 1))))
    assert reported == lost
    assert [entry for batch in batches for entry, _ in batch] == sorted(set(range(30)) - set(lost))
    assert (
        "lost-entries",
        f"10 of 30 entries are missing on all given disks: {', '.join(map(str, lost))}",
    ) in findings(bucket)


def test_an_entry_whose_copies_are_all_damaged_is_lost(disks: Disks) -> None:
    disks.damage(0, 3)
    disks.damage(1, 3)
    bucket = disks.open()
    with pytest.raises(CorruptLedgerError, match="each of its 2 copies on the given disks is damaged") as caught:
        payloads(bucket)
    assert str(disks.folder / "disk0") in str(caught.value)
    assert [one.id for one in disks.open().ledger(7).read(4, 29)] == list(range(4, 30))
    assert verify(bucket).is_damaged


def test_copies_that_differ_are_damage(disks: Disks) -> None:
    other = MadeLedger(7, BOOKIES, 2, 2, Digest(), [*disks.ledger.payloads[:3], b"another!!!!!"])
    write_log(disks.currents[0], 1, [other.stored(3)])
    assert len(other.payloads[3]) == len(disks.ledger.payloads[3])
    kinds = {kind for kind, _ in findings(disks.open(), Severity.DAMAGE)}
    assert kinds == {"conflicting-copies"}


def test_copies_that_differ_in_what_was_confirmed_are_none(disks: Disks) -> None:
    write_log(disks.currents[0], 1, [disks.ledger.stored(3, confirmed=-1)])
    assert findings(disks.open()) == []


def test_a_log_that_was_compacted_meanwhile_is_found_again(disks: Disks) -> None:
    bucket = disks.open()
    assert bucket.ledger(7).last_entry == 29
    ledger = bucket.ledger(7)
    batches = iter(ledger.batches(0, 29))
    for current in disks.currents:
        (current / "0.log").rename(current / "5.log")
    assert [bytes(data) for batch in batches for _, data in batch] == disks.ledger.payloads
    shutil.rmtree(disks.currents[1].parent)
    make_disk(disks.folder / "disk1", BOOKIES[1])
    assert payloads(bucket) == disks.ledger.payloads


def test_a_check_goes_on_in_a_log_that_was_compacted_meanwhile(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrong with the ledger, whose bookies wrote it to other logs while its copies were looked at: each is looked at once."""
    monkeypatch.setattr(entries, "WINDOW_BYTES", 200)
    monkeypatch.setattr(index, "_MOST_OPEN", 1)
    bucket = disks.open()
    whole = check_ledger(bucket, bucket.ledger(7).ref, lambda _: None)
    moved = iter(disks.currents)

    def compact(_: int) -> None:
        for current in moved:
            (current / "0.log").rename(current / "5.log")

    found = check_ledger(bucket, bucket.ledger(7).ref, compact)
    assert all((current / "5.log").exists() for current in disks.currents)
    assert found.findings == []
    assert (found.entries, found.bytes) == (30, whole.bytes)


def test_a_ledger_of_which_no_disk_has_an_entry_is_missing(disks: Disks) -> None:
    other = MadeLedger(9, ("b8:3181",), 1, 1, Digest(), [b"x"])
    listed = list_node(TOPIC, *(LedgerInfo(number, 0, 0, 0) for number in (7, 9)))
    write_dump(disks.folder / "dump", [disks.ledger.zookeeper_node(), other.zookeeper_node(), listed])
    bucket = disks.open()
    with pytest.raises(MissingLedgerError, match="the given disks have no entry of it"):
        list(bucket.topic("t/n/x").scan())
    assert not verify(bucket).is_complete


def test_what_was_made_after_the_dump_is_named_and_no_topic_hides_it(disks: Disks) -> None:
    newer = MadeLedger(12, BOOKIES, 2, 2, payloads=[b"since"])
    write_log(disks.currents[0], 1, [newer.stored(0)])
    bucket = disks.open()
    assert bucket.catalog.unplaced() == [12]
    assert [bytes(one.data) for one in bucket.ledger(12).read(0, 0)] == [b"since"]
    reason = "its topic is unknown: the ledger may be newer than the metadata; pass newer metadata (--metadata)"
    assert ("newer-ledger", reason) in findings(bucket)
    with pytest.warns(UnplacedLedgersWarning):
        bucket.topic("t/n/x").scan()


def test_what_is_deleted_is_only_counted(disks: Disks) -> None:
    write_log(disks.currents[0], 1, [MadeLedger(3, payloads=[b"old"]).stored(0)])
    bucket = disks.open()
    assert [ref.ledger_id for ref in bucket.catalog.refs()] == [7]
    assert bucket.catalog.unplaced() == []
    assert bucket.catalog.fragments[3].counts()["deleted ledgers whose space is not free yet"] == 1


def test_ids_far_apart_cost_no_time(disks: Disks) -> None:
    """What looks like an entry of an id that nobody gave, and metadata that tells of entries without end."""
    far = MadeLedger(7, BOOKIES, 2, 2, payloads=[b"x"])
    stored = bytearray(far.stored(0))
    stored[8:16] = (2**61).to_bytes(8, "big")
    write_log(disks.currents[0], 1, [bytes(stored)])
    bucket = disks.open()
    assert payloads(bucket) == disks.ledger.payloads
    assert ("damaged-copy", f"a copy of entry {2**61} of ledger 7, which is after its end, is damaged") in findings(
        bucket
    )
    node = disks.ledger.node()
    endless = Node(ledger_path(7), build_ledger_node(replace(node, last_entry=2**58, length=2**60)), 1, 1, 0, 0)
    write_dump(disks.folder / "dump", [endless, list_node(TOPIC, LedgerInfo(7, 2**58 + 1, 2**60, 5))])
    bucket = disks.open()
    reported: list[tuple[int, int]] = []
    batches = list(bucket.ledger(7).batches(0, 2**58, lambda first, last, _: reported.append((first, last))))
    assert [bytes(data) for batch in batches for _, data in batch] == disks.ledger.payloads
    assert (reported[0][0], reported[-1][1], len(reported)) == (30, 2**58, 2)
    assert (
        "lost-entries",
        f"{2**58 - 29:,} of {2**58 + 1:,} entries are missing on all given disks: 30 to {2**58}",
    ) in findings(bucket)


def test_disks_and_metadata_of_two_clusters_are_refused(tmp_path: Path) -> None:
    ledger = MadeLedger(7, payloads=[b"a", b"b"])
    for name, instance in (("a", "one"), ("b", "two"), ("c", None)):
        write_log(make_disk(tmp_path / name, f"{name}:3181", instance), 0, [ledger.stored(0)])
    with pytest.raises(InvalidOptionError, match="the disks belong to two clusters"):
        open_bucket(f"bookies://{tmp_path}/a,{tmp_path}/b", cache_dir=str(tmp_path / "cache")).topics()
    write_dump(tmp_path / "dump", [Node("/ledgers/INSTANCEID", b"two", 1, 1, 0, 0), ledger.zookeeper_node()])
    options = {"metadata": str(tmp_path / "dump")}
    with pytest.raises(InvalidOptionError, match="the metadata is of cluster two, but the disks are of cluster one"):
        open_bucket(f"bookies://{tmp_path}/a,{tmp_path}/c", options, cache_dir=str(tmp_path / "cache")).topics()
    assert open_bucket(f"bookies://{tmp_path}/b,{tmp_path}/c", options, cache_dir=str(tmp_path / "cache")).topics()


def test_copies_that_a_repair_wrote_are_read(disks: Disks) -> None:
    """They carry the ledger's last entry as what is confirmed, which lies behind most of them."""
    write_log(disks.currents[0], 0, [disks.ledger.stored(entry, confirmed=29) for entry in range(30)])
    bucket = disks.open(0)
    assert payloads(bucket) == disks.ledger.payloads
    assert findings(bucket) == []


def test_a_disk_behind_a_link_is_named(disks: Disks) -> None:
    (disks.folder / "all").mkdir()
    (disks.folder / "disk0").rename(disks.folder / "all" / "disk0")
    (disks.folder / "all" / "disk1").symlink_to(disks.folder / "disk1")
    with pytest.raises(InvalidOptionError, match="links are not followed"):
        open_bucket(f"bookies://{disks.folder}/all", cache_dir=str(disks.folder / "cache")).topics()


def test_an_open_ledger_of_which_no_entry_fits_its_digest_is_not_empty(tmp_path: Path) -> None:
    disks = Disks(tmp_path, Digest(DigestType.HMAC, b"secret"))
    disks.ledger.digest = Digest(DigestType.HMAC, b"another")
    disks.write_dump(is_closed=False)
    for open_end in ("confirmed", "recovered"):
        with pytest.raises(MissingLedgerError):
            disks.open(open_end=open_end).topic("t/n/x").scan().to_pandas()

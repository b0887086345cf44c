"""Disks that real bookies left: every entry is the one that the bookie served, and topics are read as Pulsar's own reader read them."""

import os
import warnings
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import UnplacedLedgersWarning
from ledgerfs.verification.verify import verify
from ledgerfs_cluster.disks.layout import Disks
from ledgerfs_cluster.disks.place import DiskPlace
from ledgerfs_cluster.snapshot.kept_dumps import DIGITS, kept_dump_key
from tests.cluster.support.bookie_disks import golden_disk
from tests.support.golden_rows import expected_of, rows_of, wanted

TOPICS = {"bookie-dbledger": 16, "bookie-sorted": 21}


@pytest.fixture(scope="module", params=sorted(TOPICS))
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_disk(request.param, tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def disk(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    metadata = {"metadata": str(golden / "dump.json.zst")}
    return open_bucket(golden / "ledgers", metadata, cache_dir=str(tmp_path_factory.mktemp("cache")))


def test_topics_are_read_as_pulsar_reads_them(golden: Path, disk: Bucket) -> None:
    names = [unquote(file.name.removesuffix(".jsonl.gz")) for file in sorted((golden / "expected").iterdir())]
    assert len(names) == TOPICS[golden.name]
    for topic in (f"persistent://{name}" for name in names):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnplacedLedgersWarning)
            rows = rows_of(disk.topic(topic).scan())
        assert rows == wanted(expected_of(golden, topic)), topic


def test_entries_are_those_that_the_bookie_served(golden: Path, disk: Bucket, golden_entries: Path) -> None:
    """Those of one of the two were also asked of the bookie, when it was there."""
    if golden.name != "bookie-sorted":
        assert sum(ref.entries for ref in disk.catalog.refs()) == 2574
        return
    compared = 0
    for path in golden_entries.glob("entries-of-*"):
        ledger_id = int(path.name.rpartition("-")[2])
        copies, stored = stored_on(disk, ledger_id)
        assert stored == list(records(path.read_bytes())), ledger_id
        compared += copies
    assert compared == 234


def records(data: bytes) -> Iterator[bytes]:
    """Yield what has its int32 size before it."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def stored_on(disk: Bucket, ledger_id: int) -> tuple[int, list[bytes]]:
    """Return how many copies the logs have of a ledger's entries, and these as they lie there."""
    assert isinstance(disk.source, Disks)
    place = DiskPlace(disk.source.disks, disk.cache_dir)
    index = place.index()
    copies = index.copies(ledger_id, 0, 2**40)
    rows = zip(copies.files.tolist(), copies.places.tolist(), copies.sizes.tolist(), strict=True)
    return len(copies), [os.pread(index.opened(file).fileno(), size, place) for file, place, size in rows]


def test_nothing_is_wrong_with_them(golden: Path, disk: Bucket) -> None:
    report = verify(disk)
    assert not report.is_damaged
    assert report.ledgers > 20
    kinds = {finding.kind for finding in report.findings}
    # Two ledgers of one set were deleted before its metadata was saved, which the metadata cannot tell.
    assert kinds - {"newer-ledger"} <= {"beyond-the-end", "unsaved-schemas"}
    newer = sorted(finding.ledger_id or 0 for finding in report.findings if finding.kind == "newer-ledger")
    assert len(newer) == (2 if golden.name == "bookie-sorted" else 0)


def test_without_metadata_all_entries_are_there_under_no_name(golden: Path, disk: Bucket, tmp_path: Path) -> None:
    nameless = open_bucket(golden / "ledgers", cache_dir=str(tmp_path / "cache"))
    assert [topic.managed_ledger for topic in nameless.topics()] == [None]
    for ref in disk.catalog.refs():
        named, found = disk.ledger(ref.ledger_id), nameless.ledger(ref.ledger_id)
        # Nobody can tell that an open ledger ends before its newest entry.
        assert found.last_entry - named.last_entry in {0, 1}
        assert [one.data for one in found.read(0, named.last_entry)] == [
            one.data for one in named.read(0, named.last_entry)
        ]


def test_the_metadata_may_be_a_dump_that_is_kept_beside_a_bucket(golden: Path, disk: Bucket, tmp_path: Path) -> None:
    data = (golden / "dump.json.zst").read_bytes()
    kept = tmp_path / "tier" / kept_dump_key("c", 1, sha256(data).hexdigest()[:DIGITS])
    kept.parent.mkdir(parents=True)
    kept.write_bytes(data)
    for place in (str(kept), f"file://{kept}"):
        found = open_bucket(golden / "ledgers", {"metadata": place}, cache_dir=str(tmp_path / "cache"))
        assert list(found.catalog.refs()) == list(disk.catalog.refs())

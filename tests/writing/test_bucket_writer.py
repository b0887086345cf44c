"""The writer of a ledger of a bucket: whoever feeds it, the ledger appears whole, and the bucket hears of it."""

from pathlib import Path

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import LedgerExistsError, RefusedLedgerError
from ledgerfs.writing.admission import Admission, together
from ledgerfs.writing.bucket_writer import BucketWriter
from ledgerfs.writing.claims import IfExists
from ledgerfs.writing.sources import RecordBytes
from ledgerfs.writing.write import open_writer
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS
from tests.support.writes import records, wanted

ENTRIES = [frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i), b"%d" % i) for i in range(5)]
DATA = records(ENTRIES)
OTHER = "00000000-0000-4000-8000-000000000002"


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    found = open_bucket(f"file://{tmp_path}")
    assert not found.catalog.ledgers.size
    return found


def names(bucket: Bucket) -> set[str]:
    return {stat.key for page in bucket.raw_store.list_pages() for stat in page}


def test_bytes_and_entries_become_the_same_ledger_which_the_bucket_shows_at_once(bucket: Bucket) -> None:
    told = []
    with open_writer(Admission(bucket), wanted(1), "bytes") as writer:
        for at in range(0, len(DATA), 7):
            writer.feed(DATA[at : at + 7])
        writer.end_file()
        writer.commit()
    with open_writer(Admission(bucket), wanted(2, OTHER), "entries") as writer:
        writer.add_all(RecordBytes("entries", DATA), lambda *what: told.append(what))
        writer.commit()
    assert told[-1] == ("ledger 2", len(DATA), len(DATA))
    for ledger_id in (1, 2):
        assert [bytes(entry.data) for entry in bucket.ledger(ledger_id).read(0, 4)] == ENTRIES


def test_what_is_not_committed_or_ends_within_a_record_leaves_nothing(bucket: Bucket) -> None:
    with open_writer(Admission(bucket), wanted(), "left") as writer:
        writer.feed(DATA)
    with BucketWriter(bucket, wanted().new_ledger()) as writer:
        writer.feed(DATA[:-1])
        with pytest.raises(RefusedLedgerError, match="ends within entry 4"):
            writer.end_file()
    assert names(bucket) == set()


def test_a_rival_that_came_meanwhile_is_found_when_it_is_committed_or_when_all_of_a_call_is(bucket: Bucket) -> None:
    with open_writer(Admission(bucket), wanted(), "first") as writer:
        writer.feed(DATA)
        # Nobody looks for others here: it is for the caller to do so.
        with BucketWriter(bucket, wanted(uuid=OTHER).new_ledger()) as rival:
            rival.feed(DATA)
            rival.commit()
        with pytest.raises(LedgerExistsError, match=r"ledger 1 meanwhile.+Ours is removed again"):
            writer.commit()
    assert {name.removesuffix("-index") for name in names(bucket)} == {f"{OTHER}-ledger-1"}
    late = BucketWriter(bucket, wanted().new_ledger(), wanted().claim(IfExists.FAIL))
    late.feed(DATA)
    with pytest.raises(LedgerExistsError, match="somebody else"):
        _commit_together(bucket, late)
    assert {name.removesuffix("-index") for name in names(bucket)} == {f"{OTHER}-ledger-1"}


def _commit_together(bucket: Bucket, writer: BucketWriter) -> None:
    with together(bucket):
        writer.commit()
        assert len(names(bucket)) == 4

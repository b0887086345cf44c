"""`compare` finds whatever a copy lacks, has beside, or has otherwise, and nothing in a whole copy."""

import json
import shutil
from pathlib import Path

import pytest

from ledgerfs import Bucket, copy_ledgers, open_bucket
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.verification.compare import Kind, compare
from tests.support.invoked import run

PLAIN = "persistent://public/golden/plain"


@pytest.fixture
def copied(golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden / "bucket", tmp_path / "copy"))


def kinds(bucket: Bucket, other: Bucket, **options: bool) -> list[tuple[Kind, str, int | None]]:
    return [(one.kind, one.topic, one.ledger_id) for one in compare(bucket, other, **options)]


def data_of(folder: Path, ledger: int) -> Path:
    (found,) = folder.glob(f"*-ledger-{ledger}")
    return found


def test_a_whole_copy_has_no_differences(bucket: Bucket, copied: Path, tmp_path: Path) -> None:
    assert kinds(bucket, open_bucket(copied), with_bytes=True) == []
    assert run("compare", bucket.url, str(copied), "--bytes").stderr == b"no differences\n"
    # Blocks of another size hold the same entries.
    (tmp_path / "other").mkdir()
    copy_ledgers(open_bucket(copied), tmp_path / "other", block_size=6 << 20, topics=[PLAIN])
    found = kinds(open_bucket(copied), open_bucket(tmp_path / "other"), with_bytes=True)
    assert {kind for kind, topic, _ in found} == {Kind.MISSING}
    assert PLAIN not in {topic for _, topic, _ in found}


def test_lost_ledgers_are_missing_and_those_of_the_copy_alone_extra(bucket: Bucket, copied: Path) -> None:
    for path in copied.glob("*-ledger-84*"):
        path.unlink()
    data_of(copied, 123).unlink()
    lost = [(Kind.MISSING, PLAIN, 84), (Kind.MISSING, PLAIN, 123)]
    assert kinds(bucket, open_bucket(copied)) == lost
    # Of the copy's own half ledger nothing can be compared.
    back = kinds(open_bucket(copied), bucket)
    assert back == [(Kind.UNREADABLE, PLAIN, 123), (Kind.EXTRA, PLAIN, 84)]
    done = run("compare", bucket.url, str(copied), "--json", code=1)
    assert [(one["kind"], one["ledger_id"]) for one in json.loads(done.stdout)] == [("missing", 84), ("missing", 123)]
    assert done.stderr == b"2 missing\n"


def test_changed_bytes_are_found_by_reading(bucket: Bucket, copied: Path) -> None:
    path = data_of(copied, 26)
    data = bytearray(path.read_bytes())
    data[9000] ^= 1
    path.write_bytes(data)
    assert kinds(bucket, open_bucket(copied)) == []
    (one,) = compare(bucket, open_bucket(copied), with_bytes=True)
    assert (one.kind, one.ledger_id) == (Kind.DIFFERENT, 26)
    # Behind the header of the block of 128 bytes.
    assert one.reason == "byte 8872 of the .entries file differs"
    assert b"1 different" in run("compare", bucket.url, str(copied), "--bytes", code=1).stderr


def test_another_ledger_of_the_same_id_is_different(bucket: Bucket, copied: Path) -> None:
    for suffix in ("", "-index"):
        (own,) = copied.glob(f"*-ledger-26{suffix}")
        (other,) = copied.glob(f"*-ledger-84{suffix}")
        own.unlink()
        shutil.copy(other, own.with_name(other.name.replace("ledger-84", "ledger-26")))
    assert (Kind.DIFFERENT, PLAIN, 26) in kinds(bucket, open_bucket(copied))


def test_saved_schemas_are_compared(bucket: Bucket, copied: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(copied, tmp_path / "other"))
    for folder, kinds_saved in ((copied, ("STRING", "INT64")), (other, ("STRING", "INT32"))):
        versions = [SchemaVersion(i, SchemaInfo(kind), 1, source="http://x") for i, kind in enumerate(kinds_saved)]
        SavedSchemas(open_bucket(folder).raw_store).add(PLAIN, versions)
    (one,) = compare(open_bucket(copied), open_bucket(other))
    assert (one.kind, one.topic, one.is_schema) == (Kind.DIFFERENT, PLAIN, True)
    missing = list(compare(open_bucket(copied), bucket))
    assert [(one.kind, one.reason[-9:]) for one in missing] == [
        (Kind.MISSING, "version 0"),
        (Kind.MISSING, "version 1"),
    ]
    assert list(compare(bucket, open_bucket(copied))) == []


def test_damaged_ledgers_are_never_equal(bucket: Bucket, copied: Path, tmp_path: Path) -> None:
    data_of(copied, 26).write_bytes(data_of(copied, 26).read_bytes()[:-5])
    assert kinds(bucket, open_bucket(copied)) == [(Kind.MISSING, PLAIN, 26)]
    assert kinds(open_bucket(copied), bucket) == [(Kind.UNREADABLE, PLAIN, 26)]
    other = open_bucket(shutil.copytree(copied, tmp_path / "other"))
    assert kinds(open_bucket(copied), other, with_bytes=True) == [(Kind.UNREADABLE, PLAIN, 26)]

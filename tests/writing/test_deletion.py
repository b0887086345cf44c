"""A ledger that nobody will look for any more is gone, or its deletion is an error: a bucket that is away has no objects either."""

from pathlib import Path

import fsspec
import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import BucketNotFoundError, StoreError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.storage.folders.writes import LocalWrites
from ledgerfs.storage.opening import open_store
from ledgerfs.writing.deletion import remove_for_good
from tests.support.s3 import S3Server

KEY = LedgerKey("5c6fd36f-7ed6-4ce4-8e75-6ea7112fa730", 26, is_index=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tier"
    made.mkdir()
    for name in (KEY.data_key, KEY.index_key, "another"):
        (made / name).write_bytes(b"x")
    return made


def test_both_objects_go_and_a_second_time_there_is_nothing_to_do(folder: Path) -> None:
    for _ in range(2):
        remove_for_good(open_bucket(str(folder)), KEY)
        assert [one.name for one in folder.iterdir()] == ["another"]


def test_the_last_objects_of_a_bucket_go(folder: Path) -> None:
    (folder / "another").unlink()
    remove_for_good(open_bucket(str(folder)), KEY)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("is_there", [False, True], ids=["no folder", "what a share is mounted on"])
def test_a_folder_that_is_away(folder: Path, is_there: bool) -> None:
    bucket = open_bucket(str(folder))
    folder.rename(folder.with_name("away"))
    with pytest.raises(BucketNotFoundError):
        remove_for_good(bucket, KEY)
    if is_there:
        folder.mkdir()
        # Its objects may be in what is to be mounted there.
        with pytest.raises(BucketNotFoundError, match="not mounted"):
            remove_for_good(bucket, KEY)


def test_what_is_still_there_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalWrites, "delete", lambda *_: None)
    with pytest.raises(StoreError, match="still exists"):
        remove_for_good(open_bucket(str(folder)), KEY)


def test_an_answer_that_there_is_no_such_bucket_reports_nothing_of_an_object(s3: S3Server) -> None:
    s3.make_bucket("there", {})
    open_store(fsspec.filesystem("s3", **s3.options), "there").writes.delete("nothing")
    with pytest.raises(BucketNotFoundError, match="no such bucket"):
        open_store(fsspec.filesystem("s3", **s3.options), "not-there").writes.delete("nothing")

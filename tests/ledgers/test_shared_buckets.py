"""Buckets that others use, too: no ledger at its place is passed over, and others' folders cost few requests, and no command."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import AccessDeniedError, UnreadableObjectsWarning
from ledgerfs.upkeep.repair import plan_repair
from ledgerfs.upkeep.verification import verify
from tests.support.each import for_each
from tests.support.ledgers import offload, put_in_folder
from tests.support.mapfile_buckets import mapfile, messages, put_file, put_mapfiles
from tests.support.odd_s3 import OddS3, Refusal, Request

TOPIC = "persistent://public/default/orders"
DENIED = Refusal(403, "AccessDenied", "Access Denied")
FOREIGN = {
    "files": [f"lake/part-{number:05}" for number in range(1500)],
    "partitions": [f"lake/table/date={date}/hour={hour}/part" for date in range(10) for hour in range(24)],
    "hashes": [f"lake/{one:02x}/{two:02x}/x" for one in range(16) for two in range(16)],
    "deep": [f"lake/{'deep/' * 40}x"],
}
"""Trees of others."""


@for_each("name", FOREIGN)
def test_a_base_behind_any_foreign_tree_is_found(name: str, tmp_path: Path) -> None:
    for key in FOREIGN[name]:
        put_file(tmp_path / name / key, b"")
    base = f"{Path(FOREIGN[name][0]).parent}/zz"
    url = put_mapfiles(tmp_path / name, mapfile(messages(1, 5), 1), base=base)
    assert open_bucket(url).topic(TOPIC).count() == 5


def beside_blobs(foreign: list[str], **quirks: Any) -> OddS3:
    """Return a store of a ledger of the S3 offloader, one of the filesystem offloader, and others' objects, whose pages have 1,000 keys."""
    blob = offload(messages(9, 3), 9)
    objects = {**blob.objects, **mapfile(messages(1, 5), 1).objects, **dict.fromkeys(foreign, b"")}
    return OddS3(objects, {}, page_size=1000, **quirks)


def test_foreign_folders_beside_ledgers_are_not_listed_to_their_ends() -> None:
    """What is listed is one level of each folder, down to where tenants would have topics."""
    foreign = [f"lake/table{one}/part{two}/x/{key:04}" for one in range(3) for two in range(3) for key in range(3000)]
    with beside_blobs(foreign) as store:
        bucket = open_bucket("s3://shared", store.options)
        assert bucket.topic(TOPIC).count() == 8
        # The top; "lake/", its tables and parts; "public/" and "public/default/", and then all of "public/".
        assert store.listings == 1 + (1 + 3 + 9) + (2 + 1)


def test_a_folder_of_many_folders_beside_ledgers_is_listed_to_its_end() -> None:
    """A page of keys costs less than a request for each folder."""
    foreign = [f"lake/date={date:03}/hour={hour:02}/part" for date in range(100) for hour in range(24)]
    with beside_blobs(foreign) as store:
        assert open_bucket("s3://shared", store.options).topic(TOPIC).count() == 8
        # Of "lake/" one level of itself and of its first folders, and then 2,400 keys.
        assert store.listings <= 1 + (1 + 5 + 3) + (2 + 1)


def test_a_denied_folder_beside_ledgers_is_a_warning_for_readers_and_an_error_for_writers() -> None:
    def refuses(request: Request) -> Refusal | None:
        return DENIED if request.query.get("prefix", "").startswith("lake/") else None

    with beside_blobs(["lake/table/x/1"], refuses=refuses) as store:
        bucket = open_bucket("s3://shared", store.options)
        with pytest.warns(UnreadableObjectsWarning, match="lake/"):
            assert bucket.topic(TOPIC).count() == 8
        # A cached catalog is never made of such a listing.
        with pytest.warns(UnreadableObjectsWarning, match="lake/"):
            assert open_bucket("s3://shared", store.options).topic(TOPIC).count() == 8
        found = [one for one in verify(bucket, quick=True).findings if one.kind == "unlisted-folder"]
        assert [one.key for one in found] == ["lake/"]
        with pytest.raises(AccessDeniedError, match="nothing is written before it can be read"):
            plan_repair(bucket)


@pytest.fixture
def deny(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what denies the listing of one folder."""
    scan, denied = os.scandir, [""]

    def scandir(path: Any) -> Any:
        if denied[0] and str(path).rstrip("/").endswith(denied[0]):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return lambda name: denied.__setitem__(0, name)


def test_a_denied_folder_of_a_bucket_without_ledgers_at_its_top_is_an_error(
    deny: Callable[[str], None], tmp_path: Path
) -> None:
    for name in ("part-1", "log/1"):
        put_file(tmp_path / "lake/table" / name, b"")
    made = mapfile(messages(1, 5), 1)
    url = put_mapfiles(tmp_path, made, base="lake/table/log")
    deny("lake/table/log")
    with pytest.raises(AccessDeniedError, match=r"^lake/table/log/: cannot list a folder that may contain ledgers"):
        open_bucket(url).topics()
    deny("")
    assert open_bucket(url).topic(TOPIC).count() == 5


@pytest.mark.usefixtures("deny")
def test_a_link_where_a_namespace_may_be_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "tier").mkdir()
    put_in_folder(tmp_path / "tier", offload(messages(9, 3), 9))
    put_mapfiles(tmp_path / "elsewhere", mapfile(messages(1, 5), 1))
    (tmp_path / "tier/public").mkdir()
    (tmp_path / "tier/public/default").symlink_to(tmp_path / "elsewhere/public/default")
    with pytest.warns(UnreadableObjectsWarning, match="public/default"):
        assert open_bucket(str(tmp_path / "tier")).topic(TOPIC).count() == 3

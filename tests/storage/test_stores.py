"""Object stores: what each promises, over real S3, a folder and memory."""

import contextlib
import os
import pickle
import time
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    BucketNotFoundError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreError,
    StoreUnreachableError,
)
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.opening import open_store
from tests.support.s3 import CREDENTIALS, FaultProxy, S3Server

BODY = bytes(range(256)) * 40


def stats(store: ObjectStore) -> dict[str, int]:
    return {stat.key: stat.size for page in store.list_pages() for stat in page}


def version_of(store: ObjectStore, key: str) -> str:
    return next(stat.version for page in store.list_pages() for stat in page if stat.key == key)


@pytest.fixture(params=["file", "memory", "s3", "s3-prefix"])
def filled(
    request: pytest.FixtureRequest, tmp_path: Path, s3: S3Server, s3_bucket: str
) -> tuple[ObjectStore, Any, str]:
    """A store with the objects ``a`` and ``b``, the filesystem under it, and its root."""
    if request.param == "file":
        fs, root = fsspec.filesystem("file", auto_mkdir=True), str(tmp_path / "bucket")
    elif request.param == "memory":
        fs, root = fsspec.filesystem("memory"), f"/{s3_bucket}"
    else:
        fs = fsspec.filesystem("s3", **s3.options)
        root = s3_bucket if request.param == "s3" else f"{s3_bucket}/some/prefix"
    fs.pipe_file(f"{root}/a", BODY)
    fs.pipe_file(f"{root}/b", b"")
    fs.pipe_file(f"{root}/folder/c", b"c")
    return open_store(fs, root), fs, root


def test_lists_objects_and_folders_of_one_level(filled: tuple[ObjectStore, Any, str]) -> None:
    store, _, _ = filled
    assert stats(store) == {"a": len(BODY), "b": 0, "folder/": 0}


def test_reads_exactly_what_is_asked(filled: tuple[ObjectStore, Any, str]) -> None:
    store, _, _ = filled
    version = version_of(store, "a")
    for start, end in [(0, len(BODY)), (0, 1), (100, 5000), (len(BODY) - 1, len(BODY)), (7, 7)]:
        assert store.read(ReadRequest("a", start, end, version)) == BODY[start:end]
        assert store.read(ReadRequest("a", start, end)) == BODY[start:end]


@pytest.mark.long
def test_reads_many_in_order_with_errors_in_their_places(filled: tuple[ObjectStore, Any, str]) -> None:
    store, _, _ = filled
    requests = [ReadRequest("a", i, i + 3) for i in range(600)]
    requests[550] = ReadRequest("missing", 0, 3)
    outcomes = list(store.read_many(requests))
    assert isinstance(outcomes[550], ObjectNotFoundError)
    assert outcomes[550].key == "missing"
    assert [outcome for i, outcome in enumerate(outcomes) if i != 550] == [
        BODY[i : i + 3] for i in range(600) if i != 550
    ]


def test_sends_the_same_bytes_to_a_descriptor(filled: tuple[ObjectStore, Any, str], tmp_path: Path) -> None:
    store, _, _ = filled
    for flags in (os.O_WRONLY, os.O_WRONLY | os.O_APPEND):
        target = tmp_path / "out"
        descriptor = os.open(target, flags | os.O_CREAT | os.O_TRUNC)
        store.send(ReadRequest("a", 10, 9000, version_of(store, "a")), descriptor)
        os.close(descriptor)
        assert target.read_bytes() == BODY[10:9000]
        target.unlink()


def test_a_range_behind_the_end_is_an_error_not_a_short_body(filled: tuple[ObjectStore, Any, str]) -> None:
    store, _, _ = filled
    with pytest.raises(StoreError) as caught:
        store.read(ReadRequest("a", len(BODY) - 10, len(BODY) + 10))
    assert caught.value.key == "a"


def test_head_tells_size_and_the_version_of_the_listing(filled: tuple[ObjectStore, Any, str]) -> None:
    store, _, _ = filled
    head = store.head("a")
    assert (head.stat.key, head.stat.size, head.stat.version) == ("a", len(BODY), version_of(store, "a"))
    with pytest.raises(ObjectNotFoundError):
        store.head("missing")


def test_survives_pickling(filled: tuple[ObjectStore, Any, str]) -> None:
    store, _, _ = filled
    assert pickle.loads(pickle.dumps(store)).read(ReadRequest("a", 3, 9)) == BODY[3:9]


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_a_replaced_object_is_stale_and_reopening_works(
    kind: str, tmp_path: Path, s3: S3Server, s3_bucket: str
) -> None:
    fs, root = (
        (fsspec.filesystem("file"), str(tmp_path))
        if kind == "file"
        else (fsspec.filesystem("s3", **s3.options), s3_bucket)
    )
    fs.pipe_file(f"{root}/a", b"old bytes")
    store = open_store(fs, root)
    before = version_of(store, "a")
    fs.pipe_file(f"{root}/a", b"new bytes")
    with pytest.raises(StaleObjectError):
        store.read(ReadRequest("a", 0, 9, before))
    assert store.read(ReadRequest("a", 0, 9, version_of(store, "a"))) == b"new bytes"


def test_an_object_that_shrank_in_a_store_without_versions_in_reads_is_stale() -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/shrank/a", BODY)
    store = open_store(fs, "/shrank")
    before = version_of(store, "a")
    fs.pipe_file("/shrank/a", BODY[:10])
    with pytest.raises(StaleObjectError):
        store.read(ReadRequest("a", 0, 20, before))


@pytest.mark.parametrize("fs_name", ["file", "memory"])
def test_a_missing_folder_is_named(fs_name: str) -> None:
    with pytest.raises(BucketNotFoundError, match="no such bucket or folder"):
        list(open_store(fsspec.filesystem(fs_name), "/nowhere/at/all").list_pages())


def test_a_missing_s3_bucket_is_named(s3: S3Server) -> None:
    with pytest.raises(BucketNotFoundError, match="s3://nowhere-at-all"):
        list(open_store(fsspec.filesystem("s3", **s3.options), "nowhere-at-all").list_pages())


@pytest.mark.long
def test_s3_pages_of_a_long_listing_are_all_read(s3: S3Server, s3_bucket: str) -> None:
    for i in range(1001):
        s3.client.put_object(Bucket=s3_bucket, Key=f"{i:05}", Body=b"")
    pages = list(open_store(fsspec.filesystem("s3", **s3.options), s3_bucket).list_pages())
    assert len(pages) > 1
    assert sorted(stat.key for page in pages for stat in page) == [f"{i:05}" for i in range(1001)]


def test_s3_without_credentials_says_so(s3: S3Server) -> None:
    store = open_store(fsspec.filesystem("s3", endpoint_url=s3.endpoint), "golden")
    with pytest.raises(AccessDeniedError, match="credentials"):
        list(store.list_pages())


def test_user_metadata_of_s3_is_read_as_it_is(s3: S3Server, s3_bucket: str) -> None:
    s3.client.put_object(Bucket=s3_bucket, Key="a", Body=b"1", Metadata={"under_score": "x", "role": "data"})
    assert open_store(fsspec.filesystem("s3", **s3.options), s3_bucket).head("a").metadata == {
        "under_score": "x",
        "role": "data",
    }


def test_folders_keep_no_user_metadata(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    assert open_store(fsspec.filesystem("file"), str(tmp_path)).head("a").metadata is None


def test_no_repr_shows_credentials(s3: S3Server, s3_bucket: str) -> None:
    store = open_store(fsspec.filesystem("s3", **s3.options), s3_bucket)
    assert CREDENTIALS["secret"] not in repr(store) + repr(store._handle) + store.url
    memory = open_store(fsspec.filesystem("memory"), "/x")
    assert "@" not in memory.url


@pytest.mark.parametrize("answered_before", [False, True])
def test_a_store_that_is_not_there_is_unreachable_soon(
    answered_before: bool, monkeypatch: pytest.MonkeyPatch, s3_bucket: str, proxy: FaultProxy
) -> None:
    monkeypatch.setattr("ledgerfs.storage.retries._FIRST_CONTACT_SECONDS", 0.5)
    fs = fsspec.filesystem("s3", **proxy.options)
    warm, cold = open_store(fs, s3_bucket), open_store(fs, s3_bucket)
    list(warm.list_pages())
    store = warm if answered_before else cold
    proxy.stop()
    if answered_before:
        monkeypatch.setenv("LEDGERFS_STORE_TIMEOUT", "3")
    began = time.monotonic()
    with pytest.raises(StoreUnreachableError):
        list(store.list_pages())
    seconds = time.monotonic() - began
    # A store that answered before is waited for: it may be restarting. Another is not, as long as it might be.
    assert seconds > 1.0 if answered_before else seconds < 120


def test_reads_begin_together_and_their_futures_tell_bytes_or_our_error(filled: tuple[ObjectStore, Any, str]) -> None:
    store, _, _ = filled
    version = version_of(store, "a")
    futures = [store.start(ReadRequest("a", i, i + 100, version)) for i in range(40)]
    assert [future.result() for future in futures] == [BODY[i : i + 100] for i in range(40)]
    error = store.start(ReadRequest("missing", 5, 9)).exception()
    assert isinstance(error, ObjectNotFoundError)
    assert (error.key, error.offset) == ("missing", 5)
    assert store.start(ReadRequest("a", 7, 7)).result() == b""


def test_a_forked_child_begins_reads_of_its_own(filled: tuple[ObjectStore, Any, str]) -> None:
    store, _, _ = filled
    assert store.start(ReadRequest("a", 0, 9)).result() == BODY[:9]
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os._exit(0 if store.start(ReadRequest("a", 3, 9)).result(timeout=60) == BODY[3:9] else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

"""Our stores, and the cache in front of them, keep every promise that `ledgerfs.testing` tests."""

import errno
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from ledgerfs.cache.block_cache import BlockCache
from ledgerfs.cache.bucket_store import BucketStore
from ledgerfs.storage.object_store import ObjectStore, RawStore
from ledgerfs.storage.opening import open_store
from ledgerfs.testing import FilesystemPlace, FolderPlace, StorePlace, StoreTests, WritableStoreTests
from tests.support.s3 import S3Server
from tests.support.stores import LateFileSystem


class S3Place:
    """A bucket of a real server, or a folder in one, which boto fills."""

    def __init__(self, server: S3Server, root: str) -> None:
        self._server = server
        self._bucket, _, folder = root.partition("/")
        self._prefix = f"{folder}/" if folder else ""
        self.store: RawStore = open_store(fsspec.filesystem("s3", **server.options), root)

    def put(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> None:
        self._server.client.put_object(
            Bucket=self._bucket, Key=self._prefix + key, Body=data, Metadata=dict(metadata or {})
        )

    def remove(self, key: str) -> None:
        self._server.client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def objects(self) -> dict[str, bytes]:
        client, found = self._server.client, {}
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
        for one in (one for page in pages for one in page.get("Contents", [])):
            body = client.get_object(Bucket=self._bucket, Key=one["Key"])["Body"].read()
            found[one["Key"].removeprefix(self._prefix)] = body
        return found

    def nowhere(self) -> ObjectStore:
        return open_store(fsspec.filesystem("s3", **self._server.options), "nowhere-at-all")


class TestFolder(WritableStoreTests):
    many_objects = 25

    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderPlace:
        monkeypatch.setattr("ledgerfs.storage.folders.store._PAGE", 10)
        return FolderPlace(tmp_path / "bucket")


class TestFolderWithoutLinks(WritableStoreTests):
    """A folder of a file system without hard links: files get their names by being renamed."""

    many_objects = 10
    creates_at_once = False

    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderPlace:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr("ledgerfs.storage.folders.writes.os.link", refuse)
        return FolderPlace(tmp_path / "bucket")


class TestS3(WritableStoreTests):
    many_objects = 25
    # The server looks whether there is an object, and then writes.
    creates_at_once = False

    @pytest.fixture
    def place(self, s3: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> S3Place:
        """A folder in a bucket; `TestCache` has a bucket of its own."""
        monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
        return S3Place(s3, f"{s3_bucket}/some/prefix")


class TestMemory(WritableStoreTests):
    shows_half_written = True
    creates_at_once = False
    reports_unfinished = False

    @pytest.fixture
    def place(self) -> FilesystemPlace:
        return FilesystemPlace(fsspec.filesystem("memory"), f"/{uuid.uuid4()}")


class TestAnyFilesystem(WritableStoreTests):
    """One that fsspec makes of another: nothing is known of what it can do."""

    reads_by_version = False
    shows_half_written = True
    creates_at_once = False
    reports_unfinished = False

    @pytest.fixture
    def place(self) -> FilesystemPlace:
        folder = f"/{uuid.uuid4()}"
        MemoryFileSystem().makedirs(folder)
        return FilesystemPlace(fsspec.filesystem("dir", path=folder, fs=MemoryFileSystem()), "/bucket")


class TestLateFilesystem(WritableStoreTests):
    """One whose files show when they are closed, with user metadata, as those of clouds."""

    creates_at_once = False
    reports_unfinished = False

    @pytest.fixture
    def place(self, monkeypatch: pytest.MonkeyPatch) -> FilesystemPlace:
        kinds = ((LateFileSystem.__module__, "LateFileSystem"),)
        monkeypatch.setattr("ledgerfs.storage.generic.writes._WITH_METADATA", kinds)
        return FilesystemPlace(LateFileSystem(), f"/{uuid.uuid4()}")


class CachedPlace:
    """A place seen through the cache."""

    def __init__(self, place: Any) -> None:
        self._place = place
        self.store = BucketStore(place.store, cache=BlockCache(1 << 20))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)


class TestCache(StoreTests):
    many_objects = 10

    @pytest.fixture(params=["folder", "s3"])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path, s3: S3Server, s3_bucket: str) -> StorePlace:
        return CachedPlace(FolderPlace(tmp_path / "bucket") if request.param == "folder" else S3Place(s3, s3_bucket))

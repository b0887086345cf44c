"""The folder of a lake, in any store of fsspec: reading, moving and removing objects by their paths below it.

The driver itself writes small objects, each of which is replaced at once; `Lake.create` replaces none.
"""

import glob
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from uuid import uuid4

from ledgerfs.errors import BucketNotFoundError, NotFoundError, ObjectNotFoundError
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.failures import translate
from ledgerfs.storage.fsspec_handle import FsspecHandle
from ledgerfs.storage.object_writes import Upload
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.url_filesystem import filesystem_of

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Lake:
    """A folder of a filesystem. All methods raise `AccessDeniedError` and `StoreError`, with the object."""

    fs: Any
    root: str
    is_local: bool

    @classmethod
    def of(cls, target: Storage) -> Self:
        """Open a folder, which need not exist; raises `UnusableUrlError` if no filesystem can open it."""
        fs, root = filesystem_of(target.url, target.filesystem_options)
        handle = FsspecHandle.of(fs)
        return cls(fs, root.rstrip("/"), handle.is_kind("fsspec.implementations.local", "LocalFileSystem"))

    def path(self, name: str) -> str:
        """Return the filesystem's own path of a path below the folder."""
        return f"{self.root}/{name}" if name else self.root

    def read(self, name: str) -> bytes | None:
        """Return the bytes of an object; None if there is none."""
        with self._naming(name):
            try:
                data: bytes = self.fs.cat_file(self.path(name))
            except FileNotFoundError:
                return None
            return data

    def write(self, name: str, data: bytes) -> None:
        """Write an object, replacing an existing one at once."""
        path = self.path(name)
        with self._naming(name):
            if not self.is_local:
                self.fs.pipe_file(path, data)
                return
            self._make_folder_of(name)
            part = f"{path}.{uuid4().hex}.part"
            with open(part, "xb") as file:  # noqa: PTH123  (a path of fsspec's)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)  # noqa: PTH105
            _sync(os.path.dirname(path))  # noqa: PTH120

    def create(self, folder: str, name: str, data: bytes) -> None:
        """Write an object; raises `ObjectExistsError` if there is one, and `BucketNotFoundError` if the folder cannot be made."""
        try:
            self._make_folder_of(f"{folder}/{name}")
            open_store(self.fs, self.path(folder)).writes.put(name, data, {})
        except NotFoundError as error:
            raise BucketNotFoundError(
                "the folder cannot be made: there is nothing to make it in", key=without_credentials(self.root)
            ) from error

    def uploads(self, folder: str, part_size: int) -> Callable[[str], Upload]:
        """Make a folder, and return a function that begins to write a file of a name there."""
        self._make_folder_of(f"{folder}/x")
        writes = open_store(self.fs, self.path(folder)).writes
        return lambda name: writes.begin_upload(name, {}, part_size)

    def files(self, folder: str = "") -> dict[str, int]:
        """Return the bytes of each object in a folder and all folders below it, by their paths below the lake."""
        with self._naming(folder):
            self.fs.invalidate_cache()
            try:
                found = self.fs.find(self.path(folder), detail=True)
            except FileNotFoundError:
                return {}
        # fsspec gives local paths without a trailing slash, and others without a scheme, like the root.
        start = len(self.root) + 1
        return {path[start:]: int(info.get("size") or 0) for path, info in found.items() if info["type"] != "directory"}

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, sorted."""
        with self._naming(folder):
            self.fs.invalidate_cache()
            try:
                found = self.fs.ls(self.path(folder), detail=True)
            except FileNotFoundError:
                return []
        return sorted(str(one["name"]).rstrip("/").rpartition("/")[2] for one in found if one["type"] == "directory")

    def move(self, source: str, name: str) -> None:
        """Rename an object, in the store. After an interruption it may have both names."""
        with self._naming(name):
            if self.is_local:
                self._make_folder_of(name)
                os.replace(self.path(source), self.path(name))  # noqa: PTH105
            else:
                self.fs.cp_file(self.path(source), self.path(name))
                self.fs.rm_file(self.path(source))

    def remove(self, name: str) -> None:
        """Remove an object; a missing one is no error."""
        with self._naming(name), suppress(FileNotFoundError):
            self.fs.rm_file(self.path(name))

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with everything in it; a missing one is no error."""
        with self._naming(folder):
            self.fs.invalidate_cache()
            with suppress(FileNotFoundError):
                # Only the local filesystem takes a path literally.
                path = self.path(folder) if self.is_local else glob.escape(self.path(folder))
                self.fs.rm(path, recursive=True)

    def _make_folder_of(self, name: str) -> None:
        """Make the folder of a file if the store has folders; object stores would make a bucket."""
        if self.is_local:
            with self._naming(name):
                os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)  # noqa: PTH103, PTH120

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Turn a filesystem's exceptions into our errors."""
        key = without_credentials(self.path(name))
        try:
            yield
        except Exception as error:
            raise translate(error, key) from error


def missing(lake: Lake, name: str) -> ObjectNotFoundError:
    """Return the error for a file that somebody has removed."""
    return ObjectNotFoundError(
        "somebody has removed this file of the export while it was being finished",
        key=without_credentials(lake.path(name)),
    )


def _sync(folder: str) -> None:
    """Sync the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

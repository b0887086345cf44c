"""A store to test, and a second way to its objects, through which the tests act as another client."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.object_store import ObjectStore, RawStore
from ledgerfs.storage.opening import open_store


class StorePlace(Protocol):
    """An empty bucket, or a folder in one, for one test."""

    @property
    def store(self) -> ObjectStore:
        """The store that is tested."""
        ...

    def put(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> None:
        """Create or replace an object, without the store."""
        ...

    def remove(self, key: str) -> None:
        """Delete an object, without the store."""
        ...

    def objects(self) -> dict[str, bytes]:
        """Return every object, also in folders, without the store."""
        ...

    def nowhere(self) -> ObjectStore:
        """Return a store of the same kind over a bucket or folder that does not exist."""
        ...


class WritablePlace(StorePlace, Protocol):
    """A place with a writable store."""

    @property
    def store(self) -> RawStore:
        """The store that is tested."""
        ...


class FilesystemPlace:
    """A place in any fsspec filesystem, which itself puts and removes objects."""

    def __init__(self, fs: Any, root: str) -> None:  # noqa: ANN401  (fsspec is not typed)
        self._fs = fs
        self._root = root.rstrip("/")
        fs.makedirs(self._root, exist_ok=True)
        self.store = open_store(fs, self._root)

    def put(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> None:  # noqa: ARG002
        """Write an object; fsspec does not support user metadata."""
        path = f"{self._root}/{key}"
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._fs.pipe_file(path, data)

    def remove(self, key: str) -> None:
        """Delete an object."""
        self._fs.rm_file(f"{self._root}/{key}")

    def objects(self) -> dict[str, bytes]:
        """Return every object by key."""
        self._fs.invalidate_cache()
        found = self._fs.find(self._root)
        skip = len(self._root.strip("/")) + 1
        return {path.strip("/")[skip:]: self._fs.cat_file(path) for path in found}

    def nowhere(self) -> RawStore:
        """Return a store over a folder beside this one."""
        return open_store(self._fs, f"{self._root}-that-is-not-there")


class FolderPlace:
    """A place in a local folder; replaces an object by another file, as other programs do."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.store = LocalStore(str(folder))

    def put(self, key: str, data: bytes, metadata: Mapping[str, str] | None = None) -> None:  # noqa: ARG002
        """Write a file; folders do not store user metadata."""
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        # A file that is overwritten in place may have the same inode, size and time.
        other = self._folder.with_name(f"{self._folder.name}-next")
        other.write_bytes(data)
        other.replace(path)

    def remove(self, key: str) -> None:
        """Delete a file."""
        (self._folder / key).unlink()

    def objects(self) -> dict[str, bytes]:
        """Return every object by key."""
        files = (path for path in self._folder.rglob("*") if path.is_file())
        return {path.relative_to(self._folder).as_posix(): path.read_bytes() for path in files}

    def nowhere(self) -> LocalStore:
        """Return a store over a folder beside this one."""
        return LocalStore(f"{self._folder}-that-is-not-there")

"""Object stores over fsspec: any filesystem, with shorter paths for S3 and local folders."""

from typing import Any

from ledgerfs.errors import InvalidOptionError
from ledgerfs.storage.folders.files import FOLLOW_LINKS
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.fsspec_handle import FsspecHandle
from ledgerfs.storage.object_store import RawStore

__all__ = ["open_store"]


def open_store(fs: Any, root: str) -> RawStore:  # noqa: ANN401  (fsspec is not typed)
    """Return the store over folder ``root`` of an fsspec filesystem; raises `InvalidOptionError` for one of ours that makes no sense."""
    handle = FsspecHandle.of(fs)
    root = root.rstrip("/")
    if handle.is_kind("s3fs.core", "S3FileSystem"):
        # What this and the last one import is of no use to who opens a folder.
        from ledgerfs.storage.s3.store import S3Store

        return S3Store(handle, root)
    if handle.is_kind("fsspec.implementations.local", "LocalFileSystem"):
        return LocalStore(root or "/", follow_links=_follows_links(handle))
    from ledgerfs.storage.generic.store import FsspecStore

    return FsspecStore(handle, root)


def _follows_links(handle: FsspecHandle) -> bool:
    """Return what a user says of links in a folder, which fsspec takes and passes over."""
    said = handle.options.get(FOLLOW_LINKS, False)
    if not isinstance(said, bool):
        raise InvalidOptionError("true or false", key=f"{FOLLOW_LINKS}={said}")
    return said

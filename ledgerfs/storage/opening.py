"""Choose the object store for an fsspec filesystem: S3, local folder, or generic."""

from typing import Any

from ledgerfs.errors import InvalidOptionError
from ledgerfs.storage.folders.files import FOLLOW_LINKS
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.fsspec_handle import FsspecHandle
from ledgerfs.storage.object_store import RawStore

__all__ = ["open_store"]


def open_store(fs: Any, root: str, *, is_private: bool = False) -> RawStore:  # noqa: ANN401  (fsspec is not typed)
    """Return the store over folder ``root`` of an fsspec filesystem; raises `InvalidOptionError` for an invalid option of ledgerfs.

    With ``is_private``, only the owner can read files that are written to a local folder; other stores set their own permissions.
    """
    handle = FsspecHandle.of(fs)
    root = root.rstrip("/")
    if handle.is_kind("s3fs.core", "S3FileSystem"):
        # This import, and that of the generic store, are slow; folders need neither.
        from ledgerfs.storage.s3.store import S3Store

        return S3Store(handle, root)
    if handle.is_kind("fsspec.implementations.local", "LocalFileSystem"):
        return LocalStore(root or "/", follow_links=_follows_links(handle), is_private=is_private)
    from ledgerfs.storage.generic.store import FsspecStore

    return FsspecStore(handle, root)


def _follows_links(handle: FsspecHandle) -> bool:
    """Return the option to follow links in a folder, which fsspec accepts and ignores."""
    said = handle.options.get(FOLLOW_LINKS, False)
    if not isinstance(said, bool):
        raise InvalidOptionError("expected true or false", key=f"{FOLLOW_LINKS}={said}")
    return said

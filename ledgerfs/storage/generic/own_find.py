"""Whether a filesystem of fsspec lists all below a folder in a way of its own, a few requests for any number of folders, or walks."""

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem


def has_own_find(fs: AbstractFileSystem) -> bool:
    """Return whether it does; of one that hands on to another, whether that one does."""
    while isinstance(inner := getattr(fs, "fs", None), AbstractFileSystem):
        fs = inner
    if isinstance(fs, AsyncFileSystem):
        return type(fs)._find is not AsyncFileSystem._find  # noqa: SLF001  (fsspec's word for what a store implements)
    return type(fs).find is not AbstractFileSystem.find

"""The tree of a bucket, and its file formats. Independent of fsspec's user API, FUSE and Spark."""

from typing import TYPE_CHECKING

from ledgerfs.exports import lazy_exports

__all__ = ["tree_of"]

if TYPE_CHECKING:
    from ledgerfs.vfs.tree import tree_of

__getattr__, __dir__ = lazy_exports(__name__, {"tree_of": "ledgerfs.vfs.tree"})

"""Remove ledgers from a bucket that may have other writers, and report ledgers that still exist afterwards."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import NotFoundError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.vfs.target import removable
from ledgerfs.vfs.tree import Node, Tree, tree_of
from ledgerfs.writing.deletion import remove_ledger


@dataclass(frozen=True, slots=True)
class LeftLedger:
    """A ledger that is still at a removed path, or in a removed directory.

    Attributes
    ----------
    is_new
        Whether another writer added it meanwhile; otherwise it is a further copy of a removed ledger, which now has its name.

    """

    path: str
    ref: LedgerRef
    is_new: bool

    def __str__(self) -> str:
        what = "a ledger that another writer has added" if self.is_new else "another copy of the ledger"
        return f"{self.path} still exists: {what}, {self.ref.key}"


@dataclass(frozen=True, slots=True)
class Removal:
    """Ledgers to remove, from one listing.

    Attributes
    ----------
    keys
        The names of their objects, unique for each ledger.
    directories
        Paths below which no ledger may be left.
    before
        The listing.

    """

    keys: tuple[LedgerKey, ...]
    paths: tuple[str, ...]
    directories: tuple[str, ...]
    before: Catalog


def chosen(bucket: Bucket, paths: Sequence[str], directories: Iterable[str] = ()) -> Removal:
    """Choose the ledgers at paths; raises as `removable`.

    All paths must be in the last listing, so the caller must list the bucket before (`Bucket.refresh`). Copies have that listing's names.
    """
    tree = tree_of(bucket)
    keys = dict.fromkeys(removable(tree, path) for path in paths)
    return Removal(tuple(keys), tuple(paths), tuple(directories), tree.catalog)


def remove(bucket: Bucket, removals: Sequence[Removal], own: Collection[LedgerKey] = ()) -> list[LeftLedger]:
    """Delete chosen ledgers; return ledgers that a new listing contains at their paths, or below directories, except ``own``."""
    for key in dict.fromkeys(key for one in removals for key in one.keys):
        remove_ledger(bucket, key)
    bucket.refresh()
    tree = tree_of(bucket)
    left = (ledger for one in removals for ledger in _left(one.before, tree, one.paths, one.directories))
    return [one for one in left if LedgerKey(one.ref.uuid, one.ref.ledger_id, is_index=False) not in own]


def remove_ledgers(bucket: Bucket, paths: Sequence[str], directories: Iterable[str] = ()) -> list[LeftLedger]:
    """Delete the ledgers at paths (`chosen`); return ledgers that a new listing contains there, or below ``directories``.

    Raises as `removable`, before it deletes anything.
    """
    return remove(bucket, [chosen(bucket, paths, directories)])


def _left(before: Catalog, tree: Tree, paths: Iterable[str], directories: Iterable[str]) -> Iterable[LeftLedger]:
    seen: set[str] = set()
    for node in [*_files(tree, paths), *(one for path in directories for one in _files_below(tree, path))]:
        if node.ref is not None and node.path not in seen:
            seen.add(node.path)
            known = {ref.uuid for ref in before.copies_of(node.ref.managed_ledger, node.ref.ledger_id)}
            yield LeftLedger(node.path, node.ref, node.ref.uuid not in known)


def _files(tree: Tree, paths: Iterable[str]) -> Iterable[Node]:
    for path in paths:
        try:
            yield tree.node(path)
        except NotFoundError:
            continue


def _files_below(tree: Tree, path: str) -> Iterable[Node]:
    try:
        yield from tree.walk(path)
    except NotFoundError:
        return

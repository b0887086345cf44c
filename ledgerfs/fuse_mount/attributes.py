"""The attributes of a path of the tree, as ``stat`` shows them."""

import hashlib
import stat
from dataclasses import dataclass

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.vfs.tree import Node

BLOCK_BYTES = 1 << 20
"""Preferred read size of tools in bytes (``st_blksize``)."""

_FILE, _DIRECTORY = stat.S_IFREG, stat.S_IFDIR


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a file or a directory.

    Attributes
    ----------
    inode
        The same for the same path, in every mount of the bucket.
    size
        Bytes.
    changed_ms, created_ms
        When the ledger was complete in the bucket, and created in BookKeeper; ms since 1970 UTC. 0 for directories.
    is_estimate
        Whether the size is an estimate, since the file is not materialized yet, or cannot be opened. If ``stat`` failed for such a file,
        tools would treat it as missing: DuckDB's patterns would skip it silently, while it reports a failing ``open``.

    """

    inode: int
    is_directory: bool
    size: int
    changed_ms: int = 0
    created_ms: int = 0
    is_estimate: bool = False

    def mode(self, *, is_writable: bool) -> int:
        """Return type and permissions: all users may read; in a writable mount the owner may add files to directories."""
        if self.is_directory:
            return _DIRECTORY | (0o755 if is_writable else 0o555)
        return _FILE | 0o444


def attributes_of(node: Node) -> Attributes:
    """Return the attributes of a node of the tree."""
    if node.is_directory:
        return directory(node.path)
    changed_ms, created_ms = node.times_ms
    # Tools do not open an empty file.
    size = max(1, node.estimate) if node.size is None else node.size
    return Attributes(inode_of(node.path), False, size, changed_ms, created_ms or changed_ms, node.size is None)


def directory(path: str) -> Attributes:
    """Return the attributes of a directory."""
    return Attributes(inode_of(path), True, 0)


def inode_of(path: str) -> int:
    """Return the path's inode number, 63 bits of a digest: stable, and unlikely to collide among a million paths."""
    return (
        int.from_bytes(hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big") >> 1 | 2
    )


def extended_attributes(ref: LedgerRef) -> dict[str, bytes]:
    """Return the extended attributes of a ledger (``getfattr -d``), the same in every view."""
    values = {
        "ledger_id": ref.ledger_id,
        "uuid": ref.uuid,
        "topic": ref.topic,
        "entries": ref.entries,
        "length": ref.length,
        "blocks": ref.cuts,
        **{f"{role}_key": stat.key for role, stat in ref.objects},
        **{f"{role}_version": stat.version for role, stat in ref.objects},
    }
    return {f"user.ledgerfs.{name}": str(value).encode("utf-8", "surrogateescape") for name, value in values.items()}

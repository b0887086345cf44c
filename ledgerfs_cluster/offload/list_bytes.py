"""The bytes of a managed ledger's node: compressed as they were before, and never more than ZooKeeper accepts."""

from collections.abc import Iterable

from ledgerfs.formats.decompression import Compression
from ledgerfs.messages.codecs.compress import compress
from ledgerfs_cluster.errors import ListFullError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import EditedList
from ledgerfs_cluster.formats.managed_ledgers.stored_values import compressed
from ledgerfs_cluster.zookeeper.changes import MakeNode, Operation, SetNode

MOST_BYTES = 1_000_000
"""A server accepts 1 MiB in a packet (``jute.maxbuffer``), which includes the other operations of the same commit."""
_MOST_WITH_ALL = 1_040_000
_MORE_BYTES = 256
"""Size of an operation besides its path and data: the chroot, and numbers."""
FULL = f"the topic's ledger list is full: ZooKeeper accepts at most {MOST_BYTES:,} bytes"


def stored(edited: EditedList, *, key: str) -> bytes:
    """Return the value of the node ``key``.

    Brokers read both compressed and plain values, whatever they are configured to write. A compressed list stays compressed, as the plain
    form may exceed ZooKeeper's limit. Raises `ListFullError` above `MOST_BYTES`.
    """
    if edited.codec == Compression.NONE:
        data, form = edited.plain, "not compressed; set managedLedgerInfoCompressionType of the brokers to compress it"
    else:
        codec = Compression(edited.codec)
        data, form = compressed(edited.plain, codec, compress(codec, edited.plain)), f"compressed with {codec.name}"
    if len(data) > MOST_BYTES:
        reason = f"the topic's ledger list would have {len(data):,} bytes ({form}), but ZooKeeper accepts at most {MOST_BYTES:,}"
        raise ListFullError(reason, key=key)
    return data


def fits(changes: Iterable[Operation]) -> bool:
    """Return whether all operations fit into one commit."""
    sizes = (len(one.path) + (len(one.data) if isinstance(one, MakeNode | SetNode) else 0) for one in changes)
    return sum(size + _MORE_BYTES for size in sizes) <= _MOST_WITH_ALL

"""The bytes that the node of a managed ledger gets: compressed as they were before, and never more than a ZooKeeper takes."""

from ledgerfs.errors import UnsupportedWriteError
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.managed_ledgers.list_changes import EditedList
from ledgerfs.formats.managed_ledgers.stored_values import compressed
from ledgerfs.messages.codecs.compress import compress

MOST_BYTES = 1_000_000
"""A server takes 1 MiB at once (``jute.maxbuffer``), with all else that belongs to the same commit."""


def stored(edited: EditedList, *, key: str) -> bytes:
    """Return the value of the node ``key``.

    Brokers take a value that is not compressed for one that is, and the reverse, whatever they are configured to write. A list that was
    compressed stays so, for plain it may have more bytes than ZooKeeper takes. Raises `UnsupportedWriteError` for more than `MOST_BYTES`.
    """
    if edited.codec == Compression.NONE:
        data, how = edited.plain, "without compression; brokers compress it with managedLedgerInfoCompressionType"
    else:
        codec = Compression(edited.codec)
        data, how = compressed(edited.plain, codec, compress(codec, edited.plain)), f"compressed with {codec.name}"
    if len(data) > MOST_BYTES:
        reason = f"the list of ledgers would have {len(data):,} bytes ({how}); a ZooKeeper takes {MOST_BYTES:,}"
        raise UnsupportedWriteError(reason, key=key)
    return data

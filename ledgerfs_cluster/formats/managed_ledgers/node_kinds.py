"""What a node is whose path alone does not tell: a list of ledgers, or a cursor (`names.is_twofold`)."""

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.formats.managed_ledgers.names import is_twofold, managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.stored_values import uncompressed

_NUMBER_1 = b"\x08"
"""A cursor begins with its first field, a number that none is without; in a list of ledgers that field is a message."""


def managed_ledger_at(path: str, data: bytes) -> str | None:
    """Return the name of the managed ledger that a node is, as `managed_ledger_of` does; of two that a path may mean, by the data."""
    folder, _, local = path.rpartition("/")
    if is_twofold(folder) and is_list_of_ledgers(data):
        return f"{managed_ledger_of(folder)}/{local}"
    return managed_ledger_of(path)


def is_list_of_ledgers(data: bytes) -> bool:
    """Whether the value of a node, plain or compressed, is a list of ledgers, perhaps an empty or damaged one, and not a cursor."""
    try:
        return not uncompressed(data, key="").startswith(_NUMBER_1)
    except CorruptMetadataError:
        # Whoever parses it says so; as a cursor it would be passed over where only topics are read.
        return True

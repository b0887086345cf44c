"""The list of a managed ledger's node, for listings and for surveys: here it is known what an empty one means."""

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, parse_managed_ledger_info
from ledgerfs.storage.zookeeper.node import Node


def list_of_ledgers(node: Node) -> ManagedLedgerInfo:
    """Return the list of a managed ledger.

    A broker makes the node with an empty list, and sets it once the first ledger is made; from then on it lists one at least, but for a
    terminated topic. Cursors are made later still. Raises `CorruptMetadataError` as `parse_managed_ledger_info`, and for a list that is
    empty though it was set, or has cursors: its ledgers are not known.
    """
    info = parse_managed_ledger_info(node.data, key=node.path)
    if not info.ledgers and info.terminated is None and (node.version or node.children):
        told = "was set before" if node.version else "has subscriptions"
        raise CorruptMetadataError(f"the list of ledgers is empty, though the node {told}", key=node.path)
    return info

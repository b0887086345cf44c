"""Paths of a cluster's managed ledgers, and their ledger lists: the one walk below ``/managed-ledgers``, for listings and snapshots."""

from ledgerfs.errors import CorruptMetadataError, UnsupportedFormatError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT, is_above_managed_ledgers, managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.stored_values import uncompressed
from ledgerfs_cluster.snapshot.answered_nodes import answered, paths_below
from ledgerfs_cluster.zookeeper.nodes import Node, Nodes

_CURSOR = b"\x08"
"""First byte of a cursor: the tag of its first field, a required number; in a ledger list that field is a message."""


def managed_ledger_paths(nodes: Nodes) -> list[str]:
    """Return the paths of all managed ledgers; skips nodes that are deleted meanwhile.

    Raises the errors of ZooKeeper, and `UnsupportedFormatError` for a V1 namespace ``persistent``.
    """
    found: list[str] = []
    level = [ROOT]
    while level:
        below: list[str] = []
        for path in paths_below(nodes, level):
            if is_above_managed_ledgers(path):
                below.append(path)
            elif managed_ledger_of(path) is not None:
                found.append(path)
        level = below
    _require_cursors_below(nodes, [path for path in found if path.endswith("/persistent/persistent")])
    return found


def _require_cursors_below(nodes: Nodes, topics: list[str]) -> None:
    """Raise `UnsupportedFormatError` if an apparent topic is a V1 namespace: its topics would be parsed as cursors, and be missed."""
    for path, node in answered(nodes.get_many, paths_below(nodes, topics)):
        if not uncompressed(node.data, key=path).startswith(_CURSOR):
            raise UnsupportedFormatError(
                "not a cursor of a topic: perhaps a namespace of Pulsar 1 named persistent, which ledgerfs does not support",
                key=path,
            )


def list_of_ledgers(node: Node) -> ManagedLedgerInfo:
    """Return the ledger list of a managed ledger.

    A broker creates the node with an empty list, and sets it after it creates the first ledger; from then on the list is not empty, unless
    the topic is terminated. Cursors are created even later. Raises `CorruptMetadataError` as `parse_managed_ledger_info`, and for an empty
    list that was set before or has cursors: its ledgers are unknown.
    """
    info = parse_managed_ledger_info(node.data, key=node.path)
    if not info.ledgers and info.terminated is None and (node.version or node.children):
        sign = "was written before" if node.version else "has subscriptions"
        raise CorruptMetadataError(f"the ledger list was lost: it is empty, although the node {sign}", key=node.path)
    return info

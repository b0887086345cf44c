"""Where the managed ledgers of a cluster are, and their lists: the one walk below ``/managed-ledgers``, for listings and for surveys."""

from ledgerfs.errors import CorruptMetadataError, UnsupportedFormatError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT, is_above_managed_ledgers, managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.stored_values import uncompressed
from ledgerfs_cluster.snapshot.answered_nodes import answered, paths_below
from ledgerfs_cluster.zookeeper.nodes import Node, Nodes

_CURSOR = b"\x08"
"""A cursor begins with its first field, a number that none is without; in a list of ledgers that field is a message."""


def managed_ledger_paths(nodes: Nodes) -> list[str]:
    """Return the paths of all managed ledgers, none if nothing is there; what is deleted meanwhile is left out.

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
    """Raise `UnsupportedFormatError` if what may be a topic is a V1 namespace: its topics would be taken for cursors, and then for none."""
    for path, node in answered(nodes.get_many, paths_below(nodes, topics)):
        if not uncompressed(node.data, key=path).startswith(_CURSOR):
            raise UnsupportedFormatError("a V1 namespace, or a cursor, that is not known: no cursor is here", key=path)


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

"""Where the managed ledgers of a cluster are, and their lists: the one walk below ``/managed-ledgers``, for listings and for surveys."""

from ledgerfs.errors import CorruptMetadataError, ObjectNotFoundError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT, is_above_managed_ledgers, is_twofold, managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.node_kinds import is_list_of_ledgers
from ledgerfs_cluster.snapshot.answered_nodes import answered, paths_below
from ledgerfs_cluster.zookeeper.nodes import Node, Nodes


def managed_ledger_paths(nodes: Nodes) -> list[str]:
    """Return the paths of all managed ledgers, none if nothing is there; what is deleted meanwhile is left out.

    Raises the errors of ZooKeeper.
    """
    found: list[str] = []
    twofold: list[str] = []
    level = [ROOT]
    while level:
        below: list[str] = []
        for path in paths_below(nodes, level):
            if is_above_managed_ledgers(path):
                below.append(path)
            elif is_twofold(path):
                twofold.append(path)
            elif managed_ledger_of(path) is not None:
                found.append(path)
        level = below
    for path in twofold:
        found += _at_twofold(nodes, path)
    return found


def _at_twofold(nodes: Nodes, path: str) -> list[str]:
    """Return the managed ledgers at a path and below it (`is_twofold`): only data tells which these are."""
    try:
        node = nodes.get(path)
    except ObjectNotFoundError:
        return []
    children = answered(nodes.get_many, paths_below(nodes, [path]))
    below = [child for child, one in children if is_list_of_ledgers(one.data)]
    # A folder has no data; neither has a topic in the moment in which it is made, which has no cursors then.
    return below if below and not node.data else [path, *below]


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

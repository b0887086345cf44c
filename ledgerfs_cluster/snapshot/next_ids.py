"""Where BookKeeper makes its next id, and which ids a cluster that something was restored into has from before that."""

import re

from ledgerfs.errors import ObjectNotFoundError
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import BLOCK_BITS
from ledgerfs_cluster.zookeeper.nodes import NodeReader

RECOVERY = "/ledgerfs/recovery"
"""Folder of what `ledgerfs recover` notes in a cluster into which it restores."""
_FOLDER = re.compile(r"HOB-(\d{10})", re.ASCII)


def newest_block(nodes: NodeReader, ledgers_path: str = "/ledgers") -> int:
    """Return the number of the block of 2³² ids in which BookKeeper makes its next id; raises the errors of ZooKeeper."""
    try:
        names = nodes.children(f"{ledgers_path}/idgen-long")
    except ObjectNotFoundError:
        return 0
    return max((int(found[1]) for name in names if (found := _FOLDER.fullmatch(name))), default=0)


def end_of_former_ids(nodes: NodeReader, ledgers_path: str = "/ledgers") -> int:
    """Return the id from which on ledgers are this cluster's own, and no lost one's; 0 where nothing was ever restored.

    Before `ledgerfs recover` restores anything, ids go on behind all that the bucket has. Offloads of earlier ids may be all that is left
    of rows of the lost cluster, whichever lists name them: late ones, or of what was not restored. Raises the errors of ZooKeeper.
    """
    try:
        nodes.get(RECOVERY)
    except ObjectNotFoundError:
        return 0
    return newest_block(nodes, ledgers_path) << BLOCK_BITS

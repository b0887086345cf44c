"""Block of BookKeeper's next ledger id, and the id from which ledgers are younger than a restore into the cluster."""

import re

from ledgerfs.errors import ObjectNotFoundError
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import BLOCK_BITS
from ledgerfs_cluster.zookeeper.nodes import NodeReader

RECOVERY = "/ledgerfs/recovery"
"""Folder of the records of `ledgerfs recover` in its target cluster."""
_FOLDER = re.compile(r"HOB-(\d{10})", re.ASCII)


def newest_block(nodes: NodeReader, ledgers_path: str = "/ledgers") -> int:
    """Return the number of the block of 2³² ids with BookKeeper's next id; raises the errors of ZooKeeper."""
    try:
        names = nodes.children(f"{ledgers_path}/idgen-long")
    except ObjectNotFoundError:
        return 0
    return max((int(found[1]) for name in names if (found := _FOLDER.fullmatch(name))), default=0)


def end_of_former_ids(nodes: NodeReader, ledgers_path: str = "/ledgers") -> int:
    """Return the first id that can only be this cluster's own; 0 if nothing was ever restored into it.

    Before `ledgerfs recover` restores anything, it advances ids beyond all ids in the bucket. Offloads with earlier ids may be the last
    copies of the lost cluster's topics, late ones or not restored ones, whichever lists reference them. Raises the errors of ZooKeeper.
    """
    try:
        nodes.get(RECOVERY)
    except ObjectNotFoundError:
        return 0
    return newest_block(nodes, ledgers_path) << BLOCK_BITS

"""Ledgers whose copy in BookKeeper was replaced by an offload with other ids, and waits in the trash journal for its deletion.

They are listed as deleted, and are there: by right, until the grace of their lines is over.
"""

import re

from ledgerfs.errors import ObjectNotFoundError
from ledgerfs.storage.zookeeper.nodes import Nodes

TRASH = "/ledgerfs/lifecycle/trash"
"""The node whose children are the lines of the trash journal, below the chroot of the cluster."""
KIND = "unbatched"
"""The kind of such lines, with which their names begin."""
_NAME = re.compile(rf"{KIND}-(0|[1-9][0-9]{{0,17}})", re.ASCII)


def replaced_copies(nodes: Nodes) -> frozenset[int]:
    """Return the ids of ledgers that wait so; raises the errors of ZooKeeper."""
    try:
        names = nodes.children(TRASH)
    except ObjectNotFoundError:
        return frozenset()
    return frozenset(int(found[1]) for found in map(_NAME.fullmatch, names) if found is not None)

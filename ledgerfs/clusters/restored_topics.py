"""What a cluster's own metadata tell of a topic that was restored into it: `ledgerfs recover` notes there where the lost cluster ends."""

import json

from ledgerfs.clusters.next_ids import RECOVERY
from ledgerfs.errors import CorruptMetadataError, ObjectNotFoundError
from ledgerfs.storage.zookeeper.nodes import NodeReader

NOTES = f"{RECOVERY}/topics"
"""Folder of the notes, a node for each managed ledger of the cluster."""


def end_before(nodes: NodeReader, managed_ledger: str) -> int | None:
    """Return the id of the ledger that ends the lost cluster in the bucket that a topic was restored from; None where none was made.

    Raises `CorruptMetadataError` for a note that tells neither, and the errors of ZooKeeper.
    """
    path = f"{NOTES}/{managed_ledger}"
    try:
        node = nodes.get(path)
    except ObjectNotFoundError:
        return None
    try:
        end = json.loads(node.data).get("end")
        return None if end is None else int(end)
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise CorruptMetadataError("no note of a restored topic", key=path) from error

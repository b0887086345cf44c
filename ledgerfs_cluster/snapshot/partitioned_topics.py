"""Nodes that tell how many partitions a topic has: a JSON object below ``/admin/partitioned-topics``."""

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.snapshot.policies import json_object

_ROOT = "/admin/partitioned-topics"


def partitioned_path(managed_ledger: str) -> str:
    """Return the path of the node of a topic, of a managed ledger without the number of a partition."""
    return f"{_ROOT}/{managed_ledger}"


def parse_partitions(data: bytes, *, key: str) -> int:
    """Return how many partitions a node tells of, which may be none; raises `CorruptMetadataError` for what is no number of them."""
    count = json_object(data, key=key).get("partitions")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 2**31:
        raise CorruptMetadataError(f"{count!r} is not a number of partitions", key=key)
    return count

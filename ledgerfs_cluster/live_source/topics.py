"""The managed ledgers of a living cluster and their lists of ledgers, as ZooKeeper has them."""

from collections.abc import Iterator
from typing import NamedTuple

from ledgerfs.catalog.layout import Progress
from ledgerfs.errors import BucketNotFoundError, CorruptMetadataError, LedgerfsError, ObjectNotFoundError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT, managed_ledger_path
from ledgerfs_cluster.snapshot.managed_ledger_paths import list_of_ledgers, managed_ledger_paths
from ledgerfs_cluster.zookeeper.nodes import Node, Nodes


class UnlistedTopic(NamedTuple):
    """A managed ledger whose list cannot be read, and why."""

    name: str
    error: CorruptMetadataError


class ListedTopic(NamedTuple):
    """A managed ledger, its list, and when the list was last changed, ms since 1970 UTC."""

    name: str
    info: ManagedLedgerInfo
    changed_ms: int


def managed_ledger_names(nodes: Nodes) -> list[str]:
    """Return the names of all managed ledgers, such as ``tenant/namespace/persistent/topic``; what is deleted meanwhile is left out.

    Raises `BucketNotFoundError` where there is no place for any, and the errors of ZooKeeper.
    """
    found = managed_ledger_paths(nodes)
    if not found:
        _require_root(nodes)
    return sorted(path[len(ROOT) + 1 :] for path in found)


def listed_topics(
    nodes: Nodes, names: list[str], progress: Progress | None = None
) -> Iterator[ListedTopic | UnlistedTopic]:
    """Yield each managed ledger that is still there with its list, or why that cannot be read; raises the errors of ZooKeeper."""
    asked = (managed_ledger_path(name) for name in names)
    for number, (name, node) in enumerate(zip(names, nodes.get_many(asked), strict=True), 1):
        if progress is not None and (number % 256 == 0 or number == len(names)):
            progress("reading lists of ledgers", number, len(names))
        if isinstance(node, ObjectNotFoundError):
            continue
        try:
            yield _parsed(name, _node(node))
        except CorruptMetadataError as error:
            yield UnlistedTopic(name, error)


def listed_topic(nodes: Nodes, name: str) -> ListedTopic:
    """Return one managed ledger as it is listed now; raises `ObjectNotFoundError`, `CorruptMetadataError` and those of ZooKeeper."""
    return _parsed(name, nodes.get(managed_ledger_path(name)))


def _parsed(name: str, node: Node) -> ListedTopic:
    return ListedTopic(name, list_of_ledgers(node), node.changed_ms)


def _node(found: Node | LedgerfsError) -> Node:
    if isinstance(found, LedgerfsError):
        raise found
    return found


def _require_root(nodes: Nodes) -> None:
    try:
        nodes.get(ROOT)
    except ObjectNotFoundError as error:
        reason = "these servers have no managed ledgers: are they another cluster's, or is the path behind them missing (host:port/path)?"
        raise BucketNotFoundError(reason, key=ROOT) from error

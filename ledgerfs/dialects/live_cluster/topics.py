"""The managed ledgers of a living cluster and their lists of ledgers, as ZooKeeper has them."""

from collections.abc import Iterator
from typing import NamedTuple

from ledgerfs.errors import BucketNotFoundError, LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, parse_managed_ledger_info
from ledgerfs.ledgers.dialect import Progress
from ledgerfs.storage.zookeeper.nodes import Node, Nodes

ROOT = "/managed-ledgers"
_DOMAIN = "persistent"
_COORDINATOR_LOGS = "pulsar/system/persistent/__transaction_log_"
_PENDING_ACKNOWLEDGEMENTS = "__transaction_pending_ack"
_LEAST_NAMES, _MOST_NAMES = 3, 4
"""Names up to the domain: tenant, namespace and domain, in V1 with the cluster between them."""


class ListedTopic(NamedTuple):
    """A managed ledger, its list, and when the list was last changed, ms since 1970 UTC."""

    name: str
    info: ManagedLedgerInfo
    changed_ms: int


def managed_ledger_names(nodes: Nodes) -> list[str]:
    """Return the names of all managed ledgers, such as ``tenant/namespace/persistent/topic``; what is deleted meanwhile is left out."""
    found: list[str] = []
    level = _top(nodes)
    for names in range(1, _MOST_NAMES + 1):
        below: list[str] = []
        for folder, children in _children_of(nodes, level):
            paths = [f"{folder}/{name}" for name in children]
            is_domain = names >= _LEAST_NAMES and folder.rpartition("/")[2] == _DOMAIN
            (found if is_domain else below).extend(paths)
        level = below
    return sorted(found)


def is_of_transactions(name: str) -> bool:
    """Whether a managed ledger is a log of Pulsar's own about transactions: its entries are no messages, and no client reads it as a topic.

    Pulsar knows them by these names, too (``SystemTopicNames.isTransactionInternalName``).
    """
    return name.startswith(_COORDINATOR_LOGS) or name.endswith(_PENDING_ACKNOWLEDGEMENTS)


def listed_topics(nodes: Nodes, names: list[str], progress: Progress | None = None) -> Iterator[ListedTopic]:
    """Yield each managed ledger that is still there with its list; raises `CorruptMetadataError` and the errors of ZooKeeper."""
    asked = (path_of(name) for name in names)
    for number, (name, node) in enumerate(zip(names, nodes.get_many(asked), strict=True), 1):
        if progress is not None and (number % 256 == 0 or number == len(names)):
            progress("reading lists of ledgers", number, len(names))
        if isinstance(node, ObjectNotFoundError):
            continue
        yield _parsed(name, _node(node))


def listed_topic(nodes: Nodes, name: str) -> ListedTopic:
    """Return one managed ledger as it is listed now; raises `ObjectNotFoundError` and as `listed_topics`."""
    return _parsed(name, nodes.get(path_of(name)))


def path_of(name: str) -> str:
    """Return the path of a managed ledger's node."""
    return f"{ROOT}/{name}"


def _parsed(name: str, node: Node) -> ListedTopic:
    return ListedTopic(name, parse_managed_ledger_info(node.data, key=node.path), node.changed_ms)


def _node(found: Node | LedgerfsError) -> Node:
    if isinstance(found, LedgerfsError):
        raise found
    return found


def _top(nodes: Nodes) -> list[str]:
    try:
        return nodes.children(ROOT)
    except ObjectNotFoundError as error:
        reason = "these servers have no managed ledgers: are they another cluster's, or is the path behind them missing (host:port/path)?"
        raise BucketNotFoundError(reason, key=ROOT) from error


def _children_of(nodes: Nodes, folders: list[str]) -> Iterator[tuple[str, list[str]]]:
    answers = nodes.children_many(map(path_of, folders))
    for folder, children in zip(folders, answers, strict=True):
        if isinstance(children, ObjectNotFoundError):
            continue
        if isinstance(children, LedgerfsError):
            raise children
        yield folder, children

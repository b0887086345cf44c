"""Who has one topic at this moment: as ZooKeeper tells it, or as brokers do where they are asked."""

from ledgerfs.clusters.asked_brokers import BrokerRequests, told_owners
from ledgerfs.clusters.bundles import BROKERS, NAMESPACES, BundleOwners, Owner, namespace_of
from ledgerfs.clusters.cluster_names import cluster_names
from ledgerfs.clusters.policies import json_object
from ledgerfs.errors import CorruptMetadataError, LedgerfsError, ObjectNotFoundError
from ledgerfs.storage.zookeeper.nodes import NodeReader


def owner_now(nodes: NodeReader, managed_ledger: str, brokers: BrokerRequests | None = None) -> Owner:
    """Return what is known of a topic's broker now; no topic is loaded by that.

    Unknown with the extensible load manager, unless ``brokers`` are given and all of them tell, and where a broker's node is damaged.
    Raises the errors of ZooKeeper, not those of brokers.
    """
    owners = _read(nodes, namespace_of(managed_ledger))
    if brokers is not None and not owners.are_known:
        owners = told_owners(owners, cluster_names(nodes), brokers)
    return owners.of(managed_ledger)


def _read(nodes: NodeReader, namespace: str) -> BundleOwners:
    """Read bundles before brokers: a broker that comes in between may have the topic, and is then of a load manager that is seen."""
    owners = BundleOwners()
    folder = f"{NAMESPACES}/{namespace}"
    for name in _children(nodes, folder):
        owners.own(f"{folder}/{name}")
    paths = [f"{BROKERS}/{name}" for name in _children(nodes, BROKERS)]
    for path, found in zip(paths, nodes.get_many(paths), strict=True):
        if isinstance(found, ObjectNotFoundError):
            continue
        if isinstance(found, LedgerfsError):
            raise found
        owners.load_managers[path.removeprefix(f"{BROKERS}/")] = _load_manager(found.data, path)
    return owners


def _load_manager(data: bytes, path: str) -> str:
    try:
        return str(json_object(data, key=path).get("loadManagerClassName"))
    except CorruptMetadataError:
        return ""


def _children(nodes: NodeReader, path: str) -> list[str]:
    try:
        return nodes.children(path)
    except ObjectNotFoundError:
        return []

"""Read from ZooKeeper which broker owns a topic now."""

from ledgerfs.errors import CorruptMetadataError, LedgerfsError, ObjectNotFoundError
from ledgerfs_cluster.snapshot.bundles import BROKERS, NAMESPACES, BundleOwners, Owner, namespace_of
from ledgerfs_cluster.snapshot.policies import json_object
from ledgerfs_cluster.zookeeper.nodes import NodeReader


def owner_now(nodes: NodeReader, managed_ledger: str) -> Owner:
    """Return the current owner of a topic in ZooKeeper, without loading the topic; raises the errors of ZooKeeper.

    `Owner.UNKNOWN` with the extensible load manager, and for a broker with a damaged node.
    """
    return _read(nodes, namespace_of(managed_ledger)).of(managed_ledger)


def _read(nodes: NodeReader, namespace: str) -> BundleOwners:
    """Read bundles before brokers: a broker that joins in between may own the topic, and its load manager is then seen."""
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

"""Which broker has a topic: as ZooKeeper tells it now, or as brokers do where the extensible load manager keeps owners in a topic.

Each broker is asked for its own bundles, which loads no topic. A bundle that moves from one broker to another in between could be told by
neither, so all are asked twice, in opposite orders; one that does not answer makes what the others do not have unknown, not free.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol
from urllib.parse import quote

from ledgerfs.display import printable
from ledgerfs.errors import CorruptMetadataError, LedgerfsError, ObjectNotFoundError
from ledgerfs_cluster.errors import AdminApiError
from ledgerfs_cluster.snapshot.bundles import BROKERS, NAMESPACES, BundleOwners, Owner, namespace_of
from ledgerfs_cluster.snapshot.policies import json_object
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.zookeeper.nodes import NodeReader

_BROKERS = "/admin/v2/brokers"


class BrokerRequests(Protocol):
    """Requests to one broker, which leads to the others."""

    address: str

    def told(self, path: str) -> Any:  # noqa: ANN401  (JSON)
        """Return the value that a GET is answered with; raises `LedgerfsError` and its kinds."""


def ask_brokers(survey: Survey, brokers: BrokerRequests) -> Survey:
    """Return a survey with the owners that brokers tell; the same one if they are in ZooKeeper.

    Brokers are asked only if those that they list are those in ZooKeeper, since an address may be of another cluster. What could not be
    told is in `BundleOwners.not_told`; nothing is raised for it.
    """
    if survey.owners.are_known:
        return survey
    found = survey.owners.copy()
    try:
        cluster = _cluster_of(survey.clusters, found, brokers)
        _take_bundles(cluster, found, brokers)
        if not found.not_told:
            _require_same(found, _listed(cluster, brokers), brokers)
            found.are_all_told = True
    except LedgerfsError as error:
        found.not_told.append(str(error))
    return replace(survey, owners=found)


def _cluster_of(names: Iterable[str], owners: BundleOwners, brokers: BrokerRequests) -> str:
    """Return the name of the cluster whose brokers are those in ZooKeeper; raises the error of the last name that is tried."""
    failed: LedgerfsError = AdminApiError("ZooKeeper has no name of this cluster", key=brokers.address)
    for name in sorted(names):
        try:
            _require_same(owners, _listed(name, brokers), brokers)
        except LedgerfsError as error:
            failed = error
        else:
            return name
    raise failed


def _listed(cluster: str, brokers: BrokerRequests) -> frozenset[str]:
    told = brokers.told(f"{_BROKERS}/{quote(cluster, safe='')}")
    if not isinstance(told, list) or not all(isinstance(one, str) for one in told):
        raise AdminApiError("the admin API answered with no list of brokers", key=brokers.address)
    return frozenset(told)


def _require_same(owners: BundleOwners, listed: frozenset[str], brokers: BrokerRequests) -> None:
    differing = sorted(listed ^ owners.load_managers.keys())
    if differing:
        one = differing[0]
        where = (
            "is listed by the broker and not in ZooKeeper"
            if one in listed
            else "is in ZooKeeper and not listed by the broker"
        )
        raise AdminApiError(
            f"broker {printable(one)} {where}: brokers come and go, or this is another cluster's", key=brokers.address
        )


def _take_bundles(cluster: str, owners: BundleOwners, brokers: BrokerRequests) -> None:
    names = sorted(owners.load_managers)
    silent: set[str] = set()
    for name in (*names, *reversed(names)):
        if name in silent:
            continue
        try:
            _take_bundles_of(name, cluster, owners, brokers)
        except LedgerfsError as error:
            silent.add(name)
            owners.not_told.append(f"broker {printable(name)} did not tell its bundles: {error}")


def _take_bundles_of(name: str, cluster: str, owners: BundleOwners, brokers: BrokerRequests) -> None:
    told = brokers.told(f"{_BROKERS}/{quote(cluster, safe='')}/{quote(name, safe=':')}/ownedNamespaces")
    if not isinstance(told, dict):
        raise AdminApiError("the admin API answered with no bundles", key=brokers.address)
    for bundle in told:
        if not owners.own(f"{NAMESPACES}/{bundle}"):
            raise AdminApiError(
                f"the admin API answered with {printable(bundle[:100])!r}, which is no bundle", key=brokers.address
            )


def owner_now(nodes: NodeReader, managed_ledger: str) -> Owner:
    """Return what ZooKeeper has of a topic's broker now, which loads no topic; raises the errors of ZooKeeper.

    Unknown with the extensible load manager, and where a broker's node is damaged.
    """
    return _read(nodes, namespace_of(managed_ledger)).of(managed_ledger)


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

"""Where clients of the new cluster connect, by what its brokers noted of it in ZooKeeper."""

import json

from ledgerfs.clusters.cluster_names import CLUSTERS, only_cluster
from ledgerfs.errors import InvalidOptionError, ObjectNotFoundError
from ledgerfs.storage.zookeeper.nodes import NodeReader

_MISSING = "the cluster does not tell where clients connect; name it (--service pulsar://host:6650)"


def service_address(nodes: NodeReader, *, has_tls: bool) -> str:
    """Return the URL of brokers, one with TLS if that is wanted; raises `InvalidOptionError` where none is told."""
    name = only_cluster(nodes)
    try:
        told = json.loads(nodes.get(f"{CLUSTERS}/{name}").data) if name is not None else None
    except (ObjectNotFoundError, ValueError, RecursionError):
        told = None
    url = told.get("brokerServiceUrlTls" if has_tls else "brokerServiceUrl") if isinstance(told, dict) else None
    if not isinstance(url, str) or not url:
        raise InvalidOptionError(_MISSING, key="--service")
    return url

"""What the run is about: topics of two rounds, offloaded, and gone from BookKeeper, so that only the bucket has them."""

from dataclasses import dataclass

from interop.cluster import Cluster
from interop.java_client import JavaClient
from interop.python_client import PythonClient
from interop.stages import stage

NAMESPACE = "public/messages"
# Tenant, cluster, namespace: as before Pulsar 2. No namespace of today may be called like the cluster beside it.
OLD_NAMESPACE = "public/interop/old"
SEED = 7
ROUNDS = 2


@dataclass(frozen=True)
class Workload:
    """Each topic's offloaded ledgers."""

    ledgers: dict[str, list[int]]

    @property
    def topics(self) -> list[str]:
        """All topics, each partition one."""
        return sorted(self.ledgers)


def make_workload(cluster: Cluster, java: JavaClient) -> Workload:
    """Produce, offload, and let BookKeeper's copies be deleted."""
    prepare(cluster)
    for round_number in range(ROUNDS):
        with stage("produce"):
            produce(cluster, java, round_number)
    with stage("offload"):
        ledgers = {topic: cluster.admin.offload(topic) for topic in topics(cluster)}
    with stage("delete from BookKeeper"):
        cluster.wait_until_deleted_from_bookkeeper({ledger for ids in ledgers.values() for ledger in ids})
    return Workload(ledgers)


def prepare(cluster: Cluster, old: str = OLD_NAMESPACE) -> None:
    """Make namespaces, one of the name ``old`` among them, and the partitioned topic."""
    make_tenant(cluster)
    admin = cluster.admin
    admin.make_namespace(NAMESPACE)
    admin.make_namespace(old)
    admin.call("PUT", f"v2/persistent/{NAMESPACE}/partitioned/partitions", 3)


def make_tenant(cluster: Cluster) -> None:
    """Make the tenant of all namespaces."""
    cluster.admin.call("PUT", "v2/tenants/public", {"allowedClusters": ["interop"], "adminRoles": []}, accept=(409,))


def produce(cluster: Cluster, java: JavaClient, round_number: int, old: str = OLD_NAMESPACE) -> None:
    """Produce one round of all kinds of messages with both clients, and end the ledgers."""
    java.produce(NAMESPACE, old, seed=SEED, round_number=round_number)
    PythonClient(cluster.service_url, NAMESPACE, java.keys).produce(seed=SEED, round_number=round_number)
    for topic in topics(cluster, old):
        cluster.admin.unload(topic)


def topics(cluster: Cluster, old: str = OLD_NAMESPACE) -> list[str]:
    """Return the topics of the workload that are there by now."""
    return [*cluster.admin.topics(NAMESPACE), *cluster.admin.topics(old)]

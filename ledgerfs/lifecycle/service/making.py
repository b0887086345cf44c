"""Making a service of a policy file, a cluster and its lock."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.cluster_names import cluster_names
from ledgerfs.clusters.gauges_file import write_gauges_file
from ledgerfs.clusters.owner_now import owner_now
from ledgerfs.dialects.closed_ledgers import ClosedLedgers
from ledgerfs.dialects.offloaded_copies import OffloadedCopies
from ledgerfs.errors import RefusedLedgerError
from ledgerfs.lifecycle.acting.carrying_out import CarryingOut
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.turn import Turn
from ledgerfs.lifecycle.brokers.broker_api import BrokerApi
from ledgerfs.lifecycle.scheduling.fair_queue import FairQueue
from ledgerfs.lifecycle.service.background import BackgroundOffloads
from ledgerfs.lifecycle.service.broker_offloads import BrokerOffloads
from ledgerfs.lifecycle.service.clocks import ClusterClock
from ledgerfs.lifecycle.service.events import Events
from ledgerfs.lifecycle.service.looking import Looking
from ledgerfs.lifecycle.service.rates import Rates
from ledgerfs.lifecycle.service.service import Parts, Service
from ledgerfs.lifecycle.service.status import Status, gauges_of
from ledgerfs.lifecycle.service.stopping import Stopping
from ledgerfs.messages.transforms.entry_transform import recompress
from ledgerfs.offload.offload_driver import driver_properties, user_metadata
from ledgerfs.offload.one_step import OneStep
from ledgerfs.offload.opening import holder_text
from ledgerfs.offload.tier import Tier
from ledgerfs.storage.zookeeper.changes import ClusterLock

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.clusters.answers import BookieReads
    from ledgerfs.lifecycle.policy.policy_file import PolicyFile
    from ledgerfs.lifecycle.policy.topic_rules import TopicRule
    from ledgerfs.storage.admin_api.admin_requests import AdminRequests
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster
    from ledgerfs.storage.zookeeper.nodes import Nodes

_QUANTUM = 64 << 20
_MUCH_MS = 5000


@dataclass(frozen=True, slots=True)
class Made:
    """A service, and what it notes."""

    service: Service
    events: Events


class _Owners:
    """`ledgerfs.offload.owners.TopicOwners` of a cluster: ZooKeeper tells, and a broker unloads."""

    __slots__ = ("_broker", "_nodes")

    def __init__(self, nodes: "Nodes", broker: BrokerApi | None) -> None:
        self._nodes = nodes
        self._broker = broker

    def owner_of(self, managed_ledger: str) -> Owner:
        """Return what ZooKeeper tells now."""
        return owner_now(self._nodes, managed_ledger)

    @property
    def can_unload(self) -> bool:
        """Whether a broker can be asked."""
        return self._broker is not None

    def unload(self, managed_ledger: str) -> None:
        """Have a broker unload a topic; raises as `BrokerApi.unload`."""
        if self._broker is not None:
            self._broker.unload(managed_ledger)


class _Steps:
    """What offloads topics, one for each bucket and codec. Safe in threads."""

    __slots__ = ("_buckets", "_cluster_name", "_file", "_lock", "_means", "_rates", "_steps")

    def __init__(self, file: "PolicyFile", rates: Rates, cluster_name: str | None) -> None:
        self._file = file
        self._rates = rates
        self._cluster_name = cluster_name
        self._lock = Lock()
        self._steps: dict[tuple[str, str | None], OneStep] = {}
        self._buckets: dict[str, Bucket] = {}
        self._means: Means | None = None

    def use(self, means: Means) -> None:
        """Take what steps work with."""
        self._means = means

    def bucket_at(self, url: str) -> "Bucket":
        """Return the bucket of the policy file at a URL; raises `RefusedLedgerError` for one that it does not have."""
        with self._lock:
            found = self._buckets.get(url)
            if found is None:
                told = next(
                    (one for one in self._file.buckets.values() if one.url.rstrip("/") == url.rstrip("/")), None
                )
                if told is None:
                    raise RefusedLedgerError("no bucket of the policy file is there", key=url)
                found = self._buckets[url] = open_bucket(told.url, told.storage_options)
            return found

    def step_of(self, rule: "TopicRule") -> OneStep:
        """Return what offloads topics of a rule; raises `RefusedLedgerError` for one without a bucket."""
        told = rule.bucket
        if told is None or self._means is None:
            raise RefusedLedgerError("it is not known where to offload to", key=rule.managed_ledger)
        bucket = self.bucket_at(told.url)
        key = (told.name, rule.recompress)
        with self._lock:
            found = self._steps.get(key)
            if found is None:
                codec = rule.recompress
                tier = Tier(
                    bucket,
                    told.driver,
                    driver_properties(told.driver, told.bucket, told.region, told.endpoint),
                    user_metadata(self._cluster_name),
                    told.block_size,
                    None if codec is None else partial(recompress, codec),
                )
                means = self._means
                found = self._steps[key] = OneStep(
                    means.lock, means.nodes, means.ledgers, means.owners, tier, pace=self._rates.pace
                )
            return found

    def in_flight(self) -> frozenset[str]:
        """Return the uuids of all attempts that go on."""
        with self._lock:
            return frozenset().union(*(one.in_flight for one in self._steps.values()))


@contextmanager
def service_of(
    file: "PolicyFile",
    cluster: "LivingCluster",
    bookies: "BookieReads | None",
    brokers: "AdminRequests | None",
    pass_s: float,
) -> Iterator[Made]:
    """Take a cluster's lock, and lend a service that works under it.

    Raises `LockHeldError`, and the errors of ZooKeeper.
    """
    cluster = _paced(cluster, file)
    took_ms = time.time_ns() // 1_000_000
    with ClusterLock.take(cluster.nodes.settings, holder_text()) as lock:
        events = Events()
        clock = ClusterClock(cluster.nodes, took_ms)
        if clock.ahead_ms > _MUCH_MS:
            events.trouble(f"this machine's clock is {clock.ahead_ms / 1000:.0f} s ahead of ZooKeeper's, which is used")
        stopping = Stopping()
        rates = Rates(file.service, stopping)
        broker = None if brokers is None else BrokerApi(brokers, is_stopping=stopping.is_set)
        steps = _Steps(file, rates, _cluster_name(cluster.nodes))
        means = Means(
            lock,
            cluster.nodes,
            ClosedLedgers(cluster),
            OffloadedCopies(cluster.reading),
            _Owners(cluster.nodes, broker),
            steps.bucket_at,
            turn=Turn(stopping.is_set),
        )
        steps.use(means)
        hands = CarryingOut(cluster, means, bookies, broker, steps.in_flight)
        background = BackgroundOffloads(FairQueue(_QUANTUM), steps.step_of, events, stopping.is_set)
        by_brokers = None if broker is None else BrokerOffloads(hands.offload_by_broker, events, stopping.is_set)
        looking = Looking(cluster, file, bookies, brokers, pass_s)
        parts = Parts(lock, looking, hands, background, by_brokers, rates, clock, events, stopping, _gauges(file))
        try:
            yield Made(Service(parts), events)
        finally:
            stopping.set()
            background.stop()
            if by_brokers is not None:
                by_brokers.stop()


def _paced(cluster: "LivingCluster", file: "PolicyFile") -> "LivingCluster":
    """Return the cluster with what the policy file lets be read of each bookie in a second, if it tells that."""
    rate = file.service.bookie_rate
    return cluster if rate is None else replace(cluster, reading=replace(cluster.reading, bookie_rate=float(rate)))


def _gauges(file: "PolicyFile") -> "Callable[[Status], None]":
    def write(status: Status) -> None:
        if file.service.prometheus is not None:
            write_gauges_file(file.service.prometheus, gauges_of(file.cluster or "", status))

    return write


def _cluster_name(nodes: "Nodes") -> str | None:
    """Return what the cluster is called, if it knows of no other."""
    names = cluster_names(nodes)
    return names[0] if len(names) == 1 else None

"""Making a service of a policy file, a cluster and its lock."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import RefusedLedgerError
from ledgerfs_cluster.errors import StoppedError
from ledgerfs_cluster.lifecycle.acting.acting import Acting
from ledgerfs_cluster.lifecycle.acting.by_brokers import ByBrokers
from ledgerfs_cluster.lifecycle.acting.context import ActionContext
from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi
from ledgerfs_cluster.lifecycle.policy.policy_file import why_other
from ledgerfs_cluster.lifecycle.policy.topic_rules import url_of
from ledgerfs_cluster.lifecycle.service.background import BackgroundOffloads
from ledgerfs_cluster.lifecycle.service.broker_work import BrokerWork
from ledgerfs_cluster.lifecycle.service.events import Events
from ledgerfs_cluster.lifecycle.service.looking import Looking
from ledgerfs_cluster.lifecycle.service.rates import Rates, Stopping
from ledgerfs_cluster.lifecycle.service.service import Service
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
from ledgerfs_cluster.live_source.offloaded_copies import OffloadedCopies
from ledgerfs_cluster.offload.offload_bucket import OpenBucket
from ledgerfs_cluster.offload.offload_driver import user_metadata
from ledgerfs_cluster.offload.one_step import OneStep
from ledgerfs_cluster.offload.opening import SERVICE, holder_text
from ledgerfs_cluster.offload.outcomes import failed
from ledgerfs_cluster.offload.owners import TopicOwners
from ledgerfs_cluster.snapshot.cluster_names import only_cluster
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.cluster_clock import ClusterClock

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile
    from ledgerfs_cluster.lifecycle.policy.topic_rules import TopicRule
    from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
    from ledgerfs_cluster.snapshot.answers import BookieReads
    from ledgerfs_cluster.zookeeper.living_cluster import LiveReading, LivingCluster

_MUCH_MS = 5000


class _Buckets:
    """The buckets of a policy file, each opened once. Safe in threads."""

    __slots__ = ("_buckets", "_file", "_lock")

    def __init__(self, file: "PolicyFile") -> None:
        self._file = file
        self._lock = Lock()
        self._buckets: dict[str, Bucket] = {}

    def at(self, url: str) -> "Bucket":
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


class _Steps:
    """What offloads topics, one for each bucket. Safe in threads."""

    __slots__ = ("_context", "_lock", "_noted_ms", "_rates", "_steps", "_user_metadata")

    def __init__(
        self, context: ActionContext, rates: Rates, metadata: Mapping[str, str], noted_ms: "Callable[[], int]"
    ) -> None:
        self._context = context
        self._rates = rates
        self._user_metadata = metadata
        self._noted_ms = noted_ms
        self._lock = Lock()
        self._steps: dict[str, OneStep] = {}

    def step_of(self, rule: "TopicRule") -> OneStep:
        """Return what offloads topics of a rule; raises `RefusedLedgerError` for one without a bucket."""
        told, context = rule.bucket, self._context
        if told is None:
            raise RefusedLedgerError("it is not known where to offload to", key=rule.managed_ledger)
        with self._lock:
            found = self._steps.get(told.name)
            if found is None:
                bucket = OpenBucket(told, context.bucket_at(told.url), self._user_metadata)
                found = self._steps[told.name] = OneStep(
                    *(context.lock, context.ledgers, context.owners, bucket),
                    noted_ms=self._noted_ms,
                    url_of=context.url_of,
                    pace=self._rates.pace,
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
    *,
    reopen: "Callable[[], object] | None" = None,
) -> Iterator[Service]:
    """Take a cluster's lock, and lend a service that works under it; ``reopen`` as in `Service`.

    Raises `LockHeldError`, and the errors of ZooKeeper.
    """
    cluster = _paced(cluster, file)
    took_ms = time.time_ns() // 1_000_000
    with ClusterLock.take(cluster.nodes.settings, holder_text(SERVICE)) as lock:
        events = Events()
        clock = ClusterClock(lock, took_ms)
        if abs(clock.ahead_ms) > _MUCH_MS:
            where = "ahead of" if clock.ahead_ms > 0 else "behind"
            text = (
                f"this machine's clock is {abs(clock.ahead_ms) / 1000:.0f} s {where} ZooKeeper's: the earlier one decides, "
                "the later one is noted"
            )
            events.note(failed("clock", "", text))
        stopping = Stopping()
        rates = Rates(file.service, stopping)
        broker = None if brokers is None else BrokerApi(brokers, is_stopping=stopping.is_set)
        context = ActionContext(
            lock,
            ClosedLedgers(cluster, stopping.is_set),
            OffloadedCopies(_reading_of(file, cluster)),
            TopicOwners(lock, None if broker is None else broker.unload),
            _Buckets(file).at,
            partial(url_of, file),
            partial(_require_going, stopping),
        )
        metadata = user_metadata(only_cluster(lock.newest()))
        steps = _Steps(context, rates, metadata, clock.later_ms)
        other = partial(why_other, file)
        acting = partial(Acting, cluster, context, bookies, steps.in_flight, other)
        background = BackgroundOffloads(steps.step_of, events, stopping.is_set)
        by_brokers = None
        if broker is not None:
            asking = ByBrokers(context, broker)
            by_brokers = BrokerWork(asking.carry_out, events, stopping.is_set)
        looking = Looking(cluster, file, bookies, brokers, pass_s)
        service = Service(
            *(
                lock,
                looking,
                acting,
                background,
                by_brokers,
                rates,
                clock,
                events,
                stopping,
                other,
                reopen,
            )
        )
        try:
            yield service
        finally:
            stopping.set()
            background.stop()
            if by_brokers is not None:
                by_brokers.stop()


def _require_going(stopping: Stopping) -> None:
    if stopping.is_set():
        raise StoppedError("the service is ending: nothing more is begun")


def _reading_of(file: "PolicyFile", cluster: "LivingCluster") -> "LiveReading":
    """Return how a cluster is read, with its buckets where the policy file has them, unless the user has told otherwise.

    What was noted of an offload tells endpoint and region, too, so it goes first where it leads to the same bucket.
    """
    named: dict[str, list[str]] = {}
    for one in file.buckets.values():
        named.setdefault(one.bucket, []).append(one.url)
    # Of two buckets of one name the place is told by what was noted of each offload.
    urls = {name: urls[0] for name, urls in named.items() if len(urls) == 1 and not urls[0].endswith(f"://{name}")}
    return replace(cluster.reading, bucket_urls={**urls, **cluster.reading.bucket_urls})


def _paced(cluster: "LivingCluster", file: "PolicyFile") -> "LivingCluster":
    """Return the cluster with what the policy file lets be read of each bookie in a second, if it tells that."""
    rate = file.service.bookie_rate
    return cluster if rate is None else replace(cluster, reading=replace(cluster.reading, bookie_rate=float(rate)))

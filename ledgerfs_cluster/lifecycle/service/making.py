"""Create a service from a policy file, a cluster and its lock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import RefusedLedgerError
from ledgerfs_cluster.lifecycle.acting.acting import Acting
from ledgerfs_cluster.lifecycle.acting.context import ActionContext
from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi
from ledgerfs_cluster.lifecycle.brokers.outcomes import ByBrokers, list_reader
from ledgerfs_cluster.lifecycle.policy.policy_file import why_other
from ledgerfs_cluster.lifecycle.policy.topic_rules import url_of
from ledgerfs_cluster.lifecycle.service.background import BackgroundOffloads
from ledgerfs_cluster.lifecycle.service.broker_work import BrokerWork
from ledgerfs_cluster.lifecycle.service.events import Events
from ledgerfs_cluster.lifecycle.service.looking import Looking
from ledgerfs_cluster.lifecycle.service.service import Service, Stopping
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
from ledgerfs_cluster.live_source.offloaded_copies import OffloadedCopies
from ledgerfs_cluster.offload.offload_driver import user_metadata
from ledgerfs_cluster.offload.one_step import OneStep
from ledgerfs_cluster.offload.opening import SERVICE, holder_text
from ledgerfs_cluster.snapshot.cluster_names import only_cluster
from ledgerfs_cluster.token_bucket import Bandwidth
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.cluster_clock import ClusterClock

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile
    from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
    from ledgerfs_cluster.snapshot.answers import BookieReads
    from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster


def _buckets_of(file: "PolicyFile") -> "Callable[[str], Bucket]":
    """Return a thread-safe function that opens the policy file's buckets by URL, each once; it raises `RefusedLedgerError` for others."""
    known = {one.url.rstrip("/"): one for one in file.buckets.values()}
    opened: dict[str, Bucket] = {}
    lock = Lock()

    def at(url: str) -> "Bucket":
        place = known.get(url.rstrip("/"))
        if place is None:
            raise RefusedLedgerError("the policy file has no bucket with this URL", key=url)
        with lock:
            if place.name not in opened:
                opened[place.name] = open_bucket(place.url, place.storage_options)
            return opened[place.name]

    return at


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
    """Take a cluster's lock, and yield a service that works under it; ``reopen`` as in `Service`.

    Raises `LockHeldError`, and the errors of ZooKeeper.
    """
    cluster = _as_reported(cluster, file)
    with ClusterLock.take(cluster.nodes.settings, holder_text(SERVICE)) as lock:
        events = Events()
        clock = ClusterClock(lock)
        stopping = Stopping()
        bandwidth = Bandwidth(file.service.store_rate)
        broker = None if brokers is None else BrokerApi(brokers, is_stopping=stopping.is_set)
        ledgers, other = ClosedLedgers(cluster, stopping.is_set), partial(why_other, file)
        bucket_at, find = _buckets_of(file), partial(url_of, file)
        step = OneStep(
            *(lock, ledgers, bucket_at, user_metadata(only_cluster(lock.newest()))),
            noted_ms=clock.later_ms,
            url_of=find,
            unload=None if broker is None else broker.unload,
            pace=partial(_pace, bandwidth, stopping),
        )
        context = ActionContext(
            *(cluster, lock, ledgers, OffloadedCopies(cluster.reading), bookies, bucket_at),
            *(lambda: step.in_flight, other, stopping.require_going),
        )
        acting, background = partial(Acting, context), BackgroundOffloads(step, events, stopping.is_set)
        by_brokers = None
        if broker is not None:
            # Reads in the lock's session include earlier changes of brokers by any server.
            asking = ByBrokers(broker, lambda name: list_reader(lock.newest())(name), other)  # noqa: PLW0108  (each call catches up)
            by_brokers = BrokerWork(asking.carry_out, events, stopping.is_set)
        looking = Looking(cluster, file, bookies, pass_s)
        service = Service(lock, looking, acting, background, by_brokers, clock, events, stopping, other, reopen)
        try:
            yield service
        finally:
            stopping.set()
            background.stop()
            if by_brokers is not None:
                by_brokers.stop()


def _pace(bandwidth: Bandwidth, stopping: Stopping, count: int) -> None:
    """Wait until so many bytes may pass to the store, or back; raises `StoppedError` once the service is stopping."""
    bandwidth.wait(count, stopping.is_set)
    stopping.require_going()


def _as_reported(cluster: "LivingCluster", file: "PolicyFile") -> "LivingCluster":
    """Return a cluster with the policy file's options: its buckets, unless the user names others, and the read rate of each bookie.

    The record of an offload has endpoint and region, too, so it has priority if it leads to the same bucket.
    """
    named: dict[str, list[str]] = {}
    for one in file.buckets.values():
        named.setdefault(one.bucket, []).append(one.url)
    # If two buckets have the same name, each offload's record decides.
    urls = {name: urls[0] for name, urls in named.items() if len(urls) == 1 and not urls[0].endswith(f"://{name}")}
    reading = replace(cluster.reading, bucket_urls={**urls, **cluster.reading.bucket_urls})
    rate = file.service.bookie_rate
    return replace(cluster, reading=reading if rate is None else replace(reading, bookie_rate=float(rate)))

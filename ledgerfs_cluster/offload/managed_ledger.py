"""`ManagedLedger`: PIP-17's interface for one topic of a live cluster, without its broker."""

import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ledgerfs.errors import EntryRangeError, InvalidOptionError, RefusedLedgerError, UnusableUrlError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.errors import OffloadRemarkWarning
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    ManagedLedgerInfo,
    Position,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.offload.offload_bucket import DEFAULT_BLOCK_SIZE, OffloadBucket
from ledgerfs_cluster.offload.offload_driver import (
    bucket_in,
    driver_for,
    folder_in_bucket,
    require_place,
    user_metadata,
)
from ledgerfs_cluster.offload.outcomes import Status

if TYPE_CHECKING:
    from ledgerfs_cluster.offload.one_step import OneStep
    from ledgerfs_cluster.offload.outcomes import Outcome
    from ledgerfs_cluster.zookeeper.nodes import Nodes


class ManagedLedger:
    """One topic; offloads its ledgers up to a position.

    Parameters
    ----------
    topic
        ``persistent://tenant/namespace/topic``, or the name of the managed ledger.

    """

    __slots__ = ("_closing", "_nodes", "_place", "_step", "name")

    def __init__(self, nodes: "Nodes", step: "OneStep", topic: str, place: OffloadBucket) -> None:
        self._nodes = nodes
        self._step = step
        self._place = place
        self._closing = ExitStack()
        self.name = managed_ledger_of(topic)

    @classmethod
    def open(
        cls,
        cluster: str,
        topic: str,
        bucket: str,
        *,
        driver: str | None = None,
        name: str | None = None,
        region: str = "",
        endpoint: str = "",
        block_size: int = DEFAULT_BLOCK_SIZE,
        storage_options: Mapping[str, Any] | None = None,
        cluster_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Take the lock of a cluster to offload one of its topics into a bucket; `close` or ``with`` releases it.

        Parameters
        ----------
        cluster
            ``pulsar+zk://host:port,…[/chroot]``.
        topic
            Its name, or that of its managed ledger.
        bucket
            The URL of the bucket.
        driver, name, region, endpoint
            Values that a broker records in an offload and finds it by; by default the driver of the URL's store (``aws-s3`` for a folder)
            and the URL's bucket.
        block_size
            Bytes.
        storage_options, cluster_options
            Of the bucket's filesystem, and of the cluster (its guide has a list).

        Raises
        ------
        LockHeldError
            Another process changes the cluster.
        UnusableUrlError, InvalidOptionError, StoreUnreachableError
            The cluster or bucket does not exist, or does not answer.

        """
        # These import kazoo, numba and fsspec.
        from ledgerfs.bucket.opening import open_bucket
        from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
        from ledgerfs_cluster.offload.one_step import OneStep
        from ledgerfs_cluster.offload.opening import holder_text
        from ledgerfs_cluster.snapshot.cluster_names import only_cluster
        from ledgerfs_cluster.zookeeper.changes import ClusterLock
        from ledgerfs_cluster.zookeeper.cluster_clock import ClusterClock
        from ledgerfs_cluster.zookeeper.filesystem import PROTOCOL, ClusterFileSystem

        if folder_in_bucket(bucket):
            raise InvalidOptionError(
                "the URL has a folder in the bucket, but brokers only find offloads at the top of a bucket", key=bucket
            )
        if not cluster.startswith(f"{PROTOCOL}://"):
            raise UnusableUrlError(
                f"not the URL of a cluster; expected {PROTOCOL}://host:port,host:port[/chroot]", key=cluster
            )
        tier_name = bucket_in(bucket) if name is None else name
        driver = driver or driver_for(bucket)
        require_place(bucket, driver, tier_name, endpoint)
        place = OffloadBucket("", bucket, driver, tier_name, region, endpoint, block_size, storage_options or {})
        with ExitStack() as closing:
            living = ClusterFileSystem(**(cluster_options or {})).cluster(
                cluster.removeprefix(f"{PROTOCOL}://").rstrip("/")
            )
            closing.callback(living.nodes.close)
            lock = closing.enter_context(ClusterLock.take(living.nodes.settings, holder_text("ManagedLedger")))
            clock, opened = ClusterClock(lock), open_bucket(place.url, place.options)
            step = OneStep(
                *(lock, ClosedLedgers(living), lambda _: opened),
                user_metadata(only_cluster(lock.newest())),
                noted_ms=clock.later_ms,
                url_of=place.url_of,
            )
            made = cls(living.nodes, step, topic, place)
            made._closing = closing.pop_all()
        return made

    def close(self) -> None:
        """Release the lock, if `open` took it."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def offload_prefix(self, position: Position | tuple[int, int]) -> Position:
        """Offload all ledgers before a position's ledger, and return the first position that is not offloaded.

        Like PIP-17's ``asyncOffloadPrefix``: ledgers are offloaded whole, so the position's own ledger stays, and so does the topic's last
        one. Skips ledgers that are offloaded already. Issues an `OffloadRemarkWarning` for work that an operator must finish: objects of a
        broker's failed attempt in another bucket, or a broker that has loaded the topic meanwhile.

        Raises
        ------
        EntryRangeError
            The topic does not have this position.
        RefusedLedgerError
            A broker has the topic, or a ledger could not be offloaded; the ledgers before it are.

        """
        wanted = Position(*position)
        info = self._info()
        self._require_in(info, wanted)
        due = [one for one in info.ledgers[:-1] if one.ledger_id < wanted.ledger_id and not one.is_offloaded]
        ids = [one.ledger_id for one in due if one.entries]
        outcomes = self._step.offload(self.name, ids, self._place) if due else []
        left = [one for one in outcomes if one.status is not Status.OK and one.ledger_ids]
        try:
            reached = first_not_offloaded(self._info())
            self._require_done(left, wanted, reached)
        finally:
            for one in outcomes:
                if one.status is Status.FAILED and not one.ledger_ids:
                    warnings.warn(f"{self.name}: {one.message}", OffloadRemarkWarning, stacklevel=2)
        return reached

    def _info(self) -> ManagedLedgerInfo:
        self._nodes.catch_up()
        node = self._nodes.get(managed_ledger_path(self.name))
        return parse_managed_ledger_info(node.data, key=node.path)

    def _require_in(self, info: ManagedLedgerInfo, position: Position) -> None:
        ids = [one.ledger_id for one in info.ledgers]
        if not ids or not ids[0] <= position.ledger_id <= ids[-1]:
            ledgers = f"ledgers {ids[0]} to {ids[-1]}" if ids else "no ledgers"
            raise EntryRangeError(
                f"position {position.ledger_id}:{position.entry_id} is not in the topic, which has {ledgers}",
                key=self.name,
            )

    def _require_done(self, left: "list[Outcome]", wanted: Position, reached: Position) -> None:
        if left and reached.ledger_id < wanted.ledger_id:
            first = min(left, key=lambda one: one.ledger_ids)
            reason = (
                f"offloaded up to {reached.ledger_id}:{reached.entry_id}; ledger {first.ledger_ids[0]} was not offloaded: "
                f"{first.message}"
            )
            raise RefusedLedgerError(reason, key=self.name)


def first_not_offloaded(info: ManagedLedgerInfo) -> Position:
    """Return the start of the first non-empty ledger that is not offloaded: at the latest the last ledger, which never is.

    (-1, -1) for a topic without ledgers.
    """
    for one in info.ledgers[:-1]:
        if not one.is_offloaded and one.entries:
            return Position(one.ledger_id, 0)
    return Position(info.ledgers[-1].ledger_id, 0) if info.ledgers else Position(-1, -1)

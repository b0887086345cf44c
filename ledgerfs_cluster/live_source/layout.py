"""Live clusters: topics are ledger lists in ZooKeeper, each ledger is in BookKeeper, in a bucket, or in both.

A listing reads the list of every topic, and asks bookies only for the ends of open ledgers. It writes nothing, and fences no ledger.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import NO_UUID
from ledgerfs.catalog.findings import Finding
from ledgerfs.catalog.layout import OpenLedger, Progress
from ledgerfs.catalog.layouts_known import register_rows
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.source import Source
from ledgerfs.catalog.tail import Tail
from ledgerfs.errors import BucketNotFoundError, ObjectNotFoundError, RefusedLedgerError
from ledgerfs.formats.ledger_metadata import LedgerState
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs_cluster.cluster_ledgers import lacking_findings, require_same_topic
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import layout_path, require_layout
from ledgerfs_cluster.formats.managed_ledgers.names import is_of_transactions
from ledgerfs_cluster.live_source import rows
from ledgerfs_cluster.live_source.access import ClusterAccess, listed_topics, managed_ledger_names
from ledgerfs_cluster.live_source.cluster_schemas import schema_topics, schema_versions
from ledgerfs_cluster.live_source.listed_ledgers import ListedLedgers
from ledgerfs_cluster.live_source.reader import LiveReader
from ledgerfs_cluster.live_source.tail import TopicTail
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

if TYPE_CHECKING:
    from hashlib import blake2b

    from ledgerfs_cluster.live_source.ledger_check import LiveCheck


register_rows(rows)


class LiveCluster(Source):
    """A live cluster."""

    __slots__ = ("_access", "traffic")

    what = "a live cluster"
    layouts = (rows.NAME,)
    keeps_schemas = True

    def __init__(self, cluster: LivingCluster, on_change: Callable[[], None] = lambda: None) -> None:
        self._access = ClusterAccess(cluster, on_change)
        self.traffic = self._access.traffic

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.cluster,))

    @property
    def cluster(self) -> LivingCluster:
        """Its metadata, and the options for reading its topics."""
        return self._access.cluster

    @property
    def url(self) -> str:
        """The place as a URL."""
        return self.cluster.url

    def opened(self, cache_dir: str | None, on_change: Callable[[], None]) -> "LiveCluster":  # noqa: ARG002  (nothing is kept)
        """Return the cluster with separate lists and connections."""
        return LiveCluster(self.cluster, on_change)

    def list_ledgers(self, previous: Catalog | None, progress: Progress | None) -> Catalog:  # noqa: ARG002  (every list may have changed)
        """Read all ledger lists, and the ends of open ledgers.

        Raises `BucketNotFoundError` for servers without the chroot, `StoreUnreachableError` when ZooKeeper does not answer,
        `UnsupportedFormatError` for an unknown layout of ledgers, and the error of bookies that demand another login.
        Damaged nodes, and open ledgers whose bookies are silent, become gaps of their topics, and raise no errors.
        """
        nodes = self.cluster.nodes
        try:
            nodes.children("/")
        except ObjectNotFoundError as error:
            reason = "ZooKeeper has no such path (chroot); check the path after the servers (host:port/path)"
            raise BucketNotFoundError(reason, key=self.url) from error
        with suppress(ObjectNotFoundError):
            node = nodes.get(layout_path(self._access.reading.ledgers_path))
            require_layout(node.data, key=node.path)
        found = ListedLedgers(self._access)
        managed_ledgers = managed_ledger_names(nodes)
        topics = [name for name in managed_ledgers if not is_of_transactions(name)]
        for topic in listed_topics(nodes, topics, progress):
            found.take(topic)
        found.find_ends(progress)
        found.notes["transaction logs"] = len(managed_ledgers) - len(topics)
        return found.catalog(rows.NUMBER, self._access.reading.ledgers_path)

    def open_ledger(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader of one ledger; reads lazily."""
        return LiveReader(self._access, ref)

    def tail(self, managed_ledger: str | None) -> Tail:
        """Return a poller of a topic's end."""
        return TopicTail(self._access, managed_ledger or "")

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterator[Finding]:  # noqa: ARG002
        """Yield findings for listed ledgers that are gone, and for unreadable metadata of topics."""
        yield from lacking_findings(catalog, rows.NUMBER)

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None) -> "LiveCheck":
        """Read every entry of a ledger from its current place."""
        # Import numba only here: a quick check does not need it.
        from ledgerfs_cluster.live_source.ledger_check import LiveCheck

        return LiveCheck(cast("LiveReader", ledger), on_read, digest=digest).run()

    def schema_versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all versions in the cluster, with softly deleted ones; raises as `schema_versions`."""
        return schema_versions(self._access, topic)

    def schema_topics(self) -> list[str]:
        """Return the topics with schemas; raises as `schema_topics`."""
        return schema_topics(self._access)

    def uuid_of_copy(self, ref: LedgerRef) -> str | None:
        """Return the uuid of an offloaded ledger; others have none."""
        return None if ref.uuid == NO_UUID else ref.uuid

    def created_ms_of(self, ref: LedgerRef) -> int | None:
        """Return when a ledger was created, by its metadata."""
        if ref.created_ms is not None:
            return ref.created_ms
        metadata = self.open_ledger(ref).metadata()
        return None if metadata is None else metadata.created_ms

    def require_copyable(self, ref: LedgerRef, managed_ledger: str | None, state: int | None) -> None:
        """Raise `RefusedLedgerError` for a ledger that is still open, or whose own metadata does not name the topic that lists it."""
        require_same_topic(ref, managed_ledger)
        if state != LedgerState.CLOSED:
            raise RefusedLedgerError(
                "the ledger is not closed yet, so it cannot be copied; try again after it is closed", key=ref.key
            )

"""Living clusters: topics are lists of ledgers in ZooKeeper, each ledger in BookKeeper, in a bucket, or in both.

A listing reads the list of every topic, and asks bookies only where open ledgers end. Nothing is ever written, and no ledger fenced.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ledgerfs.cache.learned_offsets import LearnedOffsets
from ledgerfs.dialects.live_cluster.access import ClusterAccess
from ledgerfs.dialects.live_cluster.cluster_schemas import ClusterSchemas
from ledgerfs.dialects.live_cluster.columns import NUMBER
from ledgerfs.dialects.live_cluster.listed_ledgers import ListedLedgers
from ledgerfs.dialects.live_cluster.reader import LiveReader
from ledgerfs.dialects.live_cluster.remains import LiveRemains, Unknown
from ledgerfs.dialects.live_cluster.tail import TopicTail
from ledgerfs.dialects.live_cluster.topics import listed_topics, managed_ledger_names
from ledgerfs.errors import InvalidOptionError, ObjectNotFoundError
from ledgerfs.formats.bookkeeper.ledger_paths import layout_path, require_layout
from ledgerfs.formats.managed_ledgers.names import is_of_transactions
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.dialect import FoundLedgers, Names, OpenLedger, Progress, RepairRequest
from ledgerfs.ledgers.findings import Finding, Severity
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.missing_ledgers import UNKNOWN, GapKind
from ledgerfs.ledgers.no_objects import NoObjects
from ledgerfs.ledgers.reader import LedgerReader, OnRead
from ledgerfs.ledgers.repairs import Repair
from ledgerfs.storage.object_store import KeepingStore

if TYPE_CHECKING:
    from hashlib import blake2b

    from ledgerfs.dialects.live_cluster.ledger_check import LiveCheck


class LiveCluster:
    """`Dialect` of a living cluster."""

    __slots__ = ("_access",)

    number = NUMBER
    is_in_folders = False
    repaired_kinds: frozenset[str] = frozenset()

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    def begin_listing(self) -> NoObjects:
        """Return what takes no objects."""
        return NoObjects()

    def kind_of_other(self, key: str) -> str | None:  # noqa: ARG002
        """Know nothing."""
        return None

    def load(
        self,
        listing: Any,  # noqa: ANN401, ARG002
        previous: Catalog | None,  # noqa: ARG002  (every list may have changed)
        names: Names,
        places: Names,
        progress: Progress | None,
    ) -> FoundLedgers:
        """Read all lists of ledgers, and where open ledgers end.

        Raises `StoreUnreachableError` when ZooKeeper does not answer, `UnsupportedFormatError` for a layout of ledgers that is not known,
        and the error of bookies that demand what ledgerfs does not have. Damaged
        nodes, and open ledgers whose bookies are silent, are gaps of their topics, and raise nothing.
        """
        nodes = self._access.cluster.nodes
        with suppress(ObjectNotFoundError):
            node = nodes.get(layout_path(self._access.reading.ledgers_path))
            require_layout(node.data, key=node.path)
        place = places.row_of(self._access.reading.ledgers_path)
        found = ListedLedgers(self._access, names, place)
        managed_ledgers = managed_ledger_names(nodes)
        topics = [name for name in managed_ledgers if not is_of_transactions(name)]
        for topic in listed_topics(nodes, topics, progress):
            found.take(topic)
        found.find_ends(progress)
        remains = replace(found.remains(), transaction_logs=len(managed_ledgers) - len(topics))
        return FoundLedgers(found.table(), remains)

    def completed(self, catalog: Catalog) -> Catalog:
        """Return the catalog as it is."""
        return catalog

    def gaps(self, catalog: Catalog, now_ms: int) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        """Yield rows of `GAP`: open ledgers that topics list, and that are gone; and what could not be learned of topics."""
        for row in catalog.lost[catalog.lost["dialect"] == NUMBER]:
            key = (0, 0, int(row["ledger_id"]), int(row["name"]), int(row["place"]))
            yield (*key, NUMBER, GapKind.NOT_IN_BOOKKEEPER, False, -1, -1, 0, int(row["changed_ms"]))
        place = catalog.places.index(self._access.reading.ledgers_path)
        for one in _unknown(catalog):
            yield (0, 0, one.ledger_id, one.name, place, NUMBER, one.kind, False, -1, -1, 0, 0)

    def open_ledger(self, ref: LedgerRef, offsets: LearnedOffsets | None = None) -> LedgerReader:  # noqa: ARG002  (bookies know where entries are)
        """Return a reader of one ledger; nothing is asked before it is needed."""
        return LiveReader(self._access, ref)

    def tail(self, managed_ledger: str | None) -> TopicTail:
        """Return what looks at the end of a topic."""
        return TopicTail(self._access, managed_ledger or "")

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterator[Finding]:  # noqa: ARG002
        """Yield the ledgers that topics list as the last one, and that are gone; and what could not be learned of topics."""
        reason = "the topic lists this ledger, and neither BookKeeper nor a bucket has it: its entries are lost"
        for row in catalog.lost[catalog.lost["dialect"] == NUMBER]:
            ref = catalog.ref_of(row)
            yield Finding(Severity.DAMAGE, "lost-ledger", reason, ref.key, None, ref.ledger_id, ref.topic)
        for one in _unknown(catalog):
            is_silent = one.kind is GapKind.END_UNKNOWN
            severity = Severity.UNCHECKED if is_silent else Severity.DAMAGE
            ledger_id = None if one.ledger_id == UNKNOWN else one.ledger_id
            topic = topic_of(catalog.names[one.name])
            yield Finding(severity, "unreadable-object", one.error.reason, one.error.key or "", None, ledger_id, topic)

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None) -> "LiveCheck":
        """Read every entry of a ledger, from where it is read."""
        # numba, which this imports, is not needed for a quick look.
        from ledgerfs.dialects.live_cluster.ledger_check import LiveCheck

        return LiveCheck(cast("LiveReader", ledger), on_read, digest=digest).run()

    def remarks(self, catalog: Catalog) -> list[Finding]:  # noqa: ARG002
        """Say nothing more."""
        return []

    def schema_versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all versions that the cluster has, those that are deleted softly among them; raises as `ClusterSchemas.versions`."""
        return ClusterSchemas(self._access).versions(topic)

    def schema_topics(self) -> list[str]:
        """Return the topics that have schemas; raises as `ClusterSchemas.topics`."""
        return ClusterSchemas(self._access).topics()

    def repairs(self, request: RepairRequest) -> Iterator[Repair]:  # noqa: ARG002
        """Yield nothing: a living cluster is not changed."""
        return iter(())


def _unknown(catalog: Catalog) -> tuple[Unknown, ...]:
    remains = catalog.remains.get(NUMBER)
    return remains.unknown if isinstance(remains, LiveRemains) else ()


def open_dialect(store: KeepingStore) -> LiveCluster:
    """Return the dialect over one cluster (`ledgerfs.dialects.opening`)."""
    if store.cluster is None:
        raise InvalidOptionError(f"{store.url} is no living cluster", key="dialect=live_cluster")
    return LiveCluster(ClusterAccess(store, store.cluster))

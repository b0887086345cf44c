"""What a listing of topics shows of a living cluster besides: what is offloaded, what is not, and backlogs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ledgerfs.catalog.catalog_rows import own_columns
from ledgerfs.catalog.topic_infos import topic_infos
from ledgerfs_cluster.live_source.rows import NUMBER, OWN, Place
from ledgerfs_cluster.rules.cursors import Backlog, backlogs
from ledgerfs_cluster.snapshot.surveying import survey_cluster
from ledgerfs_cluster.snapshot.walk import TOPICS

if TYPE_CHECKING:
    from ledgerfs.catalog.catalog import Catalog
    from ledgerfs.catalog.layout import Progress
    from ledgerfs.catalog.topic_infos import TopicInfo
    from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

_NONE = Backlog(0, None)


class HotAndCold:
    """`ledgerfs.catalog.topic_infos.TopicColumns` of a catalog; ``backlogs`` is None without them.

    Attributes
    ----------
    troubles
        What could not be read of backlogs.
    is_damaged
        Whether nodes of subscriptions are damaged.

    """

    __slots__ = ("_backlogs", "_cold", "is_damaged", "troubles")

    def __init__(
        self,
        catalog: "Catalog",
        backlogs: Mapping[str, Backlog] | None = None,
        troubles: Sequence[str] = (),
        *,
        is_damaged: bool = False,
    ) -> None:
        ledgers = catalog.ledgers
        is_cold = (ledgers["layout"] == NUMBER) & (own_columns(ledgers, OWN)["where"] != Place.BOOKKEEPER)
        self._cold = {one.managed_ledger: one for one in topic_infos(catalog.names, ledgers[is_cold])}
        self._backlogs = backlogs
        self.troubles = troubles
        self.is_damaged = is_damaged

    @classmethod
    def with_backlogs(cls, catalog: "Catalog", cluster: "LivingCluster", progress: "Progress") -> "HotAndCold":
        """Return the columns with the backlogs of all topics. Nothing is written to the cluster."""
        # This imports numba, for the digests of entries.
        from ledgerfs_cluster.live_source.newest_entries import NewestEntries

        survey = survey_cluster(cluster, NewestEntries(cluster.reading), progress, (TOPICS,))
        troubles = [*survey.troubles, *(f"{one.path}: {one.reason}" for one in survey.damaged)]
        return cls(catalog, backlogs(survey), troubles, is_damaged=bool(survey.damaged))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return ("hot", "cold", "entries", "hot bytes", "cold bytes", *(() if self._backlogs is None else ("backlog",)))

    def cells(self, topic: "TopicInfo", size_text: Callable[[int], str]) -> tuple[str, ...]:
        """Return the columns of a topic."""
        hot, cold, hot_bytes, cold_bytes = self._halves(topic)
        sums = f"{hot:,}", f"{cold:,}", f"{topic.entries:,}", size_text(hot_bytes), size_text(cold_bytes)
        if self._backlogs is None:
            return sums
        backlog = self._backlogs.get(topic.managed_ledger or "", _NONE)
        unknown = "?" if backlog.subscriptions else "-"
        return (*sums, unknown if backlog.entries is None else f"{backlog.entries:,}")

    def as_json(self, topic: "TopicInfo") -> dict[str, Any]:
        """Return the same for programs; a backlog is null where it is not known, and where there are no subscriptions."""
        hot, cold, hot_bytes, cold_bytes = self._halves(topic)
        told = {"hot_ledgers": hot, "cold_ledgers": cold, "hot_bytes": hot_bytes, "cold_bytes": cold_bytes}
        if self._backlogs is None:
            return told
        backlog = self._backlogs.get(topic.managed_ledger or "", _NONE)
        return {**told, "subscriptions": backlog.subscriptions, "backlog": backlog.entries}

    def _halves(self, topic: "TopicInfo") -> tuple[int, int, int, int]:
        cold = self._cold.get(topic.managed_ledger)
        if cold is None:
            return topic.ledgers, 0, topic.bytes, 0
        return topic.ledgers - cold.ledgers, cold.ledgers, topic.bytes - cold.bytes, cold.bytes

"""The halves of a living cluster's topics, and their backlogs, as ``ledgerfs topics`` shows them. Imports numpy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ledgerfs.cli.output import human_size, progress, say
from ledgerfs.clusters.cursors import Backlog, backlogs
from ledgerfs.clusters.surveying import survey_cluster
from ledgerfs.clusters.walk import TOPICS
from ledgerfs.dialects.offloaded_parts import offloaded_parts

if TYPE_CHECKING:
    from ledgerfs.ledgers.catalog import Catalog
    from ledgerfs.ledgers.topic_infos import TopicInfo
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster

_NONE = Backlog(0, None)
_MOST_LINES = 10


class HotAndCold:
    """What is offloaded of each topic of a catalog, and what is not; ``backlogs`` is None if nobody asks for them."""

    __slots__ = ("_backlogs", "_cold")

    def __init__(self, catalog: "Catalog", backlogs: Mapping[str, Backlog] | None) -> None:
        self._cold = offloaded_parts(catalog)
        self._backlogs = backlogs

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return ("hot", "cold", "entries", "hot bytes", "cold bytes", *(() if self._backlogs is None else ("backlog",)))

    def cells(self, topic: "TopicInfo") -> tuple[str, ...]:
        """Return the columns of a topic."""
        hot, cold, hot_bytes, cold_bytes = self._halves(topic)
        sums = f"{hot:,}", f"{cold:,}", f"{topic.entries:,}", human_size(hot_bytes), human_size(cold_bytes)
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


def backlogs_of(cluster: "LivingCluster") -> tuple[dict[str, Backlog], bool]:
    """Return the backlogs of all topics, and whether nodes are damaged; says on standard error what could not be known.

    Nothing is written to the cluster.
    """
    # This imports numba, for the digests of entries.
    from ledgerfs.dialects.newest_entries import NewestEntries

    with progress() as update:
        survey = survey_cluster(cluster, NewestEntries(cluster.reading), update, (TOPICS,))
    troubles = [*survey.troubles, *(f"{one.path}: {one.reason}" for one in survey.damaged)]
    for trouble in troubles[:_MOST_LINES]:
        say(f"not known: {trouble}")
    if len(troubles) > _MOST_LINES:
        say(f"not known: {len(troubles) - _MOST_LINES:,} more")
    return backlogs(survey), bool(survey.damaged)

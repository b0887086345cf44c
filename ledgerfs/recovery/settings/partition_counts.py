"""How many partitions the topics have that are restored: as the dump tells, or as their names do."""

from collections.abc import Iterable

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.topic_names import split_partition
from ledgerfs.recovery.lost.dumped_cluster import DumpedCluster, is_partition
from ledgerfs.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs.recovery.planning.topic_plan import TopicPlan

MOST_INFERRED = 10_000
"""Partitions that are believed of a name alone: clients open each of them, and anybody may have made up a name."""


def partition_counts(managed_ledgers: Iterable[str], settings: DumpedSettings) -> dict[str, int]:
    """Return {name of a partitioned managed ledger: how many partitions it has}.

    A dump may be older than the last partitions, so that none is left out that there is a ledger of. A number beyond `MOST_INFERRED` of
    which the dump tells nothing makes no partitions: those topics are served by their own names.

    Parameters
    ----------
    managed_ledgers
        Former names of all that are restored, partitions and others.
    settings
        What the dump tells; damaged nodes there are as good as none.

    """
    beyond: dict[str, int] = {}
    told: dict[str, int | None] = {}
    for name in managed_ledgers:
        stem, number = split_partition(name)
        if stem not in told:
            told[stem] = _told(stem, settings)
        count = 0 if number is None else int(number) + 1
        if count > max(MOST_INFERRED, told[stem] or 0):
            continue
        if number is not None or told[stem]:
            beyond[stem] = max(beyond.get(stem, 0), count, told[stem] or 0)
    return dict(sorted(beyond.items()))


def counts_in_new_cluster(plans: Iterable[TopicPlan], dump: DumpedCluster | None) -> dict[str, int]:
    """Return {partitioned topic in the new cluster, as a managed ledger without a number: how many partitions it had}."""
    former = DumpedSettings() if dump is None else dump.settings
    partitions = {one.source: one.target for one in plans if is_partition(one.source, dump)}
    targets = {split_partition(source)[0]: split_partition(target)[0] for source, target in partitions.items()}
    return {targets[name]: count for name, count in partition_counts(partitions, former).items()}


def _told(stem: str, settings: DumpedSettings) -> int | None:
    try:
        return settings.partitions(stem)
    except CorruptMetadataError:
        return None

"""What a dump does not tell, and what of it no topic's line shows: said in a plan and after a run, so that nobody takes it for all."""

from collections.abc import Iterable

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs_cluster.recovery.lost.dumped_cluster import DumpedCluster
from ledgerfs_cluster.recovery.planning.topic_plan import TopicPlan
from ledgerfs_cluster.recovery.planning.wanted import Wanted
from ledgerfs_cluster.recovery.settings.former_settings import FormerSetting
from ledgerfs_cluster.recovery.topics.subscriptions import Positions, subscriptions_of
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.partitioned_topics import partitioned_path

_PARTITIONED = partitioned_path("")


def doubts_about(dump: DumpedCluster) -> list[str]:
    """Return what is to be said of answers that the dump does not have, and of damaged nodes in it."""
    remarks = []
    cursors = [one for of_topic in dump.cursors.values() for one in of_topic.values() if one.trouble is not None]
    ends = [one for one in dump.ends.values() if one.end is LastEnd.UNKNOWN and one.trouble is not None]
    schemas = [one for some in dump.settings.schemas.values() for one in some if one.trouble is not None]
    policies = [one for one in dump.settings.topic_policies.values() if one.trouble is not None]
    told = (
        (len(cursors), "where subscriptions were"),
        (len(schemas), "versions of schemas"),
        (len(ends), "ends of ledgers"),
        (len(policies), "policies of topics"),
    )
    lacking = [f"{count:,} {what}" for count, what in told if count]
    if lacking:
        remarks.append(
            f"bookies did not tell all that the dump was to have ({', '.join(lacking)}): one that was made before may have it "
            "(`ledgerfs cluster dumps` lists them, --dump names one)"
        )
    if dump.damaged:
        path, why = next(iter(dump.damaged.items()))
        remarks.append(
            f"{len(dump.damaged):,} nodes of the lost cluster are damaged in the dump, such as {path} ({why})"
        )
    return remarks


def doubts_about_subscriptions(plan: TopicPlan) -> list[str]:
    """Return what a run would say of the subscriptions of a topic: how far each is known."""
    ledgers = [(ref.ledger_id, ref.ledger_id, ref.entries) for ref in plan.ledgers]
    end = ledgers[-1][0] + 1 if ledgers else 0
    return subscriptions_of(plan.source, plan.former.cursors, Positions(ledgers, end, plan.renumbered))[1]


def without_partitions(dump: DumpedCluster, wanted: Wanted, plans: Iterable[TopicPlan]) -> list[FormerSetting]:
    """Return how many partitions topics had of which no partition was ever loaded, and so none is restored."""
    there = {split_partition(plan.source)[0] for plan in plans}
    found = []
    for path in sorted(dump.settings.nodes):
        name = path.removeprefix(_PARTITIONED)
        if name == path or name.count("/") < 3 or name in there or not wanted.has(name):
            continue
        target = wanted.names.target_of(name)
        try:
            count = dump.settings.partitions(name)
        except CorruptMetadataError as error:
            found.append(FormerSetting(f"topic {topic_of(name)}", "partitions", None, error.reason))
            continue
        if target is not None and count:
            reason = "none of its partitions was ever loaded"
            found.append(FormerSetting(f"topic {topic_of(target)}", "partitions", count, reason))
    return found

"""A recovery from its beginning to its end: what is planned, what is done in which order, and what is looked at again before it is done.

Order of a run: what only disks have goes into the bucket; the bucket is listed; ids of ledgers and transactions are advanced; tenants,
namespaces and schemas are made; each topic is made by one commit; counts of partitions; the bucket is listed again; brokers are asked for
what they serve now.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.clusters.bundles import namespace_of
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, UnsupportedWriteError
from ledgerfs.formats.topic_names import split_partition
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.dialect import Progress
from ledgerfs.ledgers.missing_ledgers import being_written_text
from ledgerfs.offload.opening import holder_text
from ledgerfs.recovery.checking.broker_check import GONE, BrokerCheck, restored_topics
from ledgerfs.recovery.lost.dumped_cluster import DumpedCluster
from ledgerfs.recovery.planning.planning import Wanted, plan_each, refused, together
from ledgerfs.recovery.planning.topic_plan import TopicPlan
from ledgerfs.recovery.running.dump_doubts import doubts_about, doubts_about_subscriptions, without_partitions
from ledgerfs.recovery.running.from_disks import Said, offload_from_disks
from ledgerfs.recovery.running.report import Report, TopicLine
from ledgerfs.recovery.running.strangers import without_strangers
from ledgerfs.recovery.settings.former_settings import FormerSetting
from ledgerfs.recovery.settings.namespaces import has_transactions
from ledgerfs.recovery.settings.partitions import counts_in_new_cluster, other_counts, set_partitions
from ledgerfs.recovery.settings.setting_again import SettingAgain, SettingsOfTopics
from ledgerfs.recovery.topics.coordinators import advance_transactions
from ledgerfs.recovery.topics.ledger_ids import advance_ids, block_beyond
from ledgerfs.recovery.topics.new_cluster import Found, beside_others, brokers_delete, look
from ledgerfs.recovery.topics.restoring import How, Outcome, RestoredTopic, Restoring, lost_since, there_again, why_not
from ledgerfs.storage.zookeeper.changes import ClusterLock
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster
from ledgerfs.storage.zookeeper.nodes import Nodes

_YOUNG_MS = 15 * 60_000
"""A bucket that got ledgers so shortly ago may still be written by a cluster that is not lost."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What is left of the lost cluster.

    Attributes
    ----------
    dump, dump_name
        What its dump has, and where that is; None without one.
    disks
        Disks of its bookies; None without any.

    """

    bucket: Bucket
    wanted: Wanted
    dump: DumpedCluster | None = None
    dump_name: str | None = None
    disks: Bucket | None = None


@dataclass(frozen=True, slots=True)
class Into:
    """The new cluster: its ZooKeeper, and its brokers."""

    cluster: LivingCluster
    settings: SettingAgain
    how: How
    lets_brokers_delete: bool = False

    @property
    def ledgers_path(self) -> str:
        """Where its BookKeeper has its nodes."""
        return self.cluster.reading.ledgers_path


def plan(lost: Lost, into: Into | None, progress: Progress) -> Report:
    """Return what a run would do; nothing is written. Without ``into`` nothing of a new cluster is looked at.

    Raises the errors of the bucket, of ZooKeeper and of the admin API.
    """
    began_ms = _now()
    plans = _planned(lost, lost.bucket.refresh(progress), progress)
    remarks = _about_bucket(lost, plans)
    if lost.disks is not None:
        remarks.append(
            "entries on disks are read by the run alone: a ledger of which some are on none of them is refused then"
        )
    if into is None:
        plans = together(plans, lost.dump)
        return _report(lost, None, began_ms, [TopicLine(one) for one in plans], remarks=remarks)
    found = _look(lost, into, plans)
    plans, own = _without_own(lost, plans, found)
    plans = refused(plans, _blocked(lost, into, plans, found, lost.bucket.catalog))
    settings = into.settings.plan(_due(plans, found))
    plans = refused(plans, settings.refused)
    plans = refused(
        plans, _deleting(into, plans, found, made={one.name for one in settings.settings.namespaces if one.is_new})
    )
    catalog = lost.bucket.catalog
    due = {one.source for one in _due(plans, found)}
    plans = [
        replace(one, remarks=(*one.remarks, *doubts_about_subscriptions(one))) if one.source in due else one
        for one in plans
    ]
    lines = [TopicLine(one, _there_before(one, found, into, catalog)) for one in plans]
    told = [*remarks, *own, *settings.remarks]
    return _report(lost, into, began_ms, lines, remarks=told, by_hand=_by_hand(lost, into, settings, plans))


def run(lost: Lost, into: Into, check: BrokerCheck | None, progress: Progress, say: Said) -> Report:
    """Restore topics, and return what became of each.

    What ends it leaves whole topics, and nothing of others but copies that no list names; the next run goes on. ``check`` asks brokers for
    first, last and sampled entries of each topic; None for no such question.

    Raises the errors of the bucket, of ZooKeeper and of the admin API, and `LockHeldError` while others have it.
    """
    began_ms = _now()
    from_disks = {} if lost.disks is None else offload_from_disks(lost.disks, lost.bucket, lost.wanted, progress, say)
    with ClusterLock.take(into.cluster.nodes.settings, holder_text("recovery")) as lock:
        catalog = lost.bucket.list_to_write(progress)
        plans = _planned(replace(lost, disks=None), catalog, progress)
        found = _look(lost, into, plans)
        plans, own = _without_own(lost, plans, found)
        plans = refused(plans, {**from_disks, **_blocked(lost, into, plans, found, catalog)})
        settings = into.settings.plan(_due(plans, found))
        plans = refused(plans, settings.refused)
        due = _due(plans, found)
        # Before anything is made: schemas are ledgers, too, and a broker that loads a topic makes one at once.
        ids = advance_ids(lock, catalog, lost.dump, found, into.ledgers_path) if due else None
        hides_aborted = False
        if ids is not None:
            advance_transactions(lock)
            hides_aborted = has_transactions(into.settings.requests)
            # From now on nobody gets an id of the bucket's ledgers; until now a producer may have come.
            found = _look(lost, into, plans)
            plans = refused(plans, _blocked(lost, into, plans, found, catalog))
            due = _due(plans, found)
        made = into.settings.make_namespaces(settings, due)
        for namespace in made:
            say(f"made namespace {namespace}")
        plans = refused(plans, _deleting(into, plans, found, made=()))
        due = _due(plans, found)
        plans = refused(plans, into.settings.set_schemas(lock, settings, due))
        restoring = Restoring(
            lock, into.cluster.nodes, lost.bucket, catalog, ids=ids, how=into.how, hides_aborted=hides_aborted
        )
        done = []
        for number, one in enumerate(restoring.restore(plans, found), 1):
            done.append(one)
            progress("restoring topics", number, len(plans))
        troubles = _partitions(lost, lock, done)
        after = lost.bucket.list_to_write(progress)
        troubles |= lost_since(done, after)
    lines = [TopicLine(one.plan, one, trouble=troubles.get(one.plan.source)) for one in done]
    if check is not None:
        lines = _compared(lost.bucket, into.cluster.nodes, lines, check, progress)
    remarks = [*_about_bucket(lost, plans), *own, *settings.remarks]
    return _report(lost, into, began_ms, lines, remarks=remarks, by_hand=_by_hand(lost, into, settings, plans))


def check(bucket: Bucket, wanted: Wanted, cluster: LivingCluster, check: BrokerCheck, progress: Progress) -> Report:
    """Read what runs have restored from a bucket back through brokers, and compare all of it with the bucket; nothing is written.

    Raises the errors of the bucket, of ZooKeeper and of brokers, and `ObjectNotFoundError` where no run has restored what is wanted.
    """
    began_ms, nodes, catalog = _now(), cluster.nodes, bucket.refresh(progress)
    nodes.catch_up()
    lines = [
        TopicLine(one, there_again(one, nodes, catalog, None) if trouble != GONE else None, trouble=trouble)
        for one, trouble in restored_topics(nodes, catalog, bucket.store.url)
        if wanted.has(one.source)
    ]
    if not lines:
        raise ObjectNotFoundError("no run has restored a topic from this bucket that is wanted", key=bucket.store.url)
    compared = _compared(bucket, nodes, lines, check, progress)
    return Report(bucket.store.url, cluster.url, None, None, began_ms, _now(), compared)


def _planned(lost: Lost, catalog: Catalog, progress: Progress) -> list[TopicPlan]:
    disks = None if lost.disks is None else lost.disks.refresh(progress)
    return without_strangers(plan_each(catalog, lost.dump, lost.wanted, disks), lost.dump, lost.bucket)


def _look(lost: Lost, into: Into, plans: Sequence[TopicPlan]) -> Found:
    return look(into.cluster.nodes, plans, lost.bucket.store.url, into.ledgers_path)


def _without_own(lost: Lost, plans: Sequence[TopicPlan], found: Found) -> tuple[list[TopicPlan], list[str]]:
    """Return plans without the topics that are the new cluster's own, and what is to be said of these."""
    own = [one for one in plans if one.source in found.own]
    if not own:
        return together(plans, lost.dump), []
    remark = (
        f"{len(own):,} topics are the new cluster's own, such as {own[0].topic}: its lists have all that the bucket has of them, and there "
        "is nothing to restore"
    )
    return together([one for one in plans if one.source not in found.own], lost.dump), [remark]


def _blocked(lost: Lost, into: Into, plans: Sequence[TopicPlan], found: Found, catalog: Catalog) -> dict[str, str]:
    """Return of which topics the new cluster has something that is not ours."""
    due = _due(plans, found)
    why_none = _without_ids(lost, into, found, catalog)
    if why_none is not None:
        return {one.source: why_none for one in due}
    wanted = counts_in_new_cluster([one for one in plans if one.refusal is None], lost.dump)
    counts = other_counts(into.cluster.nodes, wanted)
    others = {one.source: why for one in due if (why := counts.get(split_partition(one.target)[0])) is not None}
    others |= beside_others(into.cluster.nodes, due, catalog)
    return others | {
        one.source: why
        for one in plans
        if (one.source, one.target) not in found.ours
        and (why := why_not(one, found, gives_new_ids=into.how.gives_new_ids)) is not None
    }


def _without_ids(lost: Lost, into: Into, found: Found, catalog: Catalog) -> str | None:
    """Return why the new cluster has no ids for what is restored; None if it has."""
    try:
        block_beyond(into.cluster.nodes, catalog, lost.dump, found, into.ledgers_path)
    except UnsupportedWriteError as error:
        return str(error)
    return None


def _due(plans: Sequence[TopicPlan], found: Found) -> list[TopicPlan]:
    """Return those that are to be restored, of plans of which what is blocked is refused; what is there has its own settings."""
    return [
        one
        for one in plans
        if one.refusal is None
        and (one.source, one.target) not in found.ours
        and one.target not in found.taken
        and one.source not in found.own
    ]


def _deleting(into: Into, plans: Sequence[TopicPlan], found: Found, made: Collection[str]) -> dict[str, str]:
    """Return of which topics brokers would delete ledgers, in the bucket, too: by the retention of namespaces that are there."""
    if into.lets_brokers_delete:
        return {}
    due = _due(plans, found)
    kept = brokers_delete(into.cluster.nodes, {namespace_of(one.target) for one in due})
    return {
        one.source: _would_delete(namespace_of(one.target), kept[namespace_of(one.target)])
        for one in due
        if namespace_of(one.target) in kept and namespace_of(one.target) not in made
    }


def _would_delete(namespace: str, kept: str) -> str:
    return (
        f"brokers would delete or expire what is restored, in the bucket, too: {namespace} has {kept}. Lift it before (retention with "
        f"`pulsar-admin namespaces set-retention {namespace} --time -1 --size -1`), or --let-brokers-delete"
    )


def _there_before(one: TopicPlan, found: Found, into: Into, catalog: Catalog) -> RestoredTopic | None:
    if (one.source, one.target) not in found.ours:
        return None
    return there_again(one, into.cluster.nodes, catalog, into.how)


def _partitions(lost: Lost, lock: ClusterLock, done: Sequence[RestoredTopic]) -> dict[str, str]:
    """Set the counts of partitioned topics of which all partitions are there; return {former managed ledger: what is the matter}."""
    lacking = {split_partition(one.plan.target)[0] for one in done if not one.is_served}
    served = [one.plan for one in done if split_partition(one.plan.target)[0] not in lacking]
    made = {split_partition(one.plan.target)[0] for one in done if one.outcome is Outcome.RESTORED}
    before = {split_partition(one.target)[0] for one in served} - made
    told = set_partitions(lock, counts_in_new_cluster(served, lost.dump), before)
    return {one.source: told[whole] for one in served if (whole := split_partition(one.target)[0]) in told}


def _compared(
    bucket: Bucket, nodes: Nodes, lines: Sequence[TopicLine], check: BrokerCheck, progress: Progress
) -> list[TopicLine]:
    """Return lines with what brokers serve of each topic that is there."""
    compared = []
    for number, line in enumerate(lines, 1):
        if line.done is None or not line.done.is_served:
            compared.append(line)
            continue
        try:
            found = check.compare(bucket, nodes, line.plan, line.done)
            compared.append(replace(line, compared=found))
        except LedgerfsError as error:
            compared.append(replace(line, trouble=line.trouble or f"its brokers were asked in vain: {error}"))
        progress("comparing topics", number, len(lines))
    return compared


def _about_bucket(lost: Lost, plans: Sequence[TopicPlan]) -> list[str]:
    """Return what concerns all topics."""
    remarks = []
    catalog = lost.bucket.catalog
    if lost.dump is None:
        remarks.append(
            "there is no dump of the lost cluster: subscriptions, policies, and what was never offloaded are not known"
        )
    else:
        remarks += doubts_about(lost.dump)
    being_written = catalog.being_written([None])
    if being_written:
        remarks.append(being_written_text(being_written))
    unplaced = catalog.unplaced()
    if unplaced:
        remarks.append(
            f"of {len(unplaced):,} ledgers in the bucket nobody can tell the topic: `ledgerfs verify` names them"
        )
    if lost.disks is not None:
        unknown = lost.disks.catalog.unplaced()
        if unknown:
            remarks.append(
                f"of {len(unknown):,} ledgers on disks nobody can tell the topic: they were made after the dump"
            )
    newest = max((ref.changed_ms for one in plans for ref in one.ledgers[-1:]), default=0)
    if newest > _now() - _YOUNG_MS:
        remarks.append(
            "the bucket got ledgers minutes ago: make sure that the lost cluster's brokers do not write into it any more"
        )
    return remarks


def _by_hand(lost: Lost, into: Into, settings: SettingsOfTopics, plans: Sequence[TopicPlan]) -> list[FormerSetting]:
    """Return the former settings that are not set, or made, again."""
    made = () if lost.dump is None else without_partitions(lost.dump, lost.wanted, plans)
    return [*into.settings.left_by_hand(settings), *made]


def _report(
    lost: Lost,
    into: Into | None,
    began_ms: int,
    lines: Sequence[TopicLine],
    *,
    remarks: Sequence[str],
    by_hand: Sequence[FormerSetting] = (),
) -> Report:
    return Report(
        lost.bucket.store.url,
        "" if into is None else into.cluster.url,
        lost.dump_name,
        None if lost.dump is None else lost.dump.began_ms,
        began_ms,
        _now(),
        lines,
        remarks,
        by_hand,
    )


def _now() -> int:
    return time.time_ns() // 1_000_000

"""A plan, and a run, from beginning to end.

Order of a run: what only disks have goes into the bucket; the bucket is listed; ids of ledgers and transactions are advanced; tenants,
namespaces and schemas are made; each topic is made by one commit; counts of partitions are set; the bucket is listed again.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import NO_UUID
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import being_written_text
from ledgerfs.errors import UnsupportedWriteError
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs.writing.copy_ledgers import copy_ledgers
from ledgerfs_cluster.offload.opening import holder_text
from ledgerfs_cluster.recovery.lost.dumped_cluster import DumpedCluster
from ledgerfs_cluster.recovery.planning.planning import plan_each, refused, together, without_strangers
from ledgerfs_cluster.recovery.planning.topic_plan import TopicPlan
from ledgerfs_cluster.recovery.planning.wanted import Wanted
from ledgerfs_cluster.recovery.report import Outcome, Report, TopicLine
from ledgerfs_cluster.recovery.running.dump_doubts import doubts_about, doubts_about_subscriptions, without_partitions
from ledgerfs_cluster.recovery.settings.former_settings import FormerSetting, not_carried_over
from ledgerfs_cluster.recovery.settings.namespaces import make_namespaces
from ledgerfs_cluster.recovery.settings.partitions import counts_in_new_cluster, other_counts, set_partitions
from ledgerfs_cluster.recovery.settings.setting_again import SettingAgain, SettingsOfTopics
from ledgerfs_cluster.recovery.topics.coordinators import advance_transactions
from ledgerfs_cluster.recovery.topics.ledger_ids import advance_ids, block_beyond
from ledgerfs_cluster.recovery.topics.new_cluster import Found, beside_others, brokers_delete, look
from ledgerfs_cluster.recovery.topics.restoring import (
    How,
    Restoring,
    line_of_restored,
    lost_since,
    reason_not_to_restore,
)
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

Said = Callable[[str], None]
"""Takes what is done now, a sentence each."""
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

    @property
    def ledgers_path(self) -> str:
        """Where its BookKeeper has its nodes."""
        return self.cluster.reading.ledgers_path


def plan(lost: Lost, into: Into | None, progress: Progress) -> Report:
    """Return what a run would do; nothing is written. Without ``into`` nothing of a new cluster is read.

    Raises the errors of the bucket, of ZooKeeper and of the admin API.
    """
    began_ms, catalog = _now(), lost.bucket.refresh(progress)
    plans = _planned(lost, catalog, progress)
    remarks = _about_bucket(lost, plans)
    if lost.disks is not None:
        remarks.append(
            "entries on disks are read by the run alone: a ledger of which some are on none of them is refused then"
        )
    if into is None:
        return _report(lost, None, began_ms, map(TopicLine.of_plan, together(plans, lost.dump)), remarks)
    step = _prepared(lost, into, plans, catalog, {})
    plans, found = step.plans, step.found
    plans = refused(plans, _deleting(into, _due(plans, found)))
    due = {one.source for one in _due(plans, found)}
    plans = [
        replace(one, remarks=(*one.remarks, *doubts_about_subscriptions(one))) if one.source in due else one
        for one in plans
    ]
    lines = [
        line_of_restored(one, into.cluster.nodes, catalog, into.how)
        if (one.source, one.target) in found.ours
        else TopicLine.of_plan(one)
        for one in plans
    ]
    return _report(lost, into, began_ms, lines, [*remarks, *step.remarks], _by_hand(lost, into, step))


def run(lost: Lost, into: Into, progress: Progress, say: Said) -> Report:
    """Restore topics, and return what became of each.

    What ends it leaves whole topics, and nothing of others but copies that no list names; the next run goes on.

    Raises the errors of the bucket, of ZooKeeper and of the admin API, and `LockHeldError` while others have it.
    """
    began_ms = _now()
    from_disks = {} if lost.disks is None else offload_from_disks(lost.disks, lost.bucket, lost.wanted, progress, say)
    nodes, requests = into.cluster.nodes, into.settings.requests
    with ClusterLock.take(nodes.settings, holder_text("recovery")) as lock:
        catalog = lost.bucket.list_to_write(progress)
        plans = _planned(replace(lost, disks=None), catalog, progress)
        step = _prepared(lost, into, plans, catalog, from_disks)
        plans, found = step.plans, step.found
        # Before anything is made: schemas are ledgers, too, and a broker that loads a topic makes one at once.
        ids = advance_ids(lock, catalog, lost.dump, found, into.ledgers_path) if _due(plans, found) else None
        if ids is not None:
            advance_transactions(lock)
            # From now on nobody gets an id of the bucket's ledgers; until now a producer may have come.
            found = _look(lost, into, plans)
            plans = refused(plans, _blocked(lost, into, plans, found, catalog))
        wanted = {namespace_of(one.target) for one in _due(plans, found)}
        for namespace in make_namespaces(requests, step.settings.settings, wanted):
            say(f"made namespace {namespace}")
        plans = refused(plans, _deleting(into, _due(plans, found)))
        plans = refused(plans, into.settings.set_schemas(lock, step.settings, _due(plans, found)))
        hides_aborted = step.settings.cluster.has_transactions
        restoring = Restoring(lock, nodes, lost.bucket, catalog, ids=ids, how=into.how, hides_aborted=hides_aborted)
        lines = []
        for number, line in enumerate(restoring.restore(plans, found), 1):
            lines.append(line)
            progress("restoring topics", number, len(plans))
        reasons = _partitions(lost, lock, lines)
        reasons |= lost_since(lines, lost.bucket.list_to_write(progress))
    for line in lines:
        line.reason = reasons.get(line.plan.source, line.reason)
    remarks = [*_about_bucket(lost, plans), *step.remarks]
    return _report(lost, into, began_ms, lines, remarks, _by_hand(lost, into, replace(step, plans=plans)))


@dataclass(frozen=True, slots=True)
class _Step:
    """What is planned before anything is made: topics, what the new cluster has, settings, and what concerns all topics."""

    plans: list[TopicPlan]
    found: Found
    settings: SettingsOfTopics
    remarks: list[str]


def _prepared(
    lost: Lost, into: Into, plans: Sequence[TopicPlan], catalog: Catalog, from_disks: Mapping[str, str]
) -> _Step:
    """Return plans of which those are refused that cannot be made; ``from_disks`` are reasons known before."""
    found = _look(lost, into, plans)
    own = [one for one in plans if one.source in found.own]
    plans = together([one for one in plans if one.source not in found.own], lost.dump)
    remarks = []
    if own:
        remarks.append(
            f"{len(own):,} topics are the new cluster's own, such as {own[0].topic}: its lists have all that the bucket has of them, and "
            "there is nothing to restore"
        )
    plans = refused(plans, {**from_disks, **_blocked(lost, into, plans, found, catalog)})
    settings = into.settings.plan(_due(plans, found))
    return _Step(refused(plans, settings.refused), found, settings, [*remarks, *settings.remarks])


def _planned(lost: Lost, catalog: Catalog, progress: Progress) -> list[TopicPlan]:
    disks = None if lost.disks is None else lost.disks.refresh(progress)
    return without_strangers(plan_each(catalog, lost.dump, lost.wanted, disks), lost.dump, lost.bucket)


def _look(lost: Lost, into: Into, plans: Sequence[TopicPlan]) -> Found:
    return look(into.cluster.nodes, plans, lost.bucket.store.url, into.ledgers_path)


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
        and (why := reason_not_to_restore(one, found, gives_new_ids=into.how.gives_new_ids)) is not None
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


def _deleting(into: Into, due: Sequence[TopicPlan]) -> dict[str, str]:
    """Return of which topics brokers would delete ledgers, in the bucket, too: by the retention of namespaces that are there."""
    policies = brokers_delete(into.cluster.nodes, {namespace_of(one.target) for one in due})
    return {
        one.source: (
            f"brokers would delete or expire what is restored, in the bucket, too: {namespace} has {policies[namespace]}. Lift it before "
            f"(retention with `pulsar-admin namespaces set-retention {namespace} --time -1 --size -1`)"
        )
        for one in due
        if (namespace := namespace_of(one.target)) in policies
    }


def _partitions(lost: Lost, lock: ClusterLock, done: Sequence[TopicLine]) -> dict[str, str]:
    """Set the counts of partitioned topics of which all partitions are there; return {former managed ledger: what is the matter}."""
    lacking = {split_partition(one.plan.target)[0] for one in done if not one.is_served}
    served = [one.plan for one in done if split_partition(one.plan.target)[0] not in lacking]
    made = {split_partition(one.plan.target)[0] for one in done if one.outcome is Outcome.RESTORED}
    before = {split_partition(one.target)[0] for one in served} - made
    told = set_partitions(lock, counts_in_new_cluster(served, lost.dump), before)
    return {one.source: told[whole] for one in served if (whole := split_partition(one.target)[0]) in told}


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


def _by_hand(lost: Lost, into: Into, step: _Step) -> list[FormerSetting]:
    """Return the former settings that are not set, or made, again."""
    made = [] if lost.dump is None else without_partitions(lost.dump, lost.wanted, step.plans)
    return [*not_carried_over(into.settings.former, step.settings.settings), *made]


def _report(  # noqa: PLR0917  (all of a report)
    lost: Lost,
    into: Into | None,
    began_ms: int,
    lines: Iterable[TopicLine],
    remarks: Sequence[str],
    by_hand: Sequence[FormerSetting] = (),
) -> Report:
    url = "" if into is None else into.cluster.url
    known_until_ms = None if lost.dump is None else lost.dump.began_ms
    return Report(
        lost.bucket.store.url, url, lost.dump_name, known_until_ms, began_ms, _now(), list(lines), remarks, by_hand
    )


def offload_from_disks(disks: Bucket, bucket: Bucket, wanted: Wanted, progress: Progress, say: Said) -> dict[str, str]:
    """Copy what only disks have into the bucket; return {managed ledger: why not all of it is there}.

    A ledger of which a broker has offloaded all stays as it is in the bucket, whatever disks have of it.

    Raises the errors of the bucket and of the disks.
    """
    on_disks = disks.refresh(progress)
    topics = [topic_of(name) for name in wanted.chosen(name for name in on_disks.managed_ledgers if name is not None)]
    if not topics:
        return {}
    say(f"copying ledgers of {len(topics):,} topics from disks into the bucket, those that it does not have")
    report = copy_ledgers(disks, bucket, topics=topics, allow_incomplete=True, progress=progress, catalog=on_disks)
    say(f"copied {report.copied:,} ledgers from disks; {report.skipped:,} were there")
    if not report.failed:
        return {}
    catalog = bucket.list_to_write(progress)
    return {
        one.source.managed_ledger: f"ledger {one.source.ledger_id} could not be copied from disks: {one.error}"
        for one in report.failed
        if one.source.managed_ledger is not None and not _has_all(catalog, one.source)
    }


def _has_all(catalog: Catalog, on_disks: LedgerRef) -> bool:
    """Whether the bucket has all of a ledger: brokers offload closed ones alone, and what came from disks has as much as these."""
    return any(
        ref.is_sound and (ref.uuid != NO_UUID or ref.entries >= on_disks.entries)
        for ref in catalog.copies_of(on_disks.managed_ledger, on_disks.ledger_id)
    )


def _now() -> int:
    return time.time_ns() // 1_000_000

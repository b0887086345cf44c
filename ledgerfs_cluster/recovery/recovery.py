"""Plan and run a recovery; a plan is a run that stops before it changes anything.

Order of a run: list the bucket; advance ids of ledgers and transactions; create tenants, namespaces and schemas; create each topic by one
commit; set partition counts; list the bucket again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.missing_ledgers import being_written_text
from ledgerfs.errors import UnsupportedWriteError
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs_cluster.offload.opening import holder_text
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster, DumpedSettings
from ledgerfs_cluster.recovery.generated_ids import advance_ids, advance_transactions, block_beyond
from ledgerfs_cluster.recovery.journal import lost_since, restored_before
from ledgerfs_cluster.recovery.new_cluster import Found, NewCluster, beside_others, deleting, look
from ledgerfs_cluster.recovery.partitions import counts_in_new_cluster, other_counts, set_partitions
from ledgerfs_cluster.recovery.planning import Wanted, plan_each, together, without_others
from ledgerfs_cluster.recovery.report import Outcome, Report, TopicRecovery, refused
from ledgerfs_cluster.recovery.restoring import Restoring
from ledgerfs_cluster.recovery.settings.namespaces import (
    SettingsPlan,
    broker_settings,
    make_namespaces,
    plan_settings,
    set_strategies,
)
from ledgerfs_cluster.recovery.settings.schemas import SchemaPlan, known_versions, plan_topics, restore_all_schemas
from ledgerfs_cluster.recovery.subscriptions import Positions, subscriptions_of
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.zookeeper.changes import ClusterLock

Said = Callable[[str], None]
"""Called with a sentence about the current work."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lost cluster's data, and the selection of topics.

    Attributes
    ----------
    dump, dump_name
        Contents and URL of its dump; None without one.

    """

    bucket: Bucket
    wanted: Wanted
    dump: DumpedCluster | None = None
    dump_name: str | None = None

    @property
    def settings(self) -> DumpedSettings:
        """Its known settings."""
        return DumpedSettings() if self.dump is None else self.dump.settings


@dataclass(slots=True)
class _Prepared:
    """State before any change: topics, the new cluster's contents, settings, and warnings about all topics."""

    topics: list[TopicRecovery]
    found: Found
    has_transactions: bool
    settings: SettingsPlan
    schemas: Mapping[str, SchemaPlan]
    remarks: list[str]

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Refuse planned topics, by source."""
        self.topics = refused(self.topics, reasons)

    @property
    def due(self) -> list[TopicRecovery]:
        """Topics to restore."""
        return [one for one in self.topics if one.is_planned]


def plan(lost: Lost, into: NewCluster | None, progress: Progress) -> Report:
    """Return what a run would do; read-only. Without ``into`` no new cluster is read.

    Raises the errors of the bucket, of ZooKeeper and of the admin API.
    """
    began_ms, catalog = _now(), lost.bucket.refresh(progress)
    if into is None:
        return _report(lost, None, began_ms, together(_planned(lost, catalog), lost.dump), None)
    prepared = _prepared(lost, into, catalog)
    prepared.refuse(deleting(into.nodes, prepared.topics))
    topics = [one.with_remarks(*_about_subscriptions(one)) if one.is_planned else one for one in prepared.topics]
    return _report(lost, into, began_ms, topics, prepared)


def run(lost: Lost, into: NewCluster, progress: Progress, say: Said) -> Report:
    """Restore topics, and return the result of each.

    An interrupted run leaves whole topics, and of others only unlisted copies; the next run resumes.

    Raises the errors of the bucket, of ZooKeeper and of the admin API, and `LockHeldError` while another process holds the lock.
    """
    began_ms = _now()
    with ClusterLock.take(into.nodes.settings, holder_text("recovery")) as lock:
        catalog = lost.bucket.list_to_write(progress)
        prepared = _prepared(lost, into, catalog)
        topics = prepared.topics
        if prepared.due:
            topics = _restored(lost, into, prepared, lock, catalog, progress, say)
        reasons = _set_partitions(lost, lock, topics)
        reasons |= lost_since(topics, lost.bucket.list_to_write(progress))
    topics = [replace(one, reason=reasons.get(one.source, one.reason)) for one in topics]
    return _report(lost, into, began_ms, topics, prepared)


def _restored(  # noqa: PLR0917  (all of a run)
    lost: Lost,
    into: NewCluster,
    prepared: _Prepared,
    lock: ClusterLock,
    catalog: Catalog,
    progress: Progress,
    say: Said,
) -> list[TopicRecovery]:
    """Restore the planned topics, and return the results of all."""
    # Advance ids first: schemas are ledgers, too, and a broker that loads a topic creates one at once.
    ids = advance_ids(lock, catalog, lost.dump, prepared.found, into.ledgers_path)
    advance_transactions(lock)
    # From now on no new ledger gets an id of the bucket's; a producer may have connected before.
    found = look(into.nodes, prepared.topics, lost.bucket.store.url, into.ledgers_path)
    prepared.refuse(_blocked(lost, into, prepared.topics, found, catalog))
    wanted = {namespace_of(one.target) for one in prepared.due}
    made = make_namespaces(into.requests, prepared.settings, wanted)
    for namespace in made:
        say(f"created namespace {namespace}")
    prepared.refuse(deleting(into.nodes, prepared.topics))
    topics = {topic_of(one.whole) for one in prepared.due}
    schemas = [one for one in prepared.schemas.values() if one.topic in topics]
    failed = restore_all_schemas(into.requests, schemas)
    set_strategies(into.requests, prepared.settings, made)
    prepared.refuse({one.source: str(failed[name]) for one in prepared.due if (name := topic_of(one.whole)) in failed})
    restoring = Restoring(lock, lost.bucket, catalog, into, ids, prepared.has_transactions)
    done = []
    for number, one in enumerate(prepared.topics, 1):
        done.append(restoring.restore(one, has_new_ids=found.clash(one) is not None) if one.is_planned else one)
        progress("restoring topics", number, len(prepared.topics))
    return done


def _prepared(lost: Lost, into: NewCluster, catalog: Catalog) -> _Prepared:
    """Return the work to do; refuses topics that cannot be created."""
    planned = _planned(lost, catalog)
    remarks = _about_bucket(lost)
    found = look(into.nodes, planned, lost.bucket.store.url, into.ledgers_path)
    own = [one for one in planned if one.source in found.own]
    if own:
        remarks.append(
            f"{len(own):,} topics belong to the new cluster itself, such as {own[0].topic}: its ledger lists have all their ledgers in "
            "the bucket, so they are not restored"
        )
    looks = into.looks_for_transactions
    topics = [
        restored_before(one, into.nodes, catalog, looks_for_transactions=looks)
        if (one.source, one.target) in found.ours
        else one
        for one in together([one for one in planned if one.source not in found.own], lost.dump)
    ]
    topics = refused(topics, _blocked(lost, into, topics, found, catalog))
    wanted = {one.target: one.source for one in topics if one.is_planned}
    cluster, has_transactions = broker_settings(into.requests)
    settings = plan_settings(into.requests, wanted, lost.settings, cluster)
    schemas: Mapping[str, SchemaPlan] = {}
    if into.sets_schemas:
        schemas = plan_topics(
            into.requests,
            {split_partition(target)[0]: split_partition(source)[0] for target, source in wanted.items()},
            lambda topic: known_versions(topic, lost.settings, into.stores),
            {one.name for one in settings.namespaces if one.is_new},
        )
    remarks += [f"namespace {one.name}: {remark}" for one in settings.namespaces for remark in one.remarks]
    troubles = {one.name: one.trouble for one in (*settings.tenants, *settings.namespaces)}
    reasons: dict[str, str] = {}
    for target, source in wanted.items():
        namespace, of_topic = namespace_of(target), schemas.get(split_partition(target)[0])
        why = troubles.get(namespace) or troubles.get(namespace.partition("/")[0])
        if why := why or (None if of_topic is None else of_topic.trouble):
            reasons[source] = why
    return _Prepared(refused(topics, reasons), found, has_transactions, settings, schemas, remarks)


def _planned(lost: Lost, catalog: Catalog) -> list[TopicRecovery]:
    return without_others(plan_each(catalog, lost.dump, lost.wanted), lost.dump, lost.bucket)


def _blocked(
    lost: Lost, into: NewCluster, topics: Sequence[TopicRecovery], found: Found, catalog: Catalog
) -> dict[str, str]:
    """Return why planned topics cannot be created: conflicts in the new cluster, or no free ids."""
    due = [one for one in topics if one.is_planned]
    try:
        block_beyond(into.nodes, catalog, lost.dump, found, into.ledgers_path)
    except UnsupportedWriteError as error:
        return {one.source: found.taken.get(one.target, str(error)) for one in due}
    counts = counts_in_new_cluster([one for one in topics if one.is_planned or one.is_served], lost.dump)
    others = other_counts(into.nodes, counts)
    reasons = {one.source: others[one.whole] for one in due if one.whole in others}
    reasons |= beside_others(into.nodes, due, catalog)
    for one in due:
        clash = found.clash(one)
        if one.target in found.taken:
            reasons[one.source] = found.taken[one.target]
        elif clash is not None and not into.gives_new_ids:
            reasons[one.source] = f"{clash}: pass --new-ids (and --as) to copy its ledgers to new ids"
        elif clash is not None and one.target == one.source:
            reasons[one.source] = (
                f"{clash}: copies under the same name would put each message twice into one topic of the bucket; choose another name (--as)"
            )
    return reasons


def _set_partitions(lost: Lost, lock: ClusterLock, done: Sequence[TopicRecovery]) -> dict[str, str]:
    """Set the partition counts of topics whose partitions are all restored; return {former managed ledger: problem}."""
    lacking = {one.whole for one in done if not one.is_served}
    served = [one for one in done if one.whole not in lacking]
    before = {one.whole for one in served} - {one.whole for one in done if one.outcome is Outcome.RESTORED}
    wrong = set_partitions(lock, counts_in_new_cluster(served, lost.dump), before)
    return {one.source: wrong[one.whole] for one in served if one.whole in wrong}


def _about_bucket(lost: Lost) -> list[str]:
    """Return warnings about all topics."""
    catalog, remarks = lost.bucket.catalog, list[str]()
    if lost.dump is None:
        remarks.append(
            "there is no dump of the lost cluster: its subscriptions, policies, and messages that were never offloaded are unknown"
        )
    being_written = catalog.being_written([None])
    if being_written:
        remarks.append(being_written_text(being_written))
    unplaced = catalog.unplaced()
    if unplaced:
        remarks.append(f"the topic of {len(unplaced):,} ledgers in the bucket is unknown: `ledgerfs verify` lists them")
    return remarks


def _about_subscriptions(topic: TopicRecovery) -> list[str]:
    """Return a run's warnings about a topic's subscriptions: how current each is."""
    ledgers = [(ref.ledger_id, ref.ledger_id, ref.entries) for ref in topic.ledgers]
    end = ledgers[-1][0] + 1 if ledgers else 0
    return subscriptions_of(topic.source, topic.cursors, Positions(ledgers, end, topic.renumbered))[1]


def _report(
    lost: Lost, into: NewCluster | None, began_ms: int, topics: Sequence[TopicRecovery], prepared: _Prepared | None
) -> Report:
    return Report(
        bucket=lost.bucket.store.url,
        cluster="" if into is None else into.cluster.url,
        dump=lost.dump_name,
        known_until_ms=None if lost.dump is None else lost.dump.began_ms,
        began_ms=began_ms,
        ended_ms=_now(),
        topics=topics,
        remarks=_about_bucket(lost) if prepared is None else prepared.remarks,
        by_hand=() if prepared is None else prepared.settings.by_hand,
    )


def _now() -> int:
    return time.time_ns() // 1_000_000

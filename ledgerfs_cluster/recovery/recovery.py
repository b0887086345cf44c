"""A plan, and a run, from beginning to end; a plan is a run that stops before it changes anything.

Order of a run: the bucket is listed; ids of ledgers and transactions are advanced; tenants, namespaces and schemas are made; each topic is
made by one commit; counts of partitions are set; the bucket is listed again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.missing_ledgers import being_written_text
from ledgerfs.errors import CorruptMetadataError, UnsupportedWriteError
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs_cluster.offload.opening import holder_text
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster, DumpedSettings
from ledgerfs_cluster.recovery.generated_ids import advance_ids, advance_transactions, block_beyond
from ledgerfs_cluster.recovery.journal import lost_since, restored_before
from ledgerfs_cluster.recovery.new_cluster import Found, NewCluster, beside_others, deleting, look
from ledgerfs_cluster.recovery.partitions import counts_in_new_cluster, other_counts, set_partitions
from ledgerfs_cluster.recovery.planning import plan_each, together, without_strangers
from ledgerfs_cluster.recovery.report import Outcome, Report, TopicRecovery, refused
from ledgerfs_cluster.recovery.restoring import Restoring
from ledgerfs_cluster.recovery.settings.namespaces import (
    FormerSetting,
    SettingsPlan,
    broker_settings,
    make_namespaces,
    plan_settings,
)
from ledgerfs_cluster.recovery.settings.schema_plan import SchemaPlan, known_versions
from ledgerfs_cluster.recovery.settings.schemas import plan_topics, put_back_strategies, restore_all_schemas
from ledgerfs_cluster.recovery.subscriptions import Positions, subscriptions_of
from ledgerfs_cluster.recovery.wanted import Wanted
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.partitioned_topics import partitioned_path
from ledgerfs_cluster.zookeeper.changes import ClusterLock

Said = Callable[[str], None]
"""Takes what is done now, a sentence each."""
_PARTITIONED = partitioned_path("")
_YOUNG_MS = 15 * 60_000
"""A bucket that got ledgers so shortly ago may still be written by a cluster that is not lost."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What is left of the lost cluster, and what is wanted of it.

    Attributes
    ----------
    dump, dump_name
        What its dump has, and where that is; None without one.

    """

    bucket: Bucket
    wanted: Wanted
    dump: DumpedCluster | None = None
    dump_name: str | None = None

    @property
    def settings(self) -> DumpedSettings:
        """What is known of its settings."""
        return DumpedSettings() if self.dump is None else self.dump.settings


@dataclass(slots=True)
class _Prepared:
    """What is known before anything is made: topics, what the new cluster has, settings, and what concerns all topics."""

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
        """Topics that are to be restored."""
        return [one for one in self.topics if one.is_planned]


def plan(lost: Lost, into: NewCluster | None, progress: Progress) -> Report:
    """Return what a run would do; nothing is written. Without ``into`` nothing of a new cluster is read.

    Raises the errors of the bucket, of ZooKeeper and of the admin API.
    """
    began_ms, catalog = _now(), lost.bucket.refresh(progress)
    if into is None:
        topics = _planned(lost, catalog)
        remarks = _about_bucket(lost, topics)
        return _report(lost, None, began_ms, together(topics, lost.dump), remarks, ())
    prepared = _prepared(lost, into, catalog)
    prepared.refuse(deleting(into.nodes, prepared.topics))
    topics = [one.with_remarks(*_about_subscriptions(one)) if one.is_planned else one for one in prepared.topics]
    return _report(lost, into, began_ms, topics, prepared.remarks, _by_hand(lost, prepared))


def run(lost: Lost, into: NewCluster, progress: Progress, say: Said) -> Report:
    """Restore topics, and return what became of each.

    What ends it leaves whole topics, and nothing of others but copies that no list names; the next run goes on.

    Raises the errors of the bucket, of ZooKeeper and of the admin API, and `LockHeldError` while others have it.
    """
    began_ms = _now()
    with ClusterLock.take(into.nodes.settings, holder_text("recovery")) as lock:
        put_back_strategies(into.requests, lock)
        catalog = lost.bucket.list_to_write(progress)
        prepared = _prepared(lost, into, catalog)
        topics = prepared.topics
        if prepared.due:
            topics = _restored(lost, into, prepared, lock, catalog, progress, say)
        reasons = _set_partitions(lost, lock, topics)
        reasons |= lost_since(topics, lost.bucket.list_to_write(progress))
    topics = [replace(one, reason=reasons.get(one.source, one.reason)) for one in topics]
    return _report(lost, into, began_ms, topics, prepared.remarks, _by_hand(lost, prepared))


def _restored(  # noqa: PLR0917  (all of a run)
    lost: Lost,
    into: NewCluster,
    prepared: _Prepared,
    lock: ClusterLock,
    catalog: Catalog,
    progress: Progress,
    say: Said,
) -> list[TopicRecovery]:
    """Restore the planned topics, and return what became of all."""
    # Before anything is made: schemas are ledgers, too, and a broker that loads a topic makes one at once.
    ids = advance_ids(lock, catalog, lost.dump, prepared.found, into.ledgers_path)
    advance_transactions(lock)
    # From now on no ledger gets an id of the bucket's; until now a producer may have come.
    found = look(into.nodes, prepared.topics, lost.bucket.store.url, into.ledgers_path)
    prepared.refuse(_blocked(lost, into, prepared.topics, found, catalog))
    wanted = {namespace_of(one.target) for one in prepared.due}
    for namespace in make_namespaces(into.requests, prepared.settings, wanted):
        say(f"made namespace {namespace}")
    prepared.refuse(deleting(into.nodes, prepared.topics))
    topics = {topic_of(one.whole) for one in prepared.due}
    schemas = [one for one in prepared.schemas.values() if one.topic in topics]
    failed = restore_all_schemas(into.requests, lock, schemas)
    prepared.refuse({one.source: str(failed[name]) for one in prepared.due if (name := topic_of(one.whole)) in failed})
    restoring = Restoring(lock, lost.bucket, catalog, into, ids, prepared.has_transactions)
    done = []
    for number, one in enumerate(prepared.topics, 1):
        done.append(restoring.restore(one, has_new_ids=found.clash(one) is not None) if one.is_planned else one)
        progress("restoring topics", number, len(prepared.topics))
    return done


def _prepared(lost: Lost, into: NewCluster, catalog: Catalog) -> _Prepared:
    """Return what is to be done, with those topics refused that cannot be made."""
    planned = _planned(lost, catalog)
    remarks = _about_bucket(lost, planned)
    found = look(into.nodes, planned, lost.bucket.store.url, into.ledgers_path)
    own = [one for one in planned if one.source in found.own]
    if own:
        remarks.append(
            f"{len(own):,} topics are the new cluster's own, such as {own[0].topic}: its lists have all that the bucket has of them, and "
            "there is nothing to restore"
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
            hides_lost=into.hides_lost,
        )
    remarks += [f"namespace {one.name}: {remark}" for one in settings.namespaces for remark in one.remarks]
    remarks += [f"{one.topic}: {remark}" for one in schemas.values() for remark in one.remarks]
    troubles = {one.name: one.trouble for one in (*settings.tenants, *settings.namespaces)}
    reasons: dict[str, str] = {}
    for target, source in wanted.items():
        namespace, of_topic = namespace_of(target), schemas.get(split_partition(target)[0])
        why = troubles.get(namespace) or troubles.get(namespace.partition("/")[0])
        if why := why or (None if of_topic is None else of_topic.trouble):
            reasons[source] = why
    return _Prepared(refused(topics, reasons), found, has_transactions, settings, schemas, remarks)


def _planned(lost: Lost, catalog: Catalog) -> list[TopicRecovery]:
    return without_strangers(plan_each(catalog, lost.dump, lost.wanted), lost.dump, lost.bucket)


def _blocked(
    lost: Lost, into: NewCluster, topics: Sequence[TopicRecovery], found: Found, catalog: Catalog
) -> dict[str, str]:
    """Return why planned topics cannot be made: the new cluster has something in their place, or has no ids for them."""
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
            reasons[one.source] = f"{clash}: --new-ids copies its ledgers under others"
        elif clash is not None and one.target == one.source:
            reasons[one.source] = (
                f"{clash}: their copies would be the same messages twice in one topic of the bucket; give it another name (--as)"
            )
    return reasons


def _set_partitions(lost: Lost, lock: ClusterLock, done: Sequence[TopicRecovery]) -> dict[str, str]:
    """Set the counts of partitioned topics of which all partitions are there; return {former managed ledger: what is the matter}."""
    lacking = {one.whole for one in done if not one.is_served}
    served = [one for one in done if one.whole not in lacking]
    before = {one.whole for one in served} - {one.whole for one in done if one.outcome is Outcome.RESTORED}
    wrong = set_partitions(lock, counts_in_new_cluster(served, lost.dump), before)
    return {one.source: wrong[one.whole] for one in served if one.whole in wrong}


def _about_bucket(lost: Lost, topics: Sequence[TopicRecovery]) -> list[str]:
    """Return what concerns all topics."""
    catalog = lost.bucket.catalog
    if lost.dump is None:
        remarks = [
            "there is no dump of the lost cluster: subscriptions, policies, and what was never offloaded are not known"
        ]
    else:
        remarks = _about_dump(lost.dump)
    being_written = catalog.being_written([None])
    if being_written:
        remarks.append(being_written_text(being_written))
    unplaced = catalog.unplaced()
    if unplaced:
        remarks.append(
            f"the topic of {len(unplaced):,} ledgers in the bucket is not known: `ledgerfs verify` names them"
        )
    newest = max((ref.changed_ms for one in topics for ref in one.ledgers[-1:]), default=0)
    if newest > _now() - _YOUNG_MS:
        remarks.append(
            "the bucket got ledgers minutes ago: make sure that the lost cluster's brokers do not write into it any more"
        )
    return remarks


def _about_dump(dump: DumpedCluster) -> list[str]:
    """Return what is to be said of answers that a dump does not have, and of damaged nodes in it."""
    settings, remarks = dump.settings, []
    cursors = [one.trouble for of_topic in dump.cursors.values() for one in of_topic.values()]
    schemas = [one.trouble for some in settings.schemas.values() for one in some]
    ends = [one.trouble for one in dump.ends.values() if one.end is LastEnd.UNKNOWN]
    counts = {
        "where subscriptions were": _troubles(cursors),
        "versions of schemas": _troubles(schemas),
        "ends of ledgers": _troubles(ends),
        "policies of topics": _troubles([one.trouble for one in settings.topic_policies.values()]),
    }
    lacking = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    if lacking:
        remarks.append(
            f"bookies did not report all that the dump was to have ({lacking}): one that was made before may have it "
            "(`ledgerfs cluster dumps` lists them, --dump names one)"
        )
    if dump.damaged:
        path, why = next(iter(dump.damaged.items()))
        remarks.append(
            f"{len(dump.damaged):,} nodes of the lost cluster are damaged in the dump, such as {path} ({why})"
        )
    return remarks


def _troubles(some: Sequence[str | None]) -> int:
    return len(some) - some.count(None)


def _about_subscriptions(topic: TopicRecovery) -> list[str]:
    """Return what a run would say of the subscriptions of a topic: how far each is known."""
    ledgers = [(ref.ledger_id, ref.ledger_id, ref.entries) for ref in topic.ledgers]
    end = ledgers[-1][0] + 1 if ledgers else 0
    return subscriptions_of(topic.source, topic.cursors, Positions(ledgers, end, topic.renumbered))[1]


def _by_hand(lost: Lost, prepared: _Prepared) -> list[FormerSetting]:
    """Return what is left to be set by hand, also how many partitions topics had of which none was ever loaded."""
    there = {split_partition(one.source)[0] for one in prepared.topics}
    found = list(prepared.settings.by_hand)
    for path in sorted(lost.settings.nodes):
        name = path.removeprefix(_PARTITIONED)
        target = lost.wanted.target_of(name)
        if name == path or name.count("/") < 3 or name in there or not lost.wanted.has(name) or target is None:
            continue
        try:
            count, reason = lost.settings.partitions(name) or 0, "none of its partitions was ever loaded"
        except CorruptMetadataError as error:
            count, reason = None, error.reason
        if count != 0:
            found.append(FormerSetting(f"topic {topic_of(target)}", "partitions", count, reason))
    return found


def _report(  # noqa: PLR0917  (all of a report)
    lost: Lost,
    into: NewCluster | None,
    began_ms: int,
    topics: Sequence[TopicRecovery],
    remarks: Sequence[str],
    by_hand: Sequence[FormerSetting],
) -> Report:
    url = "" if into is None else into.cluster.url
    known_until_ms = None if lost.dump is None else lost.dump.began_ms
    return Report(
        lost.bucket.store.url, url, lost.dump_name, known_until_ms, began_ms, _now(), topics, remarks, by_hand
    )


def _now() -> int:
    return time.time_ns() // 1_000_000

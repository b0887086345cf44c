"""What is to become of each topic, by the bucket, by a dump, and by disks: no request to any cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.partitioned_names import partitions_of
from ledgerfs.formats.pulsar_blob.user_metadata import parse_user_metadata
from ledgerfs.formats.topic_names import parse_managed_ledger_name, split_partition, topic_of
from ledgerfs.layouts.pulsar_blob.columns import NUMBER
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import COMPACTION, is_of_transactions, managed_ledger_path
from ledgerfs_cluster.recovery.lost.dumped_cluster import DumpedCluster, DumpedCursor, is_partition
from ledgerfs_cluster.recovery.planning.topic_ledgers import (
    missing_by_list,
    missing_in_bucket,
    of_the_topic,
    readable_ledgers,
    refused_by_the_store,
)
from ledgerfs_cluster.recovery.planning.topic_plan import FormerTopic, TopicPlan
from ledgerfs_cluster.recovery.planning.wanted import Wanted
from ledgerfs_cluster.snapshot.cluster_names import CLUSTERS, GLOBAL
from ledgerfs_cluster.snapshot.survey import is_of_brokers

_REPLICATION = "pulsar.repl."


def plan_each(
    catalog: Catalog, dump: DumpedCluster | None = None, wanted: Wanted | None = None, disks: Catalog | None = None
) -> list[TopicPlan]:
    """Return the plan of each topic by itself, sorted by name; each partition is one.

    Topics of brokers' own (policies, transactions, health) are none of them: the new cluster's brokers make theirs.

    Raises `AccessDeniedError` for a bucket with folders that cannot be listed.
    """
    catalog.require_readable()
    wanted = wanted or Wanted()
    owners = {} if dump is None else _owners(dump)
    names = wanted.chosen(_names(catalog, dump, disks))
    plans = [_plan(name, catalog, dump, wanted, disks, owners) for name in names]
    return _without_copies(plans, catalog)


def together(plans: Sequence[TopicPlan], dump: DumpedCluster | None) -> list[TopicPlan]:
    """Return plans of all topics that are to be made, those refused of which clients would not know one from the other."""
    return _all_or_nothing(_told_beside_partitions(_different_targets(plans), dump))


def _names(catalog: Catalog, dump: DumpedCluster | None, disks: Catalog | None) -> list[str]:
    """Return all topics but those of brokers' own, which the new cluster's brokers make anew."""
    found = {name for name in catalog.known_names if name is not None}
    if dump is not None:
        found |= dump.lists.keys()
    if disks is not None:
        found |= {name for name in disks.managed_ledgers if name is not None}
    return sorted(name for name in found if not (is_of_transactions(name) or is_of_brokers(name)))


def _owners(dump: DumpedCluster) -> dict[int, str]:
    """Return {ledger: the managed ledger whose list has it}. Ids are unique in a cluster, whatever ledgers tell of their topics."""
    return {one.ledger_id: name for name, info in dump.lists.items() for one in info.ledgers}


def _plan(  # noqa: PLR0917  (all that is left of a topic)
    name: str,
    catalog: Catalog,
    dump: DumpedCluster | None,
    wanted: Wanted,
    disks: Catalog | None,
    owners: Mapping[int, str],
) -> TopicPlan:
    target = wanted.names.target_of(name)
    info = None if dump is None else dump.lists.get(name)
    former, remarks = _former(name, info, dump)
    plan = TopicPlan(name, target or name, former=former)
    refusal = _why_not(name, target, catalog, dump, wanted)
    if refusal is not None:
        return replace(plan, refusal=refusal)
    found = [*readable_ledgers(catalog, name, info), *([] if disks is None else readable_ledgers(disks, name, info))]
    each: dict[int, LedgerRef] = {}
    for ref in found:
        each.setdefault(ref.ledger_id, ref)
    ledgers, left_out = of_the_topic(name, sorted(each.values(), key=lambda ref: ref.ledger_id), info, owners)
    gaps = catalog.absent_of(name)
    if info is None:
        missing = missing_in_bucket(ledgers, gaps)
    else:
        assert dump is not None  # noqa: S101  (its list is)
        damaged = {ref.ledger_id for ref in catalog.refs_of(name)} - each.keys()
        missing = missing_by_list(info, dump.ends, ledgers, gaps, damaged)
    if refusal := refused_by_the_store(each, gaps):
        return replace(plan, refusal=refusal)
    if left_out:
        remarks.append(
            f"{len(left_out):,} ledgers in the bucket were no longer the topic's when the dump was made (expired, or left over), and are "
            f"not restored: {_shown(left_out)}"
        )
    if plan.former.is_terminated:
        remarks.append(
            "it was terminated, and takes messages again: to end it, send one message more, and `pulsar-admin topics terminate "
            f"{topic_of(target or name)}` (brokers tell readers of no messages where the last ledger of a terminated topic is empty)"
        )
    path = managed_ledger_path(name)
    if dump is not None and path in dump.damaged:
        remarks.append(f"its list in the dump cannot be read ({dump.damaged[path]}): what is missing is not known")
    return replace(
        plan,
        ledgers=tuple(ledgers),
        missing=missing,
        left_out=tuple(left_out),
        remarks=tuple(remarks),
    )


def _why_not(name: str, target: str | None, catalog: Catalog, dump: DumpedCluster | None, wanted: Wanted) -> str | None:
    """Return why a topic is not restored, whatever there is of it; None if it is."""
    if parse_managed_ledger_name(name) is None:
        return "its name is none of a persistent topic, so that brokers do not find it"
    if target is None:
        return f"{wanted.names.template} makes no name of a topic of it"
    if dump is not None and name not in dump.lists:
        path = managed_ledger_path(name)
        newest = max((ref.created_ms or ref.changed_ms for ref in catalog.refs_of(name)), default=0)
        if path not in dump.damaged and newest < dump.began_ms:
            return "the lost cluster had deleted it: the dump does not have it, and its ledgers are older (older --dump, or --no-dump)"
    if target != name and (partitions := partitions_of(catalog, target)) and not catalog.table_of(target).size:
        return (
            f"the bucket has {topic_of(partitions[0])}: readers would take its partitions for none of {topic_of(target)} any more, as "
            "soon as there are ledgers of that name"
        )
    if (catalog.table_of(name)["layout"] != NUMBER).any():
        return "its ledgers are those of the filesystem offloader; copy them into a bucket first (ledgerfs offload)"
    return None


def _former(name: str, info: ManagedLedgerInfo | None, dump: DumpedCluster | None) -> tuple[FormerTopic, list[str]]:
    """Return what a dump tells of a topic, and what is to be said of that."""
    cursors, remarks = _cursors_of(name, dump)
    if info is None:
        return FormerTopic(cursors=cursors), remarks
    closed_ms = {one.ledger_id: one.closed_ms for one in info.ledgers}
    entries = {one.ledger_id: one.entries for one in info.ledgers if one.entries}
    return FormerTopic(True, closed_ms, entries, cursors, info.terminated is not None, info.properties), remarks


def _cursors_of(name: str, dump: DumpedCluster | None) -> tuple[Mapping[str, DumpedCursor], list[str]]:
    """Return the subscriptions that are restored, and what is to be said of others."""
    found = {} if dump is None else dump.cursors.get(name, {})
    remarks = []
    kept = {one: cursor for one, cursor in found.items() if one != COMPACTION and not one.startswith(_REPLICATION)}
    if COMPACTION in found:
        remarks.append("it was compacted: what compaction made is lost with BookKeeper, and brokers compact it anew")
    replicated = sorted(one for one in found if one.startswith(_REPLICATION))
    if replicated:
        remarks.append(f"it was replicated ({', '.join(replicated)}): set replication up anew")
    return kept, remarks


def _without_copies(plans: Sequence[TopicPlan], catalog: Catalog) -> list[TopicPlan]:
    """Return plans without those of topics that an earlier run has made under a wanted name, as copies of another one's ledgers.

    What a dump has is a topic of the lost cluster, whatever it was copied from.
    """
    by_target = {plan.target: plan for plan in plans if plan.source != plan.target}
    return [
        plan
        for plan in plans
        if plan.former.is_known
        or plan.source not in by_target
        or not _is_copied([ref for ref in catalog.refs_of(plan.source) if ref.copy == 0], by_target[plan.source])
    ]


def _is_copied(copies: Sequence[LedgerRef], source: TopicPlan) -> bool:
    """Whether all ledgers of a topic are, under other ids, ledgers of another topic, in their order: a run may have ended in between."""
    rest = iter(source.ledgers)
    return bool(copies) and all(
        any(copy.agrees_with(ref) and copy.ledger_id != ref.ledger_id for ref in rest) for copy in copies
    )


def _different_targets(plans: Sequence[TopicPlan]) -> list[TopicPlan]:
    """Refuse topics that clients would take for one: of one name, or partitions of one name."""
    sources: dict[str, set[str]] = {}
    for plan in plans:
        if plan.refusal is None:
            sources.setdefault(split_partition(plan.target)[0], set()).add(split_partition(plan.source)[0])
    made = []
    for plan in plans:
        several = sorted(sources.get(split_partition(plan.target)[0], ()))
        if plan.refusal is None and len(several) > 1:
            told = ", ".join(map(topic_of, several[:3]))
            whole = topic_of(split_partition(plan.target)[0])
            made.append(replace(plan, refusal=f"{whole} would be several topics: {told}"))
        else:
            made.append(plan)
    return made


def _told_beside_partitions(plans: Sequence[TopicPlan], dump: DumpedCluster | None) -> list[TopicPlan]:
    """Say of topics without partitions that there are partitions of their names, too, as they were in the lost cluster."""
    partitioned = {_whole(plan.target) for plan in plans if is_partition(plan.source, dump)}
    remark = (
        "there are partitions of a topic of this name, too: clients are sent to these, and get none of its messages"
    )
    return [replace(plan, remarks=(*plan.remarks, remark)) if plan.target in partitioned else plan for plan in plans]


def _all_or_nothing(plans: Sequence[TopicPlan]) -> list[TopicPlan]:
    """Refuse all partitions of a topic if one is refused."""
    refused = {_whole(plan.source): plan for plan in plans if plan.refusal is not None and _whole(plan.source)}
    return [
        replace(plan, refusal=f"another partition cannot be restored: {refused[_whole(plan.source)].topic}")
        if plan.refusal is None and _whole(plan.source) in refused
        else plan
        for plan in plans
    ]


def refused(plans: Iterable[TopicPlan], why: Mapping[str, str]) -> list[TopicPlan]:
    """Return plans of which some are refused, by source, and with them all partitions of their topics."""
    return _all_or_nothing(
        [replace(one, refusal=why[one.source]) if one.refusal is None and one.source in why else one for one in plans]
    )


def without_strangers(plans: Sequence[TopicPlan], dump: DumpedCluster | None, bucket: Bucket) -> list[TopicPlan]:
    """Return plans without the ledgers that clusters of other names have put into the same bucket; raises the errors of the store.

    The user metadata of an object name the cluster, which costs a request: so only ledgers are read that no list of the dump has. Without
    a dump the lost cluster's name is not known, and an object without a name counts as its own.
    """
    prefix = f"{CLUSTERS}/"
    nodes = {} if dump is None else dump.settings.nodes
    names = {path.removeprefix(prefix) for path in nodes if path.startswith(prefix)} - {GLOBAL}
    if dump is None or not names:
        return list(plans)
    return [_without_strangers(plan, dump, names, bucket) for plan in plans]


def _without_strangers(plan: TopicPlan, dump: DumpedCluster, names: set[str], bucket: Bucket) -> TopicPlan:
    info = dump.lists.get(plan.source)
    listed = set() if info is None else {one.ledger_id for one in info.ledgers}
    strangers = {
        ref.ledger_id: cluster
        for ref in plan.ledgers
        if ref.ledger_id not in listed and (cluster := _cluster_of(ref, bucket)) is not None and cluster not in names
    }
    if not strangers:
        return plan
    first, cluster = next(iter(strangers.items()))
    remark = (
        f"{len(strangers):,} ledgers are not restored that cluster {cluster} wrote under this name, such as {first}"
    )
    return replace(
        plan,
        ledgers=tuple(ref for ref in plan.ledgers if ref.ledger_id not in strangers),
        left_out=(*plan.left_out, *strangers),
        remarks=(*plan.remarks, remark),
    )


def _cluster_of(ref: LedgerRef, bucket: Bucket) -> str | None:
    # What is on disks has none.
    told = bucket.reader(ref).user_metadata() if ref.layout == NUMBER else None
    return None if told is None else parse_user_metadata(told).cluster


def _whole(managed_ledger: str) -> str:
    """Return the partitioned topic of a partition; "" for other topics."""
    name, partition = split_partition(managed_ledger)
    return "" if partition is None else name


def _shown(ids: Sequence[int], most: int = 5) -> str:
    return ", ".join(map(str, ids[:most])) + (", …" if len(ids) > most else "")

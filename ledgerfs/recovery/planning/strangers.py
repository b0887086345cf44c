"""Ledgers that another cluster has put into the same bucket under a topic's name: they are none of the lost cluster's.

A bucket may serve several clusters. Which one wrote an object stands in its user metadata, which costs a request; so only those are asked
that no list of the dump has.
"""

from collections.abc import Sequence
from dataclasses import replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.clusters.cluster_names import CLUSTERS, GLOBAL
from ledgerfs.dialects.pulsar_blob.columns import NUMBER
from ledgerfs.formats.pulsar_blob.user_metadata import parse_user_metadata
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.recovery.lost.dumped_cluster import DumpedCluster
from ledgerfs.recovery.planning.topic_plan import TopicPlan


def without_strangers(plans: Sequence[TopicPlan], dump: DumpedCluster | None, bucket: Bucket) -> list[TopicPlan]:
    """Return plans without the ledgers that clusters of other names wrote; raises the errors of the store.

    Without a dump nobody knows what the lost cluster was called, and what does not tell who wrote it is taken for its.
    """
    prefix = f"{CLUSTERS}/"
    names = (
        set()
        if dump is None
        else {path.removeprefix(prefix) for path in dump.settings.nodes if path.startswith(prefix)}
    )
    names -= {GLOBAL}
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
    told = bucket.reader(ref).user_metadata() if ref.dialect == NUMBER else None
    return None if told is None else parse_user_metadata(told).cluster

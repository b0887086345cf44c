"""Plan the recovery of topics, from the bucket and a dump; sends no request to any cluster.

Missing ledgers are determined by the lost cluster's lists, or, without a dump, by gaps in the bucket. Names in the new cluster are as
before, or from a template such as ``public/restored/{topic}``.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import GapKind, MissingLedger
from ledgerfs.catalog.partitioned_names import partitions_of
from ledgerfs.errors import InvalidNameError, InvalidOptionError
from ledgerfs.formats.pulsar_blob.user_metadata import parse_user_metadata
from ledgerfs.formats.topic_names import (
    decode_topic,
    managed_ledger_of,
    parse_managed_ledger_name,
    split_partition,
    topic_of,
)
from ledgerfs.layouts.pulsar_blob.columns import NUMBER
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, ManagedLedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import COMPACTION, is_of_transactions, managed_ledger_path
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster, DumpedCursor, is_partition
from ledgerfs_cluster.recovery.report import MissingPart, TopicRecovery, joined, refused
from ledgerfs_cluster.snapshot.answers import LastEnd, LedgerEndAnswer
from ledgerfs_cluster.snapshot.cluster_names import CLUSTERS, GLOBAL
from ledgerfs_cluster.snapshot.survey import is_of_brokers

_REPLICATION = "pulsar.repl."
_NOT_OFFLOADED = (
    "it was not offloaded when the dump was made, and is not in the bucket (if you still have disks of its bookies, copy it from "
    "them first with `ledgerfs offload`)"
)
_GONE = "it was offloaded, but the bucket does not have it"
_DAMAGED = "its objects in the bucket are damaged; `ledgerfs verify` lists them"
_SHORTER = "the bucket has fewer of its entries than the lost cluster had"
_BESIDE = "a partitioned topic has the same name: clients use its partitions, and do not get the messages of this topic"
_FIELDS = ("tenant", "namespace", "topic")
_FIELD = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selection of topics, and their names in the new cluster.

    Attributes
    ----------
    topics
        Full matches of ``tenant/namespace/topic``; a match of one partition selects all partitions; empty for all topics.
    template
        Of the new names, with ``{tenant}``, ``{namespace}`` and ``{topic}``; empty to keep all names. ``{topic}`` must stand at the end: it
        includes a partition number, so that partitions stay partitions of one topic.

    Raises `InvalidOptionError` for an invalid template.

    """

    topics: tuple[re.Pattern[str], ...] = ()
    template: str = ""

    def __post_init__(self) -> None:
        is_known = all(one in _FIELDS for one in _FIELD.findall(self.template))
        if self.template and not (is_known and self.template.endswith("{topic}")):
            reason = "expected tenant/namespace/… with {topic} at the end, and optionally {tenant} and {namespace}"
            raise InvalidOptionError(reason, key=self.template)

    def has(self, managed_ledger: str) -> bool:
        """Return whether a topic is selected."""
        if not self.topics:
            return True
        name = topic_of(managed_ledger).removeprefix("persistent://")
        both = {name, split_partition(name)[0]}
        return any(pattern.fullmatch(one) for pattern in self.topics for one in both)

    def chosen(self, managed_ledgers: Iterable[str]) -> list[str]:
        """Return the selected ones: of a partitioned topic all partitions, or none."""
        names = list(managed_ledgers)
        whole = {split_partition(name)[0] for name in names if self.has(name)}
        return [name for name in names if split_partition(name)[0] in whole]

    def target_of(self, managed_ledger: str) -> str | None:
        """Return the topic's managed ledger in the new cluster; None if the template results in an invalid name."""
        if not self.template:
            return managed_ledger
        name = parse_managed_ledger_name(managed_ledger)
        if name is None:
            return None
        values = {"tenant": name.tenant, "namespace": name.namespace, "topic": decode_topic(name.encoded_topic)}
        made = _FIELD.sub(lambda found: values[found[1]], self.template)
        made = made if "://" in made else f"persistent://{made}"
        if made.count("/") < 4 or "/" in values["topic"]:
            return None
        try:
            target = managed_ledger_of(made)
        except InvalidNameError:
            return None
        return target if parse_managed_ledger_name(target) is not None else None


def plan_each(catalog: Catalog, dump: DumpedCluster | None = None, wanted: Wanted | None = None) -> list[TopicRecovery]:
    """Return the plan of each topic independently, sorted by name; each partition has its own.

    Omits the brokers' own topics (policies, transactions, health): the new cluster's brokers create theirs.

    Raises `AccessDeniedError` for a bucket with folders that cannot be listed.
    """
    catalog.require_readable()
    wanted = wanted or Wanted()
    # Ids are unique in a cluster, whatever topic a ledger's metadata contain.
    owners = {} if dump is None else {one.ledger_id: name for name, info in dump.lists.items() for one in info.ledgers}
    names = {name for name in catalog.known_names if name is not None} | (set() if dump is None else dump.lists.keys())
    own = sorted(name for name in names if not (is_of_transactions(name) or is_of_brokers(name)))
    topics = [_plan(name, catalog, dump, wanted, owners) for name in wanted.chosen(own)]
    return _without_copies(topics, catalog)


def together(topics: Sequence[TopicRecovery], dump: DumpedCluster | None) -> list[TopicRecovery]:
    """Return plans of all topics; refuses those with different sources that clients would treat as one topic."""
    sources: dict[str, set[str]] = {}
    for one in topics:
        if one.is_planned:
            sources.setdefault(one.whole, set()).add(split_partition(one.source)[0])
    reasons = {
        one.source: f"several topics would get the same name {topic_of(one.whole)}: {', '.join(map(topic_of, sorted(several)[:3]))}"
        for one in topics
        if len(several := sources.get(one.whole, ())) > 1
    }
    partitioned = {one.whole for one in topics if is_partition(one.source, dump)}
    # They were beside each other in the lost cluster, too.
    return refused((one.with_remarks(_BESIDE) if one.target in partitioned else one for one in topics), reasons)


def _plan(
    name: str, catalog: Catalog, dump: DumpedCluster | None, wanted: Wanted, owners: Mapping[int, str]
) -> TopicRecovery:
    target = wanted.target_of(name)
    info = None if dump is None else dump.lists.get(name)
    cursors, remarks = _cursors_of(name, dump)
    topic = TopicRecovery(name, target or name, info=info, cursors=cursors, subscriptions=len(cursors))
    refusal = _refusal(name, target, catalog, dump, wanted)
    if refusal is not None:
        return topic.refused(refusal)
    copies = {ref.ledger_id: ref for ref in readable_ledgers(catalog, name, info)}
    gaps = catalog.absent_of(name)
    denied = [one for one in gaps if one.refusal is not None and one.ledger_id not in copies]
    if denied:
        # They are not lost.
        more = f" ({len(denied) - 1:,} more ledgers as well)" if len(denied) > 1 else ""
        reason = f"the store refuses access to {denied[0].name}, {denied[0].key}{more}: {denied[0].why}"
        return topic.refused(f"{reason}; restore the topic after you have access")
    ledgers, left_out = _of_the_topic(name, [copies[one] for one in sorted(copies)], info, owners)
    damaged = {ref.ledger_id for ref in catalog.refs_of(name)} - copies.keys()
    if dump is None or info is None:
        there = {ref.ledger_id for ref in ledgers}
        parts = [_shown_part(one) for one in gaps if one.ledger_id not in there]
        named = {one.first_ledger for one in parts}
        parts += [
            _damaged_part(ref) for ref in catalog.refs_of(name) if ref.copy == 0 and ref.ledger_id in damaged - named
        ]
        missing = joined(sorted(parts, key=lambda one: one.first_ledger))
    else:
        missing = joined(list(_missing_by_list(info, dump.ends, ledgers, gaps, damaged)))
    if left_out:
        ids = ", ".join(map(str, left_out[:5])) + (", …" if len(left_out) > 5 else "")
        remarks.append(
            f"{len(left_out):,} ledgers in the bucket are not restored, since they no longer belonged to the topic when the dump was "
            f"made (expired, or orphans): {ids}"
        )
    if info is not None and info.terminated is not None:
        remarks.append(
            "it was terminated, but accepts messages again: to terminate it, send one more message, then run `pulsar-admin topics "
            f"terminate {topic_of(target or name)}` (a terminated topic whose last ledger is empty seems to have no messages)"
        )
    if dump is not None and (why := dump.damaged.get(managed_ledger_path(name))) is not None:
        remarks.append(f"its ledger list in the dump cannot be read ({why}): missing ledgers are unknown")
    return replace(topic, ledgers=tuple(ledgers), missing=missing, left_out=tuple(left_out), remarks=tuple(remarks))


def _refusal(name: str, target: str | None, catalog: Catalog, dump: DumpedCluster | None, wanted: Wanted) -> str | None:
    """Return why a topic is not restored, independently of its data; None if it is."""
    if parse_managed_ledger_name(name) is None:
        return "its name is not that of a persistent topic, so brokers would not find it"
    if target is None:
        return f"--as {wanted.template} does not result in a valid topic name"
    if dump is not None and name not in dump.lists and managed_ledger_path(name) not in dump.damaged:
        newest = max((ref.created_ms or ref.changed_ms for ref in catalog.refs_of(name)), default=0)
        if newest < dump.began_ms:
            return "the lost cluster had deleted it before the dump; to restore it anyway, pass an older --dump, or --no-dump"
    if target != name and (partitions := partitions_of(catalog, target)) and not catalog.table_of(target).size:
        return (
            f"the bucket has {topic_of(partitions[0])}: with ledgers of {topic_of(target)} itself, readers of the bucket would no "
            "longer treat the partitions as one topic"
        )
    if (catalog.table_of(name)["layout"] != NUMBER).any():
        return "its ledgers are from the filesystem offloader; copy them into a bucket first (`ledgerfs offload`)"
    return None


def _cursors_of(name: str, dump: DumpedCluster | None) -> tuple[Mapping[str, DumpedCursor], list[str]]:
    """Return the subscriptions to restore, and warnings about the others."""
    found = {} if dump is None else dump.cursors.get(name, {})
    replicated = sorted(one for one in found if one.startswith(_REPLICATION))
    remarks = []
    if replicated:
        remarks.append(f"it was replicated ({', '.join(replicated)}): configure replication again")
    return {one: cursor for one, cursor in found.items() if one not in {COMPACTION, *replicated}}, remarks


def readable_ledgers(catalog: Catalog, name: str, info: ManagedLedgerInfo | None) -> Iterator[LedgerRef]:
    """Yield the copy to restore of each ledger: the listed one, else the newest sound one in the catalog's order.

    A listed copy may be of another topic: one that the ledger was restored from earlier, under another name.
    """
    uuids = {} if info is None else {one.ledger_id: _uuid_of(one) for one in info.ledgers}
    contradicted = {one.ledger_id for one in catalog.missing_of(name) if one.kind is GapKind.CONTRADICTED}
    by_id: dict[int, list[LedgerRef]] = {}
    for ref in catalog.refs_of(name):
        by_id.setdefault(ref.ledger_id, []).append(ref)
    for ledger_id in uuids.keys() - by_id.keys():
        by_id[ledger_id] = [ref for ref in catalog.all_of(ledger_id) if ref.uuid == uuids[ledger_id]]
    for ledger_id, copies in by_id.items():
        sound = [ref for ref in copies if ref.is_sound]
        named = [ref for ref in sound if ref.uuid == uuids.get(ledger_id)]
        if named:
            yield named[0]
        elif sound and ledger_id not in contradicted:
            yield sound[0]


def _uuid_of(one: LedgerInfo) -> str | None:
    return one.context.uuid if one.context is not None and one.context.is_complete else None


def _of_the_topic(
    name: str, refs: Sequence[LedgerRef], info: ManagedLedgerInfo | None, owners: Mapping[int, str]
) -> tuple[list[LedgerRef], list[int]]:
    """Return the topic's ledgers, and the ids of those that it no longer had when the cluster was dumped."""
    last = info.ledgers[-1].ledger_id if info is not None and info.ledgers else -1
    kept: list[LedgerRef] = []
    left_out: list[int] = []
    for ref in refs:
        owner = owners.get(ref.ledger_id)
        if owner == name or (owner is None and (info is None or ref.ledger_id > last)):
            kept.append(ref)
        else:
            left_out.append(ref.ledger_id)
    return kept, left_out


def _missing_by_list(
    info: ManagedLedgerInfo,
    ends: Mapping[int, LedgerEndAnswer],
    restored: Sequence[LedgerRef],
    gaps: Collection[MissingLedger],
    damaged: Collection[int],
) -> Iterator[MissingPart]:
    """Yield listed ledgers that are not restored.

    ``gaps`` are gaps in the bucket, with the reasons; ``damaged`` are ids of ledgers without a sound copy.
    """
    there = {ref.ledger_id: ref for ref in restored}
    why = {**dict.fromkeys(damaged, _DAMAGED), **{one.ledger_id: one.why for one in gaps}}
    last = info.ledgers[-1].ledger_id if info.ledgers else -1
    before_ms: int | None = None
    for one in info.ledgers:
        entries, is_exact = _entries_of(one, ends.get(one.ledger_id) if one.ledger_id == last else None)
        ref = there.get(one.ledger_id)
        lacking = None if entries is None else max(0, entries - (0 if ref is None else ref.entries))
        # A whole ledger in the bucket may have more entries than it had while it was open.
        is_whole = ref is not None and (lacking == 0 or (entries is None and not ref.is_open))
        if not is_whole and (lacking != 0 or not is_exact):
            absent = why.get(one.ledger_id) or (_GONE if one.is_offloaded else _NOT_OFFLOADED)
            reason = absent if ref is None else _SHORTER
            until = one.closed_ms or None
            yield MissingPart(one.ledger_id, one.ledger_id, 1, lacking, before_ms, until, reason, not is_exact)
        before_ms = one.closed_ms or before_ms
    # Gaps that were perhaps not listed yet. Older ones were no longer the topic's.
    yield from (_shown_part(one) for one in gaps if one.ledger_id not in there and not 0 <= one.ledger_id <= last)


def _entries_of(one: LedgerInfo, end: LedgerEndAnswer | None) -> tuple[int | None, bool]:
    """Return the ledger's number of entries (None if unknown), and whether that was final at the dump."""
    if one.closed_ms or one.is_offloaded or one.entries:
        return one.entries, True
    if end is None or end.end in {LastEnd.UNKNOWN, LastEnd.GONE}:
        return None, False
    return end.entries, end.end is LastEnd.CLOSED


def _damaged_part(ref: LedgerRef) -> MissingPart:
    return MissingPart(ref.ledger_id, ref.ledger_id, 1, ref.entries, ref.created_ms, ref.changed_ms or None, _DAMAGED)


def _shown_part(one: MissingLedger) -> MissingPart:
    is_being_written = one.kind is GapKind.BEING_WRITTEN
    until_ms = one.modified_ms or None
    return MissingPart(
        one.ledger_id, one.ledger_id, 1, one.entries, one.created_ms, until_ms, one.why, is_being_written
    )


def _without_copies(topics: Sequence[TopicRecovery], catalog: Catalog) -> list[TopicRecovery]:
    """Return plans without topics that an earlier run has created under a wanted name, as copies of another topic's ledgers.

    A topic in the dump is the lost cluster's, whatever it was copied from.
    """
    by_target = {one.target: one for one in topics if one.source != one.target}
    return [
        one
        for one in topics
        if one.info is not None
        or one.source not in by_target
        or not _is_copied([ref for ref in catalog.refs_of(one.source) if ref.copy == 0], by_target[one.source])
    ]


def _is_copied(copies: Sequence[LedgerRef], source: TopicRecovery) -> bool:
    """Return whether all ledgers are copies, under other ids, of another topic's ledgers in order; not all after an interrupted run."""
    rest = iter(source.ledgers)
    return bool(copies) and all(
        any(copy.agrees_with(ref) and copy.ledger_id != ref.ledger_id for ref in rest) for copy in copies
    )


def without_others(topics: Sequence[TopicRecovery], dump: DumpedCluster | None, bucket: Bucket) -> list[TopicRecovery]:
    """Return plans without ledgers that clusters with other names have put into the same bucket; raises the errors of the store.

    An object's user metadata contain the cluster's name, which costs a request: so only ledgers that no list of the dump contains are
    checked. Without a dump the lost cluster's name is unknown; an object without a name counts as its own.
    """
    prefix = f"{CLUSTERS}/"
    nodes = {} if dump is None else dump.settings.nodes
    names = {path.removeprefix(prefix) for path in nodes if path.startswith(prefix)} - {GLOBAL}
    return [_without_others(one, names, bucket) for one in topics] if names else list(topics)


def _without_others(topic: TopicRecovery, names: set[str], bucket: Bucket) -> TopicRecovery:
    listed = set() if topic.info is None else {one.ledger_id for one in topic.info.ledgers}
    others: dict[int, str] = {}
    for ref in topic.ledgers:
        found = bucket.reader(ref).user_metadata() if ref.ledger_id not in listed else None
        cluster = None if found is None else parse_user_metadata(found).cluster
        if cluster is not None and cluster not in names:
            others[ref.ledger_id] = cluster
    if not others:
        return topic
    first, cluster = next(iter(others.items()))
    return replace(
        topic,
        ledgers=tuple(ref for ref in topic.ledgers if ref.ledger_id not in others),
        left_out=(*topic.left_out, *others),
    ).with_remarks(
        f"{len(others):,} ledgers of another cluster, {cluster}, with the same topic name are not restored, such as {first}"
    )

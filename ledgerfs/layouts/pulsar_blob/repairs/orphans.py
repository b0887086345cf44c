"""Repair data objects without a readable index: whole ledgers except for the index, garbage, or unproven ones."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledgerfs.catalog.catalog_findings import severity_of
from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.repairs import Action, Repair
from ledgerfs.errors import (
    CorruptLedgerError,
    CorruptObjectError,
    ObjectNotFoundError,
    UnsupportedFormatError,
)
from ledgerfs.formats.ledger_metadata import LedgerMetadata
from ledgerfs.formats.pulsar_blob.index import MAX_INDEX_BYTES
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.pulsar_blob.user_metadata import parse_user_metadata
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.pulsar_blob.fragments import DATA_WITHOUT_INDEX, UNREADABLE_INDEX, BadIndex
from ledgerfs.layouts.pulsar_blob.ledger_group import LedgerGroup
from ledgerfs.layouts.pulsar_blob.new_ledger import completed_user_metadata
from ledgerfs.layouts.pulsar_blob.repairs.actions import DeleteObject, RebuildIndex, ReplaceIndex
from ledgerfs.layouts.pulsar_blob.repairs.data_walk import DataWalk, metadata_left_in, rebuilt_index, why_not_whole
from ledgerfs.layouts.pulsar_blob.repairs.leftovers import foreign_format, lost_metadata
from ledgerfs.layouts.pulsar_blob.repairs.same_bytes import why_not_contained
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey, claimants, unknown_ones
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest


def look_at_orphan(survey: Survey, key: LedgerKey) -> Iterator[Repair]:
    """Yield the repairs of one data object without an index."""
    orphan = _Orphan.of(survey, key)
    left_alone = survey.too_young(orphan.stat.modified_ms) or foreign_format(orphan.head.metadata)
    if left_alone is not None:
        yield orphan.garbage(f"left alone: {left_alone}")
        return
    if not orphan.stat.size:
        yield orphan.garbage("it is empty", orphan.deletion())
        return
    group = LedgerGroup.of(orphan.head.metadata)
    if group is not None and survey.ledgers is None and not survey.has_ledger_of(group):
        reason = (
            "left alone: it belongs to a job, and no ledger of this job exists. Either the job was killed before it published them, "
            f"or the index of this ledger was lost; pass `--ledger {key.ledger_id}` to rebuild it"
        )
        yield orphan.garbage(reason)
        return
    copies = [copy for copy in survey.copies_of(key.ledger_id) if orphan.name in {None, copy.managed_ledger}]
    copies.sort(key=lambda copy: copy.layout not in survey.layouts)
    differences = []
    for copy in copies:
        needed = survey.stats_of(copy)
        difference = why_not_contained(survey, orphan.stat, copy)
        if difference is None:
            unseen = survey.why_not_seen(copy)
            if unseen is not None:
                yield orphan.loss(unseen)
                return
            deletion = orphan.deletion(*needed)
            yield orphan.garbage(f"the complete copy {copy.key} contains all of it", deletion)
            return
        differences.append(difference)
    yield from _by_itself(survey, orphan, differences)


@dataclass(frozen=True, slots=True)
class _Orphan:
    key: LedgerKey
    head: ObjectHead
    name: str | None
    """Its managed ledger by its user metadata; None if the metadata does not contain it."""

    @classmethod
    def of(cls, survey: Survey, key: LedgerKey) -> "_Orphan":
        head = survey.store.head(key.data_key)
        return cls(key, head, parse_user_metadata(head.metadata or {}).managed_ledger)

    @property
    def stat(self) -> ObjectStat:
        return self.head.stat

    def garbage(self, reason: str, action: DeleteObject | RebuildIndex | None = None) -> Repair:
        return self._found(Severity.REMARK, reason, self.name, action)

    def loss(self, reason: str, name: str | None = None, action: RebuildIndex | None = None) -> Repair:
        return self._found(Severity.DAMAGE, reason, name or self.name, action)

    def deletion(self, *needed: ObjectStat) -> DeleteObject:
        return DeleteObject("delete-data", self.stat, self.key.index_key, needed)

    def _found(self, severity: Severity, reason: str, name: str | None, action: Action | None) -> Repair:
        topic = None if name is None else topic_of(name)
        return Repair(DATA_WITHOUT_INDEX, severity, reason, self.key.data_key, self.key.ledger_id, topic, action)


def _by_itself(survey: Survey, orphan: _Orphan, differences: list[str]) -> Iterator[Repair]:
    """Yield the repair by the object alone: whole, empty, or not a ledger; ``differences`` are those from complete copies."""
    try:
        walk = DataWalk(survey.store, orphan.stat).run()
    except (CorruptLedgerError, UnsupportedFormatError) as error:
        reasons = [*differences, f"its index cannot be rebuilt: at byte {error.offset}, {error.reason}"]
        yield orphan.loss("; ".join(reasons))
        return
    if not walk.entries:
        yield orphan.garbage("it has no entry: the first one did not fit a block", orphan.deletion())
        return
    name = orphan.name or survey.managed_ledger
    refusal = "; ".join(differences) or why_not_whole(walk) or why_not_known(survey, orphan.key, walk, name)
    if refusal is not None or name is None:
        yield orphan.loss(f"its index cannot be rebuilt: {refusal}")
        return
    reason = f"complete: entries 0 to {walk.entries - 1} with {walk.length} bytes"
    yield orphan.loss(reason, name, _rebuild(survey, orphan.key, orphan.head, name, rebuilt_index(walk, name)))
    yield from lost_metadata(survey, orphan.head, name, "data", orphan.key.ledger_id)


def _rebuild(survey: Survey, key: LedgerKey, head: ObjectHead, managed_ledger: str, content: bytes) -> RebuildIndex:
    """Return the action that puts the index of a whole data object, with the data object's user metadata."""
    metadata = {**completed_user_metadata(head.metadata, managed_ledger), "role": "index"}
    known = claimants(survey.catalog, key.ledger_id)
    named = managed_ledger if managed_ledger == survey.managed_ledger else None
    return RebuildIndex(head.stat, key, content, metadata, known, survey.list_all, named)


def why_not_known(survey: Survey, key: LedgerKey, walk: DataWalk, name: str | None) -> str | None:
    """Return why a whole data object cannot be attributed: no topic, or a copy of the ledger that contradicts it or may; else None."""
    if name is None:
        return "its topic is unknown: pass `--topic` with `--ledger`"
    for claim in survey.claims.get(key.ledger_id, []):
        if claim.managed_ledger == name and (claim.entries, claim.length) != (walk.entries, walk.length):
            return (
                f"it has {walk.entries} entries of {walk.length} bytes; according to {claim.objects[-1][1].key}, this ledger has "
                f"{claim.entries} entries of {claim.length} bytes"
            )
    unknown = next(iter(unknown_ones(survey.catalog, key.ledger_id)), None)
    return (
        None
        if unknown is None
        else f"{unknown.key} may be a copy of this ledger, but cannot be read: {unknown.error.reason}"
    )


def look_at_bad_index(survey: Survey, bad: BadIndex) -> Iterator[Repair]:
    """Yield the repairs of one index that cannot be parsed."""
    key, why = bad.key, bad.error

    def kept(reason: str, severity: Severity = Severity.DAMAGE) -> Repair:
        return Repair(UNREADABLE_INDEX, severity, f"{why.reason}; {reason}", key.index_key, key.ledger_id)

    if not isinstance(why, CorruptObjectError):
        severity = severity_of(why)
        if severity is not Severity.REMARK:
            yield kept("left alone: it may be undamaged", severity)
        return
    damaged = survey.store.head(key.index_key)
    young, foreign = survey.too_young(damaged.stat.modified_ms), foreign_format(damaged.metadata)
    if young is not None or foreign is not None:
        yield kept(f"left alone: {young or foreign}")
        return
    if damaged.stat.size > MAX_INDEX_BYTES:
        yield kept("left alone: it is larger than any index, so its content is unknown")
        return
    try:
        data = survey.store.head(key.data_key)
        walk = DataWalk(survey.store, data.stat).run()
    except ObjectNotFoundError:
        yield kept("left alone: its data object is missing too, so its entries are unknown")
        return
    except (CorruptLedgerError, UnsupportedFormatError) as error:
        yield kept(f"it cannot be rebuilt from the data object: at byte {error.offset}, {error.reason}")
        return
    yield from _replaced(survey, bad, damaged, data, walk)


def _replaced(survey: Survey, bad: BadIndex, damaged: ObjectHead, data: ObjectHead, walk: DataWalk) -> Iterator[Repair]:
    """Yield the replacement of an index by one made from the data object, unless another object contradicts it."""
    key, stat = bad.key, damaged.stat
    reported = metadata_left_in(survey.store.read(ReadRequest(stat.key, 0, stat.size, stat.version)))
    names = (parse_user_metadata(head.metadata or {}).managed_ledger for head in (data, damaged))
    name = next(filter(None, names), None) or (reported and reported.managed_ledger) or survey.managed_ledger
    refusal = _refusal(survey, key, walk, reported, name)
    topic = None if name is None else topic_of(name)
    if refusal is not None or name is None:
        reason = f"{bad.error.reason}; it cannot be rebuilt from the data object: {refusal}"
        yield Repair(UNREADABLE_INDEX, Severity.DAMAGE, reason, key.index_key, key.ledger_id, topic)
        return
    action = ReplaceIndex(stat, _rebuild(survey, key, data, name, rebuilt_index(walk, name, reported)))
    reason = (
        f"{bad.error.reason}; its data object is complete: entries 0 to {walk.entries - 1} with {walk.length} bytes"
    )
    yield Repair(UNREADABLE_INDEX, Severity.DAMAGE, reason, key.index_key, key.ledger_id, topic, action)
    yield from lost_metadata(survey, data, name, "data", key.ledger_id)


def _refusal(
    survey: Survey, key: LedgerKey, walk: DataWalk, indexed: LedgerMetadata | None, name: str | None
) -> str | None:
    if not walk.entries:
        return "it has no entry"
    if indexed is not None and (indexed.entries, indexed.length) != (walk.entries, walk.length):
        return (
            f"it has {walk.entries} entries of {walk.length} bytes; the readable part of the index has "
            f"{indexed.entries} entries of {indexed.length} bytes"
        )
    copies = (copy for copy in survey.copies_of(key.ledger_id) if copy.managed_ledger == name)
    differences = filter(None, (why_not_contained(survey, walk.stat, copy) for copy in copies))
    return next(differences, None) or why_not_whole(walk) or why_not_known(survey, key, walk, name)

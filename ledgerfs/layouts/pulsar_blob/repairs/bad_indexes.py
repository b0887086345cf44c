"""Repairs of index objects that cannot be parsed: they may be rebuilt from the data object."""

from collections.abc import Iterator

from ledgerfs.catalog.catalog_findings import severity_of
from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.repairs import Repair
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
from ledgerfs.layouts.pulsar_blob.remains import UNREADABLE_INDEX, BadIndex
from ledgerfs.layouts.pulsar_blob.repairs.actions import ReplaceIndex
from ledgerfs.layouts.pulsar_blob.repairs.data_walk import DataWalk
from ledgerfs.layouts.pulsar_blob.repairs.orphans import rebuild, why_not_known
from ledgerfs.layouts.pulsar_blob.repairs.rebuilt_index import metadata_left_in, rebuilt_index, why_not_whole
from ledgerfs.layouts.pulsar_blob.repairs.same_bytes import why_not_contained
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.layouts.pulsar_blob.repairs.user_metadata import foreign_format, lost_metadata
from ledgerfs.storage.objects import ObjectHead, ReadRequest


def look_at_bad_index(survey: Survey, bad: BadIndex) -> Iterator[Repair]:
    """Yield the repairs of one index that cannot be parsed."""
    key, why = bad.key, bad.error

    def kept(reason: str, severity: Severity = Severity.DAMAGE) -> Repair:
        return Repair(UNREADABLE_INDEX, severity, f"{why.reason}; {reason}", key.index_key, key.ledger_id)

    if not isinstance(why, CorruptObjectError):
        severity = severity_of(why)
        if severity is not Severity.REMARK:
            yield kept("left alone: it may be sound", severity)
        return
    damaged = survey.store.head(key.index_key)
    young, foreign = survey.too_young(damaged.stat.modified_ms), foreign_format(damaged.metadata)
    if young is not None or foreign is not None:
        yield kept(f"left alone: {young or foreign}")
        return
    if damaged.stat.size > MAX_INDEX_BYTES:
        yield kept("left alone: it is larger than any index, so nobody knows what it is")
        return
    try:
        data = survey.store.head(key.data_key)
        walk = DataWalk(survey.store, data.stat).run()
    except ObjectNotFoundError:
        yield kept("left alone: its data object is gone, too, so nothing tells what was there")
        return
    except (CorruptLedgerError, UnsupportedFormatError) as error:
        yield kept(f"it cannot be rebuilt from the data object: at byte {error.offset}, {error.reason}")
        return
    yield from _replaced(survey, bad, damaged, data, walk)


def _replaced(survey: Survey, bad: BadIndex, damaged: ObjectHead, data: ObjectHead, walk: DataWalk) -> Iterator[Repair]:
    """Yield the replacement of an index by one made from the data object, unless something speaks against it."""
    key, stat = bad.key, damaged.stat
    told = metadata_left_in(survey.store.read(ReadRequest(stat.key, 0, stat.size, stat.version)))
    names = (parse_user_metadata(head.metadata or {}).managed_ledger for head in (data, damaged))
    name = next(filter(None, names), None) or (told and told.managed_ledger) or survey.managed_ledger
    refusal = _refusal(survey, key, walk, told, name)
    topic = None if name is None else topic_of(name)
    if refusal is not None or name is None:
        reason = f"{bad.error.reason}; it cannot be rebuilt from the data object: {refusal}"
        yield Repair(UNREADABLE_INDEX, Severity.DAMAGE, reason, key.index_key, key.ledger_id, topic)
        return
    action = ReplaceIndex(stat, rebuild(survey, key, data, walk, name, content=rebuilt_index(walk, name, told)))
    reason = (
        f"{bad.error.reason}; its data object is whole: entries 0 to {walk.entries - 1}, {walk.length} bytes of them"
    )
    yield Repair(UNREADABLE_INDEX, Severity.DAMAGE, reason, key.index_key, key.ledger_id, topic, action)
    yield from lost_metadata(survey, data, name, "data", key.ledger_id)


def _refusal(
    survey: Survey, key: LedgerKey, walk: DataWalk, told: LedgerMetadata | None, name: str | None
) -> str | None:
    if not walk.entries:
        return "it has no entry"
    if told is not None and (told.entries, told.length) != (walk.entries, walk.length):
        return f"it has {walk.entries} entries of {walk.length} bytes; what is left of the index tells of {told.entries} of {told.length}"
    copies = (copy for copy in survey.copies_of(key.ledger_id) if copy.managed_ledger == name)
    differences = filter(None, (why_not_contained(survey, walk.stat, copy) for copy in copies))
    return next(differences, None) or why_not_whole(walk) or why_not_known(survey, key, walk, name)

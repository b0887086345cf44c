"""Repairs of indexes without a data object, of uploads that were not ended, and of parts that jclouds writes as objects (GCS)."""

from collections.abc import Iterator

from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptLedgerError,
    ObjectNotFoundError,
    StoreError,
    StoreUnreachableError,
    UnsupportedFormatError,
    UnsupportedWriteError,
)
from ledgerfs.formats.pulsar_blob.block import MIN_HEADER_BYTES, parse_block_header
from ledgerfs.formats.pulsar_blob.object_names import KeyKind, parse_ledger_key
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.pulsar_blob.remains import GCS_PART, INDEX_WITHOUT_DATA, UNFINISHED_UPLOAD
from ledgerfs.layouts.pulsar_blob.repairs.actions import AbortUpload, DeleteObject
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.layouts.pulsar_blob.repairs.user_metadata import foreign_format
from ledgerfs.storage.object_writes import UnfinishedUpload
from ledgerfs.storage.objects import ReadRequest


def look_at_lost(survey: Survey, lost: LedgerRef) -> Iterator[Repair]:
    """Yield the repair of an index whose data object is gone."""
    head = survey.store.head(lost.object("index").key)

    def found(severity: Severity, reason: str, action: DeleteObject | None = None) -> Repair:
        return Repair(
            INDEX_WITHOUT_DATA,
            severity,
            reason,
            lost.object("index").key,
            lost.ledger_id,
            topic_of(lost.managed_ledger),
            action,
        )

    if (refusal := _refusal(survey, lost)) is not None:
        yield found(
            Severity.UNCHECKED, f"left alone: the store does not answer whether its data object is there: {refusal}"
        )
        return
    copies = [] if lost.managed_ledger is None else survey.copies_of(lost.ledger_id)
    copies = [copy for copy in copies if copy.managed_ledger == lost.managed_ledger]
    agreeing = [copy for copy in copies if copy.agrees_with(lost)]
    same = min(agreeing, key=lambda copy: copy.layout not in survey.layouts, default=None)
    left_alone = survey.too_young(head.stat.modified_ms) or foreign_format(head.metadata)
    if left_alone is not None:
        yield found(Severity.DAMAGE if same is None else Severity.REMARK, f"left alone: {left_alone}")
        return
    unseen = None if same is None else survey.why_not_seen(same)
    if unseen is not None:
        yield found(Severity.DAMAGE, unseen)
        return
    if same is not None:
        action = DeleteObject("delete-index", head.stat, lost.object("data").key, survey.stats_of(same))
        yield found(Severity.REMARK, f"a complete copy of the same ledger is {same.key}", action)
        return
    reason = f"kept: there is no complete copy of this ledger with {lost.entries} entries of {lost.length} bytes"
    if copies:
        other = copies[0].objects[-1][1].key
        reason += f" (the copy {other} has {copies[0].entries} of {copies[0].length}, or was created at another time)"
    advice = "copy the data object from a backup, or offload again while BookKeeper has the ledger"
    yield found(Severity.DAMAGE, f"{reason}; {advice}")


def _refusal(survey: Survey, lost: LedgerRef) -> str | None:
    """Return why the store does not answer whether the data object is there; None if it answers."""
    try:
        survey.store.head(lost.object("data").key)
    except ObjectNotFoundError:
        return None
    except (AccessDeniedError, StoreError) as error:
        return error.reason
    return None


def look_at_uploads(survey: Survey) -> Iterator[Repair]:
    """Yield the repair of each upload that was begun and not ended."""
    try:
        for upload in survey.store.writes.unfinished_uploads():
            yield from _look_at_upload(survey, upload)
    except StoreUnreachableError:
        raise
    except (AccessDeniedError, StoreError, UnsupportedWriteError) as error:
        reason = f"the store does not list unfinished uploads: {error.reason}"
        yield Repair(UNFINISHED_UPLOAD, Severity.UNCHECKED, reason)


def _look_at_upload(survey: Survey, upload: UnfinishedUpload) -> Iterator[Repair]:
    key = parse_ledger_key(upload.key)
    ledger_id = None if key is None else key.ledger_id
    if not survey.is_meant(ledger_id):
        return
    young = survey.too_young(upload.begun_ms)
    if key is None:
        reason, action = "left alone: its name is none that Pulsar gives", None
    elif young is not None:
        reason, action = f"left alone: {young}", None
    else:
        reason, action = "nobody has ended it, and it takes space that no listing shows", AbortUpload(upload)
    yield Repair(UNFINISHED_UPLOAD, Severity.REMARK, reason, upload.key, ledger_id, None, action)


def part_names(survey: Survey) -> list[str]:
    """Return the keys that are named as jclouds names parts, as far as the catalog has kept them."""
    return [] if survey.ledgers is not None else survey.catalog.others.names.get(KeyKind.GCS_PART.value, [])


def look_at_part(survey: Survey, name: str) -> Repair:
    """Return the repair of one object that is named as a part; it is one if it is a whole block of Pulsar's."""
    stat = survey.store.head(name).stat
    young = survey.too_young(stat.modified_ms)
    if young is not None:
        return Repair(GCS_PART, Severity.REMARK, f"left alone: {young}", name)
    front = survey.store.read(ReadRequest(name, 0, min(stat.size, MIN_HEADER_BYTES), stat.version))
    try:
        is_block = parse_block_header(front).block_length == stat.size
    except (CorruptLedgerError, UnsupportedFormatError):
        is_block = False
    if not is_block:
        return Repair(GCS_PART, Severity.REMARK, "left alone: it is named as a part, but is no block of Pulsar's", name)
    reason = "one block of an upload that was interrupted before it became an object; BookKeeper still had the ledger"
    return Repair(GCS_PART, Severity.REMARK, reason, name, action=DeleteObject("delete-part", stat))

"""Repairs of what interrupted uploads leave: uploads that nobody ended, and parts that jclouds writes as objects (Google Cloud Storage)."""

from collections.abc import Iterator

from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptLedgerError,
    StoreError,
    StoreUnreachableError,
    UnsupportedFormatError,
    UnsupportedWriteError,
)
from ledgerfs.formats.pulsar_blob.block import MIN_HEADER_BYTES, parse_block_header
from ledgerfs.formats.pulsar_blob.object_names import KeyKind, parse_ledger_key
from ledgerfs.layouts.pulsar_blob.remains import GCS_PART, UNFINISHED_UPLOAD
from ledgerfs.layouts.pulsar_blob.repairs.actions import AbortUpload, DeleteObject
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.storage.object_writes import UnfinishedUpload
from ledgerfs.storage.objects import ReadRequest


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

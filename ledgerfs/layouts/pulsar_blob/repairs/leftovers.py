"""Repair single objects: lost user metadata, indexes without a data object, unfinished uploads, and parts of those (GCS)."""

from collections.abc import Iterator, Mapping

from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import UNKNOWN
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptLedgerError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreError,
    StoreUnreachableError,
    UnsupportedFormatError,
    UnsupportedWriteError,
)
from ledgerfs.formats.pulsar_blob.block import MIN_HEADER_BYTES, parse_block_header
from ledgerfs.formats.pulsar_blob.object_names import KeyKind, parse_ledger_key
from ledgerfs.formats.pulsar_blob.user_metadata import FORMAT_VERSION, parse_user_metadata
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.pulsar_blob.columns import NUMBER, key_of
from ledgerfs.layouts.pulsar_blob.fragments import (
    GCS_PART,
    INDEX_WITHOUT_DATA,
    NO_VERSION_KEY,
    UNFINISHED_UPLOAD,
    fragments_of,
)
from ledgerfs.layouts.pulsar_blob.repairs.actions import AbortUpload, DeleteObject, RestoreMetadata
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.storage.object_writes import UnfinishedUpload
from ledgerfs.storage.objects import ObjectHead, ReadRequest
from ledgerfs.storage.ordered_map import ordered_map

_THREADS = 16
_REPORTED_EVERY = 64


def look_at_metadata(survey: Survey) -> Iterator[Repair]:
    """Yield the repairs of the user metadata of all ledgers, several at a time; none if the store keeps no such metadata."""
    if not survey.store.writes.keeps_metadata:
        return
    refs = (ref for ref in survey.catalog.refs() if ref.layout == NUMBER and survey.is_meant(ref.ledger_id))
    total = int((survey.catalog.ledgers["layout"] == NUMBER).sum())

    def look(ref: LedgerRef) -> list[Repair]:
        return [*_look_at_object(survey, ref, "data"), *_look_at_object(survey, ref, "index")]

    for done, repairs in enumerate(ordered_map(look, refs, _THREADS, "ledgerfs-head"), 1):
        yield from repairs
        if done % _REPORTED_EVERY == 0 or done == total:
            survey.say("reading user metadata", done, total)


def lost_metadata(
    survey: Survey, head: ObjectHead, managed_ledger: str | None, role: str, ledger_id: int
) -> Iterator[Repair]:
    """Yield the repair of one object's user metadata, if a broker refuses the object."""
    metadata = head.metadata
    refused = None if metadata is None else parse_user_metadata(metadata).broker_refuses
    if refused is None:
        return
    reported = managed_ledger or parse_user_metadata(metadata or {}).managed_ledger
    name, is_reported = reported or survey.managed_ledger, reported is not None
    topic = None if name is None else topic_of(name)

    def found(reason: str, action: RestoreMetadata | None = None) -> Repair:
        return Repair(NO_VERSION_KEY, Severity.DAMAGE, reason, head.stat.key, ledger_id, topic, action)

    foreign = foreign_format(metadata)
    if foreign is not None:
        yield found(f"left alone: {foreign}; a broker refuses this object")
    elif name is None:
        yield found(f"{refused}; its topic is unknown: pass `--topic` with `--ledger`")
    elif not is_reported and (other := _other_of(survey, name, ledger_id)) is not None:
        yield found(
            f"{refused}; its topic is unknown, and the topic of `--topic` has another ledger {ledger_id}: {other}"
        )
    elif not survey.store.writes.can_set_metadata:
        yield found(
            f"{refused}; ledgerfs cannot change user metadata in this store: copy the object with new user metadata"
        )
    else:
        yield found(refused, RestoreMetadata(head.stat, name, role))


def _other_of(survey: Survey, managed_ledger: str, ledger_id: int) -> str | None:
    """Return the key of a topic's ledger with this id, of any layout, or of one that a repair may make; None without one."""
    catalog, fragments = survey.catalog, fragments_of(survey.catalog)
    orphans = fragments.orphans[fragments.orphans["ledger_id"] == ledger_id]
    row = catalog.row_of(managed_ledger)
    named = orphans[(orphans["name"] == row) & (row != UNKNOWN)]
    bad = (one for one in fragments.bad_indexes if one.managed_ledger == managed_ledger)
    keys = [
        *(ref.key for ref in catalog.copies_of(managed_ledger, ledger_id)),
        *(key_of(row).data_key for row in named),
        *(one.key.data_key for one in bad if one.key.ledger_id == ledger_id),
    ]
    return next(iter(keys), None)


def foreign_format(metadata: Mapping[str, str] | None) -> str | None:
    """Return why an object is not Pulsar's, by its user metadata; None if it may be."""
    version = parse_user_metadata(metadata or {}).format_version
    if version in {None, FORMAT_VERSION}:
        return None
    return f"its user metadata has the format version {version!r}, which is not Pulsar's"


def _look_at_object(survey: Survey, ref: LedgerRef, role: str) -> list[Repair]:
    key = ref.object(role).key
    try:
        head = survey.store.head(key)
    except StoreUnreachableError:
        raise
    except (ObjectNotFoundError, StaleObjectError):
        return []  # deleted since the listing
    except LedgerfsError as error:
        return [Repair(NO_VERSION_KEY, Severity.UNCHECKED, error.reason, key, ref.ledger_id, ref.topic)]
    return list(lost_metadata(survey, head, ref.managed_ledger, role, ref.ledger_id))


def look_at_lost(survey: Survey, lost: LedgerRef) -> Iterator[Repair]:
    """Yield the repair of an index whose data object is lost."""
    head = survey.store.head(lost.object("index").key)

    def found(severity: Severity, reason: str, action: DeleteObject | None = None) -> Repair:
        return Repair(INDEX_WITHOUT_DATA, severity, reason, head.stat.key, lost.ledger_id, lost.topic, action)

    if (refusal := _refusal(survey, lost)) is not None:
        yield found(Severity.UNCHECKED, f"left alone: ledgerfs cannot check whether its data object exists: {refusal}")
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
        reason += f" (the copy {other} has {copies[0].entries} entries of {copies[0].length} bytes, or was created at another time)"
    advice = "copy the data object from a backup, or offload the ledger again while BookKeeper still has it"
    yield found(Severity.DAMAGE, f"{reason}; {advice}")


def _refusal(survey: Survey, lost: LedgerRef) -> str | None:
    """Return why the store refuses to answer whether the data object exists; None if it answers."""
    try:
        survey.store.head(lost.object("data").key)
    except ObjectNotFoundError:
        return None
    except (AccessDeniedError, StoreError) as error:
        return error.reason
    return None


def look_at_uploads(survey: Survey) -> Iterator[Repair]:
    """Yield the repair of each unfinished upload."""
    try:
        for upload in survey.store.writes.unfinished_uploads():
            yield from _look_at_upload(survey, upload)
    except StoreUnreachableError:
        raise
    except (AccessDeniedError, StoreError, UnsupportedWriteError) as error:
        reason = f"ledgerfs cannot list unfinished uploads: {error.reason}"
        yield Repair(UNFINISHED_UPLOAD, Severity.UNCHECKED, reason)


def _look_at_upload(survey: Survey, upload: UnfinishedUpload) -> Iterator[Repair]:
    key = parse_ledger_key(upload.key)
    ledger_id = None if key is None else key.ledger_id
    if not survey.is_meant(ledger_id):
        return
    young = survey.too_young(upload.begun_ms)
    if key is None:
        reason, action = "left alone: Pulsar does not write objects with such names", None
    elif young is not None:
        reason, action = f"left alone: {young}", None
    else:
        reason, action = (
            "it was neither completed nor aborted, and takes space that listings do not show",
            AbortUpload(upload),
        )
    yield Repair(UNFINISHED_UPLOAD, Severity.REMARK, reason, upload.key, ledger_id, None, action)


def part_names(survey: Survey) -> list[str]:
    """Return the keys with names of jclouds' parts, as far as the catalog has kept them."""
    return [] if survey.ledgers is not None else survey.catalog.others.names.get(KeyKind.GCS_PART.value, [])


def look_at_part(survey: Survey, name: str) -> Repair:
    """Return the repair of one object with the name of a part; it is a part if it is a whole block of Pulsar's."""
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
        return Repair(
            GCS_PART, Severity.REMARK, "left alone: it has the name of a part, but is not a block of Pulsar's", name
        )
    reason = "one block of an upload that was interrupted before it became an object; BookKeeper still had the ledger"
    return Repair(GCS_PART, Severity.REMARK, reason, name, action=DeleteObject("delete-part", stat))

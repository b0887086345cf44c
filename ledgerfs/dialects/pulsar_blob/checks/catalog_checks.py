"""What listing and indexes alone tell: pairs that are not pairs, sizes that do not agree. Reads no data."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ledgerfs.errors import AccessDeniedError, LedgerfsError, ObjectNotFoundError, StoreError, StoreUnreachableError
from ledgerfs.formats.pulsar_blob.object_names import KeyKind
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.ledgers.catalog import Catalog, LedgerRef, agree, is_sound, key_of
from ledgerfs.ledgers.dialect import LedgerReader
from ledgerfs.ledgers.findings import Finding, Severity
from ledgerfs.storage.object_store import ObjectStore

_OTHER_KEYS = {
    KeyKind.STREAMING: "objects of the streaming offloader (PIP-76, V2), which ledgerfs does not read",
    KeyKind.GCS_PART: "parts that an interrupted upload to Google Cloud Storage left behind; they can be deleted",
    KeyKind.FOREIGN: "keys that are not Pulsar's",
}
_NAMES_SHOWN = 5


OpenLedger = Callable[[LedgerRef], LedgerReader]
"""Returns the reader of a row of the catalog."""


def check_catalog(catalog: Catalog, open_ledger: OpenLedger) -> Iterator[Finding]:
    """Yield what is wrong with the bucket as a whole, and with ledgers whose sizes contradict each other."""
    for bad in catalog.bad_indexes:
        key, error = bad.key, bad.error
        severity = severity_of(error)
        kind = "deleted-meanwhile" if severity is Severity.REMARK else "unreadable-index"
        yield Finding(severity, kind, error.reason, key.index_key, error.offset, key.ledger_id)
    yield from _unpaired(catalog)
    ledgers = catalog.ledgers
    for row in np.flatnonzero(~is_sound(ledgers)):
        ref = catalog.ref(int(row))
        yield _guarded(open_ledger, ref, partial(_contradiction, severity=_severity_of_copy(catalog, ref)))
    for row in np.flatnonzero(ledgers["odd_index"]):
        yield _guarded(open_ledger, catalog.ref(int(row)), _oddity)
    for row in np.flatnonzero(ledgers["copy"] > 0):
        yield _copy(catalog, int(row))
    yield from _other_keys(catalog)


def severity_of(error: LedgerfsError) -> Severity:
    """Return how bad it is that an object could not be read: deleted since the listing, refused by the store, or broken."""
    if isinstance(error, ObjectNotFoundError):
        return Severity.REMARK
    if isinstance(error, AccessDeniedError | StoreError):
        return Severity.UNCHECKED
    return Severity.DAMAGE


def _guarded(open_ledger: OpenLedger, ref: LedgerRef, check: Callable[[LedgerReader], Finding]) -> Finding:
    """Return the finding, or what kept us from it."""
    try:
        return check(open_ledger(ref))
    except StoreUnreachableError:
        raise
    except LedgerfsError as error:
        severity = severity_of(error)
        kind = "deleted-meanwhile" if severity is Severity.REMARK else "unreadable-object"
        return _about(ref, severity, kind, error.reason, error.offset, index=True)


def _unpaired(catalog: Catalog) -> Iterator[Finding]:
    """Yield data without index and index without data: damage, unless a complete copy of the same ledger is there."""
    for orphan in catalog.orphans:
        key, name, has_copy = key_of(orphan), int(orphan["name"]), bool(orphan["has_copy"])
        message = "data object without an index: the upload is unfinished or failed, or the index is lost"
        if not has_copy and catalog.all_of(key.ledger_id):
            message += "; the bucket has another ledger of this id, of another size or with other first bytes"
        severity = Severity.REMARK if has_copy else Severity.DAMAGE
        topic = topic_of(catalog.names[name]) if name >= 0 else None
        note = message + _copy_note(has_copy)
        yield Finding(severity, "data-without-index", note, key.data_key, None, key.ledger_id, topic)
    complete = catalog.ledgers[is_sound(catalog.ledgers)]
    for lost in catalog.lost:
        key = key_of(lost)
        copies = complete[(complete["ledger_id"] == lost["ledger_id"]) & (complete["name"] == lost["name"])]
        has_copy = bool(agree(copies, lost).any())
        message = "index without its data object: deleted by half, or lost"
        severity = Severity.REMARK if has_copy else Severity.DAMAGE
        note, topic = message + _copy_note(has_copy), topic_of(catalog.names[int(lost["name"])])
        yield Finding(severity, "index-without-data", note, key.index_key, None, key.ledger_id, topic)


def _copy(catalog: Catalog, row: int) -> Finding:
    """Tell of a copy that is not read: a remark where its index agrees with that of the one that is, else damage."""
    copy, read = catalog.ref(row), catalog.ref(row - int(catalog.ledgers["copy"][row]))
    if copy.agrees_with(read):
        return _about(copy, Severity.REMARK, "extra-copy", "a further copy of this ledger; another one is read")
    return contradicting_copy(
        copy,
        f"{_claims(copy)}, while {read.data.key}, which is read, has {_claims(read)}: one hides messages of the other",
    )


def contradicting_copy(copy: LedgerRef, difference: str) -> Finding:
    """Return the finding of a copy that has other entries than the one that is read."""
    message = f"a copy of this ledger, with {difference}; remove the one that is wrong"
    return _about(copy, Severity.DAMAGE, "contradicting-copy", message)


def _claims(ref: LedgerRef) -> str:
    created = "" if ref.created_ms is None else f", created at {ref.created_ms} ms"
    return f"{ref.entries} entries of {ref.length} bytes{created}"


def _copy_note(has_copy: bool) -> str:
    return "; a complete copy of this ledger is in the bucket" if has_copy else ""


def _oddity(ledger: LedgerReader) -> Finding:
    return _about(ledger.ref, Severity.DAMAGE, "odd-index", str(ledger.index.oddity), 4, index=True)


def _severity_of_copy(catalog: Catalog, ref: LedgerRef) -> Severity:
    """Return how bad damage to a copy is: a remark where a complete one is read instead."""
    is_read = ref.copy == 0 or not catalog.copies_of(ref.managed_ledger, ref.ledger_id)[0].is_sound
    return Severity.DAMAGE if is_read else Severity.REMARK


def _contradiction(ledger: LedgerReader, *, severity: Severity) -> Finding:
    """Say what index and size of the data object contradict each other in."""
    ref = ledger.ref
    size = ref.data.size
    if not ledger.store.is_remote:
        # A link in a folder is no object of another size: this raises, and says what it is.
        ledger.store.head(ref.data.key)
    if size < ref.data_length:
        message = f"the object has {size} bytes, its index says {ref.data_length}: the end is missing"
        return _about(ref, severity, "short-object", message, size)
    index = ledger.index
    if index.is_plausible:
        message = f"the object has {size} bytes, its index says {ref.data_length}: something was appended"
        return _about(ref, severity, "long-object", message, ref.data_length)
    last = index.blocks[-1]
    if last.offset + index.header_length > index.data_length:
        message = (
            f"truncated offload that Pulsar reports as successful: entries {last.first_entry} to {ref.last_entry} are missing; "
            "an entry did not fit a block. Offload the ledger again with larger blocks while BookKeeper still has it"
        )
        return _about(ref, severity, "truncated-offload", message, last.offset)
    message = (
        f"the index claims {ref.entries} entries of {ref.length} bytes, "
        f"which {len(index.blocks)} blocks in {ref.data_length} bytes do not make"
    )
    return _about(ref, severity, "impossible-index", message, None, index=True)


def _about(
    ref: LedgerRef, severity: Severity, kind: str, message: str, offset: int | None = None, *, index: bool = False
) -> Finding:
    key = ref.index.key if index else ref.data.key
    return Finding(severity, kind, message, key, offset, ref.ledger_id, ref.topic)


def _other_keys(catalog: Catalog) -> Iterator[Finding]:
    for kind, count in sorted(catalog.others.counts.items(), key=lambda item: item[0].value):
        names = catalog.others.names[kind]
        shown = ", ".join(repr(name) for name in names[:_NAMES_SHOWN])
        more = f" and {count - _NAMES_SHOWN} more" if count > _NAMES_SHOWN else ""
        yield Finding(Severity.REMARK, f"{kind.value}-keys", f"{count} {_OTHER_KEYS[kind]}: {shown}{more}")


def metadata_remark(catalog: Catalog, store: ObjectStore) -> list[Finding]:
    """Remark once that a store keeps no user metadata, which a broker that reads a copy of it would miss."""
    for ref in catalog.refs():
        try:
            keeps_metadata = store.head(ref.index.key).metadata is not None
        except ObjectNotFoundError:
            continue  # deleted since the listing; the next one tells as well
        except AccessDeniedError:
            return []  # told with the ledgers themselves
        if keeps_metadata:
            return []
        break
    else:
        return []
    message = (
        "this store keeps no user metadata; a broker refuses copies of these objects that lack "
        "s3managedledgeroffloaderformatversion=1, so set it when you put them back"
    )
    return [Finding(Severity.REMARK, "no-user-metadata", message)]

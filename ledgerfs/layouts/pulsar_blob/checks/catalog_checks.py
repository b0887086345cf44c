"""Check listing and indexes without reading data: objects without a partner, sizes that contradict each other."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_findings import about, other_keys, severity_of, severity_of_copy
from ledgerfs.catalog.catalog_rows import agree, is_sound
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import AccessDeniedError, LedgerfsError, ObjectNotFoundError, StoreUnreachableError
from ledgerfs.formats.pulsar_blob.object_names import KeyKind
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.pulsar_blob.columns import NUMBER, key_of, own_of
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader
from ledgerfs.storage.object_store import ObjectStore

_OTHER_KEYS = {
    KeyKind.STREAMING.value: "objects of the streaming offloader (PIP-76, V2), which ledgerfs does not read",
    KeyKind.GCS_PART.value: "parts that an interrupted upload to Google Cloud Storage left behind; they can be deleted",
}


OpenBlob = Callable[[LedgerRef], PulsarLedgerReader]
"""Returns the reader of a row of the catalog."""


def check_catalog(catalog: Catalog, open_ledger: OpenBlob) -> Iterator[Finding]:
    """Yield findings about the bucket as a whole, and about ledgers whose sizes contradict each other."""
    for bad in fragments_of(catalog).bad_indexes:
        key, error = bad.key, bad.error
        severity = severity_of(error)
        kind = "deleted-meanwhile" if severity is Severity.REMARK else "unreadable-index"
        yield Finding(severity, kind, error.reason, key.index_key, error.offset, key.ledger_id)
    yield from _unpaired(catalog)
    ledgers = catalog.ledgers
    is_own = ledgers["layout"] == NUMBER
    for row in np.flatnonzero(~is_sound(ledgers) & is_own):
        ref = catalog.ref(int(row))
        yield _guarded(open_ledger, ref, partial(_contradiction, severity=severity_of_copy(catalog, ref)))
    for row in np.flatnonzero(own_of(ledgers)["odd_index"] & is_own):
        yield _guarded(open_ledger, catalog.ref(int(row)), _oddity)
    for kind, what in sorted(_OTHER_KEYS.items()):
        yield from other_keys(catalog, kind, what)


def _guarded(open_ledger: OpenBlob, ref: LedgerRef, check: Callable[[PulsarLedgerReader], Finding]) -> Finding:
    """Return the findings of a check, or a finding about the error that prevented it."""
    try:
        return check(open_ledger(ref))
    except StoreUnreachableError:
        raise
    except LedgerfsError as error:
        severity = severity_of(error)
        kind = "deleted-meanwhile" if severity is Severity.REMARK else "unreadable-object"
        return about(ref, severity, kind, error.reason, error.offset, role="index")


def _unpaired(catalog: Catalog) -> Iterator[Finding]:
    """Yield data without index and index without data: damage, unless the bucket has a complete copy of the same ledger."""
    refused = {one.key: one for one in fragments_of(catalog).refused}
    for one in refused.values():
        yield Finding(
            Severity.UNCHECKED, "unreadable-object", one.error.reason, one.key, one.error.offset, one.ledger_id
        )
    for orphan in fragments_of(catalog).orphans:
        key, name, has_copy = key_of(orphan), int(orphan["name"]), bool(orphan["has_copy"])
        if key.data_key in refused:
            continue
        message = "data object without an index: the upload is unfinished or failed, or the index is lost"
        if not has_copy and catalog.all_of(key.ledger_id):
            message += "; the bucket has another ledger of this id, which may be a different ledger"
        note, severity = _judged(message, has_copy=has_copy)
        topic = topic_of(catalog.names[name]) if name >= 0 else None
        yield Finding(severity, "data-without-index", note, key.data_key, None, key.ledger_id, topic)
    complete = catalog.ledgers[is_sound(catalog.ledgers)]
    for lost in catalog.lost[catalog.lost["layout"] == NUMBER]:
        key = key_of(lost)
        copies = complete[(complete["ledger_id"] == lost["ledger_id"]) & (complete["name"] == lost["name"])]
        has_copy = bool(agree(copies, lost).any())
        if key.data_key in refused:
            continue
        note, severity = _judged(
            "index without its data object: the ledger was deleted only in part, or its data object is lost",
            has_copy=has_copy,
        )
        topic = topic_of(catalog.names[int(lost["name"])])
        yield Finding(severity, "index-without-data", note, key.index_key, None, key.ledger_id, topic)


def _judged(message: str, *, has_copy: bool) -> tuple[str, Severity]:
    if has_copy:
        return f"{message}; a complete copy of this ledger is in the bucket", Severity.REMARK
    return message, Severity.DAMAGE


def _oddity(ledger: PulsarLedgerReader) -> Finding:
    return about(ledger.ref, Severity.DAMAGE, "odd-index", str(ledger.index.oddity), 4, role="index")


def _contradiction(ledger: PulsarLedgerReader, *, severity: Severity) -> Finding:
    """Return how index and size of the data object contradict each other."""
    ref = ledger.ref
    size = ref.object("data").size
    if not ledger.store.is_remote:
        # For a link in a folder this raises an error, because the link's size means nothing.
        ledger.store.head(ref.object("data").key)
    if size < ref.expected:
        message = f"the object has {size} bytes, expected {ref.expected} from its index: the end is missing"
        return about(ref, severity, "short-object", message, size)
    index = ledger.index
    if index.is_plausible:
        message = f"the object has {size} bytes, expected {ref.expected} from its index: bytes were appended"
        return about(ref, severity, "long-object", message, ref.expected)
    last = index.blocks[-1]
    if last.offset + index.header_length > index.data_length:
        message = (
            f"truncated offload that Pulsar reports as successful: entries {last.first_entry} to {ref.last_entry} are missing; "
            "an entry did not fit a block. Offload the ledger again with larger blocks while BookKeeper still has it"
        )
        return about(ref, severity, "truncated-offload", message, last.offset)
    message = (
        f"the index has {ref.entries} entries of {ref.length} bytes, "
        f"which do not match its {len(index.blocks)} blocks in {ref.expected} bytes"
    )
    return about(ref, severity, "impossible-index", message, None, role="index")


def metadata_remark(catalog: Catalog, store: ObjectStore) -> list[Finding]:
    """Return one remark if the store keeps no user metadata: a broker that reads a copy of the bucket needs it."""
    for ref in catalog.refs():
        if ref.layout != NUMBER:
            continue
        try:
            keeps_metadata = store.head(ref.object("index").key).metadata is not None
        except ObjectNotFoundError:
            continue  # deleted since the listing; the next ledger is as good
        except AccessDeniedError:
            return []  # a finding of the ledgers' own checks
        if keeps_metadata:
            return []
        break
    else:
        return []
    message = (
        "this store has no user metadata. A broker refuses objects without s3managedledgeroffloaderformatversion=1: "
        "set it when you copy these objects back to an object store"
    )
    return [Finding(Severity.REMARK, "no-user-metadata", message)]

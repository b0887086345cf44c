"""What listing and indexes alone tell: pairs that are not pairs, sizes that do not agree. Reads no data."""

from collections.abc import Iterator

import numpy as np

from ledgerfs.formats.object_names import KeyKind
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.vfs.bucket import Bucket
from ledgerfs.vfs.catalog import Catalog, LedgerRef, Table, is_sound, key_of
from ledgerfs.vfs.verification.findings import Finding, Severity

_OTHER_KEYS = {
    KeyKind.STREAMING: "objects of the streaming offloader (PIP-76, V2), which ledgerfs does not read",
    KeyKind.GCS_PART: "parts that an interrupted upload to Google Cloud Storage left behind; they can be deleted",
    KeyKind.FOREIGN: "keys that are not Pulsar's",
}
_NAMES_SHOWN = 5


def check_catalog(bucket: Bucket) -> Iterator[Finding]:
    """Yield what is wrong with the bucket as a whole, and with ledgers whose sizes contradict each other."""
    catalog = bucket.catalog
    for bad in catalog.bad_indexes:
        key, error = bad.key, bad.error
        yield Finding(Severity.DAMAGE, "unreadable-index", error.reason, key.index_key, error.offset, key.ledger_id)
    yield from _unpaired(catalog)
    ledgers = catalog.ledgers
    for row in np.flatnonzero(~is_sound(ledgers)):
        yield _contradiction(bucket, catalog.ref(int(row)))
    for row in np.flatnonzero(ledgers["odd_index"]):
        yield _about(
            catalog.ref(int(row)),
            Severity.DAMAGE,
            "odd-index",
            "the index object's own length is wrong",
            None,
            index=True,
        )
    for row in np.flatnonzero(ledgers["copy"] > 0):
        message = "a further copy of this ledger; the newest complete one is read"
        yield _about(catalog.ref(int(row)), Severity.REMARK, "extra-copy", message)
    yield from _other_keys(catalog)


def _unpaired(catalog: Catalog) -> Iterator[Finding]:
    """Yield data without index and index without data: damage, unless a complete copy of the ledger is there."""
    for orphan, has_copy in _with_copies(catalog, catalog.orphans):
        key = key_of(orphan)
        message = "data object without an index: the upload is unfinished or failed, or the index is lost"
        severity = Severity.REMARK if has_copy else Severity.DAMAGE
        yield Finding(severity, "data-without-index", message + _copy_note(has_copy), key.data_key, None, key.ledger_id)
    for lost, has_copy in _with_copies(catalog, catalog.lost):
        key = key_of(lost)
        message = "index without its data object: deleted by half, or lost"
        severity = Severity.REMARK if has_copy else Severity.DAMAGE
        topic = topic_of(catalog.names[int(lost["name"])])
        yield Finding(
            severity, "index-without-data", message + _copy_note(has_copy), key.index_key, None, key.ledger_id, topic
        )


def _with_copies(catalog: Catalog, rows: Table) -> Iterator[tuple[np.void, bool]]:
    complete = catalog.ledgers[is_sound(catalog.ledgers)]
    copies = np.isin(rows["ledger_id"], complete["ledger_id"])
    return zip(rows, copies.tolist(), strict=True)


def _copy_note(has_copy: bool) -> str:
    return "; a complete copy of this ledger is in the bucket" if has_copy else ""


def _contradiction(bucket: Bucket, ref: LedgerRef) -> Finding:
    """Say what index and size of the data object contradict each other in."""
    size = ref.data.size
    if size < ref.data_length:
        message = f"the object has {size} bytes, its index says {ref.data_length}: the end is missing"
        return _about(ref, Severity.DAMAGE, "short-object", message, size)
    index = bucket.reader(ref).index
    if index.is_plausible:
        message = f"the object has {size} bytes, its index says {ref.data_length}: something was appended"
        return _about(ref, Severity.DAMAGE, "long-object", message, ref.data_length)
    last = index.blocks[-1]
    if last.offset + index.header_length > index.data_length:
        message = (
            f"truncated offload that Pulsar reports as successful: entries {last.first_entry} to {ref.last_entry} are missing; "
            "an entry did not fit a block. Offload the ledger again with larger blocks while BookKeeper still has it"
        )
        return _about(ref, Severity.DAMAGE, "truncated-offload", message, last.offset)
    message = (
        f"the index claims {ref.entries} entries of {ref.length} bytes, "
        f"which {len(index.blocks)} blocks in {ref.data_length} bytes do not make"
    )
    return _about(ref, Severity.DAMAGE, "impossible-index", message, None, index=True)


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

"""What was seen of MapFiles while the catalog was made: folders that are no whole ledgers, ends that are missing, indexes of no use."""

from collections.abc import Iterator

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_findings import severity_of
from ledgerfs.catalog.catalog_rows import is_sound
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import UNKNOWN
from ledgerfs.errors import UnsupportedFormatError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.mapfile.columns import NUMBER, IndexState, own_of
from ledgerfs.layouts.mapfile.gaps import has_copy
from ledgerfs.layouts.mapfile.remains import PartialLedger, remains_of


def check_catalog(catalog: Catalog) -> Iterator[Finding]:
    """Yield what is wrong with the bucket as a whole, without reading any of it."""
    for partial in remains_of(catalog).partial:
        yield _partial(catalog, partial)
    ledgers = catalog.ledgers
    is_own = ledgers["layout"] == NUMBER
    for row in np.flatnonzero(is_own & ~is_sound(ledgers)).tolist():
        ref = catalog.ref(row)
        message = f"the data does not end with entry {ref.last_entry}, the last one by the metadata: it was never finished, or is damaged"
        yield _about(ref, _severity_of_copy(catalog, ref), "missing-entries", message, ref.stored)
    states = own_of(ledgers)["index_state"]
    for row in np.flatnonzero(is_own & (states == IndexState.MISSING)).tolist():
        message = "no index is beside the data: ledgerfs reads it through, a broker cannot open the ledger"
        yield _about(catalog.ref(row), Severity.DAMAGE, "no-index", message)
    for row in np.flatnonzero(is_own & (states == IndexState.WRONG)).tolist():
        ref = catalog.ref(row)
        message = "the index cannot be read, or contradicts the data: ledgerfs reads the data through, a broker may find no entries"
        yield Finding(Severity.DAMAGE, "wrong-index", message, ref.object("index").key, None, ref.ledger_id, ref.topic)
    for row in np.flatnonzero(is_own & (states == IndexState.UNREAD)).tolist():
        ref = catalog.ref(row)
        message = "the index may not be read, or the store failed: ledgerfs reads the data through"
        stat = ref.object("index")
        yield Finding(Severity.UNCHECKED, "unreadable-object", message, stat.key, None, ref.ledger_id, ref.topic)


def _partial(catalog: Catalog, partial: PartialLedger) -> Finding:
    severity, kind = severity_of(partial.error), "partial-ledger"
    if partial.is_deleted:
        kind = "deleted-meanwhile"
    elif partial.folder.fault:
        kind = "misplaced-ledger"
    elif isinstance(partial.error, UnsupportedFormatError) or partial.is_refused:
        kind = "unreadable-ledger"
    message = partial.error.reason
    ledger_id = None if partial.folder.ledger_id == UNKNOWN else partial.folder.ledger_id
    if severity is Severity.DAMAGE and has_copy(catalog, partial):
        severity, message = Severity.REMARK, f"{message}; a complete copy of this ledger is in the bucket"
    elif severity is not Severity.REMARK and any(
        catalog.copies_of(name, partial.folder.ledger_id) for name in partial.managed_ledgers
    ):
        message += "; the bucket has another ledger of this id, which is not known to be the same one"
    topic = None if partial.managed_ledgers == (None,) else topic_of(partial.managed_ledgers[-1])
    return Finding(severity, kind, message, partial.key, partial.error.offset, ledger_id, topic)


def _severity_of_copy(catalog: Catalog, ref: LedgerRef) -> Severity:
    """Return how bad damage to a copy is: a remark where a complete one is read instead."""
    is_read = ref.copy == 0 or not catalog.copies_of(ref.managed_ledger, ref.ledger_id)[0].is_sound
    return Severity.DAMAGE if is_read else Severity.REMARK


def _about(ref: LedgerRef, severity: Severity, kind: str, message: str, offset: int | None = None) -> Finding:
    return Finding(severity, kind, message, ref.key, offset, ref.ledger_id, ref.topic)

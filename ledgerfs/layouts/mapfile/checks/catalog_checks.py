"""Findings from the catalog of MapFiles: folders that are incomplete ledgers, missing ends, and unusable indexes."""

from collections.abc import Iterator

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_findings import about, severity_of, severity_of_copy
from ledgerfs.catalog.catalog_rows import is_sound
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.missing_ledgers import UNKNOWN
from ledgerfs.errors import UnsupportedFormatError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.layouts.mapfile.columns import NUMBER, IndexState, own_of
from ledgerfs.layouts.mapfile.fragments import PartialLedger, fragments_of, has_copy

_INDEX_STATES = {
    IndexState.MISSING: (
        Severity.DAMAGE, "no-index", "data", "the index is missing: ledgerfs scans the data instead, but a broker cannot open the ledger"
    ),
    IndexState.WRONG: (
        Severity.DAMAGE, "wrong-index", "index",
        "the index cannot be read, or contradicts the data: ledgerfs scans the data instead, but a broker may find no entries",
    ),
    IndexState.UNREAD: (
        Severity.UNCHECKED, "unreadable-object", "index",
        "access to the index was denied, or the store failed: ledgerfs scans the data instead",
    ),
}  # fmt: skip
"""{state: (severity, kind of the finding, role of the object, message)}."""


def check_catalog(catalog: Catalog) -> Iterator[Finding]:
    """Yield findings about the bucket as a whole; reads nothing."""
    for partial in fragments_of(catalog).partial:
        yield _partial(catalog, partial)
    ledgers = catalog.ledgers
    is_own = ledgers["layout"] == NUMBER
    for row in np.flatnonzero(is_own & ~is_sound(ledgers)).tolist():
        ref = catalog.ref(row)
        message = f"the data does not end with entry {ref.last_entry}, the last one in the metadata: it is incomplete or damaged"
        yield about(ref, severity_of_copy(catalog, ref), "missing-entries", message, ref.stored)
    states = own_of(ledgers)["index_state"]
    for state, (severity, kind, role, message) in _INDEX_STATES.items():
        for row in np.flatnonzero(is_own & (states == state)).tolist():
            yield about(catalog.ref(row), severity, kind, message, role=role)


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
        message += "; the bucket has another ledger of this id, which may be a different ledger"
    topic = None if partial.managed_ledgers == (None,) else topic_of(partial.managed_ledgers[-1])
    return Finding(severity, kind, message, partial.key, partial.error.offset, ledger_id, topic)

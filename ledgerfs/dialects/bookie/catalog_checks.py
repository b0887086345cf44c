"""What the tables of locations tell of ledgers and logs, without a look at an entry."""

from collections.abc import Iterator

import numpy as np

from ledgerfs.dialects.bookie.columns import NUMBER, own_of
from ledgerfs.dialects.bookie.place import DiskPlace
from ledgerfs.disks.scanning import ScannedFile
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.findings import Finding, Severity

_NAMED = 20


def check_rows(place: DiskPlace, catalog: Catalog) -> Iterator[Finding]:
    """Yield the ledgers that lack entries, those with entries behind their end, and the stretches of files that are no records."""
    index, _ = place.index()
    rows = catalog.ledgers[catalog.ledgers["dialect"] == NUMBER]
    newest = own_of(rows)["newest"]
    for row, last_here in zip(rows, newest.tolist(), strict=True):
        ref = catalog.ref_of(row)
        missing = index.missing(ref.ledger_id, ref.last_entry)
        if missing:
            count = sum(last - first + 1 for first, last in missing)
            shown = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in missing[:_NAMED])
            more = ", …" if len(missing) > _NAMED else ""
            message = f"{count:,} of {ref.entries:,} entries are on none of the given disks: {shown}{more}"
            yield Finding(Severity.DAMAGE, "lost-entries", message, ref.key, None, ref.ledger_id, ref.topic)
        if last_here > ref.last_entry:
            message = f"entries {ref.last_entry + 1} to {last_here} are there, and lie behind the end of the ledger"
            yield Finding(Severity.REMARK, "beyond-the-end", message, ref.key, None, ref.ledger_id, ref.topic)
    for one in index.files:
        yield from _no_records(one, is_told=place.disks.metadata is not None)


def _no_records(file: ScannedFile, *, is_told: bool) -> Iterator[Finding]:
    """Yield the stretches of a file that are no records. What lay there is named as lost by itself if metadata tells of it.

    At the end of a file it may be a record that is being written, or that a crash has cut: the bookie had not acknowledged it.
    """
    gaps = file.table.gaps
    for start, end in gaps[:_NAMED].tolist():
        severity = Severity.REMARK if is_told or end == file.table.end else Severity.DAMAGE
        yield Finding(
            severity, "no-record", f"{end - start:,} bytes are neither records nor padding", file.file.path, start
        )
    if len(gaps) > _NAMED:
        size = int(np.diff(gaps, axis=1).sum())
        message = f"{len(gaps):,} stretches, of {size:,} bytes in all, are neither records nor padding"
        yield Finding(Severity.REMARK if is_told else Severity.DAMAGE, "no-record", message, file.file.path)

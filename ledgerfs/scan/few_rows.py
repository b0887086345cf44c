"""A few rows of a scan, without reading the others: the last ones, or those of one entry."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.scan.part_reading import TopicPart
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.scan import Scan
from ledgerfs.scan.topic_entries import Place, Reach

_GROWTH = 4
"""How many times as many entries to read next, if those so far had too few rows (markers, other keys, aborted transactions)."""


def last_rows(scan: Scan, rows: int) -> tuple[pa.Table, list[ScanReport]]:
    """Return the last rows of a scan without a limit, and a report for each partition; those of several are sorted by publish time.

    Reads the last entries only, and further ones until they have enough rows. Raises as `Scan.batches`.
    """
    scan.options.require_of_parts()
    scan.require_all()
    reports: list[ScanReport] = []
    if len(scan.parts) == 1:
        return _last_of(scan, scan.parts[0], rows, reports), reports
    timed = scan if "publish_time" in scan.schema.names else scan.with_columns([*scan.schema.names, "publish_time"])
    found = pa.concat_tables([_last_of(timed, part, rows, reports) for part in timed.parts])
    table = found.sort_by("publish_time")
    return table.slice(max(0, table.num_rows - rows)).select(scan.schema.names), reports


def rows_of_entry(
    scan: Scan, ledger_id: int, entry_id: int, index: int | None = None, topic: str | None = None
) -> tuple[pa.Table, ScanReport]:
    """Return the rows of one entry, or with ``index`` one message of its batch; and a report. Raises as `Scan.batches`.

    Several partitions may have a ledger of this id; ``topic`` is the name of the one to read.
    """
    parts = []
    for part in scan.parts:
        if topic not in {None, part.topic}:
            continue
        for number, ledger in enumerate(part.ledgers):
            if ledger.ref.ledger_id == ledger_id:
                parts.append(replace(part, reach=Reach(Place(number, entry_id), Place(number, entry_id + 1))))
    report = ScanReport()
    where = None if index is None else pc.field("batch_index") == index
    return replace(scan, parts=tuple(parts)).with_columns(scan.schema.names, where).to_arrow(report), report


def _last_of(scan: Scan, part: TopicPart, rows: int, reports: list[ScanReport]) -> pa.Table:
    entries = rows
    while True:
        report = ScanReport()
        start = _before_end(part.ledgers, entries)
        reach = Reach(start, Place(len(part.ledgers), 0))
        table = replace(scan, parts=(replace(part, reach=reach),)).to_arrow(report)
        if table.num_rows >= rows or start == Place(0, 0):
            reports.append(report)
            return table.slice(max(0, table.num_rows - rows))
        entries *= _GROWTH


def _before_end(ledgers: Sequence[LedgerReader], entries: int) -> Place:
    """Return the place that many entries before the end."""
    for number in range(len(ledgers) - 1, -1, -1):
        size = ledgers[number].ref.entries
        if size >= entries:
            return Place(number, size - entries)
        entries -= size
    return Place(0, 0)

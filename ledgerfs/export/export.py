"""Exporting a topic to a folder: one file for each ledger, whole or not there, and nothing is done twice.

The partitions of a partitioned topic share the folder. Each has ledgers and transactions of its own, and two may have ledgers of the same
id if two clusters share the bucket; so the partition is in the files' names.

Each ledger is a scan of its own, which also reads parts of the ledgers around it: a chunked message belongs to the ledger of its last
chunk.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ledgerfs.bucket.topic import Topic
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.ledger_times import LedgerTimes
from ledgerfs.catalog.missing_ledgers import UNKNOWN, MissingLedger
from ledgerfs.errors import AccessDeniedError, InvalidOptionError, StoreError, StoreUnreachableError
from ledgerfs.export.folder import Exported, ExportFolder, parsed_name
from ledgerfs.export.folder_lock import locked
from ledgerfs.export.identity import told_bucket, told_fields
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.local_paths import LocalPath, local_path
from ledgerfs.formats.topic_names import split_partition
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.messages.decode.undecodable import Undecodable, add_undecodable, counts_of
from ledgerfs.scan.options import ScanOptions, require_of_parts
from ledgerfs.scan.partitioned_scan import PartitionedScan
from ledgerfs.scan.scan import Scan
from ledgerfs.scan.topic_entries import Reach
from ledgerfs.tables.table_files import TABLE_KINDS, write_table

_UNSEEN = "what came behind that, if anything, may be gone as well, and is not in the files"


@dataclass(frozen=True, slots=True)
class Held:
    """A ledger whose file stays as it is, though it may lack rows or have others than the topic now."""

    ledger_id: int
    reason: str

    def __str__(self) -> str:
        return f"ledger {self.ledger_id}: {self.reason}"


@dataclass(slots=True)
class ExportReport:
    """What an export did.

    Attributes
    ----------
    topic
        The topic's name.
    written, kept
        Files made now, and files of earlier exports that are still valid.
    rows, size
        Messages and bytes in the files made now.
    skipped, incomplete
        Damaged entries left out now with ``on_corrupt="skip"``, ledgers without a file since the store refused them with
        ``on_unreadable="skip"``, and chunked messages of which chunks are missing.
    skipped_before
        Damaged entries left out of the kept files.
    undecodable
        Values that could not be decoded, of the files made now, by version and reason: null, or left out with ``on_undecodable="skip"``.
    undecodable_before, unnamed_before
        How many errors of them are in the kept files, and how many values that no schema is named for, which are null.
    missing
        Ledgers of the topic of which the bucket has only a part; they have no files.
    held
        Ledgers whose files should be written again and cannot be, since a ledger that they have rows of is gone, or fewer entries are
        listed than were exported; and ledgers that are gone, behind which more may have come than was exported.

    """

    topic: str
    written: int = 0
    kept: int = 0
    rows: int = 0
    size: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    incomplete: list[Incomplete] = field(default_factory=list)
    skipped_before: int = 0
    undecodable: list[Undecodable] = field(default_factory=list)
    undecodable_before: int = 0
    unnamed_before: int = 0
    missing: Sequence[MissingLedger] = ()
    held: list[Held] = field(default_factory=list)


def export_topic(
    topic: Topic,
    target: LocalPath,
    kind: str,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    columns: Sequence[str] | None = None,
    **options: Unpack[ScanOptions],
) -> ExportReport:
    """Write each ledger of a topic that has messages to ``<ledgerId>.<kind>`` in a folder, unless it is there already.

    Files of a partitioned topic are ``<ledgerId>-partition-<number>.<kind>``. A file is written again when its ledger was replaced, or a
    ledger came, or was replaced, that its rows depend on. Of ledgers that are gone the files stay.

    The bucket is listed when the folder is locked, so that nothing is undone that another export has written.

    Parameters
    ----------
    topic
        What to export.
    target
        A folder of this machine, which is made. One folder holds one topic with the same options.
    kind
        One of `TABLE_KINDS`.
    overwrite
        Remove the files of an export with other options from the folder, instead of raising.
    progress
        Called with the topic's name, the bytes read so far, and the bytes to read.
    columns, options
        As in `Topic.scan`; ``transactions="readable"`` is not known for a single ledger. A folder is of the schemas that were known when it
        was begun: with others it is another export. So is one of ``values="json"`` when ledgers that came since have changed the type
        of all; each export reads the topic for that type.

    Raises
    ------
    InvalidOptionError
        An invalid column, time or choice, or a folder that holds something else.
    ExportFolderError
        The folder cannot be written, or another export is writing to it, or an import reads it.
    NotFoundError
        The bucket has no ledger of the topic any more.
    MissingLedgerError
        The topic lacks ledgers, and ``on_corrupt`` is not "skip": nothing is written then.
    LedgerfsError
        As a scan. Finished files stay, and the next export goes on after them.

    """
    folder = local_path(target, "target")
    if kind not in TABLE_KINDS:
        raise InvalidOptionError(f"one of {', '.join(TABLE_KINDS)}", key=f"kind={kind!r}")
    with locked(folder):
        catalog = topic.bucket.refresh()
        if not any(map(catalog.has, topic.managed_ledgers)):
            # It is gone since it was looked up: this raises, as looking it up now does.
            topic = topic.bucket.topic(topic.name)
        return export_listed(topic, folder, kind, overwrite=overwrite, progress=progress, columns=columns, **options)


def export_listed(
    topic: Topic,
    path: Path,
    kind: str,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    columns: Sequence[str] | None = None,
    **options: Unpack[ScanOptions],
) -> ExportReport:
    """Export as `export_topic`, for who has locked the folder, and listed the bucket since."""
    require_of_parts(options)
    scan = topic.scan(columns, **options)
    scan.require_all()
    if isinstance(scan, PartitionedScan):
        whole = replace(scan.whole, skips_refused=any(part.skips_refused for part in scan.partitions))
        parts = {_ending_of(part.topic): part for part in scan.partitions}
    else:
        whole, parts = scan, {"": scan}
    contents = _contents_of(topic, whole, kind, options.get("private_keys") or ())
    ledgers = [one for ending, part in parts.items() for one in _ledgers_of(part, ending)]
    versions = {one.name: one.ref.version for one in ledgers}
    with ExportFolder(path, contents, TABLE_KINDS[kind], versions, overwrite=overwrite) as folder:
        export = _Export(ExportReport(topic.name, missing=scan.missing), folder, kind, progress or (lambda *_: None))
        due = export.due(ledgers)
        unclear = {(one.ledger_id, ending) for ending, part in parts.items() for one in part.missing if one.is_unclear}
        export.report.held += _unseen(folder, ledgers, unclear, is_trimmed=topic.bucket.source.may_trim)
        for ledger in due:
            try:
                export.make(ledger)
            except (AccessDeniedError, StoreError) as error:
                if not whole.skips_refused or isinstance(error, StoreUnreachableError):
                    raise
                export.report.skipped.append(Skipped(ledger.ref.ledger_id, 0, ledger.ref.last_entry, str(error)))
    return export.report


@dataclass(frozen=True, slots=True)
class _Ledger:
    """A ledger to export.

    Attributes
    ----------
    name, ending
        Of its file, without the suffix; and the part of it that names the partition.
    position, scan
        Its position among the ledgers of its topic or partition, and a scan of all these.

    """

    name: str
    ending: str
    ref: LedgerRef
    position: int
    scan: Scan


def _ledgers_of(scan: Scan, ending: str) -> list[_Ledger]:
    refs = [ledger.ref for ledger in scan.ledgers]
    # A file without the refused part of its ledger would count as whole in the next run: such a ledger gets no file.
    known = replace(scan, limits=LedgerTimes.of_refs(refs), skips_refused=False)
    return [_Ledger(f"{ref.ledger_id}{ending}", ending, ref, place, known) for place, ref in enumerate(refs)]


def _ending_of(partition: str) -> str:
    """Return the ending of a partition's file names."""
    return f"-partition-{split_partition(partition)[1]}"


def _unseen(
    folder: ExportFolder, ledgers: Sequence[_Ledger], unclear: Collection[tuple[int, str]], *, is_trimmed: bool
) -> Iterator[Held]:
    """Yield the ledgers that are gone, and behind whose last exported entry more may have come that no export has seen."""
    listed = {one.name for one in ledgers}
    for name in sorted(set(folder.ledgers) - listed, key=parsed_name):
        known, (ledger_id, ending) = folder.ledgers[name], parsed_name(name)
        if (ledger_id, ending) in unclear or (UNKNOWN, ending) in unclear:
            continue
        if known.is_open:
            yield Held(
                ledger_id,
                f"it was still written when it was exported up to entry {known.last_entry}, and is gone: {_UNSEEN}",
            )
        elif known.is_unfinished:
            yield Held(
                ledger_id, f"it had transactions without an outcome, or chunks without an end, and is gone: {_UNSEEN}"
            )
        elif is_trimmed and ledger_id == folder.ends.get(ending):
            yield Held(ledger_id, f"it was the last one of the export before this, and is gone: {_UNSEEN}")


class _Export:
    """One run of an export."""

    def __init__(self, report: ExportReport, folder: ExportFolder, kind: str, progress: Progress) -> None:
        self.report = report
        self._folder = folder
        self._kind = kind
        self._progress = progress
        self._read = self._to_read = 0

    def due(self, ledgers: Sequence[_Ledger]) -> list[_Ledger]:
        """Return the ledgers whose files are to be written; count those that stay."""
        found: list[_Ledger] = []
        for _, group in groupby(ledgers, lambda one: one.ending):
            some = list(group)
            ids = [one.ref.ledger_id for one in some]
            since = np.array([self._folder.since(one.name, one.ref) for one in some])
            found += [one for one in some if not self._stays(one, ids, since)]
        self._to_read = sum(one.ref.length for one in found)
        return found

    def _stays(self, one: _Ledger, ids: Sequence[int], since: Int64) -> bool:
        """Whether the file of a ledger stays, given the ids of its topic's ledgers, and the runs that found them as they are."""
        known = self._folder.ledgers.get(one.name)
        if known is None or not self._folder.has_file(one.name):
            return False
        if not known.is_of(one.ref) or known.basis.latest(ids, since) > known.made:
            lost = known.lost_by_another(one.ref, ids)
            if lost is None:
                return False
            reason = f"its file stays as it is, though it may lack rows: another one would lack {lost}"
            self.report.held.append(Held(one.ref.ledger_id, reason))
        elif known.is_open:
            self._folder.note_end(one.name, one.ref)
        self.report.kept += known.rows > 0
        self.report.skipped_before += known.skipped
        self.report.undecodable_before += known.undecodable
        self.report.unnamed_before += known.unnamed
        return True

    def make(self, ledger: _Ledger) -> None:
        """Export one ledger."""
        read_before = self._read
        part = Reach.of(range(ledger.position, ledger.position + 1))
        scan = replace(ledger.scan, part=part, on_read=self._report_read)
        rows, size = self._write(ledger.name, scan)
        skipped = sum(one.last_entry - one.first_entry + 1 for one in scan.skipped)
        ref, since = ledger.ref, self._folder.since(ledger.name, ledger.ref)
        undecodable, unnamed = counts_of(scan.undecodable)
        exported = Exported(
            ref.version, since, self._folder.run, rows, size, ref.last_entry, ref.is_open, scan.basis, skipped, undecodable, unnamed
        )  # fmt: skip
        self._folder.record(ledger.name, exported)
        self.report.skipped += scan.skipped
        self.report.incomplete += scan.incomplete
        for one in scan.undecodable:
            add_undecodable(self.report.undecodable, one)
        self._report_read(read_before + ref.length - self._read)

    def _write(self, name: str, scan: Scan) -> tuple[int, int]:
        """Write the file of a ledger, if it has messages; return their number, and the bytes of the file."""
        # Of a batch all rows may be left out.
        batches = (batch for batch in scan if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return 0, 0
        with self._folder.writing(name) as file:
            rows = write_table(chain([first], batches), scan.schema, file, self._kind)
            size = file.tell()
        self.report.written += 1
        self.report.rows += rows
        self.report.size += size
        return rows, size

    def _report_read(self, size: int) -> None:
        """Report that ``size`` more bytes are read."""
        self._read += size
        self._progress(self.report.topic, self._read, self._to_read)


def _contents_of(topic: Topic, scan: Scan, kind: str, private_keys: Iterable[str]) -> dict[str, Any]:
    """Return the options that decide the contents of the files, as JSON values; of keys their names."""
    options = asdict(scan.options) | {"columns": scan.message_columns, "transactions": scan.transactions}
    return {
        "bucket": told_bucket(topic.bucket),
        "topic": topic.name,
        "layout": topic.bucket.layout,
        # A topic of the same name without partitions has other files.
        **({"partitions": "all"} if topic.is_partitioned else {}),
        "format": kind,
        **options,
        "clock_slack_ms": scan.clock_slack_ms,
        "private_keys": sorted(private_keys),
        **({} if scan.values is None else {**scan.values.described, "fields": told_fields(scan.values.type)}),
    }

"""Export a topic to a folder: one file for each ledger, complete or absent; valid files are not written again.

The partitions of a partitioned topic share the folder. Each has its own ledgers and transactions, and two may have ledgers with the same
id if two clusters share the bucket; so file names contain the partition.

Each ledger has its own scan, which also reads parts of adjacent ledgers: a chunked message belongs to the ledger of its last chunk.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ledgerfs.bucket.topic import Topic
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.ledger_times import LedgerTimes
from ledgerfs.catalog.missing_ledgers import UNKNOWN, MissingLedger
from ledgerfs.errors import AccessDeniedError, InvalidOptionError, StoreError, StoreUnreachableError
from ledgerfs.export.folder import Exported, ExportFolder, parsed_name
from ledgerfs.export.folder_lock import locked
from ledgerfs.export.identity import reported_bucket, reported_fields
from ledgerfs.formats.local_paths import LocalPath, local_path
from ledgerfs.formats.topic_names import split_partition
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.messages.decode.undecodable import Undecodable, add_undecodable, counts_of
from ledgerfs.scan.options import ScanKeywords, ScanOptions
from ledgerfs.scan.part_reading import TopicPart
from ledgerfs.scan.projection import asked_columns
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.scan import Scan
from ledgerfs.scan.topic_entries import Reach
from ledgerfs.tables.table_files import TABLE_KINDS, write_table

if TYPE_CHECKING:
    from ledgerfs.formats.array_types import Int64

_NONE = (np.zeros(0, np.int64), np.zeros(0, np.int64))
_UNSEEN = "later entries and ledgers may have been deleted too, and are not in the files"


@dataclass(frozen=True, slots=True)
class Held:
    """A ledger whose file may lack rows or have outdated ones, and the reason why no export can check it."""

    ledger_id: int
    reason: str

    def __str__(self) -> str:
        return f"ledger {self.ledger_id}: {self.reason}"


@dataclass(slots=True)
class ExportReport:
    """The result of an export.

    Attributes
    ----------
    topic
        The topic's name.
    written, kept
        New files, and files of earlier exports that are still valid.
    rows, size
        Messages and bytes in the new files.
    skipped, incomplete
        Damaged entries skipped in new files with ``on_corrupt="skip"``, ledgers without a file since the store refused them with
        ``on_unreadable="skip"``, and chunked messages that lack chunks.
    skipped_before
        Damaged entries that are missing in the kept files.
    undecodable
        Undecodable values of the new files, by version and reason: null, or skipped with ``on_undecodable="skip"``.
    undecodable_before, unnamed_before
        Number of undecodable values in the kept files, and of values without a schema version, which are null.
    missing
        Ledgers of the topic that are incomplete in the bucket; they have no files.
    held
        Ledgers whose files may lack rows or have outdated ones, each with the reason; all later runs report them again.

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
    options: ScanOptions | None = None,
    **keywords: Unpack[ScanKeywords],
) -> ExportReport:
    """Write each ledger of a topic that has messages to ``<ledgerId>.<kind>`` in a folder, unless the file is valid already.

    Files of a partitioned topic are ``<ledgerId>-partition-<number>.<kind>``. A file is written again when its ledger, or a ledger that its
    rows depend on, was added or replaced. Files of deleted ledgers stay.

    Lists the bucket after locking the folder, so it never undoes the work of another export.

    Parameters
    ----------
    topic
        The topic to export.
    target
        A local folder, created if needed. One folder is for one topic with the same options.
    kind
        One of `TABLE_KINDS`.
    overwrite
        Remove the files of an export with other options from the folder, instead of raising.
    progress
        Called with the topic's name, the bytes read so far, and the bytes to read.
    columns, options, keywords
        As in `Topic.scan`, without ``transactions="readable"`` and ``limit``, which are undefined for a single ledger. A folder is bound to
        the schemas at its first export; other schemas make a different export. The same applies to ``values="json"`` if new ledgers
        have changed the inferred type; each export reads the whole topic to infer it.

    Raises
    ------
    InvalidOptionError
        An invalid column, time or choice, or a folder with other contents.
    ExportFolderError
        The folder cannot be written, or another export is writing to it, or an import reads it.
    NotFoundError
        The bucket has no ledger of the topic any more.
    MissingLedgerError
        The topic lacks ledgers, and ``on_corrupt`` is not "skip"; then nothing is written.
    LedgerfsError
        A scan failed. Finished files stay, and the next export continues after them.

    """
    folder = local_path(target, "target")
    if kind not in TABLE_KINDS:
        raise InvalidOptionError(f"expected one of {', '.join(TABLE_KINDS)}", key=f"kind={kind!r}")
    with locked(folder):
        catalog = topic.bucket.refresh()
        if not any(map(catalog.has, topic.managed_ledgers)):
            # The topic was deleted since its lookup: another lookup raises the right error.
            topic = topic.bucket.topic(topic.name)
        return export_listed(
            topic, folder, kind, overwrite=overwrite, progress=progress, columns=columns, options=options, **keywords
        )


def export_listed(
    topic: Topic,
    path: Path,
    kind: str,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    columns: Sequence[str] | None = None,
    options: ScanOptions | None = None,
    **keywords: Unpack[ScanKeywords],
) -> ExportReport:
    """Export as `export_topic`; the caller must lock the folder, and then list the bucket."""
    wanted = ScanOptions.of(options, **keywords)
    wanted.require_of_parts()
    scan = topic.scan(columns, wanted)
    scan.require_all()
    parts = {_ending_of(part.topic) if topic.is_partitioned else "": part for part in scan.parts}
    contents = _contents_of(topic, scan, kind)
    ledgers = [one for ending, part in parts.items() for one in _ledgers_of(scan, part, ending)]
    versions = {one.name: one.ref.version for one in ledgers}
    with ExportFolder(path, contents, TABLE_KINDS[kind], versions, overwrite=overwrite) as folder:
        export = _Export(ExportReport(topic.name, missing=scan.missing), folder, kind, progress or (lambda *_: None))
        missing = {(one.ledger_id, ending): one for ending, part in parts.items() for one in part.missing}
        due = export.due(ledgers)
        export.check_gone(missing, is_trimmed=topic.bucket.source.may_trim)
        # A ledger with an unknown id cannot have a file.
        lacking = (f"{one.known_id}{ending}" for (_, ending), one in missing.items() if one.known_id is not None)
        folder.await_files([*(one.name for one in due), *lacking])
        for ledger in due:
            try:
                export.make(ledger)
            except (AccessDeniedError, StoreError) as error:
                if not any(part.skips_refused for part in scan.parts) or isinstance(error, StoreUnreachableError):
                    raise
                export.report.skipped.append(Skipped(ledger.ref.ledger_id, 0, ledger.ref.last_entry, str(error)))
    return export.report


@dataclass(frozen=True, slots=True)
class _Ledger:
    """A ledger to export.

    Attributes
    ----------
    name, ending
        Name of its file without the suffix, and the part of that name with the partition.
    position, scan
        Its position among the ledgers of its topic or partition, and a scan of all these ledgers.

    """

    name: str
    ending: str
    ref: LedgerRef
    position: int
    scan: Scan


def _ledgers_of(scan: Scan, part: TopicPart, ending: str) -> list[_Ledger]:
    refs = [ledger.ref for ledger in part.ledgers]
    # Write no file for a ledger with refused parts: the next run would treat the file as complete.
    known = replace(scan, parts=(replace(part, limits=LedgerTimes.of_refs(refs), skips_refused=False),))
    return [_Ledger(f"{ref.ledger_id}{ending}", ending, ref, place, known) for place, ref in enumerate(refs)]


def _ending_of(partition: str) -> str:
    """Return the part of file names with the partition."""
    return f"-partition-{split_partition(partition)[1]}"


class _Export:
    """One run of an export."""

    def __init__(self, report: ExportReport, folder: ExportFolder, kind: str, progress: Progress) -> None:
        self.report = report
        self._folder = folder
        self._kind = kind
        self._progress = progress
        self._read = self._to_read = 0
        # {ending: ids of the ledgers, ascending, and the runs that first found their current versions}
        self._listed: dict[str, tuple[Int64, Int64]] = {}

    def due(self, ledgers: Sequence[_Ledger]) -> list[_Ledger]:
        """Return the ledgers whose files must be written."""
        found: list[_Ledger] = []
        for ending, group in groupby(ledgers, lambda one: one.ending):
            some = list(group)
            ids = np.array([one.ref.ledger_id for one in some])
            since = np.array([self._folder.since(one.name, one.ref) for one in some])
            self._listed[ending] = ids, since
            found += [one for one in some if not self._stays(one)]
        self._to_read = sum(one.ref.length for one in found)
        return found

    def _stays(self, one: _Ledger) -> bool:
        """Whether the file of a ledger stays."""
        known = self._folder.ledgers.get(one.name)
        if known is None:
            return False
        is_changed = not known.is_of(one.ref) or self._is_stale(one.ending, known)
        if is_changed or not self._folder.has_file(one.name):
            lost = known.lost_by_another(one.ref, self._listed[one.ending][0])
            if lost is None:
                return False
            state = "may lack rows" if is_changed else "is missing or was changed"
            self._hold(one.ref.ledger_id, f"its file {state}, but is not written again: a new file would lack {lost}")
        elif known.is_open:
            self._folder.note_end(one.name, one.ref)
        self.report.kept += known.rows > 0
        self._count_before(known)
        return True

    def _is_stale(self, ending: str, known: Exported) -> bool:
        """Whether a ledger that the rows of a file depend on was added or replaced since the file was written."""
        ids, since = self._listed.get(ending, _NONE)
        return known.basis.latest(ids, since) > known.made

    def check_gone(self, missing: Mapping[tuple[int, str], MissingLedger], *, is_trimmed: bool) -> None:
        """Report unlisted ledgers whose files may lack rows or have outdated ones; ``missing`` is by id and ending."""
        folder = self._folder
        listed = {f"{one}{ending}" for ending, (ids, _) in self._listed.items() for one in ids.tolist()}
        unclear = {key for key, one in missing.items() if one.is_unclear}
        for name in sorted({*folder.ledgers, *folder.awaited, *folder.unrecorded()} - listed, key=parsed_name):
            key, known = parsed_name(name), folder.ledgers.get(name)
            if key in unclear or (UNKNOWN, key[1]) in unclear:
                continue
            if known is not None:
                self._count_before(known)
                is_last = is_trimmed and key[0] == folder.ends.get(key[1])
                reason = self._reason_of_gone(name, key[1], known, is_last=is_last)
            elif name not in folder.awaited:
                reason = "its file is not in the record of an export, and the ledger was deleted"
            else:
                reason = None if key in missing else "an earlier export found it but wrote no file, and it was deleted"
            if reason is not None:
                self._hold(key[0], reason)

    def _reason_of_gone(self, name: str, ending: str, known: Exported, *, is_last: bool) -> str | None:
        """Return why the file of a deleted ledger may lack rows or have wrong ones; None if it is right."""
        if not self._folder.has_file(name):
            return "its file is missing or was changed, and the ledger was deleted"
        if known.is_open:
            return f"it was still open when it was exported up to entry {known.last_entry}, and was deleted: {_UNSEEN}"
        if known.is_unfinished:
            return f"it had open transactions or incomplete chunked messages, and was deleted: {_UNSEEN}"
        if not known.basis.is_by_times and self._is_stale(ending, known):
            return (
                "it was deleted, and a ledger was added since that may change its rows: its file is not written again"
            )
        return f"it was the last ledger of an earlier export, and was deleted: {_UNSEEN}" if is_last else None

    def _hold(self, ledger_id: int, reason: str) -> None:
        self.report.held.append(Held(ledger_id, reason))

    def _count_before(self, known: Exported) -> None:
        """Add the omissions of a kept file to the report."""
        self.report.skipped_before += known.skipped
        self.report.undecodable_before += known.undecodable
        self.report.unnamed_before += known.unnamed

    def make(self, ledger: _Ledger) -> None:
        """Export one ledger."""
        read_before = self._read
        report = ScanReport()
        (part,) = ledger.scan.parts
        part = replace(part, reach=Reach.of(range(ledger.position, ledger.position + 1)))
        scan = replace(ledger.scan, parts=(part,), on_read=self._report_read)
        rows, size = self._write(ledger.name, scan, report)
        skipped = sum(one.last_entry - one.first_entry + 1 for one in report.skipped)
        ref, since = ledger.ref, self._folder.since(ledger.name, ledger.ref)
        undecodable, unnamed = counts_of(report.undecodable)
        exported = Exported(
            ref.version, since, self._folder.run, rows, size, ref.last_entry, ref.is_open, report.basis, skipped, undecodable, unnamed
        )  # fmt: skip
        self._folder.record(ledger.name, exported)
        self.report.skipped += report.skipped
        self.report.incomplete += report.incomplete
        for one in report.undecodable:
            add_undecodable(self.report.undecodable, one)
        self._report_read(read_before + ref.length - self._read)

    def _write(self, name: str, scan: Scan, report: ScanReport) -> tuple[int, int]:
        """Write the file of a ledger if it has messages; return their number, and the size of the file in bytes."""
        batches = scan.batches(report)
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
        """Report ``size`` more read bytes."""
        self._read += size
        self._progress(self.report.topic, self._read, self._to_read)


def _contents_of(topic: Topic, scan: Scan, kind: str) -> dict[str, Any]:
    """Return the options that determine the contents of the files, as JSON values; only the names of keys."""
    return {
        "bucket": reported_bucket(topic.bucket),
        "topic": topic.name,
        "layout": topic.bucket.layout,
        # A topic with the same name but without partitions has other files.
        **({"partitions": "all"} if topic.is_partitioned else {}),
        "format": kind,
        "columns": list(asked_columns(scan.options)),
        **scan.options.described,
        **({} if scan.values is None else {**scan.values.described, "fields": reported_fields(scan.values.type)}),
    }

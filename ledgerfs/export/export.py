"""Exporting a topic to a folder: one file for each ledger, whole or not there, and nothing is done twice.

The partitions of a partitioned topic share the folder. Each has ledgers and transactions of its own, and two may have ledgers of the same
id if two clusters share the bucket; so the partition is in the files' names.

Each ledger is a scan of its own, which also reads parts of the ledgers around it: a chunked message belongs to the ledger of its last
chunk. A ledger whose messages may still change is exported again when a ledger that it depends on has changed
(`ledgerfs.catalog.row_dependencies`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ledgerfs.bucket.topic import Topic
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.ledger_times import LedgerTimes
from ledgerfs.catalog.missing_ledgers import MissingLedger
from ledgerfs.catalog.row_dependencies import TopicState
from ledgerfs.catalog.time_arguments import CLOCK_SLACK_MS, Moment
from ledgerfs.errors import AccessDeniedError, InvalidOptionError, StoreError, StoreUnreachableError
from ledgerfs.export.folder import Ahead, Exported, ExportFolder, Unseen, further_name
from ledgerfs.export.folder_lock import locked
from ledgerfs.export.identity import told_bucket, told_fields
from ledgerfs.formats.local_paths import LocalPath, local_path
from ledgerfs.formats.topic_names import split_partition
from ledgerfs.messages.codecs.size_limits import DEFAULT_MAX_MESSAGE_BYTES
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.messages.decode.undecodable import Undecodable, add_undecodable, counts_of
from ledgerfs.scan.options import (
    OnCorrupt,
    OnEncrypted,
    OnUndecodable,
    PrivateKeys,
    ScanOptions,
    Values,
    require_of_parts,
)
from ledgerfs.scan.partitioned_scan import PartitionedScan
from ledgerfs.scan.scan import Scan
from ledgerfs.scan.topic_entries import Place, Reach
from ledgerfs.tables.table_files import TABLE_KINDS, write_table

if TYPE_CHECKING:
    import pyarrow as pa

    from ledgerfs.formats.schemas.schema_info import SchemaInfo


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
        Ids of ledgers whose files are kept although ledgers that they depend on have changed: others that some of their rows came from are
        not in the bucket any more, so these rows could not be made again. A file whose own ledger was replaced by
        another one is made again. What a ledger of a living cluster grew by since is in another file.
    lacking
        Those of them that may lack messages: their transactions had no outcome, or they no last part, when the files were made.
    unseen
        What may have come behind all that was exported of ledgers that are gone.
    ahead
        Ledgers of a living cluster of which more was exported before than is listed now; their files are kept.

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
    held: list[int] = field(default_factory=list)
    lacking: list[int] = field(default_factory=list)
    unseen: list[Unseen] = field(default_factory=list)
    ahead: list[Ahead] = field(default_factory=list)


def export_topic(
    topic: Topic,
    target: LocalPath,
    kind: str,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    columns: Sequence[str] | None = None,
    start_time: Moment = None,
    end_time: Moment = None,
    clock_slack_ms: int = CLOCK_SLACK_MS,
    transactions: Literal["committed", "all"] = "committed",
    on_corrupt: OnCorrupt = "raise",
    private_keys: PrivateKeys | None = None,
    on_encrypted: OnEncrypted = "raise",
    include_markers: bool = False,
    check_checksums: bool = True,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    values: Values = "bytes",
    schema_version: "int | str | SchemaInfo | dict[str, Any] | pa.DataType | pa.Schema" = "latest",
    flatten: bool = False,
    on_undecodable: OnUndecodable = "raise",
) -> ExportReport:
    """Write each ledger of a topic that has messages to ``<ledgerId>.<kind>`` in a folder, unless it is there already.

    Files of a partitioned topic are ``<ledgerId>-partition-<number>.<kind>``. ``<ledgerId>_from_<entry>.<kind>`` has what a ledger of a
    living cluster grew by, where its first file could not be made again.

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
    columns, start_time, end_time, clock_slack_ms, on_corrupt, include_markers, check_checksums, max_message_bytes
        As in `Topic.scan`.
    private_keys, on_encrypted
        As in `Topic.scan`.
    transactions
        As in `Topic.scan`, except ``readable``, which is not known for a single ledger.
    values, schema_version, flatten, on_undecodable
        As in `Topic.scan`. A folder is of the schemas that were known when it was begun: with others it is another export. So is one of
        ``values="json"`` when ledgers that came since have changed the type of all; each export reads the topic for that type.

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
        return export_listed(
            topic, folder, kind, overwrite=overwrite, progress=progress, columns=columns, start_time=start_time, end_time=end_time,
            clock_slack_ms=clock_slack_ms, transactions=transactions, on_corrupt=on_corrupt, private_keys=private_keys,
            on_encrypted=on_encrypted, include_markers=include_markers, check_checksums=check_checksums,
            max_message_bytes=max_message_bytes, values=values, schema_version=schema_version, flatten=flatten,
            on_undecodable=on_undecodable,
        )  # fmt: skip


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
        whole, ledgers = (
            replace(scan.whole, skips_refused=any(part.skips_refused for part in scan.partitions)),
            [one for part in scan.partitions for one in _ledgers_of(part, _ending_of(part.topic))],
        )
    else:
        whole, ledgers = scan, _ledgers_of(scan)
    contents = _contents_of(topic, whole, kind, options.get("private_keys") or ())
    versions = {one.name: one.ref.version for one in ledgers}
    with ExportFolder(path, contents, TABLE_KINDS[kind], versions, overwrite=overwrite) as folder:
        unclear = _unclear(scan.missing, is_of_partitions=isinstance(scan, PartitionedScan))
        unseen = folder.unseen(unclear, is_living=topic.bucket.source.may_trim)
        export = _Export(
            ExportReport(topic.name, missing=scan.missing, unseen=unseen), folder, kind, progress or (lambda *_: None)
        )
        for ledger in export.unfinished(ledgers):
            try:
                export.make(ledger)
            except (AccessDeniedError, StoreError) as error:
                if not whole.skips_refused or isinstance(error, StoreUnreachableError):
                    raise
                export.report.skipped.append(
                    Skipped(ledger.ref.ledger_id, ledger.first, ledger.ref.last_entry, str(error))
                )
    return export.report


@dataclass(frozen=True, slots=True)
class _Ledger:
    """A ledger to export, or what it has from an entry on.

    Attributes
    ----------
    name
        Of its file, without the suffix.
    first
        The first entry of the file.
    position, scan, topic
        Its position among the ledgers of its topic or partition; a scan of all these, and their state.

    """

    name: str
    ref: LedgerRef
    position: int
    scan: Scan
    topic: TopicState
    first: int = 0

    @property
    def length(self) -> int:
        """About how many bytes of entries there are."""
        return self.ref.length * (self.ref.last_entry + 1 - self.first) // max(1, self.ref.entries)


def _ledgers_of(scan: Scan, ending: str = "") -> list[_Ledger]:
    refs = [ledger.ref for ledger in scan.ledgers]
    # A file without the refused part of its ledger would count as whole in the next run: such a ledger gets no file.
    known = replace(scan, limits=LedgerTimes.of_refs(refs), skips_refused=False)
    topic = TopicState(refs)
    return [_Ledger(f"{ref.ledger_id}{ending}", ref, place, known, topic) for place, ref in enumerate(refs)]


def _ending_of(partition: str) -> str:
    """Return the ending of a partition's file names."""
    return f"-partition-{split_partition(partition)[1]}"


def _unclear(missing: Iterable[MissingLedger], *, is_of_partitions: bool) -> set[tuple[int, str]]:
    """Return id and ending of the ledgers that nobody can say to be gone."""
    found = (one for one in missing if one.is_unclear)
    return {(one.ledger_id, _ending_of(one.topic) if is_of_partitions else "") for one in found}


class _Export:
    """One run of an export."""

    def __init__(self, report: ExportReport, folder: ExportFolder, kind: str, progress: Progress) -> None:
        self.report = report
        self._folder = folder
        self._kind = kind
        self._progress = progress
        self._read = self._to_read = 0

    def unfinished(self, ledgers: Sequence[_Ledger]) -> list[_Ledger]:
        """Return the ledgers that are to be exported, or what they have behind files that stay."""
        found = [left for one in ledgers if (left := self._left_of(one)) is not None]
        self._to_read = sum(one.length for one in found)
        return found

    def _left_of(self, one: _Ledger) -> _Ledger | None:
        """Count the files of a ledger that stay; return what is left of it to be exported, None for nothing."""
        while True:
            judged = self._folder.judge(one.name, one.ref, one.topic)
            if judged.known is None or not judged.stays:
                return one
            self._folder.note_end(one.name, one.ref)
            self.report.kept += judged.known.rows > 0
            self.report.skipped_before += judged.known.skipped
            self.report.undecodable_before += judged.known.undecodable
            self.report.unnamed_before += judged.known.unnamed
            for told, is_so in ((self.report.held, judged.is_held), (self.report.lacking, judged.may_lack)):
                if is_so and told[-1:] != [one.ref.ledger_id]:
                    told.append(one.ref.ledger_id)
            if judged.is_ahead and not (self.report.ahead and self.report.ahead[-1].ledger_id == one.ref.ledger_id):
                self.report.ahead.append(Ahead(one.ref.ledger_id, one.ref.last_entry, is_closed=not one.ref.is_open))
            if judged.goes_on_at is None:
                return None
            one = replace(one, name=further_name(one.name, judged.goes_on_at), first=judged.goes_on_at)

    def make(self, ledger: _Ledger) -> None:
        """Export one ledger."""
        read_before = self._read
        part = Reach(Place(ledger.position, ledger.first), Place(ledger.position + 1, 0))
        scan = replace(ledger.scan, part=part, on_read=self._tell)
        rows, size = self._write(ledger.name, scan)
        skipped = sum(one.last_entry - one.first_entry + 1 for one in scan.skipped)
        ref, state = ledger.ref, ledger.topic.of(scan.basis)
        claims = (ref.last_entry, ref.length, ref.created_ms)
        values = counts_of(scan.undecodable)
        exported = Exported(ref.version, rows, size, skipped, scan.basis, state, *claims, *values, is_open=ref.is_open)
        self._folder.record(ledger.name, exported)
        self.report.skipped += scan.skipped
        self.report.incomplete += scan.incomplete
        for one in scan.undecodable:
            add_undecodable(self.report.undecodable, one)
        self._tell(read_before + ledger.length - self._read)

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

    def _tell(self, size: int) -> None:
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

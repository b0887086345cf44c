"""A topic exported to a folder: one file a ledger, each whole or not there, and nothing done twice.

Each ledger is a scan of its own, which asks the ledgers around it for what belongs to its messages: a chunked message is in the ledger of
its last part. A ledger whose messages may still change is exported anew when one of the ledgers has that it depends on
(`ledgerfs.ledgers.finality`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import InvalidOptionError
from ledgerfs.export.contents import told_bucket
from ledgerfs.export.folder import Exported, ExportFolder
from ledgerfs.formats.local_paths import LocalPath, local_path
from ledgerfs.ledgers.dialect import Progress
from ledgerfs.ledgers.finality import TopicState, version_of
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.ledger_times import LedgerTimes
from ledgerfs.ledgers.missing_ledgers import MissingLedger
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.scan.options import require_of_parts
from ledgerfs.scan.scan import Scan
from ledgerfs.scan.topic_entries import Reach
from ledgerfs.tables.table_files import TABLE_KINDS, write_table


@dataclass(slots=True)
class ExportReport:
    """What an export did.

    Attributes
    ----------
    topic
        The topic's name.
    written, kept
        Files made now, and files of earlier exports that are still right.
    rows, size
        Messages and bytes in the files made now.
    skipped, incomplete
        What was left out now with ``on_corrupt="skip"``, and chunked messages of which parts are missing.
    skipped_before
        Damaged entries that were left out of the files kept.
    missing
        Ledgers of the topic that the bucket cannot deliver, of which there are no files.
    held
        Ids of the ledgers whose files are kept although others have changed that they depend on: further ones, without which rows in them
        could not be made again, are not in the bucket any more.

    """

    topic: str
    written: int = 0
    kept: int = 0
    rows: int = 0
    size: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    incomplete: list[Incomplete] = field(default_factory=list)
    skipped_before: int = 0
    missing: Sequence[MissingLedger] = ()
    held: list[int] = field(default_factory=list)


def export_topic(
    topic: Topic,
    target: LocalPath,
    kind: str,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,  # noqa: ANN401  (those of Topic.scan)
) -> ExportReport:
    """Write each ledger of a topic that has messages to ``<ledgerId>.<kind>`` in a folder, unless it is there already.

    Parameters
    ----------
    topic
        What to export.
    target
        A folder of this machine, which is made. One folder holds one topic with the same options.
    kind
        One of `TABLE_KINDS`.
    overwrite
        Remove what an export with other options left in the folder, instead of raising.
    progress
        Called with the topic's name, and how many bytes of how many have been read.
    options
        Those of `Topic.scan`: columns, times, transactions, private keys, what to do about damage and encryption.

    Raises
    ------
    InvalidOptionError
        An option that is none, or a folder that holds something else.
    ExportFolderError
        The folder cannot be written, or another export is writing to it.
    MissingLedgerError
        The topic lacks ledgers, and ``on_corrupt`` is not "skip": nothing is written then.
    LedgerfsError
        What a scan raises. Files that are finished then stay, and the next export goes on behind them.

    """
    folder_path = local_path(target, "target")
    if kind not in TABLE_KINDS:
        raise InvalidOptionError(f"one of {', '.join(TABLE_KINDS)}", key=f"kind={kind!r}")
    require_of_parts(options)
    scan = topic.scan(**options)
    scan.require_all()
    contents = _contents_of(topic.bucket, scan, kind, options.get("private_keys") or ())
    versions = {str(ledger.ref.ledger_id): version_of(ledger.ref) for ledger in scan.ledgers}
    with ExportFolder(folder_path, contents, TABLE_KINDS[kind], versions, overwrite=overwrite) as folder:
        export = _Export(scan, folder, kind, progress or (lambda *_: None))
        for position in export.unfinished():
            export.make(position)
    return export.report


class _Export:
    """The work of one export."""

    def __init__(self, scan: Scan, folder: ExportFolder, kind: str, progress: Progress) -> None:
        self.report = ExportReport(scan.topic, missing=scan.missing)
        self._refs = [ledger.ref for ledger in scan.ledgers]
        self._scan = replace(scan, limits=LedgerTimes.of_refs(self._refs))
        self._topic = TopicState(self._refs)
        self._folder = folder
        self._kind = kind
        self._progress = progress
        self._read = self._to_read = 0

    def unfinished(self) -> list[int]:
        """Return the positions of the ledgers to export."""
        found = []
        for position, ref in enumerate(self._refs):
            judged = self._folder.judge(ref, self._topic)
            if judged.known is None or not judged.stays:
                found.append(position)
                self._to_read += ref.length
                continue
            self.report.kept += judged.known.rows > 0
            self.report.skipped_before += judged.known.skipped
            if judged.is_held:
                self.report.held.append(ref.ledger_id)
        return found

    def make(self, position: int) -> None:
        """Export one ledger."""
        ref = self._refs[position]
        read_before = self._read
        scan = replace(self._scan, part=Reach.of(range(position, position + 1)), on_read=self._tell)
        rows, size = self._write(ref, scan)
        skipped = sum(one.last_entry - one.first_entry + 1 for one in scan.skipped)
        exported = Exported(version_of(ref), rows, size, skipped, scan.basis, self._topic.of(scan.basis))
        self._folder.record(ref, exported)
        self.report.skipped += scan.skipped
        self.report.incomplete += scan.incomplete
        self._tell(read_before + ref.length - self._read)

    def _write(self, ref: LedgerRef, scan: Scan) -> tuple[int, int]:
        """Write the file of a ledger, if it has messages; return how many, and the bytes of the file."""
        batches = iter(scan)
        first = next(batches, None)
        if first is None:
            return 0, 0
        with self._folder.writing(ref) as file:
            rows = write_table(chain([first], batches), scan.schema, file, self._kind)
            size = file.tell()
        self.report.written += 1
        self.report.rows += rows
        self.report.size += size
        return rows, size

    def _tell(self, size: int) -> None:
        """Tell that so many bytes more are read."""
        self._read += size
        self._progress(self._scan.topic, self._read, self._to_read)


def _contents_of(bucket: Bucket, scan: Scan, kind: str, private_keys: Iterable[str]) -> dict[str, Any]:
    """Return what decides about the contents of the files, as values that JSON knows; of keys their names."""
    options = asdict(scan.options) | {"columns": scan.schema.names, "transactions": scan.transactions}
    return {
        "bucket": told_bucket(bucket),
        "topic": scan.topic,
        "format": kind,
        **options,
        "clock_slack_ms": scan.clock_slack_ms,
        "private_keys": sorted(private_keys),
    }

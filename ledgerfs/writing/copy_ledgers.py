"""Copy the ledgers of a bucket, or of some of its topics, into another one, with their saved schemas, and return a report."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import BucketOrUrl, bucket_at
from ledgerfs.bucket.wanted_topics import wanted_names
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_findings import check_unlisted
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.missing_ledgers import GapKind, MissingLedger
from ledgerfs.errors import (
    BucketNotFoundError,
    IncompleteCopyError,
    InvalidOptionError,
    SchemaConflictError,
)
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.formats.topic_names import schema_topic, topic_of
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.storage.failures import is_refusal
from ledgerfs.writing.bucket_copy import CopiedLedger, CopyOptions, CopyOutcome, copy_rows, rows_to_copy
from ledgerfs.writing.claims import IfExists
from ledgerfs.writing.own_ids import new_own_id

_NO_LEDGERS = frozenset({"unreadable-index", "index-without-data", "data-without-index"})

OnLedger = Callable[[CopiedLedger], None]


@dataclass(slots=True)
class CopyReport:
    """The outcome of copying.

    Attributes
    ----------
    copied, skipped
        How many ledgers were copied now, and how many the target already had.
    planned
        How many would be copied, in a dry run.
    size
        Bytes of the entries of these.
    schemas
        How many saved schemas were copied, or would be.
    failed
        Ledgers that are not in the target, with the reason.
    missing
        Findings about ledgers of the source that cannot be copied, because they are unreadable or still being written.

    """

    copied: int = 0
    skipped: int = 0
    planned: int = 0
    schemas: int = 0
    size: int = 0
    failed: list[CopiedLedger] = field(default_factory=list)
    missing: list[Finding] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the target has all requested ledgers."""
        return not (self.failed or self.missing)

    @property
    def is_refused(self) -> bool:
        """Whether stores refused access to all that is not copied: then no damage is known."""
        errors = (one.error for one in self.failed)
        are_refused = all(error is not None and is_refusal(error) for error in errors)
        return are_refused and all(one.severity is Severity.UNCHECKED for one in self.missing)

    def require_complete(self) -> None:
        """Raise `IncompleteCopyError` unless the target has all of them."""
        if self.is_complete:
            return
        whole = self.copied + self.skipped + self.planned
        short = len(self.failed) + len(self.missing)
        first = str(self.failed[0].error) if self.failed else f"{self.missing[0].key}: {self.missing[0].message}"
        error = IncompleteCopyError(f"{short:,} of {whole + short:,} ledgers are not copied; the first one: {first}")
        error.report = self
        raise error


def copy_ledgers(
    source: BucketOrUrl,
    target: BucketOrUrl,
    *,
    topics: Sequence[str] | str | None = None,
    block_size: int | None = None,
    if_exists: IfExists | str = IfExists.SKIP,
    new_uuid: bool = False,
    unbatch: bool = False,
    compression: str | None = None,
    ledger_id: int | None = None,
    check: bool = True,
    dry_run: bool = False,
    allow_incomplete: bool = False,
    catalog: Catalog | None = None,
    on_ledger: OnLedger | None = None,
    progress: Progress | None = None,
) -> CopyReport:
    """Copy the ledgers of a bucket into another bucket or folder, and read the copies back; leave existing ledgers alone.

    A broker can serve from the copy: ledgers keep their names, and are the same byte for byte unless an option changes them. An interrupted
    copy resumes when it is started again. Schemas of the topics that are saved in the source are copied first.

    Parameters
    ----------
    source, target
        Buckets, or their URLs.
    topics
        Names, or one name; that of a partitioned topic means all its partitions. None for all topics.
    block_size
        Of the copies, bytes; None for that of each ledger.
    if_exists
        Action for a ledger of which the target has another copy: "skip", "fail" or "new-copy".
    new_uuid
        Use new uuids for copies: brokers do not find them.
    unbatch
        Make an entry of each message, in ledgers with new ids. Skips copies that an earlier call made of the same ledgers; fails on ledgers
        that the target has under their own ids, since their messages would be there twice.
    compression
        With ``unbatch``, the codec of messages that were in batches: "none" (as None), "lz4", "zlib", "zstd" or "snappy".
    ledger_id
        With ``unbatch``, the id of the first copy, which the others' follow; None for ids that no cluster generates.
    check
        Whether to read back copies.
    dry_run
        Write nothing, and report the ledgers to copy; entries are not read.
    allow_incomplete
        Whether to return the report even if ledgers could not be copied, instead of raising at the end.
    catalog
        The catalog of the source if it was just listed; None to list it now.
    on_ledger
        Called with the outcome of each ledger, as soon as it is known.
    progress
        Called with the progress of the listing, then with the bytes copied and the bytes to copy.

    Raises
    ------
    IncompleteCopyError
        At the end, after everything else was copied: ledgers are damaged, missing, contradictory or still being written, or the target has
        other ledgers of their ids, or their messages under other ids.
    NotFoundError, InvalidNameError, InvalidOptionError, SchemaConflictError
        A topic that the source does not have; an invalid name or option; the target has another schema of the same number. Nothing is
        written in these cases.
    StoreUnreachableError, AccessDeniedError, StoreError
        A bucket cannot be listed; `StoreUnreachableError` also later.

    """
    source, target = bucket_at(source), bucket_at(target)
    catalog = source.refresh(progress) if catalog is None else catalog
    managed_ledgers = None
    if topics is not None:
        managed_ledgers = sorted(wanted_names(catalog, topics), key=lambda name: name or "")
    options = CopyOptions(block_size, IfExists.of(if_exists), new_uuid, None, ledger_id, check, dry_run)
    if unbatch:
        # This imports numba, which other copies do not need.
        from ledgerfs.messages.transforms import unbatch as splitting

        first_id = new_own_id([catalog], managed_ledgers) if ledger_id is None else ledger_id
        options = replace(options, transform=splitting.unbatch(compression or "none"), first_ledger_id=first_id)
    elif (ledger_id, compression) != (None, None):
        reason = "need unbatch: other copies keep their entries and ledger ids"
        raise InvalidOptionError(reason, key=f"ledger_id={ledger_id!r}, compression={compression!r}")
    schemas = schemas_to_copy(source, target, catalog.known_names if managed_ledgers is None else managed_ledgers)
    if not dry_run:
        target.raw_store.writes.make_folder()
        for topic, versions in schemas.items():
            SavedSchemas(target.raw_store).add(topic, versions)
    report = _copied(source, catalog, managed_ledgers, target, options, on_ledger=on_ledger, progress=progress)
    report.schemas = sum(map(len, schemas.values()))
    if not allow_incomplete:
        report.require_complete()
    return report


def _copied(
    source: Bucket,
    catalog: Catalog,
    managed_ledgers: Sequence[str | None] | None,
    target: Bucket,
    options: CopyOptions,
    *,
    on_ledger: OnLedger | None,
    progress: Progress | None,
) -> CopyReport:
    is_named_anew = options.new_uuid or options.first_ledger_id is not None
    rows = rows_to_copy(catalog, managed_ledgers, all_copies=not is_named_anew)
    report = CopyReport()
    for one in copy_rows(source, target, rows, options, progress, catalog=catalog):
        report.copied += one.outcome is CopyOutcome.COPIED
        report.planned += one.outcome is CopyOutcome.PLANNED
        if one.outcome in {CopyOutcome.COPIED, CopyOutcome.PLANNED}:
            report.size += one.source.length
        elif one.outcome is CopyOutcome.SKIPPED:
            report.skipped += 1
        else:
            report.failed.append(one)
        if on_ledger is not None:
            on_ledger(one)
    report.missing = list(_no_ledgers(source, catalog, managed_ledgers))
    source.warn_of_unplaced(managed_ledgers or (), catalog)
    return report


def _no_ledgers(source: Bucket, catalog: Catalog, managed_ledgers: Sequence[str | None] | None) -> Iterator[Finding]:
    """Yield findings about ledgers without a whole copy, also those still being written; ``managed_ledgers`` selects topics."""
    if managed_ledgers is None:
        yield from check_unlisted(catalog)
    # None stands for ledgers of unknown topic, which a choice of topics excludes.
    wanted = {*catalog.names, None} if managed_ledgers is None else {*managed_ledgers} - {None}
    # Copies that contradict each other fail when they are copied.
    missing = {
        one.key: one
        for name in sorted(wanted, key=lambda name: name or "")
        for one in catalog.absent_of(name)
        if one.kind is not GapKind.CONTRADICTED
    }
    topics = {topic_of(name) for name in managed_ledgers or []}
    for finding in source.source.check_catalog(catalog, source.reader):
        is_wanted = managed_ledgers is None or finding.topic in topics or finding.key in missing
        if finding.kind in _NO_LEDGERS and finding.severity is not Severity.REMARK and is_wanted:
            known = missing.pop(finding.key or "", None)
            yield finding if known is None else replace(finding, topic=_known_topic(known) or finding.topic)
    for one in missing.values():
        severity = Severity.DAMAGE if one.refusal is None else Severity.UNCHECKED
        yield Finding(severity, "missing-ledger", one.why, one.key, None, one.known_id, _known_topic(one))


def _known_topic(one: MissingLedger) -> str | None:
    return None if one.topic == topic_of(None) else one.topic


def schemas_to_copy(
    source: Bucket, target: Bucket, managed_ledgers: Iterable[str | None]
) -> dict[str, Sequence[SchemaVersion]]:
    """Return {topic: versions that the target lacks} for the topics of some managed ledgers; changes nothing.

    Raises `SchemaConflictError`, which names both, if the target has another schema of the same number, and the errors of reading either.
    Sources other than buckets have no saved schemas.
    """
    if not source.has_objects:
        return {}
    here, there = SavedSchemas(source.raw_store), SavedSchemas(target.raw_store)
    owners = set(map(schema_topic, managed_ledgers))
    found: dict[str, Sequence[SchemaVersion]] = {}
    for topic, versions in here.all_versions().items():
        known = _versions_in(there, topic) if topic in owners else ()
        missing = [one for one in versions if one not in known]
        for one in missing:
            others = [other for other in known if other.version == one.version and not other.is_deletion]
            is_known = any(other.schema.means_the_same(one.schema) for other in others)
            if others and not (is_known or one.is_deletion):
                raise SchemaConflictError(
                    f"schema version {one.version} is of type {one.schema.type} in {here.source}, and another one, of type "
                    f"{others[0].schema.type}, in {there.source}; remove one of the two, or copy into another bucket",
                    key=topic,
                )
        if missing and topic in owners:
            found[topic] = missing
    return found


def _versions_in(saved: SavedSchemas, topic: str) -> tuple[SchemaVersion, ...]:
    """Return the saved versions of a topic; none if the bucket does not exist yet."""
    try:
        return saved.versions(topic)
    except BucketNotFoundError:
        return ()

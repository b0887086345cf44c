"""The request for an export, checked before anything is read, and what is left to do of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES, PartitionPlan, plan_partitions, within
from ledgerfs.bucket.wanted_topics import wanted_ledgers
from ledgerfs.errors import InvalidOptionError
from ledgerfs.export.identity import told_bucket
from ledgerfs.ledgers.dialects_known import AUTO
from ledgerfs.ledgers.missing_ledgers import MissingLedger
from ledgerfs.scan.options import require_of_parts
from ledgerfs.scan.scan import Scan, make_scan
from ledgerfs.spark.lake.layout import LakeLayout
from ledgerfs.spark.lake.state import LedgerIds, Unit, Work, what_is_new
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source.planning import look_for_missing
from ledgerfs.tables.table_files import TABLE_KINDS


@dataclass(frozen=True, slots=True, repr=False)
class ExportRequest:
    """What is exported and how. Its repr shows nothing, since it may have keys.

    Attributes
    ----------
    format
        One of `TABLE_KINDS`.
    partition_by
        Columns that folders are named by (`PARTITION_COLUMNS`).
    topics, topics_pattern
        As in `wanted_ledgers`.
    partition_bytes
        About how many bytes a task reads.
    scan
        Arguments of `Topic.scan`.

    """

    format: str = "parquet"
    partition_by: tuple[str, ...] = ()
    topics: Sequence[str] | str | None = None
    topics_pattern: str | None = None
    partition_bytes: int = DEFAULT_PARTITION_BYTES
    scan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class CheckedRequest:
    """What the files of an export hold.

    Attributes
    ----------
    layout, columns, kind
        The folders, the columns of the files, and one of `TABLE_KINDS`.
    scan
        Arguments of `Topic.scan` without the columns; private keys are here themselves, not the names of files that workers do not have.
    probe
        A scan of nothing, made from the same arguments.
    described
        All options that decide the contents of the files, as JSON values; of keys their names.

    """

    layout: LakeLayout
    columns: tuple[str, ...]
    kind: str
    scan: Mapping[str, Any]
    probe: Scan
    described: Mapping[str, Any]

    @classmethod
    def of(cls, storage: Storage, request: ExportRequest) -> "CheckedRequest":
        """Check a request; raises `InvalidOptionError` for an invalid option, and `DecryptionError` for an invalid key."""
        if request.format not in TABLE_KINDS:
            raise InvalidOptionError(f"one of {', '.join(TABLE_KINDS)}", key=f"format={request.format!r}")
        layout = LakeLayout(request.partition_by)
        scan = dict(request.scan)
        keys = {name: _key(source) for name, source in (scan.pop("private_keys", None) or {}).items()}
        if keys:
            scan["private_keys"] = keys
        require_of_parts(scan)
        probe = make_scan("", (), **scan)
        columns = layout.columns_of_files(probe.schema.names)
        others = {name: value for name, value in scan.items() if name != "columns"}
        described = {
            "bucket": told_bucket(storage.bucket()),
            # Folders of earlier versions say nothing where all dialects were read.
            **({} if storage.dialect == AUTO else {"dialect": storage.dialect}),
            "format": request.format,
            "partition_by": request.partition_by,
            **asdict(probe.options),
            "columns": columns,
            "transactions": probe.transactions,
            "clock_slack_ms": probe.clock_slack_ms,
            "private_keys": sorted(keys),
        }
        return cls(layout, columns, request.format, others, probe, described)


@dataclass(frozen=True, slots=True)
class ToDo:
    """What is left to do of a request: which units stay and which go, the parts to read, all ledgers of the topics, and what they lack."""

    work: Work
    parts: PartitionPlan
    ledgers: LedgerIds
    missing: Sequence[MissingLedger]


def left_to_do(
    storage: Storage, request: ExportRequest, checked: CheckedRequest, units: Sequence[Unit], *, anew: bool
) -> ToDo:
    """List the bucket, and return what is left to do if some units are done; with ``anew`` everything.

    Raises `NotFoundError` (no such bucket or topic), `MissingLedgerError` (a topic lacks ledgers), `InvalidOptionError`,
    `AccessDeniedError`, `StoreError`.
    """
    # An older listing lacks the new ledgers that this export is for.
    bucket = storage.bucket()
    catalog = bucket.refresh()
    missing = look_for_missing(bucket, catalog, request.topics, request.topics_pattern, checked.scan)
    wanted = wanted_ledgers(catalog, request.topics, request.topics_pattern)
    ledgers = LedgerIds(catalog, wanted)
    work = Work(wanted, replaced=list(units)) if anew else what_is_new(ledgers, wanted, units)
    to_read = within(catalog, work.wanted, checked.probe.times)
    return ToDo(work, plan_partitions(catalog, to_read, request.partition_bytes), ledgers, missing)


def _key(source: object) -> object:
    """Return a private key's text: its file may be on this machine only."""
    return source.read_bytes() if isinstance(source, Path) else source

"""The request for an export, checked before anything is read, and what is left to do of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES, PartitionPlan, plan_partitions, within
from ledgerfs.bucket.wanted_topics import is_asked_for, wanted_ledgers
from ledgerfs.errors import InvalidOptionError
from ledgerfs.export.identity import told_bucket, told_fields
from ledgerfs.ledgers.missing_ledgers import MissingLedger
from ledgerfs.scan.options import of_bytes, require_choices, require_of_parts
from ledgerfs.scan.scan import Scan, make_scan
from ledgerfs.spark.lake.layout import LakeLayout
from ledgerfs.spark.lake.state import LedgerIds, Unit, Work, what_is_new
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source.planning import look_for_missing
from ledgerfs.spark.source.query_values import QueryValues, are_bytes, topics_to_read, values_of, with_topics
from ledgerfs.tables.table_files import TABLE_KINDS

_DIGITS = 16
"""So many of a digest tell schemas from others."""


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
    values
        How values are shown, and the schemas that they are decoded by.

    """

    layout: LakeLayout
    columns: tuple[str, ...]
    kind: str
    scan: Mapping[str, Any]
    probe: Scan
    described: Mapping[str, Any]
    values: QueryValues

    @classmethod
    def of(cls, storage: Storage, request: ExportRequest) -> "CheckedRequest":
        """Check a request; the bucket is listed if values are not bytes.

        Raises `InvalidOptionError` for an invalid option, `DecryptionError` for an invalid key, and as `values_of`.
        """
        if request.format not in TABLE_KINDS:
            raise InvalidOptionError(f"one of {', '.join(TABLE_KINDS)}", key=f"format={request.format!r}")
        layout = LakeLayout(request.partition_by)
        scan = dict(request.scan)
        keys = {name: _key(source) for name, source in (scan.pop("private_keys", None) or {}).items()}
        if keys:
            scan["private_keys"] = keys
        require_choices(scan)
        require_of_parts(scan)
        probe = make_scan("", (), **of_bytes(scan))
        columns = layout.columns_of_files(probe.schema.names)
        others = {name: value for name, value in scan.items() if name != "columns"}
        values = _values(storage, request, {**others, "columns": columns}).beside_folders(layout.partition_by)
        described = {
            "bucket": told_bucket(storage.bucket()),
            "dialect": storage.dialect,
            "format": request.format,
            "partition_by": request.partition_by,
            **asdict(probe.options),
            "columns": columns,
            "transactions": probe.transactions,
            "clock_slack_ms": probe.clock_slack_ms,
            "private_keys": sorted(keys),
            **_told_values(values, columns, scan),
        }
        asked = values.options_of_tasks(others)
        return cls(layout, columns, request.format, asked, probe, described, values)


@dataclass(frozen=True, slots=True)
class ToDo:
    """What is left to do of a request.

    That are which units stay and which go, the parts to read, the schemas for them, all ledgers of the topics, and what they lack.
    """

    work: Work
    parts: PartitionPlan
    ledgers: LedgerIds
    missing: Sequence[MissingLedger]
    values: QueryValues


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
    topics = topics_to_read(catalog, request.topics, request.topics_pattern)
    values = with_topics(checked.values, bucket, topics, checked.scan)
    schemas = {} if values.shown is None else _told_schemas(values, checked.scan)
    ledgers = LedgerIds(
        catalog, wanted, schemas, lambda name: is_asked_for(name, request.topics, request.topics_pattern)
    )
    work = Work(wanted, replaced=list(units)) if anew else what_is_new(ledgers, wanted, units)
    to_read = within(catalog, work.wanted, checked.probe.times)
    return ToDo(work, plan_partitions(catalog, to_read, request.partition_bytes), ledgers, missing, values)


def _values(storage: Storage, request: ExportRequest, scan: Mapping[str, Any]) -> QueryValues:
    """Return how the values of a request are shown, by the schemas, or the messages, that the bucket has now."""
    if are_bytes(scan):
        return QueryValues()
    bucket = storage.bucket()
    return values_of(bucket, topics_to_read(bucket.refresh(), request.topics, request.topics_pattern), scan)


def _told_schemas(values: QueryValues, scan: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what `LedgerIds` tells the schemas of each topic by."""
    version = scan.get("schema_version", "latest")
    return {
        name: [digest[:_DIGITS] for digest in found.digests_alike(version)] for name, found in values.schemas.items()
    }


def _told_values(values: QueryValues, columns: Sequence[str], scan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides how values become columns, as JSON values; nothing for bytes.

    The schemas that values are decoded by are told of each ledger (`LedgerIds`): with others, it is read again. A type that was inferred
    is that of all files.
    """
    shown = values.shown
    if shown is None:
        return {}
    told = {name: one for name, one in shown.described.items() if name != "schemas"}
    version = scan.get("schema_version", "latest")
    if isinstance(version, int | str):
        told["schema_version"] = version
    types = "".join(f"{one.name}: {one.type}\n" for one in values.message_schema(columns))
    return {**told, "fields": told_fields(shown.type), "types": sha256(types.encode()).hexdigest()}


def _key(source: object) -> object:
    """Return a private key's text: its file may be on this machine only."""
    return source.read_bytes() if isinstance(source, Path) else source

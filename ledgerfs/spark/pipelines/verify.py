"""Verify a bucket with Spark: `ledgerfs.verification`, with ledgers checked by tasks.

The driver compares listing and indexes without reading data. Then it splits the ledgers into parts of about 128 MiB, and tasks read every
byte of them::

    from ledgerfs.spark.pipelines.verify import verify

    verify(spark, "s3://tier").where("severity = 'damage'").show(truncate=False)

or ``ledgerfs spark verify s3://tier``, or ``spark-submit …/ledgerfs/cli/spark/verify.py s3://tier``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.spark.runtime.storage import Storage, storage_of
from ledgerfs.spark.runtime.tasks import distribute
from ledgerfs.spark.source.ledger_rows import LedgerRows, costs_of_reading, ledger_parts
from ledgerfs.storage.ordered_map import ordered_map
from ledgerfs.verification import Finding, Report, Severity
from ledgerfs.verification.unsaved_schemas import UnsavedSchemas
from ledgerfs.verification.verify import THREADS, check_ledger, check_listed, last_remarks

FINDING = pa.schema(
    [
        ("severity", pa.string()),
        ("kind", pa.string()),
        ("message", pa.string()),
        ("key", pa.string()),
        ("offset", pa.int64()),
        ("ledger_id", pa.int64()),
        ("topic", pa.string()),
    ]
)
"""The columns of findings (`ledgerfs.catalog.findings.Finding`); severity is ``damage``, ``unchecked`` or ``remark``."""

_LEDGER = pa.schema(
    [
        ("row", pa.int64()),  # of the catalog
        ("entries", pa.int64()),
        ("bytes", pa.int64()),
        ("findings", pa.list_(pa.struct(FINDING))),
        ("managed_ledger", pa.string()),
        ("schema_versions", pa.list_(pa.int64())),
    ]
)
_PLACED = pa.schema([("row", pa.int64()), ("position", pa.int32()), *FINDING])
_BATCH_LEDGERS = 64
# Findings about the bucket precede those about its ledgers, except one; the same order as in a report without Spark.
_BEFORE_LEDGERS, _BEHIND_LEDGERS = -1, 1 << 62


@dataclass(frozen=True, slots=True)
class Verification:
    """A verification that Spark runs at the first use of its rows; the findings are cached for further uses.

    Attributes
    ----------
    bucket
        The bucket, in the driver.
    quick
        Whether to compare only indexes and sizes.
    ledgers
        Number of ledgers, including copies.
    checked
        A row for each ledger that was read: entries, bytes and findings; persisted.
    findings
        All findings (`FINDING`): damage first, then ``unchecked``, then ``remark``.

    """

    bucket: Bucket
    quick: bool
    ledgers: int
    checked: DataFrame
    findings: DataFrame

    def report(self) -> Report:
        """Run the verification, and return the same report as `ledgerfs.verification.verify`."""
        entries, read = self.checked.agg(functions.sum("entries"), functions.sum("bytes")).collect()[0]
        return Report(self.quick, self.ledgers, entries or 0, read or 0, tuple(map(_finding, self.findings.collect())))


def verify(spark: SparkSession, storage: Storage | str, *, quick: bool = False) -> DataFrame:
    """Return the findings about a bucket, one row each (`FINDING`), damage first.

    Parameters
    ----------
    spark, storage
        The session; a bucket's URL, or a `Storage` with options of its filesystem.
    quick
        Compare listing and indexes only, which also finds truncated offloads that Pulsar reports as successful. The comparison runs at
        once; tasks run when rows are used. The session caches their findings (``spark.catalog.clearCache()``).

    Raises
    ------
    NotFoundError, AccessDeniedError, StoreError
        The catalog cannot be loaded. If a task cannot reach the store, the job fails, with the ledgerfs message in Spark's error; all
        else is a finding.

    """
    return prepare(spark, storage, quick=quick).findings


def prepare(
    spark: SparkSession, storage: Storage | str, *, quick: bool = False, progress: Progress | None = None
) -> Verification:
    """Compare listing and indexes now, and return the verification that tasks will run.

    ``progress`` is called with the progress of the listing; other arguments and errors as in `verify`.
    """
    where = storage_of(spark, storage).of_task(None, spark.sparkContext.defaultParallelism)
    bucket = where.bucket()
    catalog = bucket.survey(progress)
    first = list(check_listed(bucket, catalog, quick=quick))
    last = [] if quick else last_remarks(bucket, catalog)
    checked = _check_ledgers(spark, where, catalog, quick=quick).persist()
    found = checked.select("row", functions.posexplode("findings").alias("position", "finding")).select(
        "row", "position", "finding.*"
    )
    findings = _placed(spark, first, last).unionAll(found)
    if not quick:
        findings = findings.unionAll(_about_schemas(checked, where, len(last)))
    rank = functions.array_position(
        functions.array(*(functions.lit(severity.value) for severity in Severity)), functions.col("severity")
    )
    ordered = findings.orderBy(rank, "row", "position").select(*FINDING.names)
    return Verification(bucket, quick, int(catalog.ledgers.size), checked, ordered)


def _check_ledgers(spark: SparkSession, storage: Storage, catalog: Catalog, *, quick: bool) -> DataFrame:
    parts = [] if quick else ledger_parts(catalog, costs_of_reading(catalog.ledgers))
    return distribute(spark, parts, partial(check_part, storage), from_arrow_schema(_LEDGER))


def check_part(storage: Storage, part: LedgerRows) -> Iterator[pa.RecordBatch]:
    """Read every byte of the ledgers, a few at a time, and yield a row for each; a task of `verify`."""
    bucket = storage.bucket()

    def check_one(item: tuple[int, LedgerRef]) -> dict[str, Any]:
        row, ref = item
        check = check_ledger(bucket, ref, lambda _: None)
        findings = [finding.as_json() for finding in check.findings]
        return {
            "row": row,
            "entries": check.entries,
            "bytes": check.bytes,
            "findings": findings,
            "managed_ledger": ref.managed_ledger,
            "schema_versions": sorted(check.schema_versions),
        }

    rows = []
    for one in ordered_map(check_one, part.refs(), THREADS, "ledgerfs-verify"):
        rows.append(one)
        if len(rows) == _BATCH_LEDGERS:
            yield pa.RecordBatch.from_pylist(rows, _LEDGER)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, _LEDGER)


def _about_schemas(checked: DataFrame, storage: Storage, position: int) -> DataFrame:
    """Return the remarks about unsaved schemas, sorted behind the ledgers from ``position`` on; one task checks them."""

    def remarks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schemas = UnsavedSchemas(storage.bucket())
        for batch in batches:
            for named in batch.to_pylist():
                schemas.add(named["managed_ledger"], set(named["schema_versions"]))
        rows = [
            {"row": _BEHIND_LEDGERS, "position": position + number, **finding.as_json()}
            for number, finding in enumerate(schemas.remarks())
        ]
        yield pa.RecordBatch.from_pylist(rows, _PLACED)

    naming = checked.where("size(schema_versions) > 0").select("managed_ledger", "schema_versions")
    return naming.repartition(1).mapInArrow(remarks, from_arrow_schema(_PLACED))


def _placed(spark: SparkSession, first: Iterable[Finding], last: Iterable[Finding]) -> DataFrame:
    """Return the driver's findings as rows, with sort positions before and behind the ledgers."""
    rows = [
        {"row": row, "position": position, **finding.as_json()}
        for row, findings in ((_BEFORE_LEDGERS, first), (_BEHIND_LEDGERS, last))
        for position, finding in enumerate(findings)
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, _PLACED))


def _finding(row: Any) -> Finding:  # noqa: ANN401  (a row of Spark's, which has the columns of a finding)
    severity, *rest = row
    return Finding(Severity(severity), *rest)

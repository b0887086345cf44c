"""Export topics as Parquet with Spark's own writer.

::

    from ledgerfs.spark.pipelines.export import export

    export(spark, "s3://tier", "s3a://lake/events", partition_by=["topic", "date"])

or ``ledgerfs spark export s3://tier --to s3a://lake/events``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession, functions
from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType

from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES
from ledgerfs.errors import ExportFolderError, InvalidOptionError
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.scan.options import ScanKeywords, ScanOptions
from ledgerfs.scan.projection import asked_columns
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.runtime.tasks import error_of
from ledgerfs.spark.source.messages import read_messages

if TYPE_CHECKING:
    from pyspark import Accumulator

    from ledgerfs.spark.source.left_out import Omissions

_NAMED = (StringType, IntegralType, DateType, BooleanType)
_TIME = "unix_micros(publish_time)"
_DAY_US, _HOUR_US = 86_400_000_000, 3_600_000_000
# Spark's own date functions use the time zone of the session.
_OF_TIME = {
    "date": f"date_from_unix_date(cast(({_TIME} - pmod({_TIME}, {_DAY_US})) div {_DAY_US} as int))",
    "hour": f"lpad(cast(pmod({_TIME}, {_DAY_US}) div {_HOUR_US} as string), 2, '0')",
}


def export(
    spark: SparkSession,
    storage: Storage | str,
    to: str,
    *,
    topics: Sequence[str] | str | None = None,
    topics_pattern: str | None = None,
    partition_by: Sequence[str] = (),
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    columns: Sequence[str] | None = None,
    left_out: "Accumulator[Omissions] | None" = None,
    observation: Observation | None = None,
    options: ScanOptions | None = None,
    **keywords: Unpack[ScanKeywords],
) -> None:
    """Export topics as Parquet to a folder, which gets ``_SUCCESS`` when all files are written.

    Parameters
    ----------
    spark, storage
        The session; a bucket's URL, or a `Storage` with options of its filesystem.
    to
        The folder for ``DataFrameWriter.parquet``: ``s3a://…`` needs Hadoop's S3 module; Spark resolves a relative path.
    topics, topics_pattern
        Names of topics, or a regular expression that whole names match; all topics without both.
    partition_by
        Partition columns, outermost first: texts, integers and booleans of the files or of the message table; ``date`` and ``hour`` of
        ``publish_time``, in UTC.
    partition_bytes, left_out, columns, options, keywords
        As in `read_messages`.
    observation
        Gets ``messages``, the number of written messages.

    Raises
    ------
    InvalidOptionError
        An invalid option; the folder exists.
    ExportFolderError
        The folder does not have the written rows: another writer changed it meanwhile.
    LedgerfsError
        A read failed. After an error of a task, the folder has no ``_SUCCESS`` and is not complete.
    pyspark.errors.PySparkException
        Spark refused the query, for example a partition column that does not exist.

    """
    scan = ScanOptions.of(options, **keywords)
    wanted = asked_columns(scan if columns is None else replace(scan, columns=columns))
    read = _with_columns_of_folders(wanted, partition_by)
    rows = read_messages(
        spark, storage, topics=topics, topics_pattern=topics_pattern, columns=read, partition_bytes=partition_bytes, left_out=left_out,
        options=scan,
    )  # fmt: skip
    rows = _with_times(rows, partition_by)
    if "publish_time" not in (*wanted, *partition_by):
        rows = rows.drop("publish_time")
    _require_names(rows, partition_by)
    seen = Observation() if observation is None else observation
    rows = rows.observe(seen, functions.count("*").alias("messages"))
    try:
        rows.write.mode("errorifexists").partitionBy(*partition_by).parquet(to)
    except PySparkException as failure:
        if isinstance(failure, AnalysisException) and failure.getCondition() == "PATH_ALREADY_EXISTS":
            raise InvalidOptionError("already exists; choose another folder, or delete this one", key=to) from failure
        error = error_of(failure)
        if error is None:
            raise
        raise error from failure
    _require_rows(rows, seen.get["messages"], to)


def _with_columns_of_folders(columns: Sequence[str], partition_by: Iterable[str]) -> list[str]:
    """Return the columns of the message table to read: requested columns and partition columns."""
    needed = ("publish_time" if name in _OF_TIME else name for name in partition_by)
    return list(dict.fromkeys((*columns, *(name for name in needed if name in MESSAGE_SCHEMA.names))))


def _with_times(rows: DataFrame, partition_by: Iterable[str]) -> DataFrame:
    """Add the date and the hour if they are partition columns; raises `InvalidOptionError` if a field of values has that name."""
    for name in partition_by:
        if name in _OF_TIME:
            # Spark ignores the case of names.
            if name in map(str.lower, rows.columns):
                raise InvalidOptionError("a field of the values has this name; export without flatten", key=name)
            rows = rows.withColumn(name, functions.expr(_OF_TIME[name]))
    return rows


def _require_names(rows: DataFrame, partition_by: Iterable[str]) -> None:
    """Raise `InvalidOptionError` for columns that folder names cannot represent: bytes, and times, which would lose their zone."""
    # Spark ignores the case of names.
    names = set(map(str.lower, partition_by))
    for field in rows.schema:
        if field.name.lower() in names and not isinstance(field.dataType, _NAMED):
            raise InvalidOptionError(
                f"cannot partition by {field.name} of type {field.dataType.simpleString()}: folder names would not preserve its values",
                key="partition_by",
            )


def _require_rows(rows: DataFrame, wanted: int, to: str) -> None:
    """Raise `ExportFolderError` unless a folder has all rows: with two exports at once, one may delete the files of the other."""
    # With a schema, Spark infers nothing, and a folder without files has no rows instead of an error.
    found = rows.sparkSession.read.schema(rows.schema).option("recursiveFileLookup", value=True).parquet(to).count()
    if found != wanted:
        raise ExportFolderError(
            f"the folder has {found:,} rows, but {wanted:,} were written: another writer uses the folder; export to a separate folder",
            key=to,
        )

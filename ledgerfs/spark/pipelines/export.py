"""Exporting topics to a lake by Spark's tasks: Parquet or JSON lines in folders as in Hive and Spark.

The tasks write the files themselves, through the target's own filesystem: no message passes through Java, and no Hadoop library is
needed for ``s3://``. A state beside the files (`ledgerfs.spark.lake.state`) lets a later export add new ledgers only; a commit
(`ledgerfs.spark.lake.commit`) makes all files visible together.
"""

import errno
import secrets
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Unpack

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES
from ledgerfs.bucket.partitions import Partition
from ledgerfs.display import printable
from ledgerfs.errors import ExportFolderError, InvalidOptionError, OutdatedFilesWarning
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.scan.options import SCAN_OPTIONS, ScanOptions, require_known
from ledgerfs.spark.lake.commit import STATE, commit, read_state, recover, staging
from ledgerfs.spark.lake.lock import FOLDER, LakeLock
from ledgerfs.spark.lake.state import LakeState
from ledgerfs.spark.lake.target import Lake
from ledgerfs.spark.pipelines.export_outcome import ExportOutcome, TopicExport, WrittenFile
from ledgerfs.spark.pipelines.export_request import CheckedRequest, ExportRequest, ToDo, left_to_do
from ledgerfs.spark.pipelines.export_task import RESULT_SCHEMA, ExportTask, NumberedPartition, RunResult
from ledgerfs.spark.runtime.storage import Storage, storage_of
from ledgerfs.spark.runtime.tasks import distribute, error_of

_SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("path", StringType()),
        StructField("messages", LongType()),
        StructField("bytes", LongType()),
        StructField("first_ledger", LongType()),
        StructField("last_ledger", LongType()),
    ]
)


@dataclass(frozen=True, slots=True)
class LakeExport:
    """What an export did for each topic, sorted by name, and each file that it wrote."""

    topics: list[TopicExport]
    files: list[WrittenFile]


def export(
    spark: SparkSession,
    storage: Storage | str,
    to: str,
    *,
    topics: Sequence[str] | str | None = None,
    topics_pattern: str | None = None,
    format: str = "parquet",  # noqa: A002  (what it is called everywhere)
    partition_by: Sequence[str] = (),
    incremental: bool = False,
    overwrite: bool = False,
    to_options: Mapping[str, Any] | None = None,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    columns: Sequence[str] | None = None,
    **scan: Unpack[ScanOptions],
) -> DataFrame:
    """Export topics to a lake, and return a row for each file that was written: topic, path, messages, bytes, first_ledger, last_ledger.

    Parameters
    ----------
    spark, storage
        The session; a bucket's URL, or a `Storage` with options of its filesystem.
    to, to_options
        URL of a folder, which is made, and the options of its filesystem.
    topics, topics_pattern
        Names of topics, or a regular expression that whole names match; all topics without both. A later export may name others.
    format
        One of `TABLE_KINDS`.
    partition_by
        Columns that folders are named by (`PARTITION_COLUMNS`), outermost first. They are left out of the files.
    incremental
        Add what is new since the last export with the same options; the first one exports all.
    overwrite
        Replace an earlier export with any options. Files that no export wrote are never removed.
    partition_bytes
        About how many bytes a task reads.
    columns
        Of the message table; the default ones if None.
    scan
        ``start_time``, ``end_time``, ``transactions``, ``private_keys``, … as `Topic.scan` takes them.

    Raises
    ------
    InvalidOptionError
        An invalid option; a folder with files that no export wrote; an existing export if neither ``incremental`` nor ``overwrite`` is set,
        or one with other options.
    ExportFolderError
        Another export is writing to the folder; or a ledger was replaced whose rows are in one file with those of a ledger that is gone.
    LedgerfsError
        As reading and writing. The folder is then unchanged, or, after an error at the very end, the next export finishes it.

    Warns
    -----
    OutdatedFilesWarning
        Files have values of present ledgers by other schemas than the bucket has now, and cannot be made again without losing rows; or they
        lack, or may lack, what came behind their rows in a ledger of a living cluster that was still written; or they have more of one than
        it has now that it is closed.

    """
    require_known(scan, (*_OWN_OPTIONS, *SCAN_OPTIONS))
    target = Storage(to, to_options or {})
    asked = {"columns": columns, **scan}
    request = ExportRequest(format, tuple(partition_by), topics, topics_pattern, partition_bytes, asked)
    done = run_export(spark, storage, target, request, incremental=incremental, overwrite=overwrite)
    for topic in done.topics:
        if topic.outdated:
            warnings.warn(topic.outdated_text, OutdatedFilesWarning, stacklevel=2)
        for text in topic.lacking_texts:
            warnings.warn(text, OutdatedFilesWarning, stacklevel=2)
    rows = [(one.topic, one.path, one.messages, one.bytes, one.first_ledger, one.last_ledger) for one in done.files]
    return spark.createDataFrame(rows, _SCHEMA)


_OWN_OPTIONS = tuple(signature(export).parameters)[3:-1]


def run_export(
    spark: SparkSession,
    storage: Storage | str,
    target: Storage,
    request: ExportRequest,
    *,
    incremental: bool = False,
    overwrite: bool = False,
) -> LakeExport:
    """Export topics as `export`, and return what was done."""
    if incremental and overwrite:
        raise InvalidOptionError("either incremental or overwrite", key="overwrite")
    where = storage_of(spark, storage).of_task(None, spark.sparkContext.defaultParallelism)
    target = storage_of(spark, target)
    checked = CheckedRequest.of(where, request)
    lake = Lake.of(target)
    # Before anything is written to a folder that may be somebody else's.
    if not lake.folders(FOLDER) and lake.read(STATE) is None:
        _require_ours(lake, None)
    job = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"
    with LakeLock(lake, job) as lock:
        recover(lake)
        state, text = read_state(lake)
        if state is None or overwrite:
            _require_ours(lake, state)
        else:
            _require_wanted(lake, state, checked, is_more=incremental)
        units = () if state is None else state.units
        todo = left_to_do(where, request, checked, units, anew=overwrite)
        _require_remakable(lake, todo)
        task = ExportTask(where, target, job, checked.layout, checked.columns, checked.kind, checked.scan)
        try:
            results = _run(spark, todo, task)
            outcome = ExportOutcome.of(job, checked.kind, todo, results)
            lock.require()
            if lake.read(STATE) != text:
                raise _changed(lake)
        except BaseException:
            lake.remove_folder(staging(job))
            raise
        if outcome.units or todo.work.replaced or todo.work.ended or state is None:
            removed = [file.path for unit in todo.work.replaced for file in unit.files]
            shall_be = LakeState(checked.described, (*todo.work.kept, *outcome.units))
            commit(lake, job, outcome.moves, removed, shall_be)
    return LakeExport(outcome.by_topic, outcome.files)


def _run(spark: SparkSession, todo: ToDo, task: ExportTask) -> list[RunResult]:
    """Have Spark do the work; raises the error of ours that ended it."""
    if not len(todo.parts):
        return []
    parts = (
        NumberedPartition(number, Partition.of(told), todo.values.of_part(told))
        for number, told in enumerate(todo.parts.told())
    )
    try:
        rows = distribute(spark, parts, task, RESULT_SCHEMA).collect()
    except PySparkException as failure:
        error = error_of(failure)
        if error is None:
            raise
        raise error from failure
    return [RunResult.of_row(bytes(row.result)) for row in rows]


def _require_ours(lake: Lake, state: LakeState | None) -> None:
    """Raise `InvalidOptionError` for a folder with files that no export wrote."""
    ours = set() if state is None else {file.path for unit in state.units for file in unit.files}
    foreign = next((name for name in sorted(lake.files()) if not (_is_hidden(name) or name in ours)), None)
    if foreign is not None:
        reason = f"the folder holds {foreign}, which no export wrote; take another folder"
        raise InvalidOptionError(reason, key=lake.root)


def _is_hidden(name: str) -> bool:
    """Return whether readers of a folder of data skip a file of this name."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _require_wanted(lake: Lake, state: LakeState, checked: CheckedRequest, *, is_more: bool) -> None:
    """Raise `InvalidOptionError` for a folder with an export if the options do not expect one, or with one of other contents."""
    if not is_more:
        reason = "the folder holds an export already; say incremental to add what is new, or overwrite"
        raise InvalidOptionError(reason, key=lake.root)
    state.require_same(checked.described, lake.root)


def _require_remakable(lake: Lake, todo: ToDo) -> None:
    """Raise `ExportFolderError` for files with rows of a replaced ledger that also have rows of ledgers that are gone."""
    for unit in todo.work.replaced_in_part:
        topic, ledger = printable(topic_of(unit.managed_ledger)), todo.ledgers.replaced(unit)[0]
        raise ExportFolderError(
            f"cannot add the rows of ledger {ledger} of {topic}: the ledger was replaced since it was exported, and the file "
            "also has rows of ledgers that are not in the bucket any more; export into a new folder",
            key=lake.path(unit.files[0].path) if unit.files else lake.root,
        )


def _changed(lake: Lake) -> ExportFolderError:
    error = ExportFolderError(
        "another export has written to this folder meanwhile; this one has changed nothing", key=lake.root
    )
    error.errno = errno.EBUSY
    return error

"""One task of an export: it reads its part of the bucket, and writes staged files.

A task may run twice, even at the same time. Each attempt has a folder of its own, and the driver takes the files of one attempt.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from ledgerfs.bucket.partitions import Partition
from ledgerfs.ledgers.row_dependencies import Basis
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.scan.scan import Scan
from ledgerfs.spark.lake.commit import staging
from ledgerfs.spark.lake.files import PART_BYTES, LakeFiles, StagedFile
from ledgerfs.spark.lake.layout import LakeLayout
from ledgerfs.spark.lake.target import Lake
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source.message_rows import scan_of_run, spark_batches
from ledgerfs.spark.source.query_values import Schemas, spark_columns
from ledgerfs.storage.object_writes import Upload
from ledgerfs.tables.table_files import TABLE_KINDS

RESULT_SCHEMA = StructType([StructField("result", BinaryType())])


@dataclass(frozen=True, slots=True)
class NumberedPartition:
    """A part of the plan, its number, and the schemas of its topics."""

    number: int
    partition: Partition
    schemas: Schemas


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run of a part.

    Attributes
    ----------
    part, run
        Number of the part, and of the run in it.
    files
        The files written; ``staged`` is a path below the lake.
    basis, skipped, incomplete, undecodable
        As in `Scan`.

    """

    part: int
    run: int
    files: tuple[StagedFile, ...]
    basis: Basis
    skipped: tuple[Skipped, ...]
    incomplete: tuple[Incomplete, ...]
    undecodable: tuple[Undecodable, ...]

    @classmethod
    def of_row(cls, data: bytes) -> "RunResult":
        """Return the result that a task sent."""
        found = pickle.loads(data)  # noqa: S301  (our own tasks')
        assert isinstance(found, RunResult)  # noqa: S101
        return found


@dataclass(frozen=True, slots=True, repr=False)
class ExportTask:
    """The work of every task. Its repr shows nothing, since it may have keys and credentials.

    Attributes
    ----------
    storage, target
        The bucket, and the lake.
    job
        The export's name.
    layout, columns, kind
        The folders of the lake, the columns of its files, and what they are (`TABLE_KINDS`).
    scan
        Arguments of `Topic.scan`, without the columns.

    """

    storage: Storage
    target: Storage
    job: str
    layout: LakeLayout
    columns: tuple[str, ...]
    kind: str
    scan: Mapping[str, Any]

    def __call__(self, part: NumberedPartition) -> Iterator[pa.RecordBatch]:
        """Export a part, and yield the result of each run of it: rows of `RESULT_SCHEMA`."""
        context = TaskContext.get()
        attempt = 0 if context is None else context.taskAttemptId()
        folder = f"{staging(self.job)}/{part.number}-{attempt}"
        begin = Lake.of(self.target).uploads(folder, PART_BYTES)
        for number, run in enumerate(part.partition.runs):

            def begin_file(file: int, number: int = number) -> tuple[str, Upload]:
                name = f"{number}-{file}{TABLE_KINDS[self.kind]}"
                return f"{folder}/{name}", begin(name)

            read = self.layout.columns_to_read(self.columns)
            scan = scan_of_run(run, self.storage.bucket(), read, part.schemas, self.scan)
            if scan.values is not None:
                scan.values = scan.values.beside_folders(self.layout.partition_by)
            files = LakeFiles(self.layout, self._schema(scan, read), self.kind, begin_file)
            result = pickle.dumps(self._export(part.number, number, scan, files))
            yield pa.RecordBatch.from_pydict({"result": pa.array([result], pa.binary())})

    def _schema(self, scan: Scan, read: Sequence[str]) -> pa.Schema:
        """Return the columns of the files, without those that are read for the names of folders only."""
        made = spark_columns(scan.schema, read).schema if self._is_for_spark(scan) else scan.schema
        for_folders = set(read) - set(self.columns)
        return pa.schema([one for one in made if one.name not in for_folders])

    def _is_for_spark(self, scan: Scan) -> bool:
        """Return whether values have Spark's types in the files, which Spark and Hive read."""
        return self.kind == "parquet" and scan.values is not None

    def _export(self, part: int, number: int, scan: Scan, files: LakeFiles) -> RunResult:
        try:
            read = self.layout.columns_to_read(self.columns)
            for batch in spark_batches(scan, read) if self._is_for_spark(scan) else scan:
                files.add(batch)
            written = files.close()
        except BaseException:
            files.abandon()
            raise
        left_out = (tuple(scan.skipped), tuple(scan.incomplete), tuple(scan.undecodable))
        return RunResult(part, number, tuple(written), scan.basis, *left_out)

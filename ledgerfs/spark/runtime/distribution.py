"""Work that is cut into parts by us, done by Spark's tasks: one part each."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ledgerfs.spark.runtime.worker import spare_imports

Part = TypeVar("Part")

_PARTS = pa.schema([("number", pa.int32()), ("part", pa.binary())])


def distribute(
    spark: SparkSession, parts: Iterable[Part], work: Callable[[Part], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """Return what ``work`` yields for each part, as a DataFrame; nothing is done before somebody asks for its rows.

    Parameters
    ----------
    spark
        The session.
    parts
        Values that pickle, each small; they are sent to their own task only.
    work
        Runs in a Python worker, which may do it more than once; it travels to every task, so it is small, too.
    schema
        Of the batches.

    """
    pickled = [pickle.dumps(part) for part in parts]
    table = pa.Table.from_pydict({"number": range(len(pickled)), "part": pickled}, _PARTS)
    described = spark.createDataFrame(table).repartitionById(max(1, len(pickled)), "number")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column("part"):
                yield from work(pickle.loads(part.as_py()))  # noqa: S301  (ours)
        spare_imports()

    return described.mapInArrow(run, schema)

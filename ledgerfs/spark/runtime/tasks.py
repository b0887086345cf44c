"""Run work in Spark tasks, one part each, and recover the errors of failed tasks.

An exception travels from a Python worker to the driver as text, inside long tracebacks of Python and Java. The text contains the class and,
for ledgerfs errors, object and offset, so `error_of` can rebuild the error.
"""

import gc
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ledgerfs import errors
from ledgerfs.errors import LedgerfsError

Part = TypeVar("Part")

_TRACEBACK = "Traceback (most recent call last):"
_OURS = re.compile(r"ledgerfs\.errors\.(\w+): (.*)")
_JAVA = re.compile(r"(?:An error occurred while calling .*|[:\s]*)")
_PARTS = pa.schema([("number", pa.int32()), ("part", pa.binary())])


def distribute(
    spark: SparkSession, parts: Iterable[Part], work: Callable[[Part], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """Return the batches that ``work`` yields for each part, as a DataFrame; tasks run when its rows are used.

    Parameters
    ----------
    spark
        The session.
    parts
        Small picklable values; each is sent to its own task only.
    work
        Runs in a Python worker, perhaps more than once. It is sent to every task, so it must also be small.
    schema
        Schema of the batches.

    """
    pickled = [pickle.dumps(part) for part in parts]
    table = pa.Table.from_pydict({"number": range(len(pickled)), "part": pickled}, _PARTS)
    described = spark.createDataFrame(table).repartitionById(max(1, len(pickled)), "number")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column("part"):
                yield from work(pickle.loads(part.as_py()))  # noqa: S301  (own data)
        spare_imports()

    return described.mapInArrow(run, schema)


@cache
def spare_imports() -> None:
    """Exclude imported modules and compiled kernels from the garbage collection that Spark's daemon runs after every task.

    This saves 16 to 58 ms each time.
    """
    gc.freeze()


def error_of(failure: Exception) -> LedgerfsError | None:
    """Return the ledgerfs error that failed a job, from Spark's exception; None for other errors."""
    match = _OURS.match(_last_line(str(failure)))
    kind = getattr(errors, match[1], None) if match else None
    if match is None or not (isinstance(kind, type) and issubclass(kind, LedgerfsError)):
        return None
    return kind(match[2])


def line_of(failure: Exception) -> str:
    """Return Spark's exception in one line."""
    return _last_line(str(failure)).strip().removeprefix(": ") or type(failure).__name__


def _last_line(text: str) -> str:
    """Return the traceback line with the exception; without a traceback, the first meaningful line."""
    _, has_traceback, shown = text.rpartition(_TRACEBACK)
    lines = [line for line in shown.splitlines() if line.strip()]
    if has_traceback:
        return next((line for line in lines if not line[0].isspace()), "")
    return next((line for line in lines if not _JAVA.fullmatch(line)), "")

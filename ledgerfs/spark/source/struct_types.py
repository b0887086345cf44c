"""The columns of a DataFrame: Spark's type of them, and Arrow's."""

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

_TIMES: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""An option that newer versions of PySpark need, and 4.1 does not know."""


def spark_schema(schema: pa.Schema) -> StructType:
    """Return columns as `ledgerfs.spark.source.spark_types.SparkColumns` has them as Spark's type."""
    found: StructType = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return found


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return what Arrow has for columns of a DataFrame."""
    return to_arrow_schema(schema, **_TIMES)

"""Convert the schema of a DataFrame between Spark and Arrow."""

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

_TIMES: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""An option that newer versions of PySpark require, and 4.1 lacks."""


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark type of a schema from `ledgerfs.spark.source.spark_types.SparkColumns`."""
    found: StructType = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return found


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's columns."""
    return to_arrow_schema(schema, **_TIMES)

"""Topics exported to Parquet by Spark, and a report of each day.

    python examples/spark_export_and_daily_report.py s3://tier --lake /data/lake -o endpoint_url=http://host:9000
    spark-submit --master spark://host:7077 examples/spark_export_and_daily_report.py s3://tier --lake /shared/lake

The lake is a new folder; delete it before the next run, or name another one. Without arguments the bucket that `make demo` unpacks
is read, and the lake made beside it. Cells begin with ``# %%``.
"""

# %% Which bucket, which topics, where to
import argparse
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from ledgerfs.spark import Storage, export

DEMO = Path(__file__).parent.parent / "demo" / "tier"

parser = argparse.ArgumentParser(description="Export topics with Spark, and report each day.")
parser.add_argument("bucket", nargs="?", default=str(DEMO), help="URL of the bucket")
parser.add_argument("--topics", default="persistent://public/golden/(json|plain|batched-zstd)", help="pattern of names")
parser.add_argument("--lake", default=str(DEMO.parent / "lake"), help="folder of the Parquet files")
parser.add_argument("-o", "--option", action="append", default=[], metavar="KEY=VALUE", help="option of the filesystem")
args = parser.parse_args([] if "ipykernel" in sys.modules else None)
options = dict(option.split("=", 1) for option in args.option)

# %% A session; under spark-submit it is the one that was prepared there. Workers need the Python that ledgerfs is installed in
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = (
    SparkSession.builder.appName("export and daily report")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.python.unix.domain.socket.enabled", "true")
    .getOrCreate()
)

# %% Topics become Parquet files, in folders by topic and day
export(
    spark,
    Storage(args.bucket, options),
    args.lake,
    topics_pattern=args.topics,
    partition_by=["topic", "date"],
)

# %% The report reads the files, by Spark's own reader, which needs nothing of ledgerfs
lake = spark.read.parquet(args.lake)
report = (
    lake.groupBy("date", "topic")
    .agg(
        F.count("*").alias("messages"),
        F.sum(F.length("value")).alias("bytes"),
        F.countDistinct("producer_name").alias("producers"),
        F.min("publish_time").alias("first"),
        F.max("publish_time").alias("last"),
    )
    .orderBy("date", "topic")
)
report.show(truncate=False)

# %% Done
spark.stop()

"""A read-only analytical cluster on a Pulsar bucket: topics as SQL tables, without a broker and without a copy.

    python examples/read_only_cluster.py s3://tier -o endpoint_url=http://host:9000
    spark-submit --master spark://host:7077 examples/read_only_cluster.py s3://tier

Its credentials need no more than to list the bucket and to read objects. Without arguments it reads the bucket that `make demo` unpacks.
Cells begin with ``# %%``.
"""

# %% Which bucket
import argparse
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import ledgerfs.spark
from ledgerfs.spark import Storage, catalog

DEMO = Path(__file__).parent.parent / "demo" / "tier"

parser = argparse.ArgumentParser(description="Topics of a bucket as tables of Spark SQL.")
parser.add_argument("bucket", nargs="?", default=str(DEMO), help="URL of the bucket")
parser.add_argument("-o", "--option", action="append", default=[], metavar="KEY=VALUE", help="option of the filesystem")
args = parser.parse_args([] if "ipykernel" in sys.modules else None)
options = dict(option.split("=", 1) for option in args.option)

# %% A session. `register` hands its spark.hadoop.fs.s3a.… on to the data source; it is not needed where credentials are in the environment
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = (
    SparkSession.builder.appName("read-only cluster")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.python.unix.domain.socket.enabled", "true")
    .getOrCreate()
)
ledgerfs.spark.register(spark)

# %% What is there: indexes tell it, no message is read
topics = catalog(spark, Storage(args.bucket, options), by="topic")
topics.createOrReplaceTempView("topics")
spark.sql("SELECT topic, ledgers, entries, bytes FROM topics ORDER BY bytes DESC LIMIT 5").show(truncate=False)


# %% A view for each topic that is asked about. What no query needs is left out by `columns`: Spark does not tell a source what it needs
def view(name: str, **wanted: str) -> DataFrame:
    """Make a temporary view of what the data source reads with some options."""
    told = {f"storage.{key}": value for key, value in options.items()}
    frame = spark.read.format("ledgerfs").options(**told, **wanted).load(args.bucket)
    frame.createOrReplaceTempView(name)
    return frame


view("orders", topic="persistent://public/golden/json", columns="publish_time,producer_name,value")
view("traffic", topicsPattern="persistent://public/golden/batched-.*", columns="topic,publish_time,producer_name")

# %% JSON messages as rows. Without startTime and endTime as options, all of the topic is read
spark.sql("""
    WITH parsed AS (
        SELECT publish_time, from_json(decode(value, 'UTF-8'), 'id long, customer string, amount double') AS message
        FROM orders
    )
    SELECT message.customer, count(*) AS orders, round(sum(message.amount), 2) AS amount, max(publish_time) AS last
    FROM parsed GROUP BY message.customer ORDER BY amount DESC LIMIT 5
""").show(truncate=False)

# %% Several topics in one table
spark.sql("""
    SELECT topic, date_trunc('HOUR', publish_time) AS hour, count(*) AS messages, count(DISTINCT producer_name) AS producers
    FROM traffic GROUP BY topic, hour ORDER BY topic, hour
""").show(truncate=False)

# %% Done
spark.stop()

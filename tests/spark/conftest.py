"""A real Spark session, shared by all tests of this folder: a JVM and its Python workers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.s3 import S3Server
from tests.support.spark_daemon import python_of_spark
from tests.support.writes import Place, folder_place, s3_place


@pytest.fixture(autouse=True, scope="session")
def _quick_java(quick_java: str) -> None:
    """Have all of these tests start Java with it."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two workers, which finds the data source as any session does: by its being installed."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", python_of_spark(folder))
        session = (
            SparkSession.builder.master("local[2, 2]")
            .appName("ledgerfs-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.python.unix.domain.socket.enabled", "true")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A bucket to write to."""
    return folder_place(tmp_path / "bucket")


@pytest.fixture
def open_place(s3: S3Server, s3_bucket: str) -> Place:
    """A bucket that everybody may read: Spark's processes have no credentials here."""
    allowed = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{s3_bucket}/*"}
    s3.client.put_bucket_policy(Bucket=s3_bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
    return s3_place(s3, s3_bucket)

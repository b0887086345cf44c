"""A real Spark session, shared by all tests of this folder: a JVM and its Python workers."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_daemon import python_of_spark


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

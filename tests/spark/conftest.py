"""A real Spark session, shared by all tests of this folder: a JVM and its Python workers."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(autouse=True, scope="session")
def _quick_java(quick_java: str) -> None:
    """Have all of these tests start Java with it."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two workers, which finds the data source as any session does: by its being installed."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
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
        .config("spark.python.daemon.module", "tests.support.spark_daemon")
        .config(
            "spark.executorEnv.PYTHONPATH", os.pathsep.join((str(Path(__file__).parents[2]), os.environ["PYTHONPATH"]))
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()

"""Java as tests start it: for a run of seconds. It compiles in haste, collects garbage in one thread, and finds Spark's classes loaded.

A Spark session starts in half the processor time that way. Its classes are loaded and verified once, by a first session, which leaves them
in an archive of Java's own (class data sharing). That lies in the virtual environment, for it is of the Spark that is installed there. If
Java or the jars are others by now, Java goes on without it.

As a program, this makes the archive, for which processes that run tests would all wait.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import pyspark

IN_HASTE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xlog:disable"
"""For a Java that Spark's own classes are not for: the one that puts a command together."""

PATIENT = "-Dspark.network.timeout=1800s -Dspark.python.authenticate.socketTimeout=1800s -Dspark.worker.timeout=1800"
"""For drivers, masters and workers of Spark, which else give up soon what is only slow. Executors have it of their drivers."""

_PROGRAM = """
import sys

import ledgerfs.spark
from ledgerfs.spark.runtime.session import open_session

url, lake = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
session = open_session("classes", "local[1]", settings)
plain = "persistent://public/golden/plain"
ledgerfs.spark.export(session, url, lake, topics=[plain], partition_by=["topic"])
session.read.parquet(lake).groupBy("topic").count().orderBy("topic").show()
session.read.format("ledgerfs").option("topic", plain).load(url).filter("key is not null").groupBy("key").count().show()
session.stop()
"""
"""Uses what most tests use of Spark."""


def java_options(url: str, folder: Path) -> str:
    """Return Java's options, when the archive is there; the session that makes it reads the golden bucket, and writes below ``folder``."""
    archive = Path(sys.prefix) / f"spark-classes-{_installed()}.jsa"
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive, url, folder)
    return f"{IN_HASTE} -XX:SharedArchiveFile={archive} {PATIENT}"


def _make(archive: Path, url: str, folder: Path) -> None:
    new = archive.with_suffix(".new")
    options = {"SPARK_SUBMIT_OPTS": f"{IN_HASTE} -XX:ArchiveClassesAtExit={new}", "SPARK_LAUNCHER_OPTS": IN_HASTE}
    # Java makes the archive when Python has ended. It has the pipe as well, whose end is waited for.
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, url, str(folder / "lake")],
        env={**os.environ, **options}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.decode()
    assert new.exists(), done.stdout.decode()
    new.replace(archive)


@cache
def _installed() -> str:
    """Return a mark of the Spark and the Java that are installed."""
    home = os.environ.get("JAVA_HOME")
    java = Path(shutil.which("java", path=f"{home}/bin" if home else None) or "").resolve()
    return hashlib.sha256(f"{pyspark.__version__} {java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:16]


def _main() -> None:
    golden = Path(__file__).parent.parent / "data" / "golden" / "pulsar-s3.tar.xz"
    with tempfile.TemporaryDirectory() as name, tarfile.open(golden) as bucket:
        bucket.extractall(name)  # our own archive, as in conftest.py
        os.environ["LEDGERFS_CACHE_DIR"] = f"{name}/cache"
        java_options(f"file://{name}/pulsar-s3/bucket", Path(name))


if __name__ == "__main__":
    _main()

"""The wheel on a standalone cluster: a master and two workers, whose machines have ledgerfs in the ways that the documentation tells."""

import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess, run

import pyarrow.parquet as pq
import pytest

from ledgerfs import open_bucket
from tests.support.s3 import CREDENTIALS, S3Server
from tests.support.spark_cluster import (
    ROOT,
    SPARK_HOME,
    Cluster,
    build_wheel,
    copy_kernels,
    environment,
    install_wheel,
    make_environment,
    packed,
    standalone_cluster,
)

DRIVER = '''
"""Count messages, and tell which code read them in which folder: each worker runs its executor in a folder of its own.

A topic that is named is read by a source that is registered; otherwise all are.
"""

import json
import os
import sys

import pyarrow as pa
from pyspark.sql import SparkSession


def tell(batches):
    import ledgerfs

    for batch in batches:
        told = [batch.column("topic"), *(pa.repeat(text, batch.num_rows) for text in (ledgerfs.__file__, os.getcwd()))]
        yield pa.RecordBatch.from_arrays(told, ["topic", "code", "folder"])


spark = SparkSession.builder.getOrCreate()
url, *topics = sys.argv[1:]
if topics:
    import ledgerfs.spark

    ledgerfs.spark.register(spark)
options = {"onEncrypted": "null", "partitionBytes": "8MiB", **({"topics": ",".join(topics)} if topics else {})}
messages = spark.read.format("ledgerfs").options(**options).load(url)
told = messages.mapInArrow(tell, "topic string, code string, folder string").groupBy("topic", "code", "folder").count()
rows = [row.asDict() for row in told.collect()]
spark.stop()
print(json.dumps(rows))
'''

SUBMIT = str(SPARK_HOME / "bin" / "spark-submit")

# One cluster is enough.
pytestmark = pytest.mark.xdist_group("standalone cluster")


@dataclass(frozen=True, slots=True)
class Installed:
    """The wheel, an environment that has it installed, the Python of that environment, and one that lacks nothing but the wheel."""

    wheel: Path
    folder: Path
    python: Path
    bare_python: Path

    def pipelines(self, line: str) -> Path:
        """Return the folder that a line of the documentation names with ``python3``, which is that of the environment."""
        page = (ROOT / "docs" / "guides" / "spark.md").read_text()
        code, below = re.search(rf"{line}.*?python3 -c '([^']*)'\)(\S*?)\"?\s", page).groups()
        found = run([self.python, "-c", code], env=environment(), cwd="/", capture_output=True, text=True, check=True)
        return Path(found.stdout.strip() + below)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, golden_url: str) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(folder)
    python = make_environment(folder / "environment")
    install_wheel(wheel, folder / "environment")
    counts(golden_url)
    copy_kernels(folder / "environment")
    return Installed(wheel, folder / "environment", python, make_environment(folder / "bare"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def driver(tmp_path: Path) -> str:
    path = tmp_path / "driver.py"
    path.write_text(DRIVER)
    return str(path)


@cache
def counts(url: str) -> dict[str, int]:
    """Return how many rows each topic has; reading them compiles here, once for all, what the processes of a cluster would each compile."""
    bucket = open_bucket(url)
    found = {one.name: bucket.topic(one.name).scan(on_encrypted="null").to_arrow().num_rows for one in bucket.topics()}
    return {name: count for name, count in found.items() if count}


def check(done: CompletedProcess[str], wanted: dict[str, int], work: Path) -> tuple[set[str], set[str]]:
    """See to it that the topics have so many rows; return where executors had their code from, and which workers read some."""
    # Before the last line come warnings, which ``spark-submit`` prints as output as well.
    rows = json.loads(done.stdout.splitlines()[-1])
    by_topic: dict[str, int] = {}
    for row in rows:
        by_topic[row["topic"]] = by_topic.get(row["topic"], 0) + row["count"]
    assert by_topic == wanted
    return {row["code"] for row in rows}, {Path(row["folder"]).relative_to(work).parts[0] for row in rows}


def test_the_wheel_has_what_spark_looks_for(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = wheel.namelist()
    assert "pyspark_ledgerfs.py" in names
    assert "ledgerfs/spark/source/data_source.py" in names
    assert "ledgerfs/spark/runtime/quiet-log4j2.properties" in names
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"ledgerfs", "ledgerfs_cluster", "pyspark_ledgerfs.py"}


def test_an_archive_that_spark_unpacks(
    cluster: Cluster, installed: Installed, driver: str, golden_url: str, tmp_path: Path
) -> None:
    """The machines of the workers have Python and Spark, and nothing of ours."""
    archive = packed(installed.folder, tmp_path / "environment.tar.gz")
    submit = [SUBMIT, *cluster.submit_options(2), "--archives", f"{archive}#environment"]
    done = cluster.run(
        [*submit, driver, golden_url],
        "environment/bin/python",
        {"PYSPARK_DRIVER_PYTHON": str(installed.python)},
    )
    codes, workers = check(done, counts(golden_url), cluster.work)
    assert workers == {"worker-0", "worker-1"}
    for path in map(Path, codes):
        assert path.is_relative_to(cluster.work)
        assert "environment" in path.parts


def test_the_wheel_as_py_files(
    cluster: Cluster, installed: Installed, driver: str, golden_url: str, tmp_path: Path
) -> None:
    """The machines have what ledgerfs depends on. Spark looks for data sources in what is installed only, so the driver registers it.

    Each executor unpacks the wheel for itself, and compiles what it runs: one of them reads one topic.
    """
    shutil.copy(installed.wheel, tmp_path / "ledgerfs.zip")
    submit = [SUBMIT, *cluster.submit_options(1)]
    files = ["--py-files", str(tmp_path / "ledgerfs.zip")]
    topic = "persistent://public/golden/batched-zstd"
    done = cluster.run([*submit, *files, driver, golden_url, topic], installed.bare_python)
    (code,), _ = check(done, {topic: counts(golden_url)[topic]}, cluster.work)
    assert Path(code).parts[-3:] == ("ledgerfs.zip", "ledgerfs", "__init__.py")


def test_a_pipeline_with_s3s_credentials_in_sparks_settings(
    cluster: Cluster, installed: Installed, s3: S3Server, s3_golden: str, golden_url: str, tmp_path: Path
) -> None:
    """No machine has them in its environment."""
    settings = {"endpoint": s3.endpoint, "access.key": CREDENTIALS["key"], "secret.key": CREDENTIALS["secret"]}
    conf = [part for name, value in settings.items() for part in ("--conf", f"spark.hadoop.fs.s3a.{name}={value}")]
    submit = [
        SUBMIT,
        *cluster.submit_options(1),
        *conf,
        str(installed.pipelines("PIPELINES=") / "export.py"),
    ]
    lake = tmp_path / "lake"
    names = "persistent://public/golden/(plain|int64|chunked)"
    pipeline = [s3_golden, "--topics", names, "--to", str(lake), "--partition-by", "topic"]
    done = cluster.run([*submit, *pipeline], installed.python)
    expected = {name: count for name, count in counts(golden_url).items() if re.fullmatch(names, name)}
    assert len(expected) == 3
    tables = [pq.read_metadata(path) for path in lake.rglob("*.parquet")]
    assert sum(table.num_rows for table in tables) == sum(expected.values())
    assert CREDENTIALS["secret"] not in done.stdout + done.stderr


def test_the_command_on_a_cluster(cluster: Cluster, installed: Installed, golden_url: str) -> None:
    command = [str(installed.folder / "bin" / "ledgerfs"), "spark", "stats", golden_url, "public/golden/plain"]
    done = cluster.run([*command, "--by", "topic", "--json", "--master", cluster.url], installed.python)
    (row,) = json.loads(done.stdout)
    plain = "persistent://public/golden/plain"
    assert (row["topic"], row["messages"]) == (plain, counts(golden_url)[plain])


def test_the_files_of_the_pipelines_are_where_the_page_says(installed: Installed) -> None:
    page = (ROOT / "docs" / "guides" / "spark.md").read_text()
    for line, used in (
        ("PIPELINES=", r"\$PIPELINES/(\w+\.py)"),
        ("RUN pip install", r"local:///opt/ledgerfs/(\w+\.py)"),
    ):
        folder, names = installed.pipelines(line), re.findall(used, page)
        assert folder.is_relative_to(installed.folder)
        assert names
        for name in names:
            done = run(
                [installed.python, folder / name, "--help"],
                env=environment(),
                cwd="/",
                capture_output=True,
                text=True,
                check=True,
            )
            assert done.stdout.startswith(f"Usage: ledgerfs spark {name.removesuffix('.py')} ")


def test_only_this_wheel_is_seen_from_the_environment(installed: Installed, tmp_path: Path) -> None:
    """Otherwise the tests above would find the repository instead."""
    look = "import importlib.util as u; found = u.find_spec('ledgerfs'); print(found and found.origin)"
    for python, seen in ((installed.python, True), (installed.bare_python, False)):
        done = run(
            [str(python), "-c", look], env=environment(), cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert (done.stdout.strip() != "None") is seen
        assert not seen or Path(done.stdout.strip()).is_relative_to(installed.folder)

"""The scripts of ``examples/`` run to their end on the golden bucket, as their first lines tell."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyarrow.dataset import dataset

from ledgerfs import open_bucket
from tests.support.programs import Programs
from tests.support.s3 import ENVIRONMENT, S3Server

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
JSON = "persistent://public/golden/json"
PLAIN = "persistent://public/golden/plain"


def run(name: str, *arguments: str, env: dict[str, str] | None = None, code: int = 0) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(
        command, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


def run_in(java: Programs, name: str, *arguments: str) -> str:
    done = java.run(EXAMPLES / name, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.decode()


def test_topic_history(golden_url: str) -> None:
    shown = run("topic_history_pandas.py", golden_url)
    table = open_bucket(golden_url).topic(PLAIN).scan().to_table()
    assert f"{PLAIN}: 3 ledgers, {table.num_rows} messages" in shown
    keys = {
        key: value
        for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
        if key is not None
    }
    alive = sum(value is not None for value in keys.values())
    assert 0 < alive < len(keys)
    assert f"{len(keys)} keys, {alive} of them have a value" in shown


def test_topic_history_of_another_topic_on_s3(s3: S3Server, s3_golden: str) -> None:
    arguments = (s3_golden, JSON, "-o", f"endpoint_url={s3.endpoint}")
    assert f"{JSON}: 3 ledgers, 120 messages" in run("topic_history_pandas.py", *arguments, env=ENVIRONMENT)


def test_export_and_daily_report(java: Programs, golden_url: str, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    first = run_in(java, "spark_export_and_daily_report.py", golden_url, "--lake", lake)
    bucket = open_bucket(golden_url)
    names = (JSON, PLAIN, "persistent://public/golden/batched-zstd")
    expected = {name: bucket.topic(name).count() for name in names}
    assert Counter(dataset(lake, partitioning="hive").to_table(["topic"])["topic"].to_pylist()) == expected
    report = re.findall(r"^\|(\d{4}-\d\d-\d\d)\|(\S+?) *\|(\d+) ", first, re.MULTILINE)
    assert {topic: int(messages) for _, topic, messages in report} == expected
    again = run_in(java, "spark_export_and_daily_report.py", golden_url, "--lake", lake)
    assert first.count(JSON) == 2  # of what was exported, and of the report
    assert again.count(JSON) == 1
    assert re.findall(r"^\|(\d{4}-\d\d-\d\d)\|(\S+?) *\|(\d+) ", again, re.MULTILINE) == report


def test_read_only_cluster(java: Programs, golden: Path, golden_url: str) -> None:
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (golden / "bucket").iterdir())
    shown = run_in(java, "read_only_cluster.py", golden_url)
    zstd = "persistent://public/golden/batched-zstd"
    count = open_bucket(golden_url).topic(zstd).count()
    assert re.search(rf"^\|{zstd} *\|\S+ \S+ *\|{count} ", shown, re.MULTILINE)
    assert "customer-6" in shown
    assert sorted((path.name, path.stat().st_mtime_ns) for path in (golden / "bucket").iterdir()) == before


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_cells_and_defaults(name: str) -> None:
    """Each is cut into cells, and is about the bucket of ``make demo`` unless told otherwise."""
    text = (EXAMPLES / name).read_text()
    assert text.count("\n# %% ") >= 4
    assert 'Path(__file__).parent.parent / "demo" / "tier"' in text
    assert '"$folder/tier"' in (EXAMPLES.parent / "scripts" / "demo-bucket").read_text()


def test_a_bucket_that_is_not_there(tmp_path: Path) -> None:
    assert "BucketNotFoundError" in run("topic_history_pandas.py", str(tmp_path / "nothing"), code=1)

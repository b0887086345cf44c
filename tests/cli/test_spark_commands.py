"""``ledgerfs spark …`` as a user runs it: output, exit codes, and no page of Java whatever happens.

A JVM takes long to start. Commands that are about what is printed share one (`Programs`); the others are processes of their own.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.commands import LEDGERFS, output, run
from tests.support.entries import frame, metadata
from tests.support.ledgers import offload, put_in_folder
from tests.support.programs import SMALL_SESSION, Programs
from tests.support.s3 import ENVIRONMENT, Fault, FaultProxy, S3Server
from tests.support.typed_golden import bucket_with_schemas

pytestmark = pytest.mark.usefixtures("quick_java")

# What the JVM itself says of the modules that Spark's start script adds.
_OF_JAVA = "WARNING: Using incubator modules"


def said(stderr: bytes) -> list[str]:
    """Return the lines on standard error that are not the JVM's."""
    return [line for line in stderr.decode().splitlines() if not line.startswith(_OF_JAVA)]


@pytest.fixture(scope="module")
def java(quick_java: str) -> Iterator[Programs]:
    """A process that runs commands with Spark one after the other, so that Java starts once."""
    with Programs({**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}) as programs:
        yield programs


def test_verify_prints_what_the_command_without_spark_does(java: Programs, truncated_url: str) -> None:
    done = java.command("verify", truncated_url, code=1)
    assert done.stdout.decode() == output("verify", truncated_url, code=1)
    assert said(done.stderr) == []


@pytest.fixture
def plain_on_s3(s3: S3Server, s3_bucket: str, golden: Path) -> str:
    """URL of a bucket with one golden topic."""
    s3.make_golden_bucket(s3_bucket, golden, ".*/plain")
    return f"s3://{s3_bucket}"


def test_catalog_is_a_table_of_topics_or_json_of_ledgers(java: Programs, golden_url: str) -> None:
    head, *lines = java.command("catalog", golden_url, "--publish-times").stdout.decode().splitlines()
    assert head.endswith("last published")
    assert len(lines) == 35
    rows = json.loads(java.command("catalog", golden_url, "--by", "ledger", "--json").stdout)
    assert len(rows) == 104
    info = json.loads(output("info", golden_url, str(rows[0]["ledger_id"]), "--json"))
    assert {name: rows[0][name] for name in ("topic", "uuid", "entries", "created", "uploaded", "is_sound")} == {
        name: info[name] for name in ("topic", "uuid", "entries", "created", "uploaded", "is_sound")
    }


def test_what_is_left_out_is_said_and_is_damage(java: Programs, golden: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bucket"
    shutil.copytree(golden / "damaged" / "truncated-but-successful", folder)
    command = ("stats", str(folder), "--on-corrupt", "skip", "--by", "topic", "--json")
    done = java.command(*command, code=1)
    (row,) = json.loads(done.stdout)
    assert row["messages"] == sum(
        one["messages"] or 0
        for one in json.loads(output("count", str(folder), "--on-corrupt", "skip", "--json", code=1))
    )
    (line,) = [line for line in said(done.stderr) if line.startswith(f"{row['topic']}: left out ")]
    assert "at byte 5242880" in line


def test_an_export_says_what_it_left_out_and_whether_its_folder_exists(
    java: Programs, golden_typed: Path, tmp_path: Path
) -> None:
    url, lake = bucket_with_schemas(golden_typed, tmp_path / "bucket").store.url, tmp_path / "lake"
    command = ("export", url, "--topic", "public/typed/type-changed", "--values", "typed", "--to", str(lake))
    ended = java.command(*command, code=1)
    (line,) = [line for line in said(ended.stderr) if line.startswith("ledgerfs: ")]
    assert "value of message" in line
    assert not list(lake.rglob("*.parquet"))
    assert "already exists" in java.command(*command, code=2).stderr.decode()
    shutil.rmtree(lake)
    done = java.command(*command, "--on-undecodable", "null", code=1)
    reported = [line for line in said(done.stderr) if "33 values are not decoded, the first in message" in line]
    assert len(reported) == 2
    assert said(done.stderr)[-1] == f"{lake}: 105 messages"
    table = pq.read_table(lake)
    assert table.num_rows == 105
    # Not INT96, which pyarrow would show as nanoseconds.
    assert table.schema.field("publish_time").type.unit == "us"


def test_ledgers_and_entries_that_an_export_skips_are_damage(java: Programs, tmp_path: Path) -> None:
    whole = frame(metadata(), b"value")
    (tmp_path / "bucket").mkdir()
    url, lake = put_in_folder(tmp_path / "bucket", offload([whole, whole[:-1] + b"?", whole])), tmp_path / "lake"
    command = ("export", url, "--to", str(lake), "--partition-by", "topic,date", "--on-corrupt", "skip")
    assert "persistent://public/default/orders: left out 1:1: " in java.command(*command, code=1).stderr.decode()
    assert pq.read_table(lake)["entry_id"].to_pylist() == [0, 2]
    (folder,) = (path.parent.relative_to(lake) for path in lake.rglob("*.parquet"))
    assert str(folder) == "topic=persistent%3A%2F%2Fpublic%2Fdefault%2Forders/date=1970-01-01"
    usage = java.command("export", url, "--to", str(tmp_path / "x"), "--values", "typed", code=2)
    assert "ledgerfs schemas save" in usage.stderr.decode()


def test_damage_that_a_task_meets_is_one_line_that_names_object_and_offset(
    java: Programs, golden: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "bucket"
    shutil.copytree(golden / "damaged" / "truncated-but-successful", folder)
    done = java.command("stats", str(folder), code=1)
    (line,) = said(done.stderr)
    assert line.startswith("ledgerfs: d5b0d817-e819-4bc6-8610-c87c1c7bd0e8-ledger-201 at byte ")
    assert done.stdout == b""


def test_a_bucket_that_does_not_exist_is_one_line(java: Programs) -> None:
    assert said(java.command("verify", "/not/there", code=3).stderr) == [
        "ledgerfs: file:///not/there: no such bucket or folder"
    ]


@pytest.mark.parametrize("home", ["", "/not/there"])
def test_without_java_it_is_said_what_to_install(golden_url: str, tmp_path: Path, home: str) -> None:
    env = {"JAVA_HOME": home, "PATH": str(tmp_path)}
    lines = run("spark", "verify", golden_url, code=2, env=env).stderr.decode().splitlines()
    assert len(lines) == 1
    assert "Java 17" in lines[0]


def test_without_pyspark_it_is_said_what_to_install_and_other_commands_work(golden_url: str) -> None:
    program = "import sys; sys.modules['pyspark'] = None; from ledgerfs.cli import main; main()"
    command = [sys.executable, "-c", program]
    done = subprocess.run([*command, "spark", "verify", golden_url], capture_output=True, timeout=1800, check=False)
    assert done.returncode == 2
    assert b"pip install '.[spark]' in a clone" in done.stderr
    assert b"Traceback" not in done.stderr
    for arguments in (["topics", golden_url], ["spark", "verify", "--help"], ["--help"]):
        subprocess.run([*command, *arguments], capture_output=True, timeout=1800, check=True)


def test_wrong_usage_is_reported_before_a_session_starts(golden_url: str) -> None:
    for arguments, reported in (
        (("stats", golden_url, "a/b/c", "--topics", ".*"), b"--topics"),
        (("stats", golden_url, "--by", "hour"), b"'hour' is not one of topic, day, producer"),
        (("catalog", golden_url, "--by", "day"), b"'day'"),
        (("verify", golden_url, "--conf", "nonsense"), b"'nonsense' is not KEY=VALUE"),
        (("verify", golden_url, "--master", "nonsense"), b"'nonsense' is not a master of Spark"),
        (("verify", ""), b"empty"),
        (("export", golden_url), b"--to"),
    ):
        done = run("spark", *arguments, code=2, env={"PATH": ""})
        assert reported in done.stderr
        assert b"Java" not in done.stderr


def test_ctrl_c_ends_jobs_and_session(plain_on_s3: str, proxy: FaultProxy) -> None:
    proxy.faults = [
        Fault("hang", matches=lambda method, path, headers: method == "GET" and path.endswith("-ledger-26"))
    ]
    arguments = ["spark", "verify", plain_on_s3, "-o", f"endpoint_url={proxy.endpoint}", *SMALL_SESSION]
    process = subprocess.Popen(
        [LEDGERFS, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A busy machine keeps the store waiting, which is no failure of it.
        env={**os.environ, **ENVIRONMENT, "LEDGERFS_STORE_TIMEOUT": "240"},
    )
    while not any(seen.method == "GET" and seen.path.endswith("-ledger-26") for seen in list(proxy.seen)):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=1800)
    assert process.returncode == 130, stderr.decode()
    assert stdout == b""
    assert said(stderr) == ["interrupted"], stderr.decode()


def test_a_session_that_cannot_start_is_one_line(java: Programs, golden_url: str) -> None:
    done = java.run(LEDGERFS, "spark", "catalog", golden_url, "--master", "local[nonsense]")
    (line,) = said(done.stderr)
    assert done.returncode == 2
    assert line.startswith("Error: cannot start Spark: ")
    assert "nonsense" in line

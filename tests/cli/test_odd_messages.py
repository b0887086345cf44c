"""Entries in Kafka's format, and times that no column holds, as users of commands meet them: named, and never with exit code 0."""

from pathlib import Path

import pytest

from tests.support.entries import frame, metadata
from tests.support.invoked import output, run
from tests.support.kafka_entries import kafka_entry
from tests.support.ledgers import CREATED_MS, offload, put_in_folder

NOW_NS = CREATED_MS * 1_000_000
ORDERS = "persistent://public/default/orders"
NAMED = b"entry 1:1: Kafka on Pulsar wrote it in Kafka's format (entry.format=kafka)"
TIME = f"{ORDERS}: 1 values are not decoded, the first in message 1:1 ({NOW_NS}): its event_time does not fit 64 bits"


def message(value: bytes, **fields: object) -> bytes:
    return frame(metadata(publish_time_ms=CREATED_MS, **fields), value)


@pytest.fixture
def kafka(tmp_path: Path) -> str:
    (tmp_path / "bucket").mkdir()
    entries = [message(b"before"), kafka_entry([b"a", b"b"], publish_time_ms=CREATED_MS), message(b"after")]
    return put_in_folder(tmp_path / "bucket", offload(entries))


@pytest.fixture
def nanoseconds(tmp_path: Path) -> str:
    (tmp_path / "bucket").mkdir()
    entries = [message(b"1", event_time_ms=CREATED_MS), message(b"2", event_time_ms=NOW_NS)]
    return put_in_folder(tmp_path / "bucket", offload(entries))


def test_commands_name_entries_of_kafka(kafka: str, tmp_path: Path) -> None:
    for arguments in (
        ("head", kafka, "orders"),
        ("count", kafka),
        ("export", kafka, "orders", str(tmp_path / "out"), "--format", "jsonl"),
        ("cat", kafka, "jsonl/public/default/orders/1.jsonl"),
    ):
        assert NAMED in run(*arguments, code=1).stderr
    assert "kafka-entries" in output("verify", kafka)


def test_commands_report_times_that_no_column_holds(nanoseconds: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for arguments in (
        ("head", nanoseconds, "orders"),
        ("head", nanoseconds, "orders", "--values", "json"),
        ("head", nanoseconds, "orders", "--json"),
        ("export", nanoseconds, "orders", out, "--format", "parquet"),
    ):
        assert TIME in run(*arguments, code=1).stderr.decode()
    assert (
        b"1 values were not decoded by earlier runs"
        in run("export", nanoseconds, "orders", out, "--format", "parquet", code=1).stderr
    )
    assert output("head", nanoseconds, "orders", "--columns", "value").count("\n  value ") == 2
    assert '"messages": 2' in output("count", "--json", nanoseconds)


def test_head_shows_times_that_python_has_not(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    times = {"+057742-": 1_760_000_000_000_000, "-000001-": -62_198_755_200_000, "1969-12-31T23:59:59.999Z": -1}
    entries = [message(b"", event_time_ms=time % 2**64) for time in times.values()]
    entries.append(frame(metadata(publish_time_ms=times["+057742-"]), b""))
    shown = output("head", put_in_folder(tmp_path / "bucket", offload(entries)), "orders")
    found = [line.split()[-1] for line in shown.splitlines() if "event_time" in line]
    assert [time.startswith(start) for time, start in zip(found, times, strict=True)] == [True] * len(times)
    assert "1:3  +057742-03-07T08:53:20.000Z" in shown

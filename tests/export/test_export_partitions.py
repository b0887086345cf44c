"""Partitioned topics exported: one folder, whose files never are another partition's, and never another topic's."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import InvalidOptionError, MissingLedgerError
from ledgerfs.export.export import ExportReport, export_topic
from ledgerfs.messages.decode.chunks import Incomplete
from tests.support.entries import frame, metadata
from tests.support.invoked import output, run
from tests.support.ledgers import CREATED_MS, NAME, offload, put_in_folder

TOPIC = "persistent://public/default/orders"
COMMIT = 21


def message(value: str, **fields: object) -> bytes:
    return frame(metadata(publish_time_ms=CREATED_MS, **fields), value.encode())


def put(folder: Path, partition: int | None, ledger_id: int, *entries: bytes, uuid: int = 0) -> Bucket:
    name = NAME if partition is None else f"{NAME}-partition-{partition}"
    folder.mkdir(exist_ok=True)
    made = offload(
        entries, ledger_id, uuid=uuid or 1000 * (2 + (-1 if partition is None else partition)) + ledger_id, name=name
    )
    return open_bucket(put_in_folder(folder, made))


def values(folder: Path) -> dict[str, list[str]]:
    """Return the values in each JSON-lines file."""
    return {
        path.name.removesuffix(".jsonl"): [json.loads(line)["value"] for line in path.read_bytes().splitlines()]
        for path in folder.iterdir()
        if not path.name.startswith(".")
    }


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """Two partitions with two ledgers each, of which two have one id, as where two clusters share a bucket."""
    folder = tmp_path / "tier"
    put(folder, 0, 5, message("0a"))
    put(folder, 0, 7, message("0b"), message("0c"))
    put(folder, 1, 5, frame(metadata(publish_time_ms=CREATED_MS - 1), b"1a"))
    put(folder, 1, 6, message("1b"))
    return folder


def bucket_of(tier: Path) -> Bucket:
    return open_bucket(f"file://{tier}")


FILES = {
    "5-partition-0": ["0a"],
    "7-partition-0": ["0b", "0c"],
    "5-partition-1": ["1a"],
    "6-partition-1": ["1b"],
}


def test_each_ledger_of_each_partition_has_a_file(tier: Path, tmp_path: Path) -> None:
    reported: list[tuple[str, int, int | None]] = []
    topic = bucket_of(tier).topic(TOPIC)
    report = export_topic(topic, tmp_path / "out", "jsonl", progress=lambda *one: reported.append(one))
    assert (report.topic, report.written, report.rows) == (TOPIC, 4, 5)
    assert values(tmp_path / "out") == FILES
    assert reported[-1] == (TOPIC, *[sum(ledger.length for ledger in topic.ledgers)] * 2)
    assert export_topic(bucket_of(tier).topic(TOPIC), tmp_path / "out", "jsonl") == ExportReport(TOPIC, kept=4)


def test_the_folder_is_a_data_set(golden_url: str, tmp_path: Path) -> None:
    topic = open_bucket(golden_url).topic("public/golden/partitioned")
    export_topic(topic, tmp_path / "out", "parquet")
    table = pq.read_table(tmp_path / "out")
    key = ["partition", "ledger_id", "entry_id", "batch_index"]
    rows = [table.select(key), topic.scan(key).to_arrow()]
    assert len({tuple(row.values()) for row in rows[1].to_pylist()}) == topic.count()
    ordered = [one.sort_by([(name, "ascending") for name in key]).to_pylist() for one in rows]
    assert ordered[0] == ordered[1]


def test_what_is_new_or_changed_is_made_and_the_rest_kept(tier: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_topic(bucket_of(tier).topic(TOPIC), out, "jsonl")
    put(tier, 0, 6, message("late"))
    put(tier, 12, 5, message("12a"))
    (tier / next(tier.glob("*-ledger-7-index")).name).unlink()
    next(tier.glob("*-ledger-7")).unlink()
    report = export_topic(bucket_of(tier).topic(TOPIC), out, "jsonl")
    assert (report.written, report.kept, report.held) == (2, 3, [])
    # Files of ledgers that are gone stay.
    assert values(out) == {**FILES, "6-partition-0": ["late"], "5-partition-12": ["12a"]}


def test_what_rows_depend_on_is_in_their_partition(tmp_path: Path) -> None:
    """A chunk and an outcome that come late change files of their own partition only, whatever the ids of the others' ledgers."""

    def part(number: int) -> bytes:
        return message(f"{number};", chunked_id=b"m", chunk=number, chunks=2)

    def transaction(value: str, **fields: object) -> bytes:
        return message(value, transaction_most=7, transaction_least=1, **fields)

    tier, out = tmp_path / "tier", tmp_path / "out"
    put(tier, 0, 1, message("0"), transaction("t"), part(0))
    put(tier, 1, 2, message("1"), transaction("u"), part(0))
    report = export_topic(bucket_of(tier).topic(TOPIC), out, "jsonl")
    assert report.incomplete == [Incomplete(1, 2, 1, 2), Incomplete(2, 2, 1, 2)]
    assert values(out) == {"1-partition-0": ["0"], "2-partition-1": ["1"]}
    put(tier, 0, 3, part(1), transaction("", marker_type=COMMIT))
    report = export_topic(bucket_of(tier).topic(TOPIC), out, "jsonl")
    assert (report.written, report.kept) == (2, 1)
    assert values(out) == {"1-partition-0": ["0", "t"], "3-partition-0": ["0;1;"], "2-partition-1": ["1"]}


def test_exports_of_one_partition_and_of_all_do_not_mix(tier: Path, tmp_path: Path) -> None:
    whole, single = bucket_of(tier).topic(TOPIC), bucket_of(tier).topic(f"{TOPIC}-partition-0")
    for number, (first, second) in enumerate([(whole, single), (single, whole)]):
        out = tmp_path / str(number)
        export_topic(first, out, "jsonl")
        before = values(out)
        with pytest.raises(InvalidOptionError, match="an export with other topic"):
            export_topic(second, out, "jsonl")
        assert values(out) == before
        export_topic(second, out, "jsonl", overwrite=True)
    assert values(tmp_path / "0") == {"5": ["0a"], "7": ["0b", "0c"]}
    assert values(tmp_path / "1") == FILES


def test_a_topic_of_the_same_name_without_partitions_does_not_mix_with_it(tier: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_topic(bucket_of(tier).topic(TOPIC), out, "jsonl")
    put(tier, None, 5, message("itself"))
    with pytest.raises(InvalidOptionError, match="an export with other partitions"):
        export_topic(bucket_of(tier).topic(TOPIC), out, "jsonl")
    export_topic(bucket_of(tier).topic(TOPIC), out, "jsonl", overwrite=True)
    assert values(out) == {"5": ["itself"]}


def test_a_partition_that_lacks_a_ledger_writes_nothing_of_any(tier: Path, tmp_path: Path) -> None:
    next(tier.glob("*-ledger-6")).unlink()
    with pytest.raises(MissingLedgerError):
        export_topic(bucket_of(tier).topic(TOPIC), tmp_path / "out", "jsonl")
    assert not (tmp_path / "out").exists()
    report = export_topic(bucket_of(tier).topic(TOPIC), tmp_path / "out", "jsonl", on_corrupt="skip")
    assert [one.ledger_id for one in report.missing] == [6]
    assert values(tmp_path / "out") == {name: rows for name, rows in FILES.items() if name != "6-partition-1"}


# As a user runs it.


def test_commands_take_a_partitioned_topic(tier: Path, tmp_path: Path) -> None:
    url = f"file://{tier}"
    assert b"4 files, 5 messages" in run("export", url, "orders", str(tmp_path / "out"), "--format", "jsonl").stderr
    assert values(tmp_path / "out") == FILES
    lines = output("head", "-n", "3", url, "orders", "--order", "publish_time", "--columns", "value").splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == ["5:0", "5:0", "7:0"]
    lines = [line.split()[:3] for line in output("count", url, "orders").splitlines()]
    assert lines[1:] == [[TOPIC, "5", "5"], ["total", "5", "5"]]
    (found,) = json.loads(output("count", url, "orders", "orders-partition-1", "public/default/orders", "--json"))
    assert (found["name"], found["messages"], found["entries"]) == (TOPIC, 5, 5)
    names = [one["name"] for one in json.loads(output("count", url, "--json"))]
    assert names == [one["name"] for one in json.loads(output("topics", url, "--json"))]
    assert names == [f"{TOPIC}-partition-{number}" for number in range(2)]

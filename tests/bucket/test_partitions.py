"""A bucket cut into parts: whatever the size of a part, all of them together are the bucket, each row once."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.partition_plan import PartitionPlan, plan_partitions, within
from ledgerfs.bucket.partitions import Partition
from ledgerfs.bucket.wanted_topics import wanted_ledgers
from ledgerfs.catalog.ledger_times import TimeRange
from ledgerfs.errors import InvalidOptionError, NotFoundError, StaleObjectError
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.scans import scan_of_run

SIZES = [1, 3 << 20, 64 << 20, 1 << 30]
OPTIONS: dict[str, Any] = {"on_encrypted": "null"}


def sent(plan: PartitionPlan) -> Iterator[Partition]:
    return (pickle.loads(pickle.dumps(partition)) for partition in plan)


def read(bucket: Bucket, plan: PartitionPlan, **options: Any) -> dict[str, pa.Table]:
    """Read all parts as processes would that know nothing but them."""
    found: dict[str, list[pa.Table]] = {}
    for partition in sent(plan):
        for run in partition.runs:
            found.setdefault(run.topic, []).append(scan_of_run(run, bucket, **options).to_arrow())
    return {topic: pa.concat_tables(tables) for topic, tables in found.items()}


@pytest.fixture(scope="module")
def tables(bucket: Bucket) -> dict[str, pa.Table]:
    """The rows of each topic, read as one."""
    return {info.name: bucket.topic(info.name).scan(**OPTIONS).to_arrow() for info in bucket.topics()}


def require_topics(golden: Path, plan: PartitionPlan, tables: dict[str, pa.Table]) -> None:
    found = read(open_bucket(str(golden / "bucket")), plan, **OPTIONS)
    assert found.keys() == tables.keys()
    assert [name for name, table in tables.items() if not found[name].equals(table)] == []


@pytest.mark.parametrize(("size", "most"), [*((size, None) for size in SIZES), (1, 3), (1 << 22, 16)])
def test_parts_are_the_topics(
    bucket: Bucket, golden: Path, tables: dict[str, pa.Table], size: int, most: int | None
) -> None:
    require_topics(golden, plan_partitions(bucket.catalog, wanted_ledgers(bucket.catalog), size, most=most), tables)


def test_large_ledgers_are_cut_and_small_ones_lie_together(bucket: Bucket) -> None:
    catalog = bucket.catalog
    wanted = wanted_ledgers(catalog)
    blocks = int(catalog.ledgers["cuts"][wanted].sum())
    assert len(plan_partitions(catalog, wanted, 1)) == blocks
    assert len(plan_partitions(catalog, wanted, 1 << 40)) == 1
    assert len(plan_partitions(catalog, np.zeros_like(wanted))) == 0
    plan = plan_partitions(catalog, wanted, 16 << 20)
    assert plan.bytes == pytest.approx(int(catalog.ledgers["stored"][wanted].sum()), rel=0.01)
    for size, most in ((1, 1), (1, 3), (1 << 16, 7), (1 << 22, 16)):
        assert most // 2 < len(plan_partitions(catalog, wanted, size, most=most)) <= most
    assert [pickle.dumps(one) for one in plan] == [
        pickle.dumps(one) for one in plan_partitions(catalog, wanted, 16 << 20)
    ]


def test_a_gap_between_ledgers_ends_a_run(bucket: Bucket) -> None:
    name = next(info.name for info in bucket.topics() if info.ledgers > 2)
    wanted = wanted_ledgers(bucket.catalog, [name])
    rows = np.flatnonzero(wanted)
    wanted[rows[1]] = False
    (partition,) = plan_partitions(bucket.catalog, wanted, 1 << 40)
    ids = bucket.catalog.ledgers["ledger_id"][wanted].tolist()
    assert [ref.ledger_id for run in partition.runs for ref in run.refs] == ids
    assert len(partition.runs) == 2


def test_names(bucket: Bucket, tmp_path: Path) -> None:
    catalog = bucket.catalog
    plain = wanted_ledgers(catalog, ["persistent://public/golden/plain"])
    assert plain.any()
    assert (wanted_ledgers(catalog, ["public/golden/plain"]) == plain).all()
    assert (wanted_ledgers(catalog, pattern="public/golden/pla[i]n") == plain).all()
    assert (wanted_ledgers(catalog, pattern="persistent://.*/plain") == plain).all()
    with pytest.raises(NotFoundError, match="nothing: no ledger"):
        wanted_ledgers(catalog, ["persistent://public/golden/nothing"])
    with pytest.raises(NotFoundError, match="no topic"):
        wanted_ledgers(catalog, pattern="plain")
    with pytest.raises(InvalidOptionError, match="regular expression"):
        wanted_ledgers(catalog, pattern="(")
    with pytest.raises(InvalidOptionError, match="either"):
        wanted_ledgers(catalog, ["a"], "b")
    with pytest.raises(InvalidOptionError, match="byte"):
        plan_partitions(catalog, plain, 0)


def test_a_partitioned_topic_is_all_its_partitions(tmp_path: Path) -> None:
    for number, partition in enumerate([0, 1, 10]):
        name = f"public/default/persistent/orders-partition-{partition}"
        put_in_folder(tmp_path, offload([frame(metadata(), b"x")], number, name=name))
    put_in_folder(tmp_path, offload([frame(metadata(), b"x")], 7, name="public/default/persistent/orders-partition-x"))
    catalog = open_bucket(str(tmp_path)).catalog
    assert catalog.ledgers["ledger_id"][wanted_ledgers(catalog, ["public/default/orders"])].tolist() == [0, 1, 2]
    assert wanted_ledgers(catalog, ["public/default/orders-partition-1"]).sum() == 1


def test_ledgers_outside_the_range_are_not_planned(tmp_path: Path) -> None:
    hour = 3_600_000
    for number in range(10):
        at = CREATED_MS + number * hour
        entry = frame(metadata(publish_time_ms=at + 1), b"x")
        put_in_folder(tmp_path, offload([entry], number, created_ms=at))
    catalog = open_bucket(str(tmp_path)).catalog
    wanted = wanted_ledgers(catalog)

    def ids(start: int | None, end: int | None) -> list[int]:
        found = within(catalog, wanted, TimeRange(start, end))
        return catalog.ledgers["ledger_id"][found].tolist()

    assert ids(None, None) == list(range(10))
    assert ids(CREATED_MS + 4 * hour, None) == [3, 4, 5, 6, 7, 8, 9]
    assert ids(None, CREATED_MS + 2 * hour) == [0, 1, 2]
    assert ids(CREATED_MS + 2 * hour + hour // 2, CREATED_MS + 3 * hour) == [2, 3]


def transactional(tmp_path: Path, ledgers: int) -> None:
    """A topic whose first message is of a transaction that ends many ledgers later."""
    of_transaction = {"transaction_most": 1, "transaction_least": 2}
    put_in_folder(tmp_path, offload([frame(metadata(**of_transaction), b"first")], 0))
    for number in range(1, ledgers - 1):
        put_in_folder(tmp_path, offload([frame(metadata(), b"x")], number))
    put_in_folder(tmp_path, offload([frame(metadata(**of_transaction, marker_type=21), b"")], ledgers - 1))


def test_an_outcome_far_behind_is_found(tmp_path: Path) -> None:
    transactional(tmp_path, 9)
    bucket = open_bucket(str(tmp_path))
    plan = plan_partitions(bucket.catalog, wanted_ledgers(bucket.catalog), 1)
    first = next(sent(plan)).runs[0]
    assert scan_of_run(first, open_bucket(str(tmp_path)), columns=["value"]).to_arrow()["value"].to_pylist() == [
        b"first"
    ]


def test_what_was_offloaded_since_changes_nothing(tmp_path: Path) -> None:
    """Parts of one plan are read at different times, and must see the same outcomes."""
    transactional(tmp_path, 6)
    marker = next(tmp_path.glob("*-ledger-5")), next(tmp_path.glob("*-ledger-5-index"))
    contents = [path.read_bytes() for path in marker]
    for path in marker:
        path.unlink()
    bucket = open_bucket(str(tmp_path))
    first = next(sent(plan_partitions(bucket.catalog, wanted_ledgers(bucket.catalog), 1))).runs[0]
    for path, data in zip(marker, contents, strict=True):
        path.write_bytes(data)
    assert scan_of_run(first, open_bucket(str(tmp_path)), columns=["value"]).to_arrow().num_rows == 0


def test_a_ledger_that_came_between_others_since_is_not_taken_for_one_of_them(tmp_path: Path) -> None:
    chunks = [frame(metadata(chunked_id=b"m", chunk=i, chunks=2), b"%d" % i) for i in range(2)]
    for number, entry in enumerate([chunks[0], *[frame(metadata(), b"x")] * 5, chunks[1]]):
        put_in_folder(tmp_path, offload([entry], 10 * number, uuid=number))
    bucket = open_bucket(str(tmp_path))
    *_, last = sent(plan_partitions(bucket.catalog, wanted_ledgers(bucket.catalog), 1))
    assert scan_of_run(last.runs[0], open_bucket(str(tmp_path))).to_arrow()["value"].to_pylist() == [b"01"]
    put_in_folder(tmp_path, offload([frame(metadata(), b"late")], 5, uuid=99))
    with pytest.raises(StaleObjectError, match="plan the read again"):
        scan_of_run(last.runs[0], open_bucket(str(tmp_path))).to_arrow()


def test_old_ledgers_may_go_and_needed_ones_are_missed(tmp_path: Path) -> None:
    transactional(tmp_path, 9)
    bucket = open_bucket(str(tmp_path))
    plan = list(sent(plan_partitions(bucket.catalog, wanted_ledgers(bucket.catalog), 1)))
    for path in tmp_path.glob("*-ledger-6*"):
        path.unlink()
    with pytest.raises(StaleObjectError, match="plan the read again"):
        scan_of_run(plan[0].runs[0], open_bucket(str(tmp_path))).to_arrow()
    assert scan_of_run(plan[1].runs[0], open_bucket(str(tmp_path))).to_arrow().num_rows == 1

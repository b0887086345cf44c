"""Repairs beside ledgers of the filesystem offloader: a complete copy is one in whatever layout, and nothing is made beside it unseen."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import StaleObjectError
from ledgerfs.repair import RepairPlan, plan_repair
from ledgerfs.storage.folders.writes import LocalWrites
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.verification import verify
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, NAME, Offload, offload
from tests.support.mapfile_buckets import MadeMapFile, mapfile, put_file, put_mapfiles
from tests.support.mapfiles import MapFileWriter
from tests.support.s3 import S3Server

TOPIC = "persistent://public/default/orders"
OTHER = "public/default/persistent/others"
UUID = 99
LAYOUTS = ["auto", "pulsar_blob"]


def entries(whose: bytes, count: int = 10) -> list[bytes]:
    """Entries of as many bytes, whoever they are of."""
    return [
        frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i), b"%b%04d" % (whose, i)) for i in range(count)
    ]


MINE, THEIRS = entries(b"M"), entries(b"T")


def offloaded(made: Offload) -> tuple[str, str]:
    data = f"{made.uuid}-ledger-{made.ledger_id}"
    return data, f"{data}-index"


def bucket_of(
    folder: Path, data: bytes | None, index: bytes | None, *beside: MadeMapFile, made: Offload | None = None
) -> str:
    """Write one offloaded ledger of the given objects, and MapFiles, all as if long ago."""
    keys = offloaded(made or offload(MINE, 2, uuid=UUID))
    for key, content in zip(keys, (data, index), strict=True):
        if content is not None:
            put_file(folder / key, content)
    return put_mapfiles(folder, *beside)


def planned(url: str, layout: str = "auto", **options: Any) -> RepairPlan:
    return plan_repair(open_bucket(url, layout=layout), topic=TOPIC, ledgers=[2], **options)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


def values(url: str) -> set[bytes]:
    table = open_bucket(url).topic(TOPIC).scan(columns=["value"]).to_arrow()
    return {bytes(value)[:1] for value in table["value"].to_pylist()}


def done(plan: RepairPlan) -> list[str]:
    outcomes = list(plan.carry_out())
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    return [outcome.repair.action_name for outcome in outcomes]


def damage(url: str) -> list[str]:
    return [one.kind for one in verify(open_bucket(url)).findings if one.severity.value == "damage"]


# --- what is left alone, and why


def torn(made: MadeMapFile) -> MadeMapFile:
    """Return a ledger with a damaged entry."""
    data = bytearray(made.data)
    data[len(data) // 2] ^= 0xFF
    return replace(made, data=bytes(data))


WHOLE = offload(MINE, 2, uuid=UUID)
SAME = mapfile(MINE, 2)
CURIOUS = replace(SAME, data=SAME.data.replace(b"DefaultCodec", b"CuriousCodec"))
"""Of a codec that nobody here knows: it may be whole."""
NOT_10 = "no complete copy of this ledger with 10 entries"
KEPT: dict[str, tuple[bytes | None, bytes | None, MadeMapFile, list[str], str]] = {
    "other bytes": (WHOLE.data, None, mapfile(THEIRS, 2), LAYOUTS, "differ from those of the complete copy {copy}/data"),
    "more than the copy": (WHOLE.data, None, mapfile(MINE[:9], 2), LAYOUTS, ""),
    "a damaged copy": (
        WHOLE.data, None, torn(mapfile(MINE, 2, writer=MapFileWriter(block_bytes=100))), ["auto"], "cannot be compared with the copy",
    ),
    "what may be a copy": (WHOLE.data, None, CURIOUS, ["auto"], "{copy}/data may be a copy of this ledger"),
    "an index for other bytes": (
        WHOLE.data, b"nonsense", mapfile(THEIRS, 2), LAYOUTS, "differ from those of the complete copy {copy}/data",
    ),
    "data of a copy that is not read": (WHOLE.data, None, SAME, ["pulsar_blob"], "not read here"),
    "an index of a copy that is not read": (None, WHOLE.index, SAME, ["pulsar_blob"], "not read here"),
    "fewer entries": (None, WHOLE.index, mapfile(MINE[:9], 2), ["auto"], NOT_10),
    "another creation": (None, WHOLE.index, mapfile(MINE, 2, created_ms=CREATED_MS + 1), ["auto"], NOT_10),
}  # fmt: skip
"""The objects of the offloaded ledger, the copy beside them, the layouts that are read, and the reason that is told."""


@for_each("what", KEPT)
def test_what_a_copy_does_not_prove_is_left_alone(what: str, case_path: Path) -> None:
    data, index, copy, layouts, reported = KEPT[what]
    folder = case_path
    url = bucket_of(folder, data, index, copy)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for layout in layouts:
        plan = planned(url, layout)
        assert plan.to_do == []
        reasons = [item.reason for item in plan.left if item.severity.value == "damage"]
        assert any(reported.format(copy=copy.folder) in reason for reason in reasons), reasons
        assert list(plan.carry_out()) == []
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


# --- data objects without an index


@pytest.mark.parametrize(("count", "block_size"), [(10, 1 << 20), (10, 300), (7, 1 << 20)])
def test_data_that_is_all_in_such_a_copy_is_deleted(count: int, block_size: int, tmp_path: Path) -> None:
    made = offload(MINE[:count], 2, uuid=UUID, block_size=block_size)
    url = bucket_of(tmp_path, made.data, None, mapfile(MINE, 2))
    plan = planned(url)
    assert done(plan) == ["delete-data"]
    assert (names(tmp_path), values(url), damage(url)) == (set(), {b"M"}, [])


def test_the_ledger_of_another_topic_is_no_copy(tmp_path: Path) -> None:
    """Two clusters may share a bucket, and user metadata, or here an index that was damaged, tells whose the data is."""
    made = offload(MINE, 2, uuid=UUID)
    url = bucket_of(tmp_path, made.data, made.index[:-1], mapfile(THEIRS, 2, name=OTHER))
    assert done(planned(url)) == ["replace-index"]
    assert values(url) == {b"M"}


# --- unreadable indexes, and indexes without data


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_unreadable_index_is_replaced_beside_an_equal_copy(layout: str, tmp_path: Path) -> None:
    url = bucket_of(tmp_path, WHOLE.data, b"nonsense", SAME)
    assert done(planned(url, layout)) == ["replace-index"]
    assert (values(url), damage(url)) == ({b"M"}, [])


@pytest.mark.parametrize("has_index", [True, False])
def test_an_index_without_data_is_deleted_beside_such_a_copy(has_index: bool, tmp_path: Path) -> None:
    copy = mapfile(MINE, 2)
    url = bucket_of(tmp_path, None, offload(MINE, 2, uuid=UUID).index, copy)
    if not has_index:
        (tmp_path / copy.folder / "index").unlink()
    plan = planned(url)
    assert done(plan) == ["delete-index"]
    assert f"{copy.folder}/data" in plan.to_do[0].reason
    assert (names(tmp_path), values(url)) == (set(), {b"M"})


# --- what comes, changes and goes between plan and repair


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("index", [None, b"nonsense"])
def test_a_copy_that_comes_after_the_plan_is_seen(index: bytes | None, layout: str, tmp_path: Path) -> None:
    made = offload(MINE, 2, uuid=UUID)
    plan = planned(bucket_of(tmp_path, made.data, index), layout)
    assert len(plan.to_do) == 1
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    put_mapfiles(tmp_path, mapfile(THEIRS, 2))
    (outcome,) = plan.carry_out()
    assert isinstance(outcome.error, StaleObjectError)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("index", [None, b"nonsense"])
def test_a_copy_that_comes_while_the_index_is_put_is_seen(
    index: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = offload(MINE, 2, uuid=UUID)
    url = bucket_of(tmp_path, made.data, index)
    plan, put = planned(url), LocalWrites.put

    def put_beside(self: LocalWrites, key: str, data: bytes, user_metadata: Any) -> ObjectStat:
        put_mapfiles(tmp_path, mapfile(THEIRS, 2))
        return put(self, key, data, user_metadata)

    monkeypatch.setattr(LocalWrites, "put", put_beside)
    (outcome,) = plan.carry_out()
    assert isinstance(outcome.error, StaleObjectError)
    data_key, index_key = offloaded(made)
    assert names(tmp_path) == ({data_key} if index is None else {data_key, index_key})
    assert index is None or (tmp_path / index_key).read_bytes() == index


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_known_ledger_that_becomes_another_is_seen(is_changed: bool, tmp_path: Path) -> None:
    made, known = offload(MINE, 2, uuid=UUID), mapfile(THEIRS, 2, name=OTHER, last_entry=11)
    plan = planned(bucket_of(tmp_path, made.data, made.index[:-1], known))
    if is_changed:
        put_mapfiles(tmp_path, mapfile(THEIRS, 2, name=OTHER), at=None)
    (outcome,) = plan.carry_out()
    assert isinstance(outcome.error, StaleObjectError) is is_changed


def gone(folder: Path, copy: MadeMapFile) -> None:
    shutil.rmtree(folder / copy.folder)


def replaced(folder: Path, copy: MadeMapFile) -> None:
    put_file(folder / copy.folder / "data", mapfile(THEIRS, 2).data, at=None)


@pytest.mark.parametrize("change", [gone, replaced])
@pytest.mark.parametrize("lost", ["index", "data"])
def test_nothing_is_deleted_when_the_copy_goes(
    lost: str, change: Callable[[Path, MadeMapFile], None], tmp_path: Path
) -> None:
    made, copy = offload(MINE, 2, uuid=UUID), mapfile(MINE, 2)
    left = (made.data, None) if lost == "index" else (None, made.index)
    plan = planned(bucket_of(tmp_path, *left, copy))
    before = names(tmp_path)
    change(tmp_path, copy)
    (outcome,) = plan.carry_out()
    assert isinstance(outcome.error, StaleObjectError)
    assert names(tmp_path) == before


# --- user metadata


@pytest.mark.parametrize("has_copy", [True, False])
def test_a_ledger_of_no_known_topic_is_not_named_as_one_that_is_there(
    has_copy: bool, s3: S3Server, s3_bucket: str
) -> None:
    nameless, copy = offload(MINE, 2, uuid=UUID, name=None), mapfile(THEIRS, 2)
    for key, data in {**nameless.objects, **(copy.objects if has_copy else {})}.items():
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
    plan = plan_repair(open_bucket(f"s3://{s3_bucket}", s3.options), topic=TOPIC, ledgers=[2])
    assert len(plan.to_do) == (0 if has_copy else 2)
    assert not plan_repair(open_bucket(f"s3://{s3_bucket}", s3.options), ledgers=[2]).to_do
    if has_copy:
        assert {
            f"the topic of `--topic` has another ledger 2: {copy.folder}/data" in item.reason for item in plan.left
        } == {True}


def test_nor_as_one_that_the_same_repair_makes(s3: S3Server, s3_bucket: str) -> None:
    nameless, lost = offload(MINE, 2, uuid=UUID, name=None), offload(THEIRS, 2, uuid=UUID + 1)
    reported = {"role": "data", "managedledgername": NAME, "s3managedledgeroffloaderformatversion": "1"}
    for key, data in nameless.objects.items():
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
    s3.client.put_object(Bucket=s3_bucket, Key=offloaded(lost)[0], Body=lost.data, Metadata=reported)
    plan = plan_repair(open_bucket(f"s3://{s3_bucket}", s3.options), topic=TOPIC, ledgers=[2], older_than_s=0)
    assert [item.action_name for item in plan.to_do] == ["rebuild-index"]
    assert len([item for item in plan.left if f"another ledger 2: {offloaded(lost)[0]}" in item.reason]) == 2

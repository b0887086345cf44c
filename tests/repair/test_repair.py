"""What repair mends, that verify finds nothing afterwards, and above all what it leaves alone."""

import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import AccessDeniedError, InvalidNameError, StoreError, StoreUnreachableError
from ledgerfs.formats.pulsar_blob.block import BLOCK_HEADER_BYTES, BlockHeader, build_block_header, build_padding
from ledgerfs.formats.pulsar_blob.index import OffloadIndex, parse_index
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.layouts.pulsar_blob.repairs.data_walk import metadata_left_in
from ledgerfs.repair import Repair, RepairPlan, plan_repair
from ledgerfs.storage.folders.writes import LocalWrites
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.verification import verify
from tests.support.entries import frame, metadata
from tests.support.ledgers import NAME, Offload, offload, put_in_folder, record
from tests.support.s3 import Fault, FaultProxy, S3Server

TOPIC = "persistent://public/default/orders"
OLD_S = 3 * 86400
VERSION_KEY = "s3managedledgeroffloaderformatversion"


def data_key(made: Offload) -> str:
    return f"{made.uuid}-ledger-{made.ledger_id}"


def index_key(made: Offload) -> str:
    return f"{data_key(made)}-index"


def entry(number: int, size: int = 30, whose: str = "") -> bytes:
    """An entry with a checksum, as Pulsar's clients write it."""
    return frame(metadata(sequence_id=number, producer_name=f"p{whose}".encode()), f"{number:0{size}}".encode())


def entries(count: int = 40, whose: str = "") -> list[bytes]:
    return [entry(i, whose=whose) for i in range(count)]


def aged(folder: Path, age_s: float = OLD_S) -> str:
    then = time.time() - age_s
    for path in folder.iterdir():
        os.utime(path, (then, then))
    return f"file://{folder}"


def state_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def planned(url: str, **options: Any) -> RepairPlan:
    return plan_repair(open_bucket(url), **options)


def summary(plan: RepairPlan) -> list[tuple[str, str, str | None]]:
    return [(item.kind, item.action_name, item.key) for item in plan.items]


def only(plan: RepairPlan) -> Repair:
    (item,) = plan.items
    return item


def carried_out(plan: RepairPlan) -> list[str]:
    outcomes = list(plan.carry_out())
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    return [outcome.repair.action_name for outcome in outcomes]


def damage_left(url: str, options: dict[str, Any] | None = None) -> list[str]:
    report = verify(open_bucket(url, options))
    return [finding.kind for finding in report.findings if finding.severity.value == "damage"]


def only_data(folder: Path, made: Offload, data: bytes | None = None) -> str:
    (folder / data_key(made)).write_bytes(made.data if data is None else data)
    return aged(folder)


def orphaned(folder: Path, data: bytes) -> Repair:
    """Return what is said of a lone data object whose topic the user names."""
    made = offload([b"x"])
    return only(planned(only_data(folder, made, data), topic=TOPIC))


# --- a bucket without damage


@pytest.mark.long
def test_a_whole_bucket_on_s3_needs_nothing(s3_golden: str, s3: S3Server) -> None:
    seen: list[tuple[str, int, int | None]] = []
    plan = plan_repair(open_bucket(s3_golden, s3.options), progress=lambda *reported: seen.append(reported))
    assert plan.items == ()
    assert ("reading user metadata", 104, 104) in seen


# --- lost indexes


def records_of(bucket: Bucket, ledger_id: int) -> bytes:
    ledger = bucket.ledger(ledger_id)
    return bytes(ledger.records().read(0, ledger.records_size))


def test_all_golden_data_objects_walk_whole(golden: Path, tmp_path: Path) -> None:
    bucket = open_bucket(f"file://{golden}/bucket")
    for ref in bucket.catalog.refs():
        (tmp_path / ref.object("data").key).symlink_to(golden / "bucket" / ref.object("data").key)
    plan = plan_repair(open_bucket(str(tmp_path), {"follow_links": True}), topic="a/b/c", older_than_s=0)
    assert [item.action_name for item in plan.items] == ["rebuild-index"] * bucket.catalog.ledgers.size
    contents = {item.action.key.index_key: parse_index(item.action.content) for item in plan.items}  # type: ignore[union-attr]
    for ref in bucket.catalog.refs():
        index, rebuilt = bucket.reader(ref).index, contents[ref.object("index").key]
        assert (rebuilt.blocks, rebuilt.data_length) == (index.blocks, index.data_length)
        reported = rebuilt.metadata.length, rebuilt.metadata.last_entry, rebuilt.metadata.created_ms
        assert reported == (ref.length, ref.last_entry, None)


def test_an_index_is_rebuilt_only_when_the_topic_is_known(tmp_path: Path) -> None:
    made = offload(entries(), block_size=1000)
    url = only_data(tmp_path, made)
    item = only(planned(url))
    assert (item.action_name, item.severity.value, item.topic) == ("nothing", "damage", None)
    assert "its topic is unknown" in item.reason
    plan = planned(url, topic=TOPIC)
    assert (only(plan).action_name, only(plan).topic) == ("rebuild-index", TOPIC)
    assert carried_out(plan) == ["rebuild-index"]
    assert damage_left(url) == []
    bucket = open_bucket(url)
    assert bucket.ledger(1, topic=TOPIC).index.blocks == parse_index(made.index).blocks
    assert records_of(bucket, 1) == made.records
    assert planned(url).items == ()


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    damaged_bucket(tmp_path)
    url = aged(tmp_path)
    before = state_of(tmp_path)
    assert planned(url, topic=TOPIC).to_do
    assert state_of(tmp_path) == before


@pytest.mark.parametrize("block_size", [1000, 1 << 20])
def test_an_object_that_is_cut_anywhere_is_never_a_ledger(block_size: int, tmp_path: Path) -> None:
    made = offload(entries(), block_size=block_size)
    borders = set(range(130)) | {len(made.data) - i for i in range(1, 60)}
    for block in parse_index(made.index).blocks[1:]:
        borders |= {block.offset + i for i in (-4, -3, -2, -1, 0, 1, 4, 12, 20, 27, 28, 127, 128, 129, 140, 141)}
    for cut in sorted(border for border in borders if 0 < border < len(made.data)):
        item = orphaned(tmp_path, made.data[:cut])
        assert item.action_name == "nothing", cut
        assert item.severity.value == "damage"


def test_an_object_that_is_cut_behind_a_full_block_is_never_a_ledger(tmp_path: Path) -> None:
    # Ten entries fill a block to the last byte.
    one = entry(0)
    size = BLOCK_HEADER_BYTES + 10 * (12 + len(one))
    made = offload(entries(40), block_size=size)
    assert len(made.data) == 4 * size
    item = orphaned(tmp_path, made.data[: 3 * size])
    assert item.action_name == "nothing"
    assert "full to the last byte" in item.reason
    # Nor can the whole of it be told from one that was cut.
    assert "full to the last byte" in orphaned(tmp_path, made.data).reason
    assert orphaned(tmp_path, offload(entries(39), block_size=size).data).action_name == "rebuild-index"


def test_a_single_block_that_is_as_large_as_blocks_may_be_is_believed_only_with_its_number_of_parts(
    s3: S3Server, s3_bucket: str
) -> None:
    size = 5 << 20
    data = build_block_header(BlockHeader(BLOCK_HEADER_BYTES, size, 0)) + record(0, b"x" * (size - 140))
    names = {VERSION_KEY: "1", "managedledgername": NAME}
    one, other = offload([b"x"], 1, uuid=1), offload([b"x"], 2, uuid=2)
    s3.client.put_object(Bucket=s3_bucket, Key=data_key(one), Body=data, Metadata=names)
    upload = s3.client.create_multipart_upload(Bucket=s3_bucket, Key=data_key(other), Metadata=names)
    known = {"Bucket": s3_bucket, "Key": data_key(other), "UploadId": upload["UploadId"]}
    part = s3.client.upload_part(**known, PartNumber=1, Body=data)
    s3.client.complete_multipart_upload(**known, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    plan = plan_repair(open_bucket(f"s3://{s3_bucket}", s3.options), older_than_s=0)
    assert {item.ledger_id: item.action_name for item in plan.items} == {1: "nothing", 2: "rebuild-index"}


def test_gaps_repeated_entries_and_foreign_bytes_are_never_a_ledger(tmp_path: Path) -> None:
    made = offload(entries(), block_size=1000)
    first = 12 + len(entry(0))
    blocks = parse_index(made.index).blocks
    spoilt = {
        "a gap": made.data[:128] + record(1, entry(0)) + made.data[128 + first :],
        "a repeated entry": made.data[: 128 + first] + record(0, entry(1)) + made.data[128 + 2 * first :],
        "a block that is missing": made.data[: blocks[1].offset] + made.data[blocks[2].offset :],
        "the first block missing": made.data[blocks[1].offset :],
        "something appended": made.data + b"\0",
        "padding appended": made.data + build_padding(4),
        "another block appended": made.data + made.data[:1000],
        "wrong padding": made.data[: blocks[1].offset - 1] + b"\0" + made.data[blocks[1].offset :],
        "no block": b"hello" * 100,
    }
    for what, data in spoilt.items():
        assert orphaned(tmp_path, data).action_name == "nothing", what


@pytest.mark.long
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bit=st.integers(0, 8 * 4000 - 1))
def test_a_flipped_bit_is_never_rebuilt_wrongly(bit: int, tmp_path: Path) -> None:
    made = offload(entries(), block_size=1000)
    bit %= 8 * len(made.data)
    data = bytearray(made.data)
    data[bit // 8] ^= 1 << bit % 8
    item = orphaned(tmp_path, bytes(data))
    if item.action_name == "nothing":
        return
    # Two bits of each entry say that a checksum follows; without them there is nothing to compare (docs/operating/verify.md).
    at = bit // 8
    assert at in magics(made)
    assert parse_index(item.action.content).blocks == parse_index(made.index).blocks  # type: ignore[union-attr]


def magics(made: Offload) -> set[int]:
    found = {made.data.find(record(i, one)) + 12 for i, one in enumerate(entries())}
    return found | {at + 1 for at in found}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40), block_size=st.integers(460, 2000))
def test_any_ledger_is_rebuilt_as_it_was(sizes: list[int], block_size: int, tmp_path: Path) -> None:
    made = offload([b"\xfe\xdc\xde\xad"[: size % 5] * (size // 4) for size in sizes], block_size=block_size)
    index = parse_index(made.index)
    item = orphaned(tmp_path, made.data)
    if item.action_name == "nothing":
        assert "full to the last byte" in item.reason
        return
    rebuilt: OffloadIndex = parse_index(item.action.content)  # type: ignore[union-attr]
    assert (rebuilt.blocks, rebuilt.data_length) == (index.blocks, index.data_length)
    assert rebuilt.metadata.length == index.metadata.length
    assert rebuilt.metadata.last_entry == index.metadata.last_entry


def test_the_ledger_that_pulsar_lost_is_not_rebuilt_without_its_index(golden: Path, tmp_path: Path) -> None:
    (data,) = (path for path in (golden / "damaged/truncated-but-successful").iterdir() if "index" not in path.name)
    (tmp_path / data.name).write_bytes(data.read_bytes())
    item = only(planned(aged(tmp_path), topic=TOPIC))
    assert item.action_name == "nothing"
    assert "the entries from 5 on did not fit a block" in item.reason


def test_another_index_of_the_same_ledger_is_believed_when_it_reports_of_more(tmp_path: Path) -> None:
    longer, shorter = offload(entries(40), uuid=1), offload(entries(39), uuid=2)
    (tmp_path / index_key(longer)).write_bytes(longer.index)
    url = only_data(tmp_path, shorter)
    plan = planned(url, topic=TOPIC)
    assert plan.to_do == []
    assert any("this ledger has 40 entries of" in item.reason for item in plan.items)


def test_no_index_is_made_of_what_changed_since_the_plan(tmp_path: Path) -> None:
    made, came = offload(entries()), offload(entries()[:1], uuid=2)
    for change, reason in (
        ({index_key(made): made.index}, "already exists"),
        ({data_key(made): made.data[:-1]}, "was replaced"),
        (came.objects, ""),
    ):
        plan = planned(only_data(tmp_path, made), topic=TOPIC)
        for key, data in change.items():
            (tmp_path / key).write_bytes(data)
        before = {name: data for name, (data, _) in state_of(tmp_path).items()}
        (outcome,) = plan.carry_out()
        assert outcome.error is not None, change.keys()
        assert reason in str(outcome.error)
        assert {name: data for name, (data, _) in state_of(tmp_path).items()} == before
        for key in before:
            (tmp_path / key).unlink()


def test_a_data_object_that_is_replaced_while_its_index_is_put_loses_that_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = offload(entries())
    plan = planned(only_data(tmp_path, made), topic=TOPIC)
    put = LocalWrites.put

    def put_and_replace(self: LocalWrites, key: str, data: bytes, metadata: Any) -> ObjectStat:
        stat = put(self, key, data, metadata)
        (tmp_path / data_key(made)).write_bytes(b"other")
        return stat

    monkeypatch.setattr(LocalWrites, "put", put_and_replace)
    (outcome,) = plan.carry_out()
    assert outcome.error is not None
    assert [path.name for path in tmp_path.iterdir()] == [data_key(made)]


# --- orphans that are garbage


def test_an_orphan_beside_a_complete_copy_is_deleted_when_all_of_it_is_there(tmp_path: Path) -> None:
    copy = offload(entries(), uuid=1, block_size=1000)
    url = put_in_folder(tmp_path, copy)
    wholes = [offload(entries(), uuid=10 + i, block_size=size) for i, size in enumerate((1000, 700, 1 << 20))]
    for made in wholes:
        (tmp_path / data_key(made)).write_bytes(made.data)
    cuts = {20 + cut: copy.data[:cut] for cut in (1, 100, 128, 129, 200, 1000, 1001, 1500, len(copy.data) - 1)}
    for uuid, data in cuts.items():
        (tmp_path / data_key(offload([b"x"], uuid=uuid))).write_bytes(data)
    # An offload whose next entry did not fit a block, and which went on with larger ones later.
    stopped = offload(entries(30), uuid=30, block_size=900)
    blocks = parse_index(stopped.index).blocks[:2]
    oversized = build_block_header(BlockHeader(BLOCK_HEADER_BYTES, 900, blocks[1].first_entry)) + build_padding(
        900 - 128
    )
    (tmp_path / data_key(stopped)).write_bytes(stopped.data[: blocks[1].offset] + oversized)
    aged(tmp_path)
    plan = planned(url)
    assert {item.action_name for item in plan.items} == {"delete-data"}
    assert len(plan.items) == len(wholes) + len(cuts) + 1
    carried_out(plan)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(copy.objects)
    assert damage_left(url) == []


@pytest.mark.parametrize("block_size", [1000, 1 << 20])
@pytest.mark.parametrize("at", [-1, 700, 128, 132, 5, 127])
def test_an_orphan_that_differs_in_one_byte_is_kept(at: int, block_size: int, tmp_path: Path) -> None:
    copy = offload([b"x" * 50] * 40, uuid=1, block_size=1000)
    orphan = offload([b"x" * 50] * 40, uuid=2, block_size=block_size)
    put_in_folder(tmp_path, copy)
    data = bytearray(orphan.data)
    data[at] ^= 1
    item = only(planned(only_data(tmp_path, orphan, bytes(data))))
    assert (item.action_name, item.severity.value) == ("nothing", "damage")
    if block_size == 1000 and at == -1:
        assert f"at byte {len(data) - 1}" in item.reason


def test_an_orphan_that_has_more_than_the_copy_is_kept(tmp_path: Path) -> None:
    copy, orphan = offload(entries(39), uuid=1), offload(entries(40), uuid=2)
    put_in_folder(tmp_path, copy)
    assert only(planned(only_data(tmp_path, orphan))).action_name == "nothing"
    assert only(planned(only_data(tmp_path, orphan, copy.data + b"!"))).action_name == "nothing"


def test_an_orphan_is_kept_when_the_copy_is_not_complete(tmp_path: Path) -> None:
    copy, orphan = offload(entries(), uuid=1), offload(entries(), uuid=2)
    put_in_folder(tmp_path, copy)
    (tmp_path / data_key(copy)).write_bytes(copy.data[:-1])
    plan = planned(only_data(tmp_path, orphan, orphan.data[:500]))
    assert plan.to_do == []
    assert {item.kind for item in plan.items} == {"data-without-index", "short-object"}


def test_young_orphans_are_left_alone(tmp_path: Path) -> None:
    copy, orphan, empty = offload(entries(), uuid=1), offload(entries(), uuid=2), offload(entries(), 9, uuid=3)
    put_in_folder(tmp_path, copy)
    only_data(tmp_path, orphan)
    only_data(tmp_path, empty, b"")
    url = aged(tmp_path, 3600)
    plan = planned(url)
    assert [(item.action_name, item.severity.value) for item in plan.items] == [("nothing", "remark")] * 2
    assert "60 min old" in plan.items[0].reason
    assert [item.action_name for item in planned(url, older_than_s=1800).items] == ["delete-data"] * 2
    aged(tmp_path, -3600)  # of a clock that is ahead
    assert planned(url).to_do == []


def test_objects_without_an_entry_are_garbage_and_what_only_looks_so_is_not(tmp_path: Path) -> None:
    header = build_block_header(BlockHeader(BLOCK_HEADER_BYTES, 5000, 0))
    assert orphaned(tmp_path, header + build_padding(5000 - 128)).action_name == "delete-data"
    assert orphaned(tmp_path, b"").action_name == "delete-data"
    for data in (
        header,
        header + build_padding(5000 - 129),
        header + build_padding(5000 - 128) + b"\0",
        header + build_padding(5000 - 140) + b"\0" * 12,
        header + record(0, b"y") + build_padding(5000 - 141),
        build_block_header(BlockHeader(BLOCK_HEADER_BYTES, 5000, 1)) + build_padding(5000 - 128),
        build_padding(5000),
    ):
        assert orphaned(tmp_path, data).action_name == "nothing", data[:200]


def test_the_ledger_of_another_cluster_with_the_same_id_is_kept(s3: S3Server, s3_bucket: str) -> None:
    theirs = offload(entries(whose="theirs"), 7, uuid=1, name="a/b/persistent/theirs")
    ours = offload(entries(whose="ours"), 7, uuid=2, name="a/b/persistent/ours")
    again = offload(entries(whose="again"), 7, uuid=3, name="a/b/persistent/theirs")
    alike = offload(entries(whose="theirs"), 7, uuid=4, name="a/b/persistent/alike")
    names = {one.uuid: one for one in (ours, again, alike)}
    for key, data in theirs.objects.items():
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data, Metadata={VERSION_KEY: "1"})
    for made, name in ((ours, "ours"), (again, "theirs"), (alike, "alike")):
        reported = {VERSION_KEY: "1", "ManagedLedgerName": f"a/b/persistent/{name}", "pulsarClusterName": "west"}
        s3.client.put_object(Bucket=s3_bucket, Key=data_key(made), Body=made.data, Metadata=reported)
    url = f"s3://{s3_bucket}"
    plan = plan_repair(open_bucket(url, s3.options), older_than_s=0, topic="x/y/z")
    found = {names[str(item.key)[:36]].uuid: item.action_name for item in plan.items}
    # Of another topic, and whole: not garbage, but ledgers that lost their indexes, even one with the same bytes.
    assert found == {ours.uuid: "rebuild-index", again.uuid: "nothing", alike.uuid: "rebuild-index"}
    carried_out(plan)
    bucket = open_bucket(url, s3.options)
    assert bucket.ledger(7, topic="persistent://a/b/ours").read(0, 0)[0].data == entry(0, whose="ours")
    written = s3.client.head_object(Bucket=s3_bucket, Key=index_key(ours))["Metadata"]
    assert (written["role"], written["pulsarclustername"]) == ("index", "west")


def test_an_orphan_is_kept_when_its_index_or_the_copy_changes_meanwhile(tmp_path: Path) -> None:
    copy, orphan = offload(entries(), uuid=1), offload(entries(), uuid=2)

    def fresh() -> RepairPlan:
        put_in_folder(tmp_path, copy)
        (tmp_path / index_key(orphan)).unlink(missing_ok=True)
        plan = planned(only_data(tmp_path, orphan))
        assert only(plan).action_name == "delete-data"
        return plan

    for change in (
        lambda: (tmp_path / index_key(orphan)).write_bytes(orphan.index),
        lambda: (tmp_path / data_key(orphan)).write_bytes(orphan.data),
        lambda: (tmp_path / data_key(copy)).write_bytes(copy.data[:-1]),
        (tmp_path / data_key(copy)).unlink,
        (tmp_path / index_key(copy)).unlink,
    ):
        plan = fresh()
        change()
        (outcome,) = plan.carry_out()
        assert outcome.error is not None
        assert (tmp_path / data_key(orphan)).read_bytes() == orphan.data
    assert carried_out(fresh()) == ["delete-data"]


def test_of_orphans_that_differ_none_becomes_the_ledger(tmp_path: Path) -> None:
    ours, theirs = offload(entries(), uuid=1), offload(entries(whose="theirs"), uuid=2)
    (tmp_path / data_key(ours)).write_bytes(ours.data)
    plan = planned(only_data(tmp_path, theirs), topic=TOPIC, ledgers=[1])
    assert plan.to_do == []
    for item in plan.left:
        assert item.severity.value == "damage"
        assert all(data_key(made) in item.reason for made in (ours, theirs))
        assert "--ledger 1" in item.reason
    (tmp_path / data_key(theirs)).unlink()
    assert carried_out(planned(f"file://{tmp_path}", topic=TOPIC, ledgers=[1])) == ["rebuild-index"]


def test_of_orphans_with_the_same_bytes_one_becomes_the_ledger(tmp_path: Path) -> None:
    one, other = offload(entries(), uuid=1), offload(entries(), uuid=2)
    (tmp_path / data_key(one)).write_bytes(one.data)
    url = only_data(tmp_path, other)
    assert carried_out(planned(url, topic=TOPIC)) == ["rebuild-index"]
    aged(tmp_path)
    assert carried_out(planned(url, topic=TOPIC)) == ["delete-data"]
    assert damage_left(url) == []


def test_an_unreadable_index_is_not_replaced_beside_a_copy_with_other_entries(tmp_path: Path) -> None:
    copy, other = offload(entries(), uuid=1), offload(entries(whose="z"), uuid=2)
    put_in_folder(tmp_path, copy, offload(entries(whose="y"), uuid=2))
    (tmp_path / index_key(other)).write_bytes(b"nonsense")
    plan = planned(aged(tmp_path), topic=TOPIC)
    assert plan.to_do == []
    assert any("complete copy" in item.reason for item in plan.left)


# --- indexes without data


def test_an_index_without_data_is_deleted_only_beside_a_complete_copy_that_says_the_same(tmp_path: Path) -> None:
    copy, same = offload(entries(), 1, uuid=1), offload(entries(), 1, uuid=2)
    shorter = offload(entries(39), 1, uuid=3)
    other = offload(entries(), 1, uuid=4, name="a/b/persistent/other")
    nameless = offload(entries(), 1, uuid=5, name=None)
    alone = offload(entries(), 2, uuid=6)
    of_no_name_either = offload(entries(), 1, uuid=7, name=None)
    url = put_in_folder(tmp_path, copy, same, shorter, other, nameless, alone, of_no_name_either)
    for made in (same, shorter, other, nameless, alone):
        (tmp_path / data_key(made)).unlink()
    aged(tmp_path, 60)
    assert planned(url).to_do == []
    plan = planned(aged(tmp_path))
    assert [item.key for item in plan.to_do] == [index_key(same)]
    assert {item.key: item.severity.value for item in plan.left} == {
        index_key(made): "damage" for made in (shorter, other, nameless, alone)
    }
    assert carried_out(plan) == ["delete-index"]
    assert not (tmp_path / index_key(same)).exists()
    assert (tmp_path / index_key(shorter)).exists()


def test_an_index_whose_data_comes_back_meanwhile_is_kept(tmp_path: Path) -> None:
    copy, same = offload(entries(), uuid=1), offload(entries(), uuid=2)
    url = put_in_folder(tmp_path, copy, same)
    (tmp_path / data_key(same)).unlink()
    aged(tmp_path)
    plan = planned(url)
    (tmp_path / data_key(same)).write_bytes(same.data)
    (outcome,) = plan.carry_out()
    assert "was created" in str(outcome.error)
    assert (tmp_path / index_key(same)).exists()


# --- unreadable indexes


def damages(index: bytes) -> dict[str, bytes]:
    return {
        "nothing left": b"",
        "zeros": b"\0" * len(index),
        "wrong magic": b"XXXX" + index[4:],
        "blocks cut off": index[:-7],
        "metadata cut off": index[:60],
        "blocks out of order": index[:-20] + b"\xff" * 20,
    }


@pytest.mark.parametrize("what", list(damages(b"")))
def test_an_index_that_does_not_parse_is_replaced(what: str, tmp_path: Path) -> None:
    made = offload(entries(), block_size=1000)
    url = put_in_folder(tmp_path, made)
    damaged = damages(made.index)[what]
    (tmp_path / index_key(made)).write_bytes(damaged)
    plan = planned(aged(tmp_path), topic=TOPIC)
    assert summary(plan) == [("unreadable-index", "replace-index", index_key(made))]
    assert carried_out(plan) == ["replace-index"]
    assert damage_left(url) == []
    index = open_bucket(url).ledger(1, topic=TOPIC).index
    assert index.blocks == parse_index(made.index).blocks
    # Where the ledger's metadata can still be read, all of it stays.
    is_known = metadata_left_in(damaged) is not None
    assert is_known == (what in {"wrong magic", "blocks cut off", "blocks out of order"})
    assert (index.metadata.created_ms is not None) == is_known
    if is_known:
        assert (tmp_path / index_key(made)).read_bytes() == made.index


def test_an_unreadable_index_stays_when_the_data_object_is_not_whole(tmp_path: Path) -> None:
    made = offload(entries(), block_size=1000)
    put_in_folder(tmp_path, made)
    (tmp_path / index_key(made)).write_bytes(b"XXXX" + made.index[4:])
    for data in (made.data[:-1], made.data[:1000], b"", None):
        (tmp_path / data_key(made)).unlink()
        if data is not None:
            (tmp_path / data_key(made)).write_bytes(data)
        item = only(planned(aged(tmp_path), topic=TOPIC))
        assert (item.action_name, item.severity.value) == ("nothing", "damage")
    # Whole, but shorter than what is left of the index tells.
    (tmp_path / data_key(made)).write_bytes(offload(entries(39), block_size=1000).data)
    item = only(planned(aged(tmp_path), topic=TOPIC))
    assert "the readable part of the index has 40" in item.reason


def test_an_index_that_parses_is_never_replaced(tmp_path: Path) -> None:
    made = offload(entries())
    put_in_folder(tmp_path, made)
    (tmp_path / index_key(made)).write_bytes(made.index + b"!")
    item = only(planned(aged(tmp_path), topic=TOPIC))
    assert (item.kind, item.action_name) == ("odd-index", "nothing")
    assert "this cannot be repaired" in item.reason


def test_the_old_index_is_put_back_when_the_new_one_cannot_be_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = offload(entries())
    put_in_folder(tmp_path, made)
    (tmp_path / index_key(made)).write_bytes(b"damaged")
    put, calls = LocalWrites.put, []

    def fail_once(self: LocalWrites, key: str, data: bytes, metadata: Any) -> ObjectStat:
        calls.append(key)
        if len(calls) == 1:
            raise StoreError("the disk is full", key=key)
        return put(self, key, data, metadata)

    plan = planned(aged(tmp_path), topic=TOPIC)
    monkeypatch.setattr(LocalWrites, "put", fail_once)
    (outcome,) = plan.carry_out()
    assert "the disk is full" in str(outcome.error)
    assert (tmp_path / index_key(made)).read_bytes() == b"damaged"

    def fail(self: LocalWrites, key: str, data: bytes, metadata: Any) -> ObjectStat:
        raise StoreError("the disk is full", key=key)

    plan = planned(aged(tmp_path), topic=TOPIC)
    monkeypatch.setattr(LocalWrites, "put", fail)
    (outcome,) = plan.carry_out()
    assert "nor the old one" in str(outcome.error)
    monkeypatch.setattr(LocalWrites, "put", put)
    assert carried_out(planned(aged(tmp_path), topic=TOPIC)) == ["rebuild-index"]


def test_an_index_of_the_streaming_offloader_or_another_software_is_left_alone(s3: S3Server, s3_bucket: str) -> None:
    streaming, other = offload(entries(), 1, uuid=1), offload(entries(), 2, uuid=2)
    foreign = {VERSION_KEY: "aws-sdk-s3-1"}
    for made in (streaming, other):
        s3.client.put_object(Bucket=s3_bucket, Key=data_key(made), Body=made.data, Metadata=foreign)
    body = (0x3D1FB0BC).to_bytes(4, "big") + bytes(100)
    s3.client.put_object(Bucket=s3_bucket, Key=index_key(streaming), Body=body, Metadata={VERSION_KEY: "1"})
    s3.client.put_object(Bucket=s3_bucket, Key=index_key(other), Body=b"its own", Metadata=foreign)
    plan = plan_repair(open_bucket(f"s3://{s3_bucket}", s3.options), older_than_s=0, topic=TOPIC)
    assert plan.to_do == []
    assert len(plan.items) == 2
    assert all("left alone" in item.reason for item in plan.items)


# --- user metadata


def test_user_metadata_that_was_dropped_is_restored_and_only_that(s3: S3Server, s3_bucket: str) -> None:
    lost, half, foreign, whole = (offload(entries(3), i, uuid=i) for i in (1, 2, 3, 4))
    reported = {
        lost: {},
        half: {"pulsarclustername": "west", "mine": "kept"},
        foreign: {VERSION_KEY: "aws-sdk-s3-1"},
        whole: {VERSION_KEY: "1"},
    }
    for made, names in reported.items():
        for key, data in made.objects.items():
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data, Metadata=names)
    url = f"s3://{s3_bucket}"
    assert plan_repair(open_bucket(url, s3.options), metadata=False).items == ()
    plan = plan_repair(open_bucket(url, s3.options))
    assert {item.key for item in plan.to_do} == {*lost.objects, *half.objects}
    assert {item.key for item in plan.left} == set(foreign.objects)
    assert carried_out(plan) == ["restore-metadata"] * 4
    now = {
        key: s3.client.head_object(Bucket=s3_bucket, Key=key)["Metadata"] for made in reported for key in made.objects
    }
    assert now[data_key(lost)][VERSION_KEY] == "1"
    assert now[data_key(lost)]["managedledgername"] == NAME
    assert (now[data_key(lost)]["role"], now[index_key(lost)]["role"]) == ("data", "index")
    assert now[index_key(half)]["pulsarclustername"] == "west"
    assert now[index_key(half)]["mine"] == "kept"
    assert now[data_key(whole)] == reported[whole]
    assert now[data_key(foreign)] == reported[foreign]
    for made in reported:
        for key, data in made.objects.items():
            assert s3.client.get_object(Bucket=s3_bucket, Key=key)["Body"].read() == data
    s3.client.delete_objects(Bucket=s3_bucket, Delete={"Objects": [{"Key": key} for key in foreign.objects]})
    assert damage_left(url, s3.options) == []


def test_an_orphan_that_lost_its_user_metadata_too_gets_both(s3: S3Server, s3_bucket: str) -> None:
    made = offload(entries(3), 5)
    s3.client.put_object(Bucket=s3_bucket, Key=data_key(made), Body=made.data)
    url = f"s3://{s3_bucket}"
    plan = plan_repair(open_bucket(url, s3.options), older_than_s=0, topic=TOPIC, ledgers=[5])
    assert carried_out(plan) == ["rebuild-index", "restore-metadata"]
    assert damage_left(url, s3.options) == []
    assert plan_repair(open_bucket(url, s3.options), ledgers=[5]).items == ()


def test_a_garbage_orphan_goes_before_its_copy_is_changed(s3: S3Server, s3_bucket: str) -> None:
    copy, orphan = offload(entries(3), uuid=1), offload(entries(3), uuid=2)
    for key, data in {**copy.objects, data_key(orphan): orphan.data}.items():
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
    plan = plan_repair(open_bucket(f"s3://{s3_bucket}", s3.options), older_than_s=0)
    assert carried_out(plan) == ["delete-data", "restore-metadata", "restore-metadata"]


def test_metadata_of_an_object_that_is_replaced_meanwhile_stays(s3: S3Server, s3_bucket: str) -> None:
    made = offload(entries(3))
    for key, data in made.objects.items():
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
    plan = plan_repair(open_bucket(f"s3://{s3_bucket}", s3.options))
    s3.client.put_object(Bucket=s3_bucket, Key=data_key(made), Body=b"other")
    outcomes = {outcome.repair.key: outcome.error for outcome in plan.carry_out()}
    assert "was replaced" in str(outcomes[data_key(made)])
    assert outcomes[index_key(made)] is None


# --- what uploads left behind


def test_unfinished_uploads_of_pulsars_are_ended_and_others_are_left(s3: S3Server, s3_bucket: str) -> None:
    made = offload(entries())
    for key in (data_key(made), "backup.tar"):
        s3.client.create_multipart_upload(Bucket=s3_bucket, Key=key)
    url = f"s3://{s3_bucket}"
    # moto says of every upload that it began in 2010.
    years = 40 * 365 * 86400
    assert plan_repair(open_bucket(url, s3.options), older_than_s=years).to_do == []
    plan = plan_repair(open_bucket(url, s3.options))
    assert {item.key: item.action_name for item in plan.items} == {
        data_key(made): "abort-upload",
        "backup.tar": "nothing",
    }
    assert plan_repair(open_bucket(url, s3.options), ledgers=[99]).items == ()
    carried_out(plan)
    left = s3.client.list_multipart_uploads(Bucket=s3_bucket)["Uploads"]
    assert [upload["Key"] for upload in left] == ["backup.tar"]


def test_unfinished_files_of_a_folder_are_removed(tmp_path: Path) -> None:
    made = offload(entries())
    part = tmp_path / f".{data_key(made)}.{'0' * 32}.part"
    part.write_bytes(b"half")
    url = aged(tmp_path, 60)
    assert planned(url).to_do == []
    plan = planned(aged(tmp_path))
    assert carried_out(plan) == ["abort-upload"]
    assert list(tmp_path.iterdir()) == []


def test_parts_of_google_cloud_storage_are_deleted_if_they_are_blocks(tmp_path: Path) -> None:
    made = offload(entries(), block_size=1000)
    block = made.data[:1000]
    uuid = "0" * 8 + "-0000-0000-0000-" + "0" * 12
    contents = {f"{uuid}_00000001": block, f"{uuid}_00000002": block[:-1], f"{uuid}_00000003": b"mine"}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    url = aged(tmp_path, 60)
    assert planned(url).to_do == []
    plan = planned(aged(tmp_path))
    assert [item.key for item in plan.to_do] == [f"{uuid}_00000001"]
    assert carried_out(plan) == ["delete-part"]
    assert len(list(tmp_path.iterdir())) == 2


# --- all of it


def damaged_bucket(folder: Path) -> None:
    """One of each kind."""
    kinds = [offload(entries(), i, uuid=i, block_size=1000) for i in range(1, 8)]
    put_in_folder(folder, *kinds)
    lost_index, unreadable, lost_data, short, copy = kinds[:5]
    (folder / index_key(lost_index)).unlink()
    (folder / index_key(unreadable)).write_bytes(unreadable.index[:-1])
    (folder / data_key(lost_data)).unlink()
    (folder / data_key(short)).write_bytes(short.data[:-1])
    orphan = offload(entries(), copy.ledger_id, uuid=20, block_size=700)
    (folder / data_key(orphan)).write_bytes(orphan.data)
    (folder / index_key(offload(entries(), copy.ledger_id, uuid=21))).write_bytes(copy.index)
    (folder / f".{data_key(orphan)}.{'a' * 32}.part").write_bytes(b"half")
    (folder / "notes.txt").write_text("mine")


def test_a_bucket_with_damage_of_every_kind_is_mended_as_far_as_it_can_be(tmp_path: Path) -> None:
    damaged_bucket(tmp_path)
    url = aged(tmp_path)
    assert verify(open_bucket(url), quick=True).is_damaged
    plan = planned(url, topic=TOPIC)
    assert sorted(carried_out(plan)) == [
        "abort-upload", "delete-data", "delete-index", "rebuild-index", "replace-index",
    ]  # fmt: skip
    # The second one is of `LedgerCheck`, about the same object.
    assert set(damage_left(url)) == {"index-without-data", "short-object", "damaged-records"}
    again = planned(url, topic=TOPIC)
    assert again.to_do == []
    assert {item.kind for item in again.left} == {"index-without-data", "short-object"}
    assert (tmp_path / "notes.txt").exists()


def test_one_that_fails_keeps_none_of_the_others_from_being_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledgers = [offload(entries(3), i, uuid=i) for i in (1, 2, 3)]
    for made in ledgers:
        only_data(tmp_path, made, b"")
    delete = LocalWrites.delete

    def refuse_one(self: LocalWrites, key: str) -> None:
        if key == data_key(ledgers[1]):
            raise AccessDeniedError("no", key=key)
        delete(self, key)

    monkeypatch.setattr(LocalWrites, "delete", refuse_one)
    bucket = open_bucket(f"file://{tmp_path}")
    outcomes = list(plan_repair(bucket).carry_out())
    assert sum(isinstance(outcome.error, AccessDeniedError) for outcome in outcomes) == 1
    assert [path.name for path in tmp_path.iterdir()] == [data_key(ledgers[1])]
    assert fragments_of(bucket.catalog).orphans.size == 1  # listed again


def test_a_name_that_is_no_topic_is_reported_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InvalidNameError):
        planned(str(tmp_path / "nowhere"), topic="non-persistent://a/b/c")


@pytest.mark.long
def test_objects_that_may_not_be_looked_at_and_a_store_that_goes_away_end_it(
    s3: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = offload(entries(3))
    names = {VERSION_KEY: "1", "managedledgername": NAME}
    s3.client.put_object(Bucket=s3_bucket, Key=data_key(made), Body=made.data, Metadata=names)
    proxy = FaultProxy(s3.address).start()
    try:
        options = {**proxy.options, "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1}}
        url = f"s3://{s3_bucket}"
        proxy.faults = [Fault("403", matches=lambda method, path, headers: method == "HEAD")]
        with pytest.raises(AccessDeniedError, match="ledgerfs writes nothing until it can be read"):
            plan_repair(open_bucket(url, options), older_than_s=0)
        proxy.faults = [Fault("403", matches=lambda method, path, headers: "uploads" in path)]
        plan = plan_repair(open_bucket(url, options), older_than_s=0)
        assert [(item.kind, item.action_name) for item in plan.items] == [
            ("data-without-index", "rebuild-index"),
            ("unfinished-upload", "nothing"),
        ]
        proxy.faults = [Fault("reset", matches=lambda method, path, headers: method == "HEAD")]
        monkeypatch.setenv("LEDGERFS_STORE_TIMEOUT", "8")
        with pytest.raises(StoreUnreachableError):
            plan_repair(open_bucket(url, options), older_than_s=0)
    finally:
        proxy.stop()


@pytest.mark.long
def test_large_objects_are_compared_and_walked_in_bounded_memory(tmp_path: Path) -> None:
    large = [os.urandom(1 << 20)] * 96
    copy, orphan = offload(large, uuid=1, block_size=8 << 20), offload(large, uuid=2, block_size=5 << 20)
    lone = offload(large, 2, uuid=3, block_size=8 << 20)
    put_in_folder(tmp_path, copy)
    for made in (orphan, lone):
        (tmp_path / data_key(made)).write_bytes(made.data)
    url = aged(tmp_path)
    planned(url, topic=TOPIC)
    tracemalloc.start()
    plan = planned(url, topic=TOPIC)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sorted(item.action_name for item in plan.items) == ["delete-data", "rebuild-index"]
    assert peak < 80 << 20


# --- small things

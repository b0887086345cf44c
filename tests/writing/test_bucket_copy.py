"""Offloading from one bucket into another: identical trees, resumed, and what is damaged named and left behind."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import CorruptLedgerError, InvalidOptionError, LedgerExistsError, RefusedLedgerError
from ledgerfs.formats.pulsar_blob.index import build_index, parse_index
from ledgerfs.messages.transforms.unbatch import unbatch
from ledgerfs.verification.verify import verify
from ledgerfs.vfs.tree import tree_of
from ledgerfs.writing.bucket_copy import CopiedLedger, CopyOptions, CopyOutcome, copy_rows, rows_to_copy
from ledgerfs.writing.claims import IfExists
from ledgerfs.writing.own_ids import new_own_id
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, Offload, offload, put_in_folder
from tests.support.s3 import S3Server
from tests.support.s3_log import changes, requests_of

MIB = 1 << 20
SOME_TOPICS = ["blocks", "batched-lz4", "plain"]


def managed(*topics: str) -> list[str | None]:
    return [f"public/golden/persistent/{topic}" for topic in topics]


def copy(
    source: Bucket, target: Bucket, topics: list[str | None] | None = None, progress: Any = None, **options: Any
) -> list[CopiedLedger]:
    chosen = CopyOptions(**options)
    all_copies = not (chosen.new_uuid or chosen.first_ledger_id is not None)
    rows = rows_to_copy(source.catalog, topics, all_copies=all_copies)
    found = list(copy_rows(source, target, rows, chosen, progress))
    wanted = [source.catalog.ref(int(row)) for row in rows]
    # Those that failed are told at once, and all others, in order, when they are looked at again.
    failed = {one.source.object("data").key for one in found if one.outcome is CopyOutcome.FAILED}
    assert sorted(one.source.object("data").key for one in found) == sorted(ref.object("data").key for ref in wanted)
    assert [one.source for one in found if one.error is None] == [one for one in wanted if one.key not in failed]
    target.refresh()
    return found


def outcomes(found: list[CopiedLedger]) -> dict[int, CopyOutcome]:
    assert all((one.error is not None) == (one.outcome is CopyOutcome.FAILED) for one in found)
    return {one.source.ledger_id: one.outcome for one in found}


def objects_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rows_of(bucket: Bucket, topic: str) -> list[dict[str, Any]]:
    table = bucket.topic(topic).scan(on_encrypted="null", include_markers=True, transactions="all").to_arrow()
    return table.drop_columns(["ledger_id", "entry_id", "batch_index"]).to_pylist()


def places_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what changes when a file is written, or replaced."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}


def new_target(folder: Path) -> tuple[Path, Bucket]:
    """Return the folder of an empty bucket in the folder of one case of many, and that bucket."""
    (folder / "target").mkdir()
    return folder / "target", open_bucket(str(folder / "target"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


@pytest.fixture
def target(folder: Path) -> Bucket:
    return open_bucket(str(folder))


@pytest.fixture
def golden_bucket(golden_url: str) -> Bucket:
    return open_bucket(golden_url)


def source_of(tmp_path: Path, *made: Offload) -> Bucket:
    folder = tmp_path / "source"
    folder.mkdir(exist_ok=True)
    return open_bucket(put_in_folder(folder, *made))


def test_a_whole_bucket_is_the_same_and_a_second_time_nothing_is_done(
    golden: Path, golden_bucket: Bucket, target: Bucket, folder: Path
) -> None:
    reported: list[tuple[int, int | None]] = []
    found = copy(golden_bucket, target, progress=lambda _, done, total: reported.append((done, total)))
    assert set(outcomes(found).values()) == {CopyOutcome.COPIED}
    assert len(found) == 104
    assert all((one.ledger_id, one.uuid) == (one.source.ledger_id, one.source.uuid) for one in found)
    assert objects_in(folder) == objects_in(golden / "bucket")
    size = sum(ref.records_size for ref in golden_bucket.catalog.refs())
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)
    assert reported[-1] == (size, size)

    before = places_of(folder)
    reported.clear()
    again = copy(golden_bucket, target, progress=lambda _, done, total: reported.append((done, total)))
    assert set(outcomes(again).values()) == {CopyOutcome.SKIPPED}
    assert places_of(folder) == before
    assert reported[-1] == (size, size)


@pytest.mark.long
@pytest.mark.parametrize("prefix", ["", "/some/folder"])
def test_on_s3_it_is_the_same_with_its_user_metadata(
    prefix: str, golden: Path, s3: S3Server, s3_golden: str, s3_bucket: str
) -> None:
    source = open_bucket(s3_golden, s3.options)
    target = open_bucket(f"s3://{s3_bucket}{prefix}", s3.options)
    topics = managed(*SOME_TOPICS)
    found = copy(source, target, topics)
    assert set(outcomes(found).values()) == {CopyOutcome.COPIED}
    for one in found:
        for key in (one.source.object("data").key, one.source.object("index").key):
            name = f"{prefix}/{key}".lstrip("/")
            answer, original = (
                s3.client.get_object(Bucket=bucket, Key=at) for bucket, at in ((s3_bucket, name), ("golden", key))
            )
            assert answer["Body"].read() == (golden / "bucket" / key).read_bytes()
            assert answer["Metadata"] == original["Metadata"]
        blocks = s3.client.head_object(Bucket=s3_bucket, Key=f"{prefix}/{one.source.object('data').key}".lstrip("/"))[
            "ETag"
        ]
        assert blocks.endswith(f'-{one.source.cuts}"')
    with requests_of(s3_bucket) as seen:
        again = copy(source, open_bucket(f"s3://{s3_bucket}{prefix}", s3.options), topics)
    assert set(outcomes(again).values()) == {CopyOutcome.SKIPPED}
    assert changes(seen) == []
    assert {finding.kind for finding in verify(target).findings} <= {"unsaved-schemas"}


def test_a_text_is_one_topic_and_an_empty_list_is_none(golden_bucket: Bucket, folder: Path) -> None:
    url = f"file://{folder}"
    for nothing in ([], (), ""):
        with pytest.raises(InvalidOptionError, match="the list of topics is empty"):
            copy_ledgers(golden_bucket, url, topics=nothing)
    assert not folder.exists() or not any(folder.iterdir())
    plain = golden_bucket.topic("public/golden/plain")
    assert copy_ledgers(golden_bucket, url, topics="public/golden/plain").copied == len(plain.ledgers)
    assert [one.name for one in open_bucket(url).topics()] == [plain.name]


# Other blocks, other payloads


@pytest.mark.parametrize("block_size", [7 * MIB, 64 * MIB])
def test_larger_blocks_have_the_same_entries(block_size: int, golden_bucket: Bucket, target: Bucket) -> None:
    copy(golden_bucket, target, managed("blocks", "plain"), block_size=block_size)
    for ledger_id in (42, 99, 26):
        path = f"entries/public/golden/{'plain' if ledger_id == 26 else 'blocks'}/{ledger_id}.entries"
        opened = [tree_of(bucket).open(path) for bucket in (golden_bucket, target)]
        assert opened[0].read(0, opened[0].size) == opened[1].read(0, opened[1].size)
    offsets = [block.offset for block in target.ledger(42).index.blocks]
    assert offsets == ([0, block_size] if block_size == 7 * MIB else [0])
    assert not verify(target).is_damaged


def test_entries_that_fit_no_smaller_block_are_named(golden_bucket: Bucket, target: Bucket, folder: Path) -> None:
    found = copy(golden_bucket, target, managed("blocks", "plain"), block_size=2000)
    assert {one.ledger_id for one in found if one.outcome is CopyOutcome.FAILED} == {42, 99}
    for one in found:
        if one.error is not None:
            assert isinstance(one.error, RefusedLedgerError)
            assert "docs/formats/pulsar-blob.md" in str(one.error)
            assert one.source.uuid in str(one.error)
    assert len(objects_in(folder)) == 6


@pytest.mark.long
def test_unbatched_copies_have_the_same_messages_in_new_ledgers(
    golden_bucket: Bucket, target: Bucket, tmp_path: Path
) -> None:
    first = new_own_id([golden_bucket.catalog, target.catalog])
    found = copy(golden_bucket, target, transform=unbatch(), first_ledger_id=first)
    assert set(outcomes(found).values()) == {CopyOutcome.COPIED}
    assert [one.ledger_id for one in found] == list(range(first, first + 104))
    assert all(one.uuid not in {ref.uuid for ref in golden_bucket.catalog.refs()} for one in found)
    for topic in golden_bucket.topics():
        assert rows_of(target, topic.name) == rows_of(golden_bucket, topic.name)
    assert not verify(target).is_damaged
    (tmp_path / "empty").mkdir()
    empty = open_bucket(f"file://{tmp_path / 'empty'}")
    with pytest.raises(RefusedLedgerError, match="changes the ids of entries"):
        raise next(one.error for one in copy(golden_bucket, empty, managed("plain"), transform=unbatch(), new_uuid=True,
                                             if_exists=IfExists.NEW_COPY) if one.error)  # fmt: skip


# What the target has


def test_what_to_do_with_a_ledger_that_is_there(golden_bucket: Bucket, target: Bucket, folder: Path) -> None:
    topics = managed("plain")
    copy(golden_bucket, target, topics)
    before = objects_in(folder)
    failed = copy(golden_bucket, target, topics, if_exists=IfExists.FAIL)
    assert all(isinstance(one.error, LedgerExistsError) for one in failed)
    assert set(outcomes(copy(golden_bucket, target, topics, new_uuid=True)).values()) == {CopyOutcome.SKIPPED}
    # The same name is never there twice.
    again = copy(golden_bucket, target, topics, if_exists=IfExists.NEW_COPY)
    assert set(outcomes(again).values()) == {CopyOutcome.SKIPPED}
    assert objects_in(folder) == before
    new = copy(golden_bucket, target, topics, if_exists=IfExists.NEW_COPY, new_uuid=True)
    assert set(outcomes(new).values()) == {CopyOutcome.COPIED}
    assert {one.uuid for one in new}.isdisjoint({one.source.uuid for one in new})
    objects = objects_in(folder)
    for one in new:
        assert objects[f"{one.uuid}-ledger-{one.ledger_id}"] == before[one.source.object("data").key]
        assert objects[f"{one.uuid}-ledger-{one.ledger_id}-index"] == before[one.source.object("index").key]
    assert len(objects) == 12


@for_each("policy", list(IfExists))
@for_each("uuid", [1, 2])
def test_a_ledger_of_the_same_size_and_another_creation_is_another_one(
    uuid: int, policy: IfExists, case_path: Path
) -> None:
    """As two clusters have them, whose messages are of one size."""
    folder, target = new_target(case_path)
    put_in_folder(folder, offload([b"theirs"], 5, uuid=1, created_ms=CREATED_MS + 1))
    before = objects_in(folder)
    source = source_of(case_path, offload([b"ours  "], 5, uuid=uuid))
    (failed,) = copy(source, target, if_exists=policy)
    assert isinstance(failed.error, LedgerExistsError)
    assert ("another ledger of this name" if uuid == 1 else "already has ledger 5") in str(failed.error)
    assert objects_in(folder) == before


@for_each("known", [(CREATED_MS, None), (None, CREATED_MS), (None, None)])
def test_of_an_unknown_creation_nothing_is_reported(known: tuple[int | None, int | None], case_path: Path) -> None:
    """An index that repair made from the data object has none."""
    folder, target = new_target(case_path)
    put_in_folder(folder, offload([b"entry"], 5, uuid=1, created_ms=known[0]))
    source = source_of(case_path, offload([b"entry"], 5, uuid=2, created_ms=known[1]))
    assert outcomes(copy(source, target)) == {5: CopyOutcome.SKIPPED}


each_way = for_each(
    "options",
    [
        {},
        {"new_uuid": True},
        {"first_ledger_id": 100, "transform": unbatch()},
    ],
)


@each_way
def test_copies_keep_the_creation_of_the_ledger(options: dict[str, Any], case_path: Path) -> None:
    _, target = new_target(case_path)
    entries = [frame(metadata(sequence_id=n), b"message") for n in range(3)]
    source = source_of(case_path, offload(entries, 5, uuid=1))
    assert [one.outcome for one in copy(source, target, **options)] == [CopyOutcome.COPIED]
    assert [ref.created_ms for ref in target.refresh().refs()] == [CREATED_MS]


@each_way
@for_each("is_lost", [False, True])
def test_of_copies_that_contradict_each_other_none_is_copied(
    is_lost: bool, options: dict[str, Any], case_path: Path
) -> None:
    """Every read of them fails; the copy of one of them would be read without a word."""
    folder, target = new_target(case_path)
    made = [offload([frame(metadata(sequence_id=n), b"x") for n in range(count)], 5, uuid=count) for count in (2, 3)]
    source = source_of(case_path, *made, offload([frame(metadata(), b"x")], 6, uuid=9))
    if is_lost:
        (case_path / "source" / f"{made[0].uuid}-ledger-5").unlink()
    found = copy(source, target, **options)
    failed = [one for one in found if one.outcome is CopyOutcome.FAILED]
    assert {one.source.ledger_id for one in failed} == {5}
    assert all("another copy of the ledger has other entries" in str(one.error) for one in failed)
    assert [one.source.ledger_id for one in found if one.outcome is CopyOutcome.COPIED] == [6]
    assert len(objects_in(folder)) == 2


@each_way
def test_entries_that_are_not_what_the_metadata_says_are_not_copied(options: dict[str, Any], case_path: Path) -> None:
    """The copy has metadata of its own, by which it would be whole."""
    folder, target = new_target(case_path)
    entries = [frame(metadata(sequence_id=n), b"message" * size) for n, size in enumerate((21, 21, 1))]
    made = offload(entries, 5, uuid=1, block_size=400)
    index = parse_index(made.index)
    shorter = replace(index, metadata=replace(index.metadata, length=index.metadata.length - 1))
    source = source_of(case_path, replace(made, index=build_index(shorter)))
    assert [one.kind for one in verify(source).findings if one.severity.value == "damage"] == ["wrong-length"]
    (one,) = copy(source, target, **options)
    assert isinstance(one.error, CorruptLedgerError)
    assert "its metadata has 3 entries of" in str(one.error)
    assert objects_in(folder) == {}


@for_each("policy", list(IfExists))
def test_an_id_that_another_topic_has_is_another_ledger(policy: IfExists, case_path: Path) -> None:
    folder, target = new_target(case_path)
    put_in_folder(folder, offload([b"theirs"], 5, uuid=1, name="a/b/persistent/theirs"))
    source = source_of(case_path, offload([b"ours"], 5, uuid=2), offload([b"free"], 6, uuid=3))
    assert outcomes(copy(source, target, if_exists=policy)) == {5: CopyOutcome.COPIED, 6: CopyOutcome.COPIED}
    assert [(ref.topic, ref.ledger_id) for ref in target.catalog.refs()] == [
        ("persistent://a/b/theirs", 5),
        ("persistent://public/default/orders", 5),
        ("persistent://public/default/orders", 6),
    ]


def test_a_damaged_ledger_of_the_same_id_is_no_reason_to_skip(tmp_path: Path, target: Bucket, folder: Path) -> None:
    made = [offload([b"entry"] * 9, 5, uuid=uuid) for uuid in (1, 2)]
    put_in_folder(folder, made[0])
    path = folder / f"{made[0].uuid}-ledger-5"
    path.write_bytes(path.read_bytes()[:-1])
    source = source_of(tmp_path, made[1])
    assert outcomes(copy(source, target)) == {5: CopyOutcome.COPIED}
    assert target.ledger(5).ref.uuid == made[1].uuid
    assert made[1].objects.items() <= objects_in(folder).items()


def test_all_complete_copies_of_a_ledger_are_copied(tmp_path: Path, target: Bucket, folder: Path) -> None:
    made = [offload([b"entry"] * 9, 5, uuid=uuid, block_size=size) for uuid, size in ((1, 400), (2, 200), (3, 300))]
    source = source_of(tmp_path, *made)
    found = copy(source, target)
    assert {one.uuid for one in found} == {one.uuid for one in made}
    assert objects_in(folder) == {key: data for one in made for key, data in one.objects.items()}
    # One that an earlier run did not bring is no stranger.
    for key in made[1].objects:
        (folder / key).unlink()
    again = {one.uuid: one.outcome for one in copy(source, open_bucket(str(folder)))}
    assert again == {
        made[0].uuid: CopyOutcome.SKIPPED,
        made[1].uuid: CopyOutcome.COPIED,
        made[2].uuid: CopyOutcome.SKIPPED,
    }


def test_of_several_copies_one_gets_a_new_id(tmp_path: Path, target: Bucket) -> None:
    source = source_of(tmp_path, *(offload([b"entry"], 5, uuid=uuid) for uuid in (1, 2, 3)))
    assert [one.ledger_id for one in copy(source, target, first_ledger_id=100)] == [100]


# Damage


def flip(folder: Path, key: str, offset: int) -> None:
    data = bytearray((folder / key).read_bytes())
    data[offset] ^= 4
    (folder / key).write_bytes(data)


@for_each("offset", [130, 139, 190, 400, 5_000_000, 6_000_000, -1])
def test_a_ledger_with_a_flipped_bit_is_named_and_not_copied(offset: int, golden: Path, case_path: Path) -> None:
    folder, target = new_target(case_path)
    source = case_path / "source"
    source.mkdir()
    keys = [
        path.name
        for path in (golden / "bucket").iterdir()
        if path.name.removesuffix("-index").rpartition("-")[2] in {"42", "26", "33"}
    ]
    for key in keys:
        shutil.copy(golden / "bucket" / key, source)
    (spoilt,) = (key for key in keys if key.endswith("-ledger-42"))
    flip(source, spoilt, offset)
    found = copy(open_bucket(str(source)), target)
    assert outcomes(found) == {42: CopyOutcome.FAILED, 26: CopyOutcome.COPIED, 33: CopyOutcome.COPIED}
    (failed,) = (one for one in found if one.error is not None)
    assert failed.source.ledger_id == 42
    assert "entry " in str(failed.error)
    assert not [name for name in objects_in(folder) if "-ledger-42" in name]
    assert len(objects_in(folder)) == 4


def test_a_damaged_copy_beside_a_whole_one_is_left_out(tmp_path: Path, target: Bucket, folder: Path) -> None:
    whole, short = offload([b"entry"] * 9, 5, uuid=1), offload([b"entry"] * 9, 5, uuid=2)
    source = source_of(tmp_path, whole, short)
    path = tmp_path / "source" / f"{short.uuid}-ledger-5"
    path.write_bytes(path.read_bytes()[:-1])
    found = copy(source, target)
    assert [(one.uuid, one.outcome) for one in found] == [(whole.uuid, CopyOutcome.COPIED)]
    assert objects_in(folder) == whole.objects


@for_each("name", [None, "odd", "a/b/non-persistent/c"])
def test_ledgers_of_no_topic_are_copied_as_they_are(name: str | None, case_path: Path) -> None:
    _, target = new_target(case_path)
    made = offload([b"x"], 5, uuid=1, name=name), offload([b"x"], 6, uuid=2)
    found = copy(source_of(case_path, *made), target)
    assert outcomes(found) == {5: CopyOutcome.COPIED, 6: CopyOutcome.COPIED}
    assert objects_in(case_path / "target") == made[0].objects | made[1].objects


def test_ids_of_our_own_are_those_of_no_half_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerfs.writing.own_ids.time", SimpleNamespace(time=lambda: 0.0))
    monkeypatch.setattr("ledgerfs.writing.own_ids.secrets", SimpleNamespace(randbelow=lambda _: 0))
    first = 2**52
    made = [offload([b"x"], first + number, uuid=1 + number, name=f"a/b/persistent/{number}") for number in range(4)]
    source = source_of(tmp_path, *made)
    folder = tmp_path / "source"
    (folder / f"{made[1].uuid}-ledger-{first + 1}").unlink()
    (folder / f"{made[2].uuid}-ledger-{first + 2}-index").write_bytes(b"no index")
    (folder / f"{made[3].uuid}-ledger-{first + 3}-index").unlink()
    assert new_own_id([source.catalog], ["a/b/persistent/new"]) == first + 4
    assert new_own_id([source.catalog], ["a/b/persistent/1"]) == first + 4
    empty = tmp_path / "empty"
    empty.mkdir()
    assert new_own_id([open_bucket(str(empty)).catalog]) == first
    assert new_own_id([open_bucket(str(empty)).catalog, source.catalog]) == first + 4


def test_a_topic_with_the_last_id_of_all_gets_no_other_one(tmp_path: Path) -> None:
    source = source_of(tmp_path, offload([b"x"], 2**53 - 1), offload([b"x"], 2**60, uuid=2))
    with pytest.raises(RefusedLedgerError, match="pass a ledger id"):
        new_own_id([source.catalog])
    assert 2**52 <= new_own_id([source.catalog], ["a/b/persistent/other"]) < 2**53

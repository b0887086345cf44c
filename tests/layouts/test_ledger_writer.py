"""Ledgers as they are written: the same bytes as Pulsar's own, and as another implementation of the format writes them."""

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import InvalidNameError, ObjectExistsError, RefusedLedgerError
from ledgerfs.formats.pulsar_blob.index import parse_index
from ledgerfs.layouts.pulsar_blob.new_ledger import (
    NewLedger,
    completed_user_metadata,
    made_up_metadata,
    made_up_user_metadata,
    new_key,
)
from ledgerfs.layouts.pulsar_blob.writer import LedgerWriter, WrittenLedger
from ledgerfs.storage.folders import writes as local_writes
from ledgerfs.storage.folders.writes import LocalWrites
from ledgerfs.storage.traffic import Traffic
from ledgerfs.writing.sources import EntryBatches, RecordFile
from ledgerfs.writing.write import Wanted, own_block_size, write_ledger
from tests.support.each import for_each
from tests.support.entries import batch_of
from tests.support.ledgers import NAME, Offload, offload
from tests.support.s3 import S3Server
from tests.support.s3_log import requests_of

PADDING = bytes.fromhex("fedcdead")
MIB5 = 5 << 20


def new_ledger(block_size: int = 1000, **fields: Any) -> NewLedger:
    return NewLedger(new_key(1), made_up_metadata(NAME), made_up_user_metadata(NAME), block_size, **fields)


def as_made(made: Offload, block_size: int) -> NewLedger:
    """Return what the writer is told to write just this."""
    metadata = replace(parse_index(made.index).metadata, length=77, last_entry=88)
    return NewLedger(new_key(made.ledger_id, made.uuid), metadata, {}, block_size)


def write(bucket: Bucket, ledger: NewLedger, entries: Sequence[bytes], borders: Sequence[int] = ()) -> WrittenLedger:
    places = sorted({0, *(border % (len(entries) + 1) for border in borders), len(entries)})
    with LedgerWriter(bucket.raw_store, ledger) as writer:
        for first, end in pairwise(places):
            writer.add(batch_of(entries[first:end], first))
        return writer.commit()


def objects_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_same(folder: Path, entries: Sequence[bytes], block_size: int, borders: Sequence[int] = ()) -> Offload:
    made = offload(entries, block_size=block_size)
    written = write(open_bucket(str(folder)), as_made(made, block_size), entries, borders)
    assert objects_in(folder) == made.objects
    assert (written.data.size, written.index.size) == (len(made.data), len(made.index))
    assert written.offload_index == parse_index(made.index)
    return made


@st.composite
def ledgers(draw: st.DrawFn) -> tuple[int, list[bytes]]:
    """Draw a block size, and entries that like to end where blocks end, in what looks like padding."""
    block_size = draw(st.integers(141, 700))
    entries: list[bytes] = []
    used = 128
    for _ in range(draw(st.integers(1, 25))):
        room = block_size - used - 12
        left = draw(st.sampled_from([0, 1, 2, 3, 4, 5, 11, 12, 13, 24]))
        size = room - left if draw(st.booleans()) and room >= left else draw(st.integers(0, 70))
        size = min(size, block_size - 140)
        phase = draw(st.integers(0, 3))
        content = draw(st.sampled_from([b"\0", b"\xfe", PADDING[phase:] + PADDING[:phase], b"entry "]))
        entries.append((content * (size // len(content) + 1))[-size:] if size else b"")
        used = used + 12 + size if used + 12 + size <= block_size else 128 + 12 + size
    return block_size, entries


@pytest.mark.long
@settings(deadline=None, max_examples=100)
@given(ledger=ledgers(), borders=st.lists(st.integers(0, 100), max_size=6))
def test_any_entries_in_any_batches_are_the_bytes_of_the_other_implementation(
    ledger: tuple[int, list[bytes]], borders: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    block_size, entries = ledger
    made = assert_same(tmp_path_factory.mktemp("written"), entries, block_size, borders)
    assert b"".join(made.objects.values())


@pytest.mark.parametrize(
    ("block_size", "entries", "first_block", "padding"),
    [(3153, 161, 151, 5), (2148, 121, 101, 0), (128 + 90 * 20, 90, 90, 0), (128 + 90 * 20, 91, 90, 0)],
)
def test_blocks_of_the_facts(block_size: int, entries: int, first_block: int, padding: int, tmp_path: Path) -> None:
    made = assert_same(tmp_path, [b"8 bytes."] * entries, block_size)
    blocks = parse_index(made.index).blocks
    assert [block.first_entry for block in blocks] == ([0] if entries == first_block else [0, first_block])
    assert [block.part for block in blocks] == list(range(1, len(blocks) + 1))
    end = 128 + 20 * first_block
    assert made.data[end : end + padding] == (PADDING * 2)[:padding]
    assert len(made.data) == (end if len(blocks) == 1 else block_size + 128 + 20 * (entries - first_block))


# Refused, and nothing is left


def refused(bucket: Bucket, ledger: NewLedger, *batches: Any) -> str:
    def write_them() -> None:
        with LedgerWriter(bucket.raw_store, ledger) as writer:
            for batch in batches:
                writer.add(batch)
            writer.commit()

    with pytest.raises(RefusedLedgerError) as caught:
        write_them()
    assert caught.value.errno == 22
    return str(caught.value)


def test_entries_that_are_no_ledger_are_refused_and_nothing_is_sent(
    s3: S3Server, s3_bucket: str, tmp_path: Path
) -> None:
    remote = open_bucket(f"s3://{s3_bucket}", s3.options)
    with requests_of(s3_bucket) as seen:
        for bucket in (remote, open_bucket(str(tmp_path))):
            ledger = new_ledger(MIB5)
            assert "the ledger has no entries" in refused(bucket, ledger)
            assert "the ledger has no entries" in refused(bucket, ledger, batch_of([]))
            assert "found entries 1 to 1, expected entry 0" in refused(bucket, ledger, batch_of([b"a"], 1))
            assert "found entries 5 to 5, expected entry 2" in refused(
                bucket, ledger, batch_of([b"a"] * 2), batch_of([b"b"], 5)
            )
            assert "found entries 1 to 1, expected entry 2" in refused(
                bucket, ledger, batch_of([b"a"] * 2), batch_of([b"b"], 1)
            )
            text = refused(bucket, ledger, batch_of([b"a", b"b" * (MIB5 - 139)]))
            assert f"entry 1 has {MIB5 - 139} bytes, but an entry in a block has at most {MIB5 - 140}" in text
            assert "docs/formats/pulsar-blob.md" in text
    assert seen == []
    assert objects_in(tmp_path) == {}


def test_sources_are_looked_through_before_a_byte_is_sent(s3: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.entries"
    good = offload([b"x" * 4_000_000] * 3, block_size=MIB5).records
    spoilt.write_bytes(good + b"\0" * 5)
    sources = [RecordFile.at(spoilt)]
    for number, data in enumerate([b"", b"\0" * 11, bytes(12) + b"x", bytes(4) + b"\0" * 7 + b"\x01"]):
        file = tmp_path / f"short{number}.entries"
        file.write_bytes(data)
        sources += [RecordFile.of(f"bytes {number}", data), RecordFile.at(file)]
    bucket = open_bucket(f"s3://{s3_bucket}", s3.options)
    with requests_of(s3_bucket) as seen:
        for source in sources:
            with pytest.raises(RefusedLedgerError) as caught:
                write_ledger(bucket, Wanted(NAME, 1, block_size=MIB5), source)
            assert caught.value.key == source.name
    assert seen == []


def test_what_is_found_late_leaves_nothing(s3: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    remote = open_bucket(f"s3://{s3_bucket}", s3.options)
    batches = [batch_of([b"x" * 4_000_000] * 3), batch_of([b"y"], 7)]
    for bucket in (remote, open_bucket(str(tmp_path))):
        with pytest.raises(RefusedLedgerError, match="found entries 7 to 7, expected entry 3"):
            write_ledger(bucket, Wanted(NAME, 1, block_size=MIB5), EntryBatches(batches))
    assert "Contents" not in s3.client.list_objects_v2(Bucket=s3_bucket)
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket=s3_bucket)
    assert objects_in(tmp_path) == {}


@for_each("size", [0, 1, 140, MIB5 - 1, 2**31, 2**40])
def test_blocks_of_sizes_that_are_none_are_refused(size: int, s3: S3Server, s3_bucket: str, tmp_path: Path) -> None:
    buckets = [open_bucket(f"s3://{s3_bucket}", s3.options)]
    if size <= 140 or size > MIB5:
        buckets.append(open_bucket(str(tmp_path)))
    with requests_of(s3_bucket) as seen:
        for bucket in buckets:
            with pytest.raises(RefusedLedgerError, match=f"the block size is {size} bytes"):
                LedgerWriter(bucket.raw_store, new_ledger(size))
            with pytest.raises(RefusedLedgerError, match=f"the block size is {size} bytes"):
                write_ledger(bucket, Wanted(NAME, 1, block_size=size), RecordFile.of("", offload([b""]).records))
    assert seen == []
    assert objects_in(tmp_path) == {}


def test_more_blocks_than_the_store_takes_parts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalWrites, "most_parts", 3)
    store = open_bucket(str(tmp_path)).raw_store
    with (
        pytest.raises(RefusedLedgerError, match="more than 3 blocks of 200 bytes"),
        LedgerWriter(store, new_ledger(200)) as writer,
    ):
        writer.add(batch_of([b"x" * 50] * 4))
    assert objects_in(tmp_path) == {}
    with LedgerWriter(store, new_ledger(200)) as writer:
        writer.add(batch_of([b"x" * 50] * 3))
        assert len(writer.commit().offload_index.blocks) == 3


def test_leaving_without_commit_leaves_nothing(tmp_path: Path) -> None:
    bucket = open_bucket(str(tmp_path))
    with LedgerWriter(bucket.raw_store, new_ledger(200)) as writer:
        writer.add(batch_of([b"x" * 50] * 4))
    with contextlib.suppress(KeyError), LedgerWriter(bucket.raw_store, new_ledger(200)) as writer:
        writer.add(batch_of([b"x" * 50] * 4))
        raise KeyError
    assert objects_in(tmp_path) == {}


@for_each("ledger_id", [-1, 2**63])
def test_ids_that_no_ledger_has_are_refused(ledger_id: int) -> None:
    with pytest.raises(InvalidNameError):
        new_key(ledger_id)


UUIDS_OF_NONE = ["", "x", "../x", "a" * 36, "0" * 32, "6ED12E9AAA76E-4A8C-8952-8E7A596A8FA6"]
NAMES_OF_NONE = ["", "orders", "a/b/orders", "a/b/non-persistent/c", "a/b/persistent/c d", "_other/b/persistent/c"]


@for_each("wanted", [*(Wanted(NAME, 1, one) for one in UUIDS_OF_NONE), *(Wanted(one, 1) for one in NAMES_OF_NONE)])
def test_names_that_nobody_would_find_are_refused(wanted: Wanted, tmp_path: Path) -> None:
    with pytest.raises(InvalidNameError):
        write_ledger(open_bucket(str(tmp_path)), wanted, RecordFile.of("", offload([b""]).records))
    assert objects_in(tmp_path) == {}


def test_the_same_names_twice_are_refused_and_the_first_stays(tmp_path: Path, s3: S3Server, s3_bucket: str) -> None:
    made = offload([b"first"], block_size=MIB5)
    for bucket in (open_bucket(str(tmp_path)), open_bucket(f"s3://{s3_bucket}", s3.options), memory_bucket()):
        write(bucket, as_made(made, MIB5), [b"first"])
        with pytest.raises(ObjectExistsError):
            write(bucket, as_made(made, MIB5), [b"second", b"third"])
        bucket.refresh()
        assert [bytes(entry) for _, entry in bucket.ledger(1).read(0, 0)] == [b"first"]


def test_who_looks_whether_a_file_is_the_same_may_find_it_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was one when its name was asked for; that is what is told, and nothing is left."""
    writes = LocalWrites(str(tmp_path), Traffic())
    writes.put("lock", b"theirs", {})
    open_object = local_writes.open_object

    def removed_since(folder: str, key: str, *, follow_links: bool) -> tuple[int, os.stat_result]:
        Path(folder, key).unlink()
        return open_object(folder, key, follow_links=follow_links)

    monkeypatch.setattr(local_writes, "open_object", removed_since)
    with pytest.raises(ObjectExistsError):
        writes.put("lock", b"ours", {})
    assert objects_in(tmp_path) == {}
    assert list(writes.unfinished_uploads()) == []


# Pulsar's own


def memory_bucket() -> Bucket:
    name = f"memory://written-{uuid4()}"
    fsspec.filesystem("memory").makedirs(name, exist_ok=True)
    return open_bucket(name)


def write_again(
    golden: Path, target: Bucket, source: Bucket, refs: Iterable[LedgerRef] | None = None
) -> list[tuple[str, WrittenLedger]]:
    """Write golden ledgers again, all of them unless some are named, from the bytes of their records."""
    described = json.loads((golden / "objects.json").read_text())
    found = []
    for ref in source.catalog.refs() if refs is None else refs:
        reader = source.reader(ref)
        records = b"".join(
            bytes(batch.buffer[int(batch.offsets[0]) - 12 : int(batch.offsets[-1] + batch.lengths[-1])])
            for batch in reader.batches(0, reader.last_entry)
        )
        name, metadata = str(ref.managed_ledger), reader.index.metadata
        user_metadata = completed_user_metadata(described[ref.object("index").key]["metadata"], name)
        wanted = Wanted(name, ref.ledger_id, ref.uuid, own_block_size(reader), metadata, user_metadata)
        found.append(
            (ref.object("data").key, write_ledger(target, wanted, RecordFile.of(ref.object("data").key, records)))
        )
    return found


def assert_golden(golden: Path, key: str, data: bytes, index: bytes) -> bool:
    """Return whether the index is the same to the byte; else only the order of a map may differ."""
    bucket = golden / "bucket"
    assert data == (bucket / key).read_bytes()
    expected = (bucket / f"{key}-index").read_bytes()
    if index == expected:
        return True
    found, wanted = parse_index(index), parse_index(expected)
    assert sorted(found.metadata.custom) == sorted(wanted.metadata.custom)
    assert replace(found, metadata=replace(found.metadata, custom=wanted.metadata.custom)) == wanted
    return False


def test_golden_ledgers_in_a_folder_are_the_same(golden: Path, golden_url: str, tmp_path: Path) -> None:
    assert len(write_again(golden, open_bucket(str(tmp_path)), open_bucket(golden_url))) == 104
    objects = objects_in(tmp_path)
    keys = [key for key in objects if not key.endswith("-index")]
    assert len(keys) == 104
    same = [assert_golden(golden, key, objects[key], objects[f"{key}-index"]) for key in keys]
    assert all(same)
    assert objects == objects_in(golden / "bucket")


@pytest.mark.long
def test_golden_ledgers_on_s3_are_the_same_as_a_broker_wants_them(
    golden: Path, golden_url: str, s3: S3Server, s3_bucket: str
) -> None:
    """A ledger of each topic, and all of several blocks: what S3 has besides their bytes differs in nothing else."""
    described = json.loads((golden / "objects.json").read_text())
    source = open_bucket(golden_url)
    refs = list(source.catalog.refs())
    several = [ref for ref in refs if len(source.reader(ref).index.blocks) > 1]
    chosen = {ref.ledger_id: ref for ref in [*{ref.topic: ref for ref in refs}.values(), *several]}
    assert len(several) >= 2
    assert len(chosen) >= 35
    written = write_again(golden, open_bucket(f"s3://{s3_bucket}", s3.options), source, chosen.values())
    for key, ledger in written:
        blocks = len(ledger.offload_index.blocks)
        answers = [s3.client.get_object(Bucket=s3_bucket, Key=one) for one in (key, f"{key}-index")]
        assert assert_golden(golden, key, *(answer["Body"].read() for answer in answers))
        for answer, one, role in zip(answers, (key, f"{key}-index"), ("data", "index"), strict=True):
            assert answer["Metadata"] == described[one]["metadata"]
            assert answer["Metadata"]["role"] == role
            # One part a block: Pulsar's own ETag.
            assert answer["ETag"].strip('"') == described[one]["etag"]
        assert answers[0]["ETag"].endswith(f'-{blocks}"')
        assert "-" not in answers[1]["ETag"]
    assert "Uploads" not in s3.client.list_multipart_uploads(Bucket=s3_bucket)

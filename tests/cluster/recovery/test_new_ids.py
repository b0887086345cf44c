"""Ledgers copied within their bucket to other ids: the same bytes, of another topic, whoever was killed before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import CorruptLedgerError, LedgerfsError, RefusedLedgerError, StaleObjectError
from ledgerfs.formats.pulsar_blob.index import parse_index
from ledgerfs.verification import verify
from ledgerfs_cluster.recovery.new_ledgers import copied_uuid, copy_under_id
from tests.model.meetings import MeetingStore
from tests.support.entries import sent
from tests.support.ledgers import NAME, Offload, offload, put_in_folder
from tests.support.s3 import S3Server

RESTORED = "public/restored/persistent/orders"
TOPIC = "persistent://public/restored/orders"
NEW_ID = 900
UUID = copied_uuid("00000000-0000-0000-0000-000000000001", NEW_ID, RESTORED)
DATA = f"{UUID}-ledger-{NEW_ID}"
MIB = 1 << 20


class Killed(BaseException):
    """An end that nothing catches."""


class At:
    """Witness that acts at one point of an operation."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self.left, self.act = number, act

    def met(self) -> None:
        self.left -= 1
        if self.left == -1:
            self.act()

    def refusal_of(self, *_: object, **__: object) -> None: ...

    def published(self, *_: object) -> None: ...

    def unpublished(self, *_: object) -> None: ...

    def data_deleted(self, *_: object) -> None: ...


def kill() -> None:
    raise Killed


def made(block_size: int = MIB, size: int = 300_000, count: int = 30) -> Offload:
    return offload([sent(f"{number:0{size}}") for number in range(count)], 7, block_size=block_size)


def copied(bucket: Bucket, ref: LedgerRef | None = None) -> LedgerRef:
    ref = bucket.ledger(7).ref if ref is None else ref
    return copy_under_id(bucket, ref, NEW_ID, RESTORED)


def assert_is_copy(bucket: Bucket, one: Offload) -> None:
    ref = bucket.ledger(NEW_ID).ref
    data, index = (bucket.raw_store.head(key).stat for key in (DATA, f"{DATA}-index"))
    assert (ref.object("data"), ref.object("index")) == (data, index)
    assert ref.managed_ledger == RESTORED
    assert not ref.is_ordered
    records = bucket.ledger(NEW_ID).records()
    assert records is not None
    assert bytes(records.read(0, len(one.records))) == one.records
    assert not [found for found in verify(bucket).findings if found.kind != "no-user-metadata"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made_in = tmp_path / "tier"
    made_in.mkdir()
    return made_in


def test_in_a_folder_the_bytes_pass_through(folder: Path) -> None:
    one = made()
    bucket = open_bucket(put_in_folder(folder, one))
    ref = copied(bucket)
    assert (folder / DATA).read_bytes() == one.data
    before, after = parse_index(one.index), parse_index((folder / f"{DATA}-index").read_bytes())
    assert (before.blocks, before.data_length) == (after.blocks, after.data_length)
    assert (before.metadata.length, before.metadata.created_ms) == (after.metadata.length, after.metadata.created_ms)
    assert_is_copy(open_bucket(str(folder)), one)
    assert copied(bucket) == ref
    values = [bucket.topic(name).scan(["value"]).to_arrow() for name in (TOPIC, "persistent://public/default/orders")]
    assert values[0].equals(values[1])


@pytest.mark.long
def test_on_s3_the_store_copies_block_by_block(s3: S3Server, s3_bucket: str) -> None:
    one = made(block_size=5 * MIB, size=700_000, count=16)
    metadata = {"s3managedledgeroffloaderformatversion": "1", "pulsarclustername": "old", "note": "kept"}
    for key, data in one.objects.items():
        s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data, Metadata=metadata)
    url = f"s3://{s3_bucket}"
    bucket = open_bucket(url, s3.options)
    before = bucket.stats().bytes_sent
    copied(bucket)
    assert bucket.stats().bytes_sent - before < 10_000
    assert_is_copy(open_bucket(url, s3.options), one)
    head = bucket.raw_store.head(DATA)
    assert head.stat.version.strip('"').endswith(f"-{len(parse_index(one.index).blocks)}")
    assert head.metadata is not None
    assert head.metadata["managedledgername"] == RESTORED
    assert head.metadata["note"] == "kept"
    assert "pulsarclustername" not in head.metadata
    assert list(bucket.raw_store.writes.unfinished_uploads()) == []


def test_under_another_id_of_its_own_topic_it_is_refused(folder: Path) -> None:
    bucket = open_bucket(put_in_folder(folder, made()))
    with pytest.raises(RefusedLedgerError, match="twice"):
        copy_under_id(bucket, bucket.ledger(7).ref, NEW_ID, NAME)


def test_a_damaged_ledger_is_not_copied(folder: Path) -> None:
    one = made()
    bucket = open_bucket(put_in_folder(folder, one))
    ref = bucket.ledger(7).ref
    path = folder / f"{one.uuid}-ledger-7"
    data = bytearray(one.data)
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises((CorruptLedgerError, StaleObjectError)):
        copied(open_bucket(str(folder)))
    path.write_bytes(one.data[:-1])
    with pytest.raises((CorruptLedgerError, StaleObjectError)):
        copied(open_bucket(str(folder)), ref)
    assert not [key for key in folder.iterdir() if UUID in key.name]


def at_each_point(folder: Path, act: Callable[[], Any]) -> "list[BaseException | None]":
    """Copy once for each point of it, with ``act`` there, then once more; return how the first ended."""
    one, ends = made(size=1000), list[BaseException | None]()
    for number in range(1000):
        for path in folder.iterdir():
            path.unlink()
        url = put_in_folder(folder, one)
        witness, failure = At(number, act), None
        try:
            copied(Bucket(MeetingStore(open_bucket(url).raw_store, witness)))
        except (Killed, LedgerfsError) as error:
            failure = error
        if witness.left >= 0:
            break
        ends.append(failure)
        copied(open_bucket(url))
        assert_is_copy(open_bucket(url), one)
    assert len(ends) > 10
    return ends


@pytest.mark.long
def test_a_kill_at_any_point_is_made_good_by_the_next_run(folder: Path) -> None:
    assert all(isinstance(end, Killed) for end in at_each_point(folder, kill))


@pytest.mark.long
def test_another_run_at_any_point_makes_the_same(folder: Path) -> None:
    assert set(at_each_point(folder, lambda: copied(open_bucket(str(folder))))) == {None}

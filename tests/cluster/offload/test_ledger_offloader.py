"""PIP-17's interface: offload, read, delete, by ledger id and the uuid of the attempt."""

import errno
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import (
    CorruptLedgerError,
    InvalidNameError,
    NotFoundError,
    UnsupportedWriteError,
)
from ledgerfs.formats.pulsar_blob.index import parse_index
from ledgerfs.verification.verify import verify
from ledgerfs_cluster.offload import LedgerOffloader, NullLedgerOffloader
from ledgerfs_cluster.offload.ledger_offloader import LedgerEntries
from tests.support.entries import batch_of
from tests.support.ledgers import NAME, offload
from tests.support.s3 import S3Server
from tests.support.s3_log import changes, requests_of

ENTRIES = [b"foobar%d" % i for i in range(20)]
NAMED = {"ManagedLedgerName": NAME}
MADE = offload(ENTRIES, 5)


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    folder = tmp_path / "target"
    folder.mkdir()
    return open_bucket(str(folder))


@pytest.fixture
def remote(s3: S3Server, s3_bucket: str) -> Bucket:
    return open_bucket(f"s3://{s3_bucket}", s3.options)


def objects_in(bucket: Bucket) -> dict[str, bytes]:
    folder = Path(bucket.store.url.removeprefix("file://"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def entries_of(offloader: LedgerOffloader, ledger_id: int, uuid: str) -> list[bytes]:
    reader = offloader.read_offloaded(ledger_id, uuid)
    return [bytes(entry) for _, entry in reader.read(0, reader.last_entry)]


def test_a_ledger_of_a_bucket(golden: Path, golden_url: str, bucket: Bucket) -> None:
    source = open_bucket(golden_url).ledger(42)
    offloader, uuid = LedgerOffloader(bucket, block_size=5 << 20), str(uuid4())
    written = offloader.offload(source, uuid)
    objects = objects_in(bucket)
    assert set(objects) == {f"{uuid}-ledger-42", f"{uuid}-ledger-42-index"}
    for suffix in ("", "-index"):
        key = f"{source.ref.uuid}-ledger-42{suffix}"
        assert objects[f"{uuid}-ledger-42{suffix}"] == (golden / "bucket" / key).read_bytes()
    assert written.offload_index == source.index
    assert not verify(bucket).is_damaged
    found, wanted = offloader.read_offloaded(42, uuid).read(595, 600), source.read(595, 600)
    assert [bytes(entry) for _, entry in found] == [bytes(entry) for _, entry in wanted]


def test_entries_from_anywhere(bucket: Bucket, tmp_path: Path) -> None:
    file = tmp_path / "5.entries"
    file.write_bytes(MADE.records)
    sources: dict[str, Any] = {
        "path": file,
        "text": str(file),
        "bytes": MADE.records,
        "bytearray": bytearray(MADE.records),
        "memoryview": memoryview(MADE.records),
        "batches": (batch_of(ENTRIES[first : first + 7], first) for first in range(0, 20, 7)),
    }
    offloader = LedgerOffloader(bucket, block_size=1 << 20)
    metadata = parse_index(MADE.index).metadata
    for kind, source in sources.items():
        written = offloader.offload(LedgerEntries(5, source, metadata), MADE.uuid)
        assert objects_in(bucket) == MADE.objects, kind
        assert written.ledger.key.data_key == f"{MADE.uuid}-ledger-5", kind
        assert entries_of(offloader, 5, MADE.uuid) == ENTRIES, kind
        offloader.delete_offloaded(5, MADE.uuid)


def test_whose_it_is_may_be_reported_either_way(bucket: Bucket) -> None:
    offloader = LedgerOffloader(bucket)
    with pytest.raises(InvalidNameError, match="ManagedLedgerName"):
        offloader.offload(LedgerEntries(5, MADE.records), str(uuid4()))
    other = "public/default/persistent/other"
    metadata = parse_index(MADE.index).metadata
    for number, (known, extra, name) in enumerate(
        [
            (None, {"ManagedLedgerName": other}, other),
            (None, {"managedledgername": other}, other),
            (metadata, {}, NAME),
            (metadata, {"MANAGEDLEDGERNAME": other}, other),
        ]
    ):
        uuid = str(uuid4())
        offloader.offload(LedgerEntries(number, MADE.records, known), uuid, extra)
        assert offloader.read_offloaded(number, uuid).ref.managed_ledger == name
    with pytest.raises(InvalidNameError):
        offloader.offload(LedgerEntries(9, MADE.records), str(uuid4()), {"ManagedLedgerName": "no topic"})
    assert len(objects_in(bucket)) == 8


def test_extra_metadata_is_kept_in_lower_case_beside_what_a_broker_wants(
    remote: Bucket, s3: S3Server, s3_bucket: str
) -> None:
    uuid = str(uuid4())
    extra = {
        **NAMED,
        "PulsarClusterName": "west",
        "Role": "nonsense",
        "Mine": "Kept",
        "S3ManagedLedgerOffloaderFormatVersion": "9",
    }
    LedgerOffloader(remote).offload(LedgerEntries(5, MADE.records), uuid, extra)
    for suffix, role in (("", "data"), ("-index", "index")):
        metadata = s3.client.head_object(Bucket=s3_bucket, Key=f"{uuid}-ledger-5{suffix}")["Metadata"]
        software = metadata.pop("s3managedledgeroffloadersoftwareversion")
        assert software.startswith("ledgerfs-")
        assert metadata == {
            "managedledgername": NAME,
            "pulsarclustername": "west",
            "role": role,
            "mine": "Kept",
            "s3managedledgeroffloaderformatversion": "1",
        }


def test_each_attempt_is_read_by_its_own_uuid(bucket: Bucket) -> None:
    offloader = LedgerOffloader(bucket)
    uuids = [str(uuid4()) for _ in range(3)]
    for number, uuid in enumerate(uuids):
        offloader.offload(LedgerEntries(5, offload([b"%d" % number]).records), uuid, NAMED)
    for number, uuid in enumerate(uuids):
        assert entries_of(offloader, 5, uuid) == [b"%d" % number]
        assert entries_of(offloader, 5, uuid.upper()) == [b"%d" % number]
    for ledger_id, uuid in ((5, str(uuid4())), (6, uuids[0])):
        with pytest.raises(NotFoundError):
            offloader.read_offloaded(ledger_id, uuid)
    with pytest.raises(InvalidNameError, match="not a valid uuid"):
        offloader.read_offloaded(5, "../x")


def test_what_was_deleted_is_gone_and_may_be_deleted_again(bucket: Bucket, remote: Bucket) -> None:
    for target in (bucket, remote):
        offloader, uuid, kept = LedgerOffloader(target), str(uuid4()), str(uuid4())
        for one in (uuid, kept):
            offloader.offload(LedgerEntries(5, MADE.records), one, NAMED)
        offloader.delete_offloaded(5, uuid)
        with pytest.raises(NotFoundError):
            offloader.read_offloaded(5, uuid)
        offloader.delete_offloaded(5, uuid)
        offloader.delete_offloaded(6, kept)
        assert entries_of(offloader, 5, kept) == ENTRIES
        # The uuid is free again, though nobody should use it.
        offloader.offload(LedgerEntries(5, MADE.records), uuid, NAMED)
        assert entries_of(offloader, 5, uuid) == ENTRIES


def test_the_index_is_deleted_first(remote: Bucket, s3_bucket: str) -> None:
    offloader, uuid = LedgerOffloader(remote), str(uuid4())
    offloader.offload(LedgerEntries(5, MADE.records), uuid, NAMED)
    with requests_of(s3_bucket) as seen:
        offloader.delete_offloaded(5, uuid)
    deleted = [request.partition("?")[0] for request in changes(seen)]
    assert deleted == [f"DELETE {uuid}-ledger-5-index", f"DELETE {uuid}-ledger-5"]


def test_a_damaged_ledger_is_not_offloaded(tmp_path: Path, golden: Path, golden_url: str, bucket: Bucket) -> None:
    ref = open_bucket(golden_url).ledger(26).ref
    source = tmp_path / "source"
    source.mkdir()
    for key in (ref.object("data").key, ref.object("index").key):
        (source / key).write_bytes((golden / "bucket" / key).read_bytes())
    data = bytearray((source / ref.object("data").key).read_bytes())
    data[-1] ^= 1
    (source / ref.object("data").key).write_bytes(data)
    with pytest.raises(CorruptLedgerError, match="entry 199 has a wrong checksum"):
        LedgerOffloader(bucket).offload(open_bucket(str(source)).ledger(26), str(uuid4()))
    assert objects_in(bucket) == {}


def test_the_null_offloader_refuses_everything() -> None:
    null = NullLedgerOffloader()
    for call in (
        lambda: null.offload(LedgerEntries(5, MADE.records), MADE.uuid, {}),
        lambda: null.read_offloaded(5, MADE.uuid),
        lambda: null.delete_offloaded(5, MADE.uuid),
    ):
        with pytest.raises(UnsupportedWriteError, match="no offloader is configured") as caught:
            call()
        assert caught.value.errno == errno.ENOTSUP
    assert issubclass(LedgerOffloader, NullLedgerOffloader)

"""Our layouts keep every promise that `ledgerfs.testing` tests, on the golden buckets, whose entries another splitter and Pulsar gave."""

import base64
import json
import struct
from collections import defaultdict
from pathlib import Path

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.layout import Layout
from ledgerfs.layouts.object_source import open_layouts
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.testing import Damage, KnownLedger, LayoutTests, SampleBucket
from tests.support.golden_rows import expected_of
from tests.support.mapfiles import read_all

BLOCK_HEADER = struct.Struct(">Iqqq")
RECORD = struct.Struct(">iq")


def records_by_hand(data: bytes) -> list[bytes]:
    """Split a data object into its records with nothing but the block headers: another way than ours, which uses the index."""
    records: list[bytes] = []
    at = 0
    while at < len(data):
        magic, header_length, block_length, first = BLOCK_HEADER.unpack_from(data, at)
        assert magic == 0xFBDBABCB
        assert first == len(records)
        position, end = at + header_length, at + block_length
        while position + RECORD.size <= end:
            length, entry_id = RECORD.unpack_from(data, position)
            if length < 0 or entry_id != len(records):
                break
            records.append(data[position : position + RECORD.size + length])
            position += RECORD.size + length
        at = end
    return records


def blob_sample(golden: Path) -> SampleBucket:
    """What Pulsar's S3 offloader wrote."""
    described = json.loads((golden / "objects.json").read_text())
    objects = {key: (golden / "bucket" / key).read_bytes() for key in described}
    values = values_of(golden)
    ledgers = []
    for key in sorted(described):
        if described[key]["metadata"]["role"] == "data":
            entries = [record[RECORD.size :] for record in records_by_hand(objects[key])]
            ledger_id = int(key.rpartition("-")[2])
            name = described[key]["metadata"]["managedledgername"]
            ledgers.append(KnownLedger(ledger_id, name, entries, values=values.get(ledger_id)))
    others = (
        "notes.txt",
        "lost+found/",
        "public/golden/persistent/plain/26-1/data",
        "ledger-1-index",
        "1-ledger-2-index",
    )
    return SampleBucket(objects, ledgers, blob_damages(objects, ledgers), others)


def blob_damages(objects: dict[str, bytes], ledgers: list[KnownLedger]) -> list[Damage]:
    """Return what the formats of both objects allow to go wrong, in a small ledger and in the one with most blocks."""
    damages = []
    for wanted in (83, 138):
        ledger = next(one for one in ledgers if one.ledger_id == wanted)
        key = next(key for key in objects if key.endswith(f"-ledger-{wanted}"))
        data, index = objects[key], objects[f"{key}-index"]

        def damage(what: str, changed: dict[str, bytes | None], *kinds: str, ledger: KnownLedger = ledger) -> None:
            damages.append(Damage(f"{what} of {ledger.ledger_id}", ledger.name, changed, frozenset(kinds)))

        damage("the data is gone", {key: None}, "index-without-data")
        damage("the index is gone", {f"{key}-index": None}, "data-without-index")
        damage("half the data", {key: data[: len(data) // 2]}, "short-object")
        damage("more data", {key: data + b"\0"}, "long-object")
        damage("half the index", {f"{key}-index": index[: len(index) // 2]}, "unreadable-index")
        damage("a longer index", {f"{key}-index": index + b"\0"}, "odd-index")
        damage("a flipped payload", {key: data[:-1] + bytes([data[-1] ^ 1])}, "checksum-mismatch")
        damage("a wrong id", {key: data[:139] + b"\x07" + data[140:]}, "damaged-records")
        damage("a wrong magic", {key: b"\0" + data[1:]}, "wrong-block-header")
    return damages


def mapfile_sample(golden: Path) -> SampleBucket:
    """What Pulsar's filesystem offloader wrote."""
    bucket = golden / "bucket"
    objects = {path.relative_to(bucket).as_posix(): path.read_bytes() for path in bucket.rglob("*") if path.is_file()}
    values = values_of(golden)
    ledgers = []
    for key in sorted(objects):
        folder, _, file = key.rpartition("/")
        if file == "data":
            name, _, attempt = folder.rpartition("/")
            ledger_id = int(attempt.partition("-")[0])
            entries = [entry for _, entry in read_all(objects[key])[1:]]
            ledgers.append(KnownLedger(ledger_id, name, entries, values=values.get(ledger_id)))
    others = (
        "notes.txt",
        "lost+found/",
        "8ff9bd4f-2c1f-44a1-9bde-2b2a1a1cf7b1-ledger-3",
        "public/golden/persistent/plain/notes",
    )
    return SampleBucket(objects, ledgers, mapfile_damages(objects, ledgers[0]), others)


def mapfile_damages(objects: dict[str, bytes], ledger: KnownLedger) -> list[Damage]:
    """Return what may go wrong with both files."""
    start = f"{ledger.managed_ledger}/{ledger.ledger_id}-"
    key = next(key for key in objects if key.startswith(start) and key.endswith("/data"))
    index = f"{key.removesuffix('data')}index"
    data = objects[key]

    def damage(what: str, changed: dict[str, bytes | None], *kinds: str) -> Damage:
        return Damage(what, ledger.name, changed, frozenset(kinds))

    return [
        damage("the data is gone", {key: None}, "partial-ledger"),
        damage("the index is gone", {index: None}, "no-index"),
        damage("half the data", {key: data[: len(data) // 2]}, "missing-entries", "partial-ledger"),
        damage("more data", {key: data + data[-40:]}, "trailing-records"),
        damage("half the index", {index: objects[index][: len(objects[index]) // 2]}, "wrong-index"),
        damage("no header", {key: b"\0" + data[1:]}, "partial-ledger", "unreadable-ledger"),
        damage("a flipped checksum of a block", {key: data[:-1] + bytes([data[-1] ^ 1])}, "damaged-records"),
    ]


def values_of(golden: Path) -> dict[int, list[bytes | None]]:
    """Return the values of the messages of ledgers that have nothing to do with others: no chunks, transactions, keys."""
    found: dict[int, list[bytes | None]] = defaultdict(list)
    for topic in (
        "plain",
        "batched-by-key",
        *(f"{how}-{codec}" for how in ("single", "batched") for codec in ("none", "zstd")),
    ):
        for line in expected_of(golden, f"persistent://public/golden/{topic}"):
            found[line["ledger_id"]].append(None if line["null_value"] else base64.b64decode(line["value"]))
    return found


class TestPulsarBlob(LayoutTests):
    @staticmethod
    def open_layout(store: KeepingStore) -> Layout:
        return open_layouts(store, "pulsar_blob")[0]

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls, golden: Path) -> SampleBucket:
        return blob_sample(golden)


class TestMapFile(LayoutTests):
    @staticmethod
    def open_layout(store: KeepingStore) -> Layout:
        return open_layouts(store, "mapfile")[0]

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls, golden_mapfiles: Path) -> SampleBucket:
        return mapfile_sample(golden_mapfiles)


def test_the_topics_are_those_that_the_broker_counted(bucket: Bucket, golden: Path) -> None:
    stats = json.loads((golden / "stats.json").read_text())
    expected = {
        topic: (
            len(offloaded := [ledger for ledger in one["ledgers"] if ledger["offloaded"]]),
            sum(ledger["entries"] for ledger in offloaded),
            sum(ledger["size"] for ledger in offloaded),
        )
        for topic, one in stats.items()
    }
    assert {topic.name: (topic.ledgers, topic.entries, topic.bytes) for topic in bucket.topics()} == expected

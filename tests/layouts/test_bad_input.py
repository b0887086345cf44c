"""Hostile and broken objects: every answer is our error with a place, or the truth; nothing is allocated that was not given."""

import contextlib
import shutil
import struct
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import CorruptObjectError, LedgerfsError, NotFoundError
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.verification import verify
from tests.support.ledgers import Offload, offload, put_in_folder, records_of

INDEX_FIELDS = {
    "magic": (0, ">I"),
    "index length": (4, ">i"),
    "data length": (8, ">q"),
    "header length": (16, ">q"),
    "blocks": (24, ">i"),
    "metadata length": (28, ">i"),
}
BLOCK_FIELDS = {"magic": (0, ">I"), "header length": (4, ">q"), "block length": (12, ">q"), "first entry": (20, ">q")}
RECORD_FIELDS = {"length": (128, ">i"), "entry id": (132, ">q")}
VALUES = (0, -1, 2**31 - 1, 2**63 - 1)
SHARES = 4
"""Among so many ledgers goes what is done to each place of an object: their objects are alike, and each kind of place comes in many."""


def mutations(original: bytes, fields: dict[str, tuple[int, str]]) -> Iterator[tuple[str, bytes]]:
    for name, (at, kind) in fields.items():
        width = struct.calcsize(kind)
        for value in VALUES:
            packed = (value & (2 ** (8 * width) - 1)).to_bytes(width, "big")
            if original[at : at + width] != packed:
                yield f"{name} = {value}", original[:at] + packed + original[at + width :]


def cuts(made: Offload) -> list[int]:
    """Return the sizes at which the data object is cut: every structural border, one before, and one behind it."""
    borders = {0, 128, 132, 140, len(made.data)}
    at, view = 128, memoryview(made.data)
    for _ in range(3):
        (length,) = struct.unpack_from(">i", view, at)
        at += 12 + length
        borders |= {at, at + 4, at + 12}
    blocks = struct.unpack_from(">i", made.index, 24)[0]
    for i in range(blocks):
        offset = struct.unpack_from(">q", made.index, len(made.index) - 20 * (blocks - i) + 12)[0]
        borders |= {offset, offset + 128}
    return sorted(size for border in borders for size in (border - 1, border, border + 1) if 0 <= size < len(made.data))


def everything_of(bucket: Bucket, ledger_id: int) -> bytes:
    """Read a ledger in each way; return its file, or raise what any way raised."""
    ledger = bucket.ledger(ledger_id)
    entries = ledger.read(0, ledger.last_entry)
    records = b"".join(struct.pack(">iq", len(data), entry_id) + bytes(data) for entry_id, data in entries)
    assert records_of(ledger, 0, ledger.records_size) == records
    return records


def assert_noticed(folder: Path, damaged: Iterable[tuple[Offload, str]]) -> None:
    """Reading gives the records as they were or our error with a place; what is not as it was is told by verify.

    All lie in one bucket, under ids of their own, which no object holds: each is a bucket's whole work, the bucket is not. That one hides
    no other is seen on the way.
    """
    given = {number: (replace(made, ledger_id=number), what) for number, (made, what) in enumerate(damaged, 1)}
    folder.mkdir()
    url = put_in_folder(folder, *(made for made, _ in given.values()))
    bucket = open_bucket(url)
    bad_indexes = {bad.error.key for bad in fragments_of(bucket.catalog).bad_indexes}
    assert all(bad.error.offset is not None for bad in fragments_of(bucket.catalog).bad_indexes)
    for made, what in given.values():
        error: LedgerfsError | None = None
        try:
            assert everything_of(bucket, made.ledger_id) == made.records, what
        except (NotFoundError, CorruptObjectError) as caught:
            error = caught
        if isinstance(error, NotFoundError):
            assert bad_indexes & made.objects.keys(), what
        elif error is not None:
            assert error.key in made.objects, what
            assert error.offset is not None, what
    findings = verify(open_bucket(url), threads=1).findings
    reported = {finding.key for finding in findings if finding.severity.value == "damage"}
    for made, what in given.values():
        assert reported & made.objects.keys(), f"verify does not see {what}"
        reported -= made.objects.keys()
    assert not reported
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def ledgers(golden: Path) -> list[Offload]:
    """Every golden ledger."""
    bucket = open_bucket(f"file://{golden}/bucket")
    found = []
    for ref in bucket.catalog.refs():
        data, index = (
            (golden / "bucket" / key).read_bytes() for key in (ref.object("data").key, ref.object("index").key)
        )
        found.append(Offload(ref.ledger_id, ref.uuid, data, index, everything_of(bucket, ref.ledger_id)))
    assert len(found) == 104
    return found


def the(ledgers: list[Offload], ledger_id: int) -> Offload:
    return next(ledger for ledger in ledgers if ledger.ledger_id == ledger_id)


@pytest.mark.long
def test_every_cut_and_a_lie_in_any_header_field_of_any_object_is_noticed(
    ledgers: list[Offload], tmp_path: Path
) -> None:
    """Data objects are cut at their borders, indexes anywhere; of an index that is cut, the data may be whole."""
    for number, original in enumerate(ledgers):
        name = original.ledger_id
        cut_data = ((replace(original, data=original.data[:at]), f"{name} cut at {at}") for at in cuts(original))
        cut_index = (
            (replace(original, index=original.index[:at]), f"index of {name} cut at {at}")
            for at in range(len(original.index))
        )
        of_index = (
            (replace(original, index=index), f"{name}, index {what}")
            for what, index in mutations(original.index, INDEX_FIELDS)
        )
        of_data = (
            (replace(original, data=data), f"{name}, data {what}")
            for what, data in mutations(original.data, BLOCK_FIELDS | RECORD_FIELDS)
        )
        for kind, damaged in enumerate((cut_data, cut_index, chain(of_index, of_data))):
            assert_noticed(tmp_path / f"{name}-{kind}", islice(damaged, number % SHARES, None, SHARES))


@pytest.mark.parametrize("ledger_id", [42, 99])
def test_a_lie_in_any_block_of_the_index_is_noticed(ledger_id: int, ledgers: list[Offload], tmp_path: Path) -> None:
    original = the(ledgers, ledger_id)
    table = len(original.index) - 60
    columns = (("entry", 0, ">q"), ("offset", 12, ">q"))
    fields = {f"block {i} {name}": (table + 20 * i + at, kind) for i in range(3) for name, at, kind in columns}
    lies = ((replace(original, index=index), f"index {what}") for what, index in mutations(original.index, fields))
    assert_noticed(tmp_path / "bucket", lies)


@pytest.mark.long
def test_every_flipped_byte_of_a_ledger_is_noticed(tmp_path: Path, ledgers: list[Offload]) -> None:
    """Each flipped byte is one of a ledger of its own, in one bucket."""
    original = the(ledgers, 83)
    # The block header's own filling means nothing and is not looked at.
    places = [at for at in range(len(original.data)) if not 28 <= at < 128]
    flipped = {}
    for at in places:
        data = bytearray(original.data)
        data[at] ^= 0x10
        flipped[at] = replace(original, ledger_id=at + 1, data=bytes(data))
    # One that is sound under another id, too: else the ids alone would be what is noticed.
    whole = replace(original, ledger_id=len(original.data) + 1)
    report = verify(open_bucket(put_in_folder(tmp_path, *flipped.values(), whole)), threads=1)
    reported = {finding.key for finding in report.findings if finding.severity.value == "damage"}
    assert reported.isdisjoint(whole.objects)
    unnoticed = {at for at, made in flipped.items() if reported.isdisjoint(made.objects)}
    assert unnoticed <= broker_metadata_of(original.data)
    assert report.ledgers == len(places) + 1 > 100


def broker_metadata_of(data: bytes) -> set[int]:
    """Return the offsets that no checksum covers: the broker entry metadata and the frame's magic numbers of each entry."""
    uncovered: set[int] = set()
    at = 128
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        size = struct.unpack_from(">i", data, at + 14)[0]
        uncovered |= set(range(at + 12, at + 12 + 6 + size + 2))
        at += 12 + length
    return uncovered


def test_a_claim_of_a_gigabyte_allocates_nothing(tmp_path: Path) -> None:
    made = offload([b"x" * 40] * 2)
    data = bytearray(made.data)
    struct.pack_into(">i", data, 128, 1 << 30)
    url = put_in_folder(tmp_path, Offload(1, made.uuid, bytes(data), made.index, b""))
    ledger = open_bucket(url).ledger(1)
    ledger.index  # noqa: B018  (imports and kernels first)
    with pytest.raises(CorruptObjectError):
        ledger.read(0, 1)
    tracemalloc.start()
    with pytest.raises(CorruptObjectError):
        ledger.read(0, 1)
    assert verify(open_bucket(url)).is_damaged
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.long
@settings(deadline=None, max_examples=70)
@given(data=st.data())
def test_random_damage_never_escapes_as_another_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = offload([b"entry-%d" % i * (i % 7) for i in range(30)], block_size=400)
    target = data.draw(st.sampled_from(["data", "index"]))
    damaged = bytearray(getattr(made, target))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + 1] = data.draw(st.binary(max_size=6))
        if not damaged:
            break
    broken = {"data": made.data, "index": made.index} | {target: bytes(damaged)}
    bucket = open_bucket(
        put_in_folder(tmp_path_factory.mktemp("bad"), Offload(1, made.uuid, broken["data"], broken["index"], b""))
    )
    verify(bucket)
    with contextlib.suppress(LedgerfsError):
        ledger = bucket.ledger(1)
        if ledger.last_entry < 100_000:
            ledger.read(0, ledger.last_entry)
        records_of(ledger, 0, min(ledger.records_size, 10_000))

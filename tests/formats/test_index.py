import hashlib
import struct
import tracemalloc
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptIndexError, CorruptMetadataError, LedgerfsError, UnsupportedFormatError
from ledgerfs.formats.ledger_metadata import Ensemble, LedgerMetadata, build_ledger_metadata
from ledgerfs.formats.pulsar_blob.index import IndexedBlock, OffloadIndex, build_index, parse_index
from tests.support.each import for_each
from tests.support.ledgers import offload

MIB = 1 << 20
HEADER = ">IiqqiI"
MAX_INT64 = 2**63 - 1

quick = settings(deadline=None, max_examples=80)


def published_index(length, last_entry, created_ms, data_length):
    """Return the values of one of the two small ledgers that Pulsar's own tests ship."""
    metadata = LedgerMetadata(
        length=length,
        last_entry=last_entry,
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        state=3,
        digest_type=3,
        created_ms=created_ms,
        ensembles=(Ensemble(0, ("127.0.0.1:3181",)),),
        custom=(
            ("pulsar/managed-ledger", b"public/default/persistent/read-test"),
            ("component", b"managed-ledger"),
            ("application", b"pulsar"),
        ),
    )
    return OffloadIndex(data_length, 128, metadata, (IndexedBlock(0, 1, 0),))


FIRST = published_index(65, 0, 1632298336121, 205)
SECOND = published_index(132, 1, 1632298418975, 284)

THREE_BLOCKS = OffloadIndex(
    data_length=3 * 64 * MIB,
    header_length=128,
    metadata=LedgerMetadata(
        length=100,
        last_entry=5000,
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        state=3,
        digest_type=3,
        created_ms=None,
        ensembles=(Ensemble(0, ("127.0.0.1:3181", "127.0.0.2:3181", "127.0.0.3:3181")),),
        custom=(("key1", b"value1"), ("key7", b"value7")),
    ),
    blocks=(IndexedBlock(0, 2, 0), IndexedBlock(1000, 3, 64 * MIB), IndexedBlock(2000, 4, 128 * MIB)),
)
SMALL = build_index(replace(THREE_BLOCKS, metadata=replace(THREE_BLOCKS.metadata, ensembles=(), custom=())))


def packed(index, **fields):
    """Return the bytes of ``index`` with some header fields replaced."""
    data = build_index(index)
    names = ("magic", "index_length", "data_length", "header_length", "count", "metadata_length")
    values = dict(zip(names, struct.unpack_from(HEADER, data), strict=True)) | fields
    values["metadata_length"] &= 0xFFFFFFFF
    values["magic"] &= 0xFFFFFFFF
    return struct.pack(HEADER, *values.values()) + data[32:]


def with_row(index, row, column, value):
    """Return the bytes of ``index`` with one number of its table replaced."""
    data = bytearray(build_index(index))
    at = len(data) - 20 * len(index.blocks) + 20 * row
    values = list(struct.unpack_from(">qiq", data, at))
    values[column] = value
    struct.pack_into(">qiq", data, at, *values)
    return bytes(data)


def assert_parses_or_is_refused(data):
    refused = None
    try:
        index = parse_index(data, key="object")
    except LedgerfsError as error:
        refused = error
    if refused is not None:
        assert refused.key == "object"
        assert refused.offset is not None
        return
    offsets = [block.offset for block in index.blocks]
    entries = [block.first_entry for block in index.blocks]
    assert offsets == sorted(set(offsets))
    assert entries == sorted(set(entries))
    assert (offsets[0], entries[0]) == (0, 0)
    assert offsets[-1] <= index.data_length
    assert entries[-1] <= index.metadata.last_entry
    assert not index.is_plausible or index.padding >= 0


@st.composite
def indexes(draw):
    """Draw any index that parses, not only those that Pulsar would write."""
    rows = draw(st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**12), st.integers(-(2**31), 2**31 - 1))))
    entries = [0, *accumulate(row[0] for row in rows)]
    offsets = [0, *accumulate(row[1] for row in rows)]
    parts = [1, *(row[2] for row in rows)]
    header_length = draw(st.integers(28, 4096))
    text = st.text(st.characters(codec="utf-8"), max_size=5)
    metadata = LedgerMetadata(
        length=draw(st.integers(0, 2**62)),
        last_entry=draw(st.integers(entries[-1], 2**58)),
        ensemble_size=3,
        write_quorum=2,
        ack_quorum=draw(st.none() | st.integers(0, 3)),
        state=draw(st.integers(1, 3)),
        digest_type=draw(st.none() | st.integers(1, 4)),
        created_ms=draw(st.none() | st.integers(1, MAX_INT64)),
        custom=tuple(draw(st.lists(st.tuples(text, st.binary(max_size=5)), max_size=3))),
    )
    return OffloadIndex(
        data_length=draw(st.integers(max(offsets[-1], header_length), MAX_INT64)),
        header_length=header_length,
        metadata=metadata,
        blocks=tuple(map(IndexedBlock, entries, parts, offsets)),
    )


@pytest.mark.parametrize(
    ("index", "size", "metadata_size", "sha256"),
    [
        (FIRST, 207, 155, "980e7ab56f565574e832590d274a010f4f14d42e972e47ea73b2a86c4f2b1c5d"),
        (SECOND, 208, 156, "ae2778d9fa7c40b0c518cfb5cc5f14f180fa71d93b6e629244054f8d8aad0bfb"),
    ],
)
def test_published_index_is_built_byte_for_byte(index, size, metadata_size, sha256):
    data = build_index(index)
    assert len(build_ledger_metadata(index.metadata)) == metadata_size
    assert len(data) == size == 32 + metadata_size + 20
    assert struct.unpack_from(HEADER, data) == (0xDE47DE47, size, index.data_length, 128, 1, metadata_size)
    assert data[-20:] == bytes.fromhex("0000000000000000 00000001 0000000000000000")
    assert hashlib.sha256(data).hexdigest() == sha256


def test_streaming_index_is_unsupported_by_name():
    rows = b"".join(struct.pack(">qiq", entry, part, 0) for entry, part in ((0, 2), (1000, 3), (2000, 4)))
    ledger_info = bytes.fromhex("0801108927 1890 4E")
    data = struct.pack(">Iiqq", 0x3D1FB0BC, 108, 1, 128) + struct.pack(">qii", 1, 3, 8) + ledger_info + rows
    assert len(data) == 108
    with pytest.raises(UnsupportedFormatError, match="PIP-76") as caught:
        parse_index(data, key="object")
    assert (caught.value.key, caught.value.offset) == ("object", 0)
    for size in (4, 24, 31):
        with pytest.raises(UnsupportedFormatError):
            parse_index(data[:size])


@pytest.mark.parametrize("index", [FIRST, THREE_BLOCKS])
def test_truncation_anywhere_is_corrupt_and_names_the_object(index):
    data = build_index(index)
    for size in range(len(data)):
        with pytest.raises((CorruptIndexError, CorruptMetadataError)) as caught:
            parse_index(data[:size], key="object")
        assert caught.value.key == "object"
        assert caught.value.offset is not None
        assert 0 <= caught.value.offset <= max(size, 32)


@quick
@given(indexes())
def test_any_well_formed_index_round_trips(index):
    data = build_index(index)
    assert parse_index(data) == index
    assert build_index(parse_index(data)) == data


@pytest.mark.parametrize("value", [0, -1, 2**31 - 1])
def test_index_length_is_ignored_but_odd(value):
    index = parse_index(packed(THREE_BLOCKS, index_length=value))
    assert f"the index has the length {value} in its header" in index.oddity
    assert replace(index, oddity=None) == THREE_BLOCKS


def test_bytes_behind_the_table_are_ignored_but_odd():
    data = build_index(FIRST)
    index = parse_index(data + b"more")
    assert index.oddity == "the index has the length 207 in its header; the object has 211 bytes, of which 207 are used"
    assert replace(index, oddity=None) == FIRST


@for_each(
    ("field", "value", "offset"),
    [
        ("magic", 0, 0),
        ("magic", -1, 0),
        ("magic", 2**31 - 1, 0),
        ("data_length", 0, 16),
        ("data_length", -1, 8),
        ("header_length", 0, 16),
        ("header_length", -1, 16),
        ("header_length", 2**31 - 1, 16),
        ("header_length", MAX_INT64, 16),
        ("count", 0, 24),
        ("count", -1, 24),
        ("count", 2**31 - 1, 24),
        ("metadata_length", -1, 24),
        ("metadata_length", 2**31 - 1, 24),
    ],
)
def test_extreme_header_field_is_corrupt_at_its_place(field, value, offset):
    with pytest.raises(CorruptIndexError) as caught:
        parse_index(packed(THREE_BLOCKS, **{field: value}), key="object")
    assert (caught.value.key, caught.value.offset) == ("object", offset)


@for_each("value", [0, -1, 2**31 - 1, MAX_INT64])
@for_each("column", [0, 2])
@for_each("row", range(3))
def test_extreme_place_of_a_block_is_corrupt_in_the_table(row, column, value):
    data = with_row(THREE_BLOCKS, row, column, value)
    if row == 0 and value == 0:
        assert data == build_index(THREE_BLOCKS)
        return
    with pytest.raises(CorruptIndexError) as caught:
        parse_index(data, key="object")
    assert caught.value.key == "object"
    assert caught.value.offset in {len(data) - 60 + 20 * at for at in (row, row + 1)}


@pytest.mark.parametrize(("column", "limit"), [(0, 5000), (2, 3 * 64 * MIB)])
def test_last_block_may_start_at_the_end_but_not_behind_it(column, limit):
    assert parse_index(with_row(THREE_BLOCKS, 2, column, limit)).blocks[2] != THREE_BLOCKS.blocks[2]
    with pytest.raises(CorruptIndexError, match="last block starts at"):
        parse_index(with_row(THREE_BLOCKS, 2, column, limit + 1))


@for_each(
    "claim",
    [
        {"count": 2**31 - 1},
        {"metadata_length": 2**31 - 1},
        {"metadata_length": 2**32 - 1},
        {"count": 2**31 - 1, "metadata_length": 2**31 - 1},
        {"data_length": MAX_INT64, "count": 2**31 - 1},
    ],
)
def test_huge_claims_allocate_nothing(claim):
    data = packed(FIRST, **claim)[:200]
    tracemalloc.start()
    try:
        with pytest.raises(CorruptIndexError):
            parse_index(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MIB


@quick
@given(st.lists(st.binary(max_size=120), min_size=1, max_size=20), st.integers(128 + 12 + 120, 1000))
def test_healthy_ledgers_are_plausible(entries, block_size):
    made = offload(entries, block_size=block_size)
    index = parse_index(made.index)
    assert index.is_plausible
    assert index.padding == len(made.data) - 128 * len(index.blocks) - len(made.records)
    assert index.oddity is None


def test_truncated_ledger_is_not_plausible_even_if_its_entries_would_fit():
    metadata = replace(THREE_BLOCKS.metadata, length=0, last_entry=9)
    index = OffloadIndex(5 * MIB, 128, metadata, (IndexedBlock(0, 1, 0), IndexedBlock(1, 2, 5 * MIB)))
    assert index.padding > 0
    assert not parse_index(build_index(index)).is_plausible


@pytest.mark.parametrize("surplus", [-1, 0, 1])
def test_only_block_has_to_be_exact(surplus):
    index = parse_index(build_index(replace(SECOND, data_length=284 + surplus)))
    assert index.padding == surplus
    assert index.is_plausible == (surplus == 0)


def test_several_blocks_may_hold_padding_but_not_too_few_bytes():
    metadata = replace(THREE_BLOCKS.metadata, length=3 * 64 * MIB - 3 * 128 - 12 * 5001)
    full = replace(THREE_BLOCKS, metadata=metadata)
    assert full.padding == 0
    assert full.is_plausible
    assert replace(full, metadata=replace(metadata, length=metadata.length - 1)).is_plausible
    assert not replace(full, metadata=replace(metadata, length=metadata.length + 1)).is_plausible


def test_last_block_needs_room_for_its_header():
    blocks = THREE_BLOCKS.blocks
    fits = replace(THREE_BLOCKS, data_length=128 * MIB + 128)
    assert fits.is_plausible
    assert not replace(fits, data_length=128 * MIB + 127).is_plausible
    assert fits.blocks == blocks


@quick
@given(st.binary(max_size=300))
def test_arbitrary_bytes_raise_nothing_else(data):
    for attempt in (data, bytes.fromhex("DE47DE47") + data, SMALL[:32] + data, SMALL[:24] + data):
        assert_parses_or_is_refused(attempt)


@settings(deadline=None, max_examples=180)
@given(
    st.sampled_from([build_index(FIRST), build_index(THREE_BLOCKS), SMALL]),
    st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4),
    st.integers(0, 20),
)
def test_mutated_indexes_raise_nothing_else(data, patches, cut):
    mutated = bytearray(data)
    for at, patch in patches:
        mutated[at % len(data) : at % len(data) + len(patch)] = patch
    assert_parses_or_is_refused(bytes(mutated[: len(mutated) - cut]))

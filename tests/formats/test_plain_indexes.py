import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.ledger_metadata import MOVED_KEY, Ensemble, LedgerMetadata
from ledgerfs.formats.origin import ORIGIN_KEY, Origin
from ledgerfs.formats.pulsar_blob.index import IndexedBlock, OffloadIndex, build_index, parse_index
from ledgerfs.formats.pulsar_blob.plain_indexes import SUMMARY, summarise
from tests.support.each import for_each

NAME = b"public/default/persistent/orders"
METADATA = LedgerMetadata(
    length=300,
    last_entry=9,
    ensemble_size=2,
    write_quorum=2,
    ack_quorum=1,
    state=3,
    digest_type=3,
    created_ms=1_700_000_000_000,
    ensembles=(Ensemble(0, ("127.0.0.1:3181", "127.0.0.2:3181")), Ensemble(5, ("127.0.0.1:3181",))),
    custom=(("component", b"managed-ledger"), ("pulsar/managed-ledger", NAME), ("application", b"pulsar")),
)
INDEX = OffloadIndex(1000, 128, METADATA, (IndexedBlock(0, 1, 0), IndexedBlock(4, 2, 600)))


def read(*indexes: bytes) -> tuple[list[bool], Any, bytes]:
    data = b"".join(indexes)
    ends = np.cumsum([len(one) for one in indexes], dtype=np.int64)
    plain, rows = summarise(np.frombuffer(data, np.uint8), ends)
    assert rows.dtype == SUMMARY
    assert not rows[~plain].view("i8").any()
    return plain.tolist(), rows, data


def assert_tells_the_same(row: Any, data: bytes, index: OffloadIndex) -> None:
    metadata = index.metadata
    name = data[row["name_start"] : row["name_end"]].decode("utf-8", "replace") or None
    told = (row["data_length"], row["blocks"], row["length"], row["last_entry"], row["created_ms"], name)
    assert told == (
        index.data_length,
        len(index.blocks),
        metadata.length,
        metadata.last_entry,
        metadata.created_ms or 0,
        metadata.managed_ledger,
    )
    assert (row["in_place"], row["plausible"]) == (metadata.is_in_place, index.is_plausible)
    assert (index.oddity, metadata.origin) == (None, None)


def with_metadata(index: OffloadIndex, metadata: bytes) -> bytes:
    """Return an index with other bytes as its metadata, and lengths that fit."""
    table = b"".join(struct.pack(">qiq", one.first_entry, one.part, one.offset) for one in index.blocks)
    length = 32 + len(metadata) + len(table)
    head = (0xDE47DE47, length, index.data_length, index.header_length, len(index.blocks), len(metadata))
    return struct.pack(">IiqqiI", *head) + metadata + table


def varint(value: int, needless: int = 0) -> bytes:
    value &= 2**64 - 1
    groups = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)] + [0] * needless
    return bytes([group | 128 for group in groups[:-1]] + groups[-1:])


def number(field: int, value: int, needless: int = 0) -> bytes:
    return varint(field << 3) + varint(value, needless)


def nested(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def custom(key: bytes, value: bytes) -> bytes:
    return nested(11, nested(1, key) + nested(2, value))


def ensemble(bookies: list[bytes], first_entry: int) -> bytes:
    return nested(6, b"".join(nested(1, bookie) for bookie in bookies) + number(2, first_entry))


REQUIRED = [number(1, 2), number(2, 2), number(3, 300), number(4, 9), number(5, 3)]
small = st.integers(0, 2**31 - 1)
varied = st.one_of(
    small, st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, -1, 1, 2**31])
)
keys = st.sampled_from(
    [b"pulsar/managed-ledger", b"application", b"", b"pulsar/managed-ledgers", *(k.encode() for k in (MOVED_KEY, ORIGIN_KEY))]
)  # fmt: skip
fields = st.one_of(
    st.builds(number, st.integers(1, 12), varied, st.sampled_from([0, 0, 0, 1, 5])),
    st.builds(custom, keys, st.one_of(st.just(NAME), st.binary(max_size=9))),
    st.builds(ensemble, st.lists(st.binary(max_size=4), max_size=3), varied),
    st.builds(nested, st.sampled_from([6, 8, 11, 12]), st.binary(max_size=6)),
    st.binary(max_size=4),
)  # fmt: skip
wire = st.lists(st.one_of(st.sampled_from(REQUIRED), fields), max_size=4).flatmap(
    lambda more: st.permutations([*REQUIRED, *more])
)


@st.composite
def as_brokers_write(draw: st.DrawFn) -> OffloadIndex:
    steps = draw(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**9)), max_size=4))
    blocks = [IndexedBlock(0, 1, 0)]
    for entries, size in steps:
        blocks.append(IndexedBlock(blocks[-1].first_entry + entries, len(blocks) + 1, blocks[-1].offset + size))
    bookies = st.lists(st.text(max_size=20), max_size=3).map(tuple)
    name = draw(st.none() | st.text(max_size=40))
    others = draw(st.dictionaries(st.sampled_from(["application", "component", "x"]), st.binary(max_size=20)))
    told = [*others.items(), *([] if name is None else [("pulsar/managed-ledger", name.encode())])]
    metadata = LedgerMetadata(
        length=draw(st.integers(0, 2**40)),
        last_entry=blocks[-1].first_entry + draw(st.integers(0, 2**40)),
        ensemble_size=draw(small),
        write_quorum=draw(small),
        ack_quorum=draw(st.none() | small),
        state=draw(st.sampled_from([1, 2, 3])),
        digest_type=draw(st.none() | st.sampled_from([1, 2, 3, 4])),
        created_ms=draw(st.none() | st.integers(1, 2**62)),
        ensembles=tuple(Ensemble(draw(small), draw(bookies)) for _ in range(draw(st.integers(0, 3)))),
        custom=tuple(draw(st.permutations(told))),
    )
    length = draw(st.integers(128 + blocks[-1].offset, 2**50))
    index = OffloadIndex(
        length, draw(st.integers(28, 4096).filter(lambda size: size <= length)), metadata, tuple(blocks)
    )
    # Half of them with a data object that is as long as it has to be.
    needed = index.header_length * len(blocks) + metadata.records_size
    return replace(index, data_length=needed) if draw(st.booleans()) and needed >= blocks[-1].offset else index


def test_indexes_of_a_real_pulsar_are_plain(golden: Path) -> None:
    paths = sorted(golden.glob("**/*-index"))
    assert len(paths) > 20
    contents = [path.read_bytes() for path in paths]
    plain, rows, data = read(*contents)
    assert all(plain)
    for row, content in zip(rows, contents, strict=True):
        assert_tells_the_same(row, data, parse_index(content))


@settings(deadline=None)
@given(st.lists(as_brokers_write(), min_size=1, max_size=5))
def test_any_that_brokers_could_write_is_plain(indexes: Sequence[OffloadIndex]) -> None:
    plain, rows, data = read(*map(build_index, indexes))
    assert all(plain)
    for row, index in zip(rows, indexes, strict=True):
        assert_tells_the_same(row, data, parse_index(build_index(index)))


@settings(deadline=None)
@given(as_brokers_write(), st.data())
def test_a_damaged_one_is_not_plain_or_told_as_the_parser_tells_it(index: OffloadIndex, data: st.DataObject) -> None:
    content = bytearray(build_index(index))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        change = data.draw(st.sampled_from(["flip", "cut", "add", "set"]))
        if change == "flip":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        elif change == "set":
            content[at] = data.draw(st.sampled_from([0, 127, 128, 255]))
        elif change == "add":
            content[at:at] = data.draw(st.binary(max_size=3))
        elif at:
            del content[at:]
    _assert_never_another(bytes(content))


@settings(deadline=None)
@given(wire, st.integers(548, 10**6))
@example([*REQUIRED, number(4, 8)], 548)
@example([*REQUIRED, number(1, 2**31)], 548)
@example([*REQUIRED, number(10, -1), custom(b"pulsar/managed-ledger", b"")], 548)
@example([*REQUIRED, custom(b"pulsar/managed-ledger", b"a"), custom(b"pulsar/managed-ledger", b"b")], 548)
@example([*REQUIRED, varint(11 << 3 | 2) + varint(4, needless=5) + b"\x0a\x00\x12\x00"], 548)
@example([*REQUIRED, custom(MOVED_KEY.encode(), b"true")], 548)
@example([*REQUIRED, nested(6, number(2, 0))], 548)
def test_metadata_of_any_fields_is_not_plain_or_told_as_the_parser_tells_it(parts: list[bytes], length: int) -> None:
    _assert_never_another(with_metadata(OffloadIndex(length, 128, METADATA, (IndexedBlock(0, 1, 0),)), b"".join(parts)))


@for_each(
    "index",
    [
        build_index(replace(INDEX, metadata=METADATA.moved())),
        build_index(replace(INDEX, metadata=METADATA.made_of(Origin(3, 4, 5)))),
        build_index(INDEX) + b"\0",
        build_index(INDEX)[:-1],
        build_index(replace(INDEX, data_length=2**63 - 1)),
        build_index(replace(INDEX, data_length=2**63 - 1, header_length=2**62)),
        b"",
        bytes(40),
    ],
)
def test_what_has_marks_of_ledgerfs_or_cannot_be_is_left_to_the_parser(index: bytes) -> None:
    plain, rows, _ = read(build_index(INDEX), index, build_index(INDEX))
    assert plain == [True, False, True]
    assert rows["data_length"].tolist() == [1000, 0, 1000]


def _assert_never_another(content: bytes) -> None:
    """Among sound ones, it is not plain, or as it parses."""
    (before, is_plain, after), rows, data = read(build_index(INDEX), content, build_index(INDEX))
    assert before
    assert after
    assert_tells_the_same(rows[0], data, INDEX)
    assert_tells_the_same(rows[2], data, INDEX)
    if is_plain:
        try:
            index = parse_index(content)
        except LedgerfsError as error:
            raise AssertionError(content.hex()) from error
        assert_tells_the_same(rows[1], data, index)

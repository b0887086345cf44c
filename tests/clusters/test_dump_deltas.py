"""Deltas of dumps: a base and a delta give exactly the new dump; what is damaged, cut, or of another base gives an error."""

import contextlib
from collections.abc import Iterable
from hashlib import sha256
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.clusters.answers import CursorAnswer, LastEnd, LedgerEndAnswer, SchemaAnswer
from ledgerfs.clusters.common_lines import digests_of, places_in
from ledgerfs.clusters.dump_deltas import applied, write_delta
from ledgerfs.clusters.dump_file import DumpEnd, DumpHeader, DumpWriter, PartDone, Record, dump_lines, records_of
from ledgerfs.errors import CorruptObjectError
from ledgerfs.storage.zookeeper.node import Node
from tests.support.each import for_each

HEADERS = st.builds(DumpHeader, st.just("pulsar+zk://zk:2181"), st.just("/ledgers"), st.integers(0, 3))
INNER = st.one_of(
    st.builds(
        Node,
        st.integers(0, 12).map("/ledgers/00/0000/L{:04}".format),
        *(st.binary(max_size=2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.just(0)),
    ),
    st.builds(PartDone, st.sampled_from(["ledgers", "topics"]), st.integers(0, 3)),
    st.builds(LedgerEndAnswer, st.integers(0, 3), st.sampled_from(LastEnd)),
    st.builds(CursorAnswer, st.just("/managed-ledgers/t/n/persistent/x/s"), st.none() | st.binary(max_size=2)),
    st.builds(SchemaAnswer, st.sampled_from(["t/n/x", "t/n/€"]), st.integers(0, 3), st.none() | st.binary(max_size=2)),
)
DUMPS = st.builds(
    lambda header, inner, end: [header, *inner, end],
    *(HEADERS, st.lists(INNER, max_size=30), st.builds(DumpEnd, st.integers(0, 3), st.integers(0, 3))),
)


def stored(records: Iterable[Record]) -> bytes:
    file = BytesIO()
    writer = DumpWriter(file)
    for record in records:
        writer.write(record)
    writer.flush()
    return file.getvalue()


def lines_of(data: bytes) -> list[bytes]:
    return list(dump_lines(BytesIO(data), "x"))


def delta_of(base: list[bytes], new: list[bytes], name: str = "base") -> bytes:
    file = BytesIO()
    writer = DumpWriter(file)
    write_delta(base, lambda: new, name, writer)
    writer.flush()
    return file.getvalue()


def longest_common(one: list[bytes], other: list[bytes]) -> int:
    """The length of the longest common part, the slow way."""
    row = [0] * (len(other) + 1)
    for line in one:
        before = row
        row = [0]
        for place, its in enumerate(other):
            row.append(before[place] + 1 if line == its else max(row[-1], before[place + 1]))
    return row[-1]


@given(DUMPS, DUMPS)
def test_a_base_and_its_delta_give_the_new_dump(old: list[Record], new: list[Record]) -> None:
    base, lines = lines_of(stored(old)), lines_of(stored(new))
    delta = lines_of(delta_of(base, lines))
    found = list(applied(base, delta, "base", "delta"))
    assert found == lines
    assert list(records_of(found, "delta")) == new


@given(st.data(), st.lists(INNER, min_size=1, max_size=30, unique_by=str))
def test_a_few_changes_are_a_few_lines(data: st.DataObject, inner: list[Record]) -> None:
    """Of a dump with lines that are changed, gone or added, the delta has those alone, and between two of them one line."""
    header, end = DumpHeader("c", "/ledgers", 1), DumpEnd(1, 2)
    new = list(inner)
    changes = data.draw(st.integers(0, 3))
    for number in range(changes):
        place = data.draw(st.integers(0, len(new)))
        gone = data.draw(st.integers(0, 1))
        new[place : place + gone] = [PartDone(f"new {number}", 1)] * data.draw(st.integers(0, 1))
    base, lines = lines_of(stored([header, *inner, end])), lines_of(stored([header, *new, end]))
    delta = lines_of(delta_of(base, lines))
    # Its own header, perhaps the other one's, the end, the bracket; of each change a line, and one for what lies between two.
    assert len(delta) <= 4 + 2 * changes + 1


@given(st.lists(st.integers(0, 9), max_size=40), st.lists(st.integers(0, 9), max_size=40, unique=True))
def test_as_many_lines_as_possible_are_taken_in_their_order(new: list[int], old: list[int]) -> None:
    one, other = ([b"%d" % number for number in numbers] for numbers in (new, old))
    places = places_in(digests_of(other), digests_of(one)).tolist()
    taken = [(place, line) for place, line in zip(places, one, strict=True) if place >= 0]
    assert all(other[place] == line for place, line in taken)
    assert all(before < after for (before, _), (after, _) in pairwise(taken))
    assert len(taken) == longest_common(one, other)


def test_lines_whose_digests_begin_alike_are_others() -> None:
    old = np.array([[1, 2], [3, 4]], np.uint64)
    assert places_in(old, np.array([[1, 3], [3, 4], [0, 0], [9, 9]], np.uint64)).tolist() == [-1, 1, -1, -1]


OLD = [DumpHeader("c", "/ledgers", 1), *(Node(f"/n{i}", b"%d" % i, 1, 2, 3, 0) for i in range(20)), DumpEnd(20, 2)]
NEW = [
    DumpHeader("c", "/ledgers", 3),
    *(Node(f"/n{i}", b"%d" % (i % 7), 1, 2, 3, 0) for i in range(22)),
    DumpEnd(22, 4),
]


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_of_a_delta_is_damage_or_changes_nothing(place: int, change: int) -> None:
    base, lines = lines_of(stored(OLD)), lines_of(stored(NEW))
    data = bytearray(delta_of(base, lines))
    data[place % len(data)] ^= change
    with contextlib.suppress(CorruptObjectError):
        assert list(applied(base, dump_lines(BytesIO(data), "x"), "base", "x")) == lines


@given(st.integers(0, 100), st.integers(0, 2))
def test_a_line_less_or_twice_is_damage(place: int, times: int) -> None:
    """Of the delta, or of its base: whatever is not as it was made is told, in the end at least."""
    base, lines = lines_of(stored(OLD)), lines_of(stored(NEW))
    delta = lines_of(delta_of(base, lines))
    place %= len(delta)
    damaged = [*delta[:place], *delta[place : place + 1] * times, *delta[place + 1 :]]
    if damaged == delta:
        assert list(applied(base, damaged, "base", "x")) == lines
        return
    with pytest.raises(CorruptObjectError):
        list(records_of(applied(base, damaged, "base", "x"), "x"))


def test_a_delta_of_another_base_is_refused() -> None:
    base, lines = lines_of(stored(OLD)), lines_of(stored(NEW))
    delta = lines_of(delta_of(base, lines))
    with pytest.raises(CorruptObjectError, match="a delta of base, and not of other"):
        list(applied(base, delta, "other", "x"))
    for wrong in (base[:4], [*base[:3], *base[4:]], []):
        with pytest.raises(CorruptObjectError, match=r"its base ends before|do not give the dump"):
            list(applied(wrong, delta, "base", "x"))


@for_each(
    "line",
    [b',"same 0": [3]\n', b',"same 0": [-1,2]\n', b',"same 0": [1,0]\n', b',"same 0": [1,%s]\n' % (b"9" * 30),
     b',"same 0": ["\xff",1]\n', b',"same 0": [1000000,1]\n', b',"same 0": [1,1000000]\n'],
)  # fmt: skip
def test_lines_that_name_no_lines_of_the_base_are_damage(line: bytes) -> None:
    base, lines = lines_of(stored(OLD)), lines_of(stored(NEW))
    delta = lines_of(delta_of(base, lines))
    with pytest.raises(CorruptObjectError, match="x: "):
        list(applied(base, [*delta[:2], line, *delta[2:]], "base", "x"))


@for_each("line", [b"", b"{}\n", b"[" * 100_000, b'{"delta": {"format":"cluster-dump-delta","version":2}\n'])
def test_what_is_no_delta_is_refused(line: bytes) -> None:
    with pytest.raises(CorruptObjectError, match="x: line 1 is none of a delta"):
        list(applied([], [line], "base", "x"))


def test_the_digest_is_that_of_the_new_lines() -> None:
    base, lines = lines_of(stored(OLD)), lines_of(stored(NEW))
    assert sha256(b"".join(lines)).hexdigest().encode() in lines_of(delta_of(base, lines))[0]

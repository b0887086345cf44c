"""Gathered columns against slow slices."""

import numpy as np
import pytest

from ledgerfs.errors import CorruptObjectError
from ledgerfs.messages.kernels import gather as module
from ledgerfs.messages.kernels.gather import gather_bytes, gather_properties, gather_text
from tests.support.each import for_each
from tests.support.entries import metadata


def test_what_is_not_utf_8_becomes_the_replacement_character_and_its_neighbours_stay():
    pieces = [b"plain", b"\xff", "grün".encode(), b"a\xc3", b"\xed\xa0\x80", b"", b"\xf0\x9f\x98\x80"]
    source = np.frombuffer(b"".join(pieces), np.uint8)
    size = np.array([len(piece) for piece in pieces])
    array = gather_text(source, np.cumsum(size) - size, size)
    assert array.to_pylist() == ["plain", "\ufffd", "grün", "a\ufffd", "\ufffd" * 3, "", "😀"]


def test_texts_that_are_utf_8_only_together_are_judged_one_by_one():
    source = np.frombuffer("ü".encode(), np.uint8)
    array = gather_text(source, np.array([0, 1]), np.array([1, 1]))
    assert array.to_pylist() == ["\ufffd", "\ufffd"]


def test_nothing_at_all():
    none = np.array([], np.int64)
    source = np.frombuffer(b"abc", np.uint8)
    assert gather_bytes(source, none, none).to_pylist() == []
    assert gather_text(source, none, none, np.array([], bool)).to_pylist() == []
    assert gather_properties(source, none, none, none, none).to_pylist() == []


def test_properties_that_break_their_bounds_are_cut_short():
    for broken in (b"\x0a\x05abc", b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01abc", b"\xff"):
        head = b"\x22" + bytes([len(broken)]) + broken + metadata().SerializeToString()
        source = np.frombuffer(head + b"secret", np.uint8)
        one = np.array([1], np.int64)
        array = gather_properties(source, one * 0, one * len(head), one * 4, one)
        assert array.to_pylist() == [[("", "")]]


@for_each("counts", [[2**31], [2**30, 2**30], [2**32 + 1], [2**63 - 1, 2**63 - 1, 2]])
def test_more_properties_than_offsets_can_count_are_an_error(counts):
    numbers = np.array(counts, np.int64)
    with pytest.raises(CorruptObjectError):
        gather_properties(np.zeros(1, np.uint8), numbers * 0, numbers * 0, numbers * 0, numbers)


def test_text_that_grows_beyond_what_offsets_can_count_by_its_replacement_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "_LARGEST_COLUMN", 30)
    source = np.frombuffer(b"\xff" * 11, np.uint8)
    zero, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    assert gather_text(source, zero, 10 * one).to_pylist() == ["\ufffd" * 10]
    with pytest.raises(CorruptObjectError):
        gather_text(source, zero, 11 * one)

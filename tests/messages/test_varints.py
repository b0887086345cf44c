"""Varints wherever they stand: read eight bytes at a time where there are as many, byte by byte elsewhere."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from ledgerfs.messages.kernels.wire import read_varint


@njit
def read(data, at, end):  # type: ignore[no-untyped-def]
    return read_varint(data, at, end)


def by_bytes(data: bytes, at: int, end: int) -> tuple[int, int] | None:
    """Return the number, of 64 bits with a sign, and the index after it; None where there is none."""
    number = 0
    for place in range(at, min(end, at + 10)):
        number |= (data[place] & 0x7F) << 7 * (place - at)
        if data[place] < 0x80:
            number &= 2**64 - 1
            return number - (number >> 63 << 64), place + 1
    return None


@given(
    st.lists(st.integers(0x80, 0xFF), max_size=11).map(bytes),
    st.binary(min_size=1, max_size=12),
    st.integers(0, 3),
    st.integers(0, 12),
)
def test_any_bytes(leading: bytes, then: bytes, at: int, left_out: int) -> None:
    data = bytes(at) + leading + then
    end = max(at, len(data) - left_out)
    found = read(np.frombuffer(data, np.uint8), at, end)
    expected = by_bytes(data, at, end)
    assert (found[1] < 0) if expected is None else (found == expected)

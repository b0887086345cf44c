import zlib

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from ledgerfs.formats.crc import (
    _has_crc_instruction,
    crc32_after,
    crc32c,
    crc32c_after,
    crc32c_after_by_instruction,
    crc32c_after_by_tables,
)


def called(inner):
    """Return what calls a kernel that only kernels can call."""
    return njit(lambda crc, data, start, end: inner(crc, data, start, end))  # noqa: PLW0108  (inner has no wrapper)


CASTAGNOLI = [
    pytest.param(called(crc32c_after_by_tables), id="tables"),
    pytest.param(
        called(crc32c_after_by_instruction),
        id="instruction",
        marks=pytest.mark.skipif(not _has_crc_instruction(), reason="this CPU has no CRC32C instruction"),
    ),
    pytest.param(called(crc32c_after), id="chosen"),
    pytest.param(lambda _, data, start, end: crc32c(data, start, end), id="from the beginning"),
]
AFTER = [
    *(pytest.param(*one.values, google_crc32c.extend, id=one.id, marks=one.marks) for one in CASTAGNOLI[:3]),
    pytest.param(called(crc32_after), lambda crc, data: zlib.crc32(data, crc), id="zlib"),
]
ISCSI_READ = bytes.fromhex(
    "01C00000 00000000 00000000 00000000 14000000 00000400 00000014 00000018 28000000 00000000 02000000 00000000"
)


def of(kernel, data, start=0, end=None, crc=0):
    return int(kernel(np.uint32(crc), np.frombuffer(data, np.uint8), start, len(data) if end is None else end))


@pytest.mark.parametrize("kernel", CASTAGNOLI)
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"a", 0xC1D04330),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (ISCSI_READ, 0xD9963A56),
    ],
)
def test_published_vectors(kernel, data, expected):
    assert of(kernel, data) == expected


@pytest.mark.parametrize(("kernel", "expected"), AFTER)
@settings(deadline=None, max_examples=80)
@given(
    data=st.binary(max_size=300),
    repeats=st.integers(1, 8),
    start=st.integers(0, 20),
    cut=st.integers(0, 20),
    crc=st.integers(0, 2**32 - 1),
)
def test_any_bytes_after_any_others_agree_with_another_library(kernel, expected, data, repeats, start, cut, crc):
    data *= repeats
    start = min(start, len(data))
    end = max(start, len(data) - cut)
    assert of(kernel, data, start, end, crc) == expected(crc, data[start:end])

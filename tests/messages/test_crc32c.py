import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.messages.kernels.crc32c import _has_crc_instruction, crc32c, crc32c_by_instruction, crc32c_by_tables

KERNELS = [
    pytest.param(crc32c_by_tables, id="tables"),
    pytest.param(
        crc32c_by_instruction,
        id="instruction",
        marks=pytest.mark.skipif(not _has_crc_instruction(), reason="this CPU has no CRC32C instruction"),
    ),
    pytest.param(crc32c, id="chosen"),
]
ISCSI_READ = bytes.fromhex(
    "01C00000 00000000 00000000 00000000 14000000 00000400 00000014 00000018 28000000 00000000 02000000 00000000"
)


def of(kernel, data, start=0, end=None):
    return int(kernel(np.frombuffer(data, np.uint8), start, len(data) if end is None else end))


@pytest.mark.parametrize("kernel", KERNELS)
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


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_short_length_at_every_alignment(kernel):
    data = bytes((i * 151 + 7) % 256 for i in range(64))
    for start in range(9):
        for end in range(start, start + 41):
            assert of(kernel, data, start, end) == google_crc32c.value(data[start:end])


@pytest.mark.parametrize("kernel", KERNELS)
def test_writable_arrays_are_read_too(kernel):
    assert of(kernel, bytearray(b"123456789")) == 0xE3069283


@pytest.mark.parametrize("kernel", KERNELS)
@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300), start=st.integers(0, 20), cut=st.integers(0, 20))
def test_any_bytes_agree_with_another_library(kernel, data, start, cut):
    start = min(start, len(data))
    end = max(start, len(data) - cut)
    assert of(kernel, data, start, end) == google_crc32c.value(data[start:end])

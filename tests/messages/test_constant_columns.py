"""Columns of one value."""

import pyarrow as pa
import pytest

from ledgerfs.errors import CorruptObjectError
from ledgerfs.messages.decode.constant_columns import ConstantColumns


def test_a_longer_array_serves_as_any_shorter_one():
    constants = ConstantColumns()
    long = constants.repeat("key", "täxt", pa.string(), 10_000)
    short = constants.repeat("key", "täxt", pa.string(), 3)
    long.validate(full=True)
    assert long.to_pylist() == ["täxt"] * 10_000
    assert short.to_pylist() == ["täxt"] * 3
    assert short.buffers()[2].address == long.buffers()[2].address


def test_another_value_of_the_same_column_is_not_the_one_before():
    constants = ConstantColumns()
    assert [constants.repeat("a", value, pa.binary(), 2).to_pylist() for value in (b"x", None, b"")] == [
        [b"x", b"x"],
        [None, None],
        [b"", b""],
    ]


def test_text_that_is_repeated_more_often_than_offsets_can_count_is_an_error():
    """8,388,608 messages of a producer whose name has 256 bytes stand in 48 MiB."""
    with pytest.raises(CorruptObjectError, match="2147483648 bytes"):
        ConstantColumns().repeat("producer_name", "x" * 256, pa.string(), 2**31 // 256)

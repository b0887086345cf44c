"""Columns of one value, which are kept from batch to batch."""

import pyarrow as pa
import pytest

from ledgerfs.errors import CorruptObjectError
from ledgerfs.messages.decode.columns import repeated
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from tests.support.entries import TOPIC, batch_of, decode, frame, metadata


def test_a_shorter_column_is_a_slice_of_the_one_before_until_the_value_changes() -> None:
    decoder = TopicDecoder(TOPIC, DecodeOptions(["producer_name", "properties", "key"]))
    found = []
    for name, count in ((b"t\xc3\xa4xt", 5000), (b"t\xc3\xa4xt", 3), (b"", 2)):
        batch = decode(decoder, batch_of([frame(metadata(producer_name=name))] * count))
        batch.validate(full=True)
        assert batch.to_pylist() == [{"producer_name": name.decode(), "properties": [], "key": None}] * count
        found.append(batch["producer_name"].buffers()[2].address)
    assert found[0] == found[1] != found[2]


def test_text_that_is_repeated_more_often_than_offsets_can_count_is_an_error() -> None:
    """8,388,608 messages of a producer whose name has 256 bytes stand in 48 MiB."""
    with pytest.raises(CorruptObjectError, match="2147483648 bytes"):
        repeated("x" * 256, pa.string(), 2**31 // 256)

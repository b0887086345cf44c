"""Every codec: right, cut, lying, hostile; nothing is allocated that is above the limit."""

import contextlib
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import DecompressionError
from ledgerfs.formats.decompression import decompress
from tests.support.each import for_each
from tests.support.entries import LZ4, SNAPPY, ZLIB, ZSTD, compress, varint

CODECS = (LZ4, ZLIB, ZSTD, SNAPPY)
PLAIN = b"".join(b"order %d of customer %d; " % (i, i * 7919 % 101) for i in range(200))
LIMIT = 1 << 20
ENDS = [(LZ4, True), (ZLIB, True), (ZLIB, False), (ZSTD, True), (SNAPPY, True)]


def opened(codec: int, stored: bytes, size: int, limit: int = LIMIT) -> bytes:
    return decompress(codec, memoryview(stored), size, limit)


@for_each(("codec", "finish"), ENDS)
@settings(deadline=None, max_examples=50)
@given(plain=st.one_of(st.binary(max_size=300), st.binary(min_size=1, max_size=9).map(lambda data: data * 500)))
def test_what_was_compressed_comes_back(codec, finish, plain):
    assert opened(codec, compress(codec, plain, finish=finish), len(plain), len(plain)) == plain


@for_each(("codec", "finish"), ENDS)
def test_a_stream_cut_at_any_byte_is_an_error_or_still_whole(codec, finish):
    stored = compress(codec, PLAIN, finish=finish)
    for end in range(len(stored)):
        try:
            plain = opened(codec, stored[:end], len(PLAIN))
        except DecompressionError:
            continue
        assert plain == PLAIN  # such as zlib's without its checksum
        assert codec == ZLIB
        assert end > len(stored) - 10


@for_each(("codec", "finish"), ENDS)
@for_each("size", [0, 1, len(PLAIN) - 1, len(PLAIN) + 1, 2 * len(PLAIN), LIMIT, -1, -(2**63), LIMIT + 1])
def test_a_wrong_size_is_an_error(codec, finish, size):
    with pytest.raises(DecompressionError):
        opened(codec, compress(codec, PLAIN, finish=finish), size)


@for_each("codec", CODECS)
@for_each("size", [LIMIT + 1, 1 << 30, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1])
def test_nothing_is_allocated_for_a_size_above_the_limit(codec, size):
    stored = compress(codec, PLAIN)
    assert allocated_by(codec, stored, size) < 100_000


@for_each("codec", CODECS)
@for_each("size", [2**31, 2**32 - 1, 2**62, 2**63 - 1])
def test_sizes_that_no_codec_takes_are_an_error_whatever_the_limit(codec, size):
    with pytest.raises(DecompressionError):
        opened(codec, compress(codec, b"abc")[:-1], size, 2**64)


def allocated_by(codec: int, stored: bytes, size: int) -> int:
    """Return the peak of bytes allocated by an attempt, which has to fail."""
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError):
            opened(codec, stored, size)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@for_each("codec", [0, 5, -1, 2**31 - 1, 2**63 - 1])
def test_an_unknown_codec_is_an_error(codec):
    with pytest.raises(DecompressionError, match="unknown compression"):
        opened(codec, b"abc", 3)


@for_each("codec", CODECS)
@settings(deadline=None, max_examples=70)
@given(stored=st.binary(max_size=60), size=st.integers(0, 2000))
def test_any_bytes_are_an_error_or_as_many_as_were_claimed(codec, stored, size):
    with contextlib.suppress(DecompressionError):
        assert len(opened(codec, stored, size)) == size


@for_each("codec", CODECS)
@settings(deadline=None, max_examples=70)
@given(at=st.integers(0, 10_000), value=st.integers(1, 255))
def test_a_changed_byte_is_an_error_or_as_many_bytes_as_were_claimed(codec, at, value):
    stored = bytearray(compress(codec, PLAIN))
    stored[at % len(stored)] ^= value
    with contextlib.suppress(DecompressionError):
        assert len(opened(codec, bytes(stored), len(PLAIN))) == len(PLAIN)


def zstd_frame(content: int) -> bytes:
    """Return a ZSTD frame of one block of three bytes that claims ``content`` bytes (magic, 8-byte content size)."""
    return b"\x28\xb5\x2f\xfd\xe0" + content.to_bytes(8, "little") + b"\x19\x00\x00abc"


def test_the_frame_made_here_is_one():
    assert zstandard.ZstdDecompressor().decompress(zstd_frame(3)) == b"abc"
    assert opened(ZSTD, zstd_frame(3), 3) == b"abc"


@for_each("content", [0, 2, 4, 1 << 30, 2**31, 2**32, 2**62, 2**63 - 1, 2**64 - 3])
def test_a_zstd_frame_that_claims_another_size_allocates_nothing(content):
    assert allocated_by(ZSTD, zstd_frame(content), 3) < 100_000


def test_a_zstd_frame_that_says_no_size_holds_no_more_than_is_claimed():
    stored = zstandard.ZstdCompressor(write_content_size=False).compress(PLAIN)
    assert opened(ZSTD, stored, len(PLAIN)) == PLAIN
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(50 << 20))
    assert allocated_by(ZSTD, bomb, 1000) < 100_000
    for size in (0, len(PLAIN) - 1, len(PLAIN) + 1):
        with pytest.raises(DecompressionError):
            opened(ZSTD, stored, size)


@for_each("claimed", [0, 2, 4, 1 << 30, 2**31, 2**32 - 1, 2**32, 2**35 - 1, 2**63])
def test_a_snappy_stream_that_claims_another_length_allocates_nothing(claimed):
    assert allocated_by(SNAPPY, varint(claimed) + b"\x08abc", 3) < 100_000


def test_a_snappy_stream_that_claims_another_length_in_more_bytes_than_necessary():
    """The library allocates, without Python's knowledge, whatever it reads there."""
    with pytest.raises(DecompressionError, match="4294967295 bytes, expected 0"):
        opened(SNAPPY, b"\xff\xff\xff\xff\x8f\x00abc", 0)


def test_bytes_behind_a_zstd_frame_are_an_error():
    with pytest.raises(DecompressionError):
        opened(ZSTD, compress(ZSTD, PLAIN) + b"more", len(PLAIN))


def test_a_snappy_length_without_an_end_is_an_error():
    for stored in (b"", b"\x80", b"\xff" * 5, b"\xff" * 11):
        with pytest.raises(DecompressionError):
            opened(SNAPPY, stored, 3)


def test_a_zlib_bomb_gives_no_more_than_is_claimed():
    assert allocated_by(ZLIB, zlib.compress(bytes(50 << 20)), 1000) < 200_000

"""Payloads compressed as Pulsar's clients do it."""

import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.decompression import Compression, decompress
from ledgerfs.messages.codecs.compress import codec_named, compress
from tests.support.each import for_each

CODECS = [codec for codec in Compression if codec != Compression.NONE]
PLAIN = st.one_of(st.binary(max_size=300), st.binary(min_size=1, max_size=9).map(lambda piece: piece * 9000))


@given(PLAIN, st.sampled_from(CODECS))
def test_what_is_compressed_is_read_again(plain, codec):
    for given_as in (plain, memoryview(plain)):
        assert decompress(codec, memoryview(compress(codec, given_as)), len(plain), len(plain)) == plain


def test_no_compression_leaves_the_bytes():
    assert compress(Compression.NONE, memoryview(b"abc")) == b"abc"


def test_frames_are_those_that_clients_write():
    plain = b"again and " * 50
    assert zstandard.frame_content_size(compress(Compression.ZSTD, plain)) == len(plain)
    assert zstandard.get_frame_parameters(compress(Compression.ZSTD, plain)).has_checksum is False
    assert zlib.decompress(compress(Compression.ZLIB, plain)) == plain
    assert compress(Compression.SNAPPY, plain)[:2] == b"\xf4\x03"  # the length, 500, and no frame


@for_each("codec", Compression)
def test_codecs_are_named_in_any_case(codec):
    assert codec_named(codec.name.lower()) is codec
    assert codec_named(codec.name) is codec


def test_another_name_is_an_error_that_says_which_there_are():
    with pytest.raises(InvalidOptionError, match=r"'brotli'.*none, lz4, zlib, zstd, snappy"):
        codec_named("brotli")

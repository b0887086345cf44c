"""The codecs' C functions from inside kernels, and the same answers where they cannot be had."""

from typing import Any

import pytest

from ledgerfs.messages.codecs import native_decompression as module
from ledgerfs.messages.codecs.native_decompression import native_codecs
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from tests.support.entries import (
    LZ4,
    NONE,
    SNAPPY,
    TOPIC,
    ZLIB,
    ZSTD,
    batch_of,
    compress,
    decode,
    frame,
    framed,
    metadata,
)

PLAIN = framed(b"\x18\x05", b"first") + framed(b"\x18\x06", b"second")
CODECS = (NONE, LZ4, ZLIB, ZSTD, SNAPPY)
NATIVE = {"_lz4": LZ4, "_zstd": ZSTD}


def entries_of(codec: int) -> list[bytes]:
    """Return messages and batches that are sound, cut, too long, and those that claim another size."""
    stored = compress(codec, PLAIN)
    payloads = [stored, stored[:-1], stored + b"\0", b""]
    sizes = [len(PLAIN), len(PLAIN) - 1, len(PLAIN) + 1, 0]
    heads = [{"compression": codec, "uncompressed_size": size} for size in sizes]
    heads += [{**head, "messages_in_batch": 2} for head in heads]
    return [frame(metadata(**head), payload) for head in heads for payload in payloads]


def answer(entries: list[bytes]) -> tuple[Any, list[int]]:
    decoder = TopicDecoder(TOPIC, DecodeOptions(columns=["entry_id", "batch_index", "value"], on_corrupt="skip"))
    table = decode(decoder, batch_of(entries))
    return table.to_pydict(), sorted(skipped.first_entry for skipped in decoder.skipped)


def test_the_libraries_that_are_installed_export_them():
    assert native_codecs() == {LZ4, ZSTD}


@pytest.mark.parametrize("hidden", [["_lz4"], ["_zstd"], ["_lz4", "_zstd"]])
def test_the_answer_is_the_same_without_them(hidden, monkeypatch):
    entries = [entry for codec in CODECS for entry in entries_of(codec)]
    expected = answer(entries)
    for name in hidden:
        monkeypatch.setattr(module, name, lambda: None)
    assert native_codecs() == {codec for name, codec in NATIVE.items() if name not in hidden}
    assert answer(entries) == expected
    assert expected[0]["value"].count(PLAIN) >= len(CODECS)
    assert expected[0]["value"].count(b"second") >= len(CODECS)
    assert len(expected[1]) > len(entries) / 2

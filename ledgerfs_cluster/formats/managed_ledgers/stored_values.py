"""Values in ZooKeeper that a broker may have compressed: ledger lists and cursors.

A compressed value is in an envelope: the magic number ``47 78``, an ``int32`` with the size of a message, that message with codec and
uncompressed size, and the compressed bytes. No Protobuf message begins with ``47``, so a value is either plain or an envelope.
"""

import struct

from google.protobuf.message import DecodeError

from ledgerfs.errors import CorruptMetadataError, DecompressionError
from ledgerfs.formats.decompression import LARGEST, MOST_OF_A_BYTE, Compression, decompress
from ledgerfs_cluster.formats.proto.metadata_pb2 import EnvelopeRecord

MAX_VALUE_BYTES = 256 << 20
"""Largest uncompressed value: the list of a million ledgers."""

_MAGIC = b"\x47\x78"
_SIZE = struct.Struct(">i")
_HEADER_BYTES = len(_MAGIC) + _SIZE.size


def uncompressed(data: bytes, *, key: str) -> bytes:
    """Return the plain value; one without an envelope is returned unchanged.

    Allocates at most the size that the compressed bytes can expand to, and `MAX_VALUE_BYTES`. Raises `CorruptMetadataError` for an envelope
    that is cut off, has an unknown codec, or bytes that do not match its size.
    """
    if data[:2] != _MAGIC:
        return data
    reported, body = _envelope(data, key)
    try:
        return _opened(reported.compression, memoryview(data)[body:], reported.uncompressed_size)
    except DecompressionError as error:
        raise CorruptMetadataError(f"the compressed value is damaged: {error}", key=key, offset=body) from None


def codec_of(data: bytes, *, key: str) -> int:
    """Return the number of a value's codec (`Compression`). Raises `CorruptMetadataError` for an envelope that is cut off."""
    return _envelope(data, key)[0].compression if data[:2] == _MAGIC else Compression.NONE


def compressed(plain: bytes, codec: int, stored: bytes) -> bytes:
    """Return the envelope around ``stored``, which is ``plain`` compressed with the codec of this number (`Compression`)."""
    reported = EnvelopeRecord(compression=codec, uncompressed_size=len(plain)).SerializeToString(deterministic=True)
    return _MAGIC + _SIZE.pack(len(reported)) + reported + stored


def _envelope(data: bytes, key: str) -> tuple[EnvelopeRecord, int]:
    """Return the message in an envelope, and the start of the compressed bytes."""
    if len(data) < _HEADER_BYTES:
        raise CorruptMetadataError("the header of the compressed value is cut off", key=key, offset=0)
    (size,) = _SIZE.unpack_from(data, len(_MAGIC))
    body = _HEADER_BYTES + size
    if not 0 <= size <= len(data) - _HEADER_BYTES:
        reason = f"the header of the compressed value should have {size} bytes of metadata, but only {len(data) - _HEADER_BYTES} follow"
        raise CorruptMetadataError(reason, key=key, offset=len(_MAGIC))
    try:
        return EnvelopeRecord.FromString(data[_HEADER_BYTES:body]), body
    except DecodeError as error:
        reason = "the header of the compressed value has invalid metadata"
        raise CorruptMetadataError(reason, key=key, offset=_HEADER_BYTES) from error


def _opened(codec: int, stored: memoryview, size: int) -> bytes:
    if codec == Compression.NONE:
        return bytes(stored)
    most = min(len(stored) * MOST_OF_A_BYTE.get(codec, 0), MAX_VALUE_BYTES, LARGEST)
    if codec in MOST_OF_A_BYTE and size > most:
        raise DecompressionError(
            f"the uncompressed size of {size} bytes is impossible: {len(stored)} compressed bytes contain at most {most}"
        )
    return decompress(codec, stored, size, MAX_VALUE_BYTES)

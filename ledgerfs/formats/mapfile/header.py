"""The header of a SequenceFile: how its records are compressed, and the marker that is repeated between them.

``SEQ`` 06, class names of keys and values, two booleans (compressed, in blocks), the codec's class name if compressed, metadata pairs,
16 random bytes. Each text is a vint length and UTF-8.
"""

import struct
from dataclasses import dataclass
from enum import Enum

from ledgerfs.errors import UnsupportedFormatError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.formats.mapfile.window import Role, Window

FIRST_BYTES = 4 << 10
"""Bytes of a file that almost always hold its header, which takes 140 bytes where Pulsar wrote it."""

MAX_HEADER_BYTES = 64 << 10
"""Larger than any header, with room for some metadata (Pulsar writes none)."""

SYNC_BYTES = 16
MAX_VINT_BYTES = 9
_VERSION = 6
_LONG = "org.apache.hadoop.io.LongWritable"
_BYTES = "org.apache.hadoop.io.BytesWritable"
_VALUE_CLASSES = {Role.DATA: _BYTES, Role.INDEX: _LONG}


class RecordCompression(Enum):
    """Unit of compression: none, each value, or the keys and values of many records (a block)."""

    NONE = "none"
    RECORD = "record"
    BLOCK = "block"


class Codec(Enum):
    """The codecs that ledgerfs reads, by their Java class; each is zlib's deflate."""

    DEFAULT = "org.apache.hadoop.io.compress.DefaultCodec"
    DEFLATE = "org.apache.hadoop.io.compress.DeflateCodec"
    GZIP = "org.apache.hadoop.io.compress.GzipCodec"

    @property
    def window_bits(self) -> int:
        """The argument of zlib for the frame of the stream: zlib or gzip."""
        return 31 if self is Codec.GZIP else 15


@dataclass(frozen=True, slots=True)
class SequenceHeader:
    """A parsed header.

    Attributes
    ----------
    key_class, value_class
        Java's names of the classes.
    compression
        Unit of compression.
    codec
        Its codec; None if nothing is compressed.
    sync
        The file's own marker, 16 random bytes.
    size
        Bytes of the header: where the first record, or block, begins.

    """

    key_class: str
    value_class: str
    compression: RecordCompression
    codec: Codec | None
    sync: bytes
    size: int


def parse_header(window: Window) -> SequenceHeader | None:
    """Parse the header of a file, of which ``window`` has the first bytes.

    Returns None if the header continues after the window; `MAX_HEADER_BYTES`, or the whole file if it is smaller, are always enough.
    Raises `CorruptLedgerError` (in an index, `CorruptIndexError`), and `UnsupportedFormatError` with the name of a version, class or codec
    that ledgerfs does not read.
    """
    try:
        return _parse(_Cursor(window))
    except _MoreBytesError:
        given = len(window.buffer)
        if given >= window.file_size:
            raise window.corrupt(f"truncated: the file ends within its header, after {given} bytes", given) from None
        if given >= MAX_HEADER_BYTES:
            raise window.corrupt(f"the header is longer than {MAX_HEADER_BYTES} bytes", 0) from None
        return None


class _MoreBytesError(Exception):
    """The window ends inside the header."""


class _Cursor:
    """A position in a window, which moves as fields are read."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.at = 0

    def take(self, size: int) -> bytes:
        if size > len(self.window.buffer) - self.at:
            raise _MoreBytesError
        self.at += size
        return bytes(self.window.buffer[self.at - size : self.at])

    def boolean(self) -> bool:
        at, value = self.at, self.take(1)[0]
        if value > 1:
            raise self.window.corrupt(f"the header has {value}, expected 0 or 1", at)
        return value == 1

    def text(self) -> str:
        at, read = self.at, read_vint(self.window.buffer, self.at)
        if read is None:
            raise _MoreBytesError
        length, self.at = read
        if not 0 <= length <= MAX_HEADER_BYTES:
            raise self.window.corrupt(f"a text in the header has the impossible length of {length} bytes", at)
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise self.window.corrupt("a text in the header is not UTF-8", at) from None


def _parse(cursor: _Cursor) -> SequenceHeader:
    key_class, value_class = _classes(cursor)
    compression = _compression(cursor)
    codec = None if compression is RecordCompression.NONE else _codec(cursor)
    at = cursor.at
    (pairs,) = struct.unpack(">i", cursor.take(4))
    if not 0 <= pairs <= MAX_HEADER_BYTES // 2:
        raise cursor.window.corrupt(f"the header has an impossible number of metadata pairs: {pairs}", at)
    for _ in range(2 * pairs):
        cursor.text()
    return SequenceHeader(key_class, value_class, compression, codec, cursor.take(SYNC_BYTES), cursor.at)


def _classes(cursor: _Cursor) -> tuple[str, str]:
    """Return the classes of keys and values; raises unless they are those that Pulsar writes."""
    window = cursor.window
    if cursor.take(3) != b"SEQ":
        raise window.corrupt("not a SequenceFile: it does not begin with SEQ", 0)
    version = cursor.take(1)[0]
    if version != _VERSION:
        raise UnsupportedFormatError(
            f"the SequenceFile has version {version}; ledgerfs reads version {_VERSION}", key=window.key, offset=3
        )
    for part, expected in (("keys", _LONG), ("values", _VALUE_CLASSES[window.role])):
        at, name = cursor.at, cursor.text()
        if name != expected:
            reason = f"the {part} have the class {name!r}, expected {expected} of the filesystem offloader"
            raise UnsupportedFormatError(reason, key=window.key, offset=window.offset + at)
    return _LONG, _VALUE_CLASSES[window.role]


def _compression(cursor: _Cursor) -> RecordCompression:
    at = cursor.at
    is_compressed, in_blocks = cursor.boolean(), cursor.boolean()
    if in_blocks:
        if not is_compressed:
            raise cursor.window.corrupt("the header has blocks without compression, which is impossible", at)
        return RecordCompression.BLOCK
    return RecordCompression.RECORD if is_compressed else RecordCompression.NONE


def _codec(cursor: _Cursor) -> Codec:
    at, name = cursor.at, cursor.text()
    try:
        return Codec(name)
    except ValueError:
        known = ", ".join(codec.name.capitalize() + "Codec" for codec in Codec)
        reason = f"the file is compressed with {name!r}; ledgerfs reads {known}"
        raise UnsupportedFormatError(reason, key=cursor.window.key, offset=cursor.window.offset + at) from None


def read_vint(data: Buffer, at: int) -> tuple[int, int] | None:
    """Return the integer of variable length at ``at`` and the index after it, or None when ``data`` ends before it does.

    Hadoop's ``WritableUtils``: a byte from -112 on is the number itself. A smaller one encodes the sign and how many bytes follow,
    big-endian: -113 … -120 one to eight bytes of a positive number, -121 … -128 one to eight bytes of the complement of a negative one.
    """
    if at >= len(data):
        return None
    first = int.from_bytes(data[at : at + 1], "big", signed=True)
    at += 1
    if first >= -112:
        return first, at
    is_negative = first < -120
    size = -120 - first if is_negative else -112 - first
    if at + size > len(data):
        return None
    number = int.from_bytes(data[at : at + size], "big")
    number = ~number if is_negative else number
    return (number + 2**63) % 2**64 - 2**63, at + size

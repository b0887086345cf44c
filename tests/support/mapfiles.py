"""Made-up MapFiles, as Hadoop's writer makes them: data and index for given records, of every compression and any size of blocks."""

import gzip
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ledgerfs.formats.mapfile.header import Codec, RecordCompression, parse_header
from ledgerfs.formats.mapfile.walk import DEFAULT_LIMIT, Records, read_records
from ledgerfs.formats.mapfile.window import Window

SYNC = bytes(range(200, 216))
HADOOP_SYNC_INTERVAL = 102_400
LONG = "org.apache.hadoop.io.LongWritable"
BYTES = "org.apache.hadoop.io.BytesWritable"

Record = tuple[int, bytes]


def vint(number: int) -> bytes:
    """Java's ``WritableUtils.writeVLong``."""
    if -112 <= number <= 127:
        return struct.pack(">b", number)
    size_byte, number = (-120, ~number) if number < 0 else (-112, number)
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return struct.pack(">b", size_byte - len(digits)) + digits


def text(value: str) -> bytes:
    data = value.encode()
    return vint(len(data)) + data


@dataclass(frozen=True, slots=True)
class MapFileWriter:
    """How a MapFile is written.

    A marker comes before the first record that begins ``sync_interval`` bytes or more after the last one; a block ends with the record
    that makes its keys and values ``block_bytes`` or more.
    """

    compression: RecordCompression = RecordCompression.BLOCK
    codec: Codec = Codec.DEFAULT
    sync_interval: int = HADOOP_SYNC_INTERVAL
    block_bytes: int = 1_000_000
    index_interval: int = 128
    sync: bytes = SYNC
    metadata: Sequence[tuple[str, str]] = field(default=())
    level: int = 6

    def data(self, records: Sequence[Record]) -> bytes:
        return self.files(records)[0]

    def files(self, records: Sequence[Record]) -> tuple[bytes, bytes]:
        """Return ``data`` and ``index``."""
        data = _File(self, BYTES)
        entries: list[tuple[int, int]] = []
        last_position, last_count = -1, -self.index_interval
        for count, (key, value) in enumerate(records):
            position = len(data.out)
            if count >= last_count + self.index_interval and position > last_position:
                entries.append((key, position))
                last_position, last_count = position, count
            data.append(key, struct.pack(">i", len(value)) + value)
        data.end_block()
        return bytes(data.out), self.index(entries)

    def index(self, entries: Iterable[tuple[int, int]]) -> bytes:
        """Return an index of keys and positions."""
        index = _File(replace(self, compression=RecordCompression.BLOCK, block_bytes=1_000_000), LONG)
        for key, position in entries:
            index.append(key, struct.pack(">q", position))
        index.end_block()
        return bytes(index.out)

    def compress(self, data: bytes) -> bytes:
        codecs: dict[Codec, Callable[[bytes], bytes]] = {Codec.GZIP: lambda data: gzip.compress(data, self.level)}
        return codecs.get(self.codec, lambda data: zlib.compress(data, self.level))(data)


def header(writer: MapFileWriter, value_class: str = BYTES, key_class: str = LONG, codec: str | None = None) -> bytes:
    is_compressed = writer.compression is not RecordCompression.NONE
    in_blocks = writer.compression is RecordCompression.BLOCK
    return b"".join(
        [
            b"SEQ\x06",
            text(key_class),
            text(value_class),
            bytes([is_compressed, in_blocks]),
            text(codec or writer.codec.value) if is_compressed else b"",
            struct.pack(">i", len(writer.metadata)),
            *(text(part) for pair in writer.metadata for part in pair),
            writer.sync,
        ]
    )


class _File:
    """One SequenceFile that is being written."""

    def __init__(self, writer: MapFileWriter, value_class: str) -> None:
        self.writer = writer
        self.out = bytearray(header(writer, value_class))
        self.last_sync = 0
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.buffered = 0

    def append(self, key: int, value: bytes) -> None:
        writer, key_bytes = self.writer, struct.pack(">q", key)
        if writer.compression is RecordCompression.BLOCK:
            self.keys.append(key_bytes)
            self.values.append(value)
            self.buffered += len(key_bytes) + len(value)
            if self.buffered >= writer.block_bytes:
                self.end_block()
            return
        stored = writer.compress(value) if writer.compression is RecordCompression.RECORD else value
        if len(self.out) >= self.last_sync + writer.sync_interval:
            self.marker()
        self.out += struct.pack(">ii", 8 + len(stored), 8) + key_bytes + stored

    def marker(self) -> None:
        self.out += b"\xff" * 4 + self.writer.sync
        self.last_sync = len(self.out)

    def end_block(self) -> None:
        if not self.keys:
            return
        self.marker()
        self.out += vint(len(self.keys))
        for parts in (
            [vint(len(key)) for key in self.keys],
            self.keys,
            [vint(len(value)) for value in self.values],
            self.values,
        ):
            stored = self.writer.compress(b"".join(parts))
            self.out += vint(len(stored)) + stored
        self.keys, self.values, self.buffered = [], [], 0


def ledger_records(metadata: bytes, entries: Sequence[bytes]) -> list[Record]:
    """Return what Pulsar writes of a ledger: its metadata and its entries."""
    return [(-1, metadata), *enumerate(entries)]


def read_all(
    data: bytes, *, window_bytes: int | None = None, start: int | None = None, limit: int = DEFAULT_LIMIT
) -> list[Record]:
    """Read a file as a reader does that has a window of it, and fetches the next where the last one ends.

    Begins at ``start``, or after the header.
    """
    size = min(window_bytes or len(data), len(data))
    while (header := parse_header(window_of(data, 0, size))) is None:
        size = min(2 * size + 1, len(data))
    at, size = header.size if start is None else start, window_bytes or len(data)
    records: list[Record] = []
    while at < len(data):
        window = window_of(data, at, size)
        position = 0
        while (step := read_records(window, position, header, limit=limit)).records is not None:
            records += each_of(step.records)
            assert step.position > position
            position = step.position
        assert step.needed > len(window.buffer) - step.position or at + step.position >= len(data)
        at, size = at + step.position, max(step.needed, window_bytes or len(data))
    return records


def window_of(data: bytes, offset: int, size: int) -> Window:
    return Window(memoryview(data[offset : offset + size]), offset, len(data), key="data")


def each_of(records: Records) -> list[Record]:
    return [
        (key, bytes(records.buffer[start : start + size]))
        for key, start, size in zip(records.keys.tolist(), records.starts.tolist(), records.sizes.tolist(), strict=True)
    ]

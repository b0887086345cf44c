"""Reading a MapFile's data from memory, against what zlib alone takes for the same streams: one thread, best of several runs in turn.

Entries are single messages of JSON events; MB/s are of entries, not compressed. The files are made by a writer as Hadoop's: blocks of 1 MB,
zlib's default level, a marker about every 100 KB where nothing is in blocks.
"""

import argparse
import zlib
from collections.abc import Callable
from itertools import islice

import numpy as np

from benchmarks.decode import best, entries, say
from ledgerfs.formats.mapfile.blocks import find_block
from ledgerfs.formats.mapfile.header import RecordCompression, SequenceHeader, parse_header
from ledgerfs.formats.mapfile.records import scan_records
from ledgerfs.formats.mapfile.walk import read_records
from ledgerfs.formats.mapfile.window import Window
from tests.support.mapfiles import MapFileWriter, ledger_records

_WINDOW = 8 << 20


class File:
    """The data of a ledger in memory, and its windows."""

    def __init__(self, kind: RecordCompression, size: int, message_bytes: int) -> None:
        made = list(islice(entries(message_bytes, batched=False), size // message_bytes))
        self.size = sum(map(len, made))
        self.data = memoryview(MapFileWriter(kind).data(ledger_records(b"", made)))
        header = parse_header(self.window(0))
        assert header is not None
        self.header: SequenceHeader = header

    def window(self, offset: int, size: int = _WINDOW) -> Window:
        """Return the bytes from ``offset`` on, as a reader would have fetched them."""
        return Window(self.data[offset : offset + size], offset, len(self.data))

    def read(self) -> None:
        """Walk through all windows, as a reader does that fetches them."""
        offset, size, length = self.header.size, _WINDOW, 0
        while offset < len(self.data):
            window, at = self.window(offset, size), 0
            while (step := read_records(window, at, self.header)).records is not None:
                length += int(step.records.sizes.sum())
                at = step.position
            offset, size = offset + step.position, max(step.needed, _WINDOW)
        assert length == self.size

    def streams(self) -> list[tuple[memoryview, int]]:
        """Return every zlib stream and the size of what it holds."""
        header, window = self.header, self.window(0, len(self.data))
        if header.compression is RecordCompression.RECORD:
            scan = scan_records(self.data, header.size, header.sync, is_compressed=True)
            places = list(zip(scan.starts.tolist(), (scan.starts + scan.sizes).tolist(), strict=True))
        else:
            places, at = [], header.size
            while at < len(self.data):
                block = find_block(window, at, header.sync)
                assert not isinstance(block, int)
                parts = (block.key_lengths, block.keys, block.value_lengths, block.values)
                places += [(part.start, part.end) for part in parts]
                at = block.end
        streams = [self.data[start:end] for start, end in places]
        return [(stream, len(zlib.decompress(stream))) for stream in streams]


def by_zlib(streams: list[tuple[memoryview, int]]) -> Callable[[], None]:
    """Return what inflates streams by Python's own zlib, told how large each becomes."""

    def run() -> None:
        for stream, size in streams:
            zlib.decompress(stream, bufsize=size)

    return run


def by_copy(data: memoryview) -> Callable[[], None]:
    source = np.frombuffer(data, np.uint8)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def measure(runs: int, size: int, message_bytes: int) -> None:
    for kind in (RecordCompression.BLOCK, RecordCompression.RECORD, RecordCompression.NONE):
        file = File(kind, size, message_bytes)
        file.read()
        is_plain = kind is RecordCompression.NONE
        name = "np.copyto of the file" if is_plain else "zlib alone"
        ours, alone = best(runs, file.read, by_copy(file.data) if is_plain else by_zlib(file.streams()))
        rates = (
            f"{file.size / ours / 1e6:,.0f} MB/s; {name} {file.size / alone / 1e6:,.0f} MB/s: {alone / ours:.2f} of it"
        )
        say(f"{kind.name}, messages of {message_bytes} B", rates, "0.5 of zlib alone" if not is_plain else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=64, help="of entries in memory")
    given = parser.parse_args()
    for message_bytes in (1024, 100):
        measure(given.runs, given.megabytes << 20, message_bytes)


if __name__ == "__main__":
    main()

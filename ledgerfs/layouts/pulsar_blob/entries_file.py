"""The opened ``.entries`` file of one ledger: the data object without block headers and padding."""

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from ledgerfs.cache.object_reader import ObjectReader
from ledgerfs.cache.object_window import open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.storage.descriptors import write_all

if TYPE_CHECKING:
    from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader

Range = tuple[int, int]

_GAP = 64 << 10
"""Reading up to so many bytes between two ranges costs less than another request."""


class EntriesFile:
    """Reads by offset in the file. One per open file; its threads wait for each other only during sequential reads."""

    __slots__ = ("_ledger", "_object")

    def __init__(self, ledger: "PulsarLedgerReader") -> None:
        self._ledger = ledger
        self._object: ObjectReader | None = None

    @property
    def size(self) -> int:
        """Bytes of all records, by the index alone."""
        return self._ledger.records_size

    @property
    def identity(self) -> Hashable:
        """The ledger's objects, in the versions that were listed."""
        return self._ledger.ref.objects

    def read(self, start: int, end: int) -> bytes:
        """Return bytes ``start`` to ``end``, and prefetch the bytes after them."""
        pieces = self._pieces(start, end)
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill ``buffer`` from ``start`` on, as `read`."""
        at = 0
        # numpy releases the GIL while it copies, so that other threads can receive the next parts.
        target = np.frombuffer(buffer, np.uint8)
        for piece in self._pieces(start, start + len(buffer)):
            np.copyto(target[at : at + len(piece)], np.frombuffer(piece, np.uint8))
            at += len(piece)

    def send(self, start: int, end: int, descriptor: int) -> None:
        """Write the same bytes to a file descriptor, in the kernel if the object is a local file."""
        if not self._ledger.store.is_remote:
            for one in self._ledger.object_ranges(start, end):
                self._ledger.store.send(self._ledger.request(*one), descriptor)
            return
        for piece in self._pieces(start, end):
            write_all(descriptor, piece)

    def read_ranges(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of each range without prefetching: near ranges with one request, several requests at a time."""
        pieces = [self._ledger.object_ranges(start, end) for start, end in ranges]
        wanted = _merged(sorted(piece for one in pieces for piece in one))
        starts = [start for start, _ in wanted]
        found = self._fetch(wanted)

        def cut(start: int, end: int) -> memoryview:
            at = bisect_right(starts, start) - 1
            return found[at][start - starts[at] : end - starts[at]]

        return [b"".join(cut(*piece) for piece in one) for one in pieces]

    def _fetch(self, ranges: Sequence[Range]) -> list[memoryview]:
        plan = [[self._ledger.request(*part) for part in cut_parts(*one, is_known=True)] for one in ranges]
        with open_parts(self._ledger.store, chain.from_iterable(plan), is_known=True) as parts:
            return [memoryview(b"".join(parts.take() for _ in requests)) for requests in plan]

    def _pieces(self, start: int, end: int) -> list[memoryview]:
        if not self._ledger.store.is_remote:
            ranges = self._ledger.object_ranges(start, end)
            return [memoryview(self._ledger.store.read(self._ledger.request(*one))) for one in ranges]
        forwards = self._forwards()
        if start == 0 and not self._ledger.is_mapped:
            # The first records are fetched while the ends of the blocks are read.
            forwards.expect()
        try:
            ranges = self._ledger.object_ranges(start, end)
        except BaseException:
            forwards.close()
            raise
        return [piece for one in ranges for piece in forwards.read(*one)]

    def _forwards(self) -> ObjectReader:
        if self._object is None:
            index, stat = self._ledger.index, self._ledger.ref.object("data")
            self._object = ObjectReader(self._ledger.store, stat, index.header_length, index.data_length)
        return self._object


def _merged(ranges: Sequence[Range]) -> list[Range]:
    """Join ranges that overlap or are near each other; they ascend."""
    joined: list[Range] = []
    for start, end in ranges:
        if joined and start <= joined[-1][1] + _GAP:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined

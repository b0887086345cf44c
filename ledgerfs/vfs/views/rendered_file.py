"""A file that was rendered, opened."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledgerfs.storage.descriptors import copy_range

if TYPE_CHECKING:
    from ledgerfs.cache.rendered_files import CachedFile


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered file: it stays readable while this is held, also if the cache drops it."""

    file: "CachedFile"

    @property
    def size(self) -> int:
        """Bytes."""
        return self.file.size

    def read(self, start: int, end: int) -> bytes:
        """Read from the cached file."""
        return self.file.read(start, end)

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill ``buffer`` from ``start`` on."""
        buffer[:] = self.read(start, start + len(buffer))

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return some parts."""
        return [self.read(start, end) for start, end in ranges]

    def send(self, start: int, end: int, descriptor: int) -> None:
        """Let the kernel copy from the cached file."""
        if copy_range(self.file.descriptor, start, end, descriptor) < end - start:
            raise self.file.was_cut()

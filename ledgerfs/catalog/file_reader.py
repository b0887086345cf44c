"""The interface between the tree and the content of its files."""

from collections.abc import Hashable, Sequence
from typing import Protocol


class FileReader(Protocol):
    """The content of one open file, with a known size, for any number of threads."""

    @property
    def size(self) -> int:
        """Exact size in bytes."""
        ...

    @property
    def identity(self) -> Hashable:
        """Identity of the content: two files of one path with equal identities have the same bytes."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Return bytes ``start`` to ``end``, which are inside the content; may read ahead."""
        ...

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill ``buffer`` with the bytes from ``start`` on, which are inside the content; otherwise as `read`."""
        ...

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each range; fetches little else."""
        ...

    def send(self, start: int, end: int, descriptor: int) -> None:
        """Write bytes ``start`` to ``end`` to a file descriptor, in the kernel if possible."""
        ...

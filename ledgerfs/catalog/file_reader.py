"""The seam between the tree and what its files hold."""

from collections.abc import Hashable, Sequence
from typing import Protocol


class FileReader(Protocol):
    """The content of one open file: its size is known, and any number of threads may read it."""

    @property
    def size(self) -> int:
        """Bytes, exactly."""
        ...

    @property
    def identity(self) -> Hashable:
        """What bytes these are: two files of one path whose identities are equal have the same ones."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Return bytes ``start`` to ``end``, which are inside the content; bytes after them may be fetched ahead."""
        ...

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill ``buffer`` with the bytes from ``start`` on, which are inside the content; otherwise as `read`."""
        ...

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each range; fetches little else."""
        ...

    def send(self, start: int, end: int, descriptor: int) -> None:
        """Write bytes ``start`` to ``end`` to a file descriptor, by the kernel if it can do that."""
        ...

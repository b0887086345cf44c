"""Read an object forward: consecutive parts as one sequence of bytes."""

from collections.abc import Iterable

from ledgerfs.cache.read_ahead import ReadAhead
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ReadRequest

Parts = ReadAhead

_REMOTE_PARTS = 16
_NEAR_PARTS = 2


def open_parts(
    store: ObjectStore, plan: Iterable[ReadRequest], *, is_known: bool = False, most: int = _REMOTE_PARTS
) -> Parts:
    """Return the parts of a plan, up to ``most`` under way if the store is remote; ``is_known`` if all of them will be read."""
    return ReadAhead(store.start, plan, most if store.is_remote else min(most, _NEAR_PARTS), is_known=is_known)


class ObjectWindow:
    """A window on an object, from ``position`` to the end of its parts in a plan, which may continue with other objects.

    Copies only an item that begins in one part and ends in the next. For one reader in one thread.

    Attributes
    ----------
    buffer
        Fetched bytes that are not consumed, perhaps not all of them; empty only if there are none.
    position
        Offset in the object of the buffer's first byte.

    """

    __slots__ = ("_behind", "_key", "_parts", "buffer", "position")

    def __init__(self, parts: Parts, key: str, position: int) -> None:
        self._parts = parts
        self._key = key
        self._behind = memoryview(b"")
        self.buffer = memoryview(b"")
        self.position = position

    def fill(self, size: int) -> bool:
        """Fetch until the buffer has ``size`` bytes; return false if the parts end before."""
        if not self.buffer:
            self.buffer, self._behind = self._behind, memoryview(b"")
        while len(self.buffer) < size:
            if not self._behind:
                part = self._next_part()
                if part is None:
                    return False
                if not self.buffer:
                    self.buffer = part
                    continue
                self._behind = part
            missing = size - len(self.buffer)
            self.buffer = memoryview(b"".join((self.buffer, self._behind[:missing])))
            self._behind = self._behind[missing:]
        return True

    def consume(self, size: int) -> None:
        """Drop the first ``size`` bytes of the buffer."""
        self.buffer = self.buffer[size:]
        self.position += size

    def skip_to(self, position: int) -> None:
        """Go forward to an offset of the object, without reading the parts before it."""
        step = min(position - self.position, len(self.buffer))
        self.consume(step)
        step = min(position - self.position, len(self._behind))
        self._behind = self._behind[step:]
        self.position += step
        self.position = max(self.position, position)

    def finish(self) -> None:
        """Skip the remaining parts of this object in the plan."""
        while (part := self._parts.peek()) is not None and part.key == self._key:
            self._parts.skip()

    def _next_part(self) -> memoryview | None:
        """Return the part with the byte after the buffer."""
        wanted = self.position + len(self.buffer)
        while (part := self._parts.peek()) is not None and part.key == self._key:
            if part.end <= wanted:
                self._parts.skip()
            elif part.start <= wanted:
                return memoryview(self._parts.take())[wanted - part.start :]
            else:
                break
        return None

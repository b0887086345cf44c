"""Reading an object forwards: a buffer that grows at its end and is used up at its front."""

from ledgerfs.vfs.object_store import ObjectStat, ObjectStore, ReadRequest

FIRST_READ = 1 << 20
LARGEST_READ = 8 << 20


class ObjectWindow:
    """A window on bytes ``start`` to ``end`` of one version of an object.

    Reads are 1 MiB first and double up to 8 MiB, so that a look at a few entries stays cheap and a whole pass is fast. No byte is
    fetched twice. For one reader in one thread.

    Attributes
    ----------
    buffer
        The bytes that are fetched and not used up.
    position
        Offset in the object of the buffer's first byte.

    """

    __slots__ = ("_end", "_fetched", "_next_read", "_object", "_store", "buffer", "position")

    def __init__(self, store: ObjectStore, stat: ObjectStat, start: int, end: int) -> None:
        self._store = store
        self._object = stat
        self._end = end
        self._fetched = start
        self._next_read = FIRST_READ
        self.buffer = memoryview(b"")
        self.position = start

    def fill(self, size: int) -> bool:
        """Fetch until the buffer holds ``size`` bytes; return whether it does. At the end of the window it may hold fewer."""
        if len(self.buffer) >= size:
            return True
        missing = size - len(self.buffer)
        stop = min(self._end, self._fetched + max(missing, self._next_read))
        if stop > self._fetched:
            data = self._store.read(ReadRequest(self._object.key, self._fetched, stop, self._object.version))
            self.buffer = memoryview(b"".join((self.buffer, data)) if self.buffer else data)
            self._fetched = stop
            self._next_read = min(2 * self._next_read, LARGEST_READ)
        return len(self.buffer) >= size

    def consume(self, size: int) -> None:
        """Drop the first ``size`` bytes of the buffer."""
        self.buffer = self.buffer[size:]
        self.position += size

    def skip_to(self, position: int) -> None:
        """Go forward to an offset of the object; bytes in between that were not fetched are never fetched."""
        if position - self.position <= len(self.buffer):
            self.consume(position - self.position)
        else:
            self.buffer = memoryview(b"")
            self.position = self._fetched = position

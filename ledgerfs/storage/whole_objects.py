"""One whole object, read from its beginning to its end in pieces, and compared with the digest that it should have."""

from hashlib import sha256

from ledgerfs.errors import CorruptObjectError
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

_PIECE = 8 << 20


class WholeObject:
    """The bytes of an object, one piece of some mebibytes in memory at a time, as what is read from a file.

    Parameters
    ----------
    stat
        As listed; only that version is read.
    digest
        With what the SHA-256 of all bytes begins, in hexadecimal digits.

    """

    __slots__ = ("_at", "_digest", "_expected", "_left", "_stat", "_store")

    def __init__(self, store: ObjectStore, stat: ObjectStat, digest: str) -> None:
        self._store = store
        self._stat = stat
        self._expected = digest
        self._digest = sha256()
        self._left = memoryview(b"")
        self._at = 0

    def read(self, size: int, /) -> bytes:
        """Return at most so many of the next bytes, none behind the last.

        Raises `CorruptObjectError` in place of the end of an object that has another digest, and the errors of
        `ledgerfs.storage.object_store.ObjectStore.read`.
        """
        if not self._left:
            self._left = memoryview(self._next())
        found, self._left = bytes(self._left[:size]), self._left[size:]
        return found

    def _next(self) -> bytes:
        end = min(self._at + _PIECE, self._stat.size)
        if self._at == end:
            if not self._digest.hexdigest().startswith(self._expected):
                raise CorruptObjectError("its bytes are not those that its name has the digest of", key=self._stat.key)
            return b""
        request = ReadRequest(self._stat.key, self._at, end, self._stat.version, is_kept=False)
        data = self._store.read(request)
        self._digest.update(data)
        self._at = end
        return data

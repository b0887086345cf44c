"""Indexes compared with their ETags, which are MD5 digests of small objects in most S3 stores: an index has no checksum of its own.

What the catalog learns from an index is kept as long as its version stays the same, so a bit that flipped on the way would stay, too. Where
ETags are no digests (encryption by other keys, other stores), the first index that is read twice alike tells, and the others are believed.
"""

import hashlib
import re

from ledgerfs.errors import CorruptIndexError, LedgerfsError
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ReadRequest

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')


class IndexDigests:
    """The check of one bucket's indexes; for one thread."""

    __slots__ = ("_are_digests", "_store")

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._are_digests = True

    def checked(self, request: ReadRequest, outcome: bytes | LedgerfsError) -> bytes | LedgerfsError:
        """Return an index as it was read; what its ETag does not fit is read once more. An error stands in the place of what is wrong."""
        if not isinstance(outcome, bytes) or not self._is_doubtful(request, outcome):
            return outcome
        (again,) = self._store.read_many([request])
        if again == outcome:
            self._are_digests = False
        elif isinstance(again, bytes) and self._is_doubtful(request, again):
            return CorruptIndexError("two reads of it differ, and neither fits its ETag", key=request.key, offset=0)
        return again

    def _is_doubtful(self, request: ReadRequest, data: bytes) -> bool:
        if not self._are_digests or request.end == request.start:
            return False
        digest = _MD5.fullmatch(request.version)
        return digest is not None and hashlib.md5(data, usedforsecurity=False).hexdigest() != digest[1]

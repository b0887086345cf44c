"""Indexes are compared with their ETags, which in most S3 stores are MD5 digests of small objects: an index has no checksum of its own.

What the catalog reads from an index is kept until its version changes, so a bit that flipped on the way would be kept, too. If an index is
read twice with the same bytes, and its ETag fits neither, ETags are no digests here (encryption by other keys, other stores); the other
indexes are then believed.
"""

import hashlib
import re
from dataclasses import replace

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
        """Return an index as it was read, or an error; if its ETag does not fit, it is read once more."""
        if not isinstance(outcome, bytes) or not self._is_doubtful(request, outcome):
            return outcome
        # The checksum that the store keeps distinguishes damage in the store from an ETag that is no digest.
        (again,) = self._store.read_many([replace(request, is_checked=True)])
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

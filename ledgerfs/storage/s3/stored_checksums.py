"""A checksum that a store has kept of an object, and sends with its body: what it means when the two differ.

botocore compares them. A bit that flipped on the way flips elsewhere the next time, so the body is asked for again. A body that is wrong
twice in the same way is what the store has: no asking again changes that.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ledgerfs.errors import CorruptObjectError, LedgerfsError, StoreError
from ledgerfs.storage.failures import names_of
from ledgerfs.storage.objects import ReadRequest


class StoredChecksum:
    """What became of the tries of one read."""

    __slots__ = ("_last", "_request")

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._last: str | None = None

    @contextmanager
    def compared(self, answer: Mapping[str, Any]) -> Iterator[None]:
        """Let the body of an answer be read; raises our error for one that is wrong as the last one was.

        That is `CorruptObjectError` for a whole object, and `StoreError` for a part of one: some stores send the checksum of all of it.
        """
        try:
            yield
        except Exception as error:
            if "FlexibleChecksumError" not in names_of(error):
                raise
            # It names the checksum that came and the one of the bytes that came.
            found = str(error)
            if found == self._last:
                raise self._same_again(answer) from error
            self._last = found
            raise

    def _same_again(self, answer: Mapping[str, Any]) -> LedgerfsError:
        request = self._request
        if answer.get("ContentRange", "").strip() in {"", f"bytes 0-{request.end - 1}/{request.end}"}:
            reason = "the store's own checksum of it does not fit its bytes, twice in the same way: they were damaged in the store"
            return CorruptObjectError(reason, key=request.key, offset=request.start)
        reason = "the checksum that the store sends with a part of it does not fit the part, twice in the same way"
        return StoreError(reason, key=request.key, offset=request.start)

"""Checksums that a store keeps of objects, and sends with their bodies: what a wrong one means.

botocore compares them. A bit that flipped on the way will not flip again, so the body is requested again. If it is wrong twice in the same
way, the store has it so, and no retry helps.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ledgerfs.errors import CorruptObjectError, LedgerfsError, StoreError
from ledgerfs.storage.failures import names_of
from ledgerfs.storage.objects import ReadRequest


class StoredChecksum:
    """The comparisons in the tries of one read."""

    __slots__ = ("_last", "_request")

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._last: str | None = None

    @contextmanager
    def compared(self, answer: Mapping[str, Any]) -> Iterator[None]:
        """Read the body of an answer in this context; raises our error for a body that is wrong in the same way as the last one.

        That is `CorruptObjectError` for a whole object. For a part it is `StoreError`, since some stores send the whole object's checksum.
        """
        try:
            yield
        except Exception as error:
            if "FlexibleChecksumError" not in names_of(error):
                raise
            # The error's text has the checksum that was sent and that of the bytes.
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

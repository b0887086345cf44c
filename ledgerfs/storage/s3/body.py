"""The body of a ranged GET: exactly the requested bytes of the requested version, or an error."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ledgerfs.errors import CorruptObjectError, LedgerfsError, StoreError, WrongBodyError
from ledgerfs.storage.failures import names_of, replaced, short_body, short_object
from ledgerfs.storage.idle_timeout import Silence
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.sent_requests import Sent

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_PIECE = 1 << 20


def check_answer(answer: Mapping[str, Any], request: ReadRequest) -> None:
    """Check by the headers, before the body is read, that it has the requested bytes.

    Raises `StaleObjectError`, `WrongBodyError`, and `StoreError` for an object that ends before the requested bytes.
    """
    if request.version and answer.get("ETag", request.version) != request.version:
        raise replaced(request.key, request.start)
    _check_range(answer.get("ContentRange"), request)
    wanted = request.end - request.start
    length = answer.get("ContentLength", wanted)
    if length != wanted:
        raise short_body(request.key, request.start, wanted, length)


def _check_range(content_range: str | None, request: ReadRequest) -> None:
    if content_range is None:
        # The whole object; the length check shows whether the request was for all of it.
        if request.start > 0:
            raise _ignored(request, "the whole object")
        return
    match = _CONTENT_RANGE.fullmatch(content_range.strip())
    if match is None:
        raise _ignored(request, f"a body with the range {content_range!r}")
    first, last, size = match.groups()
    if size != "*" and int(size) < request.end:
        raise short_object(request.key, request.start, int(size))
    if int(first) != request.start or int(last) != request.end - 1:
        raise _ignored(request, f"bytes {first} to {last}")


def _ignored(request: ReadRequest, got: str) -> WrongBodyError:
    reason = f"the store ignored the range: it sent {got} instead of bytes {request.start} to {request.end - 1}"
    return WrongBodyError(reason, key=request.key, offset=request.start)


async def read_body(body: Any, request: ReadRequest, sent: Sent, silence: Silence) -> bytes:  # noqa: ANN401  (aiobotocore's)
    """Read a body to its end, but at most one piece more than requested."""
    wanted = request.end - request.start
    pieces: list[bytes] = []
    while sent.received <= wanted and (piece := await body.read(_PIECE)):
        pieces.append(piece)
        sent.received += len(piece)
        silence.broken()
    if sent.received != wanted:
        raise short_body(request.key, request.start, wanted, sent.received)
    return b"".join(pieces)


class StoredChecksum:
    """The checksum failures of one read's tries; botocore compares each body with the store's checksum.

    After a transmission error a retry succeeds. If two tries fail with the same checksums, the stored bytes are wrong and no retry helps.
    """

    __slots__ = ("_last", "_request")

    def __init__(self, request: ReadRequest) -> None:
        self._request = request
        self._last: str | None = None

    @contextmanager
    def compared(self, answer: Mapping[str, Any]) -> Iterator[None]:
        """Read the body of an answer in this context; raises our error if it fails with the same checksums as the last one.

        Raises `CorruptObjectError` for a whole object, and `StoreError` for a part, since some stores send the whole object's checksum.
        """
        try:
            yield
        except Exception as error:
            if "FlexibleChecksumError" not in names_of(error):
                raise
            # The error's text contains the sent and the computed checksum.
            found = str(error)
            if found == self._last:
                raise self._same_again(answer) from error
            self._last = found
            raise

    def _same_again(self, answer: Mapping[str, Any]) -> LedgerfsError:
        request = self._request
        if answer.get("ContentRange", "").strip() in {"", f"bytes 0-{request.end - 1}/{request.end}"}:
            reason = "two reads of the object do not match the store's own checksum: it was damaged in the store"
            return CorruptObjectError(reason, key=request.key, offset=request.start)
        reason = "two reads of a part of the object do not match the checksum that the store sent"
        return StoreError(reason, key=request.key, offset=request.start)

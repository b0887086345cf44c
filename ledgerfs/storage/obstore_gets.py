"""Ranged GETs through obstore, with checks of the answer and translated errors.

obstore has its own event loop in Rust, outside of the GIL; readers use a body without a copy. The loop does not survive a fork: the child
of a process that has used obstore reads through fsspec's filesystem (`is_usable`).
"""

import os
import re
from collections.abc import Callable
from concurrent.futures import CancelledError
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ledgerfs.errors import LedgerfsError, WrongBodyError
from ledgerfs.storage.failures import is_explained, replaced, short_body, short_object
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.sent_requests import Sent

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import AzureStore, ClientConfig, GCSStore, RetryConfig, S3Store

NO_RETRIES: "RetryConfig" = {"max_retries": 0}
"""`ledgerfs.storage.retries` retries instead."""

_STATUS = re.compile(r"status code: (\d{3})[^:]*:?\s*(.*)", re.DOTALL)
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<(?:Message|Details)>([^<]*)<")
_STORAGE_CLASS = re.compile(r"<StorageClass>([^<]*)</StorageClass>")
_TOO_LARGE = re.compile(r"Wanted range starting at \d+, but object was only (\d+) bytes long")
_WRONG_RANGE = re.compile(r"Received non-partial response when range requested|Requested \d+\.\.\d+, got \d+\.\.\d+")
_WRONG_HEADERS = re.compile(r"\w+: Content-Length Header missing from response")
_CUT_BODY = "IncompleteBody"
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_KINDS = {401: PermissionError, 403: PermissionError, 404: FileNotFoundError}


class _Runtime:
    """obstore's event loop in this process."""

    __slots__ = ("is_lost", "is_used")

    def __init__(self) -> None:
        self.is_used = False
        self.is_lost = False

    def forked(self) -> None:
        self.is_lost |= self.is_used


_runtime = _Runtime()
os.register_at_fork(after_in_child=_runtime.forked)
_is_installed = find_spec("obstore") is not None


def is_usable() -> bool:
    """Return whether obstore is installed and no parent process has used it; if so, mark it as used by this process."""
    if not _is_installed or _runtime.is_lost:
        return False
    _runtime.is_used = True
    return True


class UnexplainedError(Exception):
    """A failure that may be obstore's own; callers send the same request through the filesystem."""


class AnswerError(Exception):
    """The store's error answer, in botocore's form; used as the cause of an error."""

    def __init__(self, status: int, code: str, message: str, storage_class: str = "") -> None:
        super().__init__(message or code)
        error = {"Code": code or str(status), "Message": message, "StorageClass": storage_class}
        self.response = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}}}


def client_options(url: str, patience: float, connect_timeout: float = 5.0) -> "ClientConfig":
    """Return obstore's options for a store at ``url`` that may send nothing for ``patience`` seconds."""
    return {
        "allow_http": url.startswith("http:"),
        # The tries of a request bound its whole time.
        "timeout": timedelta(days=1),
        "read_timeout": timedelta(seconds=patience),
        "connect_timeout": timedelta(seconds=min(patience, connect_timeout)),
    }


def fetch(
    store: "S3Store | GCSStore | AzureStore",
    key: str,
    request: ReadRequest,
    condition: "GetOptions",
    sent: Sent,
    *,
    is_wanted: Callable[[], bool] = lambda: True,
) -> memoryview:
    """Read the bytes of a request from the object ``key`` under ``condition``, without a copy. Blocks; raises as `error_of`.

    Checks version and lengths before it uses the body; obstore checks ``Content-Range``.
    """
    import obstore

    try:
        result = obstore.get(store, key, options={**condition, "range": (request.start, request.end)})
        meta = result.meta
        found = {meta["version"], meta["e_tag"], (meta["e_tag"] or "").strip('"')} - {None, ""}
        if request.version and found and request.version not in found:
            raise replaced(request.key, request.start)
        if meta["size"] < request.end:
            raise short_object(request.key, request.start, meta["size"])
        if not is_wanted():
            raise CancelledError
        data = memoryview(result.bytes())
    except Exception as error:  # noqa: BLE001  (all are translated)
        known = error_of(error, request)
        raise known from (known.__cause__ or error)
    sent.received = len(data)
    if len(data) != request.end - request.start:
        raise short_body(request.key, request.start, request.end - request.start, len(data))
    return data


def error_of(error: Exception, request: ReadRequest) -> Exception:
    """Return our error, or the one that an fsspec filesystem would raise with the store's answer as its cause.

    Returns `UnexplainedError` unless the store clearly failed: an answer with the whole object may be right.
    """
    if isinstance(error, LedgerfsError | UnexplainedError | OSError) and not isinstance(error, FileNotFoundError):
        return error
    text, _, details = str(error).partition("\n\nDebug source:")
    if answered := _STATUS.search(text):
        return _answer_error(int(answered[1]), answered[2], request)
    if _CUT_BODY in details:
        reason = f"the store sent fewer than the {request.end - request.start} bytes that were requested"
        return WrongBodyError(reason, key=request.key, offset=request.start)
    return _wrong_headers(text, request) or _broken_connection(text, details) or UnexplainedError(text)


def _wrong_headers(text: str, request: ReadRequest) -> LedgerfsError | None:
    if found := _TOO_LARGE.search(text):
        return short_object(request.key, request.start, int(found[1]))
    if (found := _WRONG_RANGE.search(text)) and request.start:
        reason = f"the store ignored the range: {found[0]} instead of bytes {request.start} to {request.end - 1}"
        return WrongBodyError(reason, key=request.key, offset=request.start)
    if _WRONG_HEADERS.search(text):
        return WrongBodyError("the store did not send the length of the body", key=request.key, offset=request.start)
    return None


def _broken_connection(text: str, details: str) -> OSError | None:
    _, is_http, reason = text.rpartition("HTTP error: ")
    kind = _KIND.search(details)
    if kind is None or not is_http:
        return None
    if kind[1] == "Timeout":
        return TimeoutError(f"{reason}: the store sent nothing")
    # An unknown host and a refused connection look the same here: no connection.
    return ConnectionRefusedError(reason) if kind[1] == "Connect" else ConnectionError(reason)


def _answer_error(status: int, body: str, request: ReadRequest) -> Exception:
    code, message, storage_class = (
        found[1] if (found := pattern.search(body)) else "" for pattern in (_CODE, _MESSAGE, _STORAGE_CLASS)
    )
    if status == 412:
        return replaced(request.key, request.start)
    cause = AnswerError(status, code, message or " ".join(body.split())[:200], storage_class)
    if status < 400 or (status == 400 and not is_explained(code, str(cause))):
        # Another region, or an unsupported signature: the filesystem's client handles both.
        return UnexplainedError(str(cause))
    error = _KINDS.get(status, OSError)(str(cause))
    error.__cause__ = cause
    return error

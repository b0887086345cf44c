"""What can go wrong between us and a store, told in our own errors, and what is worth another try.

fsspec's filesystems raise what their client libraries raise, often without an errno (``facts/fsspec-fuse.md`` §2.2). Those libraries are
optional, so their exceptions are known by the names of their classes.
"""

import errno
import random
from collections.abc import Iterator

from ledgerfs.errors import (
    AccessDeniedError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreError,
    StoreTimeoutError,
    StoreUnreachableError,
    UnusableUrlError,
)
from ledgerfs.vfs.stores.fsspec_handle import without_credentials

_NO_CREDENTIALS = frozenset(
    {
        "NoCredentialsError",
        "PartialCredentialsError",
        "CredentialRetrievalError",
        "TokenRetrievalError",
        "ProfileNotFound",
        "DefaultCredentialsError",
        "RefreshError",
        "ClientAuthenticationError",
    }
)
_TIMEOUT = frozenset({"ConnectTimeoutError", "ReadTimeoutError", "ServerTimeoutError", "FSTimeoutError"})
_UNREACHABLE = frozenset(
    {
        "EndpointConnectionError",
        "HTTPClientError",
        "ClientConnectionError",
        "ConnectionClosedError",
        "ServiceRequestError",
        "gaierror",
    }
)
_BROKEN_BODY = frozenset(
    {"FlexibleChecksumError", "ClientPayloadError", "IncompleteReadError", "ResponseStreamingError", "IncompleteRead"}
)
_BUSY = frozenset({errno.EREMOTEIO, errno.EBUSY, errno.EAGAIN})


class ShortBodyError(StoreError):
    """The store sent fewer or more bytes than asked for."""


def short_body(key: str, start: int, wanted: int, got: int) -> ShortBodyError:
    """Return the error for a body of ``got`` bytes where ``wanted`` were asked for from byte ``start`` on."""
    return ShortBodyError(f"the store sent {got} bytes where {wanted} were asked for", key=key, offset=start)


def translate(error: BaseException, key: str) -> LedgerfsError:
    """Return our error for whatever a filesystem raised about object (or bucket) ``key``."""
    if isinstance(error, LedgerfsError):
        return error
    names = {cls.__name__ for cls in type(error).__mro__}
    text = without_credentials(" ".join(str(error).split())) or type(error).__name__
    if _is_precondition_failure(error):
        return StaleObjectError("the object was replaced; open it again", key=key)
    if isinstance(error, TypeError):
        return UnusableUrlError(f"the storage does not take these options: {text}", key=key)
    if isinstance(error, FileNotFoundError):
        return ObjectNotFoundError("no such object", key=key)
    if isinstance(error, PermissionError) or names & _NO_CREDENTIALS:
        hint = "check the credentials (for S3: AWS_* environment, profile, options key and secret, or anon=true)"
        return AccessDeniedError(f"access denied: {text.rstrip('.')}; {hint}", key=key)
    return _store_failure(error, names, text, key)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed when it is sent again."""
    if isinstance(error, LedgerfsError):
        return isinstance(error, ShortBodyError | StoreTimeoutError)
    names = {cls.__name__ for cls in type(error).__mro__}
    if isinstance(error, ConnectionError | TimeoutError) or names & (_TIMEOUT | _UNREACHABLE | _BROKEN_BODY):
        return True
    return isinstance(error, OSError) and error.errno in _BUSY


def retry_delays() -> Iterator[float]:
    """Yield the seconds to wait before each further try: three, growing, with jitter so that many readers do not return at once."""
    for base in (0.1, 0.4, 1.6):
        yield base * random.uniform(0.5, 1.5)  # noqa: S311  (jitter, not cryptography)


def _store_failure(error: BaseException, names: set[str], text: str, key: str) -> StoreError:
    if isinstance(error, TimeoutError) or names & _TIMEOUT:
        return StoreTimeoutError(f"the store did not answer in time: {text}", key=key)
    if isinstance(error, ConnectionError) or names & _UNREACHABLE:
        return StoreUnreachableError(f"the store cannot be reached: {text}", key=key)
    return StoreError(f"the store failed: {type(error).__name__}: {text}", key=key)


def _is_precondition_failure(error: BaseException) -> bool:
    """Whether S3 refused an ``If-Match``; s3fs turns that into a plain OSError with the original as its cause."""
    response = getattr(error.__cause__ or error, "response", None)
    if not isinstance(response, dict):
        return False
    return response.get("Error", {}).get("Code") in {"PreconditionFailed", "412"}

"""Translate failures of a store into errors of ledgerfs.

fsspec's filesystems raise the exceptions of their client libraries, often without an errno. Those libraries are
optional, so this module matches the names of exception classes.
"""

import errno
from collections.abc import Mapping
from typing import Any

from ledgerfs.errors import (
    AccessDeniedError,
    ArchivedObjectError,
    ExpiredCredentialsError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreError,
    StoreTimeoutError,
    StoreUnreachableError,
    UncertainWriteError,
    UnusableUrlError,
    WrongBodyError,
)
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.objects import ObjectStat, ReadRequest

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
TIMEOUT = frozenset({"ConnectTimeoutError", "ReadTimeoutError", "ServerTimeoutError", "FSTimeoutError"})
UNREACHABLE = frozenset(
    {
        "EndpointConnectionError",
        "HTTPClientError",
        "ClientConnectionError",
        "ConnectionClosedError",
        "ServiceRequestError",
        "gaierror",
    }
)
BROKEN_BODY = frozenset(
    {"FlexibleChecksumError", "ClientPayloadError", "IncompleteReadError", "ResponseStreamingError", "IncompleteRead"}
)
_ARCHIVED = frozenset({"InvalidObjectState", "BlobArchived", "BlobBeingRehydrated"})
EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"})
_UNKNOWN_KEY = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch"})
_WRONG_CLOCK = "the clock of this machine differs too much from the store's: set the clock"
_INACTIVE_ACCOUNT = (
    "the account of the bucket, or of these credentials, is not active: ask its owner, or the store's support"
)
_DISABLED = "the store has disabled all access to this bucket or object: ask its owner, or the store's support"
_OTHER_REGION = "the bucket is in another region: set that region or its endpoint"
_NO_CREDENTIALS_HELP = {
    "RequestTimeTooSkewed": _WRONG_CLOCK,
    "RequestExpired": _WRONG_CLOCK,
    "RequestInTheFuture": _WRONG_CLOCK,
    "AccountProblem": _INACTIVE_ACCOUNT,
    "NotSignedUp": _INACTIVE_ACCOUNT,
    "AccountIsDisabled": _INACTIVE_ACCOUNT,
    "AllAccessDisabled": _DISABLED,
    "InvalidPayer": _DISABLED,
    "IllegalLocationConstraintException": _OTHER_REGION,
}
"""Advice for refusals for which other credentials do not help, by the codes of S3 and Azure."""
_WITHOUT_BODY = frozenset({"400", "401", "403"})
"""Codes of answers to HEAD, which have no body and so no reason."""
_CUSTOMER_KEY = "Server Side Encryption"
"""Text in S3's answer 400 to a request that lacks the customer's key."""
BUSY = frozenset({errno.EREMOTEIO, errno.EBUSY, errno.EAGAIN})


READ_THE_REST = 'on_unreadable="skip" (--on-unreadable skip) reads the rest'


def is_refusal(error: BaseException) -> bool:
    """Return whether the store refused or failed, so that the object's state is unknown: neither absent nor damaged."""
    return isinstance(error, AccessDeniedError | StoreError)


def short_body(key: str, start: int, wanted: int, got: int) -> WrongBodyError:
    """Return the error for a body of ``got`` bytes in answer to a request for ``wanted`` bytes from byte ``start`` on."""
    return WrongBodyError(f"the store sent {got} bytes, but {wanted} were requested", key=key, offset=start)


def short_object(key: str, start: int, size: int) -> StoreError:
    """Return the error for bytes beyond the end of an object of ``size`` bytes; it is not retried."""
    return StoreError(
        f"the requested bytes are beyond the end of the object, which has {size} bytes", key=key, offset=start
    )


def wrong_length(request: ReadRequest, now: ObjectStat, got: int) -> LedgerfsError:
    """Return the error for a body of ``got`` bytes: the object was replaced, is too short, or the body is incomplete."""
    if request.version and now.version != request.version:
        return replaced(request.key, request.start)
    if got < request.end - request.start and now.size < request.end:
        return short_object(request.key, request.start, now.size)
    return short_body(request.key, request.start, request.end - request.start, got)


def replaced(key: str, start: int | None = None) -> StaleObjectError:
    """Return the error for an object that no longer has the requested version."""
    return StaleObjectError("the object was replaced; open it again", key=key, offset=start)


def archived(key: str, storage_class: str, offset: int | None = None) -> ArchivedObjectError:
    """Return the error for an object that must be restored before it can be read; ``storage_class`` may be empty."""
    where = f" (storage class {storage_class})" if storage_class else ""
    return ArchivedObjectError(
        f"the object is archived{where}: restore it in the store, then try again", key=key, offset=offset
    )


def uncertain(key: str, error: LedgerfsError) -> UncertainWriteError:
    """Return the error for a write that the store may have done."""
    reason = f"it is unknown whether this write succeeded; check with `ledgerfs verify` when the store answers again: {error.reason}"
    return UncertainWriteError(reason, key=key)


def may_be_credentials(error: BaseException) -> bool:
    """Return whether newer credentials may help, since the store may have refused the current ones."""
    return code_of(error) in EXPIRED | _UNKNOWN_KEY | _WITHOUT_BODY


def is_explained(code: str, text: str) -> bool:
    """Return whether an answer 400 concerns the object or the credentials, by its code and text, and not the request's form."""
    return code in EXPIRED | _UNKNOWN_KEY or code.startswith("KMS") or _CUSTOMER_KEY in text


def names_of(error: BaseException) -> frozenset[str]:
    """Return the names of an error's class and of its base classes."""
    return frozenset(cls.__name__ for cls in type(error).__mro__)


def answer_of(error: BaseException) -> Mapping[str, Any]:
    """Return the store's answer as botocore parsed it, also from the cause of an s3fs error."""
    answer = getattr(error.__cause__ or error, "response", None)
    return answer if isinstance(answer, dict) else {}


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of the answer, if any; each library uses another attribute."""
    places = (answer_of(error).get("ResponseMetadata", {}).get("HTTPStatusCode"),)
    places += tuple(getattr(error, name, None) for name in ("status", "status_code", "code"))
    return next((status for status in places if isinstance(status, int)), None)


def translate(error: BaseException, key: str, offset: int | None = None) -> LedgerfsError:
    """Return the error of ledgerfs for any error that a filesystem raised for object (or bucket) ``key``."""
    if isinstance(error, LedgerfsError):
        return error
    names = names_of(error)
    text = without_credentials(" ".join(str(error).split())) or type(error).__name__
    if code_of(error) in {"PreconditionFailed", "412"}:
        return replaced(key, offset)
    if isinstance(error, TypeError):
        return UnusableUrlError(f"the storage does not accept these options: {text}", key=key)
    if isinstance(error, FileNotFoundError):
        return ObjectNotFoundError("no such object", key=key, offset=offset)
    refusal = _refusal(error, names, text.rstrip("."), key, offset)
    return _store_failure(error, text, key, offset) if refusal is None else refusal


def code_of(error: BaseException) -> str:
    """Return the store's own code for the error (S3, Azure); empty without one."""
    return str(answer_of(error).get("Error", {}).get("Code") or getattr(error, "error_code", None) or "")


def _refusal(
    error: BaseException, names: frozenset[str], text: str, key: str, offset: int | None
) -> AccessDeniedError | None:
    """Return the error for a request that the store refuses, with advice; None for other failures."""
    code = code_of(error)
    if code in _ARCHIVED:
        return archived(key, answer_of(error).get("Error", {}).get("StorageClass") or "", offset)
    if code in EXPIRED:
        return ExpiredCredentialsError(
            f"the session token has expired: renew the credentials ({text})", key=key, offset=offset
        )
    denial = _reason_of_refusal(error, names, text, code)
    return None if denial is None else AccessDeniedError(denial, key=key, offset=offset)


def _reason_of_refusal(error: BaseException, names: frozenset[str], text: str, code: str) -> str | None:
    if code in _NO_CREDENTIALS_HELP:
        return f"{_NO_CREDENTIALS_HELP[code]} ({text})"
    if code.startswith("KMS"):
        return f"the object is encrypted with a KMS key that cannot be used: {text}; allow kms:Decrypt on that key"
    if _CUSTOMER_KEY in text:
        return f"the object is encrypted with a customer key (SSE-C), which the request lacks: {text}; see docs/operating/stores.md"
    if isinstance(error, PermissionError) or names & _NO_CREDENTIALS:
        hint = (
            "check the credentials (for S3: AWS_* environment, profile, options key and secret, or anon=true) and their permissions; "
            "if the requester pays for this bucket, set the storage option requester_pays=true"
        )
        return f"access denied: {text}; {hint}"
    return None


def _store_failure(error: BaseException, text: str, key: str, offset: int | None) -> StoreError:
    names = names_of(error)
    if isinstance(error, TimeoutError) or names & TIMEOUT:
        return StoreTimeoutError(f"the store did not answer in time: {text}", key=key, offset=offset)
    if isinstance(error, ConnectionError) or names & UNREACHABLE:
        return StoreUnreachableError(f"the store cannot be reached: {text}", key=key, offset=offset)
    return StoreError(f"the store failed: {type(error).__name__}: {text}", key=key, offset=offset)

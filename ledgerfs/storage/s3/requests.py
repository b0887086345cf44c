"""Requests that write to S3-compatible stores, and create an object only if it does not exist.

With ``If-None-Match: *`` the store refuses the second of two writers. Some stores do not support it, and some of those ignore it silently.
So writers send a HEAD before (`require_absent`), and again if an answer does not show whether the object was written.
"""

import hashlib
from typing import TYPE_CHECKING, Any

from ledgerfs.errors import LedgerfsError, ObjectExistsError, ObjectNotFoundError, StoreError
from ledgerfs.storage.failures import code_of, status_of
from ledgerfs.storage.sent_requests import Asked

if TYPE_CHECKING:
    from ledgerfs.storage.s3.store import S3Store

_REFUSED = frozenset({409, 412})
_UNKNOWN_CONDITION = frozenset({"NotImplemented", "InvalidArgument", "UnsupportedArgument"})


def create(store: "S3Store", asked: Asked, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    """Make a request that creates an object if it does not exist; raises `ObjectExistsError` if it does.

    Call `require_absent` first.
    """
    try:
        return store.request(asked, operation, IfNoneMatch="*", **arguments)
    except LedgerfsError as error:
        if status_of(error.__cause__ or error) in _REFUSED:
            raise exists(asked.key) from error
        if not (isinstance(error, StoreError) and is_unknown_condition(error)):
            raise
    require_absent(store, asked.key)
    return store.request(asked, operation, **arguments)


def require_absent(store: "S3Store", key: str) -> None:
    """Raise `ObjectExistsError` if the object exists."""
    try:
        store.head(key)
    except ObjectNotFoundError:
        return
    raise exists(key)


def exists(key: str) -> ObjectExistsError:
    """Return the error for an object that already exists."""
    return ObjectExistsError("the object already exists and is not overwritten", key=key)


def etag_of_parts(etags: list[str]) -> str | None:
    """Return the ETag of an object made of parts with these ETags; None if they are not digests (as with encryption by key)."""
    digests = [etag.strip('"') for etag in etags]
    try:
        joined = b"".join(bytes.fromhex(digest) for digest in digests)
    except ValueError:
        return None
    if len(joined) != 16 * len(digests):
        return None
    return f'"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(digests)}"'


def is_unknown_condition(error: LedgerfsError) -> bool:
    """Return whether a store refused a request because it does not support its condition."""
    cause = error.__cause__ or error
    return status_of(cause) == 501 or code_of(cause) in _UNKNOWN_CONDITION

"""What all writing to S3-speaking stores is made of: requests, and how to create an object only where there is none.

``If-None-Match: *`` has the store itself refuse the second one of two writers. Some stores do not know it, and of those not all say so; so
there is a look before, too (`require_absent`), and what an answer leaves open is settled by asking for the object.
"""

import hashlib
from collections.abc import Callable
from typing import Any, Protocol

from ledgerfs.errors import LedgerfsError, ObjectExistsError, ObjectNotFoundError, StoreError, UncertainWriteError
from ledgerfs.storage.failures import answer_of, status_of
from ledgerfs.storage.objects import ObjectHead, ReadRequest
from ledgerfs.storage.sent_requests import Asked

_REFUSED = frozenset({409, 412})
_UNKNOWN_CONDITION = frozenset({"NotImplemented", "InvalidArgument", "UnsupportedArgument"})


class S3Requests(Protocol):
    """What this module needs of the store."""

    def request(
        self,
        asked: Asked,
        operation: str,
        is_wanted: Callable[[], bool] = lambda: True,
        **arguments: Any,  # noqa: ANN401  (botocore's)
    ) -> dict[str, Any]:
        """Make one request, tried again as long as it is wanted."""
        ...

    def head(self, key: str) -> ObjectHead:
        """Ask for one object."""
        ...

    def read(self, request: ReadRequest) -> bytes:
        """Read bytes of an object."""
        ...

    def relative(self, name: str) -> str | None:
        """Return the key of an object by its whole name."""
        ...


def create(store: S3Requests, asked: Asked, operation: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    """Make a request that creates an object where there is none; raises `ObjectExistsError` where there is one.

    The caller has looked before.
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


def require_absent(store: S3Requests, key: str) -> None:
    """Raise `ObjectExistsError` if there is such an object."""
    try:
        store.head(key)
    except ObjectNotFoundError:
        return
    raise exists(key)


def exists(key: str) -> ObjectExistsError:
    """Return the error for an object that is there already."""
    return ObjectExistsError("there is such an object already; it is not written over", key=key)


def uncertain(key: str, error: LedgerfsError) -> UncertainWriteError:
    """Return the error for a write of which nobody knows whether it was done."""
    reason = f"it is not known whether this was written; `ledgerfs verify` tells when the store can be reached: {error.reason}"
    return UncertainWriteError(reason, key=key)


def etag_of_parts(etags: list[str]) -> str | None:
    """Return the ETag of an object made of parts with these ETags, where they are digests; None elsewhere (encryption by key)."""
    digests = [etag.strip('"') for etag in etags]
    try:
        joined = b"".join(bytes.fromhex(digest) for digest in digests)
    except ValueError:
        return None
    if len(joined) != 16 * len(digests):
        return None
    return f'"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(digests)}"'


def is_unknown_condition(error: LedgerfsError) -> bool:
    """Whether a store refused a request because it does not know the condition in it."""
    cause = error.__cause__ or error
    return status_of(cause) == 501 or answer_of(cause).get("Error", {}).get("Code") in _UNKNOWN_CONDITION

"""Convert each error to a number for the kernel, and one log line for the operator, with object and offset.

No error is silent or becomes a short read: a tool that reads damaged or unreachable bytes gets an error.
"""

import errno
import logging
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from cachetools import LRUCache

from ledgerfs.errors import (
    BucketNotFoundError,
    LedgerfsError,
    MountError,
    NotFoundError,
    ObjectNotFoundError,
    StoreError,
    StoreUnreachableError,
    UncertainWriteError,
    UnknownSchemaError,
)
from ledgerfs.storage.retries import store_timeout

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

logger = logging.getLogger("ledgerfs.mount")

_ORDINARY = frozenset(
    {errno.ENOENT, errno.ENODATA, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY}
)
"""Numbers that tools cause all the time; they are not failures."""

_TRANSLATED = {errno.EHOSTUNREACH: errno.EIO}

_GONE = (ObjectNotFoundError, BucketNotFoundError)

_SILENT_SECONDS = 10.0
"""Time without repeated log lines, added to the store's timeout: a read that the kernel repeats fails only after that timeout."""


def errno_of(error: BaseException) -> int:
    """Return the number for an error; ``EIO`` by default."""
    if isinstance(error, NotFoundError):
        return errno.ENOENT
    if isinstance(error, StoreUnreachableError):
        return errno.ETIMEDOUT
    if isinstance(error, UnknownSchemaError):
        # The file is listed. With ENOENT, programs that copy folders would silently continue without it.
        return errno.EIO
    number = error.errno if isinstance(error, OSError) else None
    if not isinstance(number, int) or number <= 0:
        return errno.EIO
    return _TRANSLATED.get(number, number)


def answering(operation: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make an operation raise only `MountError`, and log the original error."""

    @wraps(operation)
    def answer(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        try:
            return operation(*arguments, **named)
        except Exception as error:
            number = errno_of(error)
            _log(operation.__name__, arguments[1:], error, number)
            raise MountError(number, errno.errorcode.get(number, "EIO")) from error

    return answer


def warn_once(text: str) -> None:
    """Log a warning, unless the same text was just logged."""
    if _is_news(text):
        logger.warning("%s", text)


def _log(operation: str, arguments: tuple[object, ...], error: Exception, number: int) -> None:
    where = " ".join(repr(one) for one in arguments if isinstance(one, str | int))
    # A missing object is a failure if a listing or an index contains it; a missing path is a normal answer.
    if number in _ORDINARY and not isinstance(error, _GONE):
        logger.debug("%s %s: %s", operation, where, error)
    elif not isinstance(error, OSError):
        logger.error("%s %s: a bug in ledgerfs", operation, where, exc_info=error)
    elif _is_news(_subject(error)):
        logger.error("%s %s: %s", operation, where, error)


def _subject(error: OSError) -> str:
    """Return a key for repeated errors: the text, or only the object, since the reason may contain numbers of tries and seconds.

    The final failure of a store, a wrong body or none, may differ between two reads. An uncertain write has its own key.
    """
    if not isinstance(error, LedgerfsError) or error.key is None:
        return str(error)
    is_of_store = isinstance(error, StoreError) and not isinstance(error, UncertainWriteError)
    kind = StoreError if is_of_store else type(error)
    return f"{kind.__name__} {error.filename}"


def _is_news(text: str) -> bool:
    """Whether this was not just logged: the kernel repeats a failed readahead, and ``close`` fails after ``write``."""
    now = time.monotonic()
    with _lock:
        said = _said.get(text)
        if said is not None and now - said < _SILENT_SECONDS + store_timeout():
            return False
        _said[text] = now
        return True


_said: LRUCache[str, float] = LRUCache(256)
_lock = threading.Lock()

"""What the kernel is told of an error: a number. What the operator is told: one line in the log, with object and offset.

Never nothing, and never a short read: a tool that reads damaged or unreachable bytes gets an error.
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
)
from ledgerfs.storage.retries import store_timeout

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

logger = logging.getLogger("ledgerfs.mount")

_ORDINARY = frozenset(
    {errno.ENOENT, errno.ENODATA, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY}
)
"""What tools ask for all the time, and is no failure of anybody's."""

_TRANSLATED = {errno.EHOSTUNREACH: errno.EIO}

_GONE = (ObjectNotFoundError, BucketNotFoundError)

_SILENT_SECONDS = 10.0
"""For how long the same is not said again, beside the time that a store is given: what the kernel asks for again fails as late as that."""


def errno_of(error: BaseException) -> int:
    """Return the number for an error; ``EIO`` for what has none."""
    if isinstance(error, NotFoundError):
        return errno.ENOENT
    if isinstance(error, StoreUnreachableError):
        return errno.ETIMEDOUT
    number = error.errno if isinstance(error, OSError) else None
    if not isinstance(number, int) or number <= 0:
        return errno.EIO
    return _TRANSLATED.get(number, number)


def answering(operation: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make an operation raise nothing but `MountError`, and log what is behind it."""

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
    """Log what is no failure, unless that was just done."""
    if _is_news(text):
        logger.warning("%s", text)


def _log(operation: str, arguments: tuple[object, ...], error: Exception, number: int) -> None:
    where = " ".join(repr(one) for one in arguments if isinstance(one, str | int))
    # That an object is gone which a listing or an index told of is no answer to a question whether it is there.
    if number in _ORDINARY and not isinstance(error, _GONE):
        logger.debug("%s %s: %s", operation, where, error)
    elif not isinstance(error, OSError):
        logger.error("%s %s: a defect of ledgerfs", operation, where, exc_info=error)
    elif _is_news(_subject(error)):
        logger.error("%s %s: %s", operation, where, error)


def _subject(error: OSError) -> str:
    """Return what an error is about: what it says, or the object, for its reason tells of tries and seconds.

    How a store fails in the end, by a wrong body or by none, may differ from one read to the next. That nobody knows what became of a write
    is another thing to say.
    """
    if not isinstance(error, LedgerfsError) or error.key is None:
        return str(error)
    is_of_store = isinstance(error, StoreError) and not isinstance(error, UncertainWriteError)
    kind = StoreError if is_of_store else type(error)
    return f"{kind.__name__} {error.filename}"


def _is_news(text: str) -> bool:
    """Whether this was not just said: the kernel asks again for what it could not read ahead, and ``close`` fails after ``write``."""
    now = time.monotonic()
    with _lock:
        said = _said.get(text)
        if said is not None and now - said < _SILENT_SECONDS + store_timeout():
            return False
        _said[text] = now
        return True


_said: LRUCache[str, float] = LRUCache(256)
_lock = threading.Lock()

"""What the kernel is told of an error: a number. What the operator is told: one line in the log, with object and offset.

Never nothing, and never a short read: a tool that reads damaged or unreachable bytes gets an error (``facts/fsspec-fuse.md`` §3.2).
"""

import errno
import logging
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ledgerfs.errors import LedgerfsError, NotFoundError, StoreUnreachableError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

logger = logging.getLogger("ledgerfs.mount")

_ORDINARY = frozenset({errno.ENOENT, errno.ENODATA, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EEXIST})
"""What tools ask for all the time, and is no failure of anybody's."""

_TRANSLATED = {errno.EHOSTUNREACH: errno.EIO}


class MountError(OSError):
    """An answer to the kernel: no more than its number."""


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


def _log(operation: str, arguments: tuple[object, ...], error: Exception, number: int) -> None:
    where = " ".join(repr(one) for one in arguments if isinstance(one, str | int))
    if number in _ORDINARY or (isinstance(error, LedgerfsError) and number == errno.ENOENT):
        logger.debug("%s %s: %s", operation, where, error)
    elif isinstance(error, OSError):
        logger.error("%s %s: %s", operation, where, error)
    else:
        logger.error("%s %s: a defect of ledgerfs", operation, where, exc_info=error)

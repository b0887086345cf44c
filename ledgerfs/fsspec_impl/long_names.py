"""Copy to a local folder with names that are too long: a URL-encoded topic may exceed the 255 bytes of most file systems.

Such files are not copied under another name, which could be that of another topic. The others are copied, then an error is raised.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ledgerfs.errors import NameTooLongError

_left_out: ContextVar[list[str] | None] = ContextVar("left_out", default=None)


@contextmanager
def telling_long_names_at_the_end() -> Iterator[None]:
    """Collect paths in `left_out`, and raise `NameTooLongError` at the end if there were any."""
    paths: list[str] = []
    token = _left_out.set(paths)
    try:
        yield
    finally:
        _left_out.reset(token)
    if paths:
        raise _too_long(paths)


@contextmanager
def leaving_out_long_names(path: str) -> Iterator[None]:
    """Collect ``path`` if its name is too long for the local folder; outside of `telling_long_names_at_the_end`, raise at once."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        paths = _left_out.get()
        if paths is None:
            raise _too_long([path]) from error
        paths.append(path)


def _too_long(paths: list[str]) -> NameTooLongError:
    more = f" (also of {len(paths) - 1:,} more files)" if len(paths) > 1 else ""
    reason = (
        f"not copied: the name is too long for the local folder{more}; all other files were copied. Copy this file to a shorter name with "
        "`get_file` or `ledgerfs cat`"
    )
    return NameTooLongError(reason, key=paths[0])

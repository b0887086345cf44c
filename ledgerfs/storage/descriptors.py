"""Write to file descriptors, blocking or not."""

import errno
import os
import select

# Errors of descriptors that sendfile cannot write to, such as files opened for appending.
_SENDFILE_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_CHUNK = 1 << 20


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of ``data``; a pipe may accept less with one call."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            wait_until_writable(descriptor)


def wait_until_writable(descriptor: int) -> None:
    """Wait until a descriptor that does not block accepts bytes again."""
    select.select([], [descriptor], [])


def copy_range(source: int, start: int, end: int, descriptor: int) -> int:
    """Copy bytes ``start`` to ``end`` of file ``source`` in the kernel; if that fails, read and write them.

    Returns the number of copied bytes: fewer only if the file is shorter. Raises an `OSError` of either descriptor unchanged.
    """
    at = start
    while at < end:
        try:
            copied = os.sendfile(descriptor, source, at, end - at)
        except BlockingIOError:
            wait_until_writable(descriptor)
            continue
        except OSError as error:
            if error.errno not in _SENDFILE_CANNOT:
                raise
            data = os.pread(source, min(_CHUNK, end - at), at)
            write_all(descriptor, data)
            copied = len(data)
        if copied == 0:
            break
        at += copied
    return at - start

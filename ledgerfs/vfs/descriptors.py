"""Writing to a file descriptor, which may be one that does not block."""

import os
import select


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``: a pipe may take less at a time."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            wait_until_writable(descriptor)


def wait_until_writable(descriptor: int) -> None:
    """Wait until a descriptor that does not block takes bytes again."""
    select.select([], [descriptor], [])

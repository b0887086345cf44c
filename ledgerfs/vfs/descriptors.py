"""Writing to a file descriptor."""

import os


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``: a pipe may take less at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]

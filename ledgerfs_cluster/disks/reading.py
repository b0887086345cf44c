"""Read bytes of files on failing disks: with `os.pread`, not a memory mapping, where a disk error would kill the process."""

import io
import os
from collections.abc import Callable

import numpy as np

from ledgerfs.errors import AccessDeniedError, ObjectNotFoundError, StoreError
from ledgerfs.formats.array_types import Bytes

UNREADABLE = 0xFF
"""In place of each unreadable byte: it is neither a record nor padding, so it is reported as not a record."""

_PIECE = 1 << 16


def open_to_read(path: str) -> io.FileIO:
    """Open a file to read it; raises `ObjectNotFoundError`, `AccessDeniedError`, `StoreError`."""
    try:
        return io.FileIO(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW))
    except FileNotFoundError as error:
        raise ObjectNotFoundError("the file no longer exists", key=path) from error
    except PermissionError as error:
        raise AccessDeniedError("no permission to read the file", key=path) from error
    except OSError as error:
        raise StoreError(f"the file cannot be read: {error.strerror}", key=path) from error


OnError = Callable[[int, OSError], None]
"""Called with the offset of an unreadable piece, and its error."""


def read_into(descriptor: int, target: Bytes, offset: int, on_error: OnError = lambda *_: None) -> int:
    """Fill ``target`` from byte ``offset`` of a file on, and return the number of bytes; unreadable ones become `UNREADABLE`."""
    done = 0
    while done < target.size:
        try:
            count = os.preadv(descriptor, [target[done:].data], offset + done)
        except OSError:
            # A disk error: read the rest of this range in pieces, of which some may be sound.
            return done + _read_pieces(descriptor, target[done:], offset + done, on_error)
        if count == 0:
            break
        done += count
    return done


def _read_pieces(descriptor: int, target: Bytes, offset: int, on_error: OnError) -> int:
    """Fill as `read_into` does, piece by piece."""
    size = min(target.size, max(0, os.fstat(descriptor).st_size - offset))
    for start in range(0, size, _PIECE):
        piece = target[start : min(size, start + _PIECE)]
        try:
            count = os.preadv(descriptor, [piece.data], offset + start)
        except OSError as error:
            on_error(offset + start, error)
            count = 0
        piece[count:] = UNREADABLE
    return size


def empty_bytes(size: int) -> Bytes:
    """Return uninitialized bytes."""
    return np.empty(size, np.uint8)

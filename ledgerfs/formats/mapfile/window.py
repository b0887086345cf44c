"""A fetched part of a file: its bytes, and its offset in the file, which errors name."""

from dataclasses import dataclass
from enum import Enum

from ledgerfs.errors import CorruptIndexError, CorruptLedgerError, CorruptObjectError


class Role(Enum):
    """One of a MapFile's two SequenceFiles."""

    DATA = "data"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive bytes of a file.

    Attributes
    ----------
    buffer
        The bytes.
    offset
        Where in the file they begin.
    file_size
        Bytes of the whole file.
    role
        Data or index, for errors.
    key
        The object's key, for errors.

    """

    buffer: memoryview
    offset: int
    file_size: int
    role: Role = Role.DATA
    key: str | None = None

    def corrupt(self, reason: str, at: int) -> CorruptObjectError:
        """Return the error for damage at index ``at`` of the buffer."""
        kind = CorruptIndexError if self.role is Role.INDEX else CorruptLedgerError
        return kind(reason, key=self.key, offset=self.offset + at)

    def check_inside(self, what: str, start: int, size: int) -> None:
        """Raise the error of a truncated file, or a false length, if the file has fewer than ``size`` bytes from index ``start`` on."""
        rest = self.file_size - self.offset - start
        if size > rest:
            raise self.corrupt(
                f"truncated: {what} needs {size} bytes or more, but only {rest} are left in the file", start
            )

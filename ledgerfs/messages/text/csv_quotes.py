"""Quotes of CSV files that pyarrow reads without an error, although it loses rows or texts.

pyarrow joins a quoted value with text after its closing quote (``"b"c``), and with all rows up to the file's end if that quote is missing.
A quote inside a value that does not begin with one is an ordinary character, for pyarrow and here.
"""

from collections.abc import Sequence

import numpy as np

from ledgerfs.errors import LineError
from ledgerfs.formats.kernel import kernel

_START, _PLAIN, _QUOTED, _CLOSED = range(4)
"""States: before a value's first byte, inside a value without quotes, inside quotes, and after a quote that may be the closing one."""

_BOM = b"\xef\xbb\xbf"


class QuoteCheck:
    """Follows the quotes of a CSV file from its first byte, in blocks of any size.

    Parameters
    ----------
    names
        The columns, for errors.

    """

    __slots__ = ("_is_begun", "_names", "_position")

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._position = np.array([_START, 1, 0, 1], np.int64)
        self._is_begun = False

    def follow(self, block: bytes) -> None:
        """Check the next bytes; raises `LineError`, which names line and column, for text after a closing quote."""
        if not self._is_begun:
            block = block.removeprefix(_BOM)
        self._is_begun = True
        if block and not _follow(np.frombuffer(block, np.uint8), self._position):
            raise self._error('text after the closing quote; a quote inside a quoted value has to be doubled ("")')

    def finish(self) -> None:
        """Raise `LineError` if the file ends inside quotes."""
        if self._position[0] == _QUOTED:
            raise self._error("a quote is not closed at the end of the file; the file may be truncated")

    def _error(self, reason: str) -> LineError:
        _, _, column, line = self._position.tolist()
        name = self._names[column] if column < len(self._names) else f"column {column}"
        return LineError(line, f"{name}: {reason}")


@kernel
def _follow(data, position):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move ``position`` (state, line, column, and the line of the last opening quote) past the bytes.

    Return False at the first byte that may not follow a closing quote.
    """
    state, line, column, opened = position[0], position[1], position[2], position[3]
    is_sound = True
    for byte in data:
        is_quote = byte == ord('"')
        if byte == ord("\n"):
            line += 1
        if state == _QUOTED:
            if is_quote:
                state = _CLOSED
        elif byte == ord(",") or byte == ord("\n") or byte == ord("\r"):
            state = _START
            column = column + 1 if byte == ord(",") else 0
        elif is_quote and state == _START:
            state, opened = _QUOTED, line
        elif is_quote and state == _CLOSED:
            state = _QUOTED
        elif state == _CLOSED:
            is_sound = False
            break
        else:
            state = _PLAIN
    position[0], position[1], position[2], position[3] = state, line, column, opened
    return is_sound

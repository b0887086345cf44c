"""What a failed task says: the error of ours inside of Spark's text, which is pages of Python's and Java's tracebacks.

An exception travels from a Python worker to the driver as text. The class is named there, and the text of our errors names object and
offset, so both can be had back.
"""

import re

from ledgerfs import errors
from ledgerfs.errors import LedgerfsError

_TRACEBACK = "Traceback (most recent call last):"
_OURS = re.compile(r"ledgerfs\.errors\.(\w+): (.*)")
_JAVA = re.compile(r"(?:An error occurred while calling .*|[:\s]*)")


def error_of(failure: Exception) -> LedgerfsError | None:
    """Return the error of ours that ended a job, by what Spark raised for it; None where it was none of ours."""
    match = _OURS.match(_last_line(str(failure)))
    kind = getattr(errors, match[1], None) if match else None
    if match is None or not (isinstance(kind, type) and issubclass(kind, LedgerfsError)):
        return None
    return kind(match[2])


def line_of(failure: Exception) -> str:
    """Return in one line what Spark raised."""
    return _last_line(str(failure)).strip().removeprefix(": ") or type(failure).__name__


def _last_line(text: str) -> str:
    """Return the line of a traceback that names the exception; of a text without one, the first line that says something."""
    _, has_traceback, shown = text.rpartition(_TRACEBACK)
    lines = [line for line in shown.splitlines() if line.strip()]
    if has_traceback:
        return next((line for line in lines if not line[0].isspace()), "")
    return next((line for line in lines if not _JAVA.fullmatch(line)), "")

"""Paths that users give where only local paths are possible.

URLs are refused: ``s3://tier/out`` as a path would create a folder ``s3:`` here, and report success.
"""

import os
import re
from pathlib import Path

from ledgerfs.errors import InvalidOptionError

LocalPath = str | os.PathLike[str]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)[:/]")
_FILE = re.compile(r"(?:file|local):(?://)?(/(?!/).*)", re.DOTALL)


def local_path(given: LocalPath, name: str) -> Path:
    """Return the given path, or that of a URL ``file:///…``; raises `InvalidOptionError` as `local_text` does."""
    path = Path(local_text(given, name))
    # pathlib drops the ./ of ./s3:/out, which then looks like a URL.
    return path.absolute() if str(path) == "-" or _URL.match(str(path)) else path


def local_text(given: LocalPath, name: str) -> str:
    """Return the path as text, which keeps a slash at its end.

    Raises `InvalidOptionError`, with ``name`` as its key, for an empty text, any other URL, and ``-``, since no stream is read or written.
    """
    text = os.fspath(given)
    if not text.strip():
        raise InvalidOptionError("is empty", key=name)
    if text == "-":
        raise InvalidOptionError("a stream (-) is not accepted here; write ./- for a file named -", key=name)
    of_file = _FILE.match(text)
    if of_file is not None:
        return of_file[1]
    match = _URL.match(text)
    if match is not None and match[1] in {"file:", "local:"}:
        raise InvalidOptionError(f"expected an absolute path after {match[1]}//, as in {match[1]}///data", key=name)
    if match is not None:
        raise InvalidOptionError(
            f"expected a path on this machine, not {match[1]}//; write ./{match[1]} for a folder named {match[1]}",
            key=name,
        )
    return text

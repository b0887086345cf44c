"""Paths of this machine as users give them, where nothing else will do.

A URL is not one: ``s3://tier/out`` taken for a path would make a folder ``s3:`` here, and report success.
"""

import os
import re
from pathlib import Path

from ledgerfs.errors import InvalidOptionError

LocalPath = str | os.PathLike[str]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)[:/]")
_FILE = re.compile(r"(?:file|local):(?://)?(/(?!/).*)", re.DOTALL)


def local_path(given: LocalPath, name: str) -> Path:
    """Return a path as it is, or of a URL ``file:///…``; raises `InvalidOptionError` for what `local_text` refuses."""
    path = Path(local_text(given, name))
    # Of ./s3:/out a path drops what tells that it is one.
    return path.absolute() if str(path) == "-" or _URL.match(str(path)) else path


def local_text(given: LocalPath, name: str) -> str:
    """Return the same with a slash at its end, if it has one.

    Raises `InvalidOptionError`, which tells ``name``, for nothing at all, any other URL, and ``-``, for which there is no stream.
    """
    text = os.fspath(given)
    if not text.strip():
        raise InvalidOptionError("is empty", key=name)
    if text == "-":
        raise InvalidOptionError("no stream is taken here; what is called - is ./-", key=name)
    of_file = _FILE.match(text)
    if of_file is not None:
        return of_file[1]
    match = _URL.match(text)
    if match is not None and match[1] in {"file:", "local:"}:
        raise InvalidOptionError(f"a whole path follows {match[1]}//, as in {match[1]}///data", key=name)
    if match is not None:
        raise InvalidOptionError(
            f"only a path of this machine is taken here, and {match[1]}// is none; what is called {match[1]} is ./{match[1]}",
            key=name,
        )
    return text

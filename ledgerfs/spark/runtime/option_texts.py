"""Parse Spark options, which are texts. All functions raise `InvalidOptionError` with the option's name."""

import ast
import json
import re
from pathlib import Path
from typing import Any

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.byte_sizes import parse_size
from ledgerfs.formats.local_paths import local_path

_KEY_TEXT = "-----BEGIN"


def text(value: str, name: str) -> str:
    """Return the text; raises for an empty one."""
    if not value:
        raise InvalidOptionError("is empty", key=name)
    return value


def texts(value: str, name: str) -> list[str]:
    """Return a list in JSON, in Python syntax (from ``.option("topics", [...])``), or separated by commas."""
    parsed = _list_or_text(value)
    found = [part.strip() for part in parsed.split(",")] if isinstance(parsed, str) else parsed
    if not found or not all(isinstance(one, str) and one for one in found):
        raise InvalidOptionError("not a list of names", key=f"{name}={value}")
    return list(found)


def _list_or_text(value: str) -> Any:  # noqa: ANN401  (a literal)
    if value.lstrip()[:1] not in {"[", "("}:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return []


def flag(value: str, name: str) -> bool:
    """Parse ``true`` or ``false``, ignoring case."""
    found = {"true": True, "false": False}.get(value.lower())
    if found is None:
        raise InvalidOptionError("expected true or false", key=f"{name}={value}")
    return found


def number(value: str, name: str) -> int:
    """Return a whole number."""
    try:
        return int(value)
    except ValueError:
        raise InvalidOptionError("not a whole number", key=f"{name}={value}") from None


def moment(value: str, name: str) -> int | str:  # noqa: ARG001  (as the other parsers)
    """Return a time for `Topic.scan`: digits are ms since 1970."""
    return int(value) if re.fullmatch(r"-?[0-9]+", value) else value


def size(value: str, name: str) -> int:
    """Return a size in bytes; the text may have a unit."""
    try:
        return parse_size(value)
    except InvalidOptionError as error:
        raise InvalidOptionError(error.reason, key=f"{name}={value}") from None


def seconds(value: str, name: str) -> float:
    """Return a number of seconds."""
    try:
        return float(value)
    except ValueError:
        raise InvalidOptionError("not a number of seconds", key=f"{name}={value}") from None


def private_keys(value: str, name: str) -> dict[str, Path]:
    """Return {name: file}. Keys are in files on every worker, never in options, which plans show."""
    if _KEY_TEXT in value:
        raise InvalidOptionError(
            "do not pass the key itself, because query plans show options; pass the path of a file with the key",
            key=name,
        )
    keys = {}
    for one in value.split(","):
        key, equals, path = one.strip().partition("=")
        if not (key and equals and path):
            raise InvalidOptionError("not a list of NAME=PEMFILE", key=name)
        keys[key] = local_path(path, f"{name}={key}")
    return keys


def json_or_text(value: str, name: str) -> Any:  # noqa: ANN401, ARG001  (any JSON value; as the other parsers)
    """Return the value of a JSON text; any other text is returned unchanged."""
    try:
        return json.loads(value)
    except ValueError:
        return value

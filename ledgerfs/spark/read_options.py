"""What a user may say to the data source, as texts, and what it means.

Names are taken in any case, since Spark hands them on in lower case. An option that is none is an error: a misspelt ``endTime`` would
otherwise read a whole topic.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.byte_sizes import parse_size
from ledgerfs.spark.storage import Storage, require_no_credentials
from ledgerfs.vfs.partitions import DEFAULT_PARTITION_BYTES

_STORAGE_PREFIX = "storage."
_STORAGE_OPTIONS = ("endpoint_url", "anon")
"""Options of filesystems that need no prefix, since nearly everybody without AWS itself needs them."""

_KEY_TEXT = "-----BEGIN"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is read, and how.

    Attributes
    ----------
    storage
        Where.
    topics, pattern
        Which topics; None for all.
    scan
        Arguments of `Topic.scan`.
    partition_bytes
        About how many bytes a task reads.

    """

    storage: Storage
    topics: Sequence[str] | None = None
    pattern: str | None = None
    scan: Mapping[str, Any] = field(default_factory=dict)
    partition_bytes: int = DEFAULT_PARTITION_BYTES


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return what the options of a reader mean; raises `InvalidNameError` for one that is none, or makes no sense."""
    ours, storage = split_options(given, _READ)
    known = {name: parse(ours[name.lower()], name) for name, parse in _READ.items() if name.lower() in ours}
    topics = known.pop("topics", None)
    if "topic" in known:
        topics = [*(topics or []), known.pop("topic")]
    pattern = known.pop("topicsPattern", None)
    if topics is not None and pattern is not None:
        raise InvalidNameError("either topics, or a pattern of their names", key="topicsPattern")
    size = known.pop("partitionBytes", DEFAULT_PARTITION_BYTES)
    scan = {_SCAN_NAMES.get(name, name): value for name, value in known.items()}
    return ReadOptions(storage, topics, pattern, scan, size)


def split_options(given: Mapping[str, str], known: Mapping[str, object]) -> tuple[dict[str, str], Storage]:
    """Return the options whose names are among some, in lower case, and the storage that the others tell.

    Raises `InvalidNameError` for those that are neither, for credentials, and for more than one bucket.
    """
    names = {name.lower() for name in known}
    ours: dict[str, str] = {}
    storage: dict[str, Any] = {}
    settings: dict[str, str] = {}
    for name, value in given.items():
        low = name.lower()
        if low in names:
            ours[low] = value
        elif low in _STORAGE_OPTIONS or low.startswith(_STORAGE_PREFIX):
            storage[low.removeprefix(_STORAGE_PREFIX)] = _json_or_text(value)
        elif low.startswith("fs.s3a."):
            settings[low] = value
        elif low not in {"path", *_OF_STORAGE}:
            raise InvalidNameError(f"no such option; there are {', '.join([*known, *_STORAGE_NAMES])}", key=name)
    require_no_credentials({**storage, **settings})
    return ours, _storage_of(given, storage, settings)


def _storage_of(given: Mapping[str, str], storage: dict[str, Any], settings: dict[str, str]) -> Storage:
    low = {name.lower(): value for name, value in given.items()}
    if not low.get("path"):
        reason = "which bucket? One goes into load(…) or save(…), such as s3://tier; several are read one by one"
        raise InvalidNameError(reason, key="path")
    age = low.get("catalogmaxage")
    return Storage(low["path"], storage, settings, low.get("cachedir"), None if age is None else _seconds(age))


def _text(value: str, name: str) -> str:
    if not value:
        raise InvalidNameError("is empty", key=name)
    return value


def _texts(value: str, name: str) -> list[str]:
    """Return a list that is written as JSON, as Python does it (which is what ``.option("topics", [...])`` becomes), or with commas."""
    parsed = _list_or_text(value)
    found = [part.strip() for part in parsed.split(",")] if isinstance(parsed, str) else parsed
    if not found or not all(isinstance(one, str) and one for one in found):
        raise InvalidNameError("not a list of names", key=f"{name}={value}")
    return list(found)


def _list_or_text(value: str) -> Any:  # noqa: ANN401  (a literal)
    if value.lstrip()[:1] not in {"[", "("}:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return []


def _flag(value: str, name: str) -> bool:
    found = {"true": True, "false": False}.get(value.lower())
    if found is None:
        raise InvalidNameError("true or false", key=f"{name}={value}")
    return found


def _number(value: str, name: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise InvalidNameError("not a whole number", key=f"{name}={value}") from None


def _moment(value: str, name: str) -> int | str:  # noqa: ARG001  (as its neighbours)
    """Return a time as `Topic.scan` takes it: digits are ms since 1970."""
    return int(value) if re.fullmatch(r"-?[0-9]+", value) else value


def _size(value: str, name: str) -> int:
    try:
        return parse_size(value)
    except InvalidNameError as error:
        raise InvalidNameError(error.reason, key=f"{name}={value}") from None


def _seconds(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InvalidNameError("not a number of seconds", key=f"catalogMaxAge={value}") from None


def _private_keys(value: str, name: str) -> dict[str, Path]:
    """Return {name: file}; the keys themselves are in files that every worker has, never in options, which plans show."""
    if _KEY_TEXT in value:
        raise InvalidNameError(
            "a key itself does not belong into an option, which plans show; name a file that has it", key=name
        )
    keys = {}
    for one in value.split(","):
        key, equals, path = one.strip().partition("=")
        if not (key and equals and path):
            raise InvalidNameError("not a list of NAME=PEMFILE", key=name)
        keys[key] = Path(path)
    return keys


def _json_or_text(value: str) -> Any:  # noqa: ANN401  (whatever JSON knows)
    try:
        return json.loads(value)
    except ValueError:
        return value


_READ: Mapping[str, Callable[[str, str], Any]] = {
    "topic": _text,
    "topics": _texts,
    "topicsPattern": _text,
    "columns": _texts,
    "startTime": _moment,
    "endTime": _moment,
    "clockSlackMs": _number,
    "transactions": _text,
    "includeMarkers": _flag,
    "privateKeys": _private_keys,
    "onEncrypted": _text,
    "onCorrupt": _text,
    "checkChecksums": _flag,
    "maxMessageBytes": _number,
    "partitionBytes": _size,
}
"""The options of a reader, and what parses each."""

_OF_STORAGE = ("cachedir", "catalogmaxage")
_STORAGE_NAMES = (
    "cacheDir",
    "catalogMaxAge",
    *_STORAGE_OPTIONS,
    f"{_STORAGE_PREFIX}<option of the filesystem>",
    "fs.s3a.…",
)

_SCAN_NAMES = {
    "startTime": "start_time",
    "endTime": "end_time",
    "clockSlackMs": "clock_slack_ms",
    "includeMarkers": "include_markers",
    "privateKeys": "private_keys",
    "onEncrypted": "on_encrypted",
    "onCorrupt": "on_corrupt",
    "checkChecksums": "check_checksums",
    "maxMessageBytes": "max_message_bytes",
}
"""What `Topic.scan` calls them."""

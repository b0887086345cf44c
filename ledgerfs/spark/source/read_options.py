"""Parse the read options of the data source, which are texts.

Names ignore case, since Spark converts them to lower case. An unknown option is an error: a misspelt ``endTime`` would otherwise read a
whole topic.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES
from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.catalog.source import scheme_of
from ledgerfs.errors import InvalidOptionError
from ledgerfs.scan.options import SCAN_OPTIONS, ScanOptions
from ledgerfs.spark.runtime.option_texts import (
    flag,
    json_or_text,
    moment,
    number,
    private_keys,
    seconds,
    size,
    text,
    texts,
)
from ledgerfs.spark.runtime.storage import Storage, require_no_credentials

_STORAGE_PREFIX = "storage."
_STORAGE_OPTIONS = ("endpoint_url", "anon")
"""Filesystem options without a prefix: most users of another store than AWS need them."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Parsed options of a reader.

    Attributes
    ----------
    storage
        The bucket.
    topics, pattern
        The topics; None for all.
    scan
        Scan options.
    partition_bytes
        Approximate bytes that a task reads.
    bookie_rate
        Bytes/s that all tasks together read from each bookie of a live cluster; None for the default.
    most_parts
        Maximum number of tasks of the query; None for no limit.

    """

    storage: Storage
    topics: Sequence[str] | str | None = None
    pattern: str | None = None
    scan: ScanOptions = field(default_factory=ScanOptions)
    partition_bytes: int = DEFAULT_PARTITION_BYTES
    bookie_rate: int | None = None
    most_parts: int | None = None


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the parsed options of a reader; raises `InvalidOptionError` for an unknown or invalid one."""
    ours, storage = separate_storage(given, _READ)
    known = {name: parse(ours[name.lower()], name) for name, parse in _READ.items() if name.lower() in ours}
    topics = known.pop("topics", None)
    if "topic" in known:
        topics = [*(topics or []), known.pop("topic")]
    pattern = known.pop("topicsPattern", None)
    if topics is not None and pattern is not None:
        raise InvalidOptionError("pass either topics or topicsPattern, not both", key="topicsPattern")
    partition_bytes = known.pop("partitionBytes", DEFAULT_PARTITION_BYTES)
    bookie_rate, connections = known.pop("maxBookieRate", None), known.pop("maxBookieConnections", None)
    if bookie_rate is not None and bookie_rate < 1:
        raise InvalidOptionError("expected 1 byte per second or more", key=f"maxBookieRate={bookie_rate}")
    if connections is not None and connections < 1:
        raise InvalidOptionError("expected 1 connection or more", key=f"maxBookieConnections={connections}")
    scan = ScanOptions.of(**{_SCAN_NAMES[name]: value for name, value in known.items()})
    scheme = scheme_of(storage.url)
    most = None if scheme is None else scheme.most_tasks(connections)
    return ReadOptions(storage, topics, pattern, scan, partition_bytes, bookie_rate, most)


def separate_storage(given: Mapping[str, str], known: Mapping[str, object]) -> tuple[dict[str, str], Storage]:
    """Return the options with known names, in lower case, and the storage from the other options.

    Raises `InvalidOptionError` for unknown options, for credentials, and for a missing bucket.
    """
    names = {name.lower() for name in known}
    ours: dict[str, str] = {}
    storage: dict[str, Any] = {}
    settings: dict[str, str] = {}
    of_storage: dict[str, str] = {}
    for name, value in given.items():
        low = name.lower()
        if not value.strip() and low != "path":  # `_storage` raises a better error for it
            raise InvalidOptionError("is empty; is a variable not set?", key=name)
        if low in names:
            ours[low] = value
        elif low in _STORAGE_OPTIONS or low.startswith(_STORAGE_PREFIX):
            storage[low.removeprefix(_STORAGE_PREFIX)] = json_or_text(value, name)
        elif low.startswith("fs.s3a."):
            settings[low] = value
        elif low in {"path", *map(str.lower, _OF_STORAGE)}:
            of_storage[low] = value
        else:
            raise InvalidOptionError.unknown(name, [*known, *_STORAGE_NAMES])
    require_no_credentials({**of_storage, **storage, **settings})
    return ours, _storage(storage, settings, **of_storage)


def _storage(
    storage: dict[str, Any],
    settings: dict[str, str],
    *,
    path: str = "",
    cachedir: str | None = None,
    catalogmaxage: str | None = None,
    layout: str = AUTO,
    onunreadable: Any = "raise",  # noqa: ANN401  (a text, which `open_bucket` checks)
) -> Storage:
    if not path.strip():
        reason = (
            "the bucket is missing: pass one to load(…) or save(…), such as s3://tier; read several buckets one by one"
        )
        raise InvalidOptionError(reason, key="path")
    age = None if catalogmaxage is None else seconds(catalogmaxage, "catalogMaxAge")
    return Storage(path, storage, settings, cachedir, age, layout, onunreadable)


_NOT_OF_TEXT = frozenset({"key", "where", "limit", "order", "threads"})
"""Scan options that Spark replaces by ``DataFrame.filter``, ``limit``, ``orderBy`` and tasks; and ``key``, which is a store option."""


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


_SCAN_NAMES = {_camel(name): name for name in SCAN_OPTIONS if name not in _NOT_OF_TEXT}
"""Scan options by their names in Spark."""

_PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    "columns": texts,
    "start_time": moment,
    "end_time": moment,
    "private_keys": private_keys,
    "schema_version": json_or_text,
}
_PARSERS_BY_TYPE: Mapping[type, Callable[[str, str], Any]] = {bool: flag, int: number}

_READ: Mapping[str, Callable[[str, str], Any]] = {
    "topic": text,
    "topics": texts,
    "topicsPattern": text,
    **{
        option: _PARSERS.get(name) or _PARSERS_BY_TYPE.get(type(getattr(ScanOptions(), name)), text)
        for option, name in _SCAN_NAMES.items()
    },
    "partitionBytes": size,
    "maxBookieRate": size,
    "maxBookieConnections": number,
}
"""Parsers of a reader's options, by name."""

_OF_STORAGE = ("cacheDir", "catalogMaxAge", "layout", "onUnreadable")
_STORAGE_NAMES = (*_OF_STORAGE, *_STORAGE_OPTIONS, f"{_STORAGE_PREFIX}<option of the filesystem>", "fs.s3a.…")

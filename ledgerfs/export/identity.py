"""What an export notes of its bucket, and how it says that a folder holds another one."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import pyarrow as pa

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.storage.credentials import without_credentials

_OF_TYPES = ("fields", "schema_version")
"""What is noted of a type that was inferred."""
_MOST_FIELDS = 10
_LONGEST_TYPE = 40


def told_bucket(bucket: Bucket) -> dict[str, str]:
    """Return what an export notes of its bucket: its URL, and a digest of all that tells it from others, neither with credentials."""
    url = without_credentials(bucket.url).rstrip("/")
    return {"url": url, "identity": sha256((bucket.identity or url).encode(errors="surrogateescape")).hexdigest()}


def told_fields(kind: pa.DataType, path: str = "value") -> list[list[str]]:
    """Return the paths and types of all that values of a type consist of, in their order, as JSON values."""
    if pa.types.is_struct(kind) and kind.num_fields:
        return [part for one in kind for part in told_fields(one.type, f"{path}.{one.name}")]
    return [[path, str(kind)]]


def is_same_url(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether an export that was found (empty without one) is the one that is wanted, but for how the bucket of this URL is reached."""
    if not found or found["bucket"]["url"] != wanted["bucket"]["url"]:
        return False
    return {**found, "bucket": None} == {**wanted, "bucket": None}


def what_differs(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return in words how an export that was found is another one than is wanted, by what both note of themselves; empty if it is not."""
    names = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    if not names:
        return ""
    told = _options_differ(names, wanted, found)
    if "bucket" not in names:
        return told
    url = found["bucket"]["url"]
    is_same = url == wanted["bucket"]["url"]
    return f"{told} (it is of {url}{', reached by other options' if is_same else ''})"


def _options_differ(names: list[str], wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return in words which options differ, and how the fields of values do, which nobody gives."""
    if "fields" not in names:
        return "with other " + ", ".join(names)
    now, then = dict(wanted.get("fields", ())), dict(found.get("fields", ()))
    lists = {
        "new": [name for name in now if name not in then],
        "gone": [name for name in then if name not in now],
        "changed": [
            f"{name} ({_short(then[name])} before, {_short(kind)} now)"
            for name, kind in now.items()
            if then.get(name, kind) != kind
        ],
    }
    how = "; ".join(f"{what}: {_some(ones)}" for what, ones in lists.items() if ones) or "in another order"
    hidden = _OF_TYPES if wanted.get("values") == found.get("values") == "json" else ("fields",)
    options = [name for name in names if name not in hidden]
    also = f"other {', '.join(options)}, and " if options else ""
    return f"with {also}other fields of values ({how})"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_MOST_FIELDS]) + (
        f" and {len(names) - _MOST_FIELDS:,} more" if len(names) > _MOST_FIELDS else ""
    )


def _short(kind: str) -> str:
    return kind if len(kind) <= _LONGEST_TYPE else f"{kind[:_LONGEST_TYPE]}…"

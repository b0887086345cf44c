"""Identify the bucket of an export in its record, and describe how two exports differ."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import pyarrow as pa

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.storage.credentials import without_credentials

_MOST_FIELDS = 10


def reported_bucket(bucket: Bucket) -> dict[str, str]:
    """Return the bucket's identity for the record: its URL, and a digest of its distinguishing options, both without credentials."""
    url = without_credentials(bucket.url).rstrip("/")
    return {"url": url, "identity": sha256((bucket.identity or url).encode(errors="surrogateescape")).hexdigest()}


def reported_fields(kind: pa.DataType, path: str = "value") -> list[list[str]]:
    """Return the paths and types of all parts of a type, in order, as JSON values."""
    if pa.types.is_struct(kind) and kind.num_fields:
        return [part for one in kind for part in reported_fields(one.type, f"{path}.{one.name}")]
    return [[path, str(kind)]]


def what_differs(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Describe how an existing export differs from the wanted one, from the contents of both records."""
    names = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    if "bucket" in names:
        url = found["bucket"]["url"]
        return f"of {url}{', with other storage options' if url == wanted['bucket']['url'] else ''}"
    if "fields" in names:
        now, then = dict(wanted.get("fields", ())), dict(found.get("fields", ()))
        changed = [name for name in {**then, **now} if then.get(name) != now.get(name)]
        shown = ", ".join(changed[:_MOST_FIELDS]) + (" and more" if len(changed) > _MOST_FIELDS else "")
        names = [name for name in names if name != "fields"] + [f"fields of values ({shown or 'in another order'})"]
    return f"with other {', '.join(names)}"

"""What an export notes of its bucket, and how it says that a folder holds another one."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.storage.credentials import without_credentials


def told_bucket(bucket: Bucket) -> dict[str, str]:
    """Return what an export notes of its bucket: its URL, and a digest of all that tells it from others, neither with credentials."""
    url = without_credentials(bucket.store.url).rstrip("/")
    return {"url": url, "identity": sha256((bucket.identity or url).encode(errors="surrogateescape")).hexdigest()}


def is_same_url(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether an export that was found is the one that is wanted, but for how the bucket of this URL is reached."""
    bucket = found.get("bucket")
    if not isinstance(bucket, dict) or bucket.get("url") != wanted["bucket"]["url"]:
        return False
    return {**found, "bucket": None} == {**wanted, "bucket": None}


def what_differs(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return in words how an export that was found is another one than is wanted, by what both note of themselves; empty if it is not."""
    bucket = found.get("bucket")
    if not isinstance(bucket, dict):
        return "by an earlier version, which did not note of which bucket"
    names = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    if not names:
        return ""
    told = "with other " + ", ".join(names)
    if "bucket" not in names:
        return told
    url = bucket.get("url")
    is_same = url == wanted["bucket"]["url"]
    return f"{told} (it is of {url}{', reached by other options' if is_same else ''})"

"""Convert the path information of fsspec's filesystems, whose keys differ, to an `ObjectStat`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ledgerfs.storage.objects import ObjectStat

_TIME_KEYS = ("LastModified", "last_modified", "updated", "modified", "mtime", "created")
_VERSION_KEYS = ("generation", "ETag", "etag", "md5Hash", "content_md5", "uid")


def stat_of_info(info: Mapping[str, Any]) -> ObjectStat:
    """Return the object for an item of a filesystem's ``info`` or ``ls``."""
    key = str(info["name"]).rstrip("/").rpartition("/")[2]
    if info.get("type") == "directory":
        return ObjectStat(f"{key}/", 0, 0, "")
    modified = next((seconds_of(info[name]) for name in _TIME_KEYS if info.get(name) is not None), 0.0)
    size = int(info.get("size") or 0)
    # ``ls`` and ``info`` of one filesystem differ in quotes and in the format of times.
    time = f"{modified:.6f}/{size}" if modified else ""
    version = next((str(info[name]).strip('"') for name in _VERSION_KEYS if info.get(name)), time)
    is_link = info.get("type") == "link" or (info.get("islink") and info.get("type") != "file")
    return ObjectStat(
        key, size, int(modified * 1000), version, "a symbolic link, which is not followed" if is_link else ""
    )


def seconds_of(moment: Any) -> float:  # noqa: ANN401  (each filesystem has its own type)
    """Return a time as seconds since 1970 UTC; 0 for an invalid text."""
    if isinstance(moment, datetime):
        return moment.timestamp()
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment).timestamp()
        except ValueError:
            return 0.0
    return float(moment)

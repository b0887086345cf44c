"""What a file of a local folder is as an object."""

import os

from ledgerfs.storage.objects import ObjectStat


def stat_of_file(key: str, stat: os.stat_result) -> ObjectStat:
    """Return it; a file that was replaced or written to has another version."""
    version = f"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"
    return ObjectStat(key, stat.st_size, stat.st_mtime_ns // 1_000_000, version)

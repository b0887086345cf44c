"""Live and dead bytes of each entry log, and the bytes that a bookie's garbage collector would free now."""

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any

from ledgerfs_cluster.disks.disk_files import FileKind
from ledgerfs_cluster.disks.index import DiskIndex
from ledgerfs_cluster.disks.scanning import ScannedFile
from ledgerfs_cluster.formats.bookkeeper.entry_log_header import LOG_HEADER_BYTES


class Fate(StrEnum):
    """Action of BookKeeper 4.17's garbage collector on a log."""

    CURRENT = "current"
    """It is being written, and never collected."""
    UNREADABLE = "unreadable"
    """It could not be fully read: it may contain more than was found, and counts as kept."""
    DELETED = "deleted"
    """It has no live ledger: the next run deletes it."""
    MINOR = "minor"
    """Its live share is below the minor threshold: any compaction rewrites it."""
    MAJOR = "major"
    """Its live share is below the major threshold: a major compaction rewrites it."""
    KEPT = "kept"


def space_reports(
    index: DiskIndex, minor: float, major: float, live: Collection[int], owner_of: Callable[[int], str]
) -> list[dict[str, Any]]:
    """Return a report for each ledger directory, as JSON values.

    ``minor`` and ``major`` are the live shares below which a bookie compacts a log (``minorCompactionThreshold``,
    ``majorCompactionThreshold``), 0 for never; ``live`` are the ids of the ledgers on the disks that are in the metadata; ``owner_of``
    returns a ledger's owner, in words.
    """
    folders: dict[str, list[ScannedFile]] = {}
    for one in sorted(index.files, key=lambda one: one.file.number):
        if one.file.kind is FileKind.LOG:
            folders.setdefault(one.file.folder, []).append(one)
    found = []
    for folder, files in folders.items():
        # The log with the greatest id is being written, and the one before it while the greatest is still empty.
        current = files[-2:] if files[-1].file.size <= LOG_HEADER_BYTES else files[-1:]
        logs = [_log_report(one, (minor, major), live, owner_of, is_current=one in current) for one in files]
        sums = {name: sum(log[name] for log in logs) for name in ("size", "live_bytes", "dead_bytes")}
        collected = (Fate.DELETED, Fate.MINOR, Fate.MAJOR)
        frees = {fate.value: sum(log["freed"] for log in logs if log["fate"] == fate.value) for fate in collected}
        where = {"bookie": index.listing.bookies[files[0].file.bookie], "folder": folder}
        found.append({**where, **sums, "logs": logs, "owners": _owners(logs), "frees": frees})
    return found


def _log_report(
    one: ScannedFile,
    thresholds: tuple[float, float],
    live: Collection[int],
    owner_of: Callable[[int], str],
    *,
    is_current: bool,
) -> dict[str, Any]:
    """Return the report of a log: bytes of its file, and of the entries of its ledgers, ascending, each entry with its size field.

    ``freed`` are the bytes that collection frees in the directory: a compaction writes live entries again.
    """
    ledgers: list[dict[str, Any]] = [
        {"ledger_id": ledger, "owner": owner_of(ledger), "bytes": stored, "is_live": ledger in live}
        for ledger, stored in zip(one.table.ledger_ids.tolist(), one.table.stored.tolist(), strict=True)
    ]
    live_bytes = sum(ledger["bytes"] for ledger in ledgers if ledger["is_live"])
    total = sum(ledger["bytes"] for ledger in ledgers)
    # A division of doubles, as in a bookie.
    share = live_bytes / total if total else 0.0
    if is_current:
        fate = Fate.CURRENT
    elif one.trouble is not None or one.table.gaps.size:
        fate = Fate.UNREADABLE
    elif not any(ledger["is_live"] for ledger in ledgers):
        fate = Fate.DELETED
    elif share < thresholds[0]:
        fate = Fate.MINOR
    else:
        fate = Fate.MAJOR if share < thresholds[1] else Fate.KEPT
    return {
        "id": f"{one.file.number:x}",
        "path": one.file.path,
        "size": one.file.size,
        "live_bytes": live_bytes,
        "dead_bytes": total - live_bytes,
        "fate": fate.value,
        "freed": one.file.size - live_bytes if fate in {Fate.DELETED, Fate.MINOR, Fate.MAJOR} else 0,
        "ledgers": ledgers,
    }


def _owners(logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the bytes of each owner, largest first."""
    sums: dict[tuple[str, bool], dict[str, Any]] = {}
    for log in logs:
        for one in log["ledgers"]:
            owner = sums.setdefault((one["owner"], one["is_live"]), {"ledgers": set(), "logs": set(), "bytes": 0})
            owner["ledgers"].add(one["ledger_id"])
            owner["logs"].add(log["id"])
            owner["bytes"] += one["bytes"]
    return [
        {"owner": owner, "is_live": is_live, "ledgers": len(one["ledgers"]), "logs": len(one["logs"]), "bytes": one["bytes"]}
        for (owner, is_live), one in sorted(sums.items(), key=lambda item: -item[1]["bytes"])
    ]  # fmt: skip

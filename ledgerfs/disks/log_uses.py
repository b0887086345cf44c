"""Whose bytes the logs on some disks hold, as the collector's rules take it: one table for each ledger directory of a bookie."""

from dataclasses import dataclass

import numpy as np

from ledgerfs.disks.collector.log_use import CountedBy, LogUse, log_use
from ledgerfs.disks.index import DiskIndex
from ledgerfs.disks.scanning import ScannedFile, read_log_header
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.bookkeeper.entry_log_header import LOG_HEADER_BYTES
from ledgerfs.storage.disks.disk_files import FileKind


@dataclass(frozen=True, slots=True)
class DirectoryUse:
    """The logs of one ledger directory.

    Attributes
    ----------
    bookie, folder
        Whose it is, and where.
    use
        What is in its logs; a row a log.
    paths
        Of each log.

    """

    bookie: str
    folder: str
    use: LogUse
    paths: tuple[str, ...]


def log_uses(index: DiskIndex) -> list[DirectoryUse]:
    """Return the use of each ledger directory that has logs; raises `AccessDeniedError` and `StoreError` of headers."""
    folders: dict[str, list[ScannedFile]] = {}
    for one in index.files:
        if one.file.kind is FileKind.LOG:
            folders.setdefault(one.file.folder, []).append(one)
    return [_use_of(index, folder, files) for folder, files in folders.items()]


def _use_of(index: DiskIndex, folder: str, files: list[ScannedFile]) -> DirectoryUse:
    numbers = np.array([one.file.number for one in files], np.int64)
    sizes = np.array([one.file.size for one in files], np.int64)
    counted = np.array([_counted_by(one) for one in files], np.int8)
    read = [one for one, by in zip(files, counted.tolist(), strict=True) if by != CountedBy.NOTHING]
    logs = np.repeat(np.array([one.file.number for one in read], np.int64), [one.table.ledger_ids.size for one in read])
    ledgers = np.concatenate([np.zeros(0, np.int64), *(one.table.ledger_ids for one in read)])
    stored = np.concatenate([np.zeros(0, np.int64), *(one.table.stored for one in read)])
    counts = np.concatenate([np.zeros(0, np.int64), *(one.table.counts for one in read)])
    use = log_use(numbers, sizes, _are_current(numbers, sizes), counted, (logs, ledgers, stored), entries=counts)
    paths = tuple(one.file.path for one in sorted(files, key=lambda one: one.file.number))
    return DirectoryUse(index.listing.bookies[files[0].file.bookie], folder, use, paths)


def _are_current(numbers: Int64, sizes: Int64) -> Mask:
    """Return which logs are being written: the one of the greatest id, and if nothing is in that yet, the one before it as well."""
    order = np.argsort(numbers)
    are_current = np.zeros(numbers.size, np.bool_)
    are_current[order[-1:]] = True
    if sizes[order[-1]] <= LOG_HEADER_BYTES:
        are_current[order[-2:]] = True
    return are_current


def _counted_by(one: ScannedFile) -> CountedBy:
    """Return how a bookie counts a log: what cannot be read as one, or only in part, it is not said to free."""
    if one.trouble is not None or one.table.gaps.size:
        return CountedBy.NOTHING
    header = read_log_header(one.file.path)
    return CountedBy.MAP if header is not None and header.has_map else CountedBy.SCAN

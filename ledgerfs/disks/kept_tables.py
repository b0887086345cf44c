"""Tables of locations that are kept on disk and mapped into memory: a log is read once, and after that only what it has grown by."""

import mmap
import struct
from collections.abc import Callable

from ledgerfs.cache.cache_folder import CacheFolder, cache_folder
from ledgerfs.cache.kept_file import KeptFile
from ledgerfs.cache.sealed_file import SealedWriter
from ledgerfs.disks.scanning import ScannedFile, scan_file
from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.bookkeeper.location_table import build_location_table, parse_location_table
from ledgerfs.formats.bookkeeper.log_records import MOST_ENTRY_BYTES
from ledgerfs.storage.disks.disk_files import DiskFile

_LAYOUT = 4
"""Of the tables, and of the rules by which entries are found: what was found by others is found anew."""
_MORE_BYTES = 1024
"""Of an entry, besides what bookies count."""
_SOURCE = struct.Struct("<QQQI4x")
"""Size, time of change and inode of the file, and the checksum of its tail; then the table."""


class KeptTables:
    """The tables of files on disks, in a folder of the cache.

    Parameters
    ----------
    cache_dir
        As `ledgerfs.cache.cache_folder.cache_folder` takes it.
    max_entry
        As `BookieDisks.max_entry`: by a larger one other entries are found.

    """

    __slots__ = ("_folder", "_most_bytes")

    def __init__(self, cache_dir: str | None, max_entry: int | None = None) -> None:
        self._most_bytes = max(MOST_ENTRY_BYTES, (max_entry or 0) + _MORE_BYTES)
        self._folder: CacheFolder = cache_folder("disks", cache_dir)

    def scanned(self, file: DiskFile) -> ScannedFile:
        """Return the table of a file, which is read as far as no kept table has it; raises as `scan_file`."""
        kept = KeptFile(self._folder, "locations", file.path, (_LAYOUT, self._most_bytes))
        known = kept.load(_parser(file))
        if known is not None and known.file == file:
            return known
        found = scan_file(file, known, self._most_bytes)
        # What is wrong with a file is found again by reading it again.
        if found.trouble is None:
            kept.save(_writer(found))
        return found


def _parser(file: DiskFile) -> Callable[[int, int], ScannedFile]:
    """Return what reads a kept table of a file, which may have changed since."""

    def parse(descriptor: int, size: int) -> ScannedFile:
        if size < _SOURCE.size:
            raise ValueError("it is too short")
        mapped = memoryview(mmap.mmap(descriptor, size, prot=mmap.PROT_READ))
        known_size, changed_ns, inode, tail = _SOURCE.unpack_from(mapped)
        try:
            table = parse_location_table(mapped[_SOURCE.size :], key=file.path)
        except CorruptObjectError as error:
            raise ValueError(error.reason) from error
        if inode != file.inode:
            raise ValueError("it is of another file")
        known = DiskFile(file.path, file.kind, file.number, file.bookie, known_size, changed_ns, inode)
        return ScannedFile(known, table, tail)

    return parse


def _writer(found: ScannedFile) -> Callable[[SealedWriter], None]:
    file = found.file

    def write(sink: SealedWriter) -> None:
        sink.write(_SOURCE.pack(file.size, file.changed_ns, file.inode, found.tail))
        sink.write(build_location_table(found.table))

    return write

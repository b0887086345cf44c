"""Tables of locations that are kept on disk and mapped into memory: a file that has not changed since is not read again."""

import mmap

from ledgerfs.cache.cache_folder import cache_folder
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.cache.kept_file import KeptFile
from ledgerfs.cache.sealed_file import SealedWriter
from ledgerfs.errors import CorruptObjectError
from ledgerfs_cluster.disks.disk_files import DiskFile
from ledgerfs_cluster.disks.scanning import ScannedFile, scan_file
from ledgerfs_cluster.formats.bookkeeper.location_table import LocationTable, build_location_table, parse_location_table
from ledgerfs_cluster.formats.bookkeeper.log_records import MOST_ENTRY_BYTES

_LAYOUT = 6
"""Of the tables, and of the rules by which entries are found: what was found by others is found anew."""
_MORE_BYTES = 1024
"""Of an entry, besides what bookies count."""


class KeptTables:
    """The tables of files on disks, in a folder of the cache.

    Parameters
    ----------
    cache_dir
        As `ledgerfs.cache.cache_folder.cache_folder` takes it.
    max_entry
        As `BookieDisks.max_entry`: by a larger one other entries are found.

    """

    __slots__ = ("_files", "_most_bytes")

    def __init__(self, cache_dir: str | None, max_entry: int | None = None) -> None:
        self._most_bytes = max(MOST_ENTRY_BYTES, (max_entry or 0) + _MORE_BYTES)
        self._files = DiskFiles(cache_folder("files", cache_dir))

    def scanned(self, file: DiskFile) -> ScannedFile:
        """Return the table of a file, which is read if it has changed since its table was kept; raises as `scan_file`."""
        identity = (_LAYOUT, self._most_bytes, file.size, file.changed_ns, file.inode)
        kept = KeptFile(self._files, "locations", file.path, identity)
        table = kept.load(_mapped)
        if table is not None:
            return ScannedFile(file, table)
        found = scan_file(file, self._most_bytes)
        # What is wrong with a file is found again by reading it again.
        if found.trouble is None:

            def write(sink: SealedWriter) -> None:
                sink.write(build_location_table(found.table))

            kept.save(write)
        return found


def _mapped(descriptor: int, size: int) -> LocationTable:
    """Return a kept table as it lies in its file; raises `ValueError` for what is none."""
    try:
        return parse_location_table(memoryview(mmap.mmap(descriptor, size, prot=mmap.PROT_READ)), key="kept table")
    except CorruptObjectError as error:
        raise ValueError(error.reason) from error

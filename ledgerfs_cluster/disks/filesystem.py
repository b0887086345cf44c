"""The name of bookies' disks in fsspec, ``bookies:///srv/bookie1,/srv/bookie2``."""

from typing import Any

from ledgerfs.formats.byte_sizes import parse_size
from ledgerfs_cluster.disks.bookie_disks import PROTOCOL, BookieDisks, paths_of
from ledgerfs_cluster.source_filesystem import SourceFileSystem


class DisksFileSystem(SourceFileSystem):
    """Disks of bookies.

    Parameters
    ----------
    metadata, ledgers_path, open_end
        See `BookieDisks`.
    max_entry
        The same, in bytes, or as a text such as ``"20MiB"``.
    login
        Options of the session with ZooKeeper: ``username`` and ``password``, ``use_ssl``, ``ca``, ….

    """

    protocol = PROTOCOL
    what = "disks of bookies"

    def __init__(
        self,
        metadata: str | None = None,
        ledgers_path: str = "/ledgers",
        open_end: str = "confirmed",
        max_entry: int | str | None = None,
        **login: Any,  # noqa: ANN401
    ) -> None:
        super().__init__()
        self._metadata, self._ledgers_path, self._open_end = metadata, ledgers_path, open_end
        self._max_entry = _size_of(max_entry)
        self._login = login

    def disks(self, rest: str) -> BookieDisks:
        """Return the disks of a URL without its scheme; reads nothing yet. Raises `InvalidOptionError`."""
        return BookieDisks(
            paths_of(rest), self._metadata, self._login, self._ledgers_path, self._open_end, self._max_entry
        )


def _size_of(text: int | str | None) -> int | None:
    return text if text is None or isinstance(text, int) else parse_size(text)

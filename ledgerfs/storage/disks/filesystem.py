"""The name of bookies' disks in fsspec, ``bookies:///srv/bookie1,/srv/bookie2``, so that it can stand wherever a bucket's URL does.

It has no files of its own: what can be read of the disks is the tree of the protocol ``ledger`` over it.
"""

from typing import Any, NoReturn

from fsspec.spec import AbstractFileSystem

from ledgerfs.errors import UnsupportedWriteError, UnusableUrlError
from ledgerfs.formats.byte_sizes import parse_size
from ledgerfs.storage.disks.bookie_disks import PROTOCOL, BookieDisks, paths_of


class DisksFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec is not typed
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
    root_marker = ""

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

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(path).removeprefix(f"{PROTOCOL}://")

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of some disks."""
        return f"{PROTOCOL}://{self._strip_protocol(name)}"

    def disks(self, rest: str) -> BookieDisks:
        """Return the disks of a URL without its scheme; reads nothing yet. Raises `InvalidOptionError`."""
        return BookieDisks(
            paths_of(rest), self._metadata, self._login, self._ledgers_path, self._open_end, self._max_entry
        )

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG002
        """Refuse: there are no files."""
        raise UnusableUrlError(
            "disks of bookies have no files of their own here; open ledger://entries/… over them, or use ledgerfs.open_bucket",
            key=self.unstrip_protocol(path),
        )

    def info(self, path: str, **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG002
        """Refuse: there are no files."""
        self.ls(path)

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG002
        if mode != "rb":
            raise UnsupportedWriteError("nothing is written to disks of bookies", key=self.unstrip_protocol(path))
        self.ls(path)


def _size_of(text: int | str | None) -> int | None:
    return text if text is None or isinstance(text, int) else parse_size(text)

"""Files and directories that a mount shows besides the listing: unfinished or just completed files, and new directories."""

import threading
from collections.abc import Callable, Container, Iterator

from ledgerfs.errors import LedgerExistsError
from ledgerfs.fuse_mount.attributes import Attributes, directory
from ledgerfs.fuse_mount.incoming_file import IncomingFile


class IncomingFiles:
    """The files and directories of one mount that no listing contains yet, by path. Thread-safe.

    Attributes
    ----------
    made
        Directories that were made here and that no listing contains.
    on_gone
        Called with a file that did not become a ledger, at its close or soon after.

    """

    __slots__ = ("_files", "_lock", "made", "on_gone")

    def __init__(self) -> None:
        self._files: dict[str, IncomingFile] = {}
        self.made: set[str] = set()
        self._lock = threading.Lock()
        self.on_gone: Callable[[str], None] = lambda _: None

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def get(self, path: str) -> IncomingFile | None:
        """Return the file at a path, complete or not."""
        return self._files.get(path)

    def is_being_written(self, path: str) -> bool:
        """Whether the path has a file that is not a ledger yet."""
        incoming = self._files.get(path)
        return incoming is not None and not incoming.is_there

    def create(self, path: str, open_file: Callable[[], IncomingFile]) -> IncomingFile:
        """Add a new file; raises `LedgerExistsError` if one is being written, and the errors of opening."""
        self._require_free(path)
        # Opening lists the bucket; other calls should not wait for that.
        incoming = open_file()
        with self._lock:
            self._require_free(path)
            self._files[path] = incoming
        return incoming

    def flush(self, incoming: IncomingFile, thread: int) -> None:
        """Complete a file when its last writer closes it."""
        try:
            incoming.flush(thread)
        finally:
            if incoming.is_given_up:
                self._forget(incoming)

    def release(self, incoming: IncomingFile) -> None:
        """Release a file after its last close."""
        try:
            incoming.release()
        finally:
            if not incoming.is_there:
                self._forget(incoming)

    def abort(self, path: str) -> bool:
        """Abort the file that is being written at a path; return whether there was one."""
        incoming = self._files.get(path)
        if incoming is None or not incoming.abort():
            return False
        self._files.pop(path, None)
        return True

    def removed(self, path: str) -> None:
        """Stop showing a ledger that was removed; its directories stay."""
        self._files.pop(path, None)
        self.made |= {path[:end] for end in _slashes(path)[1:]}

    def complete(self) -> list[IncomingFile]:
        """Return the files that are ledgers now, but that no listing contained yet."""
        return [incoming for incoming in list(self._files.values()) if incoming.is_there]

    def look_for(self, incoming: IncomingFile) -> None:
        """Stop showing a ledger that a later listing lacks, if it is not in the bucket any more; raises the store's errors.

        Listings may lag behind, so this requests the ledger itself.
        """
        if incoming.is_gone():
            with self._lock:
                if self._files.get(incoming.path) is incoming:
                    del self._files[incoming.path]

    def listed(self, is_known: Callable[[str], bool]) -> None:
        """Drop the files and directories that a listing now contains."""
        for path, incoming in list(self._files.items()):
            if incoming.is_there and is_known(path):
                self._files.pop(path, None)
        self.made -= {path for path in list(self.made) if is_known(path)}

    def any_within(self, path: str) -> bool:
        """Whether any file is in a directory, or below it."""
        return any(one.startswith(f"{path}/") for one in list(self._files))

    def entries(self, path: str, seen: Container[str]) -> Iterator[tuple[str, Attributes]]:
        """Yield names and attributes in a directory, except names in ``seen`` and files that are being written."""
        prefix = f"{path}/" if path else ""
        made = [(one, directory(one)) for one in list(self.made)]
        complete = [(one, incoming.shown) for one, incoming in list(self._files.items()) if incoming.is_there]
        for one, shown in [*made, *complete]:
            name = one[len(prefix) :]
            if one.startswith(prefix) and name and "/" not in name and name not in seen:
                yield name, shown

    def _require_free(self, path: str) -> None:
        if self.is_being_written(path):
            raise LedgerExistsError("another process is already writing this file", key=path)

    def _forget(self, incoming: IncomingFile) -> None:
        """Stop showing a file that will never be a ledger, unless a newer file has its path."""
        with self._lock:
            if self._files.get(incoming.path) is not incoming:
                return
            del self._files[incoming.path]
        self.on_gone(incoming.path)


def _slashes(path: str) -> list[int]:
    return [at for at, one in enumerate(path) if one == "/"]

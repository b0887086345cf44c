"""The name of a source of ledgers in fsspec, so that its URL can stand wherever a bucket's does.

It has no files of its own: what can be read of the source is the tree of the protocol ``ledger`` over it.
"""

from typing import Any, NoReturn

from fsspec.spec import AbstractFileSystem

from ledgerfs.errors import UnsupportedWriteError, UnusableUrlError


class SourceFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec is not typed
    """A filesystem that only has a URL. A subclass has the name ``protocol``, and ``what`` it is, in words."""

    root_marker = ""
    what = ""

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(path).removeprefix(f"{cls.protocol}://")

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path."""
        return f"{self.protocol}://{self._strip_protocol(name)}"

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG002
        """Refuse: there are no files."""
        reason = f"there are no files in {self.what}; open ledger://entries/… over it, or use ledgerfs.open_bucket"
        raise UnusableUrlError(reason, key=self.unstrip_protocol(path))

    def info(self, path: str, **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG002
        """Refuse: there are no files."""
        self.ls(path)

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG002
        if mode != "rb":
            raise UnsupportedWriteError(f"nothing is written to {self.what} here", key=self.unstrip_protocol(path))
        self.ls(path)

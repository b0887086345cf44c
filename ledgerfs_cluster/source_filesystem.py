"""An fsspec name for a source of ledgers, so that its URL is accepted in place of a bucket's.

It has no files of its own: the protocol ``ledger`` over it has the readable tree.
"""

from typing import Any, NoReturn

from fsspec.spec import AbstractFileSystem

from ledgerfs.errors import UnsupportedWriteError, UnusableUrlError


class SourceFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec is not typed
    """A filesystem that only has a URL. A subclass sets ``protocol``, and ``what`` (its description)."""

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
        reason = f"a filesystem of {self.what} has no files; open ledger://entries/… over this URL, or use ledgerfs.open_bucket"
        raise UnusableUrlError(reason, key=self.unstrip_protocol(path))

    def info(self, path: str, **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG002
        """Refuse: there are no files."""
        self.ls(path)

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG002
        if mode != "rb":
            raise UnsupportedWriteError(f"ledgerfs cannot write to {self.what}", key=self.unstrip_protocol(path))
        self.ls(path)

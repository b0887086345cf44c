"""A local folder as an object store, without a Python file object for each read."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from stat import S_ISREG
from typing import TYPE_CHECKING

import numpy as np

from ledgerfs.errors import BucketNotFoundError, LedgerfsError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.descriptors import copy_range
from ledgerfs.storage.failures import replaced, short_body, translate
from ledgerfs.storage.folders.files import LINK_REFUSED, open_object, stat_object, stat_of_file, version_of_file
from ledgerfs.storage.folders.writes import LocalWrites, is_part
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest
from ledgerfs.storage.reading_threads import FOLDER_THREADS, outcome_of
from ledgerfs.storage.sent_requests import Asked, Sent
from ledgerfs.storage.traffic import Traffic

if TYPE_CHECKING:
    from concurrent.futures import Future

_PAGE = 4096


class LocalStore:
    """The files of one folder, without user metadata.

    Listings show links as links (the size is that of their target's path); reads follow them only with ``follow_links``. With
    ``is_private``, only the owner can read files that are written.
    """

    __slots__ = ("_follow_links", "_is_private", "_root", "traffic")

    def __init__(self, root: str, *, follow_links: bool = False, is_private: bool = False) -> None:
        self._root = root
        self._follow_links = follow_links
        self._is_private = is_private
        self.traffic = Traffic()

    is_remote = False

    @property
    def url(self) -> str:
        """The folder as a URL."""
        return f"file://{self._root}"

    @property
    def writes(self) -> LocalWrites:
        """The write side."""
        return LocalWrites(self._root, self.traffic, is_private=self._is_private)

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        """Yield the files of the folder, except unfinished ones."""
        try:
            with Sent(Asked("LIST", self.url), self.traffic), os.scandir(self._root) as entries:
                page: list[ObjectStat] = []
                for entry in entries:
                    if is_part(entry.name) or not entry.name.startswith(prefix):
                        continue
                    page.append(self._stat_of_entry(entry))
                    if len(page) == _PAGE:
                        yield page
                        page = []
                yield page
        except FileNotFoundError as error:
            raise BucketNotFoundError("no such bucket or folder", key=self.url) from error
        except OSError as error:
            raise translate(error, self.url) from error

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        """Yield all files below a folder; follow links to folders only with ``follow_links``."""
        waiting, seen = [folder], set()
        while waiting:
            key = waiting.pop()
            path = f"{self._root}/{key}"
            try:
                with Sent(Asked("LIST", key), self.traffic), os.scandir(path) as entries:
                    stat = os.stat(path)  # noqa: PTH116  (a hot path)
                    # Links may form a circle.
                    if (stat.st_dev, stat.st_ino) in seen:
                        continue
                    seen.add((stat.st_dev, stat.st_ino))
                    found = [self._stat_of_entry(entry, key) for entry in entries if not is_part(entry.name)]
            except (FileNotFoundError, NotADirectoryError):
                # Deleted since it was listed, or a pipe, socket or device.
                continue
            except PermissionError as error:
                yield [ObjectStat(key, 0, 0, "", f"access denied: {error.strerror}")]
                continue
            except OSError as error:
                raise translate(error, key) from error
            waiting += [stat.key for stat in found if stat.key.endswith("/")]
            yield [stat for stat in found if not stat.key.endswith("/")] if found else [ObjectStat(key, 0, 0, "")]

    def head(self, key: str) -> ObjectHead:
        """Return the file's size and version."""
        try:
            with Sent(Asked("HEAD", key), self.traffic):
                return ObjectHead(
                    stat_of_file(key, stat_object(self._root, key, follow_links=self._follow_links)), None
                )
        except OSError as error:
            raise translate(error, key) from error

    def read(self, request: ReadRequest) -> bytes:
        """Read from the open file, after a check of its version, so the bytes have that version."""
        return bytes(self._read_part(request))

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        """Read in another thread."""
        return FOLDER_THREADS.start(self._read_part, request)

    def _read_part(self, request: ReadRequest) -> Buffer:
        buffer = np.empty(request.end - request.start, np.uint8).data
        with self._opened(request) as (source, sent):
            try:
                while rest := buffer[sent.received :]:
                    count = os.preadv(source, [rest], request.start + sent.received)
                    if not count:
                        raise short_body(request.key, request.start, len(buffer), sent.received)
                    sent.received += count
            except OSError as error:
                raise translate(error, request.key, request.start) from error
        return buffer.toreadonly()

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Copy from file to descriptor in the kernel, or read and write if that fails."""
        with self._opened(request) as (source, sent):
            sent.received = copy_range(source, request.start, request.end, descriptor)
            if sent.received != request.end - request.start:
                raise short_body(request.key, request.start, request.end - request.start, sent.received)

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Read one after another: threads do not speed up the page cache."""
        return map(partial(outcome_of, self.read), requests)

    @contextmanager
    def _opened(self, request: ReadRequest) -> Iterator[tuple[int, Sent]]:
        """Open the file as one request, if it has the requested version."""
        with Sent(Asked.to_read(request), self.traffic) as sent:
            try:
                descriptor, stat = open_object(self._root, request.key, follow_links=self._follow_links)
            except OSError as error:
                raise translate(error, request.key, request.start) from error
            try:
                if request.version and version_of_file(stat) != request.version:
                    raise replaced(request.key, request.start)
                yield descriptor, sent
            finally:
                os.close(descriptor)

    def _stat_of_entry(self, entry: "os.DirEntry[str]", folder: str = "") -> ObjectStat:
        key = folder + entry.name
        is_link = entry.is_symlink() and not self._follow_links
        try:
            stat = entry.stat(follow_symlinks=not is_link)
        except OSError:
            if _is_folder(entry):
                return ObjectStat(f"{key}/", 0, 0, "")
            # A dangling or forbidden link, or a file deleted since: list it, and let a read raise.
            return ObjectStat(
                key, 0, 0, "gone", "a symbolic link that cannot be followed" if entry.is_symlink() else ""
            )
        if not (is_link or S_ISREG(stat.st_mode)):
            # Folders, and pipes, sockets and devices, which must not be opened.
            return ObjectStat(f"{key}/", 0, 0, "")
        found = stat_of_file(key, stat)
        return replace(found, refused=LINK_REFUSED) if is_link and not _leads_to_file(entry) else found


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry without a status is a folder: a listing may be allowed where a status is denied."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _leads_to_file(entry: "os.DirEntry[str]") -> bool:
    """Return whether a link leads to a file, not a folder."""
    try:
        return entry.is_file()
    except OSError:
        return False

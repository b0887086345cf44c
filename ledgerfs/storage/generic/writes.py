"""Write to any fsspec filesystem, through a file that is open from the first byte to the last.

fsspec cannot create an object only if it does not exist. So an upload checks this first and, if the object appears only when its file is
closed, again then. Listings may show a half-written object until it is removed; without an index object it is not a ledger.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ledgerfs.errors import LedgerfsError, ObjectExistsError, ObjectNotFoundError, StoreError, UnsupportedWriteError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.failures import translate, uncertain
from ledgerfs.storage.fsspec_handle import FsspecHandle
from ledgerfs.storage.generic.info import stat_of_info
from ledgerfs.storage.object_writes import UnfinishedUpload
from ledgerfs.storage.objects import ObjectHead, ObjectStat
from ledgerfs.storage.sent_requests import Asked, Sent
from ledgerfs.storage.traffic import Traffic

_log = logging.getLogger("ledgerfs.store")

_WITH_METADATA = (("gcsfs.core", "GCSFileSystem"), ("adlfs.spec", "AzureBlobFileSystem"))
"""Filesystems with an option ``metadata`` for the user metadata of a new object."""


class FsspecWrites:
    """`WritableStore` of a folder of a filesystem."""

    __slots__ = ("_handle", "_root", "_traffic", "keeps_metadata")

    smallest_part = 1
    most_parts = 2**31 - 1
    can_set_metadata = False

    def __init__(self, handle: FsspecHandle, root: str, traffic: Traffic) -> None:
        self._handle = handle
        self._root = root
        self._traffic = traffic
        self.keeps_metadata = any(handle.is_kind(*kind) for kind in _WITH_METADATA)

    def make_folder(self) -> None:
        """Create the folder if it does not exist; not in object stores, whose top folders are buckets."""
        if self.keeps_metadata:
            return
        try:
            self._handle.fs.makedirs(self._root, exist_ok=True)
        except Exception as error:
            raise translate(error, self._root) from error

    def begin_upload(self, key: str, metadata: Mapping[str, str], part_size: int) -> "FsspecUpload":  # noqa: ARG002
        """Return an upload, which opens its file when the first part ends."""
        path, fs = f"{self._root}/{key}", self._handle.fs
        options = {"metadata": dict(metadata)} if self.keeps_metadata else {}
        return FsspecUpload(fs, path, key, options, self._traffic, is_hidden=self.keeps_metadata)

    def put(self, key: str, data: bytes, metadata: Mapping[str, str]) -> ObjectStat:
        """Write an object as an upload of one part."""
        upload = self.begin_upload(key, metadata, len(data))
        try:
            upload.write(data)
            return upload.complete()
        except ObjectExistsError:
            upload.abort()
            raise
        except LedgerfsError as error:
            is_begun = upload.is_begun
            upload.abort()
            if is_begun and not upload.is_gone():
                raise uncertain(key, error) from error
            raise
        except BaseException:
            upload.abort()
            raise

    def delete(self, key: str) -> None:
        """Remove an object."""
        try:
            with Sent(Asked("DELETE", key), self._traffic):
                self._handle.fs.rm_file(f"{self._root}/{key}")
        except FileNotFoundError:
            return
        except Exception as error:
            raise translate(error, key) from error

    def set_metadata(self, stat: ObjectStat, metadata: Mapping[str, str]) -> None:  # noqa: ARG002
        """Refuse: fsspec does not support it."""
        raise UnsupportedWriteError("ledgerfs cannot change user metadata in this store", key=stat.key)

    def unfinished_uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield none: fsspec does not list them."""
        return iter(())

    def end_unfinished(self, upload: UnfinishedUpload) -> None:
        """Refuse: fsspec does not list unfinished uploads."""
        raise UnsupportedWriteError("ledgerfs cannot abort unfinished uploads in this store", key=upload.key)


class FsspecUpload:
    """`Upload` through one open file; with ``is_hidden``, the object appears only when the file is closed."""

    __slots__ = ("_file", "_fs", "_is_hidden", "_key", "_options", "_part", "_path", "_sent", "_traffic")

    def __init__(
        self,
        fs: Any,  # noqa: ANN401
        path: str,
        key: str,
        options: dict[str, Any],
        traffic: Traffic,
        *,
        is_hidden: bool,
    ) -> None:
        self._fs = fs
        self._path = path
        self._key = key
        self._options = options
        self._traffic = traffic
        self._is_hidden = is_hidden
        self._file: Any = None
        self._part = bytearray()
        self._sent = 0

    @property
    def is_begun(self) -> bool:
        """Whether a part of it may be in the store."""
        return self._file is not None

    def is_gone(self) -> bool:
        """Return whether the store reports that the object does not exist."""
        try:
            self._head()
        except ObjectNotFoundError:
            return True
        except LedgerfsError:
            return False
        return False

    def write(self, data: Buffer) -> None:
        """Buffer bytes until the part ends."""
        self._part += data

    def replace_front(self, data: bytes) -> None:
        """Overwrite the part's first bytes."""
        self._part[: len(data)] = data

    def end_part(self) -> None:
        """Write the part to the file."""
        try:
            if self._file is None:
                self._require_absent()
                if "/" in self._key and not self._is_hidden:
                    self._fs.makedirs(self._path.rpartition("/")[0], exist_ok=True)
                self._file = self._fs.open(self._path, "wb", **self._options)
            with Sent(Asked("PUT", self._key, self._sent, self._sent + len(self._part)), self._traffic):
                self._file.write(self._part)
        except Exception as error:
            raise translate(error, self._key, self._sent) from error
        self._sent += len(self._part)
        self._part = bytearray()

    def complete(self) -> ObjectStat:
        """Close the file, and check the size of the object."""
        if self._part or self._file is None:
            self.end_part()
        try:
            if self._is_hidden:
                self._require_absent()
            self._file.close()
            # Not before: an object that appears after a refusal may be another writer's.
            self._is_hidden = False
            stat = self._head().stat
        except Exception as error:
            raise translate(error, self._key) from error
        if stat.size != self._sent:
            reason = f"the store has {stat.size} bytes, but {self._sent} were written"
            raise StoreError(reason, key=self._key)
        self._file = None
        return stat

    def abort(self) -> None:
        """Drop the file without closing it, which would complete it, and remove the object."""
        file, self._file = self._file, None
        if file is None:
            return
        with suppress(Exception):  # many filesystems cannot discard a file; their errors differ
            file.discard()
        with suppress(Exception):
            file.closed = True
        if self._is_hidden:
            # The object is another writer's.
            return
        try:
            if not self._has_index():
                self._fs.rm_file(self._path)
        except FileNotFoundError:
            return
        except Exception as error:  # noqa: BLE001  (filesystems may raise any error)
            _log.warning("%s may be left incomplete: %s", self._key, translate(error, self._key))

    def _has_index(self) -> bool:
        """Return whether another writer has added the index of this data object meanwhile."""
        self._fs.invalidate_cache(self._path.rpartition("/")[0])
        return bool(self._fs.exists(f"{self._path}-index"))

    def _require_absent(self) -> None:
        try:
            self._head()
        except ObjectNotFoundError:
            return
        raise ObjectExistsError("the object already exists and is not overwritten", key=self._key)

    def _head(self) -> ObjectHead:
        self._fs.invalidate_cache(self._path.rpartition("/")[0])
        try:
            info = self._fs.info(self._path)
        except Exception as error:
            raise translate(error, self._key) from error
        return ObjectHead(stat_of_info({**info, "name": self._key}), None)

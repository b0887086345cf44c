"""Upload one object in parts to an S3-compatible store: several parts under way, with reused memory."""

import logging
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, wait
from threading import main_thread
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerfs.errors import LedgerfsError, ObjectExistsError, ObjectNotFoundError, StoreError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.failures import uncertain
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.storage.reading_threads import ReadingThreads
from ledgerfs.storage.s3.requests import create, etag_of_parts, require_absent
from ledgerfs.storage.sent_requests import Asked

if TYPE_CHECKING:
    from ledgerfs.storage.s3.store import S3Store

_log = logging.getLogger("ledgerfs.store")

_UNDER_WAY = 3
"""Parts that are being sent while another one is filled: four in memory."""

_LARGE_PART = 32 << 20
"""Parts of at least this many bytes: one fewer under way, to leave memory for reading the source."""

_THREADS = ReadingThreads(16, "ledgerfs-upload")
_PATIENCE_SECONDS = 5.0


class S3Upload:
    """`Upload` of one object, and `CopyingUpload`."""

    __slots__ = ("_etags", "_free", "_is_ended", "_is_over", "_key", "_metadata", "_numbers", "_part", "_part_size", "_sent", "_size",
                 "_store", "_token", "_under_way", "_used")  # fmt: skip

    def __init__(self, store: "S3Store", key: str, metadata: Mapping[str, str], part_size: int) -> None:
        self._store = store
        self._key = key
        self._metadata = dict(metadata)
        self._part_size = part_size
        self._part: bytearray | None = None
        self._used = 0
        self._free: list[bytearray] = []
        self._under_way: deque[Future[bytearray]] = deque()
        self._etags: dict[int, str] = {}
        self._numbers = 0
        self._size = 0
        self._token: str | None = None
        self._is_over = False
        self._is_ended = False

    def write(self, data: Buffer) -> None:
        """Copy bytes into the part's memory; numpy releases the GIL meanwhile."""
        if not data:
            return
        if self._part is None:
            self._part = self._free.pop() if self._free else bytearray(self._part_size)
        end = self._used + len(data)
        np.copyto(np.frombuffer(self._part, np.uint8)[self._used : end], np.frombuffer(data, np.uint8))
        self._used = end

    def replace_front(self, data: bytes) -> None:
        """Overwrite the part's first bytes."""
        if self._part is not None:
            self._part[: len(data)] = data

    def end_part(self) -> None:
        """Send the part in a thread; wait for the oldest one if enough are under way."""
        part = self._part
        if part is None:
            return
        del part[self._used :]
        self._part, self._used = None, 0
        if self._token is None:
            self._token = self._begin()
        while len(self._under_way) >= (_UNDER_WAY if self._part_size < _LARGE_PART else _UNDER_WAY - 1):
            self._take()
        self._numbers += 1
        self._under_way.append(_THREADS.start(self._send, self._token, self._numbers, part, self._size))
        self._size += len(part)
        if len(part) < self._part_size:
            # Only the last part is short; many files of a transaction may wait here for completion.
            self._finish_parts()

    def copy_part(self, source: ObjectStat, start: int, end: int) -> None:
        """Let the store copy the part, and wait for it."""
        if self._token is None:
            self._token = self._begin()
        self._numbers += 1
        match: dict[str, Any] = {"CopySourceIfMatch": source.version} if source.version else {}
        answer = self._store.request(
            Asked("PUT", self._key),
            "upload_part_copy",
            Key=self._key,
            UploadId=self._token,
            PartNumber=self._numbers,
            CopySource=source.key,
            CopySourceRange=f"bytes={start}-{end - 1}",
            **match,
        )
        self._etags[self._numbers] = answer["CopyPartResult"]["ETag"]
        self._size += end - start

    def complete(self) -> ObjectStat:
        """Complete the upload, unless the object exists; if the answer is unclear, check the object."""
        self.end_part()
        self._finish_parts()
        etags = [self._etags[number] for number in range(1, self._numbers + 1)]
        failure: LedgerfsError | None = None
        made: str | None = None
        try:
            require_absent(self._store, self._key)
        except ObjectExistsError as error:
            failure = error
        else:
            try:
                made = self._complete(etags)
            except LedgerfsError as error:
                failure = error
        stat = self._completed(etags, failure, made)
        if failure is None:
            self._is_over = True
        else:
            # Either an earlier try succeeded, or another writer wrote the same object and our parts must be deleted.
            self.abort()
        return stat

    def abort(self) -> None:
        """Wait some seconds for the parts under way, then let the store delete all parts."""
        under_way, self._under_way = list(self._under_way), deque()
        for future in under_way:
            future.cancel()
        if self._is_over or self._token is None:
            return
        self._is_over = True
        _wait(under_way)
        self._is_ended = True
        self._end(self._token)

    def _end(self, token: str) -> None:
        """Abort the upload in the store."""
        try:
            self._store.request(Asked("DELETE", self._key), "abort_multipart_upload", Key=self._key, UploadId=token)
        except ObjectNotFoundError:
            return
        except LedgerfsError as error:
            _log.warning("an unfinished upload is left in the store; `ledgerfs repair` removes it: %s", error)

    def _complete(self, etags: list[str]) -> str | None:
        """Send the request that completes the upload; return the version of the object."""
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
        asked, arguments = Asked("POST", self._key), {"UploadId": self._token, "MultipartUpload": {"Parts": parts}}
        try:
            answer = create(self._store, asked, "complete_multipart_upload", Key=self._key, **arguments)
        except ObjectNotFoundError as error:
            raise self._ended_elsewhere() from error
        return answer.get("ETag")

    def _ended_elsewhere(self) -> StoreError:
        return StoreError("the store no longer has this upload: another client completed or aborted it", key=self._key)

    def _begin(self) -> str:
        asked = Asked("POST", self._key)
        answer = self._store.request(asked, "create_multipart_upload", Key=self._key, Metadata=self._metadata)
        return str(answer["UploadId"])

    def _send(self, token: str, number: int, part: bytearray, offset: int) -> bytearray:
        """Send one part; return its memory. Does not retry when the program exits, which would wait for it: see `abort`."""
        if not self._is_over:
            asked = Asked("PUT", self._key, offset, offset + len(part))
            try:
                answer = self._store.request(
                    asked,
                    "upload_part",
                    lambda: not self._is_over and main_thread().is_alive(),
                    Key=self._key,
                    UploadId=token,
                    PartNumber=number,
                    Body=part,
                )
            except ObjectNotFoundError as error:
                raise self._ended_elsewhere() from error
            self._etags[number] = answer["ETag"]
            if self._is_ended:
                # `abort` did not wait for this part; in some stores it restores the upload.
                self._end(token)
        return part

    def _finish_parts(self) -> None:
        """Wait for all parts, and free their memory."""
        while self._under_way:
            self._take()
        self._free.clear()

    def _take(self) -> None:
        """Wait for the oldest part; after Ctrl-C, `abort` still waits for it."""
        part = self._under_way[0].result()
        self._under_way.popleft()
        if len(part) == self._part_size:
            self._free.append(part)

    def _completed(self, etags: list[str], failure: LedgerfsError | None, made: str | None) -> ObjectStat:
        """Return the object if this upload created it, even after an error of the store; otherwise raise.

        Deletes an object of version ``made``, which the store returned for this upload, if it lacks parts.
        """
        try:
            stat = self._store.head(self._key).stat
        except ObjectNotFoundError as error:
            raise failure or error from None
        except LedgerfsError as error:
            raise uncertain(self._key, failure or error) from error
        if stat.size == self._size and (stat.version == etag_of_parts(etags) or self._is_ours(stat, failure, made)):
            return stat
        if failure is not None:
            raise failure
        reason = f"the store has {stat.size} bytes with version {stat.version}, but {self._size} bytes were sent in {len(etags)} parts"
        if _is_named(stat, made):
            self._remove()
        raise StoreError(reason, key=self._key)

    def _remove(self) -> None:
        try:
            self._store.request(Asked("DELETE", self._key), "delete_object", Key=self._key)
        except LedgerfsError as error:
            _log.warning("%s is left without an index; `ledgerfs repair` removes it: %s", self._key, error)

    def _is_ours(self, stat: ObjectStat, failure: LedgerfsError | None, made: str | None) -> bool:
        """Return whether this upload created an object without a digest as ETag, by its version or number of parts."""
        if made is not None:
            return _is_named(stat, made)
        count = stat.version.strip('"').rpartition("-")[2]
        is_counted = "-" in stat.version and count.isdigit()
        return not isinstance(failure, ObjectExistsError) and (not is_counted or int(count) == self._numbers)


def _is_named(stat: ObjectStat, made: str | None) -> bool:
    return made is not None and stat.version.strip('"') == made.strip('"')


def _wait(futures: list[Future[bytearray]]) -> None:
    """Wait some seconds for uninterruptible requests."""
    wait([future for future in futures if not future.cancelled()], timeout=_PATIENCE_SECONDS)

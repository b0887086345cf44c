"""S3 through s3fs, at the level of its requests.

Above that level s3fs cannot ask for one version of an object (``If-Match``), shows no user metadata with a body, and keeps every listing
for ever (``facts/fsspec-fuse.md`` §2). Credentials, endpoints, retries and the event loop stay s3fs's.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from fsspec.asyn import sync

from ledgerfs.errors import BucketNotFoundError, LedgerfsError, StaleObjectError
from ledgerfs.vfs.descriptors import write_all
from ledgerfs.vfs.object_store import ObjectHead, ObjectStat, ReadRequest
from ledgerfs.vfs.stores.concurrent_reads import read_in_loop
from ledgerfs.vfs.stores.failures import is_transient, retry_delays, short_body, translate
from ledgerfs.vfs.stores.fsspec_handle import FsspecHandle, without_credentials


class S3Store:
    """A bucket, or a prefix in one, of any S3-speaking store."""

    __slots__ = ("_bucket", "_handle", "_prefix")

    def __init__(self, handle: FsspecHandle, root: str) -> None:
        self._handle = handle
        self._bucket, _, prefix = root.partition("/")
        self._prefix = f"{prefix}/" if prefix else ""

    @property
    def url(self) -> str:
        """The bucket as a URL."""
        return without_credentials(f"s3://{self._bucket}/{self._prefix}".rstrip("/"))

    def list_pages(self) -> Iterator[list[ObjectStat]]:
        """Yield a page of the listing at a time; keys behind a further ``/`` are one folder each."""
        fs = self._handle.fs
        pages = self._pages(fs)
        try:
            while page := sync(fs.loop, anext, pages, None):
                yield self._folders(page) + self._objects(page)
        except FileNotFoundError as error:
            raise BucketNotFoundError("no such bucket", key=self.url) from error
        except Exception as error:
            raise translate(error, self.url) from error

    def head(self, key: str) -> ObjectHead:
        """One HEAD: size, ETag, time and user metadata."""
        fs = self._handle.fs
        try:
            answer = sync(fs.loop, fs._call_s3, "head_object", Bucket=self._bucket, Key=self._prefix + key)  # noqa: SLF001
        except Exception as error:
            raise translate(error, key) from error
        stat = ObjectStat(key, answer["ContentLength"], _milliseconds(answer["LastModified"]), answer.get("ETag", ""))
        return ObjectHead(stat, answer.get("Metadata", {}))

    def read(self, request: ReadRequest) -> bytes:
        """One ranged GET with ``If-Match``, tried again when it breaks."""
        data: bytes = sync(self._handle.fs.loop, self._read, request)
        return data

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Read, and write what was read."""
        write_all(descriptor, self.read(request))

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Keep some dozen GETs under way."""
        return read_in_loop(self._handle.fs.loop, self._read, requests)

    async def _read(self, request: ReadRequest) -> bytes:
        if request.end <= request.start:
            return b""
        delays = retry_delays()
        while True:
            try:
                return await self._get(request)
            except Exception as error:
                delay = next(delays, None)
                if delay is None or not is_transient(error):
                    raise translate(error, request.key) from error
                await asyncio.sleep(delay)

    async def _get(self, request: ReadRequest) -> bytes:
        match = {"IfMatch": request.version} if request.version else {}
        answer = await self._handle.fs._call_s3(  # noqa: SLF001
            "get_object",
            Bucket=self._bucket,
            Key=self._prefix + request.key,
            Range=f"bytes={request.start}-{request.end - 1}",
            **match,
        )
        body = answer["Body"]
        try:
            data: bytes = await body.read()
        finally:
            body.close()
        if request.version and answer.get("ETag", request.version) != request.version:
            raise StaleObjectError("the object was replaced; open it again", key=request.key)
        if len(data) != request.end - request.start or not _starts_at(answer, request.start):
            raise short_body(request.key, request.start, request.end - request.start, len(data))
        return data

    def _pages(self, fs: Any) -> AsyncIterator[dict[str, Any]]:  # noqa: ANN401  (s3fs is not typed)
        pages: AsyncIterator[dict[str, Any]] = fs._list_pages(  # noqa: SLF001
            "list_objects_v2", Bucket=self._bucket, Prefix=self._prefix, Delimiter="/", **fs.req_kw
        )
        return pages

    def _folders(self, page: dict[str, Any]) -> list[ObjectStat]:
        return [
            ObjectStat(folder["Prefix"][len(self._prefix) :], 0, 0, "") for folder in page.get("CommonPrefixes", [])
        ]

    def _objects(self, page: dict[str, Any]) -> list[ObjectStat]:
        skip = len(self._prefix)
        return [
            ObjectStat(item["Key"][skip:], item["Size"], _milliseconds(item["LastModified"]), item.get("ETag", ""))
            for item in page.get("Contents", [])
            # The prefix itself, as an empty object, is what some tools make of a folder.
            if item["Key"] != self._prefix
        ]


def _starts_at(answer: dict[str, Any], start: int) -> bool:
    """Whether the body is from the offset asked for: a server that ignores ``Range`` sends the object's start."""
    content_range = answer.get("ContentRange")
    if content_range is None:
        return start == 0
    return str(content_range).startswith(f"bytes {start}-")


def _milliseconds(time: Any) -> int:  # noqa: ANN401  (botocore gives a datetime)
    return int(time.timestamp() * 1000)

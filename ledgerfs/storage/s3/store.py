"""S3: bytes of objects through obstore, all other requests through the client of s3fs.

Uses the credentials, endpoints, request options and event loop of s3fs, with own retries. It calls s3fs's client at the level of requests,
since s3fs cannot request one version of an object (``If-Match``), caches listings forever, and adds its retries to those of botocore. That
client also reads where obstore cannot (`ledgerfs.storage.s3.obstore_client`), and compares the stores' checksums (``is_checked``).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ledgerfs.errors import AccessDeniedError, BucketNotFoundError, LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.descriptors import write_all
from ledgerfs.storage.failures import status_of, translate, wrong_length
from ledgerfs.storage.fsspec_handle import FsspecHandle
from ledgerfs.storage.idle_timeout import Silence, bounded
from ledgerfs.storage.listed_pages import ListedPage, PagePosition, each_key_once
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest
from ledgerfs.storage.obstore_gets import UnexplainedError, fetch
from ledgerfs.storage.retries import Tries, retry_async
from ledgerfs.storage.s3 import obstore_client
from ledgerfs.storage.s3.body import StoredChecksum, check_answer, read_body
from ledgerfs.storage.s3.credentials_renewal import CredentialsRenewal
from ledgerfs.storage.s3.listing_characters import accept_control_characters
from ledgerfs.storage.s3.obstore_client import ObstoreClient
from ledgerfs.storage.s3.writes import S3Writes
from ledgerfs.storage.sent_requests import Asked, Sent
from ledgerfs.storage.traffic import Traffic

if TYPE_CHECKING:
    from obstore.store import S3Store as Client

Result = TypeVar("Result")
FirstTry = tuple[Tries, Sent]
"""A request whose first try failed in another thread."""

Exchange = Callable[[Any, Sent, Silence], Awaitable[Result]]
"""One request with s3fs's filesystem, from its start to the last byte."""

_ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
_MAYBE_ARCHIVED = _ARCHIVES | {"INTELLIGENT_TIERING"}
"""Listings show this class also for objects in Intelligent-Tiering's archive tiers."""


class S3Store:
    """A bucket, or a prefix in one, of any S3-compatible store."""

    __slots__ = ("_bucket", "_handle", "_has_answered", "_lacks_if_match", "_obstore", "_prefix", "_renewal", "traffic")

    def __init__(self, handle: FsspecHandle, root: str) -> None:
        self._handle = handle
        # s3fs splits names of access points correctly (arn:…:accesspoint/name/prefix).
        self._bucket, prefix, _ = handle.fs.split_path(root)
        # s3fs returns the slash after the name of an access point as a key.
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        self._has_answered = False
        self._lacks_if_match = False
        self._obstore = ObstoreClient(self._bucket, handle.options)
        self._renewal = CredentialsRenewal(self._renew)
        self.traffic = Traffic()

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._handle, f"{self._bucket}/{self._prefix}"))

    is_remote = True

    @property
    def url(self) -> str:
        """The bucket as a URL."""
        return without_credentials(f"s3://{self._bucket}/{self._prefix}".rstrip("/"))

    def relative(self, name: str) -> str | None:
        """Return the key of an object by its full name in the bucket; None if it is not directly in the opened folder."""
        key = name.removeprefix(self._prefix)
        return key if name.startswith(self._prefix) and key and "/" not in key else None

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        """Yield the listing page by page, with one folder for all keys that have a further ``/``."""
        return self._pages(prefix, "/")

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        """Yield the listing page by page, with the keys of all folders."""
        pages = self._pages(folder, "")
        try:
            first = next(pages, [])
        except AccessDeniedError as error:
            yield [ObjectStat(folder, 0, 0, "", error.reason)]
            return
        yield first
        # From here on a refusal is an error: an incompletely listed ledger would look damaged.
        yield from pages

    def _pages(self, prefix: str, delimiter: str) -> Iterator[list[ObjectStat]]:
        def fetch(position: PagePosition) -> ListedPage:
            try:
                page = self._wait_for(self._page(prefix, delimiter, position))
            except ObjectNotFoundError as error:
                raise BucketNotFoundError("no such bucket", key=self.url) from error
            is_last, token = not page.get("IsTruncated"), page.get("NextContinuationToken")
            return ListedPage(self._folders(page) + self._objects(page), is_last, token)

        return each_key_once(fetch, self.url)

    def head(self, key: str) -> ObjectHead:
        """Send one HEAD for size, ETag, time and user metadata."""
        return self._wait_for(self._head(key))

    def read(self, request: ReadRequest) -> bytes:
        """Send one ranged GET with ``If-Match``, with retries."""
        return bytes(self._started(request))

    def start(self, request: ReadRequest) -> Future[Buffer]:
        """Begin the GET in a thread, or in the event loop if that has to read.

        Cancelling aborts a GET of the loop. A thread continues until the store sends something, and does not read the body.
        """
        if self._client_for(request) is None:
            return asyncio.run_coroutine_threadsafe(self._read(request), self._handle.fs.loop)
        future: Future[Buffer] = Future()
        obstore_client.THREADS.start(self._fulfil, future, request)
        return future

    def send(self, request: ReadRequest, descriptor: int) -> None:
        """Read into memory, then write to the descriptor."""
        write_all(descriptor, self._started(request))

    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        """Keep some dozen GETs under way."""
        pending: deque[Future[Buffer]] = deque()
        try:
            for request in requests:
                pending.append(self.start(request))
                if len(pending) == 2 * obstore_client.MOST_READS:
                    yield _outcome_of(pending.popleft())
            while pending:
                yield _outcome_of(pending.popleft())
        finally:
            for future in pending:
                future.cancel()

    @property
    def writes(self) -> S3Writes:
        """The write side."""
        return S3Writes(self)

    def request(
        self,
        asked: Asked,
        operation: str,
        is_wanted: Callable[[], bool] = lambda: True,
        **arguments: Any,  # noqa: ANN401
    ) -> dict[str, Any]:
        """Make one request other than a read, by botocore's name for it, with the retries of `retries`; wait for its answer.

        Raises only our errors, with the store's answer as their cause. Does not retry once ``is_wanted`` returns false.
        """

        async def exchange(fs: Any, _: Sent, __: Silence) -> dict[str, Any]:  # noqa: ANN401
            answer: dict[str, Any] = await self._call(fs, operation, **self._named(arguments))
            return answer

        return self._wait_for(self._ask(asked, exchange, is_wanted))

    def _named(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the object's full name in the bucket, if they name an object."""
        names: dict[str, Any] = {
            name: self._prefix + arguments[name] for name in ("Key", "Prefix") if name in arguments
        }
        if "CopySource" in arguments:
            names["CopySource"] = {"Bucket": self._bucket, "Key": self._prefix + arguments["CopySource"]}
        return {**arguments, **names}

    def _wait_for(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._handle.fs.loop)
        try:
            return future.result()
        finally:
            future.cancel()  # Ctrl-C ends only the wait

    def _client_for(self, request: ReadRequest) -> "Client | None":
        """Return obstore's client if it can read this; None until the event loop has made it."""
        return None if request.is_checked or request.end <= request.start else self._obstore.made

    def _started(self, request: ReadRequest) -> Buffer:
        """Read in another thread, since obstore would delay Ctrl-C in this one until the store answers."""
        future = self.start(request)
        try:
            return future.result()
        finally:
            future.cancel()

    def _fulfil(self, future: Future[Buffer], request: ReadRequest) -> None:
        """Read for a future that may be cancelled until the store answers."""
        try:
            settle = partial(future.set_result, self._read_here(request, future.set_running_or_notify_cancel))
        except CancelledError:
            return
        except BaseException as error:  # noqa: BLE001  (its reader raises it)
            settle = partial(future.set_exception, error)
        if future.running() or future.set_running_or_notify_cancel():
            settle()

    def _read_here(self, request: ReadRequest, is_wanted: Callable[[], bool] = lambda: True) -> Buffer:
        """Try the GET once in this thread, in a fraction of the time that the loop takes; the loop makes further tries."""
        client = self._client_for(request)
        if client is None:
            return self._wait_for(self._read(request))
        asked = Asked.to_read(request)
        tries = Tries(asked.size, is_first_contact=not self._has_answered)
        sent = Sent(asked, self.traffic).begin()
        condition = obstore_client.condition_of(request, is_matched=self._is_matched(request))
        try:
            data = fetch(client, self._prefix + request.key, request, condition, sent, is_wanted=is_wanted)
        except CancelledError:
            sent.end(CancelledError())
            raise
        except Exception as error:  # noqa: BLE001  (the loop handles it)
            sent.failed = error
            return self._wait_for(self._read(request, (tries, sent)))
        sent.end()
        self._has_answered = True
        return data

    async def _read(self, request: ReadRequest, first: FirstTry | None = None) -> Buffer:
        if request.end <= request.start:
            return b""

        checksum = StoredChecksum(request)

        async def exchange(fs: Any, sent: Sent, silence: Silence) -> Buffer:  # noqa: ANN401  (s3fs is not typed)
            return await self._get(fs, request, checksum, sent, silence)

        return await self._ask(Asked.to_read(request), exchange, first=first)

    async def _head(self, key: str) -> ObjectHead:
        async def exchange(fs: Any, _: Sent, __: Silence) -> ObjectHead:  # noqa: ANN401
            answer = await self._call(fs, "head_object", Key=self._prefix + key)
            modified = _milliseconds(answer["LastModified"])
            archived = _archive_of(answer)
            stat = ObjectStat(key, answer["ContentLength"], modified, answer.get("ETag", ""), archived=archived)
            return ObjectHead(stat, answer.get("Metadata", {}))

        return await self._ask(Asked("HEAD", key), exchange)

    async def _page(self, prefix: str, delimiter: str, position: PagePosition) -> dict[str, Any]:
        names = {"Prefix": self._prefix + prefix, **({"Delimiter": delimiter} if delimiter else {})}
        if position.token is not None:
            names["ContinuationToken"] = position.token
        if position.start_after is not None:
            names["StartAfter"] = self._prefix + position.start_after

        async def exchange(fs: Any, _: Sent, __: Silence) -> dict[str, Any]:  # noqa: ANN401
            accept_control_characters(await fs.get_s3(self._bucket))
            page: dict[str, Any] = await self._call(fs, "list_objects_v2", **names)
            return page

        return await self._ask(Asked("LIST", self.url), exchange)

    async def _get(
        self,
        fs: Any,  # noqa: ANN401
        request: ReadRequest,
        checksum: StoredChecksum,
        sent: Sent,
        silence: Silence,
    ) -> Buffer:
        """Send one GET of this version; for a store without conditions, compare the ETag of its answer."""
        failed = sent.take_failure()
        # Another request may have learned meanwhile that the store lacks conditions.
        is_matched = self._is_matched(request) or (failed is not None and bool(request.version))
        try:
            if failed is not None:
                raise failed
            client = None if request.is_checked else await self._obstore.of(fs)
            if client is None:
                return await self._get_by_s3fs(fs, request, checksum, sent, silence, is_matched=is_matched)
            key = self._prefix + request.key
            # The client has its own idle timeout.
            silence.end()
            return await obstore_client.get(client, key, request, sent, is_matched=is_matched)
        except UnexplainedError as error:
            self.traffic.count(requests=1, retries=1, bytes_asked=request.end - request.start)
            data = await self._get_by_s3fs(fs, request, checksum, sent, silence, is_matched=is_matched)
            # s3fs succeeded, so obstore failed and not the store.
            self._obstore.give_up(str(error))
            return data
        except OSError as error:
            if status_of(error) == 416:
                raise await self._out_of_range(request) from error
            if not (is_matched and status_of(error) == 501):
                raise
            self._lacks_if_match = True
        return await self._get(fs, request, checksum, sent, silence)

    async def _get_by_s3fs(
        self,
        fs: Any,  # noqa: ANN401
        request: ReadRequest,
        checksum: StoredChecksum,
        sent: Sent,
        silence: Silence,
        *,
        is_matched: bool,
    ) -> bytes:
        match = {"IfMatch": request.version} if is_matched else {}
        asked = f"bytes={request.start}-{request.end - 1}"
        answer = await self._call(fs, "get_object", Key=self._prefix + request.key, Range=asked, **match)
        body = answer["Body"]
        try:
            check_answer(answer, request)
            with checksum.compared(answer):
                return await read_body(body, request, sent, silence)
        finally:
            body.close()

    def _is_matched(self, request: ReadRequest) -> bool:
        return bool(request.version) and not self._lacks_if_match

    async def _out_of_range(self, request: ReadRequest) -> LedgerfsError:
        """Return the error for a range beyond the end of the object."""
        try:
            return wrong_length(request, (await self._head(request.key)).stat, 0)
        except LedgerfsError as error:
            return error

    async def _ask(
        self,
        asked: Asked,
        exchange: Exchange[Result],
        is_wanted: Callable[[], bool] = lambda: True,
        first: FirstTry | None = None,
    ) -> Result:
        """Make one request with the retries of `retries`, of which ``first`` may be one; raises only our errors."""
        try:
            fs = self._handle.fs
            # Before the tries, since it loads botocore's descriptions of S3, which takes time.
            await fs.set_session()
        except Exception as error:
            raise translate(error, asked.key, asked.offset) from error
        tries = first[0] if first else Tries(asked.size, is_first_contact=not self._has_answered)

        async def attempt() -> Result:
            return await retry_async(
                lambda: self._try(fs, asked, tries, exchange, first), tries, asked.tell_retry, is_wanted=is_wanted
            )

        try:
            return await self._renewal.tried(attempt)
        except Exception as error:
            raise tries.given_up(error, translate(error, asked.key, asked.offset)) from error

    async def _renew(self) -> None:
        """Resolve the credentials again, from the environment, files, a process, or a service."""
        await self._handle.fs.set_session(refresh=True)
        self._obstore.forget()

    async def _try(
        self,
        fs: Any,  # noqa: ANN401
        asked: Asked,
        tries: Tries,
        exchange: Exchange[Result],
        first: FirstTry | None,
    ) -> Result:
        with first[1] if first and first[1].failed else Sent(asked, self.traffic, tries.number) as sent:
            try:
                async with bounded(tries, asked) as silence:
                    result = await exchange(fs, sent, silence)
            except Exception as error:
                self._has_answered |= status_of(error) is not None
                raise
        self._has_answered = True
        return result

    async def _call(self, fs: Any, operation: str, **arguments: Any) -> Any:  # noqa: ANN401
        """Send one request with the options that s3fs adds (payer, encryption keys), without its retries."""
        method = getattr(await fs.get_s3(self._bucket), operation)
        try:
            return await method(**fs._get_s3_method_kwargs(method, Bucket=self._bucket, **arguments))  # noqa: SLF001
        except Exception as error:
            raise _translated(error) from error

    def _folders(self, page: dict[str, Any]) -> list[ObjectStat]:
        return [
            ObjectStat(folder["Prefix"][len(self._prefix) :], 0, 0, "") for folder in page.get("CommonPrefixes", [])
        ]

    def _objects(self, page: dict[str, Any]) -> list[ObjectStat]:
        skip = len(self._prefix)
        return [
            ObjectStat(
                item["Key"][skip:],
                item["Size"],
                _milliseconds(item["LastModified"]),
                item.get("ETag", ""),
                archived=item.get("StorageClass", "") if item.get("StorageClass") in _MAYBE_ARCHIVED else "",
            )
            for item in page.get("Contents", [])
            # Some tools create a folder as an empty object with the prefix as its key.
            if item["Key"] != self._prefix
        ]


def _outcome_of(read: Future[Buffer]) -> bytes | LedgerfsError:
    try:
        return bytes(read.result())
    except LedgerfsError as error:
        return error


def _translated(error: Exception) -> Exception:
    """Return the `OSError` that s3fs raises for an error of botocore; others unchanged."""
    # s3fs is optional; here it is installed, since there is a filesystem of it.
    from s3fs.errors import translate_boto_error

    translated: Exception = translate_boto_error(error)
    if translated is not error:
        translated.__cause__ = error
    return translated


def _archive_of(head: dict[str, Any]) -> str:
    """Return the archive class of an object by the answer to a HEAD; empty if it can be read."""
    if 'ongoing-request="false"' in head.get("Restore", ""):
        return ""
    storage_class: str = head.get("ArchiveStatus") or head.get("StorageClass") or ""
    return storage_class if storage_class in _ARCHIVES or head.get("ArchiveStatus") else ""


def _milliseconds(time: Any) -> int:  # noqa: ANN401  (botocore returns a datetime)
    return int(time.timestamp() * 1000)

"""GETs of objects' bytes by botocore's own client, in threads, for half of the processor time of an event loop.

A body goes from the socket into reused memory (`part_buffers`) without another copy.
"""

from collections.abc import Callable
from concurrent.futures import Future
from http.client import HTTPResponse
from typing import Any

from ledgerfs.errors import StoreTimeoutError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.failures import short_body
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.part_buffers import part_buffer
from ledgerfs.storage.reading_threads import ReadingThreads
from ledgerfs.storage.retries import Tries
from ledgerfs.storage.s3.body import check_answer
from ledgerfs.storage.sent_requests import Sent

_THREADS = ReadingThreads(48, "ledgerfs-s3")
_PIECE = 1 << 20

RunTransfer = Callable[["Transfer"], Buffer]


class Transfer:
    """One read under way in a thread; cancelling its future ends it at the next piece."""

    __slots__ = ("future", "request")

    def __init__(self, request: ReadRequest) -> None:
        self.request = request
        self.future: Future[Buffer] = Future()

    def begin(self, read: RunTransfer) -> "Future[Buffer]":
        """Run ``read`` in a thread; the future gets its result or error."""
        _THREADS.start(self._run, read)
        return self.future

    def is_wanted(self) -> bool:
        """Whether the read is not cancelled."""
        return not self.future.cancelled()

    def receive(self, answer: dict[str, Any], sent: Sent, tries: Tries) -> Buffer:
        """Read the body of botocore's answer, after a check of its headers."""
        body = answer["Body"]
        try:
            check_answer(answer, self.request)
            return self._read_body(body, sent, tries)
        except BaseException:
            # The rest of the body would come before the connection's next answer.
            body.close()
            raise

    def _read_body(self, body: Any, sent: Sent, tries: Tries) -> Buffer:  # noqa: ANN401  (botocore's)
        request = self.request
        wanted = request.end - request.start
        buffer = part_buffer(wanted)
        source = _source_of(body)
        while sent.received < wanted:
            self._check(tries)
            count = source.readinto(buffer[sent.received : sent.received + _PIECE])
            if not count:
                break
            sent.received += count
        if sent.received < wanted or source.read(1):
            raise short_body(request.key, request.start, wanted, sent.received)
        if source is not body:
            body._raw_stream.release_conn()  # noqa: SLF001  (as `_source_of`)
        return buffer.toreadonly()

    def _check(self, tries: Tries) -> None:
        if not self.is_wanted():
            raise _Cancelled
        if not tries.rest:
            reason = "the store did not send all of it in time"
            raise StoreTimeoutError(reason, key=self.request.key, offset=self.request.start)

    def _run(self, read: RunTransfer) -> None:
        if not self.is_wanted():
            return
        try:
            data = read(self)
        except BaseException as error:  # noqa: BLE001  (raised in the thread that waits)
            if self.future.set_running_or_notify_cancel():
                self.future.set_exception(error)
        else:
            if self.future.set_running_or_notify_cancel():
                self.future.set_result(data)


def _source_of(body: Any) -> Any:  # noqa: ANN401  (botocore's, or http.client's)
    """Return the response below urllib3's, which reads from the socket into our memory; urllib3 copies everything twice.

    There is no public way to it. If it is not found, or has no length, the body itself is returned.
    """
    response = getattr(getattr(body, "_raw_stream", None), "_fp", None)
    return response if isinstance(response, HTTPResponse) and response.length is not None else body


class _Cancelled(Exception):  # noqa: N818  (nobody catches it by name)
    """The read was cancelled."""

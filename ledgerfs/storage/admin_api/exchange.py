"""One request over HTTP and the answer to it, by whichever broker the first one leads to."""

import http.client
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from ledgerfs.display import printable
from ledgerfs.errors import AdminApiError, StoreTimeoutError, WrongBodyError
from ledgerfs.storage.admin_api.answer import OTHER_PROTOCOL, Answer
from ledgerfs.storage.retries import Tries

MOST_BYTES = 64 << 20
"""Of one answer: all schemas of a topic."""
_PIECE = 1 << 16
_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD = frozenset({307, 308})
_BUSY = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a broker: the method, the path, and the body, in JSON."""

    method: str
    path: str
    body: bytes | None = None

    @property
    def is_change(self) -> bool:
        """Whether the broker is to do something."""
        return self.method != "GET"


class Exchange:
    """Asks one broker, and those that it leads to, from any thread.

    Raises what urllib raises, and `AdminApiError` for what is no broker.
    """

    __slots__ = ("_headers", "_opener", "address", "has_answered")

    def __init__(self, address: str, headers: dict[str, str], tls: ssl.SSLContext | None) -> None:
        self.address = address
        self.has_answered = False
        self._headers = headers
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context() if tls is None else tls)
        self._opener = urllib.request.build_opener(https, _NoRedirects)

    def answer(self, question: Question, tries: Tries) -> Answer:
        """Return what is answered by the broker that does not lead to another one; a busy one raises."""
        url = self.address + question.path
        for _ in range(_MOST_REDIRECTS):
            status, location, body = self._once(url, question, tries)
            if status not in _REDIRECTS:
                return Answer(self.address, question.path, status, body)
            if question.is_change and status not in _SAME_METHOD:
                raise AdminApiError(
                    f"the broker leads to {printable(location)!r} with status {status}, with which a {question.method} becomes "
                    "a GET; give the address that it leads to",
                    key=url,
                )
            url = _redirected(url, location)
        raise AdminApiError(
            f"the broker leads from one broker to the next more than {_MOST_REDIRECTS} times", key=self.address
        )

    def _once(self, url: str, question: Question, tries: Tries) -> tuple[int, str, bytes]:
        headers = {**self._headers, "Content-Type": "application/json"} if question.is_change else self._headers
        request = urllib.request.Request(url, question.body, headers, method=question.method)  # noqa: S310  (the scheme is checked)
        # What a change has become is not known after a time-out, so that it gets all of the time.
        patience = tries.rest if question.is_change else tries.patience
        try:
            with self._opener.open(request, timeout=max(patience, 0.1)) as answer:
                return answer.status, "", _body(answer, tries)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _BUSY:
                    raise
                return error.code, error.headers.get("Location", ""), _body(error.fp, tries)
        except urllib.error.URLError as error:
            raise error.reason if isinstance(error.reason, OSError) else error from error
        except (http.client.RemoteDisconnected, http.client.BadStatusLine) as error:
            if self.has_answered or (question.is_change and isinstance(error, http.client.RemoteDisconnected)):
                raise
            raise AdminApiError(f"no answer of HTTP: {OTHER_PROTOCOL}", key=self.address) from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Hands redirects on, since the standard library's would send the token without TLS, and to other schemes."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401
        """Follow none."""
        return


def _body(answer: Any, tries: Tries) -> bytes:  # noqa: ANN401  (http.client's)
    """Return all bytes of a body: not more than `MOST_BYTES`, not less than it promised, and not later than the time for the request."""
    pieces, size = [], 0
    while piece := answer.read1(_PIECE):
        size += len(piece)
        pieces.append(piece)
        if size > MOST_BYTES:
            raise AdminApiError(f"the answer has more than {MOST_BYTES} bytes, which no topic's schemas have")
        if tries.rest <= 0:
            raise StoreTimeoutError("the broker did not send all of its answer in time")
    if getattr(answer, "length", None):
        raise WrongBodyError(f"the answer ends {answer.length} bytes before its end")
    return b"".join(pieces)


def _redirected(url: str, location: str) -> str:
    target = urljoin(url, location)
    schemes = (urlsplit(url).scheme, urlsplit(target).scheme)
    if not location or schemes[1] not in {"http", "https"} or schemes == ("https", "http"):
        raise AdminApiError(f"the broker leads to {printable(target)!r}, which is not followed", key=url)
    return target

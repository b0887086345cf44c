"""Requests to a broker's admin API: address, token and TLS, retries, redirects to other brokers, and every failure by its name."""

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from ledgerfs.display import printable
from ledgerfs.errors import (
    AccessDeniedError,
    AdminApiError,
    AdminApiUnreachableError,
    AuthenticationError,
    InvalidNameError,
    InvalidOptionError,
    LedgerfsError,
    NotFoundError,
    StoreTimeoutError,
    WrongBodyError,
)
from ledgerfs.storage.retries import Tries, retry
from ledgerfs.storage.sent_requests import Asked, Sent
from ledgerfs.storage.traffic import Traffic

MOST_BYTES = 64 << 20
"""Of one answer: all schemas of a topic."""
_PIECE = 1 << 16
_MOST_REASON = 300
_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BUSY = frozenset({429, 502, 503, 504})
_OTHER_PROTOCOL = (
    "this is not the web service of a broker, which is usually http://host:8080, or https://host:8443 "
    "(pulsar://host:6650 is another port)"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered."""

    address: str
    path: str
    status: int
    body: bytes

    @property
    def reason(self) -> str:
        """What Pulsar says went wrong; empty where the body is none of its answers."""
        try:
            told = json.loads(self.body)
        except (ValueError, RecursionError):
            return ""
        reason = told.get("reason") if isinstance(told, dict) else None
        return printable(reason[:_MOST_REASON]) if isinstance(reason, str) else ""

    def json(self) -> Any:  # noqa: ANN401  (JSON)
        """Return the body's value; raises `AdminApiError` for one that is no JSON, as the page of a proxy."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            start = printable(self.body[:60].decode(errors="replace"))
            raise self.unexpected(f"no JSON ({start!r}); {_OTHER_PROTOCOL}") from None

    def unexpected(self, what: str) -> AdminApiError:
        """Return the error for an answer with something else than it should have."""
        return AdminApiError(f"the admin API answered with {what}", key=self.address + self.path)


class AdminRequests:
    """Sends requests to one broker, from any thread.

    Parameters
    ----------
    address
        Of the web service: ``http://host:8080``, ``https://host:8443``, perhaps with the path of a proxy.
    token
        For ``Authorization: Bearer``; None for none. Brokers to which the first one leads get it, too, but never without TLS after TLS.
    tls
        With which certificates, as `tls_context` makes it; None for those that the system trusts.

    Raises `InvalidOptionError` for an address or a token that cannot be one.

    """

    __slots__ = ("_has_answered", "_headers", "_opener", "_traffic", "address")

    def __init__(self, address: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.address = _checked_address(address)
        self._headers = {"Accept": "application/json", "User-Agent": "ledgerfs"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_checked_token(token)}"
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context() if tls is None else tls)
        self._opener = urllib.request.build_opener(https, _NoRedirects)
        self._has_answered = False
        self._traffic = Traffic()

    def get(self, path: str, accept: Collection[int] = ()) -> Answer:
        """Return the answer to a GET, of whatever status but those of a refusal, unless they are in ``accept``."""
        tries = Tries(is_first_contact=not self._has_answered)
        asked = Asked("GET", path)

        def attempt() -> Answer:
            with Sent(asked, self._traffic, tries.number):
                return self._followed(path, tries)

        try:
            answer = retry(attempt, tries, asked.tell_retry)
        except Exception as error:
            raise tries.given_up(error, self._translated(error, path)) from error
        self._has_answered = True
        if answer.status not in accept:
            _require_allowed(answer)
        return answer

    def told(self, path: str) -> Any:  # noqa: ANN401  (JSON)
        """Return the value that a GET is answered with; raises as `get`, `require_ok` and `Answer.json`."""
        return self.require_ok(self.get(path)).json()

    def require_ok(self, answer: Answer) -> Answer:
        """Return an answer if its status is 200; raises `NotFoundError`, `InvalidNameError` or `AdminApiError` otherwise."""
        where, reason = answer.address + answer.path, answer.reason
        if answer.status == 200:
            return answer
        if answer.status == 404 and reason:
            raise NotFoundError(f"the broker answered: {reason}", key=where)
        if answer.status == 412 and reason:
            raise InvalidNameError(f"the broker does not take this name: {reason}", key=where)
        told = f": {reason}" if reason else ""
        hint = f"; {_OTHER_PROTOCOL}" if answer.status == 404 else ""
        raise AdminApiError(f"the admin API answered with status {answer.status}{told}{hint}", key=where)

    def _followed(self, path: str, tries: Tries) -> Answer:
        url = self.address + path
        for _ in range(_MOST_REDIRECTS):
            status, location, body = self._exchange(url, tries)
            if status not in _REDIRECTS:
                return Answer(self.address, path, status, body)
            url = _redirected(url, location)
        raise AdminApiError(
            f"the broker leads from one broker to the next more than {_MOST_REDIRECTS} times", key=self.address
        )

    def _exchange(self, url: str, tries: Tries) -> tuple[int, str, bytes]:
        request = urllib.request.Request(url, headers=self._headers)  # noqa: S310  (the scheme is checked)
        try:
            with self._opener.open(request, timeout=max(tries.patience, 0.1)) as answer:
                return answer.status, "", _body(answer, tries)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _BUSY:
                    raise
                return error.code, error.headers.get("Location", ""), _body(error.fp, tries)
        except urllib.error.URLError as error:
            raise error.reason if isinstance(error.reason, OSError) else error from error
        except (http.client.RemoteDisconnected, http.client.BadStatusLine) as error:
            if self._has_answered:
                raise
            raise AdminApiError(f"no answer of HTTP: {_OTHER_PROTOCOL}", key=self.address) from error

    def _translated(self, error: BaseException, path: str) -> LedgerfsError:
        where = self.address + path
        if isinstance(error, StoreTimeoutError):
            return AdminApiUnreachableError(error.reason, key=where)
        if isinstance(error, WrongBodyError):
            return AdminApiError(error.reason, key=where)
        if isinstance(error, LedgerfsError):
            return error
        if isinstance(error, urllib.error.HTTPError):
            return AdminApiError(f"the admin API is busy or broken: status {error.code}", key=where)
        if isinstance(error, http.client.HTTPException):
            return AdminApiError(f"no usable answer of HTTP ({type(error).__name__}): {_text_of(error)}", key=where)
        return AdminApiUnreachableError(_why_unreachable(error), key=self.address)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Hands redirects on, since the standard library's would send the token without TLS, and to other schemes."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401
        """Follow none."""
        return


def _why_unreachable(error: BaseException) -> str:
    text = _text_of(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        told = error.verify_message or text
        return f"its certificate is not trusted: {told}; --tls-ca names the file of the authority that signed it"
    if isinstance(error, ssl.SSLError):
        return (
            f"no connection with TLS: {text}; is this the port for TLS, and does it ask for a certificate (--tls-cert)?"
        )
    if isinstance(error, TimeoutError):
        return "the broker did not answer in time"
    return f"the broker cannot be reached: {text}"


def _text_of(error: BaseException) -> str:
    return printable(" ".join(str(error).split())) or type(error).__name__


def tls_context(
    ca: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext | None:
    """Return TLS with files in PEM: who signed the broker's certificate, and the certificate and key of this client; None without any.

    Raises `InvalidOptionError`, which names the file.
    """
    if ca is certificate is key is None:
        return None
    if key is not None and certificate is None:
        raise InvalidOptionError("a key needs the certificate that it is of", key=str(key))
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise InvalidOptionError(f"cannot be used as certificates of authorities: {error}", key=str(ca)) from error
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise InvalidOptionError(f"cannot be used as certificate and key: {error}", key=str(certificate)) from error
    return context


def _no_password() -> str:
    """Refuse: OpenSSL would ask the terminal."""
    raise ValueError("the key is encrypted with a password, which is not supported")


def _require_allowed(answer: Answer) -> None:
    where = answer.address + answer.path
    told = f": {answer.reason}" if answer.reason else ""
    if answer.status == 401:
        raise AuthenticationError(
            f"the broker does not know who asks{told}; is the token (--token-file) missing or expired?", key=where
        )
    if answer.status in {403, 407}:
        raise AccessDeniedError(f"the broker refused{told}; the token's role may not read this", key=where)


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


def _checked_address(address: str) -> str:
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise InvalidOptionError(f"no address of a broker: {error}", key="broker") from error
    if parts.username is not None or parts.password is not None:
        raise InvalidOptionError("an address has no login in it; a token is given with --token-file", key="broker")
    if parts.scheme not in {"http", "https"} or not has_host or parts.query or parts.fragment or "," in parts.netloc:
        raise InvalidOptionError(f"expected the address of one broker; {_OTHER_PROTOCOL}", key=address)
    if not (address.isascii() and address.isprintable()) or " " in address:
        raise InvalidOptionError("an address has only ASCII characters", key=printable(address))
    return address.rstrip("/")


def _checked_token(token: str) -> str:
    token = token.strip().removeprefix("token:")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidOptionError("the token is empty, or has characters that no token has", key="token")
    return token

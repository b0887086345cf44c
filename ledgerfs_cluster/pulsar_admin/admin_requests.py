"""Requests to a broker's admin API: address, token and TLS, retries, redirects to other brokers, and typed errors.

A change is repeated only if the broker surely did not do it, or if doing it twice is harmless. If the answer is lost and the result
unknown, the error states it.
"""

import errno
import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

from ledgerfs.display import printable
from ledgerfs.errors import (
    AccessDeniedError,
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
from ledgerfs_cluster.errors import AdminApiError, AdminApiUnreachableError, UncertainRequestError

OTHER_PROTOCOL = (
    "this is not the web service of a broker: use http://host:8080 or https://host:8443, "
    "not the port of pulsar://host:6650"
)
_MOST_REASON = 300
_DONE = frozenset({200, 204})
MOST_BYTES = 64 << 20
"""Maximum size of one answer: all schemas of a topic."""
_PIECE = 1 << 16
_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD = frozenset({307, 308})
_BUSY = frozenset({429, 502, 503, 504})
_REFUSED = frozenset({429, 503})
_NO_WAY = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL})


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API.

    Attributes
    ----------
    is_repeated
        Whether the same request was sent before, and may have taken effect: a refusal may be due to that.

    """

    address: str
    path: str
    status: int
    body: bytes
    is_repeated: bool = False

    @property
    def where(self) -> str:
        """The URL of the request."""
        return self.address + self.path

    @property
    def reason(self) -> str:
        """The reason in Pulsar's error body; empty for any other body."""
        try:
            reported = json.loads(self.body)
        except (ValueError, RecursionError):
            return ""
        reason = reported.get("reason") if isinstance(reported, dict) else None
        return printable(reason[:_MOST_REASON]) if isinstance(reason, str) else ""

    def json(self) -> Any:  # noqa: ANN401  (JSON)
        """Return the body's value; raises `AdminApiError` if it is not JSON, such as a proxy's page."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            start = printable(self.body[:60].decode(errors="replace"))
            raise self.unexpected(f"not JSON ({start!r}); {OTHER_PROTOCOL}") from None

    def unexpected(self, problem: str) -> AdminApiError:
        """Return the error for an answer with unexpected contents."""
        return AdminApiError(f"unexpected answer of the admin API: {problem}", key=self.where)

    def require_allowed(self) -> Self:
        """Return the answer unless its status refuses access; raises `AuthenticationError` or `AccessDeniedError`."""
        detail = f": {self.reason}" if self.reason else ""
        if self.status == 401:
            raise AuthenticationError(
                f"the broker requires a valid login{detail}; is the token (--token-file) missing or expired?",
                key=self.where,
            )
        if self.status in {403, 407}:
            raise AccessDeniedError(
                f"the broker refused the request{detail}; the token's role has no permission for it", key=self.where
            )
        return self

    def require_ok(self) -> Self:
        """Return a successful answer; raises `NotFoundError`, `InvalidNameError` or `AdminApiError` for others."""
        if self.status in _DONE:
            return self
        reason = self.reason
        if self.status == 404 and reason:
            raise NotFoundError(f"the broker answered: {reason}", key=self.where)
        if self.status == 412 and reason:
            raise InvalidNameError(f"the broker does not accept this name: {reason}", key=self.where)
        detail = f": {reason}" if reason else ""
        hint = f"; {OTHER_PROTOCOL}" if self.status == 404 else ""
        raise AdminApiError(f"the admin API answered with status {self.status}{detail}{hint}", key=self.where)


def tls_context(
    ca: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext | None:
    """Return a TLS context from PEM files: the CA of the broker's certificate, and this client's certificate and key; None without any.

    Raises `InvalidOptionError` with the file's name.
    """
    if ca is certificate is key is None:
        return None
    if key is not None and certificate is None:
        raise InvalidOptionError("the certificate of this key is missing: pass --tls-cert, too", key=str(key))
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise InvalidOptionError(f"cannot be used as CA certificates (PEM): {error}", key=str(ca)) from error
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise InvalidOptionError(
                f"cannot be used as client certificate and key (PEM): {error}", key=str(certificate)
            ) from error
    return context


class AdminRequests:
    """Sends requests to one broker, from any thread.

    Parameters
    ----------
    address
        Of the web service: ``http://host:8080``, ``https://host:8443``, optionally with a proxy's path.
    token
        For ``Authorization: Bearer``; None for none. Brokers after a redirect get it, too, but never without TLS after TLS.
    tls
        Context from `tls_context`; None for the system's trusted certificates.

    Raises `InvalidOptionError` for an invalid address or token.

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
        """Return the answer to a GET with any status; a refusal of access raises, unless its status is in ``accept``."""
        answer = self._asked("GET", path, is_repeatable=True)
        return answer if answer.status in accept else answer.require_allowed()

    def reported(self, path: str) -> Any:  # noqa: ANN401  (JSON)
        """Return the JSON value of a GET; raises as `get`, `Answer.require_ok` and `Answer.json`."""
        return self.get(path).require_ok().json()

    def change(self, method: str, path: str, value: object = None, *, is_repeatable: bool) -> Answer:
        """Send a change to the broker, and return its answer with any status; a refusal of access raises.

        Parameters
        ----------
        method
            ``PUT``, ``POST`` or ``DELETE``. Redirects keep method and body; a redirect that would not is an error.
        path
            Of the API, URL-encoded.
        value
            The body, sent as JSON; None for none.
        is_repeatable
            Whether doing it twice is harmless: then it is sent again if the answer was lost, and `Answer.is_repeated` is set. Otherwise it
            is sent again only if it surely had no effect: no connection was made, or the broker is busy.

        Raises
        ------
        UncertainRequestError
            The broker may have done it, or may still do it.
        AdminApiError, AuthenticationError, AccessDeniedError
            It was not done.

        """
        body = None if value is None else json.dumps(value).encode()
        return self._asked(method, path, body, is_repeatable=is_repeatable).require_allowed()

    def _asked(self, method: str, path: str, body: bytes | None = None, *, is_repeatable: bool) -> Answer:
        tries = Tries(is_first_contact=not self._has_answered)
        asked = Asked(method, path)
        may_be_done = False

        def attempt() -> Answer:
            nonlocal may_be_done
            try:
                with Sent(asked, self._traffic, tries.number):
                    return self._answered(method, path, body, tries)
            except Exception as error:
                if method != "GET" and not _is_surely_undone(error):
                    may_be_done = True
                    if not is_repeatable:
                        raise _uncertain(self._translated(error, path)) from error
                raise

        try:
            answer = retry(attempt, tries, asked.tell_retry)
        except UncertainRequestError:
            raise
        except Exception as error:
            found = tries.given_up(error, self._translated(error, path))
            raise (_uncertain(found) if may_be_done else found) from error
        self._has_answered = True
        return replace(answer, is_repeated=True) if may_be_done else answer

    def _answered(self, method: str, path: str, body: bytes | None, tries: Tries) -> Answer:
        """Return the first answer that is not a redirect. Raises urllib's errors, also for a busy broker."""
        url = self.address + path
        for _ in range(_MOST_REDIRECTS):
            status, location, content = self._once(method, url, body, tries)
            if status not in _REDIRECTS:
                return Answer(self.address, path, status, content)
            if method != "GET" and status not in _SAME_METHOD:
                raise AdminApiError(
                    f"the broker redirects to {printable(location)!r} with status {status}, which turns a {method} into a GET: "
                    "use the address of the redirect instead",
                    key=url,
                )
            url = _redirected(url, location)
        raise AdminApiError(f"the brokers redirect the request more than {_MOST_REDIRECTS} times", key=self.address)

    def _once(self, method: str, url: str, body: bytes | None, tries: Tries) -> tuple[int, str, bytes]:
        is_change = method != "GET"
        headers = {**self._headers, "Content-Type": "application/json"} if is_change else self._headers
        request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310  (the scheme is checked)
        # The result of a change is unknown after a time-out, so it gets all of the time.
        patience = tries.rest if is_change else tries.patience
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
            if self._has_answered or (is_change and isinstance(error, http.client.RemoteDisconnected)):
                raise
            raise AdminApiError(f"the server does not answer with HTTP: {OTHER_PROTOCOL}", key=self.address) from error

    def _translated(self, error: BaseException, path: str) -> LedgerfsError:
        where = self.address + path
        if isinstance(error, StoreTimeoutError):
            return AdminApiUnreachableError(error.reason, key=where)
        if isinstance(error, WrongBodyError):
            return AdminApiError(error.reason, key=where)
        if isinstance(error, LedgerfsError):
            return error
        if isinstance(error, urllib.error.HTTPError):
            return AdminApiError(f"the admin API is busy or fails: status {error.code}", key=where)
        if isinstance(error, http.client.HTTPException):
            return AdminApiError(f"invalid HTTP answer ({type(error).__name__}): {_text_of(error)}", key=where)
        return AdminApiUnreachableError(_why_unreachable(error), key=self.address)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Returns redirects to the caller: the standard library would send the token without TLS, and to other schemes."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401
        """Follow no redirect."""
        return


def _no_password() -> str:
    """Refuse: OpenSSL would prompt at the terminal."""
    raise ValueError("the key is encrypted with a password, which is not supported")


def _checked_address(address: str) -> str:
    """Return a web service's address without a slash at its end; raises `InvalidOptionError` if it is invalid."""
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise InvalidOptionError(f"not a valid address of a broker: {error}", key="broker") from error
    if parts.username is not None or parts.password is not None:
        raise InvalidOptionError("the address must not contain a login; pass a token with --token-file", key="broker")
    if parts.scheme not in {"http", "https"} or not has_host or parts.query or parts.fragment or "," in parts.netloc:
        raise InvalidOptionError(f"not the address of one broker; {OTHER_PROTOCOL}", key=address)
    if not (address.isascii() and address.isprintable()) or " " in address:
        raise InvalidOptionError("the address must have only printable ASCII characters", key=printable(address))
    return address.rstrip("/")


def _checked_token(token: str) -> str:
    """Return a token as sent; raises `InvalidOptionError`, which does not contain it."""
    token = token.strip().removeprefix("token:")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidOptionError("the token is empty or has invalid characters", key="token")
    return token


def _body(answer: Any, tries: Tries) -> bytes:  # noqa: ANN401  (http.client's)
    """Return the whole body: at most `MOST_BYTES`, as long as announced, and within the request's time."""
    pieces, size = [], 0
    while piece := answer.read1(_PIECE):
        size += len(piece)
        pieces.append(piece)
        if size > MOST_BYTES:
            raise AdminApiError(f"the answer is too large: more than {MOST_BYTES} bytes")
        if tries.rest <= 0:
            raise StoreTimeoutError("the broker did not send its whole answer in time")
    if getattr(answer, "length", None):
        raise WrongBodyError(f"the answer is cut off: {answer.length} bytes are missing")
    return b"".join(pieces)


def _redirected(url: str, location: str) -> str:
    target = urljoin(url, location)
    schemes = (urlsplit(url).scheme, urlsplit(target).scheme)
    if not location or schemes[1] not in {"http", "https"} or schemes == ("https", "http"):
        raise AdminApiError(f"the broker redirects to {printable(target)!r}, which ledgerfs does not follow", key=url)
    return target


def _is_surely_undone(error: Exception) -> bool:
    """Return whether no broker can have begun the request: none was reached, or it refused."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _REFUSED
    if isinstance(error, ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError | AdminApiError):
        return True
    return isinstance(error, OSError) and not isinstance(error, LedgerfsError) and error.errno in _NO_WAY


def _uncertain(error: LedgerfsError) -> UncertainRequestError:
    return UncertainRequestError(
        f"it is unknown whether the broker carried out the request: {error.reason}", key=error.key
    )


def _why_unreachable(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "the broker did not answer in time"
    hint = "; for TLS, check the port, --tls-ca and --tls-cert" if isinstance(error, ssl.SSLError) else ""
    return f"the broker cannot be reached: {_text_of(error)}{hint}"


def _text_of(error: BaseException) -> str:
    return printable(" ".join(str(error).split())) or type(error).__name__

"""Requests to a broker's admin API: address, token and TLS, retries, redirects to other brokers, and every failure by its name.

What a broker was asked to do is not asked again where it may have been done, unless doing it twice is as good as once; where the answer is
lost and it is not known whether it was done, the error says so.
"""

import errno
import http.client
import json
import socket
import ssl
import urllib.error
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ledgerfs.display import printable
from ledgerfs.errors import (
    AdminApiError,
    AdminApiUnreachableError,
    LedgerfsError,
    StoreTimeoutError,
    UncertainRequestError,
    WrongBodyError,
)
from ledgerfs.storage.admin_api.access import checked_address, checked_token
from ledgerfs.storage.admin_api.answer import Answer
from ledgerfs.storage.admin_api.exchange import Exchange, Question
from ledgerfs.storage.retries import Tries, retry
from ledgerfs.storage.sent_requests import Asked, Sent
from ledgerfs.storage.traffic import Traffic

_REFUSED = frozenset({429, 503})
_NO_WAY = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL})


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

    __slots__ = ("_exchange", "_traffic", "address")

    def __init__(self, address: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.address = checked_address(address)
        headers = {"Accept": "application/json", "User-Agent": "ledgerfs"}
        if token is not None:
            headers["Authorization"] = f"Bearer {checked_token(token)}"
        self._exchange = Exchange(self.address, headers, tls)
        self._traffic = Traffic()

    def get(self, path: str, accept: Collection[int] = ()) -> Answer:
        """Return the answer to a GET, of whatever status but those of a refusal, unless they are in ``accept``."""
        answer = self._asked(Question("GET", path), is_repeatable=True)
        return answer if answer.status in accept else answer.require_allowed()

    def told(self, path: str) -> Any:  # noqa: ANN401  (JSON)
        """Return the value that a GET is answered with; raises as `get`, `Answer.require_ok` and `Answer.json`."""
        return self.get(path).require_ok().json()

    def change(self, method: str, path: str, value: object = None, *, is_repeatable: bool) -> Answer:
        """Have the broker do something, and return its answer, of whatever status but those of a refusal.

        Parameters
        ----------
        method
            ``PUT``, ``POST`` or ``DELETE``. Redirects keep it, and the body; one that does not is an error.
        path
            Of the API, encoded.
        value
            The body, of which JSON is made; None for none.
        is_repeatable
            Whether doing it twice is as good as once, so that a request whose answer was lost is sent again; `Answer.is_repeated` tells
            of that. Otherwise only what was certainly not done is tried again: no connection was made, or the broker is busy.

        Raises
        ------
        UncertainRequestError
            The broker may have done it, or may still do it.
        AdminApiError, AuthenticationError, AccessDeniedError
            It was not done.

        """
        body = None if value is None else json.dumps(value).encode()
        return self._asked(Question(method, path, body), is_repeatable=is_repeatable).require_allowed()

    def _asked(self, question: Question, *, is_repeatable: bool) -> Answer:
        tries = Tries(is_first_contact=not self._exchange.has_answered)
        asked = Asked(question.method, question.path)
        may_be_done = False

        def attempt() -> Answer:
            nonlocal may_be_done
            try:
                with Sent(asked, self._traffic, tries.number):
                    return self._exchange.answer(question, tries)
            except Exception as error:
                if question.is_change and not _is_surely_undone(error):
                    may_be_done = True
                    if not is_repeatable:
                        raise _uncertain(self._translated(error, question.path)) from error
                raise

        try:
            answer = retry(attempt, tries, asked.tell_retry)
        except UncertainRequestError:
            raise
        except Exception as error:
            told = tries.given_up(error, self._translated(error, question.path))
            raise (_uncertain(told) if may_be_done else told) from error
        self._exchange.has_answered = True
        return replace(answer, is_repeated=True) if may_be_done else answer

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


def _is_surely_undone(error: Exception) -> bool:
    """Whether no broker has begun with what it was asked for: none was reached, none is there, or it refused."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _REFUSED
    if isinstance(error, ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError | AdminApiError):
        return True
    return isinstance(error, OSError) and not isinstance(error, LedgerfsError) and error.errno in _NO_WAY


def _uncertain(error: LedgerfsError) -> UncertainRequestError:
    return UncertainRequestError(f"it is not known whether the broker has done it: {error.reason}", key=error.key)


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

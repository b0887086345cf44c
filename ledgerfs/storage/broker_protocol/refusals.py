"""What a broker refuses, by our names: what is so for good, and what may be otherwise soon."""

from ledgerfs.display import printable
from ledgerfs.errors import (
    AccessDeniedError,
    AuthenticationError,
    BrokerRefusalError,
    InvalidNameError,
    LedgerfsError,
    NotFoundError,
)
from ledgerfs.formats.broker_protocol.commands import ServerError

_MOST_REASON = 300
_PASSING = frozenset(
    {
        ServerError.UNKNOWN,
        ServerError.METADATA,
        ServerError.PERSISTENCE,
        ServerError.CONSUMER_BUSY,
        ServerError.NOT_READY,
        ServerError.TOO_MANY_REQUESTS,
        ServerError.CONSUMER_ASSIGN,
    }
)
_BY_NAME: dict[int, tuple[type[LedgerfsError], str]] = {
    ServerError.AUTHENTICATION: (AuthenticationError, "the broker does not know who asks"),
    ServerError.AUTHORIZATION: (AccessDeniedError, "the broker refused"),
    ServerError.TOPIC_NOT_FOUND: (NotFoundError, "the broker has no such topic"),
    ServerError.SUBSCRIPTION_NOT_FOUND: (NotFoundError, "the broker has no such topic"),
    ServerError.INVALID_TOPIC_NAME: (InvalidNameError, "the broker does not take this name"),
}


class _PassingRefusalError(ConnectionError):
    """A refusal after which the same question may be answered, by this broker or another one."""


def refusal(error: int, message: bytes, *, key: str) -> LedgerfsError | _PassingRefusalError:
    """Return what to raise for a broker's error; ``key`` names what was asked for, and the broker.

    Those that may pass are connection errors, after which the question is put again; `BrokerRefusalError` is any other of no name here.
    """
    text = printable(" ".join(message.decode(errors="replace").split())[:_MOST_REASON])
    told = f": {text}" if text else ""
    if error in _PASSING:
        return _PassingRefusalError(f"the broker refuses with error {error}{told}")
    kind, reason = _BY_NAME.get(error, (BrokerRefusalError, f"the broker refuses with error {error}"))
    return kind(f"{reason}{told}", key=key)

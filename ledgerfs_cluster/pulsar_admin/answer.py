"""What a broker's admin API answered, and every refusal by its name."""

import json
from dataclasses import dataclass
from typing import Any, Self

from ledgerfs.display import printable
from ledgerfs.errors import AccessDeniedError, AuthenticationError, InvalidNameError, NotFoundError
from ledgerfs_cluster.errors import AdminApiError

OTHER_PROTOCOL = (
    "this is not the web service of a broker, which is usually http://host:8080, or https://host:8443 "
    "(pulsar://host:6650 is another port)"
)
_MOST_REASON = 300
_DONE = frozenset({200, 204})


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered.

    Attributes
    ----------
    is_repeated
        Whether the same request was sent before, and may have been done then: a refusal may be of what it did itself.

    """

    address: str
    path: str
    status: int
    body: bytes
    is_repeated: bool = False

    @property
    def where(self) -> str:
        """The URL that was asked."""
        return self.address + self.path

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
            raise self.unexpected(f"no JSON ({start!r}); {OTHER_PROTOCOL}") from None

    def unexpected(self, what: str) -> AdminApiError:
        """Return the error for an answer with something else than it should have."""
        return AdminApiError(f"the admin API answered with {what}", key=self.where)

    def require_allowed(self) -> Self:
        """Return the answer unless its status is one of who may ask; raises `AuthenticationError` or `AccessDeniedError` then."""
        told = f": {self.reason}" if self.reason else ""
        if self.status == 401:
            raise AuthenticationError(
                f"the broker does not know who asks{told}; is the token (--token-file) missing or expired?",
                key=self.where,
            )
        if self.status in {403, 407}:
            raise AccessDeniedError(f"the broker refused{told}; the token's role may not do this", key=self.where)
        return self

    def require_ok(self) -> Self:
        """Return the answer if it is one of success; raises `NotFoundError`, `InvalidNameError` or `AdminApiError` otherwise."""
        if self.status in _DONE:
            return self
        reason = self.reason
        if self.status == 404 and reason:
            raise NotFoundError(f"the broker answered: {reason}", key=self.where)
        if self.status == 412 and reason:
            raise InvalidNameError(f"the broker does not take this name: {reason}", key=self.where)
        told = f": {reason}" if reason else ""
        hint = f"; {OTHER_PROTOCOL}" if self.status == 404 else ""
        raise AdminApiError(f"the admin API answered with status {self.status}{told}{hint}", key=self.where)

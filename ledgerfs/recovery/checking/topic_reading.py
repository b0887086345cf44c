"""How a topic is read through its brokers: what the comparison needs of a client."""

from contextlib import AbstractContextManager
from typing import Protocol

from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.recovery.checking.messages import ClientMessage


class TopicReading(Protocol):
    """One reader of a topic, for one thread."""

    def next(self, wait_s: float) -> ClientMessage | None:
        """Return the next message in the order in which brokers send them; None if none comes for so long."""
        ...

    def is_at_end(self) -> bool:
        """Whether brokers say that the topic has no message behind the last one that came."""
        ...


class ReadService(Protocol):
    """The brokers of a cluster.

    Attributes
    ----------
    silence_s
        How long nothing may come, in seconds, before it counts as a pause; after three of them the reading is over.
    patience_s
        How long nothing may come, in seconds, where something has to: a broker may read it from a slow store, and tries again after 15 s.

    """

    @property
    def silence_s(self) -> float: ...  # noqa: D102

    @property
    def patience_s(self) -> float: ...  # noqa: D102

    def reading(self, topic: str, start: Position | None) -> AbstractContextManager[TopicReading]:
        """Return a reader of all messages, or of those from an entry on.

        It and its methods raise `StoreUnreachableError`, `AuthenticationError`, `AccessDeniedError`, `NotFoundError`, `InvalidNameError`,
        and `BrokerRefusalError` for any other refusal.
        """
        ...

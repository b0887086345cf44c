"""What brokers serve of a restored topic, compared with its ledgers in the bucket, message by message.

Pulsar's client reads the topic, as any other reader of it. A broker sends everything but markers and messages of aborted transactions. All
else has to come once, in the order of the topic, with its place, payload, key, properties and times (`Message.is_served_as`). Of encrypted
messages the payload is compared as it was encrypted: no key is needed.
"""

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import EntryRangeError
from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.recovery.checking.expected_messages import expected_messages
from ledgerfs_cluster.recovery.checking.messages import Message, MessagePlace, message_of
from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService, TopicReading

_WRONG = {"differing": "differ", "missing": "missing", "unexpected": "unexpected", "repeated": "repeated"}
"""Kinds of messages that are not as they should be, and how a sentence names them."""
_MOST_NAMED = 10
_MOST_IN_VAIN = 3
"""After so many ledgers of which nothing came, one after the other, the rest counts as missing: waiting takes time."""
_MOST_AHEAD = 10_000
_PAUSES = 3


class _SilenceError(Exception):
    """Something has to come, and does not, and brokers do not say that the topic ends here."""


@dataclass(slots=True)
class TopicComparison:
    """What came of a topic through the brokers.

    Attributes
    ----------
    counts
        How many messages came as they are (``same``), came as others (``differing``), did not come (``missing``), came though the bucket
        does not have them, or brokers must not send them (``unexpected``), came again or after later ones (``repeated``), came of ledgers
        after the last restored one (``appended``), and did not come since the client drops them: empty ones in zlib (``not_compared``).
    first
        Where the first few of each kind are, by the ids that brokers give them.
    is_silent
        Whether the brokers got no further somewhere, for some time, before all had come: what is missing there may come later.

    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[MessagePlace]] = field(default_factory=dict)
    is_silent: bool = False

    @property
    def expected(self) -> int:
        """How many messages of the bucket brokers have to send."""
        return self.counts["same"] + self.counts["differing"] + self.counts["missing"]

    @property
    def is_whole(self) -> bool:
        """Whether everything came, once, in order, as it is, and nothing else."""
        return not any(self.counts[kind] for kind in _WRONG)

    def add(self, kind: str, message: Message) -> None:
        """Count a message."""
        self.counts[kind] += 1
        first = self.first.setdefault(kind, [])
        if len(first) < _MOST_NAMED:
            first.append(message.place)

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            "expected": self.expected,
            **{name: self.counts[name] for name in ("same", "appended", "not_compared")},
            "is_silent": self.is_silent,
            **{
                kind: {"messages": self.counts[kind], "first": list(map(str, self.first.get(kind, ())))}
                for kind in _WRONG
            },
        }

    def __str__(self) -> str:
        """Return it in words."""
        parts = [f"{self.counts['same']:,} of {self.expected:,} the same"]
        for kind, word in _WRONG.items():
            if self.counts[kind]:
                parts.append(f"{self.counts[kind]:,} {word} ({', '.join(map(str, self.first[kind][:3]))})")
        if self.counts["appended"]:
            parts.append(f"{self.counts['appended']:,} appended since")
        if self.is_silent:
            parts.append("brokers stopped sending")
        if self.counts["not_compared"]:
            parts.append(f"{self.counts['not_compared']:,} not compared (Pulsar's client drops them)")
        return ", ".join(parts)


def compare_topic(
    service: PulsarService,
    topic: str,
    ledgers: Sequence[LedgerReader],
    hidden: Mapping[int, Int64],
    ids: Mapping[int, int] | None = None,
) -> TopicComparison:
    """Read a restored topic through its brokers and compare it with the bucket.

    Parameters
    ----------
    service
        The brokers.
    topic
        ``persistent://tenant/namespace/name``; a partitioned one is compared by its partitions.
    ledgers
        The bucket's ledgers of the topic that were restored, ascending by id.
    hidden
        {id of a ledger: ids of its entries that brokers must not send}, those of aborted transactions; markers are found here.
    ids
        {id of a ledger: the one that brokers know it by}, for those that were restored under another one; ascending as the ids are.

    Raises
    ------
    StoreUnreachableError, AuthenticationError, AccessDeniedError, NotFoundError, InvalidNameError, BrokerRefusalError
        The brokers cannot be read (`PulsarService.reading`).
    CorruptLedgerError, CorruptMessageError, ObjectNotFoundError, StoreError
        The bucket cannot be read, or what it has cannot be decoded.
    EntryRangeError
        Ledgers are not in the order of their ids, or of those that brokers know them by.

    """
    own = [one.ref.ledger_id for one in ledgers]
    known = [(ids or {}).get(one, one) for one in own]
    for one, other in (*pairwise(own), *pairwise(known)):
        if one >= other:
            raise EntryRangeError(f"ledger {other} comes after {one}, and a topic is read in the order of ids")
    found, wanted = TopicComparison(), _Wanted(expected_messages(topic, ledgers, hidden, known))
    highest: MessagePlace | None = None
    for came in _sent(service, topic, known, wanted, found):
        if highest is not None and came.place <= highest:
            found.add("repeated", came)
            continue
        highest = came.place
        for missed in wanted.before(came.place):
            found.add("not_compared" if missed.is_dropped else "missing", missed)
        expected = wanted.at(came.place)
        if expected is not None:
            found.add("same" if expected.is_served_as(came) else "differing", expected)
        else:
            found.add("appended" if not known or came.place.ledger_id > known[-1] else "unexpected", came)
    for missed in wanted.before(None):
        found.add("not_compared" if missed.is_dropped else "missing", missed)
    return found


class _Wanted:
    """The messages that are still to come; those that the client drops may never come."""

    def __init__(self, messages: Iterator[Message]) -> None:
        self._messages = messages
        self._next = deque[Message]()

    def is_due(self) -> bool:
        """Whether one is left that a client gets."""
        while not self._next or self._next[-1].is_dropped:
            message = next(self._messages, None) if len(self._next) < _MOST_AHEAD else None
            if message is None:
                return False
            self._next.append(message)
        return True

    def before(self, place: MessagePlace | None) -> Iterator[Message]:
        """Yield those before a place; all without one."""
        while (self.is_due() or self._next) and (place is None or self._next[0].place < place):
            yield self._next.popleft()

    def at(self, place: MessagePlace) -> Message | None:
        """Return the one at a place, if it is the next one."""
        return self._next.popleft() if self._next and self._next[0].place == place else None


def _sent(
    service: PulsarService, topic: str, ids: Sequence[int], wanted: _Wanted, found: TopicComparison
) -> Iterator[Message]:
    """Yield all that comes, but nothing that is appended from now on; raises as `PulsarService.reading`.

    Where brokers get no further they are asked for the next ledger: perhaps they lack only that one.
    """
    start: Position | None = None
    began_ms = time.time_ns() // 1_000_000
    in_vain = 0
    while in_vain < _MOST_IN_VAIN:
        last: Position | None = None
        try:
            with service.reading(topic, start) as reading:
                while (sent := _next(service, reading, wanted)) is not None:
                    message = message_of(sent)
                    last = message.place.position
                    if message.publish_ms > began_ms and message.place.ledger_id > max(ids, default=-1):
                        return
                    yield message
                return
        except _SilenceError:
            found.is_silent = True
        in_vain = in_vain + 1 if last is None else 0
        at = last or start or Position(ids[0], 0)
        behind = next((one for one in ids if one > at.ledger_id), None)
        if behind is None:
            return
        start = Position(behind, 0)


def _next(service: PulsarService, reading: TopicReading, wanted: _Wanted) -> Any:  # noqa: ANN401  (`pulsar.Message`)
    """Return the next message; None at the end. Waits for what is due also behind the end that brokers name. Raises `_SilenceError`."""
    is_due = wanted.is_due()
    if not is_due and reading.is_at_end():
        return None
    pauses = 0
    while (sent := reading.next(service.silence_s)) is None:
        pauses += 1
        if is_due and reading.is_at_end():
            return None
        if pauses < _PAUSES:
            continue
        if not is_due:
            # Brokers may call a marker the last message, and the client never gets beyond a batch that it cannot decrypt.
            return None
        if pauses * service.silence_s >= service.patience_s:
            raise _SilenceError
    return sent

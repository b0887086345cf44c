"""What brokers serve of a restored topic, compared with its ledgers in the bucket, message by message.

Pulsar's client reads the topic, as any other reader of it. A broker sends everything but markers and messages of aborted transactions. All
else has to come once, in the order of the topic, with its place, payload, key, properties and times (`Message.is_served_as`). Of encrypted
messages the payload is compared as it was encrypted: no key is needed.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.recovery.checking.expected_messages import ExpectedMessages
from ledgerfs.recovery.checking.messages import (
    ClientMessage,
    Message,
    MessagePlace,
    ReadService,
    TopicReading,
    message_of,
)

_MOST_NAMED = 10
_MOST_IN_VAIN = 3
"""Of how many ledgers, or entries of a sample, nothing may come, one after the other, before the rest counts as missing: it takes time."""
_PAUSES = 3


class _SilenceError(Exception):
    """Something has to come, and does not, and brokers do not say that the topic ends here."""


@dataclass(frozen=True, slots=True)
class Found:
    """Some messages of a topic: how many, and the first few of them, by the ids that brokers give them."""

    count: int = 0
    first: tuple[MessagePlace, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicComparison:
    """What came of a topic through the brokers.

    Attributes
    ----------
    topic
        ``persistent://tenant/namespace/name``.
    expected
        How many messages of the bucket brokers have to send, of those that were compared.
    same
        How many came as they are.
    differing
        Those that came as others.
    missing
        Those that did not come.
    unexpected
        Messages that came, and that the bucket does not have, or that brokers must not send.
    repeated
        Messages that came again, or after later ones.
    appended
        How many came of ledgers after the last restored one; None if only some entries were compared.
    is_sample
        Whether only some entries were compared.
    is_silent
        Whether the brokers got no further somewhere, for some time, before all had come: what is missing there may come later.
    not_compared
        Messages that did not come, and that the client drops whatever brokers send: empty ones in zlib.

    """

    topic: str
    expected: int
    same: int
    differing: Found
    missing: Found
    unexpected: Found
    repeated: Found
    appended: int | None
    is_sample: bool
    is_silent: bool
    not_compared: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether everything came, once, in order, as it is, and nothing else."""
        return not (self.differing.count or self.missing.count or self.unexpected.count or self.repeated.count)


def compare_topic(
    service: ReadService,
    topic: str,
    ledgers: Sequence[LedgerReader],
    hidden: Mapping[int, Int64],
    *,
    sample: int | None = None,
    seed: int = 0,
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
    sample
        How many entries are compared besides the first and the last one; None for all. Parts of chunked messages are never among them.
    seed
        Which ones are chosen: the same seed chooses the same.
    ids
        {id of a ledger: the one that brokers know it by}, for those that were restored under another one; ascending as the ids are.

    Raises
    ------
    StoreUnreachableError, AuthenticationError, AccessDeniedError, NotFoundError, InvalidNameError, BrokerRefusalError
        The brokers cannot be read (`ReadService.reading`).
    CorruptLedgerError, CorruptMessageError, ObjectNotFoundError, StoreError
        The bucket cannot be read, or what it has cannot be decoded.
    EntryRangeError
        Ledgers are not in the order of their ids, or of those that brokers know them by.

    """
    expected = ExpectedMessages(topic, ledgers, hidden, ids)
    if sample is None:
        return _compare_all(service, topic, expected)
    return _compare_some(service, topic, expected, sample, seed)


class _Tally:
    """Counts messages by what became of them, and keeps the first of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: dict[str, list[MessagePlace]] = {}

    def add(self, kind: str, message: Message) -> None:
        self.counts[kind] += 1
        first = self.first.setdefault(kind, [])
        if len(first) < _MOST_NAMED:
            first.append(message.place)

    def compare(self, wanted: Message, came: Message) -> None:
        self.add("same" if wanted.is_served_as(came) else "differing", wanted)

    def miss(self, wanted: Message) -> None:
        self.add("dropped" if wanted.is_dropped else "missing", wanted)

    def found(self, kind: str) -> Found:
        return Found(self.counts[kind], tuple(self.first.get(kind, ())))

    def comparison(self, topic: str, *, is_sample: bool, is_silent: bool) -> TopicComparison:
        same, appended = self.counts["same"], None if is_sample else self.counts["appended"]
        return TopicComparison(
            topic,
            same + self.counts["differing"] + self.counts["missing"],
            same,
            self.found("differing"),
            self.found("missing"),
            self.found("unexpected"),
            self.found("repeated"),
            appended,
            is_sample,
            is_silent,
            self.counts["dropped"],
        )


def _compare_all(service: ReadService, topic: str, expected: ExpectedMessages) -> TopicComparison:
    tally = _Tally()
    sent = _Sent(service, topic, expected)
    _take(expected.messages(), sent.messages(), expected.last_ledger, tally)
    return tally.comparison(topic, is_sample=False, is_silent=sent.is_silent)


class _Sent:
    """What brokers send of a topic; where they get no further they are asked for the next ledger, since they may have only that one not.

    Attributes
    ----------
    is_silent
        Whether they got no further once.

    """

    def __init__(self, service: ReadService, topic: str, expected: ExpectedMessages) -> None:
        self.is_silent = False
        self._service = service
        self._topic = topic
        self._expected = expected
        self._until = expected.last()
        self._last: MessagePlace | None = None

    def messages(self) -> Iterator[Message]:
        """Yield all that comes, but nothing that is appended from now on; raises as `ReadService.reading`."""
        start: Position | None = None
        began_ms = time.time_ns() // 1_000_000
        in_vain = 0
        while in_vain < _MOST_IN_VAIN:
            self._last = None
            try:
                with self._service.reading(self._topic, start) as reading:
                    for message in self._read(reading):
                        if message.place.ledger_id > self._expected.last_ledger and message.publish_ms > began_ms:
                            return
                        yield message
                    return
            except _SilenceError:
                self.is_silent = True
            in_vain = in_vain + 1 if self._last is None else 0
            behind = self._expected.ledger_after(start if self._last is None else self._last.position)
            if behind is None:
                return
            start = Position(behind, 0)

    def _read(self, reading: TopicReading) -> Iterator[Message]:
        """Yield what comes up to the end; waits for the last expected message, also behind the end that brokers name."""
        while True:
            is_due = self._until is not None and (self._last is None or self._last < self._until)
            sent = _next(self._service, reading, is_due=is_due)
            if sent is None:
                return
            message = message_of(sent)
            self._last = message.place
            yield message


def _next(service: ReadService, reading: TopicReading, *, is_due: bool) -> ClientMessage | None:
    """Return the next message; None at the end. Raises `_SilenceError`."""
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


def _take(expected: Iterator[Message], sent: Iterator[Message], last_ledger: int, tally: _Tally) -> None:
    """Compare messages, both in the order of the topic, but for what came again or too late."""
    wanted = next(expected, None)
    highest: MessagePlace | None = None
    for came in sent:
        if highest is not None and came.place <= highest:
            tally.add("repeated", came)
            continue
        highest = came.place
        while wanted is not None and wanted.place < came.place:
            tally.miss(wanted)
            wanted = next(expected, None)
        if wanted is not None and wanted.place == came.place:
            tally.compare(wanted, came)
            wanted = next(expected, None)
        elif came.place.ledger_id > last_ledger:
            tally.add("appended", came)
        else:
            tally.add("unexpected", came)
    while wanted is not None:
        tally.miss(wanted)
        wanted = next(expected, None)


def _compare_some(
    service: ReadService, topic: str, expected: ExpectedMessages, size: int, seed: int
) -> TopicComparison:
    tally = _Tally()
    is_silent, in_vain = False, 0
    for number, position in expected.sample(size, seed):
        wanted = expected.messages_of(number, position)
        came: list[Message] = []
        if in_vain < _MOST_IN_VAIN:
            is_silent |= not _read_entry(service, topic, position, len(wanted), came)
        in_vain = 0 if came else in_vain + 1
        _take(iter(wanted), iter(came), expected.last_ledger, tally)
    return tally.comparison(topic, is_sample=True, is_silent=is_silent)


def _read_entry(service: ReadService, topic: str, position: Position, count: int, came: list[Message]) -> bool:
    """Add the messages of an entry that come, which has so many; return whether brokers did not fall silent."""
    with suppress(_SilenceError), service.reading(topic, position) as reading:
        while len(came) < count and (sent := _next(service, reading, is_due=True)) is not None:
            message = message_of(sent)
            if message.place.position != position:
                break
            came.append(message)
        return True
    return False

"""What brokers serve of a restored topic, compared with its ledgers in the bucket, entry by entry and as bytes.

A broker sends everything but markers and messages of aborted transactions. All else has to come once, in the order of the topic, with the
bytes that the bucket has; only entries of committed transactions may differ as a settled copy of them does (`same_entries`). Nothing is
decompressed, decrypted or put together.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.broker_protocol.commands import EARLIEST
from ledgerfs.formats.broker_protocol.frames import SentEntries
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.decode.same_entries import equal_entries, is_settled
from ledgerfs.recovery.checking.expected_entries import EntryBlock, ExpectedEntries
from ledgerfs.storage.broker_protocol.reading import EntryReading, read_each
from ledgerfs.storage.broker_protocol.service import BrokerService

_MOST_NAMED = 10
_MOST_IN_VAIN = 3
"""Of how many ledgers, or entries of a sample, nothing may come, one after the other, before the rest counts as missing: it takes time."""


@dataclass(frozen=True, slots=True)
class Found:
    """Some entries of a topic: how many, and the first few of them, by the ids that brokers give them."""

    count: int = 0
    first: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicComparison:
    """What came of a topic through the brokers.

    Attributes
    ----------
    topic
        ``persistent://tenant/namespace/name``.
    expected
        How many entries of the bucket brokers have to send, of those that were compared.
    same
        How many came as they are.
    differing
        Those that came with other bytes.
    missing
        Those that did not come.
    unexpected
        Entries that came, and that the bucket does not have, or that brokers must not send.
    repeated
        Entries that came again, or after later ones.
    appended
        How many came of ledgers after the last restored one; None if only some entries were compared.
    is_sample
        Whether only some entries were compared.
    is_silent
        Whether the brokers got no further somewhere, for some time, before the end that they told: what is missing there may come later.

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

    @property
    def is_whole(self) -> bool:
        """Whether everything came, once, in order, as it is, and nothing else."""
        return not (self.differing.count or self.missing.count or self.unexpected.count or self.repeated.count)


def compare_topic(
    service: BrokerService,
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
        How many entries are compared besides the first and the last one; None for all.
    seed
        Which ones are chosen: the same seed chooses the same.
    ids
        {id of a ledger: the one that brokers know it by}, for those that were restored under another one; ascending as the ids are.

    Raises
    ------
    StoreUnreachableError, AuthenticationError, AccessDeniedError, NotFoundError, InvalidNameError, BrokerRefusalError, CorruptReplyError
        The brokers cannot be read (`EntryReading`).
    CorruptLedgerError, ObjectNotFoundError, StoreError
        The bucket cannot be read.
    EntryRangeError
        Ledgers are not in the order of their ids, or of those that brokers know them by.

    """
    expected = ExpectedEntries(ledgers, hidden, ids)
    if sample is None:
        return _compare_all(service, topic, expected)
    return _compare_some(service, topic, expected, sample, seed)


@dataclass(slots=True)
class _Tally:
    """Counts entries of one kind, and keeps the first of them."""

    count: int = 0
    first: list[Position] = field(default_factory=list)

    def add(self, ledger_id: int, entries: Int64) -> None:
        self.count += int(entries.size)
        room = _MOST_NAMED - len(self.first)
        self.first += [Position(ledger_id, entry) for entry in entries[:room].tolist()]

    @property
    def found(self) -> Found:
        return Found(self.count, tuple(self.first))


@dataclass(slots=True)
class _Tallies:
    same: int = 0
    appended: int = 0
    differing: _Tally = field(default_factory=_Tally)
    missing: _Tally = field(default_factory=_Tally)
    unexpected: _Tally = field(default_factory=_Tally)
    repeated: _Tally = field(default_factory=_Tally)

    def comparison(self, topic: str, *, is_sample: bool, is_silent: bool) -> TopicComparison:
        return TopicComparison(
            topic,
            self.same + self.differing.count + self.missing.count,
            self.same,
            self.differing.found,
            self.missing.found,
            self.unexpected.found,
            self.repeated.found,
            None if is_sample else self.appended,
            is_sample,
            is_silent,
        )


def _compare_all(service: BrokerService, topic: str, expected: ExpectedEntries) -> TopicComparison:
    tallies = _Tallies()
    sent = _Sent(service, topic, expected)
    for wanted, came in _side_by_side(expected.blocks(), _in_order(sent.blocks(), tallies)):
        _take(wanted, came, expected.last_ledger, tallies)
    return tallies.comparison(topic, is_sample=False, is_silent=sent.is_silent)


class _Sent:
    """What brokers send of a topic; where they get no further they are asked for the next ledger, since they may have only that one not.

    Attributes
    ----------
    is_silent
        Whether they got no further once.

    """

    def __init__(self, service: BrokerService, topic: str, expected: ExpectedEntries) -> None:
        self.is_silent = False
        self._service = service
        self._topic = topic
        self._expected = expected

    def blocks(self) -> Iterator[SentEntries]:
        """Yield all that comes; raises as `EntryReading` does."""
        start: Position | None = None
        until = self._expected.last()
        in_vain = 0
        while in_vain < _MOST_IN_VAIN:
            with closing(EntryReading(self._service, self._topic, start, until=until)) as reading:
                yield from reading
            if not reading.is_silent:
                return
            self.is_silent = True
            in_vain = in_vain + 1 if reading.last is None else 0
            behind = self._expected.ledger_after(reading.last or start)
            if behind is None:
                return
            start = Position(behind, 0)


def _in_order(came: Iterator[SentEntries], tallies: _Tallies) -> Iterator[EntryBlock]:
    """Yield what came as blocks of one ledger each, without entries that came before, or after later ones."""
    last = EARLIEST
    for sent in came:
        for start, stop in pairwise([0, *(np.flatnonzero(np.diff(sent.ledgers)) + 1).tolist(), len(sent)]):
            block = _block_of(sent.rows(slice(start, stop)))
            # The greatest id of all before each one; what is not above it came already, or comes too late.
            before = last.entry_id if block.ledger_id == last.ledger_id else -1
            highest = np.maximum.accumulate(np.concatenate(([before], block.ids)))[:-1]
            is_next = (block.ids > highest) & (block.ledger_id >= last.ledger_id)
            tallies.repeated.add(block.ledger_id, block.ids[~is_next])
            block = block.rows(is_next)
            if len(block):
                last = Position(block.ledger_id, int(block.ids[-1]))
                yield block


def _side_by_side(
    expected: Iterator[EntryBlock], sent: Iterator[EntryBlock]
) -> Iterator[tuple[EntryBlock | None, EntryBlock | None]]:
    """Yield blocks of both of the same ledger and the same range of ids, or one of either where the other has none there."""
    one, other = next(expected, None), next(sent, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one.ledger_id < other.ledger_id):
            yield one, None
            one = next(expected, None)
        elif one is None or other.ledger_id < one.ledger_id:
            yield None, other
            other = next(sent, None)
        else:
            last = min(int(one.ids[-1]), int(other.ids[-1]))
            (wanted, one), (came, other) = one.split(last), other.split(last)
            yield wanted, came
            one = one if len(one) else next(expected, None)
            other = other if len(other) else next(sent, None)


def _take(wanted: EntryBlock | None, came: EntryBlock | None, last_ledger: int, tallies: _Tallies) -> None:
    """Compare two blocks of one range of ids."""
    if wanted is None or came is None:
        if wanted is not None:
            tallies.missing.add(wanted.ledger_id, wanted.ids)
        elif came is not None and came.ledger_id > last_ledger:
            tallies.appended += len(came)
        elif came is not None:
            tallies.unexpected.add(came.ledger_id, came.ids)
        return
    if not np.array_equal(wanted.ids, came.ids):
        tallies.missing.add(wanted.ledger_id, np.setdiff1d(wanted.ids, came.ids, assume_unique=True))
        tallies.unexpected.add(came.ledger_id, np.setdiff1d(came.ids, wanted.ids, assume_unique=True))
        _, rows, sent_rows = np.intersect1d(wanted.ids, came.ids, assume_unique=True, return_indices=True)
        wanted, came = wanted.rows(rows), came.rows(sent_rows)
    _compare(wanted, came, tallies)


def _compare(wanted: EntryBlock, came: EntryBlock, tallies: _Tallies) -> None:
    """Compare the bytes of the same entries."""
    is_same = equal_entries(wanted.batch, came.batch)
    for row in np.flatnonzero(~is_same).tolist():
        is_same[row] = is_settled(wanted.bytes_of(row), came.bytes_of(row))
    tallies.same += int(np.count_nonzero(is_same))
    tallies.differing.add(wanted.ledger_id, wanted.ids[~is_same])


def _compare_some(
    service: BrokerService, topic: str, expected: ExpectedEntries, size: int, seed: int
) -> TopicComparison:
    tallies = _Tallies()
    chosen = expected.sample(size, seed)
    is_silent, in_vain = False, 0
    with closing(read_each(service, topic, [position for _, position in chosen])) as came:
        for number, position in chosen:
            sent = next(came)[1] if in_vain < _MOST_IN_VAIN else None
            is_silent |= sent is None
            in_vain = in_vain + 1 if sent is None else 0
            ids = np.array([position.entry_id])
            if sent is None or (int(sent.ledgers[0]), int(sent.entries[0])) != position:
                tallies.missing.add(position.ledger_id, ids)
                continue
            data = memoryview(expected.read(number, position))
            wanted = EntryBlock(position.ledger_id, ids, data, np.zeros(1, np.int64), np.array([len(data)]))
            _compare(wanted, _block_of(sent), tallies)
    return tallies.comparison(topic, is_sample=True, is_silent=is_silent)


def _block_of(sent: SentEntries) -> EntryBlock:
    """Return entries of one ledger, as they came."""
    return EntryBlock(int(sent.ledgers[0]), sent.entries, sent.buffer, sent.offsets, sent.lengths)

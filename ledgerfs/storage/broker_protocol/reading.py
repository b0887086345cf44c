"""The entries of a topic as a broker sends them to a client, across broken connections, to the end that the broker tells.

Nothing is acknowledged, and the subscription is gone with the connection. Brokers send no markers and nothing of aborted transactions; the
end that they tell is the last message that they would send, or with older brokers the last entry, which may be a marker. So a reading is
also over when nothing comes for a while although there are permits, and it says so.
"""

import secrets
import ssl
import time
from collections.abc import Callable, Generator, Iterable, Iterator

from ledgerfs.display import printable
from ledgerfs.errors import CorruptReplyError, LedgerfsError, StoreTimeoutError, StoreUnreachableError
from ledgerfs.formats.broker_protocol.commands import (
    EARLIEST,
    Command,
    close_consumer,
    flow,
    last_position,
    position_of,
    subscribe,
)
from ledgerfs.formats.broker_protocol.frames import SentEntries
from ledgerfs.formats.broker_protocol.proto.commands_pb2 import CommandRecord
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.storage.broker_protocol.connection import BrokerConnection
from ledgerfs.storage.broker_protocol.owner import connect_to_owner
from ledgerfs.storage.broker_protocol.refusals import refusal
from ledgerfs.storage.broker_protocol.service import BrokerService
from ledgerfs.storage.retries import Tries, store_timeout
from ledgerfs.storage.sent_requests import Asked

_PERMITS = 1 << 20
"""Messages that a broker may send ahead; TCP holds it back long before."""

_MOST_REPEATED = 1 << 20


class EntryReading:
    """One reading of a topic, for one thread: an iterator over the entries in the order in which a broker sends them.

    An entry that the broker sends several times comes several times, but not the one with which it begins again after a connection broke.

    Parameters
    ----------
    service
        The brokers.
    topic
        ``persistent://tenant/namespace/name``; a partitioned one is read by its partitions.
    start
        The first entry that is wanted, or the next one that there is; None for all.
    until
        An entry that is waited for even if it is behind the end that the broker tells, as that of a compacted topic may be; None for none.

    Attributes
    ----------
    end
        Where the topic ended when the reading began, as the broker told; None before. Nothing of what is appended later is waited for.
    last
        The last place of which entries came; None before.
    is_silent
        Whether it ended because nothing came any more, before the end that the broker tells.

    Raises
    ------
    StoreUnreachableError, StoreTimeoutError
        No broker could be reached, even after retries.
    AuthenticationError, AccessDeniedError, NotFoundError, InvalidNameError, BrokerRefusalError
        The broker refuses.
    CorruptReplyError
        What came is not Pulsar's protocol.

    """

    def __init__(
        self, service: BrokerService, topic: str, start: Position | None = None, *, until: Position | None = None
    ) -> None:
        self.topic = topic
        self.end: Position | None = None
        self.last: Position | None = None
        self.is_silent = False
        self._service = service
        self._start = EARLIEST if start is None else start
        self._until = EARLIEST if until is None else until
        self._repeated = 0
        self._blocks = self._all()

    def __iter__(self) -> Iterator[SentEntries]:
        return self

    def __next__(self) -> SentEntries:
        return next(self._blocks)

    def close(self) -> None:
        """End it early."""
        self._blocks.close()

    def _all(self) -> Generator[SentEntries]:
        attempts = _Attempts(self._service, self.topic)
        while True:
            try:
                with attempts.connection() as connection:
                    before = self.last
                    for block in self._from(connection):
                        if self.last != before:
                            attempts.succeed()
                        before = self.last
                        yield block
                    return
            except Exception as error:  # noqa: BLE001  (whatever sockets and TLS raise)
                attempts.wait_after(error)

    def _from(self, connection: BrokerConnection) -> Iterator[SentEntries]:
        """Yield what comes over one connection, up to the end."""
        again = self.last
        consumer = _subscribed(connection, self.topic, self._start if again is None else again)
        if self.end is None:
            self.end = _end_of(connection, self.topic, consumer)
        permits, looks = 0, 0
        while not self._is_at_end(self.end):
            if permits < _PERMITS // 2:
                connection.send(flow(consumer, _PERMITS))
                permits += _PERMITS
            block = connection.entries(self._service.silence_s)
            if block is None:
                looks += 1
                if self._is_over(connection, consumer, looks):
                    return
                continue
            looks = 0
            permits -= int(block.messages.sum())
            block, again = _without_first(block, again), None
            if len(block):
                self._note(block)
                yield block

    def _is_over(self, connection: BrokerConnection, consumer: int, looks: int) -> bool:
        """Whether nothing is waited for any longer after some looks for more in vain."""
        end = _end_of(connection, self.topic, consumer)
        is_due = not (self._is_at(end) or self._is_at(self._until))
        is_enough = self._service.is_enough(looks, is_due=is_due)
        # A broker that was only slow has sent entries before its answer.
        is_over = self._is_at_end(end) or (is_enough and not connection.has_entries)
        self.is_silent = is_over and not self._is_at(end)
        return is_over

    def _is_at_end(self, end: Position) -> bool:
        """Whether all was sent up to an end, and what is waited for; a ledger below 0 is that of a topic with nothing in it."""
        return end.ledger_id < 0 or (self._is_at(end) and self._is_at(self._until))

    def _is_at(self, position: Position) -> bool:
        if position.ledger_id < 0:
            return True
        return self.last is not None and position.entry_id >= 0 and self.last >= position

    def _note(self, block: SentEntries) -> None:
        newest = _newest(block)
        if self.last is None or newest > self.last:
            self.last, self._repeated = newest, 0
            return
        self._repeated += len(block)
        if self._repeated > _MOST_REPEATED:
            raise CorruptReplyError(f"the broker sends entries of before {self.last} again and again", key=self.topic)


def read_entries(service: BrokerService, topic: str, start: Position | None = None) -> EntryReading:
    """Return the entries of a topic from ``start`` on, or all; raises as `EntryReading` tells while they are read."""
    return EntryReading(service, topic, start)


def read_each(
    service: BrokerService, topic: str, positions: Iterable[Position]
) -> Generator[tuple[Position, SentEntries | None]]:
    """Yield for each position the first entry that a reader gets which begins there, as one row; None if nothing came for a while.

    Raises as `EntryReading` does.
    """
    attempts = _Attempts(service, topic)
    left = iter(positions)
    position = next(left, None)
    while position is not None:
        try:
            with attempts.connection() as connection:
                while position is not None:
                    found = _first_from(connection, topic, position, service)
                    attempts.succeed()
                    yield position, found
                    position = next(left, None)
        except Exception as error:  # noqa: BLE001  (whatever sockets and TLS raise)
            attempts.wait_after(error)


class _Attempts:
    """Connections with whoever has a topic, one after the other, until nothing has come of them for too long."""

    def __init__(self, service: BrokerService, topic: str) -> None:
        self._service = service
        self._topic = topic
        self._tries = Tries(is_first_contact=True)
        self._is_going = False
        self._made = 0

    def connection(self) -> BrokerConnection:
        made = self._made
        self._made += 1
        return connect_to_owner(self._service, self._topic, made, seconds=store_timeout() / 4)

    def succeed(self) -> None:
        """Take something that came for a new beginning."""
        self._is_going = True

    def wait_after(self, error: Exception) -> None:
        """Wait until it may be tried again; raises our error if it may not."""
        if self._is_going:
            # What came may be long ago: whoever reads takes their time.
            self._tries, self._is_going = Tries(), False
        number, seconds = self._tries.number, self._tries.seconds
        delay = self._tries.delay_after(error)
        if delay is None:
            raise self._tries.given_up(error, _ours(error, self._topic, self._service)) from error
        Asked("READ", self._topic).tell_retry(error, number, seconds, delay)
        time.sleep(delay)


def _subscribed(connection: BrokerConnection, topic: str, start: Position) -> int:
    """Begin to read, and return the consumer's number."""
    consumer = connection.number()
    # Of a name that nobody has: a broker may take a moment to forget the last one.
    name = f"reader-{secrets.token_hex(8)}"
    _answered(connection, lambda number: subscribe(topic, name, consumer, number, start), Command.SUCCESS, topic)
    return consumer


def _end_of(connection: BrokerConnection, topic: str, consumer: int) -> Position:
    answer = _answered(connection, lambda number: last_position(consumer, number), Command.LAST_POSITION_ANSWER, topic)
    return position_of(answer.last_position_answer.position)


def _answered(connection: BrokerConnection, make: Callable[[int], bytes], kind: Command, topic: str) -> CommandRecord:
    """Ask, and return the answer of a kind; raises what the broker refuses with."""
    number = connection.number()
    answer = connection.ask(make(number), number)
    key = f"{topic} at {connection.name}"
    if answer.type == Command.ERROR:
        raise refusal(answer.error.error, answer.error.message, key=key)
    if answer.type != kind:
        raise CorruptReplyError(f"command {answer.type} is no answer to what was asked", key=key)
    return answer


def _first_from(
    connection: BrokerConnection, topic: str, position: Position, service: BrokerService
) -> SentEntries | None:
    """Return the first entry that is sent to a reader which begins at a position."""
    consumer = _subscribed(connection, topic, position)
    connection.send(flow(consumer, 1))
    looks = 0
    while connection.has_entries or not service.is_enough(looks, is_due=True):
        block = connection.entries(service.silence_s)
        if block is None:
            looks += 1
            _end_of(connection, topic, consumer)  # which raises if nobody is there any more
            continue
        # Others are of a position before, which nothing came of in time.
        block = block.rows(block.consumers == consumer)
        if len(block):
            _answered(connection, lambda number: close_consumer(consumer, number), Command.SUCCESS, topic)
            return block.rows(slice(0, 1))
    return None


def _without_first(block: SentEntries, position: Position | None) -> SentEntries:
    """Return a block without its first entry, if that is at a position."""
    is_there = position is not None and (block.ledgers[0], block.entries[0]) == position
    return block.rows(slice(1, None)) if is_there else block


def _newest(block: SentEntries) -> Position:
    ledger = int(block.ledgers.max())
    return Position(ledger, int(block.entries[block.ledgers == ledger].max()))


def _ours(error: Exception, topic: str, service: BrokerService) -> LedgerfsError:
    """Return our error for whatever ended the last try."""
    if isinstance(error, LedgerfsError):
        return error
    text = printable(" ".join(str(error).split())) or type(error).__name__
    key = f"{topic} at {service.addresses[0]}"
    if isinstance(error, ssl.SSLCertVerificationError):
        told = error.verify_message or text
        return StoreUnreachableError(f"the broker's certificate is not trusted: {told}", key=key)
    if isinstance(error, TimeoutError):
        return StoreTimeoutError(f"the broker did not answer in time: {text}", key=key)
    return StoreUnreachableError(f"the broker cannot be reached: {text}", key=key)

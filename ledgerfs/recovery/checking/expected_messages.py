"""What brokers have to send of a restored topic: all messages of its ledgers in the bucket, but for markers and aborted transactions."""

import heapq
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from ledgerfs.errors import EntryRangeError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, walk_metadata
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.recovery.checking.messages import COLUMNS, Message, MessagePlace, messages_in
from ledgerfs.scan.reread_damaged import walk_entries
from ledgerfs.scan.topic_entries import Place, Reach, read_entries

_Which = Callable[[Int64Table], Mask]
"""Tells of each entry whether it counts."""


class ExpectedMessages:
    """The messages that brokers have to send.

    Parameters
    ----------
    topic
        Its name.
    ledgers
        The restored ledgers, ascending by id.
    hidden
        {id of a ledger: ids of entries that brokers must not send}, besides markers.
    ids
        {id of a ledger: the one that brokers know it by}, for those that have another one.

    Raises `EntryRangeError` for ledgers out of order.

    """

    __slots__ = ("_hidden", "_ids", "_ledgers", "_topic")

    def __init__(
        self,
        topic: str,
        ledgers: Sequence[LedgerReader],
        hidden: Mapping[int, Int64],
        ids: Mapping[int, int] | None = None,
    ) -> None:
        own = [ledger.ref.ledger_id for ledger in ledgers]
        self._topic = topic
        self._ledgers = ledgers
        self._ids = [one if ids is None else ids.get(one, one) for one in own]
        self._hidden = [hidden.get(one) for one in own]
        for known in (own, self._ids):
            for one, other in pairwise(known):
                if one >= other:
                    raise EntryRangeError(f"ledger {other} comes after {one}, and a topic is read in the order of ids")

    @property
    def last_ledger(self) -> int:
        """The id of the last ledger as brokers know it; -1 without any."""
        return self._ids[-1] if self._ids else -1

    def ledger_after(self, position: Position | None) -> int | None:
        """Return the id of the ledger behind that of a position, or behind the first one, as brokers know it; None without any."""
        if position is None:
            return next(iter(self._ids[1:]), None)
        return next((one for one in self._ids if one > position.ledger_id), None)

    def last(self) -> MessagePlace | None:
        """Return where the last one is that a client gets; None without any. Raises as `messages`."""
        found = self._last(_are_received)
        if found is None:
            return None
        number, position = found
        (batch,) = self._ledgers[number].batches(position.entry_id, position.entry_id)
        entry = walk_metadata(batch)[:, 0]
        is_batch = entry[Meta.BATCH_SIZE] != ABSENT and entry[Meta.ENCRYPTION_KEYS] == 0
        return MessagePlace(*position, int(entry[Meta.BATCH_SIZE]) - 1 if is_batch else -1)

    def messages(self) -> Iterator[Message]:
        """Yield all of them in the order of the topic; raises what reading the bucket and decoding its messages raises."""
        return self._messages(Reach.of(range(len(self._ledgers))))

    def sample(self, size: int, seed: int) -> list[tuple[int, Position]]:
        """Choose the first entry, the last, and at most ``size`` others, in the order of the topic, as (number of the ledger, position).

        One that falls on what no client gets, or on a part of a message, is the next other one of its ledger. Raises as `messages`.
        """
        chosen = {found for found in (self._first(), self._last(_are_received_whole)) if found is not None}
        counts = np.array([max(0, one.last_entry - one.first_entry + 1) for one in self._ledgers], np.int64)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if ends.size else 0
        for nth in sorted(random.Random(seed).sample(range(total), min(size, total))):  # noqa: S311
            number = int(np.searchsorted(ends, nth, "right"))
            entry = self._ledgers[number].last_entry + 1 - (int(ends[number]) - nth)
            if (found := self._next(number, entry)) is not None:
                chosen.add(found)
        return sorted(chosen)

    def messages_of(self, number: int, position: Position) -> list[Message]:
        """Return those of one entry; ``number`` is the index of its ledger."""
        start, stop = Place(number, position.entry_id), Place(number, position.entry_id + 1)
        return list(self._messages(Reach(start, stop)))

    def _messages(self, reach: Reach) -> Iterator[Message]:
        decoder = TopicDecoder(self._topic, DecodeOptions(COLUMNS))
        for place, batch, entries, keep in walk_entries(decoder, self._ledgers, read_entries(self._ledgers, reach)):
            is_sent = keep & ~self._are_hidden(place.number, batch)
            is_encrypted = is_sent & (entries[Meta.ENCRYPTION_KEYS] > 0)
            plain = self._decoded(decoder, place.number, batch, entries, is_sent & ~is_encrypted)
            sealed = self._encrypted(place.number, batch, entries, is_encrypted)
            yield from heapq.merge(plain, sealed, key=_place)

    def _decoded(
        self, decoder: TopicDecoder, number: int, batch: EntryBatch, entries: Int64Table, keep: Mask
    ) -> Iterator[Message]:
        for portion in decoder.portions(entries, keep):
            # Decoding changes the table of entries.
            dropped = frozenset(batch.ids_of(np.flatnonzero(portion & _are_dropped(entries))).tolist())
            table = decoder.decode(batch, self._ledgers[number].ref.ledger_id, entries, portion)
            for message in messages_in(table, self._ids[number]):
                yield message._replace(is_dropped=True) if message.place.entry_id in dropped else message

    def _encrypted(self, number: int, batch: EntryBatch, entries: Int64Table, keep: Mask) -> Iterator[Message]:
        """Yield entries as they are handed on to clients that have no key: a batch is one message."""
        for row in np.flatnonzero(keep).tolist():
            place = MessagePlace(self._ids[number], batch.id_of(row))
            start, end = int(entries[Meta.PAYLOAD_AT, row]), int(entries[Meta.PAYLOAD_END, row])
            published = int(entries[Meta.PUBLISH_TIME, row])
            yield Message(place, bytes(batch.buffer[start:end]), published, is_encrypted=True)

    def _are_hidden(self, number: int, batch: EntryBatch) -> Mask:
        hidden = self._hidden[number]
        if hidden is None:
            return np.zeros(len(batch), np.bool_)
        are_hidden: Mask = np.isin(batch.ids_of(np.arange(len(batch))), hidden)
        return are_hidden

    def _sent_ids(self, number: int, batch: EntryBatch, which: _Which) -> Int64:
        """Return the ids of those entries of a batch that brokers send."""
        return batch.ids_of(np.flatnonzero(which(walk_metadata(batch)) & ~self._are_hidden(number, batch)))

    def _first(self) -> tuple[int, Position] | None:
        """Return the first one that is no part of a message, with the number of its ledger."""
        found = (self._next(number, ledger.first_entry) for number, ledger in enumerate(self._ledgers))
        return next((one for one in found if one is not None), None)

    def _last(self, which: _Which) -> tuple[int, Position] | None:
        """Return the last one, with the number of its ledger."""
        found = (self._last_of(number, which) for number in reversed(range(len(self._ledgers))))
        return next((one for one in found if one is not None), None)

    def _next(self, number: int, first: int) -> tuple[int, Position] | None:
        """Return the first one of a ledger from an id on that is no part of a message."""
        ledger = self._ledgers[number]
        if first > ledger.last_entry:
            return None
        for batch in ledger.batches(first, ledger.last_entry):
            if (ids := self._sent_ids(number, batch, _are_received_whole)).size:
                return number, Position(self._ids[number], int(ids[0]))
        return None

    def _last_of(self, number: int, which: _Which) -> tuple[int, Position] | None:
        """Return the last one of a ledger, before which as many entries are read as there were behind it, or twice as many."""
        ledger = self._ledgers[number]
        end, count = ledger.last_entry, 1
        while end >= ledger.first_entry:
            start = max(ledger.first_entry, end - count + 1)
            ids = [
                int(found[-1])
                for one in ledger.batches(start, end)
                if (found := self._sent_ids(number, one, which)).size
            ]
            if ids:
                return number, Position(self._ids[number], ids[-1])
            end, count = start - 1, 2 * count
        return None


def _place(message: Message) -> MessagePlace:
    return message.place


def _are_received(entries: Int64Table) -> Mask:
    """Return which entries a client gets: no markers, and none that it drops."""
    are_received: Mask = (entries[Meta.MARKER] == ABSENT) & ~_are_dropped(entries)
    return are_received


def _are_received_whole(entries: Int64Table) -> Mask:
    """Return which of them are no parts of a message."""
    are_whole: Mask = _are_received(entries) & (entries[Meta.CHUNKS] <= 1)
    return are_whole


def _are_dropped(entries: Int64Table) -> Mask:
    """Return which entries the client drops: it cannot decompress nothing with zlib, which is how Java's and its own producers send it."""
    is_empty = (entries[Meta.COMPRESSION] == Compression.ZLIB) & (entries[Meta.UNCOMPRESSED_SIZE] == 0)
    are_dropped: Mask = is_empty & (entries[Meta.ENCRYPTION_KEYS] == 0)
    return are_dropped

"""What brokers have to send of a restored topic: all that its ledgers in the bucket have, but for markers and aborted transactions."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ledgerfs.errors import EntryRangeError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.decode.metadata_walk import Meta, walk_metadata
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.scan.topic_entries import Reach, read_entries


@dataclass(frozen=True, slots=True)
class EntryBlock:
    """Entries of one ledger in a buffer, ascending by id; arrays have shape (entries,).

    Attributes
    ----------
    ledger_id
        As brokers know it.
    ids
        Of the entries.
    buffer
        The bytes that hold them.
    offsets, lengths
        Start in ``buffer`` and bytes of each.

    """

    ledger_id: int
    ids: Int64
    buffer: memoryview
    offsets: Int64
    lengths: Int64

    def __len__(self) -> int:
        return int(self.ids.size)

    def rows(self, which: "slice | Int64 | Mask") -> "EntryBlock":
        """Return some of them, in the same buffer."""
        return EntryBlock(self.ledger_id, self.ids[which], self.buffer, self.offsets[which], self.lengths[which])

    def split(self, last: int) -> "tuple[EntryBlock, EntryBlock]":
        """Return those up to an id, and those after it."""
        at = int(np.searchsorted(self.ids, last, "right"))
        return self.rows(slice(None, at)), self.rows(slice(at, None))

    @property
    def batch(self) -> EntryBatch:
        """The same entries as a ledger's reader hands them on."""
        return EntryBatch(int(self.ids[0]) if len(self) else 0, self.buffer, self.offsets, self.lengths, self.ids)

    def bytes_of(self, row: int) -> bytes:
        """Return the bytes of one."""
        start = int(self.offsets[row])
        return self.buffer[start : start + int(self.lengths[row])].tobytes()


class ExpectedEntries:
    """The entries that brokers have to send.

    Parameters
    ----------
    ledgers
        The restored ledgers, ascending by id.
    hidden
        {id of a ledger: ids of entries that brokers must not send}, besides markers.
    ids
        {id of a ledger: the one that brokers know it by}, for those that have another one.

    Raises `EntryRangeError` for ledgers out of order.

    """

    __slots__ = ("_hidden", "_ids", "_ledgers")

    def __init__(
        self, ledgers: Sequence[LedgerReader], hidden: Mapping[int, Int64], ids: Mapping[int, int] | None = None
    ) -> None:
        own = [ledger.ref.ledger_id for ledger in ledgers]
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

    def last(self) -> Position | None:
        """Return where the last one is; None without any. Raises as `blocks`."""
        found = self._last()
        return None if found is None else found[1]

    def blocks(self) -> Iterator[EntryBlock]:
        """Yield all of them in the order of the topic; raises what reading the bucket raises."""
        for place, batch in read_entries(self._ledgers, Reach.of(range(len(self._ledgers)))):
            block = self._sent_of(place.number, batch)
            if len(block):
                yield block

    def sample(self, size: int, seed: int) -> list[tuple[int, Position]]:
        """Choose the first, the last, and at most ``size`` others, in the order of the topic, as (number of the ledger, position).

        One that falls on what brokers do not send is the next one of its ledger that they do. Raises as `blocks`.
        """
        chosen = {found for found in (self._first(), self._last()) if found is not None}
        counts = np.array([max(0, one.last_entry - one.first_entry + 1) for one in self._ledgers], np.int64)
        ends = np.cumsum(counts)
        total = int(ends[-1]) if ends.size else 0
        for nth in sorted(random.Random(seed).sample(range(total), min(size, total))):  # noqa: S311
            number = int(np.searchsorted(ends, nth, "right"))
            entry = self._ledgers[number].last_entry + 1 - (int(ends[number]) - nth)
            if (found := self._next_sent(number, entry)) is not None:
                chosen.add(found)
        return sorted(chosen)

    def read(self, number: int, position: Position) -> bytes:
        """Return one entry of a ledger, which is told by its number."""
        (entry,) = self._ledgers[number].read(position.entry_id, position.entry_id)
        return bytes(entry.data)

    def _sent_of(self, number: int, batch: EntryBatch) -> EntryBlock:
        """Return those of a batch that brokers send."""
        ids = batch.ids_of(np.arange(len(batch)))
        is_sent = walk_metadata(batch)[Meta.MARKER] == ABSENT
        hidden = self._hidden[number]
        if hidden is not None:
            is_sent &= ~np.isin(ids, hidden)
        return EntryBlock(self._ids[number], ids, batch.buffer, batch.offsets, batch.lengths).rows(is_sent)

    def _first(self) -> tuple[int, Position] | None:
        """Return the first one, with the number of its ledger."""
        found = (self._next_sent(number, ledger.first_entry) for number, ledger in enumerate(self._ledgers))
        return next((one for one in found if one is not None), None)

    def _last(self) -> tuple[int, Position] | None:
        """Return the last one, with the number of its ledger."""
        found = (self._last_sent(number) for number in reversed(range(len(self._ledgers))))
        return next((one for one in found if one is not None), None)

    def _next_sent(self, number: int, first: int) -> tuple[int, Position] | None:
        """Return the first one of a ledger from an id on."""
        ledger = self._ledgers[number]
        if first > ledger.last_entry:
            return None
        for batch in ledger.batches(first, ledger.last_entry):
            if len(block := self._sent_of(number, batch)):
                return number, Position(block.ledger_id, int(block.ids[0]))
        return None

    def _last_sent(self, number: int) -> tuple[int, Position] | None:
        """Return the last one of a ledger, before which as many entries are read as there were behind it, or twice as many."""
        ledger = self._ledgers[number]
        end, count = ledger.last_entry, 1
        while end >= ledger.first_entry:
            start = max(ledger.first_entry, end - count + 1)
            ids = [int(block.ids[-1]) for one in ledger.batches(start, end) if len(block := self._sent_of(number, one))]
            if ids:
                return number, Position(self._ids[number], ids[-1])
            end, count = start - 1, 2 * count
        return None

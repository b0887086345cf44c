"""One topic, or one partition, that is followed: what it got since the last look becomes rows, each once and in order.

Reading can fail anywhere and go on later, since the next entry to be read is only moved when the rows of all before it were handed out, and
the parts of chunked messages that came so far are kept.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.catalog.tail import Gone, Look, Next, Tail
from ledgerfs.errors import MissingLedgerError, NotFoundError, StaleObjectError, StoreUnreachableError
from ledgerfs.messages.decode.entries import Skipped, TopicDecoder
from ledgerfs.messages.decode.entry_fields import rows_in_transactions
from ledgerfs.scan.earlier_chunks import EarlierChunks
from ledgerfs.scan.followed_outcomes import FollowedOutcomes, Undecided, reach_from
from ledgerfs.scan.part_reading import decode_options
from ledgerfs.scan.reread_damaged import Walked, walk_entries
from ledgerfs.scan.topic_entries import read_entries

if TYPE_CHECKING:
    import pyarrow as pa

    from ledgerfs.messages.decode.undecodable import Undecodable
    from ledgerfs.scan.scan import Scan

_MOST_BYTES_BACK = 1 << 30
"""Bytes of entries before the start in which first parts of chunked messages are looked for."""

LONGEST_PAUSE_S = 0.8
"""The longest pause between two looks, s: new entries are to come within a second."""

_SLOWER = 1.25
_MOST_STALE = 3
"""How often a topic may list a ledger that its reader did not find in the list, in looks one after the other."""


class FollowedTopic:
    """Reads on in one topic. For one thread.

    Parameters
    ----------
    scan
        A scan of no ledgers with the topic's name, and all options.
    columns
        The columns of the message table to read.
    undecodable
        Times that no column holds; this adds to it.
    tail
        Looks at the topic.
    start
        The next entry to be read.
    look
        The first look, from the topic's beginning on.
    poll_s
        The least time between two looks, s.
    patience_s
        For how long the cluster may be away, s.

    Attributes
    ----------
    position
        The next entry to be read: the rows of all before it were handed out.
    is_ended
        Whether the topic was closed for ever, and everything read.
    due_s
        When to look again, by the monotonic clock.

    """

    def __init__(
        self,
        scan: "Scan",
        columns: Sequence[str],
        undecodable: "list[Undecodable]",
        *,
        tail: Tail,
        start: Next,
        look: Look,
        poll_s: float,
        patience_s: float,
    ) -> None:
        self._tail = tail
        self._transactions = scan.options.transactions
        self._poll_s, self._patience_s, self._pause_s = poll_s, patience_s, poll_s
        before = [one for one in look.ledgers if one.ref.ledger_id <= start.ledger_id]
        is_damage_skipped = scan.options.on_corrupt == "skip"
        self._outcomes = FollowedOutcomes(start, before[-2:], is_damage_skipped=is_damage_skipped)
        options = decode_options(scan.options, columns)
        self._decoder = TopicDecoder(
            scan.topic, options, scan.decrypt, self._outcomes.state_of, undecodable=undecodable
        )
        self._decoder.chunks.earlier = _ChunksBefore(look.ledgers, start, self._decoder, patience_s)
        self._active: Iterator[pa.RecordBatch] | None = None
        self._failing_since: float | None = None
        self._broken: StoreUnreachableError | None = None
        self._stale = 0
        self._has_come = False
        self._waits_for: Undecided | None = None
        self.position = start
        self.is_ended = False
        self.due_s = 0.0

    @property
    def decoder(self) -> TopicDecoder:
        """What was left out, and messages that lack parts."""
        return self._decoder

    def next_batch(self) -> "pa.RecordBatch | None":
        """Return the next rows; None if there are none now, or nothing answers, so that it is worth asking again at ``due_s``.

        Raises `StoreUnreachableError` once nothing answered for the time of patience, `MissingLedgerError` for entries that were trimmed
        before they were read (unless damage is skipped), `ObjectNotFoundError` and `StaleObjectError` for a topic that was deleted, and the
        errors of reading.
        """
        if self._broken is not None:
            raise self._broken
        if self._active is None:
            if self.is_ended or time.monotonic() < self.due_s:
                return None
            self._active, self._has_come = self._rows(), False
        try:
            batch = next(self._active, None)
        except StoreUnreachableError as error:
            self._active = None
            if self._broken is not None:
                raise
            self.bear(error)
            return None
        self._failing_since = None
        if batch is None:
            self._active = None
            self._rest()
        else:
            self._has_come = True
        return batch

    def leave_out(self, gone: Sequence[Gone]) -> None:
        """Report entries that were trimmed before they were read; raises `MissingLedgerError` unless damage is skipped."""
        if not gone:
            return
        if self._decoder.options.on_corrupt != "skip":
            what = "; ".join(f"{one} {one.reason}" for one in gone)
            is_certain = any(one.last_entry is not None for one in gone)
            told = "rows are lost" if is_certain else "rows may be lost"
            raise MissingLedgerError(f"{told}: {what}", key=self._decoder.topic)
        for one in gone:
            last = one.first_entry if one.last_entry is None else one.last_entry
            self._decoder.skipped.append(Skipped(one.ledger_id, one.first_entry, last, f"{one} {one.reason}"))

    def bear(self, error: StoreUnreachableError) -> None:
        """Go on later, unless it has been so for too long."""
        now = time.monotonic()
        since = self._failing_since = self._failing_since or now
        if now - since >= self._patience_s:
            self._failing_since = None
            reason = (
                f"{error.reason}; so it has been for {now - since:.0f} s, and {self.position} is the next entry to read"
            )
            raise type(error)(reason, key=error.key) from error
        self._rest()

    def close(self) -> None:
        """Stop reading."""
        self._active = None

    def _rest(self) -> None:
        """Say when to look again: later and later while nothing comes."""
        longest = max(self._poll_s, LONGEST_PAUSE_S)
        self._pause_s = self._poll_s if self._has_come else min(self._pause_s * _SLOWER, longest)
        self.due_s = time.monotonic() + self._pause_s

    def _rows(self) -> "Iterator[pa.RecordBatch]":
        """Look once, and yield the rows of all that can be read."""
        look = self._tail.look(self.position, is_anew=self._stale > 0)
        self.leave_out(look.gone)
        try:
            if self._waits_for is not None:
                self._outcomes.look_ahead(look.ledgers, look.end)
            if self._waits_for is None or self._outcomes.is_decided(self._waits_for):
                yield from self._read(look)
        except StaleObjectError:
            # Trimmed while it was read: the next look tells what is gone.
            self._stale += 1
            if self._stale > _MOST_STALE:
                raise
            return
        self._stale = 0
        self.is_ended = look.is_ended

    def _read(self, look: Look) -> "Iterator[pa.RecordBatch]":
        decoder = self._decoder
        self._waits_for = None
        skipped = decoder.skipped if decoder.options.on_corrupt == "skip" else None
        found = read_entries(look.ledgers, reach_from(self.position, look.ledgers), skipped)
        for walked in walk_entries(decoder, look.ledgers, found):
            place, batch, entries, keep = walked
            ledger_id = look.ledgers[place.number].ref.ledger_id
            undecided = self._cut(walked, look)
            for portion in decoder.portions(entries, keep):
                try:
                    table = decoder.decode(batch, ledger_id, entries, portion)
                except StoreUnreachableError as error:
                    # Rows of this batch were handed out, and parts of messages taken: begun anew, they would come twice.
                    self._broken = error
                    raise
                if table.num_rows:
                    yield table
            self._waits_for = undecided
            self._advance(Next(ledger_id, batch.last_entry + 1) if undecided is None else undecided.at)
            if undecided is not None:
                return
        self._advance(max(self.position, look.end))

    def _advance(self, position: Next) -> None:
        if position.ledger_id != self.position.ledger_id:
            self._outcomes.forget_before(position.ledger_id)
        self.position = position

    def _cut(self, walked: Walked, look: Look) -> Undecided | None:
        """Keep only the rows whose transactions are committed, before the first that is undecided; return that, None without one."""
        place, batch, entries, keep = walked
        ledger_id = look.ledgers[place.number].ref.ledger_id
        self._outcomes.take(ledger_id, batch, entries)
        rows = rows_in_transactions(entries, keep)
        is_told = "txn_state" in self._decoder.schema.names
        if not rows.size or (self._transactions == "all" and not is_told):
            return None
        visible, undecided = self._outcomes.are_visible(ledger_id, batch, entries, rows)
        if undecided is not None:
            self._outcomes.look_ahead(look.ledgers, look.end)
            self._outcomes.look_back()
            visible, undecided = self._outcomes.are_visible(ledger_id, batch, entries, rows)
        if self._transactions == "all":
            return None
        keep[rows] = visible
        if undecided is not None:
            keep[undecided.row :] = False
            self._forget_damage_from(undecided.at)
        return undecided

    def _forget_damage_from(self, position: Next) -> None:
        """Forget damage that was met, and will be met again."""
        skipped = self._decoder.skipped
        while skipped and Next(skipped[-1].ledger_id, skipped[-1].first_entry) >= position:
            skipped.pop()


class _ChunksBefore:
    """Reads earlier parts of chunked messages for the decoder, while the cluster may be away for a moment.

    Nothing is handed to the decoder twice: a message would be lost whose last part came again.
    """

    __slots__ = ("_decoder", "_earlier", "_ledgers", "_patience_s", "_start")

    def __init__(self, ledgers: Sequence[LedgerReader], start: Next, decoder: TopicDecoder, patience_s: float) -> None:
        self._ledgers = ledgers
        self._start = reach_from(start, ledgers).start
        self._decoder = decoder
        self._patience_s = patience_s
        self._earlier = self._begin()

    def __call__(self) -> bool:
        """Return whether there were more entries (`EarlierChunks`); those that were trimmed meanwhile are none."""
        since = time.monotonic()
        while True:
            try:
                return self._earlier()
            except (StaleObjectError, NotFoundError):
                return False
            except StoreUnreachableError:
                if time.monotonic() - since >= self._patience_s:
                    raise
                time.sleep(LONGEST_PAUSE_S)
                self._earlier = self._begin()

    def _begin(self) -> EarlierChunks:
        return EarlierChunks(self._ledgers, self._start, self._decoder, _MOST_BYTES_BACK)

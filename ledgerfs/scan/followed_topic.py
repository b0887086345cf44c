"""Follow one topic, or one partition: turn its new entries since the last snapshot into rows, each once and in order.

Reading can fail anywhere and resume later, since the next position only moves after the rows of all entries before it were yielded, and
the parts of chunked messages so far are kept.
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
"""Bytes of entries before the start to search for first parts of chunked messages."""

LONGEST_PAUSE_S = 0.8
"""The longest pause between two snapshots, s: new entries have to arrive within a second."""

_SLOWER = 1.25
_MOST_STALE = 3
"""Most consecutive snapshots in which a topic may list a ledger that its reader did not find."""


class FollowedTopic:
    """Continues reading one topic. For one thread.

    Parameters
    ----------
    scan
        A scan of no ledgers with the topic's name, and all options.
    columns
        The columns of the message table to read.
    undecodable
        Times that do not fit a column; this adds to it.
    tail
        Takes snapshots of the topic.
    start
        The next entry to read.
    look
        The first snapshot, from the topic's beginning on.
    poll_s
        The shortest time between two snapshots, s.
    patience_s
        How long the cluster may be unreachable, s.

    Attributes
    ----------
    position
        The next entry to read: the rows of all before it were yielded.
    is_ended
        Whether the topic was terminated, and everything read.
    due_s
        Time of the next snapshot, by the monotonic clock.

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
        """Its reports of skipped entries, and of messages that lack parts."""
        return self._decoder

    def next_batch(self) -> "pa.RecordBatch | None":
        """Return the next rows; None if there are none now, or the cluster does not answer: call again at ``due_s``.

        Raises `StoreUnreachableError` if the cluster does not answer within the patience, `MissingLedgerError` for entries trimmed before
        they were read (unless damage is skipped), `ObjectNotFoundError` and `StaleObjectError` for a topic that was deleted, and the errors
        of reading.
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
            loss = "rows are lost" if is_certain else "rows may be lost"
            raise MissingLedgerError(f"{loss}: {what}", key=self._decoder.topic)
        for one in gone:
            last = one.first_entry if one.last_entry is None else one.last_entry
            self._decoder.skipped.append(Skipped(one.ledger_id, one.first_entry, last, f"{one} {one.reason}"))

    def bear(self, error: StoreUnreachableError) -> None:
        """Retry later; raise the error if it has lasted too long."""
        now = time.monotonic()
        since = self._failing_since = self._failing_since or now
        if now - since >= self._patience_s:
            self._failing_since = None
            reason = f"{error.reason}; retried for {now - since:.0f} s, the next entry to read is {self.position}"
            raise type(error)(reason, key=error.key) from error
        self._rest()

    def close(self) -> None:
        """Stop reading."""
        self._active = None

    def _rest(self) -> None:
        """Set the time of the next snapshot: later and later while no entries arrive."""
        longest = max(self._poll_s, LONGEST_PAUSE_S)
        self._pause_s = self._poll_s if self._has_come else min(self._pause_s * _SLOWER, longest)
        self.due_s = time.monotonic() + self._pause_s

    def _rows(self) -> "Iterator[pa.RecordBatch]":
        """Take a snapshot, and yield the rows of all that is readable."""
        look = self._tail.look(self.position, is_anew=self._stale > 0)
        self.leave_out(look.gone)
        try:
            if self._waits_for is not None:
                self._outcomes.look_ahead(look.ledgers, look.end)
            if self._waits_for is None or self._outcomes.is_decided(self._waits_for):
                yield from self._read(look)
        except StaleObjectError:
            # Trimmed while it was read: the next snapshot shows the lost entries.
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
                    # Some rows of this batch were yielded, and parts of messages taken: a second start would yield them twice.
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
        """Keep only the rows of committed transactions before the first undecided row; return that row, None without one."""
        place, batch, entries, keep = walked
        ledger_id = look.ledgers[place.number].ref.ledger_id
        self._outcomes.take(ledger_id, batch, entries)
        rows = rows_in_transactions(entries, keep)
        is_reported = "txn_state" in self._decoder.schema.names
        if not rows.size or (self._transactions == "all" and not is_reported):
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
        """Forget damage from a position on, since it will be found again."""
        skipped = self._decoder.skipped
        while skipped and Next(skipped[-1].ledger_id, skipped[-1].first_entry) >= position:
            skipped.pop()


class _ChunksBefore:
    """Reads earlier parts of chunked messages for the decoder, while the cluster may be unreachable for a moment.

    The decoder receives no part twice, since a repeated last part would lose its message.
    """

    __slots__ = ("_decoder", "_earlier", "_ledgers", "_patience_s", "_start")

    def __init__(self, ledgers: Sequence[LedgerReader], start: Next, decoder: TopicDecoder, patience_s: float) -> None:
        self._ledgers = ledgers
        self._start = reach_from(start, ledgers).start
        self._decoder = decoder
        self._patience_s = patience_s
        self._earlier = self._begin()

    def __call__(self) -> bool:
        """Return whether there were more entries (`EarlierChunks`); False if they were trimmed meanwhile."""
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

"""Parts of chunked messages that stand before the place where reading began."""

from collections.abc import Iterator, Sequence
from itertools import islice

from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.decode.entries import TopicDecoder
from ledgerfs.scan.topic_entries import Place, Reach, read_entries


class EarlierChunks:
    """Looks back for a decoder: from the nearest cut on at first, then from twice as many each time, to the beginning of the topic.

    A part of a topic so has the rows that the whole topic has there. A message without a first part costs reading all that is before, about
    twice, but once only, however many such messages there are.

    Parameters
    ----------
    most_bytes
        Of stored bytes, behind which nothing more is looked at; None for no such limit.

    Attributes
    ----------
    is_cut
        Whether that limit ended it.

    """

    def __init__(
        self, ledgers: Sequence[LedgerReader], start: Place, decoder: TopicDecoder, most_bytes: int | None = None
    ) -> None:
        self.is_cut = False
        self._ledgers = ledgers
        self._start = start
        self._decoder = decoder
        self._most_bytes = most_bytes
        self._cuts = self._cuts_before()
        self._step = 1

    def __call__(self) -> bool:
        """Give the decoder the chunks that wait at the start, of more entries than before; return whether there were more."""
        further = list(islice(self._cuts, self._step))
        if not further:
            return False
        self._step *= 2
        older = self._decoder.beginner()
        for place, batch in read_entries(self._ledgers, Reach(further[-1], self._start), older.skipped):
            older.take_chunks([batch], self._ledgers[place.number].ref.ledger_id)
        self._decoder.chunks.recall(older.chunks)
        return True

    def _cuts_before(self) -> Iterator[Place]:
        """Yield where reading can begin, the nearest first."""
        size = 0
        for number in range(min(self._start.number, len(self._ledgers) - 1), -1, -1):
            ref = self._ledgers[number].ref
            for entry in reversed(self._ledgers[number].cuts().tolist()):
                if Place(number, entry) >= self._start:
                    continue
                if self._most_bytes is not None and size > self._most_bytes:
                    self.is_cut = True
                    return
                yield Place(number, entry)
                size += ref.stored // max(1, ref.cuts)

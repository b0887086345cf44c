"""Parts of chunked messages that stand before the place where reading began."""

from collections.abc import Iterator, Sequence
from itertools import islice

from ledgerfs.ledgers.dialect import LedgerReader
from ledgerfs.messages.decode.entries import TopicDecoder
from ledgerfs.scan.topic_entries import Place, Reach, read_entries


class EarlierChunks:
    """Looks back for a decoder: at the block before at first, then at twice as many each time, to the beginning of the topic.

    A part of a topic so has the rows that the whole topic has there. A message without a first part costs reading all that is before, about
    twice, but once only, however many such messages there are.

    Parameters
    ----------
    most_bytes
        Of blocks, behind which nothing more is looked at; None for no such limit.

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
        self._blocks = self._blocks_before()
        self._step = 1

    def __call__(self) -> bool:
        """Give the decoder the chunks that wait at the start, of more entries than before; return whether there were more."""
        further = list(islice(self._blocks, self._step))
        if not further:
            return False
        self._step *= 2
        older = self._decoder.beginner()
        for place, batch in read_entries(self._ledgers, Reach(further[-1], self._start), older.skipped):
            older.take_chunks([batch], self._ledgers[place.number].ref.ledger_id)
        self._decoder.chunks.recall(older.chunks)
        return True

    def _blocks_before(self) -> Iterator[Place]:
        """Yield where blocks begin, the nearest first."""
        size = 0
        for number in range(min(self._start.number, len(self._ledgers) - 1), -1, -1):
            ref = self._ledgers[number].ref
            for block in reversed(self._ledgers[number].index.blocks):
                if Place(number, block.first_entry) >= self._start:
                    continue
                if self._most_bytes is not None and size > self._most_bytes:
                    self.is_cut = True
                    return
                yield Place(number, block.first_entry)
                size += ref.data.size // max(1, ref.blocks)

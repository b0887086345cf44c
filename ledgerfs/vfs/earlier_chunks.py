"""Parts of chunked messages that stand before the place where reading began."""

from collections.abc import Iterator, Sequence
from itertools import islice

from ledgerfs.messages.decode import TopicDecoder
from ledgerfs.vfs.layout import LedgerReader
from ledgerfs.vfs.topic_entries import Place, Reach, read_entries

LEDGERS_AROUND = 4
"""In how many ledgers before and behind its own a part's message is looked for."""


class EarlierChunks:
    """Looks back for a decoder: at the block before at first, then at twice as many each time, through four ledgers at most."""

    def __init__(self, ledgers: Sequence[LedgerReader], start: Place, decoder: TopicDecoder) -> None:
        self._ledgers = ledgers
        self._start = start
        self._decoder = decoder
        self._blocks = _blocks_before(ledgers, start)
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


def _blocks_before(ledgers: Sequence[LedgerReader], start: Place) -> Iterator[Place]:
    """Yield where blocks begin, the nearest first."""
    for number in range(min(start.number, len(ledgers) - 1), max(0, start.number - LEDGERS_AROUND) - 1, -1):
        for block in reversed(ledgers[number].index.blocks):
            if Place(number, block.first_entry) < start:
                yield Place(number, block.first_entry)

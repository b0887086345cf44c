"""Read parts of chunked messages in entries before the place where reading began."""

from collections.abc import Iterator, Sequence
from itertools import islice

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.messages.decode.entries import TopicDecoder
from ledgerfs.scan.topic_entries import Place, Reach, read_entries


class EarlierChunks:
    """Reads earlier entries for a decoder: from the nearest split point at first, then twice as many each time, to the topic's beginning.

    So a part of a topic has the same rows as in a scan of the whole topic. A message without a first part costs reading everything before
    it, about twice, but only once for all such messages.

    Parameters
    ----------
    most_bytes
        Stored bytes after which reading back stops; None for no limit.

    Attributes
    ----------
    is_cut
        Whether that limit ended the search.

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
        """Decode the chunks that wait at ``start``, from more entries than before; return whether there were more entries."""
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

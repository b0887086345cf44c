"""A transform of entries: batches are split, and what is none is compressed by the same codec as the messages of batches."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.transforms.entry_transform import EntryTransform, recompress, unbatch


@dataclass(frozen=True, slots=True)
class _InTurn:
    """Two transforms, one after the other."""

    first: EntryTransform
    second: EntryTransform

    @property
    def keeps_ids(self) -> bool:
        """Whether both do."""
        return self.first.keeps_ids and self.second.keeps_ids

    def __call__(self, batch: EntryBatch, first_entry: int) -> Iterator[EntryBatch]:
        """Yield what the second makes of what the first makes of ``batch``; raises as both."""
        for made in self.first(batch, first_entry):
            yield from self.second(made, made.first_entry)


def unbatch_all(codec: str | None = None) -> EntryTransform:
    """Return `unbatch`, which leaves payloads plain, and with a codec `recompress` by it of all entries, too."""
    return unbatch() if codec is None else _InTurn(unbatch(codec), recompress(codec))

"""What may become of entries on their way into a ledger: PIP-17's "massage the data".

A transform takes entries as they are stored, and gives entries as they are to be stored; nothing that a reader sees of a message is lost,
but for the ids where entries are split. One that is damaged is an error that names it, never passed on: so who writes a ledger with a
transform knows that all of it can be read.
"""

from collections.abc import Iterator
from typing import Protocol

from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.codecs.compress import codec_named
from ledgerfs.messages.transforms.recompress import Recompress
from ledgerfs.messages.transforms.unbatch import Unbatch


class EntryTransform(Protocol):
    """Makes entries of entries.

    In what it takes and gives, records are contiguous: each entry stands behind its 12-byte record header.
    """

    @property
    def keeps_ids(self) -> bool:
        """Whether each entry stays an entry, of the same id."""
        ...

    def __call__(self, batch: EntryBatch, first_entry: int) -> Iterator[EntryBatch]:
        """Yield the entries that take the place of those of ``batch``, ids from ``first_entry`` on: perhaps none, perhaps ``batch`` itself.

        For one thread at a time. Raises `CorruptMessageError`, whose key names the entry by its id in ``batch``, perhaps after other
        entries; what was given of the batch before is sound.
        """
        ...


def recompress(codec: str) -> EntryTransform:
    """Return the transform that compresses payloads by the codec of this name, or by none.

    It keeps no state: threads may each have a batch of their own at work.
    """
    return Recompress(codec_named(codec))


def unbatch(codec: str = "none") -> EntryTransform:
    """Return the transform that makes an entry of each message of a batch, its payload compressed by the codec of this name.

    It keeps no state, either.
    """
    return Unbatch(codec_named(codec))

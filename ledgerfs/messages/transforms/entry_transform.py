"""Changes of entries on their way into a ledger: PIP-17's "massage the data".

A transform takes stored entries, and returns the entries to store instead. Nothing that a reader sees of a message is lost, except the ids
if entries are split. A damaged entry raises an error that names it, and is never passed on: so all entries that a transform returned can
be read.
"""

from collections.abc import Iterator
from typing import Protocol

from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.codecs.compress import codec_named
from ledgerfs.messages.codecs.size_limits import MOST_SENT_BYTES
from ledgerfs.messages.transforms.recompress import Recompress
from ledgerfs.messages.transforms.unbatch import Unbatch


class EntryTransform(Protocol):
    """Makes new entries from entries.

    In the batches that it takes and returns, records are contiguous, each entry after its 12-byte record header.
    """

    @property
    def keeps_ids(self) -> bool:
        """Whether each entry stays one entry with the same id."""
        ...

    def __call__(self, batch: EntryBatch, first_entry: int) -> Iterator[EntryBatch]:
        """Yield the entries that replace those of ``batch``, with ids from ``first_entry`` on: perhaps none, perhaps ``batch`` itself.

        For one thread at a time. Raises `CorruptMessageError`, whose key names the entry by its id in ``batch``; entries that were yielded
        before are sound.
        """
        ...


def recompress(codec: str, *, most_grown: int | None = MOST_SENT_BYTES) -> EntryTransform:
    """Return the transform that compresses payloads by the codec of this name (``none``: decompresses them).

    An entry that would be larger than it was, and have more than ``most_grown`` bytes, stays as it is: by default those that brokers would
    not send. None for no bound. It keeps no state: threads may each have a batch of their own at work.
    """
    return Recompress(codec_named(codec), most_grown=most_grown)


def unbatch(codec: str = "none") -> EntryTransform:
    """Return the transform that makes each message of a batch an entry, with its payload compressed by the codec of this name.

    A message that would be an entry larger than its batch, and than brokers send, raises `RefusedLedgerError`. It keeps no state: threads
    may each have a batch of their own at work.
    """
    return Unbatch(codec_named(codec))

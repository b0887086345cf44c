"""Parse ids of messages as Pulsar prints them, and in shorter forms.

Pulsar prints ``ledger:entry:partition`` for a message outside a batch, ``ledger:entry:partition:index`` for one of a batch (the partition
is -1 outside partitioned topics), and ``first;last`` for a chunked message. ``ledger:entry`` and ``ledger:entry:index`` are also accepted.
So the third of three parts is the index in the batch; if the entry is not a batch, it may also be the partition.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ledgerfs.errors import InvalidNameError, NotFoundError

_PARTS = re.compile(r"(\d{1,19}):(\d{1,19})(?::(-1|\d{1,9}))?(?::(-1|\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class MessageId:
    """The id of one message.

    Attributes
    ----------
    partition
        Of the topic; None if the id does not have it.
    index
        In the batch; None if the id does not have it.
    is_ambiguous
        Whether ``index`` is the last of three parts, and may be the partition instead.
    first
        Ledger and entry of a chunked message's first part; None if the id does not have it.

    """

    ledger_id: int
    entry_id: int
    partition: int | None = None
    index: int | None = None
    is_ambiguous: bool = False
    first: tuple[int, int] | None = None

    @classmethod
    def of(cls, given: Any) -> "MessageId":  # noqa: ANN401  (checked)
        """Parse a text, or a tuple of the same numbers; raises `InvalidNameError` for anything else."""
        if isinstance(given, Sequence) and not isinstance(given, str | bytes):
            given = ":".join(str(part) for part in given)
        first, semicolon, last = given.partition(";") if isinstance(given, str) else ("", "", "")
        found = _PARTS.fullmatch(last if semicolon else first)
        begin = _PARTS.fullmatch(first) if semicolon else None
        if found is None or (semicolon and begin is None):
            raise InvalidNameError(
                "not a message id; expected ledger:entry, ledger:entry:index, or as Pulsar prints it, ledger:entry:partition:index",
                key=str(given),
            )
        third, fourth = (None if text in {None, "-1"} else int(text) for text in found.groups()[2:])
        has_partition = found[4] is not None
        return cls(
            int(found[1]),
            int(found[2]),
            partition=third if has_partition else None,
            index=fourth if has_partition else third,
            is_ambiguous=not has_partition,
            first=None if begin is None else (int(begin[1]), int(begin[2])),
        )

    @property
    def last(self) -> tuple[int, int]:
        """Ledger and entry; for a chunked message those of its last part, or of the part that was named."""
        return self.ledger_id, self.entry_id

    def __str__(self) -> str:
        parts = (self.ledger_id, self.entry_id, self.partition, self.index)
        return ":".join(str(part) for part in parts if part is not None)

    def row(self, indexes: Sequence[int | None], partition: int | None) -> int:
        """Return the row of the message in its entry, given the index of each row (None outside batches) and the topic's partition.

        Raises `NotFoundError` if there is no such message, `InvalidNameError` if the id does not select one of a batch.
        """
        if self.partition is not None and self.partition != partition:
            raise self.not_found("the message is not in this partition")
        if indexes[0] is None:
            if self.index in {None, 0} or (self.is_ambiguous and self.index == partition):
                return 0
            raise self.not_found("the entry is not a batch but one message")
        if self.index is None and len(indexes) > 1:
            raise InvalidNameError(
                f"the entry is a batch of {len(indexes)} messages; choose one, from {self}:{indexes[0]} to {self}:{indexes[-1]}",
                key=f"message {self}",
            )
        if self.index is None:
            return 0
        if self.index not in indexes:
            raise self.not_found(f"the entry is a batch of {len(indexes)} messages without this index")
        return indexes.index(self.index)

    def not_found(self, reason: str) -> NotFoundError:
        """Return the error for a message that does not exist."""
        return NotFoundError(reason, key=f"message {self}")

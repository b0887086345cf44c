"""Clusters that offload into the buckets: ledgers with ids one after the other, which arrive when they like, whole or by halves."""

from dataclasses import dataclass, field
from uuid import UUID

from ledgerfs.formats.topic_names import managed_ledger_of
from tests.model.bucket_model import Content, Message, Row
from tests.support.entries import frame, metadata
from tests.support.ledgers import Offload, offload

HOUR = 3_600_000


def entries_of(messages: tuple[Message, ...]) -> list[bytes]:
    """Return messages as a producer sends them, one an entry."""
    return [_entry(number, message) for number, message in enumerate(messages)]


def _entry(number: int, message: Message) -> bytes:
    if isinstance(message, Row):
        return frame(metadata(sequence_id=number, publish_time_ms=message.time_ms), message.value.encode())
    row = message.row
    head = metadata(
        sequence_id=number,
        publish_time_ms=row.time_ms,
        chunked_id=row.value.encode(),
        chunk=message.number,
        chunks=message.parts,
        chunked_size=len(row.value),
    )
    return frame(head, message.payload)


@dataclass(frozen=True, slots=True)
class Sealed:
    """A ledger that a broker has closed."""

    content: Content
    made: Offload

    @property
    def key(self) -> tuple[str, int]:
        return self.made.uuid, self.made.ledger_id


@dataclass(slots=True)
class Cluster:
    """A cluster: its ledgers are numbered from 0 on, whatever others do.

    Attributes
    ----------
    waiting
        Ledgers that are closed, and not offloaded.
    halves
        Ledgers whose data object is offloaded, to the bucket of this number, and whose index is not.

    """

    number: int
    next_id: int = 0
    waiting: list[Sealed] = field(default_factory=list)
    halves: list[tuple[int, Sealed]] = field(default_factory=list)

    def seal(self, topic: str, messages: tuple[Message, ...], created_ms: int) -> None:
        """Close a ledger."""
        uuid = str(UUID(int=(self.number + 1) << 64 | self.next_id + 1))
        made = offload(
            entries_of(messages),
            self.next_id,
            block_size=300,
            name=managed_ledger_of(topic),
            uuid=uuid,
            created_ms=created_ms,
        )
        self.waiting.append(Sealed(Content(topic, messages), made))
        self.next_id += 1

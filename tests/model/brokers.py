"""Clusters that offload into the buckets: ledgers with ids one after the other, which arrive when they like, whole or by halves.

Some are MapFiles, which another offloader of Pulsar writes; the first half of these is a part of their data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from ledgerfs.formats.topic_names import managed_ledger_of
from tests.model.bucket_model import Content, Copy, Message, Row
from tests.support.entries import frame, metadata
from tests.support.ledgers import Offload, offload
from tests.support.mapfile_buckets import MadeMapFile, mapfile
from tests.support.mapfiles import MapFileWriter, RecordCompression

HOUR = 3_600_000
_COMPRESSIONS = tuple(RecordCompression)


def entries_of(messages: tuple[Message, ...]) -> list[bytes]:
    """Return messages as a producer sends them, one an entry."""
    return [_entry(number, message) for number, message in enumerate(messages)]


def _entry(number: int, message: Message) -> bytes:
    row = message if isinstance(message, Row) else message.row
    schema = {} if row.written is None else {"schema_version": row.written.version.to_bytes(8, "big")}
    if isinstance(message, Row):
        return frame(metadata(sequence_id=number, publish_time_ms=row.time_ms, **schema), row.value.encode())
    head = metadata(
        sequence_id=number,
        publish_time_ms=row.time_ms,
        **schema,
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
    made: Offload | MadeMapFile

    @property
    def key(self) -> tuple[str, int]:
        return self.made.uuid, self.made.ledger_id

    @property
    def copy(self) -> Copy:
        """The ledger as it is once all of it is there."""
        entries = len(self.content.messages)
        layout = "mapfile" if isinstance(self.made, MadeMapFile) else "pulsar_blob"
        return Copy(self.content, entries - 1, len(self.made.records) - 12 * entries, layout=layout)

    @property
    def first_half(self) -> Mapping[str, bytes]:
        """The objects that are there before the ledger is."""
        key, data = next(iter(self.made.objects.items()))
        return {key: data[: len(data) // 2] if isinstance(self.made, MadeMapFile) else data}

    @property
    def second_half(self) -> Mapping[str, bytes]:
        """The objects that are put once the first half is there."""
        if isinstance(self.made, MadeMapFile):
            return self.made.objects
        return {key: data for key, data in self.made.objects.items() if key not in self.first_half}


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

    def seal(self, topic: str, messages: tuple[Message, ...], created_ms: int, *, is_mapfile: bool) -> None:
        """Close a ledger."""
        entries, name, number = entries_of(messages), managed_ledger_of(topic), self.next_id
        uuid = (self.number + 1) << 64 | number + 1
        made: Offload | MadeMapFile
        if is_mapfile:
            writer = MapFileWriter(compression=_COMPRESSIONS[number % len(_COMPRESSIONS)])
            made = mapfile(entries, number, uuid=uuid, name=name, writer=writer, created_ms=created_ms)
        else:
            made = offload(entries, number, block_size=300, name=name, uuid=str(UUID(int=uuid)), created_ms=created_ms)
        self.waiting.append(Sealed(Content(topic, messages), made))
        self.next_id += 1

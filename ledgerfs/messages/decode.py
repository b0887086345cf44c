"""Entries to the message table: walk the metadata, make payloads plain, split batches, build columns.

The steps work on tables of integers over one buffer. Where nothing has to be decrypted, joined or decompressed, no byte is copied before
the columns themselves; where no column needs a payload, none is opened.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.errors import CorruptMessageError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.batch_split import SMALLEST_MESSAGE, Message, split_batches, split_unopened
from ledgerfs.messages.chunks import ChunkJoiner
from ledgerfs.messages.columns import MessageColumns
from ledgerfs.messages.compression import DEFAULT_MAX_MESSAGE_BYTES
from ledgerfs.messages.entry_checksum import EntryState, check_entries
from ledgerfs.messages.metadata_walk import Int64Table, Meta, Status, walk_metadata
from ledgerfs.messages.payloads import Decrypt, PlainPayloads, Workspace
from ledgerfs.messages.table_schema import schema_of
from ledgerfs.messages.wire import ABSENT

Mask = npt.NDArray[np.bool_]

_STATUS_TEXT = {
    Status.BROKEN_FRAME: "its frame claims more bytes than the entry has",
    Status.BROKEN_METADATA: "its message metadata is no protobuf message",
    Status.MISSING_FIELD: "its message metadata lacks producer name, sequence id or publish time",
    Status.IMPOSSIBLE_TIME: "its publish time is one that no calendar holds",
    Status.BROKEN_BATCH: "its payload is not the batch that its metadata promises",
}
_LAST_TIME = 2**63 // 1000 - 1
"""Ms since 1970 that a count of microseconds holds."""

_PORTION = 64 << 20
_BYTES_OF_A_MESSAGE = 8 * len(Message)

_OF_PAYLOAD = frozenset({"event_time", "key", "key_bytes", "ordering_key", "value", "properties", "sequence_id"})
"""Columns that a batch keeps inside its payload."""


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How entries become messages.

    Attributes
    ----------
    columns
        Names of `MESSAGE_SCHEMA` in the order wanted; None for the default ones. What is not asked for is not built.
    start_ms, end_ms
        Keep messages published from ``start_ms`` on and before ``end_ms``, ms since 1970 UTC.
    include_markers
        Keep the broker's own markers (of transactions and replication), which have no value.
    check_checksums
        Compare the CRC32C of every entry that has one.
    max_message_bytes
        The largest payload to decompress.
    on_encrypted
        ``raise``, or ``null`` (keep the row without its value), or ``skip``; where there are no private keys.
    on_corrupt
        ``raise``, or ``skip`` what cannot be read and report it.

    """

    columns: Sequence[str] | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    include_markers: bool = False
    check_checksums: bool = True
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    on_encrypted: str = "raise"
    on_corrupt: str = "raise"


@dataclass(frozen=True, slots=True)
class Skipped:
    """Entries that were left out because they are damaged: their ids, both ends included, and why."""

    ledger_id: int
    first_entry: int
    last_entry: int
    reason: str


@dataclass(slots=True)
class TopicDecoder:
    """Decodes the entries of one topic, in their order; chunked messages go on from one call to the next.

    Attributes
    ----------
    decrypt
        Decrypts payloads; None where there are no private keys.
    state_of
        Tells the outcome of a transaction, for the column ``txn_state``.
    skipped
        What was left out with ``on_corrupt="skip"``.

    """

    topic: str
    options: DecodeOptions = field(default_factory=DecodeOptions)
    decrypt: Decrypt | None = None
    state_of: Callable[[tuple[int, int]], str] | None = None
    chunks: ChunkJoiner = field(default_factory=ChunkJoiner)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the tables."""
        return schema_of(self.options.columns)

    def walk(self, batch: EntryBatch, ledger_id: int) -> tuple[Int64Table, Mask]:
        """First half: return the metadata of a batch's entries, and which of them are sound messages of users."""
        entries = walk_metadata(batch)
        status = entries[:, Meta.STATUS]
        status[(status == Status.VALID) & (np.abs(entries[:, Meta.PUBLISH_TIME]) > _LAST_TIME)] = Status.IMPOSSIBLE_TIME
        reasons = {
            row: _STATUS_TEXT[Status(int(status[row]))] for row in np.flatnonzero(status != Status.VALID).tolist()
        }
        if self.options.check_checksums:
            reasons |= _wrong_checksums(batch)
        for row in sorted(reasons):
            self.fail(ledger_id, batch.first_entry + row, reasons[row])
        sound = np.ones(len(entries), bool)
        sound[list(reasons)] = False
        if not self.options.include_markers:
            sound &= entries[:, Meta.MARKER] == ABSENT
        return entries, sound

    def portions(self, entries: Int64Table, keep: Mask) -> Iterator[Mask]:
        """Split the entries in ``keep`` so that what each portion becomes in memory, by its own claims, is bounded (about 64 MiB)."""
        rows = np.flatnonzero(keep)
        table = entries[rows]
        limit = self.options.max_message_bytes
        stored = table[:, Meta.PAYLOAD_END] - table[:, Meta.PAYLOAD_AT]
        plain = np.where(table[:, Meta.COMPRESSION] == 0, stored, np.clip(table[:, Meta.UNCOMPRESSED_SIZE], 0, limit))
        messages = np.clip(table[:, Meta.BATCH_SIZE], 1, plain // SMALLEST_MESSAGE + 1)
        number = np.cumsum(plain + messages * _BYTES_OF_A_MESSAGE) // _PORTION
        if not rows.size or number[0] == number[-1]:
            yield keep
            return
        for some in np.split(rows, np.flatnonzero(np.diff(number)) + 1):
            portion = np.zeros(keep.size, bool)
            portion[some] = True
            yield portion

    def decode(self, batch: EntryBatch, ledger_id: int, entries: Int64Table, keep: Mask) -> pa.RecordBatch:
        """Second half: return the messages of the entries in ``keep``.

        Raises `CorruptMessageError` (unless skipping) and `EncryptedMessageError`, which name ledger and entry.
        """
        rows = np.flatnonzero(keep)
        payloads = PlainPayloads(Workspace(batch.buffer), entries[rows], rows + batch.first_entry, ledger_id)
        payloads.decrypt(self.decrypt, self.options.on_encrypted)
        payloads.join(self.chunks)
        payloads.keep &= self._in_time(payloads.entries)
        opens_batches = not _OF_PAYLOAD.isdisjoint(self.schema.names)
        if opens_batches:
            payloads.decompress(self.options.max_message_bytes)
        self._fail_rows(payloads)
        table, ids = payloads.entries[payloads.keep], payloads.ids[payloads.keep]
        data = payloads.work.bytes()
        messages = (
            split_batches(data, table) if opens_batches else split_unopened(table, self.options.max_message_bytes)
        )
        for row in np.flatnonzero(table[:, Meta.STATUS] != Status.VALID).tolist():
            self.fail(ledger_id, int(ids[row]), _STATUS_TEXT[Status(int(table[row, Meta.STATUS]))])
        columns = MessageColumns(self.topic, ledger_id, data, table, ids, messages, self.state_of)
        schema = self.schema
        arrays = [columns.build(name).cast(schema.field(name).type) for name in schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def beginner(self) -> "TopicDecoder":
        """Return a decoder of the same topic that has read nothing yet, and reports nothing."""
        return replace(self, chunks=ChunkJoiner(), skipped=[], options=replace(self.options, on_corrupt="skip"))

    def take_chunks(self, batches: Iterable[EntryBatch], ledger_id: int) -> None:
        """Read the chunks of a ledger, for the messages that it does not end."""
        for batch in batches:
            entries, keep = self.walk(batch, ledger_id)
            rows = np.flatnonzero(keep & (entries[:, Meta.CHUNKS] > 1))
            payloads = PlainPayloads(Workspace(batch.buffer), entries[rows], rows + batch.first_entry, ledger_id)
            payloads.decrypt(self.decrypt, self.options.on_encrypted)
            payloads.join(self.chunks)

    def fail(self, ledger_id: int, entry_id: int, reason: str) -> None:
        """Raise for a damaged entry, or remember that it was left out."""
        if self.options.on_corrupt == "raise":
            raise CorruptMessageError.of(ledger_id, entry_id, reason)
        self.skipped.append(Skipped(ledger_id, entry_id, entry_id, reason))

    def _fail_rows(self, payloads: PlainPayloads) -> None:
        for row, reason in payloads.failures:
            self.fail(payloads.ledger_id, int(payloads.ids[row]), reason)

    def _in_time(self, entries: Int64Table) -> Mask:
        published = entries[:, Meta.PUBLISH_TIME]
        mask = np.ones(published.size, bool)
        if self.options.start_ms is not None:
            mask &= published >= self.options.start_ms
        if self.options.end_ms is not None:
            mask &= published < self.options.end_ms
        return mask


def _wrong_checksums(batch: EntryBatch) -> dict[int, str]:
    """Return row and reason of each entry whose checksum is not that of its bytes."""
    result = check_entries(batch)
    return {
        row: f"its CRC32C is {result.computed[row]:08x}, it says {result.stored[row]:08x}"
        for row in np.flatnonzero(result.states == EntryState.MISMATCH).tolist()
    }

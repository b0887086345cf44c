"""Entries to the message table: walk the metadata, make payloads plain, split batches, build columns.

The steps work on tables of integers over one buffer. If nothing must be decrypted, joined or decompressed, the columns are the first copy
of any byte; if no column needs a payload, no payload is opened.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.errors import CorruptMessageError, KafkaEntryError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.decompression import LARGEST
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.codecs.size_limits import DEFAULT_MAX_MESSAGE_BYTES
from ledgerfs.messages.decode.batch_split import split_batches, split_unopened
from ledgerfs.messages.decode.chunks import ChunkJoiner
from ledgerfs.messages.decode.columns import Constants, MessageColumns, StateOf
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, Status, have_sound_metadata, walk_metadata
from ledgerfs.messages.decode.payloads import Decrypt, EntryError, PlainPayloads, Workspace
from ledgerfs.messages.decode.table_schema import schema_of
from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.messages.kernels.arrays import spans
from ledgerfs.messages.kernels.wire import ABSENT

_STATUS_TEXT = {
    Status.BROKEN_FRAME: "its frame is longer than the entry",
    Status.BROKEN_METADATA: "its message metadata is not a protobuf message",
    Status.MISSING_FIELD: "its message metadata lacks producer name, sequence id or publish time",
    Status.IMPOSSIBLE_TIME: "its publish time is out of range",
    Status.BROKEN_BATCH: "its payload does not match the batch in its metadata",
}
_KAFKA = "Kafka on Pulsar wrote it in Kafka's format (entry.format=kafka), which ledgerfs does not read"
_PORTION = 8 << 20

_OF_PAYLOAD = frozenset({"event_time", "key", "key_bytes", "ordering_key", "value", "properties", "sequence_id"})
"""Columns that are inside the payload of a batch."""


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Options for decoding entries to messages.

    Attributes
    ----------
    columns
        Names of `MESSAGE_SCHEMA`, in order; None for the default ones. Other columns are not built.
    start_ms, end_ms
        Keep messages published from ``start_ms`` on and before ``end_ms``, ms since 1970 UTC.
    include_markers
        Keep the broker's own markers (for transactions and replication), which have no value.
    check_checksums
        Compare the CRC32C of every entry that has one.
    max_message_bytes
        The largest payload to decompress, or to join from chunks.
    on_encrypted
        For messages without a private key of the names that they are encrypted for: ``raise``, ``null`` (keep the row without its value),
        or ``skip``.
    on_corrupt
        For entries that are damaged, too large, or in Kafka's format: ``raise``, or ``skip`` (and report them).

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
    """Entries that were left out because they are damaged, too large, or in Kafka's format: first and last id, and the reason."""

    ledger_id: int
    first_entry: int
    last_entry: int
    reason: str


@dataclass(slots=True)
class TopicDecoder:
    """Decodes the entries of one topic, in their order; chunked messages continue from one call to the next.

    Attributes
    ----------
    decrypt
        Decrypts payloads; None without private keys.
    state_of
        Returns the state of a transaction's message at a ledger and entry, for the column ``txn_state``.
    skipped
        Entries that were left out with ``on_corrupt="skip"``.
    undecodable
        Times that no column can hold, by column: they are null.
    schema
        Schema of the tables.

    """

    topic: str
    options: DecodeOptions = field(default_factory=DecodeOptions)
    decrypt: Decrypt | None = None
    state_of: StateOf | None = None
    chunks: ChunkJoiner = field(init=False)
    skipped: list[Skipped] = field(default_factory=list)
    undecodable: list[Undecodable] = field(default_factory=list)
    schema: pa.Schema = field(init=False)
    _constants: Constants = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.schema = schema_of(self.options.columns)
        self.chunks = ChunkJoiner(self.options.max_message_bytes)

    def walk(self, batch: EntryBatch, ledger_id: int) -> tuple[Int64Table, Mask]:
        """First half: return the metadata of the entries, and which are valid user messages (perhaps in Kafka's format)."""
        entries = walk_metadata(batch)
        status = entries[Meta.STATUS]
        wrong = (~have_sound_metadata(entries)).nonzero()[0].tolist() if status.any() else []
        reasons = {row: _STATUS_TEXT[Status(int(status[row]))] for row in wrong}
        if self.options.check_checksums:
            reasons |= _wrong_checksums(batch)
        sound = np.ones(status.size, bool) if self.options.include_markers else entries[Meta.MARKER] == ABSENT
        for row in sorted(reasons):
            self.fail(ledger_id, batch.id_of(row), reasons[row])
            sound[row] = False
        return entries, sound

    def portions(self, entries: Int64Table, keep: Mask) -> Iterator[Mask]:
        """Split the entries in ``keep`` into portions of about 8 MiB each, by the uncompressed sizes that they claim.

        A larger message is a separate portion.
        """
        waiting = min(self.chunks.waiting_bytes, LARGEST)
        if waiting <= _PORTION and not entries[Meta.COMPRESSION].any():
            yield keep
            return
        rows = keep.nonzero()[0]
        most = min(self.options.max_message_bytes, LARGEST)
        stored = entries[Meta.PAYLOAD_END, rows] - entries[Meta.PAYLOAD_AT, rows]
        claimed = np.clip(entries[Meta.UNCOMPRESSED_SIZE, rows], 0, most)
        sizes = np.where(entries[Meta.COMPRESSION, rows] == 0, stored, claimed)
        # Any part may be the last one of its message, which then contains all waiting parts.
        if waiting > _PORTION:
            sizes[(entries[Meta.CHUNKS, rows] > 1) & (entries[Meta.CHUNK, rows] > 0)] += waiting
        for start, stop in spans(sizes, _PORTION):
            if stop - start == rows.size:
                yield keep
                return
            portion = np.zeros(keep.size, bool)
            portion[rows[start:stop]] = True
            yield portion

    def decode(self, batch: EntryBatch, ledger_id: int, entries: Int64Table, keep: Mask) -> pa.RecordBatch:
        """Second half: return the messages of the entries in ``keep``.

        Raises `CorruptMessageError`, `MessageTooLargeError` and `KafkaEntryError` (unless skipping) and `EncryptedMessageError`, which name
        ledger and entry.
        """
        payloads = _payloads(batch, ledger_id, entries, keep)
        opens_batches = not _OF_PAYLOAD.isdisjoint(self.schema.names)
        # The number of messages of a batch is outside of the encrypted payload.
        leaves_sealed = not opens_batches and self.options.on_encrypted == "raise"
        payloads.open(_sealed if leaves_sealed else self.decrypt, self.options.on_encrypted, self.chunks)
        is_in_time = np.ones(payloads.keep.size, bool)
        if self.options.start_ms is not None:
            is_in_time &= payloads.entries[Meta.PUBLISH_TIME] >= self.options.start_ms
        if self.options.end_ms is not None:
            is_in_time &= payloads.entries[Meta.PUBLISH_TIME] < self.options.end_ms
        payloads.keep &= is_in_time
        self._report_sealed(payloads, is_in_time)
        if opens_batches:
            payloads.decompress(self.options.max_message_bytes)
        else:
            payloads.count(self.options.max_message_bytes)
        for row, reason, kind in payloads.failures:
            self.fail(ledger_id, int(payloads.ids[row]), reason, kind)
        table, data = _where(payloads.keep, payloads.entries), payloads.work.bytes()
        messages = (
            split_batches(data, table, with_payloads="value" in self.schema.names)
            if opens_batches
            else split_unopened(data, table)
        )
        rows = payloads.keep.nonzero()[0]
        if table[Meta.STATUS].any():
            self._fail_payloads(ledger_id, payloads, table, rows)
        ids = payloads.ids[rows]
        columns = MessageColumns(
            self.topic, ledger_id, data, table, ids, messages, self._constants, self.undecodable, self.state_of
        )
        return pa.RecordBatch.from_arrays(columns.build(self.schema.names), schema=self.schema)

    def _report_sealed(self, payloads: PlainPayloads, is_in_time: Mask) -> None:
        """Report entries that could not be decrypted, which the caller allows."""
        rows = (payloads.sealed & is_in_time).nonzero()[0]
        if rows.size:
            result = "left out" if self.options.on_encrypted == "skip" else "null"
            reason = f"the entry is encrypted, and no private key matches (--private-key); it is {result}"
            first = f"{payloads.ledger_id}:{payloads.ids[rows[0]]}"
            self.undecodable.append(Undecodable(None, reason, int(rows.size), first, is_error=False))

    def beginner(self) -> "TopicDecoder":
        """Return a decoder of the same topic with empty state, which skips damaged entries and reports to its own list."""
        return replace(self, skipped=[], options=replace(self.options, on_corrupt="skip"))

    def take_chunks(self, batches: Iterable[EntryBatch], ledger_id: int) -> None:
        """Read only the chunks of a ledger, for chunked messages that end later."""
        for batch in batches:
            entries, keep = self.walk(batch, ledger_id)
            payloads = _payloads(batch, ledger_id, entries, keep & (entries[Meta.CHUNKS] > 1))
            payloads.open(self.decrypt, self.options.on_encrypted, self.chunks)

    def fail(
        self, ledger_id: int, entry_id: int, reason: str, kind: EntryError = CorruptMessageError, *, more: int = 0
    ) -> None:
        """Raise the error for an entry that is damaged or too large; with ``on_corrupt="skip"`` add it to `skipped` instead.

        With "skip", ``more`` entries after it are left out for the same reason.
        """
        if self.options.on_corrupt == "raise":
            raise kind.of(ledger_id, entry_id, reason)
        self.skipped.append(Skipped(ledger_id, entry_id, entry_id + more, reason))

    def _fail_payloads(
        self, ledger_id: int, payloads: PlainPayloads, table: Int64Table, rows: npt.NDArray[np.intp]
    ) -> None:
        """Fail entries whose payloads could not be split; ``table`` has those of the ``rows`` of the payloads."""
        for broken in (~have_sound_metadata(table)).nonzero()[0].tolist():
            row, status = int(rows[broken]), Status(int(table[Meta.STATUS, broken]))
            reason = payloads.explain(row) if status == Status.BROKEN_COMPRESSION else _STATUS_TEXT[status]
            self.fail(ledger_id, int(payloads.ids[row]), reason)
        self._fail_kafka(ledger_id, payloads.ids[rows[table[Meta.STATUS] == Status.KAFKA_ENTRY]])

    def _fail_kafka(self, ledger_id: int, ids: Int64) -> None:
        """Fail entries in Kafka's format, consecutive ones as one: topics of Kafka's clients contain millions, and nothing else."""
        for run in np.split(ids, (np.diff(ids) != 1).nonzero()[0] + 1):
            if run.size:
                self.fail(ledger_id, int(run[0]), _KAFKA, KafkaEntryError, more=run.size - 1)


def _sealed(_: object, __: object, payload: "bytes | memoryview") -> bytes:
    return bytes(payload)


def _payloads(batch: EntryBatch, ledger_id: int, entries: Int64Table, keep: Mask) -> PlainPayloads:
    ids = batch.ids_of(keep.nonzero()[0])
    return PlainPayloads(Workspace(batch.buffer), _where(keep, entries), ids, ledger_id)


def _where(keep: Mask, entries: Int64Table) -> Int64Table:
    """Return the entries in ``keep``, without a copy if they are consecutive."""
    rows = keep.nonzero()[0]
    if rows.size and rows[-1] - rows[0] + 1 == rows.size:
        return entries[:, rows[0] : rows[-1] + 1]
    return np.compress(keep, entries, axis=1)


def _wrong_checksums(batch: EntryBatch) -> dict[int, str]:
    """Return {row: reason} of the entries with a wrong checksum."""
    result = check_entries(batch)
    wrong = (result.states == int(EntryState.MISMATCH)).nonzero()[0].tolist()
    return {row: f"its CRC32C is {result.computed[row]:08x}, expected {result.stored[row]:08x}" for row in wrong}

"""A topic, or one ledger of it, read as a table: a stream of Arrow record batches of bounded size.

Ledgers come in the order of the topic and entries in the order of the ledger, so messages do too. What a reader of Pulsar would not see
(markers, messages of transactions that were not committed) is left out unless it is asked for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ledgerfs.errors import CorruptLedgerError, InvalidNameError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.chunks import Incomplete
from ledgerfs.messages.decode import DecodeOptions, Skipped, TopicDecoder
from ledgerfs.messages.metadata_walk import Int64Table, Meta, Status, transactions_of, walk_metadata
from ledgerfs.messages.payloads import Decrypt
from ledgerfs.messages.table_schema import DEFAULT_COLUMNS, schema_of
from ledgerfs.messages.wire import ABSENT
from ledgerfs.vfs.layout import LedgerReader

if TYPE_CHECKING:
    import pandas as pd

CLOCK_SLACK_MS = 10 * 60 * 1000
"""How far a producer's clock may be off: ledgers are left unread only if their times miss the range by more than this."""

_LEDGERS_BACK = 4
"""In how many ledgers before the first one read a chunked message is looked for."""

Moment = str | datetime | int | None
_COMMIT_MARKER, _ABORT_MARKER = 21, 22
_CHOICES = {
    "transactions": ("committed", "all"),
    "on_encrypted": ("raise", "null", "skip"),
    "on_corrupt": ("raise", "skip"),
}


@dataclass(slots=True)
class Scan:
    """A table that is read when it is iterated, each time anew.

    It is an Arrow stream (``__arrow_c_stream__``): ``pa.table(scan)``, ``pl.DataFrame(scan)``, ``duckdb.from_arrow(scan.to_reader())``.
    Memory is bounded by a few windows of 8 MiB and what they decompress to, however long the topic is.

    Attributes
    ----------
    ledgers, part
        All ledgers of the topic, and the positions of those that are wanted, None for all. The others are only asked for what belongs to
        messages of these: earlier parts of chunked messages, later outcomes of transactions.
    skipped, incomplete
        After an iteration: entries left out because of ``on_corrupt="skip"``, and chunked messages of which parts are missing.

    """

    topic: str
    ledgers: Sequence[LedgerReader]
    options: DecodeOptions
    transactions: str = "committed"
    decrypt: Decrypt | None = None
    part: range | None = None
    skipped: list[Skipped] = field(default_factory=list)
    incomplete: list[Incomplete] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return schema_of(self.options.columns)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        outcomes = _Outcomes(self.ledgers, self.options)
        decoder = TopicDecoder(self.topic, self.options, self.decrypt, outcomes.state_of)
        self.skipped, self.incomplete = decoder.skipped, decoder.chunks.incomplete
        was_read = False
        for number in range(len(self.ledgers)) if self.part is None else self.part:
            ledger = self.ledgers[number]
            if self._misses(number):
                was_read = False
                continue
            if not was_read:
                decoder.chunks.earlier = _Earlier(self.ledgers, number, decoder)
                was_read = True
            for batch in _batches(ledger, decoder):
                entries, keep = decoder.walk(batch, ledger.ref.ledger_id)
                in_transaction = np.flatnonzero(keep & (entries[:, Meta.TRANSACTION_LEAST] != ABSENT))
                if in_transaction.size:
                    outcomes.look_ahead(number)
                    if self.transactions == "committed":
                        keep[in_transaction] = outcomes.are_visible(entries[in_transaction])
                for portion in decoder.portions(entries, keep):
                    table = decoder.decode(batch, ledger.ref.ledger_id, entries, portion)
                    if table.num_rows:
                        yield table
        decoder.chunks.finish()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the stream as pyarrow's reader, for those who take nothing else (DuckDB)."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_table(self) -> pa.Table:
        """Read all of it into memory."""
        return pa.Table.from_batches(list(self), self.schema)

    def to_pandas(self, **options: Any) -> "pd.DataFrame":  # noqa: ANN401  (pyarrow's own)
        """Read all of it into a pandas DataFrame; ``options`` are those of `pyarrow.Table.to_pandas`."""
        frame: pd.DataFrame = self.to_table().to_pandas(**options)
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        capsule: object = self.to_reader().__arrow_c_stream__(requested_schema)
        return capsule

    def _misses(self, number: int) -> bool:
        """Whether no message of a ledger can be in the range of time: all were published after its creation and before the next one's.

        Times of objects are not asked: copies and archives change them.
        """
        start, end = self.options.start_ms, self.options.end_ms
        created = self.ledgers[number].ref.created_ms
        closed = self.ledgers[number + 1].ref.created_ms if number + 1 < len(self.ledgers) else None
        ends_before = start is not None and closed is not None and closed + CLOCK_SLACK_MS < start
        begins_after = end is not None and created is not None and created - CLOCK_SLACK_MS >= end
        return ends_before or begins_after


def make_scan(
    topic: str,
    ledgers: Sequence[LedgerReader],
    *,
    columns: Sequence[str] | None = None,
    start_time: Moment = None,
    end_time: Moment = None,
    transactions: str = "committed",
    private_keys: Any = None,  # noqa: ANN401  (a mapping of PEM texts or paths)
    **options: Any,  # noqa: ANN401  (fields of DecodeOptions)
) -> Scan:
    """Return a scan from the arguments that users give; raises `InvalidNameError` for a column or a choice that is not there."""
    given = {"transactions": transactions, **options}
    for name, choices in _CHOICES.items():
        if given.get(name, choices[0]) not in choices:
            raise InvalidNameError(f"one of {', '.join(choices)}", key=f"{name}={given[name]!r}")
    if columns is None and transactions == "all":
        columns = (*DEFAULT_COLUMNS, "txn_state")
    schema_of(columns)
    decode = DecodeOptions(columns, milliseconds_of(start_time), milliseconds_of(end_time))
    return Scan(topic, ledgers, replace(decode, **options), transactions, _decrypt_with(private_keys))


def milliseconds_of(moment: Moment) -> int | None:
    """Return ms since 1970 UTC of an ISO 8601 text, a datetime (UTC unless it says otherwise), or ms themselves."""
    if moment is None or isinstance(moment, int):
        return moment
    try:
        time = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError as error:
        raise InvalidNameError(
            "not a time; expected ISO 8601, such as 2026-11-01 or 2026-11-01T12:00:00Z", key=str(moment)
        ) from error
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def _decrypt_with(private_keys: Any) -> Decrypt | None:  # noqa: ANN401
    if private_keys is None:
        return None
    # cryptography, which this imports, is an extra that only encrypted topics need.
    from ledgerfs.messages.decryption import Decryptor, EncryptedDataKey, PrivateKeys

    decryptor = Decryptor(PrivateKeys.of(private_keys))
    return lambda keys, iv, payload: decryptor.decrypt([EncryptedDataKey(*key) for key in keys], iv, payload)


def _batches(ledger: LedgerReader, decoder: TopicDecoder) -> Iterator[EntryBatch]:
    """Yield the ledger's entries; where damage is to be skipped, go on behind it with the next block."""
    if decoder.options.on_corrupt == "raise":
        yield from ledger.batches(ledger.first_entry, ledger.last_entry)
        return
    borders = [*(block.first_entry for block in ledger.index.blocks), ledger.last_entry + 1]
    for first, behind in pairwise(borders):
        entry = first
        try:
            for batch in ledger.batches(first, behind - 1):
                entry = batch.first_entry + len(batch)
                yield batch
        except CorruptLedgerError as error:
            decoder.skipped.append(Skipped(ledger.ref.ledger_id, entry, behind - 1, str(error)))


class _Earlier:
    """The ledgers before the one where reading began: for parts of chunked messages that begin there. Goes back further at each call."""

    def __init__(self, ledgers: Sequence[LedgerReader], number: int, decoder: TopicDecoder) -> None:
        self._before = ledgers[max(0, number - _LEDGERS_BACK) : number]
        self._back = 0
        self._decoder = decoder

    def __call__(self) -> bool:
        """Read the chunks of one more ledger before, and of those behind it; return whether there was one more."""
        self._back += 1
        if self._back > len(self._before):
            return False
        older = self._decoder.beginner()
        for ledger in self._before[-self._back :]:
            older.take_chunks(_batches(ledger, older), ledger.ref.ledger_id)
        self._decoder.chunks.recall(older.chunks)
        return True


class _Outcomes:
    """The outcomes of transactions: their markers may stand in a later ledger than their messages, or nowhere yet."""

    def __init__(self, ledgers: Sequence[LedgerReader], options: DecodeOptions) -> None:
        self._ledgers = ledgers
        self._options = options
        self._states: dict[tuple[int, int], str] | None = None

    def look_ahead(self, number: int) -> None:
        """Read the markers of all ledgers from ``number`` on, once: only topics with transactions pay for it."""
        if self._states is not None:
            return
        self._states = {}
        # Damage was told, or will be, where its own ledger is read.
        looker = TopicDecoder("", self._options)
        for ledger in self._ledgers[number:]:
            for batch in _batches(ledger, looker):
                entries = walk_metadata(batch)
                is_outcome = np.isin(entries[:, Meta.MARKER], (_COMMIT_MARKER, _ABORT_MARKER))
                markers = entries[is_outcome & (entries[:, Meta.STATUS] == Status.VALID)]
                for transaction, kind in zip(transactions_of(markers), markers[:, Meta.MARKER].tolist(), strict=True):
                    if transaction is not None:
                        self._states[transaction] = "committed" if kind == _COMMIT_MARKER else "aborted"

    def state_of(self, transaction: tuple[int, int]) -> str:
        """Return ``committed``, ``aborted`` or ``open``."""
        return (self._states or {}).get(transaction, "open")

    def are_visible(self, rows: Int64Table) -> list[bool]:
        """Return for each row of a transaction whether it is of a committed one, or is a marker itself."""
        markers = (rows[:, Meta.MARKER] != ABSENT).tolist()
        pairs = zip(markers, transactions_of(rows), strict=True)
        return [is_marker or (one is not None and self.state_of(one) == "committed") for is_marker, one in pairs]

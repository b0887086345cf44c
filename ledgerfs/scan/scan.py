"""A topic, or some ledgers of it, read as a table: a stream of Arrow record batches of bounded size.

Ledgers come in the order of the topic and entries in the order of the ledger, so messages do too. Entries that a reader of Pulsar would not
see (markers, messages of transactions that were not committed) are left out unless they are asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from ledgerfs.catalog.ledger_times import LedgerTimes, TimeRange
from ledgerfs.catalog.missing_ledgers import MissingLedger, require_present
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.row_dependencies import Basis, Unsettled
from ledgerfs.catalog.time_arguments import CLOCK_SLACK_MS, Moment, milliseconds_of
from ledgerfs.display import html_table, names_shown, printable
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import DecodeOptions, Skipped, TopicDecoder
from ledgerfs.messages.decode.entry_fields import rows_in_transactions
from ledgerfs.messages.decode.payloads import Decrypt
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS, schema_of
from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.scan.earlier_chunks import EarlierChunks
from ledgerfs.scan.json_documents import json_values
from ledgerfs.scan.options import OF_VALUES, require_choices, require_known, require_of_parts
from ledgerfs.scan.reread_damaged import walk_entries
from ledgerfs.scan.shown_values import ShownValues
from ledgerfs.scan.time_pruning import Pruned, TimePruning
from ledgerfs.scan.topic_entries import Reach, read_entries
from ledgerfs.scan.transaction_outcomes import Known, TransactionOutcomes
from ledgerfs.scan.typed_values import typed_values
from ledgerfs.scan.value_reading import ValueReading

if TYPE_CHECKING:
    import pandas as pd


@dataclass(slots=True)
class Scan:
    """A table that is read by each iteration.

    It is an Arrow stream (``__arrow_c_stream__``): ``pa.table(scan)``, ``pl.DataFrame(scan)``, ``duckdb.from_arrow(scan.to_reader())``.
    Memory is bounded by a few windows of 8 MiB and what they decompress to, however long the topic is.

    Attributes
    ----------
    ledgers, part
        All ledgers of the topic, and which of their entries to read, None for all. Others are read only for the messages of these: for
        earlier parts of chunked messages, and later outcomes of transactions. A chunked message belongs to its last part, so parts of a
        topic that do not overlap never have the same message.
    transactions
        ``committed``; ``readable``, which ends before the first message of an open transaction, as Pulsar's reader does; or ``all``.
    clock_slack_ms
        How much earlier than a previous message one may be published; entries that cannot be in the range of time even so are not read.
    limits
        Limits of the publish times of each ledger; None to find them from the ledgers when they are needed.
    known_outcomes
        Outcomes of transactions that earlier scans of the same ledgers found; this scan adds its own.
    on_read
        Called as entries are read, to show progress.
    skipped
        After an iteration: entries left out because of ``on_corrupt="skip"`` or ``on_unreadable="skip"``.
    incomplete
        After an iteration: chunked messages that lack parts. A message that waits for parts at the end of the entries is among them only
        if that is the end of the topic.
    basis
        After a whole iteration: the ledgers that the rows depend on besides their own (`ledgerfs.catalog.row_dependencies`).
    values
        How values become columns; None for bytes.
    undecodable
        After an iteration: values and times that could not be decoded, by version and reason.
    missing
        Ledgers of the topic that cannot be read. Unless ``on_corrupt`` is "skip", an iteration raises `MissingLedgerError` for
        them before its first batch.
    skips_refused
        Whether ledgers that the store refuses are left out; they are added to ``skipped``.

    """

    topic: str
    ledgers: Sequence[LedgerReader]
    options: DecodeOptions
    transactions: str = "committed"
    decrypt: Decrypt | None = None
    part: Reach | None = None
    clock_slack_ms: int = CLOCK_SLACK_MS
    limits: LedgerTimes | None = field(default=None, repr=False)
    known_outcomes: Known = field(default_factory=dict, repr=False)
    on_read: OnRead | None = None
    skipped: list[Skipped] = field(default_factory=list)
    incomplete: list[Incomplete] = field(default_factory=list)
    missing: Sequence[MissingLedger] = ()
    skips_refused: bool = False
    basis: Basis = field(default_factory=Basis.unknown)
    values: ShownValues | None = None
    undecodable: list[Undecodable] = field(default_factory=list)

    def __repr__(self) -> str:
        return (
            f"<scan of {printable(self.topic)}: {len(self.ledgers):,} ledgers, columns {', '.join(self.schema.names)}>"
        )

    def __dir__(self) -> list[str]:
        return list(names_shown(self))

    def _repr_html_(self) -> str:
        """Return the schema as HTML; nothing is read."""
        return schema_table(self)

    def __post_init__(self) -> None:
        if self.part is not None:
            require_of_parts({"transactions": self.transactions})

    @property
    def is_final(self) -> bool:
        """After a whole iteration: whether no ledger that is uploaded later, before, between or after the others, can change the rows.

        False if a transaction had no outcome, a chunked message lacked parts, or was joined from several ledgers, between which
        others may come; if a ledger was left out of the range of time because of when others were created; or if the topic lacks ledgers.
        """
        return self.basis.is_final and not self.missing

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        read = schema_of(self.options.columns)
        return read if self.values is None else self.values.schema_for(read.names)

    @property
    def message_columns(self) -> tuple[str, ...]:
        """The columns of the message table that are wanted, whatever the value becomes."""
        return tuple(schema_of(self.options.columns).names)

    @property
    def times(self) -> TimeRange:
        """The range of publish times to read."""
        return TimeRange(self.options.start_ms, self.options.end_ms, self.clock_slack_ms)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.undecodable = []
        if self.values is not None and self.values.are_needed(self.message_columns):
            return self._read_typed(self.values)
        if self.schema.names:
            return self._read(self.options)
        # A decoder needs a column to count rows; this one costs almost nothing, and only its length is used.
        return (batch.select([]) for batch in self._read(replace(self.options, columns=("ledger_id",))))

    def _read_typed(self, values: ShownValues) -> Iterator[pa.RecordBatch]:
        """Read what values are decoded from, and yield batches of the wanted columns."""
        wanted = self.message_columns
        reading = ValueReading(values, wanted, self.undecodable)
        untyped = replace(self, values=None, options=replace(self.options, columns=values.columns_for(wanted)))
        for batch in untyped._read(untyped.options):  # noqa: SLF001  (both add to one list)
            # Whoever stops early asks what was left out before, too.
            self.skipped, self.incomplete = untyped.skipped, untyped.incomplete
            yield reading(batch)
        self.skipped, self.incomplete, self.basis = untyped.skipped, untyped.incomplete, untyped.basis

    def count(self) -> int:
        """Return the number of messages, without building columns, decompressing or decrypting.

        So encrypted messages are counted without their keys, too. Only with ``on_encrypted`` "null" or "skip", which change the number of
        rows, messages are decrypted with the keys given. Raises as an iteration does, and sets the same attributes.
        """
        if self.values is not None and self.values.on_undecodable == "skip":
            told = replace(self, options=replace(self.options, columns=("ledger_id",)))
            left: int = sum(batch.num_rows for batch in told)
            self.skipped, self.incomplete, self.basis = told.skipped, told.incomplete, told.basis
            self.undecodable = told.undecodable
            return left
        options = replace(self.options, columns=())
        counted = replace(self, options=options, values=None, decrypt=self._decrypt_to_count())
        messages: int = sum(batch.num_rows for batch in counted)
        self.skipped, self.incomplete, self.basis = counted.skipped, counted.incomplete, counted.basis
        return messages

    # These four need no more than batches and their schema: `PartitionedScan` has them, too.

    def to_reader(self: "RecordBatches") -> pa.RecordBatchReader:
        """Return the stream as a pyarrow reader, for libraries that need one (DuckDB)."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_table(self: "RecordBatches") -> pa.Table:
        """Read all of it into memory."""
        return pa.Table.from_batches(list(self), self.schema)

    def to_pandas(self: "RecordBatches", **options: Any) -> "pd.DataFrame":  # noqa: ANN401  (pyarrow's own)
        """Read all of it into a pandas DataFrame; ``options`` are those of `pyarrow.Table.to_pandas`."""
        frame: pd.DataFrame = Scan.to_table(self).to_pandas(**options)
        return frame

    def __arrow_c_stream__(self: "RecordBatches", requested_schema: object | None = None) -> object:
        capsule: object = Scan.to_reader(self).__arrow_c_stream__(requested_schema)
        return capsule

    def _read(self, options: DecodeOptions) -> Iterator[pa.RecordBatch]:
        self.require_all()
        is_damage_skipped = options.on_corrupt == "skip"
        are_outcomes_told = "txn_state" in schema_of(options.columns).names
        outcomes = TransactionOutcomes(self.ledgers, self.known_outcomes, is_damage_skipped=is_damage_skipped)
        decoder = TopicDecoder(self.topic, options, self.decrypt, outcomes.state_of, undecodable=self.undecodable)
        self.skipped, self.incomplete, self.basis = decoder.skipped, decoder.chunks.incomplete, Basis.unknown()
        start, stop = reach = (pruned := self._pruned()).reach
        decoder.chunks.earlier = EarlierChunks(self.ledgers, start, decoder)
        found = read_entries(
            self.ledgers,
            reach,
            self.skipped if is_damage_skipped else None,
            self.skipped if self.skips_refused else None,
        )
        for place, batch, entries, keep in walk_entries(decoder, self.ledgers, found):
            ledger_id = self.ledgers[place.number].ref.ledger_id
            rows = rows_in_transactions(entries, keep)
            end: int | None = None
            if rows.size and (self.transactions != "all" or are_outcomes_told):
                outcomes.look_ahead(place, batch, entries, rows)
                if self.transactions != "all":
                    keep[rows] = outcomes.are_visible(place, batch, entries, rows)
                if self.transactions == "readable":
                    end = outcomes.first_open(place, batch, entries, rows)
                    if end is not None:
                        keep[end:] = False
            for portion in decoder.portions(entries, keep):
                table = decoder.decode(batch, ledger_id, entries, portion)
                if table.num_rows:
                    yield table
            if self.on_read is not None:
                self.on_read(int(batch.lengths.sum()))
            if end is not None:
                break
        awaits_parts = stop.number == len(self.ledgers) and _gives_up(decoder)
        met = Unsettled(
            outcomes.any_open, bool(decoder.chunks.incomplete) or decoder.chunks.ended_before,
            awaits_parts, decoder.chunks.joined_since, outcomes.across, pruned.is_by_others,
        )  # fmt: skip
        self.basis = self._basis(met, outcomes.sources)

    @property
    def _part(self) -> Reach:
        return Reach.of(range(len(self.ledgers))) if self.part is None else self.part

    def _basis(self, found: Unsettled, told_by: set[int]) -> Basis:
        """Return the ledgers that the rows depend on, by what reading them found."""
        numbers = self._part.ledgers
        if not numbers:
            return Basis()
        own = [self.ledgers[number].ref.ledger_id for number in numbers]
        joined = set(self._joined_ids(found.joined_since))
        if joined.issubset(own) and joined and len(joined) == own[-1] - min(joined) + 1:
            # There is no id between theirs for another ledger.
            found = replace(found, joined_since=None)
        sources = told_by | joined
        before = self.ledgers[numbers[0] - 1].ref.ledger_id if found.open_transactions and numbers[0] else 0
        return Basis.of((before, own[0], own[-1]), found, sorted(sources - set(own)))

    def _joined_ids(self, since: int | None) -> Iterator[int]:
        """Yield the ids of the ledgers that messages were joined from, the last ones first."""
        number = self._part.ledgers[-1]
        while since is not None and number >= 0 and (one := self.ledgers[number].ref.ledger_id) >= since:
            yield one
            number -= 1

    def require_all(self) -> None:
        """Raise as `require_present` if the topic lacks ledgers."""
        require_present(self.topic, self.missing, self.options.on_corrupt)

    def _pruned(self) -> Pruned:
        """Return the entries to read."""
        part = self._part
        found = TimePruning(self.ledgers, part, self.times, self.limits, self.options.check_checksums).pruned()
        # An open transaction before the range of time ends readable messages, too.
        return replace(found, reach=Reach(part.start, found.reach.stop)) if self.transactions == "readable" else found

    def _decrypt_to_count(self) -> Decrypt | None:
        """Return a function that does not decrypt: the number of messages of a batch is outside the encrypted payload."""
        if self.options.on_encrypted != "raise":
            return self.decrypt
        return lambda keys, iv, payload: bytes(payload)  # noqa: ARG005  (as every Decrypt)


class RecordBatches(Protocol):
    """A table that is read when it is iterated."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def schema_table(table: RecordBatches) -> str:
    """Return the columns of a table as HTML."""
    return html_table(repr(table), ("column", "type"), ((one.name, one.type) for one in table.schema))


def make_scan(
    topic: str,
    ledgers: Sequence[LedgerReader],
    *,
    missing: Sequence[MissingLedger] = (),
    columns: Sequence[str] | None = None,
    start_time: Moment = None,
    end_time: Moment = None,
    clock_slack_ms: int = CLOCK_SLACK_MS,
    transactions: str = "committed",
    private_keys: Any = None,  # noqa: ANN401  (a mapping of PEM texts or paths)
    schemas: Callable[[], TopicSchemas] = TopicSchemas,
    **options: Any,  # noqa: ANN401  (fields of DecodeOptions)
) -> Scan:
    """Return a scan from the arguments that users give; ``schemas`` is asked for those of the topic if values are read by them.

    Raises `InvalidOptionError` for an invalid column, time or choice, and as `typed_values` and `json_values`. A scan whose
    `ShownValues.await_values` cannot be read before it has learned the type.
    """
    require_known(options)
    require_choices({"transactions": transactions, **options})
    if isinstance(clock_slack_ms, bool) or not isinstance(clock_slack_ms, int) or clock_slack_ms < 0:
        raise InvalidOptionError("expected whole milliseconds, 0 or more", key=f"clock_slack_ms={clock_slack_ms!r}")
    most = options.get("max_message_bytes", 1)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InvalidOptionError("expected a number of bytes, 1 or more", key=f"max_message_bytes={most!r}")
    if columns is None and transactions == "all":
        columns = (*DEFAULT_COLUMNS, "txn_state")
    schema_of(columns)
    of_values = {name: options.pop(name) for name in OF_VALUES if name in options}
    values = _shown_values(topic, schemas, **of_values)
    decode = replace(DecodeOptions(columns, milliseconds_of(start_time), milliseconds_of(end_time)), **options)
    decrypt = _decrypt_with(private_keys)
    return Scan(
        topic, ledgers, decode, transactions, decrypt, clock_slack_ms=clock_slack_ms, missing=missing, values=values
    )


def _shown_values(
    topic: str,
    schemas: Callable[[], TopicSchemas],
    values: str = "bytes",
    **of_values: Any,  # noqa: ANN401  (arguments of users)
) -> ShownValues | None:
    match values:
        case "bytes":
            return None
        case "json":
            return json_values(**of_values)
    return typed_values(topic, schemas(), values=values, **of_values)


def _gives_up(decoder: TopicDecoder) -> bool:
    """Tell the decoder that no entries follow; return whether a chunked message was waiting for parts."""
    told = len(decoder.chunks.incomplete)
    return len(decoder.chunks.finish()) > told


def _decrypt_with(private_keys: Any) -> Decrypt | None:  # noqa: ANN401
    if private_keys is None:
        return None
    # This imports cryptography, an extra that only encrypted topics need.
    from ledgerfs.messages.decode.decryption import Decryptor, EncryptedDataKey, PrivateKeys

    decryptor = Decryptor(PrivateKeys.of(private_keys))
    return lambda keys, iv, payload: decryptor.decrypt([EncryptedDataKey(*key) for key in keys], iv, payload)

"""Values of one iteration of a scan: the batches of the message table with columns for the bytes of values.

A batch may have messages of several versions. They are decoded version by version, each to the type that is wanted, and put back in their
order. What cannot be decoded is null, left out or an error, and counted by version and reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ledgerfs.errors import InvalidSchemaError, UndecodableValueError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.schemas.schema_info import ANY_VERSION
from ledgerfs.formats.schemas.schema_versions import (
    AMBIGUOUS,
    NO_VERSION,
    ODD_VERSION,
    version_numbers,
    writers_of,
)
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.key_values import SeparatedDecoder, message_keys
from ledgerfs.messages.values.value_decoder import ValueDecoder, payloads_of
from ledgerfs.scan.typed_values import TypedValues, fields_of_each


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Values of one version that could not be decoded for one reason.

    Attributes
    ----------
    version
        The number that the messages name; None for none.
    reason
        Why, in words that follow the name of a message.
    count
        How many there were.
    first
        The id of the first, ``ledger:entry`` or ``ledger:entry:index``.
    is_error
        False for values that no schema is named for: they are null, and no error.

    """

    version: int | None
    reason: str
    count: int
    first: str
    is_error: bool = True


@dataclass(slots=True)
class ValueReading:
    """The values of one iteration.

    Attributes
    ----------
    options
        How they are shown.
    wanted
        Columns of the message table, in their order.
    undecodable
        What could not be decoded; this adds to it.

    """

    options: TypedValues
    wanted: tuple[str, ...]
    undecodable: list[Undecodable]
    schema: pa.Schema = field(init=False)
    _decoders: dict[int, ValueDecoder | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.schema = self.options.schema_for(self.wanted)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted columns of a batch; raises `UndecodableValueError` if that is wanted."""
        groups = list(self._groups(batch))
        values = self._joined(groups, batch.num_rows)
        keep = self._told(groups, batch)
        arrays: list[pa.Array] = []
        for name in self.wanted:
            arrays += self._columns_of(values) if name == "value" else [batch[name]]
        if not arrays:
            # A struct without fields, which is flattened: rows without columns are rows, too.
            return (batch if keep is None else batch.filter(pa.array(keep))).select([])
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return made if keep is None else made.filter(pa.array(keep))

    def _columns_of(self, values: pa.Array) -> list[pa.Array]:
        is_flat = self.options.flatten and pa.types.is_struct(values.type)
        return list(values.flatten()) if is_flat else [values]

    def _groups(self, batch: pa.RecordBatch) -> Iterator["_Group"]:
        """Yield the rows of each schema with their values."""
        numbers = version_numbers(batch["schema_version"])
        published = batch["publish_time"].cast(pa.int64()).to_numpy() // 1000
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            generations = self._generations.get(number) or self._generations.get(ANY_VERSION, [])
            if number == NO_VERSION and not generations:
                yield self._without(batch, rows, number, "it names no schema: its value is bytes", is_error=False)
                continue
            writers = writers_of([self.options.schemas.versions[place] for place in generations], published[rows])
            for writer in np.unique(writers).tolist():
                chosen = rows[writers == writer]
                if writer >= 0:
                    yield self._decoded(batch, chosen, generations[writer])
                else:
                    yield self._without(batch, chosen, number, self._why_unknown(number, writer))

    @property
    def _generations(self) -> dict[int, list[int]]:
        """The places of the schemas of each number."""
        found: dict[int, list[int]] = {}
        for place, one in enumerate(self.options.schemas.versions):
            if not one.is_deletion:
                found.setdefault(one.version, []).append(place)
        return found

    def _why_unknown(self, number: int, writer: int) -> str:
        if number == ODD_VERSION:
            return "it names its schema in a way that is not Pulsar's"
        if writer == AMBIGUOUS:
            several = "was given again within seconds of it, or is another one for imported rows"
            return f"its schema, version {number}, {several}: it may be either"
        if number in self._generations:
            return (
                f"the schema that is known as its version {number} was registered after it: the number was used again"
            )
        return f"its schema, version {number}, is not known: save it while the cluster lives (ledgerfs schemas save)"

    def _decoded(self, batch: pa.RecordBatch, rows: Int64, place: int) -> "_Group":
        """Return rows that one schema wrote."""
        version = self.options.schemas.versions[place]
        decoder = self._decoder(place)
        if isinstance(decoder, str):
            return self._without(batch, rows, version.version, decoder)
        chosen = batch if rows.size == batch.num_rows else batch.take(pa.array(rows))
        if isinstance(decoder, SeparatedDecoder):
            decoder = decoder.with_keys(message_keys(chosen))
        values, reasons = decoder.decode(*payloads_of(chosen["value"]))
        codes = np.unique(reasons[reasons > 0]).tolist()
        failed = {decoder.explain(code): rows[reasons == code] for code in codes}
        return _Group(version.version, rows, values, failed, place)

    def _without(
        self, batch: pa.RecordBatch, rows: Int64, number: int, reason: str, *, is_error: bool = True
    ) -> "_Group":
        """Return rows that no schema is known for: null, as tombstones are for another reason."""
        is_there = np.asarray(batch["value"].take(pa.array(rows)).is_valid())
        failed = {reason: rows[is_there]} if is_there.any() else {}
        return _Group(None if number < 0 else number, rows, None, failed, -1, is_error)

    def _decoder(self, place: int) -> ValueDecoder | str:
        """Return the decoder of a schema, or why there is none."""
        if place not in self._decoders:
            try:
                self._decoders[place] = decoder_of(self.options.schemas.versions[place].schema, self.options.wanted)
            except InvalidSchemaError as error:
                self._decoders[place] = error.reason
        return self._decoders[place]

    def _joined(self, groups: "list[_Group]", length: int) -> pa.Array:
        """Return the values of all groups, in the order of the rows."""
        kind = self.options.type
        if self.options.wanted is not None:
            return _in_order(groups, kind, length)
        versions = self.options.schemas.versions
        parts = [
            _in_order([one for one in groups if one.place == versions.index(version)], kind.field(name).type, length)
            for name, version in fields_of_each(self.options.schemas)
        ]
        is_there = np.zeros(length, bool)
        for one in groups:
            if one.values is not None:
                is_there[one.rows] = np.asarray(one.values.is_valid())
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array(~is_there))

    def _told(self, groups: "list[_Group]", batch: pa.RecordBatch) -> Mask | None:
        """Count what could not be decoded; return the rows to keep if some are left out."""
        on_undecodable = self.options.on_undecodable
        failures = [(rows, reason, one) for one in groups for reason, rows in one.failed.items()]
        errors = [(int(rows[0]), reason) for rows, reason, one in failures if one.is_error]
        if errors and on_undecodable == "raise":
            row, reason = min(errors)
            raise UndecodableValueError.of(_message_id(batch, row), reason)
        for rows, reason, one in failures:
            first = _message_id(batch, int(rows[0]))
            add_undecodable(self.undecodable, Undecodable(one.number, reason, rows.size, first, one.is_error))
        if not errors or on_undecodable != "skip":
            return None
        keep = np.ones(batch.num_rows, bool)
        for rows, _, one in failures:
            if one.is_error:
                keep[rows] = False
        return keep


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows of one schema: their values (None if all are null), and those that could not be decoded, by reason."""

    number: int | None
    rows: Int64
    values: pa.Array | None
    failed: dict[str, Int64]
    place: int
    is_error: bool = True


def _in_order(groups: list[_Group], kind: pa.DataType, length: int) -> pa.Array:
    """Return the values of some rows at their places, null elsewhere."""
    parts = [one for one in groups if one.values is not None]
    if len(parts) == 1 and parts[0].rows.size == length:
        return parts[0].values
    places = np.full(length, -1, np.int64)
    begin = 0
    for one in parts:
        places[one.rows] = np.arange(begin, begin + one.rows.size)
        begin += one.rows.size
    if not parts:
        return pa.nulls(length, kind)
    return pa.concat_arrays([one.values for one in parts]).take(pa.array(places, mask=places < 0))


def _message_id(batch: pa.RecordBatch, row: int) -> str:
    ledger, entry, index = (batch[name][row].as_py() for name in ("ledger_id", "entry_id", "batch_index"))
    return f"{ledger}:{entry}" if index is None else f"{ledger}:{entry}:{index}"


def add_undecodable(undecodable: list[Undecodable], new: Undecodable) -> None:
    """Add to those of its version and reason."""
    for place, one in enumerate(undecodable):
        if (one.version, one.reason, one.is_error) == (new.version, new.reason, new.is_error):
            undecodable[place] = replace(one, count=one.count + new.count)
            return
    undecodable.append(new)

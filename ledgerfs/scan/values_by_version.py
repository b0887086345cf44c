"""Decode values of several versions of a schema to one array.

A batch may have messages of several versions. They are decoded version by version, each to the requested type, and put back in their
order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, SchemaInfo, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import (
    AMBIGUOUS,
    NO_VERSION,
    ODD_VERSION,
    TopicSchemas,
    common_number,
    version_numbers,
    writers_of,
)
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.key_values import SeparatedDecoder, message_keys
from ledgerfs.messages.values.value_decoder import ValueDecoder, payloads_of
from ledgerfs.scan.shown_values import Failure


@dataclass(slots=True)
class ValuesByVersion:
    """Decodes the values of one iteration. A `Decoding`.

    Attributes
    ----------
    schemas, wanted, type
        As those of `ledgerfs.scan.typed_values.TypedValues`.

    """

    schemas: TopicSchemas
    wanted: SchemaInfo | None
    type: pa.DataType
    _decoders: dict[int, ValueDecoder | str] = field(default_factory=dict)
    _rows: Int64 = field(default_factory=lambda: np.arange(0))

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.Array, list[Failure]]:
        """Return the values of a batch, and those that could not be decoded."""
        groups = list(self._groups(batch))
        failed = [
            Failure(one.number, reason, rows, one.is_error) for one in groups for reason, rows in one.failed.items()
        ]
        return self._joined(groups, batch.num_rows), failed

    def _groups(self, batch: pa.RecordBatch) -> Iterator["_Group"]:
        """Yield the rows of each schema with their values."""
        times = batch["publish_time"]
        for number, rows in self._by_number(batch["schema_version"]):
            generations = self._generations.get(number) or self._generations.get(ANY_VERSION, [])
            if number == NO_VERSION and not generations:
                yield self._without(
                    batch, rows, number, "its message has no schema version: the value stays bytes", is_error=False
                )
                continue
            known = [self.schemas.versions[place] for place in generations]
            if number in self._generations and self.schemas.may_be_deleted(number):
                yield self._without(batch, rows, number, self._why_unknown(number, AMBIGUOUS))
                continue
            for writer, among in self._by_writer(
                known, times if rows.size == len(times) else times.take(pa.array(rows))
            ):
                chosen = rows if among.size == rows.size else rows[among]
                if writer >= 0:
                    yield self._decoded(batch, chosen, generations[writer])
                else:
                    yield self._without(batch, chosen, number, self._why_unknown(number, writer))

    def _by_number(self, versions: pa.Array) -> Iterator[tuple[int, Int64]]:
        """Yield each schema version in the messages, with its rows; nearly all batches have one."""
        common = common_number(versions)
        if common is None:
            return _rows_of_each(version_numbers(versions))
        return iter([(common, self._all_rows(len(versions)))])

    def _by_writer(self, known: Sequence[SchemaVersion], times: pa.Array) -> Iterator[tuple[int, Int64]]:
        """Yield the place of each schema of one number that wrote some rows, with these rows; nearly all batches have one."""
        edges = pc.min_max(times)
        first, last = writers_of(known, _milliseconds(pa.array([edges["min"], edges["max"]])))
        if first == last != AMBIGUOUS:
            return iter([(int(first), self._all_rows(len(times)))])
        return _rows_of_each(writers_of(known, _milliseconds(times)))

    def _all_rows(self, length: int) -> Int64:
        """Return the numbers of all rows; reuses one array."""
        if self._rows.size < length:
            self._rows = np.arange(length)
        return self._rows[:length]

    @property
    def _generations(self) -> dict[int, list[int]]:
        """The places of the schemas of each number."""
        found: dict[int, list[int]] = {}
        for place, one in enumerate(self.schemas.versions):
            if not one.is_deletion:
                found.setdefault(one.version, []).append(place)
        return found

    def _why_unknown(self, number: int, writer: int) -> str:
        if number == ODD_VERSION:
            return "the schema version of its message is not in Pulsar's format"
        if writer == AMBIGUOUS:
            return (
                f"its schema version {number} is ambiguous: the number was reused within seconds of the message, has another schema in "
                "another cluster, or has (or may have, if it was deleted) another schema for imported rows"
            )
        if number in self._generations:
            return f"the known schema of its version {number} was registered after the message: the number was reused"
        if self.schemas.are_of_cluster:
            return f"its schema version {number} is unknown: the cluster did not have it when the scan began"
        return f"its schema version {number} is unknown: save it while the cluster is running (ledgerfs schemas save)"

    def _decoded(self, batch: pa.RecordBatch, rows: Int64, place: int) -> "_Group":
        """Return the decoded rows of one schema."""
        version = self.schemas.versions[place]
        decoder = self._decoder(place)
        if isinstance(decoder, str):
            return self._without(batch, rows, version.version, decoder)
        chosen = batch if rows.size == batch.num_rows else batch.take(pa.array(rows))
        if isinstance(decoder, SeparatedDecoder):
            decoder = decoder.with_keys(message_keys(chosen))
        values, reasons = decoder.decode(*payloads_of(chosen["value"]))
        codes = np.unique(reasons[reasons > 0]).tolist() if reasons.any() else []
        failed = {decoder.explain(code): rows[reasons == code] for code in codes}
        return _Group(version.version, rows, values, failed, place)

    def _without(
        self, batch: pa.RecordBatch, rows: Int64, number: int, reason: str, *, is_error: bool = True
    ) -> "_Group":
        """Return rows without a known schema: null, as tombstones are for another reason."""
        is_there = np.asarray(batch["value"].take(pa.array(rows)).is_valid())
        failed = {reason: rows[is_there]} if is_there.any() else {}
        return _Group(None if number < 0 else number, rows, None, failed, -1, is_error)

    def _decoder(self, place: int) -> ValueDecoder | str:
        """Return the decoder of a schema, or why there is none."""
        if place not in self._decoders:
            try:
                self._decoders[place] = decoder_of(self.schemas.versions[place].schema, self.wanted)
            except InvalidSchemaError as error:
                self._decoders[place] = error.reason
        return self._decoders[place]

    def _joined(self, groups: "list[_Group]", length: int) -> pa.Array:
        """Return the values of all groups, in the order of the rows."""
        if self.wanted is not None:
            return _in_order(groups, self.type, length)
        versions = self.schemas.versions
        parts = [
            _in_order(
                [one for one in groups if one.place == versions.index(version)], self.type.field(name).type, length
            )
            for name, version in fields_of_each(self.schemas)
        ]
        is_there = np.zeros(length, bool)
        for one in groups:
            if one.values is not None:
                is_there[one.rows] = np.asarray(one.values.is_valid())
        return pa.StructArray.from_arrays(parts, fields=list(self.type), mask=pa.array(~is_there))


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows of one schema: their values (None if all are null), and those that could not be decoded, by reason."""

    number: int | None
    rows: Int64
    values: pa.Array | None
    failed: dict[str, Int64]
    place: int
    is_error: bool = True


def _milliseconds(times: pa.Array) -> Int64:
    found: Int64 = times.cast(pa.int64()).to_numpy() // 1000
    return found


def _rows_of_each(numbers: Int64) -> Iterator[tuple[int, Int64]]:
    """Yield each number with its rows."""
    for number in np.unique(numbers).tolist():
        yield number, np.flatnonzero(numbers == number)


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


def fields_of_each(schemas: TopicSchemas) -> list[tuple[str, SchemaVersion]]:
    """Return the versions by the names of their fields: ``v0``, ``v0_2`` for the second schema that had the number, ``any``.

    Those whose definition is lost have none, since no value can be read with them.
    """
    named: dict[str, SchemaVersion] = {}
    for one in schemas.versions:
        if not one.is_deletion and not one.schema.unreadable:
            again = sum(other.version == one.version for other in named.values())
            name = "any" if one.version == ANY_VERSION else f"v{one.version}"
            named[name + (f"_{again + 1}" if again else "")] = one
    return list(named.items())

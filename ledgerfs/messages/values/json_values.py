"""JSON values to Arrow arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.schemas.avro_schema import AvroSchema, parse_avro_schema
from ledgerfs.messages.kernels.arrays import empty
from ledgerfs.messages.values.arena import Arena
from ledgerfs.messages.values.json_kernel import SIDE, STACK, run_json
from ledgerfs.messages.values.json_types import JsonTypes, json_types
from ledgerfs.messages.values.row_spans import decode_rows, unwritable
from ledgerfs.messages.values.value_columns import type_of
from ledgerfs.messages.values.value_decoder import reasons_before
from ledgerfs.messages.values.value_program import explain

_FIRST_SIDE = 1 << 12
_PAYLOADS_PER_SIDE = 64
"""There is room at first for one byte in so many to be in a text with escapes."""


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Decodes documents by a schema (Pulsar's JSON schemas are Avro's), or as an Arrow type. A `ValueDecoder`."""

    _types: JsonTypes
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", type_of(self._types.column))

    @classmethod
    def of_schema(cls, schema: AvroSchema | str | bytes, names: Mapping[int, str] | None = None) -> "JsonDecoder":
        """Return the decoder of a schema, whose fields have ``names`` as `json_types` takes them; raises `InvalidSchemaError`."""
        wanted = schema if isinstance(schema, AvroSchema) else parse_avro_schema(schema)
        return cls(json_types(wanted, names=names))

    @classmethod
    def of_type(cls, kind: pa.DataType, *, is_closed: bool = False) -> "JsonDecoder":
        """Return one that makes arrays of an Arrow type, in which text takes what is no text as JSON.

        Fields that the type lacks are left out; with ``is_closed`` a document that has one cannot be decoded. Raises `InvalidSchemaError`.
        """
        return cls(json_types(kind, is_closed=is_closed))

    def decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> tuple[pa.Array, Int64]:
        """Return an array of the documents ``data[starts[i] : ends[i]]``, and the reason for each that could not be decoded.

        A document that is null, or lacks what the schema has, has null there and no reason. Raises as `ValueDecoder` says.
        """
        made = self._types
        reasons = reasons_before(starts.size, valid)
        payloads = unwritable(data)
        side = _Side(payloads, empty(_FIRST_SIDE + data.size // _PAYLOADS_PER_SIDE, np.uint8))
        scratch = (
            np.empty(STACK, np.int64),
            np.empty(len(made.nodes.sizes), np.int64),
            np.empty(len(made.types), np.int64),
        )
        tables = (made.types, made.numbers, made.names, made.levels, made.roots)

        def run(arena: Arena, rows: slice, row: int) -> tuple[int, int]:
            places, given = (starts[rows], ends[rows]), (arena.words, arena.at)
            node = SIDE
            while node == SIDE:
                texts = (side.texts, side.used)
                row, node = run_json(tables, payloads, places, given, texts, reasons[rows], row, scratch)
                if node == SIDE:
                    side.grow(int(places[1][row] - places[0][row]))
            return row, node

        return decode_rows(made.column, made.nodes, side.after_payloads, reasons, run), reasons

    def explain(self, reason: int) -> str:
        """Return a reason in words that follow the name of a message."""
        return explain(reason, self._types.reasons)


@dataclass(slots=True)
class _Side:
    """Bytes of texts that are not in the payloads, since these have escapes there, and how many there are."""

    payloads: Bytes
    texts: Bytes
    used: Int64 = field(default_factory=lambda: np.zeros(1, np.int64))
    _all: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    _copied: int = 0

    def grow(self, needed: int) -> None:
        """Have room for so many more, at least."""
        larger = empty(2 * self.texts.size + needed, np.uint8)
        larger[: self.used[0]] = self.texts[: self.used[0]]
        self.texts = larger

    def after_payloads(self) -> Bytes:
        """Return them after the payloads, to which they are copied as they come."""
        begin, used = self.payloads.size, int(self.used[0])
        if used == 0:
            return self.payloads
        if begin + used > self._all.size:
            self._all, self._copied = empty(begin + 2 * used, np.uint8), 0
            self._all[:begin] = self.payloads
        self._all[begin + self._copied : begin + used] = self.texts[self._copied : used]
        self._copied = used
        return unwritable(self._all[: begin + used])

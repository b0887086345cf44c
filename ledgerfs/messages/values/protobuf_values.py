"""Protobuf values to Arrow arrays.

A message is a struct, with its fields in the order of their declaration.

* Fields without presence (proto3's plain ones) are never null: a missing one is zero, empty, or the first name of its enum. Fields
  with presence (``optional``, members of a ``oneof``, messages, all of proto2) are null where they are missing, whatever default the
  schema has, since the payload does not contain them. So are required fields.
* Members of a ``oneof`` are separate fields; at most one of them is not null.
* Enums are their names; a number without a name is its digits. In a closed enum (proto2) such a number does not count, as in Protobuf:
  the field counts as missing, an item or an entry of a map is left out.
* Maps have each key once, with its last value.
* A message inside its own definition stays bytes, and so do deep ones if there would be thousands of columns. Well-known
  types are ordinary messages: a ``Timestamp`` has seconds and nanos.
* Unknown parts are skipped: unknown fields, extensions, and fields with another type on the wire. A payload that is truncated
  between two fields looks like a shorter one.
* Text that is not UTF-8 gets U+FFFD in place of invalid bytes.

With only an old PROTOBUF schema, messages inside the outermost one stay bytes, enums numbers, and missing fields are null.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.schemas.protobuf_schema import ProtobufSchema
from ledgerfs.messages.values.arena import Arena
from ledgerfs.messages.values.protobuf_kernel import STACK, run_protobuf
from ledgerfs.messages.values.protobuf_program import ProtobufProgram, protobuf_program
from ledgerfs.messages.values.row_spans import decode_rows, unwritable
from ledgerfs.messages.values.value_columns import type_of
from ledgerfs.messages.values.value_decoder import reasons_before
from ledgerfs.messages.values.value_program import explain


@dataclass(frozen=True, slots=True)
class ProtobufDecoder:
    """Decodes messages of one schema."""

    _program: ProtobufProgram

    @classmethod
    def of(cls, writer: ProtobufSchema, reader: ProtobufSchema | None = None) -> "ProtobufDecoder":
        """Return the decoder of messages of ``writer`` as those of ``reader``; raises `InvalidSchemaError` for far too many columns."""
        return cls(protobuf_program(writer, reader))

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values."""
        return type_of(self._program.column)

    def decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> tuple[pa.Array, Int64]:
        """Return an array of the payloads ``data[starts[i] : ends[i]]``, and a reason for each that is null (`ValueDecoder`)."""
        one = self._program
        reasons = reasons_before(starts.size, valid)
        parts = (one.code, one.numbers, one.tables, one.roots)
        count = len(one.nodes.sizes)
        scratch = np.empty(STACK, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        payloads = unwritable(data)

        def run(arena: Arena, rows: slice, row: int) -> tuple[int, int]:
            given = (arena.words, arena.at)
            found: tuple[int, int] = run_protobuf(
                parts, payloads, starts[rows], ends[rows], given, reasons[rows], row, scratch
            )
            return found

        return decode_rows(one.column, one.nodes, payloads, reasons, run), reasons

    def explain(self, reason: int) -> str:
        """Return a reason in words that follow the name of a message."""
        return explain(reason, self._program.reasons)

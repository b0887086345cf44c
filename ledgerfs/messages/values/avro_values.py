"""Avro values to Arrow arrays."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.schemas.avro_schema import AvroSchema
from ledgerfs.messages.values.arena import Arena
from ledgerfs.messages.values.avro_kernel import STACK, run_avro
from ledgerfs.messages.values.avro_program import avro_program
from ledgerfs.messages.values.row_spans import decode_rows, unwritable
from ledgerfs.messages.values.value_columns import nodes_of, type_of
from ledgerfs.messages.values.value_decoder import reasons_before
from ledgerfs.messages.values.value_program import Program, Reason, explain


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """Decodes Avro values.

    Attributes
    ----------
    program
        Reads the writer's values as the reader's.
    offset
        Bytes before each value.

    """

    program: Program
    offset: int = 0

    @classmethod
    def of(cls, writer: AvroSchema, reader: AvroSchema | None = None, offset: int = 0) -> "AvroDecoder":
        """Return the decoder that reads values of ``writer`` as ``reader`` (default: ``writer``)."""
        return cls(avro_program(writer, reader), offset)

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the reader's schema."""
        return type_of(self.program.column)

    def decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> tuple[pa.Array, Int64]:
        """Return an array of the payloads, and a reason for each that is null (see `ValueDecoder`)."""
        if self.offset == 0:
            return decode_avro(self.program, data, starts, ends, valid)
        is_there = np.ones(starts.size, np.bool_) if valid is None else valid
        is_long_enough = ends - starts >= self.offset
        begins = np.minimum(starts + self.offset, ends)
        array, reasons = decode_avro(self.program, data, begins, ends, is_there & is_long_enough)
        reasons[is_there & ~is_long_enough] = Reason.TRUNCATED
        return array, reasons

    def explain(self, reason: int) -> str:
        """Return a reason in words."""
        return explain(reason, self.program.reasons)


def decode_avro(
    program: Program, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None
) -> tuple[pa.Array, Int64]:
    """Return an array of the payloads ``data[starts[i] : ends[i]]``, and the reason for each that could not be decoded.

    The caller has checked the ranges. A payload that is not ``valid`` is null with the reason `NULL`, a broken one with a `Reason`.
    """
    reasons = reasons_before(starts.size, valid)
    sizes = program.nodes.sizes
    roots = np.array([word for node in nodes_of(program.column) for word in (node, sizes[node])], np.int64)
    parts = program.code, program.tables, roots
    scratch = np.empty(STACK, np.int64), np.empty(len(sizes), np.int64)
    payloads = unwritable(data)

    def run(arena: Arena, rows: slice, row: int) -> tuple[int, int]:
        given = (arena.words, arena.at)
        found: tuple[int, int] = run_avro(parts, payloads, starts[rows], ends[rows], given, reasons[rows], row, scratch)
        return found

    source = np.concatenate([data, np.frombuffer(program.constants, np.uint8)]) if program.constants else payloads
    return decode_rows(program.column, program.nodes, source, reasons, run), reasons

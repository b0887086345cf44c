"""Avro values to Arrow arrays."""

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.messages.values.arena import Arena, build
from ledgerfs.messages.values.avro_kernel import STACK, run_avro
from ledgerfs.messages.values.value_columns import nodes_of
from ledgerfs.messages.values.value_program import NULL, Program


def decode_avro(
    program: Program, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None
) -> tuple[pa.Array, Int64]:
    """Return an array of the payloads ``data[starts[i] : ends[i]]``, and the reason for each that could not be decoded.

    The caller has checked the ranges. What is not ``valid`` is null with the reason `NULL`, what cannot be decoded with a `Reason`.
    """
    reasons = np.zeros(starts.size, np.int64) if valid is None else np.where(valid, 0, NULL)
    arena = Arena.for_rows(program.nodes, starts.size)
    sizes = program.nodes.sizes
    roots = np.array([word for node in nodes_of(program.column) for word in (node, sizes[node])], np.int64)
    scratch = np.empty(STACK, np.int64), np.empty(len(sizes), np.int64)
    row = 0
    while row < starts.size:
        given = (arena.words, arena.at)
        row, node = run_avro((program.code, program.tables, roots), data, starts, ends, given, reasons, row, scratch)
        if node >= 0:
            arena.grow(node)
    source = data
    if program.constants:
        source = np.concatenate([data, np.frombuffer(program.constants, np.uint8)])
    is_sound = reasons == 0
    return build(arena, program.column, source, starts.size, None if is_sound.all() else is_sound), reasons

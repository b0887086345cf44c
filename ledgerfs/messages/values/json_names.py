"""Fields of JSON objects by their names: a table of them, with slots that lead to them by hash."""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.messages.values.json_texts import unescape
from ledgerfs.messages.values.json_tokens import (
    BAD,
    CLOSE_OBJECT,
    COMMA,
    CUT,
    QUOTE,
    after_blanks,
    skip_value,
    text_end,
    value_begins,
)

FIELD_WORDS = 4
"""Words of a field: where its name is among the names, the name's size, its type, and whether the name is written without escapes."""
ALIAS = -2
"""A field under another name has this minus its type: it counts where the field is not there by its own, or by an earlier alias."""


@kernel
def look_up(numbers, table, names, data, at, end, texts, used):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Return the number of the field whose name begins at ``at``, or -1, and where its value begins."""
    if at >= end:
        return np.int64(-1), CUT
    if data[at] != QUOTE:
        return np.int64(-1), BAD
    at += 1
    after, has_escapes = text_end(data, at, end)
    if after < 0:
        return np.int64(-1), after
    begins = value_begins(data, after + 1, end)
    if has_escapes:
        written = unescape(data, at, after, texts, used[0], True)
        return _number_of(numbers, table, names, texts, used[0], written - used[0]), begins
    return _number_of(numbers, table, names, data, at, after - at), begins


@kernel
def _number_of(numbers, table, names, data, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Return the number of a field by its name, or -1: slots are tried from that of the name's hash on, up to an empty one."""
    count, mask = numbers[table], numbers[table + 1]
    slots = table + 2 + FIELD_WORDS * count
    slot = hash_of(data, at, size) & mask
    while numbers[slots + slot] >= 0:
        field = table + 2 + FIELD_WORDS * numbers[slots + slot]
        if numbers[field + 1] == size and is_same(names, numbers[field], data, at, size):
            return numbers[slots + slot]
        slot = (slot + 1) & mask
    return np.int64(-1)


@inlined_kernel
def hash_of(data, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return a hash of bytes (FNV-1a of 32 bits)."""
    state = np.int64(0x811C9DC5)
    for k in range(at, at + size):
        state = ((state ^ np.int64(data[k])) * 0x01000193) & 0xFFFFFFFF
    return state


@inlined_kernel
def is_same(names, name, data, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether a name is these bytes."""
    for k in range(size):  # noqa: SIM110  (numba compiles loops)
        if names[name + k] != data[at + k]:
            return False
    return True


@kernel
def count_names(numbers, table, names, data, at, end, texts, used, stack, top, most, counted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Look through an object for names of its fields: note for each type the number of the name that counts, the first in the table.

    Its fields begin at ``at``; the rest is as for `skip_value`. Return 0, or minus the reason of what is no object.
    """
    for number in range(numbers[table]):
        kind_of = numbers[table + 2 + FIELD_WORDS * number + 2]
        counted[kind_of if kind_of >= 0 else ALIAS - kind_of] = numbers[table]
    at = after_blanks(data, at, end)
    while True:
        number, at = look_up(numbers, table, names, data, at, end, texts, used)
        if at < 0:
            return at
        if number >= 0:
            kind_of = numbers[table + 2 + FIELD_WORDS * number + 2]
            kind_of = kind_of if kind_of >= 0 else ALIAS - kind_of
            counted[kind_of] = min(counted[kind_of], number)
        at = skip_value(data, at, end, stack, top, most)
        if at < 0:
            return at
        at = after_blanks(data, at, end)
        if at >= end:
            return CUT
        if data[at] == CLOSE_OBJECT:
            return np.int64(0)
        if data[at] != COMMA:
            return BAD
        at = after_blanks(data, at + 1, end)

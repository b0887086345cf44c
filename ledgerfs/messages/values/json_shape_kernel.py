"""Finds out the shapes of JSON documents; one that is no JSON adds nothing to them, since it is walked through before."""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.messages.kernels.arrays import borrowed
from ledgerfs.messages.values.json_texts import unescape
from ledgerfs.messages.values.json_tokens import (
    CLOSE_LIST,
    FALSE_BEGINS,
    MOST_DEPTH,
    NULL_BEGINS,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    TRUE_BEGINS,
    after_blanks,
    after_mark,
    has_digits,
    is_too_large,
    scalar_end,
    scan_number,
    skip_value,
    text_end,
    value_begins,
    whole_number,
)
from ledgerfs.messages.values.value_program import Reason

MOST_SHAPES = 1 << 13
MOST_FIELDS = 1000
"""Fields of an object; one with more is text."""
_MOST_LEVELS = 64
"""Levels of lists and objects that get types; what is inside is text."""
_MORE = np.int64(-Reason.TRAILING)
_FRAME = 3
STACK = MOST_DEPTH + _FRAME * _MOST_LEVELS
SHAPE_WORDS = 8
FLAGS, CHILD, LAST_CHILD, SIBLING, ITEM, FIELDS, NAME_AT, NAME_SIZE = range(SHAPE_WORDS)
"""Words of a shape: its kinds, its first and last field and how many there are, the next field of the same object, and items of lists."""
NONE = -1
BOOLEAN, WHOLE, REAL, TEXT, OBJECT, LIST, OPAQUE = (1 << k for k in range(7))
"""Kinds that were seen; null is none, and one that is opaque is kept as text."""
KINDS = OPAQUE - 1


@kernel
def look_at(data, starts, ends, shapes, names, used, reasons, first, stack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Look at the documents ``data[starts[i] : ends[i]]`` from the row ``first`` on, except where ``reasons`` is not 0 already.

    Returns the row for which there is no room among ``names``; otherwise the number of rows.
    """
    data, shapes, names = borrowed(data), borrowed(shapes), borrowed(names)  # type: ignore[call-arg]
    used, stack = borrowed(used), borrowed(stack)
    for row in range(first, starts.size):
        if reasons[row] != 0:
            continue
        if names.size - used[1] < ends[row] - starts[row]:
            return row
        at = after_mark(data, starts[row], ends[row])
        after = skip_value(data, at, ends[row], stack, 0, MOST_DEPTH)
        if after >= 0 and after_blanks(data, after, ends[row]) < ends[row]:
            after = _MORE
        if after < 0:
            reasons[row] = -after
        else:
            _look(data, at, ends[row], shapes, names, used, stack)
    return starts.size


@inlined_kernel
def _look(data, at, end, shapes, names, used, stack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0917
    """Look at one document that is JSON."""
    data, shapes, names = borrowed(data), borrowed(shapes), borrowed(names)  # type: ignore[call-arg]
    used, stack = borrowed(used), borrowed(stack)
    shape = np.int64(0)
    top = np.int64(0)
    while True:
        # A value begins.
        byte = data[at]
        shapes[shape, FLAGS] |= _kind_of(data, at, end)
        is_first = False
        if (byte == OPEN_OBJECT or byte == OPEN_LIST) and _has_parts(shapes, shape, byte, used, top):  # noqa: PLR1714, SIM109
            stack[top] = shape
            stack[top + 1] = shapes[shape, CHILD]
            stack[top + 2] = np.int64(byte) + 2  # what closes it
            top += _FRAME
            at += 1
            is_first = True
        elif byte == OPEN_OBJECT or byte == OPEN_LIST:  # noqa: PLR1714, SIM109
            at = skip_value(data, at, end, stack, top, MOST_DEPTH)
        else:
            at = scalar_end(data, at, end)
        # What comes after it, up to the next value.
        while True:
            if top == 0:
                return
            at = after_blanks(data, at, end)
            closing = stack[top - 1]
            if data[at] == closing:
                top -= _FRAME
                at += 1
                is_first = False
                continue
            if not is_first:
                at = after_blanks(data, at + 1, end)
            outer = stack[top - _FRAME]
            if closing == CLOSE_LIST:
                shape = shapes[outer, ITEM]
                break
            stop, has_escapes = text_end(data, at + 1, end)
            size = stop - at - 1
            shape = stack[top - 2]
            if has_escapes:
                size = unescape(data, at + 1, stop, names, used[1], True) - used[1]
                shape = field_of(shapes, outer, shape, names, used, names, used[1], size)
            elif shape < 0 or not _has_name(shapes, shape, names, data, at + 1, size):
                shape = field_of(shapes, outer, shape, names, used, data, at + 1, size)
            at = value_begins(data, stop + 1, end)
            if shape >= 0:
                stack[top - 2] = shapes[shape, SIBLING]
                break
            shapes[outer, FLAGS] |= OPAQUE
            at = skip_value(data, at, end, stack, top, MOST_DEPTH)
            is_first = False


@inlined_kernel
def _has_parts(shapes, shape, byte, used, top):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether the parts of a value matter: not inside what is text already, except that a document stays what it is."""
    kinds = shapes[shape, FLAGS]
    is_alone = kinds & KINDS == (OBJECT if byte == OPEN_OBJECT else LIST) or (shape == 0 and byte == OPEN_OBJECT)
    if kinds & OPAQUE or not is_alone:
        return False
    if top >= _FRAME * _MOST_LEVELS or (byte == OPEN_LIST and item_of(shapes, shape, used) < 0):
        shapes[shape, FLAGS] |= OPAQUE
        return False
    return True


@kernel
def item_of(shapes, shape, used):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the items of a list, perhaps new ones, or -1 if there are too many shapes."""
    if shapes[shape, ITEM] < 0 and used[0] < MOST_SHAPES:
        shapes[shape, ITEM] = used[0]
        used[0] += 1
    return shapes[shape, ITEM]


@inlined_kernel
def _kind_of(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0911
    byte = data[at]
    if byte == QUOTE:
        return TEXT
    if byte == OPEN_OBJECT:
        return OBJECT
    if byte == OPEN_LIST:
        return LIST
    if byte == TRUE_BEGINS or byte == FALSE_BEGINS:  # noqa: PLR1714, SIM109
        return BOOLEAN
    if byte == NULL_BEGINS:
        return 0
    if not has_digits(data, at, end):
        return REAL
    after, digits, power, is_exact, is_whole = scan_number(data, at, end)
    if is_whole and whole_number(data, at, after, digits, is_exact)[1]:
        return WHOLE
    return REAL | TEXT if is_too_large(data, at, after, power, False) else REAL


@kernel
def field_of(shapes, shape, predicted, names, used, data, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Return the field of a name, perhaps a new one, or -1 if there are too many; one is tried first.

    There must be room for the name.
    """
    if predicted >= 0 and _has_name(shapes, predicted, names, data, at, size):
        return predicted
    one = shapes[shape, CHILD]
    while one >= 0:
        if _has_name(shapes, one, names, data, at, size):
            return one
        one = shapes[one, SIBLING]
    if shapes[shape, FIELDS] >= MOST_FIELDS or used[0] >= MOST_SHAPES:
        return np.int64(-1)
    made = used[0]
    used[0] += 1
    shapes[made, NAME_AT] = used[1]
    shapes[made, NAME_SIZE] = size
    for k in range(size):
        names[used[1] + k] = data[at + k]
    used[1] += size
    if shapes[shape, CHILD] < 0:
        shapes[shape, CHILD] = made
    else:
        shapes[shapes[shape, LAST_CHILD], SIBLING] = made
    shapes[shape, LAST_CHILD] = made
    shapes[shape, FIELDS] += 1
    return made


@inlined_kernel
def _has_name(shapes, shape, names, data, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    if shapes[shape, NAME_SIZE] != size:
        return False
    name = shapes[shape, NAME_AT]
    for k in range(size):  # noqa: SIM110  (numba compiles loops)
        if names[name + k] != data[at + k]:
            return False
    return True

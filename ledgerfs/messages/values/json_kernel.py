"""Reads JSON documents by a table of types: each from its own beginning, so that a damaged one changes no other.

Fields come in any order, and some not at all. So a document first gets a slot of zeros in each node outside lists, which say that nothing
is there, and an item of a list one in each node of the list; what is read is then set in the last slot. A field that is given again is
cleared first: the last one counts. A document that cannot be read gets a reason, and what it had appended is taken back.
"""

from enum import IntEnum

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.messages.kernels.arrays import borrowed
from ledgerfs.messages.values.arena import BEGIN, NEXT
from ledgerfs.messages.values.arena_kernel import append_blanks, keep, take_back
from ledgerfs.messages.values.json_names import ALIAS, FIELD_WORDS, count_names, is_same, look_up
from ledgerfs.messages.values.json_texts import from_base64, unescape
from ledgerfs.messages.values.json_tokens import (
    BAD,
    CLOSE_LIST,
    CLOSE_OBJECT,
    COMMA,
    CUT,
    DEEP,
    FALSE_BEGINS,
    MINUS,
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
    literal_end,
    rounded,
    scalar_end,
    scan_number,
    scan_number_here,
    skip_value,
    small_number,
    text_end,
    value_begins,
    whole_number,
)
from ledgerfs.messages.values.json_unions import Given
from ledgerfs.messages.values.value_program import Reason

FRAME = 3
STACK = (FRAME + 1) * (MOST_DEPTH + 1)
"""Words of the stack: a frame for each level of types, and a word for each in what is left out."""
SIDE = -2
"""Stands for a node: the bytes that are not in the payloads."""
_MORE = np.int64(-Reason.TRAILING)
_FULL = np.int64(-(1 << 32))
"""A node that has no room is told by this minus its number."""
TYPE_WORDS = 8
KIND, MARK, NODE, FIRST, SECOND, REASON, LAST = range(7)
"""Words of a type: what it is, the node that says whether it is there or -1, that of its value, two arguments, the reason of a value that
is none of it, and the node after its last one."""


class Kind(IntEnum):
    """What types are. In brackets their two arguments."""

    NOTHING = 0
    BOOLEAN = 1
    INTEGER = 2  # (smallest, largest)
    DOUBLE = 3  # (reason of one that is too large)
    FLOAT = 4  # (the same)
    TEXT = 5
    ANY = 6
    RAW_OBJECT = 7
    BYTES = 8  # (how many, or -1)
    RECORD = 9  # (table of fields, reason of one with a field that is not among them, or 0 if that is left out)
    ITEMS = 10  # (type of items; table of how many blanks, the node that counts items, and the blanks)
    PAIRS = 11  # (type of values; the same, the first blank being the key)
    CHOICE = 12  # (table of branches)


OBJECT_GIVEN, LIST_GIVEN, TEXT_GIVEN, BOOLEAN_GIVEN, INT_GIVEN, LONG_GIVEN, REAL_GIVEN, NOT_FINITE_GIVEN = map(
    int, Given
)
"""The table of a `Kind.CHOICE` has a branch and its type for each of these; less than zero and a reason where none fits, or several do."""


@kernel
def run_json(tables, data, places, arena, side, reasons, first, scratch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Read the documents ``data[places[0][i] : places[1][i]]`` from the row ``first`` on; null where ``reasons`` is not 0 already.

    ``tables`` are types, numbers that they refer to, names of fields, levels of nodes, and nodes of the first level with their sizes;
    ``side`` gets bytes of texts that are not in ``data``, and how many; ``scratch`` is a stack, a word for each node, and one for each
    type. Returns the row at which a node has no room left, and that node or `SIDE`; otherwise the number of rows.
    """
    types = borrowed(tables[0])  # type: ignore[call-arg, var-annotated]
    numbers, names, levels, roots = borrowed(tables[1]), borrowed(tables[2]), borrowed(tables[3]), borrowed(tables[4])
    starts, ends = borrowed(places[0]), borrowed(places[1])
    words, nodes, data = borrowed(arena[0]), borrowed(arena[1]), borrowed(data)
    texts, used = borrowed(side[0]), borrowed(side[1])
    stack, saved, counted = borrowed(scratch[0]), borrowed(scratch[1]), borrowed(scratch[2])
    for row in range(first, starts.size):
        keep(nodes, saved)
        node = append_blanks(roots, 0, roots.size // 2, words, nodes)
        if node < 0 and reasons[row] == 0:
            if texts.size - used[0] < ends[row] - starts[row]:
                node = np.int64(SIDE)
            else:
                before = used[0]
                at = _read(
                    types,
                    numbers,
                    names,
                    levels,
                    data,
                    starts[row],
                    ends[row],
                    words,
                    nodes,
                    texts,
                    used,
                    stack,
                    counted,
                )
                if at >= 0:
                    continue
                used[0] = before
                take_back(nodes, saved)
                if at > _FULL:
                    reasons[row] = -at
                    append_blanks(roots, 0, roots.size // 2, words, nodes)
                    continue
                node = _FULL - at
        if node != -1:
            take_back(nodes, saved)
            return row, node
    return starts.size, np.int64(-1)


@inlined_kernel
def _read(types, numbers, names, levels, data, start, end, words, nodes, texts, used, stack, counted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0911, PLR0912, PLR0915, PLR0917
    """Read one document; return the index after it, or minus the reason why not, or what tells of a node that has no room."""
    at = after_mark(data, start, end)
    kind_of = np.int64(0)
    top = np.int64(0)
    while True:
        # A value of a type begins.
        if at >= end:
            return CUT
        is_first = False
        is_null = data[at] == NULL_BEGINS
        mark = types[kind_of, MARK]
        slot = nodes[mark, NEXT] - 1
        if words[slot] != 0:
            _clear(types, levels, kind_of, words, nodes)
        if is_null:
            at = literal_end(data, at, end)
        else:
            words[slot] = 1
            if types[kind_of, KIND] == Kind.CHOICE:
                chosen = _choose(types, numbers, kind_of, data, at, end, words, nodes)
                if chosen < 0:
                    return chosen
                kind_of = chosen
            kind = types[kind_of, KIND]
            if kind < Kind.RECORD:
                at = _read_part(types, kind_of, data, at, end, words, nodes, texts, used, stack, top)
            else:
                if data[at] != (OPEN_LIST if kind == Kind.ITEMS else OPEN_OBJECT):
                    return _refused(types[kind_of, REASON], data, at, end)
                if top + FRAME > FRAME * MOST_DEPTH:
                    return DEEP
                stack[top] = kind_of
                stack[top + 1] = 0
                top += FRAME
                at += 1
                is_first = True
                stack[top - FRAME + 2] = at  # where its fields begin, until it is known which of their names count
                if kind != Kind.RECORD:
                    _begin_list(types, numbers, kind_of, words, nodes)
        if at < 0:
            return at
        # What comes after it, up to the next value.
        while True:
            at = after_blanks(data, at, end)
            if top == 0:
                return at if at == end else _MORE
            if at >= end:
                return CUT
            outer = stack[top - FRAME]
            kind = types[outer, KIND]
            byte = data[at]
            if byte == (CLOSE_LIST if kind == Kind.ITEMS else CLOSE_OBJECT):
                if kind != Kind.RECORD:
                    words[nodes[types[outer, NODE], NEXT] - 1] = stack[top - FRAME + 1]
                top -= FRAME
                at += 1
                is_first = False
                continue
            if not is_first:
                if byte != COMMA:
                    return BAD
                at = after_blanks(data, at + 1, end)
            is_first = False
            if kind == Kind.RECORD:
                kind_of, at = _find_field(numbers, types[outer, FIRST], names, data, at, end, texts, used, stack, top)
                if at < 0:
                    return at
                if kind_of >= 0:
                    break
                if kind_of <= ALIAS:
                    begin = stack[top - FRAME + 2]
                    if begin > 0:
                        stack[top - FRAME + 2] = 0
                        most = MOST_DEPTH - top // FRAME
                        table = types[outer, FIRST]
                        failed = count_names(
                            numbers, table, names, data, begin, end, texts, used, stack, top, most, counted
                        )
                        if failed < 0:
                            return failed
                    kind_of = ALIAS - kind_of
                    if counted[kind_of] == stack[top - FRAME + 1] - 1:
                        break
                elif types[outer, SECOND] != 0:
                    return _lacking(types[outer, SECOND], data, start, end, stack)
                at = skip_value(data, at, end, stack, top, MOST_DEPTH - top // FRAME)
                if at < 0:
                    return at
                continue
            table = types[outer, SECOND]
            node = append_blanks(numbers, table + 2, numbers[table], words, nodes)
            if node >= 0:
                return _FULL - node
            stack[top - FRAME + 1] += 1
            kind_of = types[outer, FIRST]
            if kind == Kind.PAIRS:
                at = _read_key(numbers[table + 2], data, at, end, words, nodes, texts, used)
                if at < 0:
                    return at
            break


@kernel
def _lacking(reason, data, start, end, stack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return why a document is none of a type that lacks one of its fields: this reason, or since it is not even JSON."""
    after = skip_value(data, after_mark(data, start, end), end, stack, 0, MOST_DEPTH)
    if after < 0:
        return after
    return -reason if after_blanks(data, after, end) == end else _MORE


@kernel
def _clear(types, levels, kind_of, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Make the last slots of a type zeros, down to the next lists."""
    level = levels[types[kind_of, MARK]]
    for node in range(types[kind_of, MARK], types[kind_of, LAST]):
        if levels[node] >> 2 == level >> 2:
            for k in range(levels[node] & 3):
                words[nodes[node, NEXT] - 1 - k] = 0


@kernel
def _begin_list(types, numbers, kind_of, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Note the number of the first item of a list."""
    counter = numbers[types[kind_of, SECOND] + 1]
    so_far = nodes[counter, NEXT] - nodes[counter, BEGIN]
    words[nodes[types[kind_of, NODE], NEXT] - 2] = so_far


@kernel
def _refused(reason, data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return why a value is none of a type: this reason, or since it is not even JSON."""
    byte = data[at]
    if byte != OPEN_LIST and byte != OPEN_OBJECT:  # noqa: PLR1714  (numba compiles this, not a membership)
        after = scalar_end(data, at, end)
        if after < 0:
            return after
    return -reason


@kernel
def _choose(types, numbers, kind_of, data, at, end, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Note the branch of a union that a value fits, and return its type, or minus a reason."""
    byte = data[at]
    if byte == OPEN_OBJECT:
        given = OBJECT_GIVEN
    elif byte == OPEN_LIST:
        given = LIST_GIVEN
    elif byte == QUOTE:
        given = NOT_FINITE_GIVEN if _is_not_finite(data, at + 1, end) else TEXT_GIVEN
    elif byte == TRUE_BEGINS or byte == FALSE_BEGINS:  # noqa: PLR1714, SIM109
        given = BOOLEAN_GIVEN
    else:
        given = REAL_GIVEN
        if has_digits(data, at, end):
            after, digits, _, is_exact, is_whole = scan_number(data, at, end)
            if after < 0:
                return after
            if is_whole:
                number, has_64_bits = whole_number(data, at, after, digits, is_exact)
                if has_64_bits:
                    given = INT_GIVEN if number == np.int64(np.int32(number)) else LONG_GIVEN
    place = types[kind_of, FIRST] + 2 * given
    if numbers[place] < 0:
        return _refused(numbers[place + 1], data, at, end)
    words[nodes[types[kind_of, NODE], NEXT] - 1] = numbers[place]
    return numbers[place + 1]


@inlined_kernel
def _is_not_finite(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether a text is that of a number that is not finite."""
    if at >= end or (data[at] != 0x4E and data[at] != 0x49 and data[at] != MINUS):
        return False
    after = literal_end(data, at, end)
    return 0 <= after < end and data[after] == QUOTE


@inlined_kernel
def _find_field(numbers, table, names, data, at, end, texts, used, stack, top):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Return the type of the field whose name begins at ``at``, or -1, and where its value begins; the next one is tried first."""
    predicted = stack[top - FRAME + 1]
    if predicted < numbers[table]:
        field = table + 2 + FIELD_WORDS * predicted
        size = numbers[field + 1]
        is_quoted = numbers[field + 3] and end - at > size + 1 and data[at] == QUOTE and data[at + size + 1] == QUOTE
        if is_quoted and is_same(names, numbers[field], data, at + 1, size):
            stack[top - FRAME + 1] = predicted + 1
            return numbers[field + 2], value_begins(data, at + size + 2, end)
    number, at = look_up(numbers, table, names, data, at, end, texts, used)
    if number < 0:
        return number, at
    stack[top - FRAME + 1] = number + 1
    return numbers[table + 2 + FIELD_WORDS * number + 2], at


@kernel
def _read_key(node, data, at, end, words, nodes, texts, used):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set the key of a pair; return where its value begins."""
    if at >= end:
        return CUT
    if data[at] != QUOTE:
        return BAD
    after = _read_text(node, data, at + 1, end, words, nodes, texts, used)
    return value_begins(data, after, end) if after >= 0 else after


@inlined_kernel
def _set_place(node, at, size, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    slot = nodes[node, NEXT] - 2
    words[slot] = at
    words[slot + 1] = size


@inlined_kernel
def _read_text(node, data, at, end, words, nodes, texts, used):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set a text that begins at ``at``; return the index after its quote."""
    after, has_escapes = text_end(data, at, end)
    if after < 0:
        return after
    if has_escapes:
        written = unescape(data, at, after, texts, used[0], False)
        _set_place(node, data.size + used[0], written - used[0], words, nodes)
        used[0] = written
    else:
        _set_place(node, at, after - at, words, nodes)
    return after + 1


@inlined_kernel
def _read_part(types, kind_of, data, at, end, words, nodes, texts, used, stack, top):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set a value that has no parts; return the index after it. What is frequent comes first."""
    kind, node, byte = types[kind_of, KIND], types[kind_of, NODE], data[at]
    if byte == QUOTE and (kind == Kind.TEXT or kind == Kind.ANY):  # noqa: PLR1714
        return _read_text(node, data, at + 1, end, words, nodes, texts, used)
    if kind == Kind.INTEGER:
        number, after = small_number(data, at, end)
        if after >= 0 and types[kind_of, FIRST] <= number <= types[kind_of, SECOND]:
            words[nodes[node, NEXT] - 1] = number
            return after
    elif (kind == Kind.DOUBLE or kind == Kind.FLOAT) and has_digits(data, at, end):  # noqa: PLR1714
        return _read_real(types, kind_of, data, at, end, words, nodes)
    return _read_rare_part(types, kind_of, data, at, end, words, nodes, texts, used, stack, top)


@kernel
def _read_rare_part(types, kind_of, data, at, end, words, nodes, texts, used, stack, top):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0911, PLR0917
    kind, node, byte = types[kind_of, KIND], types[kind_of, NODE], data[at]
    if kind == Kind.INTEGER:
        if has_digits(data, at, end):
            return _read_integer(types, kind_of, data, at, end, words, nodes)
    elif kind == Kind.DOUBLE or kind == Kind.FLOAT:  # noqa: PLR1714
        return _read_without_digits(types, kind_of, data, at, end, words, nodes)
    elif kind == Kind.BOOLEAN:
        if byte == TRUE_BEGINS or byte == FALSE_BEGINS:  # noqa: PLR1714, SIM109
            words[nodes[node, NEXT] - 1] = byte == TRUE_BEGINS
            return literal_end(data, at, end)
    elif kind == Kind.BYTES:
        if byte == QUOTE:
            return _read_bytes(types, kind_of, data, at + 1, end, words, nodes, texts, used)
    elif kind == Kind.ANY or (kind == Kind.RAW_OBJECT and byte == OPEN_OBJECT):
        after = skip_value(data, at, end, stack, top, MOST_DEPTH - top // FRAME)
        if after >= 0:
            _set_place(node, at, after - at, words, nodes)
        return after
    elif kind == Kind.TEXT and byte != OPEN_LIST and byte != OPEN_OBJECT:  # noqa: PLR1714
        after = scalar_end(data, at, end)
        if after >= 0:
            _set_place(node, at, after - at, words, nodes)
        return after
    return _refused(types[kind_of, REASON], data, at, end)


@kernel
def _read_integer(types, kind_of, data, at, end, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    after, digits, _, is_exact, is_whole = scan_number(data, at, end)
    if after < 0:
        return after
    if is_whole:
        number, has_64_bits = whole_number(data, at, after, digits, is_exact)
        if has_64_bits and types[kind_of, FIRST] <= number <= types[kind_of, SECOND]:
            words[nodes[types[kind_of, NODE], NEXT] - 1] = number
            return after
    return -types[kind_of, REASON]


@kernel
def _read_bytes(types, kind_of, data, at, end, words, nodes, texts, used):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    after, has_escapes = text_end(data, at, end)
    if after < 0:
        return after
    if has_escapes:
        unescaped = unescape(data, at, after, texts, used[0], False)
        written = from_base64(texts, used[0], unescaped, texts, used[0])
    else:
        written = from_base64(data, at, after, texts, used[0])
    size = written - used[0]
    if written < 0 or (types[kind_of, FIRST] >= 0 and size != types[kind_of, FIRST]):
        return -types[kind_of, REASON]
    _set_place(types[kind_of, NODE], data.size + used[0], size, words, nodes)
    used[0] = written
    return after + 1


@inlined_kernel
def _read_real(types, kind_of, data, at, end, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set a number of digits; where it cannot be rounded exactly at once, the place of its text."""
    is_float = types[kind_of, KIND] == Kind.FLOAT
    after, digits, power, is_exact, _ = scan_number_here(data, at, end)
    if after < 0:
        return after
    real, is_rounded = rounded(digits, power, is_exact, is_float)
    if is_rounded:
        _set_real(types, kind_of, -real if data[at] == MINUS else real, words, nodes)
        return after
    return _keep_digits(types, kind_of, data, at, after, power, words, nodes)


@kernel
def _keep_digits(types, kind_of, data, at, after, power, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set the place of the text of a number."""
    if is_too_large(data, at, after, power, types[kind_of, KIND] == Kind.FLOAT):
        return -types[kind_of, FIRST]
    _set_place(types[kind_of, NODE], at, after - at, words, nodes)
    return after


@inlined_kernel
def _set_real(types, kind_of, real, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    is_float = types[kind_of, KIND] == Kind.FLOAT
    bits = np.int64(np.float32(real).view(np.int32)) if is_float else np.float64(real).view(np.int64)
    _set_place(types[kind_of, NODE], bits, 0, words, nodes)


@kernel
def _read_without_digits(types, kind_of, data, at, end, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set a number that is not finite, as Python writes it, or in quotes as Java does."""
    begin = at + (data[at] == QUOTE)
    if begin >= end:
        return CUT
    byte = data[begin]
    if byte != 0x4E and byte != 0x49 and byte != MINUS:  # noqa: PLR1714
        return _refused(types[kind_of, REASON], data, at, end)
    after = literal_end(data, begin, end)
    if begin > at:
        if after < 0 or after >= end or data[after] != QUOTE:
            return _refused(types[kind_of, REASON], data, at, end)
        after += 1
    if after >= 0:
        real = np.nan if byte == 0x4E else (-np.inf if byte == MINUS else np.inf)
        _set_real(types, kind_of, real, words, nodes)
    return after

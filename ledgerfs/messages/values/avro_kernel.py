"""Runs the program of an Avro schema over payloads: each is read from its own beginning, so that a damaged one shifts no other.

A row that cannot be decoded gets a reason, and what it had appended is taken back.
"""

from enum import IntEnum

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_little_int32, load_little_int64
from ledgerfs.messages.kernels.arrays import borrowed
from ledgerfs.messages.kernels.wire import read_varint
from ledgerfs.messages.values.arena_kernel import append, append_blanks, append_place, keep, take_back
from ledgerfs.messages.values.value_program import Reason

MOST_EMPTY_WORK = 1 << 12
"""Most instructions and words of a payload's items that have no bytes, whose number its size does not bound."""
STACK = 3 << 10
"""Words of the stack: three for each list or recursion that is open."""
_FULL = -1
_MOST_BYTES = 10
"""Of a varint; the last of so many has one bit."""
_TRUNCATED, _BAD_NUMBER = int(Reason.TRUNCATED), int(Reason.BAD_NUMBER)


class Do(IntEnum):
    """Instructions; with a node of -1 they append nothing. In brackets their two arguments."""

    END = 0
    LONG = 1  # (range of a time of day, or 0)
    INT = 2  # (the same)
    SPAN = 3
    FIXED = 4  # (bytes)
    DOUBLE = 5
    FLOAT = 6
    BOOLEAN = 7
    SYMBOL = 8  # (table of symbols, how many)
    DECIMAL = 9  # (table of the largest one, bytes of a fixed one or -1)
    LONG_TO_FLOAT = 10  # (1 for an int)
    LONG_TO_DOUBLE = 11  # (the same)
    FLOAT_TO_DOUBLE = 12
    OPTION = 13  # (branch of null, table of blanks, how many, and the address after the value)
    UNION = 14  # (table of addresses, how many)
    ITEMS = (
        15  # (least bytes of an item, or what one without bytes costs, as a negative number; address after the items)
    )
    NEXT_ITEM = 16  # (the same)
    JUMP = 17  # (address)
    WORD = 18  # (word)
    CONSTANT = 19  # (place among the constants, size)
    BLANKS = 20  # (table of blanks, how many)
    FAIL = 21  # (reason)
    CALL = 22  # (address)
    RETURN = 23
    RAW = 24
    END_RAW = 25


@kernel
def run_avro(program, data, starts, ends, arena, reasons, first, scratch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Decode the payloads ``data[starts[i] : ends[i]]`` from the row ``first`` on; null where ``reasons`` is not 0 already.

    ``scratch`` is a stack, and a word for each node. Returns the row at which a node has no room left, and that node; otherwise the number
    of rows.
    """
    code = borrowed(program[0])  # type: ignore[call-arg, var-annotated]
    tables = borrowed(program[1])
    roots = borrowed(program[2])
    words = borrowed(arena[0])
    nodes = borrowed(arena[1])
    stack = borrowed(scratch[0])
    saved = borrowed(scratch[1])
    data = borrowed(data)
    for row in range(first, starts.size):
        if reasons[row] == 0:
            keep(nodes, saved)
            reason, node = _run(code, tables, data, starts[row], ends[row], words, nodes, stack)
            if reason == 0:
                continue
            take_back(nodes, saved)
            if reason == _FULL:
                return row, node
            reasons[row] = reason
        append_blanks(roots, np.int64(0), roots.size // 2, words, nodes)
    return starts.size, -1


@inlined_kernel
def _append(words, nodes, node, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Append a word where a node is wanted; return whether there was room for it."""
    return node < 0 or append(words, nodes, node, word)


@inlined_kernel
def _append_place(words, nodes, node, start, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return node < 0 or append_place(words, nodes, node, start, size)


@inlined_kernel
def _zigzag(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number at ``at``, and the index after it or -1, as for one of more than 64 bits."""
    number, after = read_varint(data, at, end)
    if after - at == _MOST_BYTES and data[after - 1] > 1:
        after = np.int64(-1)
    return ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1), after


@inlined_kernel
def _run(code, tables, data, at, end, words, nodes, stack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0911, PLR0912, PLR0915, PLR0917
    """Decode one payload; return 0 or the reason why not, and the node that has no room for it, or -1."""
    pc = np.int64(0)
    top = np.int64(0)
    empty_work = np.int64(0)
    while True:
        do, node, first, second = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3]
        pc += 1
        has_room = True
        if do == Do.LONG or do == Do.INT:  # noqa: PLR1714  (numba compiles this, not a membership)
            number, at = _zigzag(data, at, end)
            if at < 0:
                return Reason.TRUNCATED, node
            if do == Do.INT and number != np.int64(np.int32(number)):
                return Reason.BAD_NUMBER, node
            if first > 0 and not 0 <= number < first:
                return Reason.OUT_OF_RANGE, node
            has_room = _append(words, nodes, node, number)
        elif do == Do.SPAN:
            number, at = _zigzag(data, at, end)
            if at < 0 or number < 0 or number > end - at:
                return Reason.TRUNCATED, node
            has_room = _append_place(words, nodes, node, at, number)
            at += number
        elif do == Do.OPTION:
            number, at = _zigzag(data, at, end)
            if at < 0:
                return Reason.TRUNCATED, node
            if number != 0 and number != 1:  # noqa: PLR1714
                return Reason.BAD_BRANCH, node
            has_room = _append(words, nodes, node, np.int64(number != first))
            if number == first:
                pc = tables[second + 2]
                without = append_blanks(tables, tables[second], tables[second + 1], words, nodes)
                if without >= 0:
                    return _FULL, without
        elif do == Do.DOUBLE:
            if end - at < 8:
                return Reason.TRUNCATED, node
            has_room = _append(words, nodes, node, load_little_int64(data, at))  # type: ignore[call-arg]
            at += 8
        elif do == Do.SYMBOL:
            number, at = _zigzag(data, at, end)
            if at < 0:
                return Reason.TRUNCATED, node
            if not 0 <= number < second:
                return Reason.BAD_SYMBOL, node
            number = tables[first + number]
            if number < 0:
                return -number, node
            has_room = _append(words, nodes, node, number)
        elif do == Do.END:
            return (0, -1) if at == end else (Reason.TRAILING, -1)
        elif do == Do.ITEMS or do == Do.NEXT_ITEM:  # noqa: PLR1714
            if do == Do.ITEMS:
                if top + 3 > stack.size:
                    return Reason.TOO_DEEP, node
                stack[top] = pc
                stack[top + 1] = 0
                stack[top + 2] = 0
                top += 3
            else:
                stack[top - 2] -= 1
            if stack[top - 2] > 0:
                pc = stack[top - 3]
                continue
            number, at = _block_of_items(data, at, end, first, MOST_EMPTY_WORK - empty_work)
            if at < 0:
                return Reason.TRUNCATED if number == 0 else Reason.BAD_COUNT, node
            if number > 0:
                empty_work += number * -first if first < 0 else 0
                stack[top - 2] = number
                stack[top - 1] += number
                pc = stack[top - 3]
            else:
                top -= 3
                pc = second
                has_room = _append(words, nodes, node, stack[top + 2])
        elif do == Do.BOOLEAN:
            if at >= end:
                return Reason.TRUNCATED, node
            if data[at] > 1:
                return Reason.BAD_BOOLEAN, node
            has_room = _append(words, nodes, node, np.int64(data[at]))
            at += 1
        elif do == Do.FLOAT:
            if end - at < 4:
                return Reason.TRUNCATED, node
            has_room = _append(words, nodes, node, np.int64(load_little_int32(data, at)))  # type: ignore[call-arg]
            at += 4
        elif do == Do.FIXED:
            if end - at < first:
                return Reason.TRUNCATED, node
            has_room = _append_place(words, nodes, node, at, first)
            at += first
        elif do == Do.UNION:
            number, at = _zigzag(data, at, end)
            if at < 0:
                return Reason.TRUNCATED, node
            if not 0 <= number < second:
                return Reason.BAD_BRANCH, node
            pc = tables[first + number]
        elif do == Do.JUMP:
            pc = first
        elif do == Do.WORD:
            has_room = _append(words, nodes, node, first)
        elif do == Do.BLANKS:
            without = append_blanks(tables, first, second, words, nodes)
            if without >= 0:
                return _FULL, without
        elif do == Do.CONSTANT:
            has_room = _append_place(words, nodes, node, data.size + first, second)
        elif do == Do.FAIL:
            return first, node
        elif do == Do.CALL or do == Do.RAW:  # noqa: PLR1714
            if top + 3 > stack.size:
                return Reason.TOO_DEEP, node
            stack[top] = pc if do == Do.CALL else at
            top += 3
            pc = first if do == Do.CALL else pc
        elif do == Do.RETURN:
            top -= 3
            pc = stack[top]
        elif do == Do.END_RAW:
            top -= 3
            has_room = _append_place(words, nodes, node, stack[top], at - stack[top])
        elif do == Do.DECIMAL:
            number, at = (second, at) if second >= 0 else _zigzag(data, at, end)
            if at < 0 or number < 0 or number > end - at:
                return Reason.TRUNCATED, node
            if not _is_decimal(data, at, number, tables, first):
                return Reason.OUT_OF_RANGE, node
            has_room = _append_place(words, nodes, node, at, number)
            at += number
        else:
            number, at = _promoted(do, data, at, end, first)
            if at < 0:
                return number, node
            has_room = _append(words, nodes, node, number)
        if not has_room:
            return _FULL, node


@inlined_kernel
def _block_of_items(data, at, end, least, empty_left):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many items follow, and the index of the first, or -1: with 0 for a block that is cut, 1 for a lying one."""
    number, at = _zigzag(data, at, end)
    if at >= 0 and number < 0:
        number = -number
        _, at = _zigzag(data, at, end)
    if at < 0:
        return np.int64(0), np.int64(-1)
    if number < 0 or number > (end - at if least > 0 else empty_left) // (least if least > 0 else -least):
        return np.int64(1), np.int64(-1)
    return number, at


@inlined_kernel
def _promoted(do, data, at, end, is_int):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the bits of a number as a reader's float or double, and the index after it; or the reason why there is none, and -1."""
    if do == Do.FLOAT_TO_DOUBLE:
        if end - at < 4:
            return np.int64(_TRUNCATED), np.int64(-1)
        real = np.int32(load_little_int32(data, at)).view(np.float32)  # type: ignore[call-arg]
        return np.float64(real).view(np.int64), at + 4
    number, at = _zigzag(data, at, end)
    if at < 0:
        return np.int64(_TRUNCATED), np.int64(-1)
    if is_int > 0 and number != np.int64(np.int32(number)):
        return np.int64(_BAD_NUMBER), np.int64(-1)
    if do == Do.LONG_TO_FLOAT:
        return np.int64(np.float32(number).view(np.int32)), at
    return np.float64(number).view(np.int64), at


@kernel
def _is_decimal(data, at, size, tables, largest):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether a number in two's complement is one of the digits of its type: up to 32 bytes of a table, with either sign."""
    if size == 0:
        return False
    flip = 0xFF if data[at] >= 0x80 else 0
    for k in range(size - 32):
        if data[at + k] != flip:
            return False
    for k in range(32):
        place = size - 32 + k
        byte = np.int64(data[at + place]) ^ flip if place >= 0 else np.int64(0)
        if byte != tables[largest + k]:
            return byte < tables[largest + k]
    return flip == 0

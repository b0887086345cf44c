"""Runs the program of an Avro schema over payloads. Each is read from its own start, so a damaged one cannot shift the next.

A row that cannot be decoded gets a reason, and the kernel removes the words that the row had appended.
"""

from enum import IntEnum

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, inner_kernel, kernel
from ledgerfs.formats.memory_loads import load_little_int32, load_little_int64
from ledgerfs.messages.kernels.arrays import borrowed, double_of_float, double_of_long, float_of_long
from ledgerfs.messages.kernels.wire import read_varint
from ledgerfs.messages.values.arena import END, NEXT
from ledgerfs.messages.values.arena_kernel import append_blanks
from ledgerfs.messages.values.value_program import Reason

MOST_EMPTY_WORK = 1 << 12
"""Most instructions and words for a payload's items without bytes, since its size does not limit their number."""
STACK = 3 << 10
"""Words of the stack: three for each list or recursion that is open."""
_FULL = -2
"""Reason of a row for which a node has no room; -1 is `NULL`."""
_MOST_BYTES = 10
"""Most bytes of a varint; the last of them has one bit."""
# Plain integers: kernels that convert members of an enumeration take longer to compile.
_TRUNCATED, _TRAILING, _TOO_DEEP = int(Reason.TRUNCATED), int(Reason.TRAILING), int(Reason.TOO_DEEP)
_BAD_NUMBER, _BAD_BOOLEAN, _BAD_BRANCH = int(Reason.BAD_NUMBER), int(Reason.BAD_BOOLEAN), int(Reason.BAD_BRANCH)
_BAD_SYMBOL, _BAD_COUNT, _OUT_OF_RANGE = int(Reason.BAD_SYMBOL), int(Reason.BAD_COUNT), int(Reason.OUT_OF_RANGE)


class Do(IntEnum):
    """Instructions, with their two arguments in brackets; with a node of -1 they append nothing.

    Those up to `UNION`, and decimals of any size, begin with a varint.
    """

    LONG = 0  # (range of a time of day, or 0)
    INT = 1  # (the same)
    SPAN = 2
    OPTION = 3  # (branch of null, table of blanks, how many, and the address after the value)
    SYMBOL = 4  # (table of symbols, how many)
    LONG_TO_FLOAT = 5  # (1 for an int)
    LONG_TO_DOUBLE = 6  # (the same)
    UNION = 7  # (table of addresses, how many)
    END = 8
    FIXED = 9  # (bytes)
    DOUBLE = 10
    FLOAT = 11
    FLOAT_TO_DOUBLE = 12
    BOOLEAN = 13
    DECIMAL = 14  # (table of the largest one, bytes of a fixed one or -1)
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
def run_avro(program, data, starts, ends, arena, reasons, first_row, scratch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, C901, PLR0912, PLR0915, PLR0917
    """Decode the payloads ``data[starts[i] : ends[i]]`` from the row ``first_row`` on; null where ``reasons`` is not 0 already.

    ``scratch`` is a stack, and a word for each node. Returns the row at which a node has no room left, and that node; otherwise the
    number of rows.
    """
    code, tables, roots = borrowed(program[0]), borrowed(program[1]), borrowed(program[2])  # type: ignore[call-arg, var-annotated]
    words, nodes, data = borrowed(arena[0]), borrowed(arena[1]), borrowed(data)
    stack, saved = borrowed(scratch[0]), borrowed(scratch[1])
    for row in range(first_row, starts.size):
        for other in range(saved.size):
            saved[other] = nodes[other, NEXT]
        reason, at, end = reasons[row], starts[row], ends[row]
        node = pc = top = empty_work = np.int64(0)
        # All instructions append at one place below, and most read their number at one above: each more takes as long to compile as all.
        while reason == 0:
            do, node, first, second = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3]
            pc += 1
            appended = blanks = blanks_at = word = size = np.int64(0)
            if do <= Do.UNION or (do == Do.DECIMAL and second < 0):
                word, at = _zigzag(data, at, end)
                if at < 0:
                    reason = _TRUNCATED
                    break
            if do == Do.LONG or do == Do.INT:  # noqa: PLR1714  (numba compiles this, not a membership)
                if do == Do.INT and word != np.int64(np.int32(word)):
                    reason = _BAD_NUMBER
                elif first > 0 and not 0 <= word < first:
                    reason = _OUT_OF_RANGE
                appended = 1
            elif do == Do.SPAN or do == Do.FIXED:  # noqa: PLR1714
                appended, size = 2, word if do == Do.SPAN else first
                if size < 0 or size > end - at:
                    reason = _TRUNCATED
                word = at
                at += size
            elif do == Do.OPTION:
                if word != 0 and word != 1:  # noqa: PLR1714
                    reason = _BAD_BRANCH
                elif word == first:
                    blanks_at, blanks, pc = tables[second], tables[second + 1], tables[second + 2]
                appended, word = 1, np.int64(word != first)
            elif do == Do.SYMBOL or do == Do.UNION:  # noqa: PLR1714
                if not 0 <= word < second:
                    reason = _BAD_SYMBOL if do == Do.SYMBOL else _BAD_BRANCH
                elif do == Do.UNION:
                    pc = tables[first + word]
                else:
                    appended, word = 1, tables[first + word]
                    reason = -word if word < 0 else reason
            elif do == Do.END:
                if at != end:
                    reason = _TRAILING
                break
            elif do == Do.DOUBLE:
                if end - at < 8:
                    reason = _TRUNCATED
                else:
                    appended, word = 1, load_little_int64(data, at)
                    at += 8
            elif do == Do.FLOAT or do == Do.FLOAT_TO_DOUBLE:  # noqa: PLR1714
                if end - at < 4:
                    reason = _TRUNCATED
                else:
                    appended, word = 1, np.int64(load_little_int32(data, at))
                    word = double_of_float(word) if do == Do.FLOAT_TO_DOUBLE else word
                    at += 4
            elif do == Do.ITEMS or do == Do.NEXT_ITEM:  # noqa: PLR1714
                if do == Do.NEXT_ITEM:
                    stack[top - 2] -= 1
                elif top + 3 > stack.size:
                    reason = _TOO_DEEP
                    break
                else:
                    stack[top] = pc
                    stack[top + 1] = stack[top + 2] = 0
                    top += 3
                if stack[top - 2] > 0:
                    pc = stack[top - 3]
                    continue
                word, at = _block_of_items(data, at, end, first, MOST_EMPTY_WORK - empty_work)
                if at < 0:
                    reason = _TRUNCATED if word == 0 else _BAD_COUNT
                elif word > 0:
                    empty_work += word * -first if first < 0 else 0
                    stack[top - 2] = word
                    stack[top - 1] += word
                    pc = stack[top - 3]
                else:
                    top -= 3
                    appended, pc, word = 1, second, stack[top + 2]
            elif do == Do.BOOLEAN:
                if at >= end:
                    reason = _TRUNCATED
                elif data[at] > 1:
                    reason = _BAD_BOOLEAN
                else:
                    appended, word = 1, np.int64(data[at])
                    at += 1
            elif do == Do.JUMP:
                pc = first
            elif do == Do.WORD:
                appended, word = 1, first
            elif do == Do.BLANKS:
                blanks_at, blanks = first, second
            elif do == Do.CONSTANT:
                appended, word, size = 2, data.size + first, second
            elif do == Do.FAIL:
                reason = first
            elif do == Do.CALL or do == Do.RAW:  # noqa: PLR1714
                if top + 3 > stack.size:
                    reason = _TOO_DEEP
                    break
                stack[top] = pc if do == Do.CALL else at
                top += 3
                pc = first if do == Do.CALL else pc
            elif do == Do.RETURN:
                top -= 3
                pc = stack[top]
            elif do == Do.END_RAW:
                top -= 3
                appended, word, size = 2, stack[top], at - stack[top]
            elif do == Do.DECIMAL:
                appended, size = 2, word if second < 0 else second
                if size < 0 or size > end - at:
                    reason = _TRUNCATED
                elif not _is_decimal(data, at, size, tables, first):
                    reason = _OUT_OF_RANGE
                word = at
                at += size
            elif first > 0 and word != np.int64(np.int32(word)):
                reason = _BAD_NUMBER
            else:
                appended, word = 1, float_of_long(word) if do == Do.LONG_TO_FLOAT else double_of_long(word)
            if reason != 0:
                break
            if appended > 0 and node >= 0:
                place = nodes[node, NEXT]
                if place + appended > nodes[node, END]:
                    reason = _FULL
                    break
                words[place + appended - 1] = size
                words[place] = word
                nodes[node, NEXT] = place + appended
            if blanks > 0:
                node = append_blanks(tables, blanks_at, blanks, words, nodes)
                reason = _FULL if node >= 0 else 0
        if reason != 0:
            for other in range(saved.size):
                nodes[other, NEXT] = saved[other]
            if reason == _FULL:
                return row, node
            reasons[row] = reason
            append_blanks(roots, np.int64(0), roots.size // 2, words, nodes)
    return starts.size, np.int64(-1)


@inlined_kernel
def _zigzag(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number at ``at``, and the index after it; -1 for a number of more than 64 bits."""
    number, after = read_varint(data, at, end)
    if after - at == _MOST_BYTES and data[after - 1] > 1:
        after = np.int64(-1)
    return ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1), after


@inner_kernel
def _block_of_items(data, at, end, least, empty_left):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number of items that follow, and the index of the first, or -1: with 0 for a truncated block, 1 for a false count."""
    number, at = _zigzag(data, at, end)
    if at >= 0 and number < 0:
        number = -number
        _, at = _zigzag(data, at, end)
    if at < 0:
        return np.int64(0), np.int64(-1)
    if number < 0 or number > (end - at if least > 0 else empty_left) // (least if least > 0 else -least):
        return np.int64(1), np.int64(-1)
    return number, at


@inner_kernel
def _is_decimal(data, at, size, tables, largest):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether a number in two's complement has the digits of its type: at most the largest one, 32 bytes in a table, with either sign."""
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

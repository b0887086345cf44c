"""The kernel that runs the program of a Protobuf schema over payloads.

It reads each payload from its own start, so a damaged one cannot shift the next. A row that cannot be decoded gets a reason, and the kernel
removes the words that the row had appended.

Fields may come in any order, and more than once: the last value of a field counts, messages merge, items of lists add up. So each row and
each item of a list starts with zeros in all of its nodes, and a field writes to the last place of its node. Lists that are read at the same
time belong to the same item, so the items of a list are always contiguous.
"""

from enum import IntEnum

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, inner_kernel, kernel
from ledgerfs.formats.memory_loads import load_little_int32, load_little_int64
from ledgerfs.messages.kernels.arrays import borrowed
from ledgerfs.messages.kernels.wire import read_varint
from ledgerfs.messages.values.arena import NEXT
from ledgerfs.messages.values.arena_kernel import append, append_blanks, append_place
from ledgerfs.messages.values.value_program import Reason

STACK = (100, 6)
"""Shape of the stack: a row for each message inside another, as deep as other readers of Protobuf go."""
WORDS_OF_ROW = 1 << 12
WORDS_PER_BYTE = 64
"""Most words of the items of one payload: an item takes a word for each field, present or not, so a few bytes could fill the memory."""
BAD_FIELD = int(Reason.OF_PROGRAM)
BAD_GROUP = BAD_FIELD + 1
IN_PARTS = BAD_FIELD + 2
FIXED_REASONS = (
    "a field of it has no number, or a type that Protobuf does not have",
    "a group in it does not end, or ends without a beginning",
    "a nested message that is stored as bytes is split into several parts",
)
"""Texts of the reasons above, the first of every program."""


class Wire(IntEnum):
    """Types of fields on the wire."""

    VARINT = 0
    FIXED64 = 1
    SPAN = 2
    GROUP = 3
    END_GROUP = 4
    FIXED32 = 5


class Do(IntEnum):
    """Actions for a field; those before ``SPAN`` store a number."""

    NUMBER = 0
    ZIGZAG32 = 1
    ZIGZAG64 = 2
    ENUM = 3
    CLOSED_ENUM = 4
    SPAN = 5
    RAW = 6
    MESSAGE = 7
    FAIL = 8
    PACKED = 9
    SKIP = 10


DO, WIRE, NODE, PRESENT, NUMBER, LIST, TABLE, COUNT, FIELDS = range(9)
"""Words of an instruction. Each field of a message has one, by ascending number; the last one of a program is for the outermost message:
the action, and its type on the wire;
the node to set or to append to; for a message, its first instruction;
the node that gets the field's number if it is present, or -1, and that number;
the node that counts the items, or -1;
where a table starts (numbers of a closed enum; blanks of an item; nodes to clear in a member of a oneof), or a reason; the table's length;
how many fields a message has."""


@kernel
def run_protobuf(program, data, starts, ends, arena, reasons, first, scratch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Decode the payloads ``data[starts[i] : ends[i]]`` from the row ``first`` on; null where ``reasons`` is not 0 already.

    ``scratch`` is a stack, and two words for each node. Returns the row at which a node has no room left, and that node; otherwise the
    number of rows.
    """
    code, numbers = borrowed(program[0]), borrowed(program[1])  # type: ignore[call-arg, var-annotated]
    tables, roots = borrowed(program[2]), borrowed(program[3])
    words, nodes, data = borrowed(arena[0]), borrowed(arena[1]), borrowed(data)
    stack, saved, counts = borrowed(scratch[0]), borrowed(scratch[1]), borrowed(scratch[2])
    for row in range(first, starts.size):
        for other in range(saved.size):
            saved[other] = nodes[other, NEXT]
        append_blanks(roots, np.int64(0), roots.size // 2, words, nodes)
        if reasons[row] == 0:
            result = _run(code, numbers, tables, data, starts[row], ends[row], words, nodes, stack, counts)
            if result == 0:
                continue
            for other in range(saved.size):
                nodes[other, NEXT] = saved[other]
            if result < 0:
                return row, -1 - result
            reasons[row] = result
            append_blanks(roots, np.int64(0), roots.size // 2, words, nodes)
    return starts.size, -1


# The functions below that return one number return 0, the reason why a row cannot be decoded, or -1 - (the node that has no room).


@inner_kernel
def _run(code, numbers, tables, data, at, end, words, nodes, stack, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0911, PLR0912, PLR0915, PLR0917
    """Decode one payload."""
    budget = WORDS_OF_ROW + WORDS_PER_BYTE * (end - at)
    depth = 0
    first, count, group, raw, begin = np.int64(0), code[-1, FIELDS], np.int64(0), np.int64(-1), np.int64(0)
    while True:
        if at == end:
            if group != 0:
                return BAD_GROUP
            if depth == 0:
                return 0
            depth -= 1
            end, first, count = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            group, raw, begin = stack[depth, 3], stack[depth, 4], stack[depth, 5]
            continue
        tag_at = at
        tag, at = read_varint(data, at, end)
        if at < 0:
            return Reason.TRUNCATED
        if tag < 8 or tag > 0xFFFFFFFF:
            return BAD_FIELD
        number, wire = tag >> 3, tag & 7
        if wire == Wire.END_GROUP:
            if number != group:
                return BAD_GROUP
            if raw >= 0:
                node, items, present = code[raw, NODE], code[raw, LIST], code[raw, PRESENT]
                result = _add_place(words, nodes, node, items, present, number, True, begin, tag_at - begin)
                if result != 0:
                    return result
            depth -= 1
            end, first, count = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            group, raw, begin = stack[depth, 3], stack[depth, 4], stack[depth, 5]
            continue
        pc = first + number - 1  # correct for most messages, which number their fields 1, 2, …
        if number > count or numbers[pc] != number:
            pc = _position(numbers, first, count, number)
        do = np.int64(Do.SKIP)
        if pc >= 0:
            do = code[pc, DO]
            if do == Do.FAIL:
                return code[pc, TABLE]
            if wire != code[pc, WIRE]:
                do = np.int64(Do.PACKED if wire == Wire.SPAN and do < Do.SPAN and code[pc, LIST] >= 0 else Do.SKIP)
        size, result = np.int64(0), np.int64(0)
        if wire == Wire.SPAN:
            size, at = read_varint(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return Reason.TRUNCATED
        if wire == Wire.GROUP or do == Do.MESSAGE:
            if depth == stack.shape[0]:
                return Reason.TOO_DEEP
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = end, first, count
            stack[depth, 3], stack[depth, 4], stack[depth, 5] = group, raw, begin
            depth += 1
            count, group, raw, begin = np.int64(0), np.int64(0), np.int64(-1), at
            if wire == Wire.SPAN:
                end = at + size
            else:
                group = number
                raw = pc if do == Do.RAW else raw
            if do == Do.MESSAGE:
                result = _begin_message(code, pc, tables, words, nodes, counts)
                first, count = code[pc, NODE], code[pc, FIELDS]
                if code[pc, LIST] >= 0:
                    budget -= code[pc, COUNT]
                    if budget < 0:
                        return Reason.TOO_LARGE
        elif wire == Wire.SPAN:
            if do == Do.PACKED:
                result = _add_packed(code, pc, tables, data, at, at + size, words, nodes)
            elif do != Do.SKIP:
                node, items, present = code[pc, NODE], code[pc, LIST], code[pc, PRESENT]
                result = _add_place(words, nodes, node, items, present, number, do == Do.RAW, at, size)
            at += size
        elif wire <= Wire.FIXED32:
            word, at = _word(wire, data, at, end)
            if at < 0:
                return Reason.TRUNCATED
            word = _meant(do, word)
            is_known = do != Do.CLOSED_ENUM or _position(tables, code[pc, TABLE], code[pc, COUNT], word) >= 0
            if do != Do.SKIP and is_known:
                node, items, present = code[pc, NODE], code[pc, LIST], code[pc, PRESENT]
                result = _add_number(words, nodes, node, items, present, number, word)
        else:
            return BAD_FIELD
        if result != 0:
            return result


@inlined_kernel
def _position(numbers, first, count, number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where a number is among ``count`` ascending ones from ``first`` on, or -1."""
    low, high = first, first + count
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] == number:
            return middle
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return np.int64(-1)


@inlined_kernel
def _word(wire, data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number at ``at``, and the index after it or -1."""
    if wire == Wire.VARINT:
        return read_varint(data, at, end)
    if wire == Wire.FIXED64:
        return (load_little_int64(data, at), at + 8) if end - at >= 8 else (np.int64(0), np.int64(-1))  # type: ignore[call-arg]
    return (np.int64(load_little_int32(data, at)), at + 4) if end - at >= 4 else (np.int64(0), np.int64(-1))  # type: ignore[call-arg]


@inlined_kernel
def _meant(do, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number that a word on the wire means."""
    if do == Do.ZIGZAG32:
        return ((word & 0xFFFFFFFF) >> 1) ^ -(word & 1)
    if do == Do.ZIGZAG64:
        return ((word >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(word & 1)
    return word if do == Do.NUMBER else np.int64(np.int32(word))


@inlined_kernel
def _add_number(words, nodes, node, items, present, number, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set a number, or append it to a list."""
    result = np.int64(0)
    if items < 0:
        words[nodes[node, NEXT] - 1] = word
        if present >= 0:
            words[nodes[present, NEXT] - 1] = number
    elif append(words, nodes, node, word):
        words[nodes[items, NEXT] - 1] += 1
    else:
        result = -1 - node
    return result


@inner_kernel
def _add_packed(code, pc, tables, data, at, end, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Append the numbers of a packed field."""
    do, wire, node, items = code[pc, DO], code[pc, WIRE], code[pc, NODE], code[pc, LIST]
    while at < end:
        word, at = _word(wire, data, at, end)
        if at < 0:
            return np.int64(Reason.TRUNCATED)
        word = _meant(do, word)
        if do != Do.CLOSED_ENUM or _position(tables, code[pc, TABLE], code[pc, COUNT], word) >= 0:
            if not append(words, nodes, node, word):
                return -1 - node
            words[nodes[items, NEXT] - 1] += 1
    return np.int64(0)


@inlined_kernel
def _add_place(words, nodes, node, items, present, number, is_raw, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set text or bytes, a message that is kept as bytes included, or append them to a list."""
    result = np.int64(0)
    if items >= 0:
        if append_place(words, nodes, node, at, size):
            words[nodes[items, NEXT] - 1] += 1
        else:
            result = -1 - node
    else:
        place = nodes[node, NEXT]
        is_first = not is_raw or words[place - 1] == 0
        if present >= 0:
            is_first |= words[nodes[present, NEXT] - 1] != number
            words[nodes[present, NEXT] - 1] = number
        if is_first:
            words[place - 2] = at
            words[place - 1] = size
        elif size > 0:
            result = np.int64(IN_PARTS)
    return result


@inner_kernel
def _begin_message(code, pc, tables, words, nodes, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Start a message, or continue one that has started."""
    items, present = code[pc, LIST], code[pc, PRESENT]
    if items >= 0:
        node = append_blanks(tables, code[pc, TABLE], code[pc, COUNT], words, nodes)
        if node >= 0:
            return -1 - node
        words[nodes[items, NEXT] - 1] += 1
    elif present >= 0:
        before = words[nodes[present, NEXT] - 1]
        if before != 0 and before != code[pc, NUMBER]:
            # Another member of the oneof came after this one, so the earlier fields of this one do not count.
            _clear(tables, code[pc, TABLE], code[pc, COUNT], words, nodes, counts)
        words[nodes[present, NEXT] - 1] = code[pc, NUMBER]
    return np.int64(0)


@inner_kernel
def _clear(tables, at, count, words, nodes, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set the last places of a message to zeros, and remove the items of its lists; a table has its nodes, lists before their items."""
    for k in range(at, at + 4 * count, 4):
        node, size, inside, is_list = tables[k], tables[k + 1], tables[k + 2], tables[k + 3]
        number = np.int64(1) if inside < 0 else counts[inside]
        after = nodes[node, NEXT]
        if is_list != 0:
            counts[node] = 0
            for place in range(after - number, after):
                counts[node] += words[place]
        if inside >= 0:
            nodes[node, NEXT] = after - number * size
        else:
            for place in range(after - size, after):
                words[place] = 0

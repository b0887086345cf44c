"""Runs the program of a Protobuf schema over payloads: each is read from its own beginning, so that a damaged one shifts no other.

Fields come in any order, and again: the last one counts, messages merge, items of lists add up. So what begins - a row, an item of a list -
first gets zeros in all of its nodes, and its fields are then set in the last place of each. Items of a list are those of the item that
is read at the time, whatever else comes between them, so they are always contiguous.

A row that cannot be decoded gets a reason, and what it had appended is taken back.
"""

from enum import IntEnum

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, inner_kernel, kernel
from ledgerfs.formats.memory_loads import load_little_int32, load_little_int64
from ledgerfs.messages.kernels.arrays import borrowed
from ledgerfs.messages.kernels.wire import read_varint, skip_fixed
from ledgerfs.messages.values.arena import NEXT
from ledgerfs.messages.values.arena_kernel import append, append_blanks, append_place
from ledgerfs.messages.values.value_program import Reason

FRAME = 5
STACK = 100 * FRAME
"""Words of the stack: a frame for each message inside another, as deep as other readers of Protobuf go."""
WORDS_OF_ROW = 1 << 12
WORDS_PER_BYTE = 64
"""Most words that the items of one payload may take, which have a place for each field, given or not: so many, and more by its size."""
BAD_FIELD = int(Reason.OF_PROGRAM)
BAD_GROUP = BAD_FIELD + 1
IN_PARTS = BAD_FIELD + 2
FIXED_REASONS = (
    "a field of it has no number, or a type that Protobuf does not have",
    "a group in it does not end, or ends without a beginning",
    "a message in it that is kept as bytes comes in several parts",
)
"""Texts of the reasons above, the first of every program."""
NOTHING_KNOWN, ROOT = 0, 1
"""Rows of the table of messages: one without fields, for groups that are skipped, and the outermost one."""
_FULL = -1


class Wire(IntEnum):
    """Types of fields on the wire."""

    VARINT = 0
    FIXED64 = 1
    SPAN = 2
    GROUP = 3
    END_GROUP = 4
    FIXED32 = 5


class Do(IntEnum):
    """What is done with a field."""

    VARINT = 0
    ZIGZAG32 = 1
    ZIGZAG64 = 2
    ENUM = 3
    CLOSED_ENUM = 4
    FIXED32 = 5
    FIXED64 = 6
    SPAN = 7
    RAW = 8
    MESSAGE = 9
    FAIL = 10


DO, WIRE, NODE, PRESENT, NUMBER, LIST, TABLE, COUNT = range(8)
"""Words of an instruction: what is done, and the type on the wire that it is done with;
the node that it sets or appends to (of a message, its row in the table of messages);
the node that says that it is there, or -1, and what that gets; the node that counts the items, or -1;
a table (numbers of a closed enum; blanks of an item; what a member of a oneof clears) or the reason of a failure; how many it has."""
INSTRUCTION = 8


@kernel
def run_protobuf(program, data, starts, ends, arena, reasons, first, scratch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Decode the payloads ``data[starts[i] : ends[i]]`` from the row ``first`` on; null where ``reasons`` is not 0 already.

    ``scratch`` is a stack, and two words for each node. Returns the row at which a node has no room left, and that node; otherwise the
    number of rows.
    """
    code, messages, fields = borrowed(program[0]), borrowed(program[1]), borrowed(program[2])  # type: ignore[call-arg, var-annotated]
    tables, roots = borrowed(program[3]), borrowed(program[4])
    words, nodes, data = borrowed(arena[0]), borrowed(arena[1]), borrowed(data)
    stack, saved, counts = borrowed(scratch[0]), borrowed(scratch[1]), borrowed(scratch[2])
    for row in range(first, starts.size):
        for other in range(saved.size):
            saved[other] = nodes[other, NEXT]
        append_blanks(roots, np.int64(0), roots.size // 2, words, nodes)
        if reasons[row] == 0:
            reason, node = _run(
                code, messages, fields, tables, data, starts[row], ends[row], words, nodes, stack, counts
            )
            if reason == 0:
                continue
            for other in range(saved.size):
                nodes[other, NEXT] = saved[other]
            if reason == _FULL:
                return row, node
            reasons[row] = reason
            append_blanks(roots, np.int64(0), roots.size // 2, words, nodes)
    return starts.size, -1


@inlined_kernel
def _instruction(messages, fields, message, number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the place of what is done with a field of a message, -1 for one that it does not have."""
    if number < messages[message, 1]:
        return fields[messages[message, 0] + number]
    low = messages[message, 2]
    high = low + 2 * messages[message, 3]
    while low < high:
        middle = low + ((high - low) >> 2 << 1)
        if fields[middle] == number:
            return fields[middle + 1]
        if fields[middle] < number:
            low = middle + 2
        else:
            high = middle
    return np.int64(-1)


@inlined_kernel
def _is_one_of(tables, low, count, number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    high = low + count
    while low < high:
        middle = (low + high) >> 1
        if tables[middle] == number:
            return True
        if tables[middle] < number:
            low = middle + 1
        else:
            high = middle
    return False


@inlined_kernel
def _number(do, data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the word of the number at ``at``, and the index after it or -1."""
    if do == Do.FIXED64:
        return (load_little_int64(data, at), at + 8) if end - at >= 8 else (np.int64(0), np.int64(-1))  # type: ignore[call-arg]
    if do == Do.FIXED32:
        if end - at < 4:
            return np.int64(0), np.int64(-1)
        return np.int64(load_little_int32(data, at)), at + 4  # type: ignore[call-arg]
    number, at = read_varint(data, at, end)
    if do == Do.ZIGZAG32:
        number = ((number & 0xFFFFFFFF) >> 1) ^ -(number & 1)
    elif do == Do.ZIGZAG64:
        number = ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1)
    elif do == Do.ENUM or do == Do.CLOSED_ENUM:  # noqa: PLR1714  (numba compiles this, not a membership)
        number = np.int64(np.int32(number))
    return number, at


@inner_kernel
def _clear(tables, at, count, words, nodes, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set the last places of a message to zeros, and take back the items of its lists; a table has its nodes, lists before their items."""
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


@inlined_kernel
def _set_place(words, nodes, node, start, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    place = nodes[node, NEXT]
    words[place - 2] = start
    words[place - 1] = size


@inlined_kernel
def _push(stack, top, end, message, group, raw, begin):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Keep what belongs to the message around the one that begins; return the top of the stack."""
    stack[top], stack[top + 1], stack[top + 2], stack[top + 3], stack[top + 4] = end, message, group, raw, begin
    return top + FRAME


@inner_kernel
def _run(code, messages, fields, tables, data, at, end, words, nodes, stack, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0911, PLR0912, PLR0915, PLR0917
    """Decode one payload; return 0 or the reason why not, and the node that has no room for it, or -1."""
    budget = np.int64(WORDS_OF_ROW + WORDS_PER_BYTE * (end - at))
    top = np.int64(0)
    message, group, raw, begin = np.int64(ROOT), np.int64(0), np.int64(-1), np.int64(0)
    while True:
        if at == end:
            if group != 0:
                return BAD_GROUP, -1
            if top == 0:
                return 0, -1
            top -= FRAME
            end, message, group = stack[top], stack[top + 1], stack[top + 2]
            raw, begin = stack[top + 3], stack[top + 4]
            continue
        tag_at = at
        tag, at = read_varint(data, at, end)
        if at < 0:
            return Reason.TRUNCATED, -1
        if tag < 8 or tag > 0xFFFFFFFF:
            return BAD_FIELD, -1
        number, wire = tag >> 3, tag & 7
        pc = _instruction(messages, fields, message, number)
        do = code[pc, DO] if pc >= 0 else np.int64(-1)
        items = code[pc, LIST] if pc >= 0 else np.int64(-1)
        if do == Do.FAIL:
            return code[pc, TABLE], -1
        is_expected = pc >= 0 and wire == code[pc, WIRE]
        if 0 <= do < Do.SPAN and is_expected:
            word, at = _number(do, data, at, end)
            if at < 0:
                return Reason.TRUNCATED, -1
            if do == Do.CLOSED_ENUM and not _is_one_of(tables, code[pc, TABLE], code[pc, COUNT], word):
                continue
            node = code[pc, NODE]
            if items < 0:
                words[nodes[node, NEXT] - 1] = word
                if code[pc, PRESENT] >= 0:
                    words[nodes[code[pc, PRESENT], NEXT] - 1] = code[pc, NUMBER]
            elif append(words, nodes, node, word):
                words[nodes[items, NEXT] - 1] += 1
            else:
                return _FULL, node
        elif do == Do.SPAN and is_expected:
            size, at = read_varint(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return Reason.TRUNCATED, -1
            node = code[pc, NODE]
            if items < 0:
                _set_place(words, nodes, node, at, size)
                if code[pc, PRESENT] >= 0:
                    words[nodes[code[pc, PRESENT], NEXT] - 1] = code[pc, NUMBER]
            elif append_place(words, nodes, node, at, size):
                words[nodes[items, NEXT] - 1] += 1
            else:
                return _FULL, node
            at += size
        elif wire == Wire.SPAN:
            size, at = read_varint(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return Reason.TRUNCATED, -1
            if do == Do.MESSAGE and is_expected:
                if top == stack.size:
                    return Reason.TOO_DEEP, -1
                reason, node = _begin_message(code, pc, tables, words, nodes, counts)
                if reason != 0:
                    return reason, node
                budget -= code[pc, COUNT] if items >= 0 else 0
                if budget < 0:
                    return Reason.TOO_LARGE, -1
                top = _push(stack, top, end, message, group, raw, begin)
                end, message, group, raw = at + size, code[pc, NODE], np.int64(0), np.int64(-1)
                continue
            if do == Do.RAW and is_expected:
                reason, node = _add_raw(code, pc, words, nodes, at, size)
                if reason != 0:
                    return reason, node
            elif 0 <= do < Do.SPAN and items >= 0:
                reason, node = _add_packed(code, pc, tables, data, at, at + size, words, nodes)
                if reason != 0:
                    return reason, node
            at += size
        elif wire == Wire.GROUP:
            if top == stack.size:
                return Reason.TOO_DEEP, -1
            top = _push(stack, top, end, message, group, raw, begin)
            message, group, raw, begin = np.int64(NOTHING_KNOWN), number, np.int64(-1), at
            if do == Do.MESSAGE and is_expected:
                reason, node = _begin_message(code, pc, tables, words, nodes, counts)
                if reason != 0:
                    return reason, node
                budget -= code[pc, COUNT] if items >= 0 else 0
                if budget < 0:
                    return Reason.TOO_LARGE, -1
                message = code[pc, NODE]
            elif do == Do.RAW and is_expected:
                raw = pc
        elif wire == Wire.END_GROUP:
            if number != group:
                return BAD_GROUP, -1
            if raw >= 0:
                reason, node = _add_raw(code, raw, words, nodes, begin, tag_at - begin)
                if reason != 0:
                    return reason, node
            top -= FRAME
            # The end is that of what is around it: groups have no size.
            message, group, raw, begin = stack[top + 1], stack[top + 2], stack[top + 3], stack[top + 4]
        elif wire == Wire.VARINT:
            _, at = read_varint(data, at, end)
            if at < 0:
                return Reason.TRUNCATED, -1
        elif wire == Wire.FIXED32 or wire == Wire.FIXED64:  # noqa: PLR1714
            at = skip_fixed(at, end, wire)
            if at < 0:
                return Reason.TRUNCATED, -1
        else:
            return BAD_FIELD, -1


@inner_kernel
def _begin_message(code, pc, tables, words, nodes, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Begin with a message, or go on with one that has begun; return 0 or the reason why not, and the node without room, or -1."""
    items, present = code[pc, LIST], code[pc, PRESENT]
    if items >= 0:
        node = append_blanks(tables, code[pc, TABLE], code[pc, COUNT], words, nodes)
        if node >= 0:
            return np.int64(_FULL), node
        words[nodes[items, NEXT] - 1] += 1
    elif present >= 0:
        place = nodes[present, NEXT] - 1
        if words[place] != 0 and words[place] != code[pc, NUMBER]:
            # Another member of the oneof came in between, so what this one had before does not count.
            _clear(tables, code[pc, TABLE], code[pc, COUNT], words, nodes, counts)
        words[place] = code[pc, NUMBER]
    return np.int64(0), np.int64(-1)


@inner_kernel
def _add_raw(code, pc, words, nodes, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Keep a message as bytes; return as `_begin_message` does."""
    node, items, present = code[pc, NODE], code[pc, LIST], code[pc, PRESENT]
    if items >= 0:
        if not append_place(words, nodes, node, at, size):
            return np.int64(_FULL), node
        words[nodes[items, NEXT] - 1] += 1
        return np.int64(0), np.int64(-1)
    # What was there before, bytes; in an entry of a map, which has no word of presence, it begins with none.
    before = words[nodes[node, NEXT] - 1]
    if present >= 0:
        place = nodes[present, NEXT] - 1
        if words[place] != code[pc, NUMBER]:
            before = 0
        words[place] = code[pc, NUMBER]
    if before > 0 and size > 0:
        return np.int64(IN_PARTS), np.int64(-1)
    if before == 0:
        _set_place(words, nodes, node, at, size)
    return np.int64(0), np.int64(-1)


@inner_kernel
def _add_packed(code, pc, tables, data, at, end, words, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Append the numbers of a packed field; return as `_begin_message` does."""
    do, node, items = code[pc, DO], code[pc, NODE], code[pc, LIST]
    while at < end:
        word, at = _number(do, data, at, end)
        if at < 0:
            return np.int64(Reason.TRUNCATED), np.int64(-1)
        if do == Do.CLOSED_ENUM and not _is_one_of(tables, code[pc, TABLE], code[pc, COUNT], word):
            continue
        if not append(words, nodes, node, word):
            return np.int64(_FULL), node
        words[nodes[items, NEXT] - 1] += 1
    return np.int64(0), np.int64(-1)

"""Tokens of JSON (RFC 8259) for kernels: where they end, and what they say.

Functions return the index after a token, or minus a `Reason`. As Python's writer has them, NaN, Infinity and -Infinity are numbers, too.
"""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_little_int64
from ledgerfs.messages.kernels.arrays import borrowed, trailing_zeros
from ledgerfs.messages.values.value_program import Reason

BAD_JSON = int(Reason.OF_PROGRAM)
"""Reason of what is no JSON; the first of a program."""
CUT, BAD, DEEP = np.int64(-Reason.TRUNCATED), np.int64(-BAD_JSON), np.int64(-Reason.TOO_DEEP)
"""What stands for an index where there is none."""
MOST_DEPTH = 1000
"""How deep lists and objects may be nested, as in Pulsar's client."""
QUOTE, COMMA, COLON, MINUS, BACKSLASH = 0x22, 0x2C, 0x3A, 0x2D, 0x5C
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = 0x5B, 0x5D, 0x7B, 0x7D
NULL_BEGINS, TRUE_BEGINS, FALSE_BEGINS = 0x6E, 0x74, 0x66
_MOST_DIGITS = 18
_LARGEST_EXPONENT = np.int64(1 << 40)
_LITERALS = tuple(
    (np.frombuffer(one.encode(), np.uint8)) for one in ("null", "true", "false", "NaN", "Infinity", "-Infinity")
)
_NULL, _TRUE, _FALSE, _NAN, _INFINITY, _MINUS_INFINITY = _LITERALS
_POWERS = np.array([10.0**k for k in range(23)])
_EXACT_DIGITS = 1 << 53
_SMALLEST_FLOAT, _LARGEST_FLOAT = 2.0**-126, 3.4028234663852886e38
_TOO_LARGE_DOUBLE, _TOO_LARGE_FLOAT = (
    np.frombuffer(str(one).encode(), np.uint8) for one in ((1 << 1024) - (1 << 970), (1 << 128) - (1 << 103))
)
"""Digits of the smallest numbers that are rounded to infinity."""
_SMALL_POWER = 20
"""Of 18 digits and this power of ten no number is that large."""
_ONES = 0x0101010101010101
_HIGH_BITS = np.int64(-0x7F7F7F7F7F7F7F80)


@inlined_kernel
def after_blanks(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the index of what is no blank."""
    while at < end and data[at] <= 0x20 and (data[at] == 0x20 or data[at] == 0x0A or data[at] == 0x0D or data[at] == 9):
        at += 1
    return at


@inlined_kernel
def after_mark(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return where a document begins, after blanks and the mark of UTF-8 that some writers put there."""
    if end - at >= 3 and data[at] == 0xEF and data[at + 1] == 0xBB and data[at + 2] == 0xBF:
        at += 3
    return after_blanks(data, at, end)


@inlined_kernel
def _bytes_equal(word, byte):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the high bits of those of eight bytes that are this one, and perhaps of some above the lowest of them (Mycroft's test)."""
    different = word ^ (_ONES * byte)
    return (different - _ONES) & ~different & _HIGH_BITS


@inlined_kernel
def _text_ends(word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the high bits of a quote, backslash or control character among eight bytes; those above the lowest one may be wrong."""
    controls = (word - _ONES * 0x20) & ~word & _HIGH_BITS
    return controls | _bytes_equal(word, QUOTE) | _bytes_equal(word, BACKSLASH)


@inlined_kernel
def text_end(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the index of the quote that ends a text which begins at ``at``, and whether there are escapes."""
    has_escapes = False
    while at < end:
        if end - at >= 8:
            ends = _text_ends(load_little_int64(data, at))  # type: ignore[call-arg]
            if ends == 0:
                at += 8
                continue
            at += trailing_zeros(ends) >> 3
        byte = data[at]
        if byte == QUOTE:
            return at, has_escapes
        if byte < 0x20:
            return BAD, has_escapes
        at += 1
        if byte == BACKSLASH:
            has_escapes = True
            at = _after_escape(data, at, end)
            if at < 0:
                return at, has_escapes
    return CUT, has_escapes


@kernel
def _after_escape(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if at >= end:
        return CUT
    byte = data[at]
    if byte != 0x75:  # u
        is_known = byte == QUOTE or byte == BACKSLASH or byte == 0x2F or unescaped(byte) != 0  # noqa: PLR1714
        return at + 1 if is_known else BAD
    for k in range(at + 1, at + 5):
        if k >= end:
            return CUT
        if hexadecimal(data[k]) < 0:
            return BAD
    return at + 5


@inlined_kernel
def unescaped(byte):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the control character that a letter after a backslash stands for, or 0."""
    if byte == 0x6E:
        return 10
    if byte == 0x74:
        return 9
    if byte == 0x72:
        return 13
    if byte == 0x62:
        return 8
    return 12 if byte == 0x66 else 0


@inlined_kernel
def hexadecimal(byte):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return what a digit stands for, or -1."""
    if 0x30 <= byte <= 0x39:
        return np.int64(byte) - 0x30
    lower = np.int64(byte) | 0x20
    return lower - 0x57 if 0x61 <= lower <= 0x66 else np.int64(-1)


@kernel
def literal_end(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the index after null, a boolean, or a number that has no digits."""
    byte = data[at]
    if byte == NULL_BEGINS:
        return _end_of(_NULL, data, at, end)
    if byte == TRUE_BEGINS:
        return _end_of(_TRUE, data, at, end)
    if byte == FALSE_BEGINS:
        return _end_of(_FALSE, data, at, end)
    if byte == 0x4E:
        return _end_of(_NAN, data, at, end)
    if byte == 0x49:
        return _end_of(_INFINITY, data, at, end)
    return _end_of(_MINUS_INFINITY, data, at, end)


@inlined_kernel
def _end_of(literal, data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for k in range(literal.size):
        if at + k >= end:
            return CUT
        if data[at + k] != literal[k]:
            return BAD
    return at + literal.size


@inlined_kernel
def has_digits(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether a number with digits begins here."""
    if data[at] == MINUS and end - at > 1:
        at += 1
    return 0x30 <= data[at] <= 0x39


@inlined_kernel
def scan_number_here(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Read a number of digits: return the index after it, digits, the power of ten that they are to be multiplied with, and two facts.

    These are whether it has no more digits than these 18, and whether it is written as a whole number. The sign is that of ``data[at]``.
    """
    digits, power, kept = np.int64(0), np.int64(0), np.int64(0)
    is_exact, is_whole = True, True
    if data[at] == MINUS:
        at += 1
    begin = at
    while at < end and 0x30 <= data[at] <= 0x39:
        if kept < _MOST_DIGITS:
            digits = digits * 10 + (np.int64(data[at]) - 0x30)
            kept += digits > 0
        else:
            power += 1
            is_exact = False
        at += 1
    if at == begin or (data[begin] == 0x30 and at > begin + 1):
        return _missing(at, begin, end), digits, power, is_exact, is_whole
    if at < end and data[at] == 0x2E:
        is_whole = False
        at += 1
        begin = at
        while at < end and 0x30 <= data[at] <= 0x39:
            if kept < _MOST_DIGITS:
                digits = digits * 10 + (np.int64(data[at]) - 0x30)
                kept += digits > 0
                power -= 1
            else:
                is_exact = False
            at += 1
        if at == begin:
            return _missing(at, begin, end), digits, power, is_exact, is_whole
    if at < end and (data[at] | 0x20) == 0x65:
        is_whole = False
        at, exponent = _scan_exponent(data, at + 1, end)
        power += exponent
    return at, digits, power, is_exact, is_whole


@kernel
def scan_number(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return what `scan_number_here` does, by a call."""
    data = borrowed(data)  # type: ignore[call-arg]
    return scan_number_here(data, at, end)


@inlined_kernel
def small_number(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Read a whole number of at most 18 digits: return it and the index after it, or -1 for whatever else is there."""
    is_negative = data[at] == MINUS
    at += is_negative
    begin = at
    number = np.int64(0)
    last = min(end, at + _MOST_DIGITS)
    while at < last:
        digit = np.int64(data[at]) - 0x30
        if not 0 <= digit <= 9:
            break
        number = number * 10 + digit
        at += 1
    if at == begin or at >= end or (data[begin] == 0x30 and at > begin + 1):
        return number, np.int64(-1)
    byte = data[at]
    if byte == 0x2E or (byte | 0x20) == 0x65 or 0x30 <= byte <= 0x39:
        return number, np.int64(-1)
    return -number if is_negative else number, at


@inlined_kernel
def _missing(at, begin, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return why there are no digits, or too many."""
    return CUT if at == begin and at >= end else BAD


@kernel
def _scan_exponent(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    is_negative = at < end and data[at] == MINUS
    if at < end and (data[at] == MINUS or data[at] == 0x2B):
        at += 1
    begin = at
    exponent = np.int64(0)
    while at < end and 0x30 <= data[at] <= 0x39:
        exponent = min(exponent * 10 + (np.int64(data[at]) - 0x30), _LARGEST_EXPONENT)
        at += 1
    if at == begin:
        return _missing(at, begin, end), exponent
    return at, -exponent if is_negative else exponent


@kernel
def whole_number(data, at, after, digits, is_exact):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return a whole number that `scan_number` has read, and whether it has 64 bits."""
    is_negative = data[at] == MINUS
    if is_exact:
        return -digits if is_negative else digits, True
    # Negative ones reach further by one.
    at += is_negative
    number = np.int64(0)
    for k in range(at, after):
        digit = np.int64(data[k]) - 0x30
        if number < -922337203685477580 or (number == -922337203685477580 and digit > 8):
            return np.int64(0), False
        number = number * 10 - digit
    if is_negative:
        return number, True
    return -number, number != np.int64(-0x8000000000000000)


@inlined_kernel
def rounded(digits, power, is_exact, is_float):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return a number and whether it is the nearest one (Clinger): two numbers that are exact, and one operation that rounds."""
    if not is_exact or digits > _EXACT_DIGITS or not -22 <= power <= 22:
        return 0.0, False
    real = np.float64(digits)
    if power < 0:
        real /= _POWERS[-power]
    else:
        real *= _POWERS[power]
    if is_float and digits > 0:
        # It is rounded again; wrong only for what the first step put right between two floats.
        is_between = (np.float64(real).view(np.int64) & 0x1FFFFFFF) == 0x10000000
        return real, not is_between and _SMALLEST_FLOAT <= real <= _LARGEST_FLOAT
    return real, True


@kernel
def is_too_large(data, at, after, power, is_float):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether a number that `scan_number` has read is rounded to infinity: its digits are compared with those of the smallest such one."""
    if power <= _SMALL_POWER:
        return False
    data = borrowed(data)  # type: ignore[call-arg]
    limit = _TOO_LARGE_FLOAT if is_float else _TOO_LARGE_DOUBLE
    at += data[at] == MINUS
    while at < after and (data[at] == 0x30 or data[at] == 0x2E):
        at += 1
    # The power belongs to the 18th digit from here, or to the last one if there are less.
    size, difference, kept = np.int64(0), np.int64(0), np.int64(0)
    while at < after and (data[at] | 0x20) != 0x65:
        if data[at] != 0x2E:
            if difference == 0:
                difference = np.int64(data[at]) - (np.int64(limit[size]) if size < limit.size else np.int64(0x30))
            size += 1
            kept += size <= _MOST_DIGITS
        at += 1
    if kept == 0 or kept + power != limit.size:
        return kept > 0 and kept + power > limit.size
    while difference == 0 and size < limit.size:
        difference = 0x30 - np.int64(limit[size])
        size += 1
    return difference >= 0


@kernel
def scalar_end(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the index after a text, number, boolean or null."""
    data = borrowed(data)  # type: ignore[call-arg]
    if data[at] == QUOTE:
        after, _ = text_end(data, at + 1, end)
        return after + 1 if after >= 0 else after
    if has_digits(data, at, end):
        return scan_number(data, at, end)[0]
    return literal_end(data, at, end)


@kernel
def skip_value(data, at, end, stack, top, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, C901, PLR0911, PLR0912, PLR0917
    """Return the index after a value of any kind that is nested at most so deep; ``stack`` has a word from ``top`` on for each level."""
    data, stack = borrowed(data), borrowed(stack)  # type: ignore[call-arg]
    bottom = top
    while True:
        if at >= end:
            return CUT
        byte = data[at]
        is_first = False
        if byte == OPEN_OBJECT or byte == OPEN_LIST:  # noqa: PLR1714, SIM109  (numba compiles this, not a membership)
            if top - bottom >= most:
                return DEEP
            stack[top] = np.int64(byte) + 2  # what closes it
            top += 1
            at += 1
            is_first = True
        else:
            at = scalar_end(data, at, end)
            if at < 0:
                return at
        while True:
            if top == bottom:
                return at
            at = after_blanks(data, at, end)
            if at >= end:
                return CUT
            closing = stack[top - 1]
            if data[at] == closing:
                top -= 1
                at += 1
                is_first = False
                continue
            if not is_first:
                if data[at] != COMMA:
                    return BAD
                at = after_blanks(data, at + 1, end)
            if closing == CLOSE_OBJECT:
                at = _after_name(data, at, end)
                if at < 0:
                    return at
            break


@kernel
def _after_name(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where the value of a field begins."""
    if at >= end:
        return CUT
    if data[at] != QUOTE:
        return BAD
    at, _ = text_end(data, at + 1, end)
    return value_begins(data, at + 1, end) if at >= 0 else at


@inlined_kernel
def value_begins(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return where a value begins after the name of its field."""
    at = after_blanks(data, at, end)
    if at >= end:
        return CUT
    if data[at] != COLON:
        return BAD
    return after_blanks(data, at + 1, end)

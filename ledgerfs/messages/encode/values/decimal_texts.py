"""Texts as decimals, exactly or not at all: ``-12.50``, ``1e3``.

Arrow reads them as well, and multiplies and adds without a look at what is lost: beyond 128 or 256 bits it has other numbers.
"""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.messages.kernels.arrays import borrowed

_LARGEST_EXPONENT = 1 << 40
"""More than a text has characters, so that a larger one is none that counts."""
_DIGITS_OF_WORD = 18
"""Which 64 bits hold."""


@kernel
def read_decimals(data, offsets, valid, precision, scale, words, bad):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Read what is valid into ``words``, of 32 bits each with the lowest first, or mark it as bad."""
    data = borrowed(data)  # type: ignore[call-arg]
    for i in range(valid.size):
        at, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        words[i, :] = 0
        bad[i] = valid[i] and not _read(data, at, end, precision, scale, words[i])


@inlined_kernel
def _is_digit(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return at < end and ord("0") <= data[at] <= ord("9")


@inlined_kernel
def _read(data, at, end, precision, scale, words):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Read one of at most ``precision`` digits, of which ``scale`` are after the point; return whether it is one."""
    is_negative = at < end and data[at] == ord("-")
    begin = at + 1 if at < end and (data[at] == ord("-") or data[at] == ord("+")) else at
    point = _after_digits(data, begin, end)
    is_fraction = point < end and data[point] == ord(".")
    stop = _after_digits(data, point + 1, end) if is_fraction else point
    exponent, at = _exponent(data, stop, end)
    if at != end or stop - begin == (1 if is_fraction else 0):
        return False
    # The power of ten of the first digit, in units of the last one that there may be.
    power = point - begin - 1 + exponent + scale
    if not _read_digits(data, begin, stop, power, precision, words):
        return False
    if is_negative:
        _negate(words)
    return True


@inlined_kernel
def _after_digits(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    while _is_digit(data, at, end):
        at += 1
    return at


@inlined_kernel
def _read_digits(data, begin, stop, power, precision, words):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Read digits, with a point between, of which the first one has this power; return whether there is room for all that are not 0."""
    least, count, low = 0, 0, np.int64(0)
    for place in range(begin, stop):
        if data[place] == ord("."):
            continue
        digit = np.int64(data[place]) - 48
        if digit != 0:
            if power < 0 or power >= precision:
                return False
            least = power
        if 0 <= power < precision:
            low, count = _append(words, low, count, digit)
        power -= 1
    # What an exponent adds; nothing to a 0, whatever its exponent.
    for _ in range(max(0, min(power + 1, least))):
        low, count = _append(words, low, count, np.int64(0))
    if count <= _DIGITS_OF_WORD:
        _put(words, low)
    return True


@inlined_kernel
def _append(words, low, count, digit):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Append a digit to a number, which is ``low`` while it has few digits; return ``low`` and how many there are."""
    if count < _DIGITS_OF_WORD:
        return low * 10 + digit, count + (low != 0 or digit != 0)
    if count == _DIGITS_OF_WORD:
        _put(words, low)
    _times_ten(words, digit)
    return low, count + 1


@inlined_kernel
def _put(words, low):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    words[0] = np.uint32(low & 0xFFFFFFFF)
    words[1] = np.uint32(low >> 32)


@inlined_kernel
def _exponent(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number after an ``e``, 0 without one, and the place after it, -1 if there is no number."""
    if at >= end or (data[at] != ord("e") and data[at] != ord("E")):
        return 0, at
    at += 1
    is_negative = at < end and data[at] == ord("-")
    if at < end and (data[at] == ord("-") or data[at] == ord("+")):
        at += 1
    begin, number = at, np.int64(0)
    while _is_digit(data, at, end):
        if number < _LARGEST_EXPONENT:
            number = number * 10 + np.int64(data[at]) - 48
        at += 1
    return -number if is_negative else number, at if at > begin else -1


@inlined_kernel
def _times_ten(words, more):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    carry = np.int64(more)
    for i in range(words.size):
        carry += np.int64(words[i]) * 10
        words[i] = np.uint32(carry & 0xFFFFFFFF)
        carry >>= 32


@inlined_kernel
def _negate(words):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    carry = np.int64(1)
    for i in range(words.size):
        carry += np.int64(0xFFFFFFFF) - np.int64(words[i])
        words[i] = np.uint32(carry & 0xFFFFFFFF)
        carry >>= 32

"""Texts of JSON for kernels: without their escapes, and bytes of base64."""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.messages.values.json_tokens import BACKSLASH, hexadecimal, unescaped

_PADDING = 0x3D
_REPLACEMENT = 0xFFFD
"""What stands for half of a pair of surrogates, and for a NUL in a name."""


@kernel
def unescape(data, at, after, target, out, is_name):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Write a text, whose escapes have been checked, to ``target`` from ``out`` on; return the index after it. It has never more bytes.

    A name has no NUL: where arrays go to other libraries, names end at one.
    """
    while at < after:
        byte = data[at]
        at += 1
        if byte != BACKSLASH:
            target[out] = byte
            out += 1
            continue
        byte = data[at]
        at += 1
        if byte != 0x75:  # u
            control = unescaped(byte)
            target[out] = control or byte
            out += 1
            continue
        number = _four_digits(data, at)
        at += 4
        if 0xD800 <= number < 0xDC00 and after - at >= 6 and data[at] == BACKSLASH and data[at + 1] == 0x75:
            second = _four_digits(data, at + 2)
            if 0xDC00 <= second < 0xE000:
                number = 0x10000 + ((number - 0xD800) << 10) + (second - 0xDC00)
                at += 6
        if 0xD800 <= number < 0xE000 or (number == 0 and is_name):
            number = np.int64(_REPLACEMENT)
        out = _write_utf8(number, target, out)
    return out


@inlined_kernel
def _four_digits(data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    number = np.int64(0)
    for k in range(at, at + 4):
        number = (number << 4) | hexadecimal(data[k])
    return number


@kernel
def _write_utf8(number, target, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if number < 0x80:
        target[out] = number
        return out + 1
    if number < 0x800:
        target[out] = 0xC0 | (number >> 6)
        target[out + 1] = 0x80 | (number & 0x3F)
        return out + 2
    if number < 0x10000:
        target[out] = 0xE0 | (number >> 12)
        target[out + 1] = 0x80 | ((number >> 6) & 0x3F)
        target[out + 2] = 0x80 | (number & 0x3F)
        return out + 3
    target[out] = 0xF0 | (number >> 18)
    target[out + 1] = 0x80 | ((number >> 12) & 0x3F)
    target[out + 2] = 0x80 | ((number >> 6) & 0x3F)
    target[out + 3] = 0x80 | (number & 0x3F)
    return out + 4


@kernel
def from_base64(data, at, after, target, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write the bytes of base64 with padding to ``target`` from ``out`` on; return the index after them, or -1 for what is none.

    ``target`` may be ``data``, and ``out`` be ``at``.
    """
    if (after - at) & 3:
        return np.int64(-1)
    while at < after:
        size = 3
        if after - at == 4 and data[at + 3] == _PADDING:
            size = 1 if data[at + 2] == _PADDING else 2
        bits = np.int64(0)
        for k in range(4):
            sextet = _sextet(data[at + k]) if k <= size else np.int64(0)
            if sextet < 0:
                return np.int64(-1)
            bits = (bits << 6) | sextet
        at += 4
        for k in range(size):
            target[out + k] = (bits >> (16 - 8 * k)) & 0xFF
        out += size
    return out


@inlined_kernel
def _sextet(byte):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    byte = np.int64(byte)
    if 0x41 <= byte <= 0x5A:
        return byte - 0x41
    if 0x61 <= byte <= 0x7A:
        return byte - 0x61 + 26
    if 0x30 <= byte <= 0x39:
        return byte - 0x30 + 52
    if byte == 0x2B:
        return np.int64(62)
    return np.int64(63) if byte == 0x2F else np.int64(-1)

"""Bytes as JSON text, for kernels: strings escaped, other bytes in base64.

One function returns the size of the text and another one writes it. Text is read eight bytes a step; only words with a control character,
or outside ASCII, are read byte by byte.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ledgerfs.formats.kernel import kernel

_ONES = np.uint64(0x0101_0101_0101_0101)
_LOW_BITS = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
_HIGH_BITS = np.uint64(0x8080_8080_8080_8080)
_LETTERS = _ONES * np.uint64(ord("a"))
_QUOTES = _ONES * np.uint64(ord('"'))
_BACKSLASHES = _ONES * np.uint64(ord("\\"))
_TO_SPACE = _ONES * np.uint64(0x80 - 0x20)
"""Added to the low seven bits of each byte, sets its eighth bit unless it is a control character."""

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def _short_escapes() -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return for each byte the letter that follows a backslash in its escape, or 0."""
    letters = np.zeros(256, np.uint8)
    for plain, letter in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True):
        letters[ord(plain)] = ord(letter)
    return letters


_SHORT = _short_escapes()
_EXTRA = np.where(_SHORT > 0, 1, np.where(np.arange(256) < 0x20, 5, 0))
"""How many bytes each byte's escape has more than itself."""
_CONTROL_EXTRA = np.where(np.arange(256) < 0x20, _EXTRA, 0)

_UTF8_STATES = (
    # possible next bytes: (first, last, state after them)
    ((0x00, 0x7F, 0), (0xC2, 0xDF, 2), (0xE0, 0xE0, 3), (0xE1, 0xEC, 4), (0xED, 0xED, 5), (0xEE, 0xEF, 4),
     (0xF0, 0xF0, 6), (0xF1, 0xF3, 7), (0xF4, 0xF4, 8)),
    (),
    ((0x80, 0xBF, 0),),
    ((0xA0, 0xBF, 2),),
    ((0x80, 0xBF, 2),),
    ((0x80, 0x9F, 2),),
    ((0x90, 0xBF, 4),),
    ((0x80, 0xBF, 4),),
    ((0x80, 0x8F, 4),),
)  # fmt: skip
"""Between characters; where nothing can follow; one byte missing; two (not overlong, any, no surrogate); three (not overlong, any, up to
U+10FFFF)."""

_BITS_OF_STATE = 6
_WHOLE = np.uint64(0)


def _utf8_automaton() -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """Return for each byte a word that, shifted right by a state, has the next state in its lowest six bits: one shift a byte."""
    words = []
    for byte in range(256):
        word = 0
        for number, ways in enumerate(_UTF8_STATES):
            (state,) = [to for first, last, to in ways if first <= byte <= last] or [1]
            word |= state * _BITS_OF_STATE << number * _BITS_OF_STATE
        words.append(word)
    return np.array(words, np.uint64)


_NEXT_STATE = _utf8_automaton()


@intrinsic
def _load_word(typingctx, array, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """Load eight bytes of a uint8 array as a little-endian uint64; the caller has checked the bounds."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        word = builder.load(_place_of_word(context, builder, signature, arguments))
        word.align = 1
        return word

    return types.uint64(array, types.intp), codegen


@intrinsic
def _store_word(typingctx, array, at, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """Store eight bytes; the caller has checked the bounds."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        builder.store(arguments[2], _place_of_word(context, builder, signature, arguments)).align = 1
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint64), codegen


def _place_of_word(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  (numba's and llvmlite's)
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    place = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [arguments[1]])
    return builder.bitcast(place, ir.IntType(64).as_pointer())


@intrinsic
def _first_byte_of(typingctx, mask):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """Return the number (0 to 7) of the first byte whose highest bit is set; there is one."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        zeros = builder.cttz(arguments[0], ir.IntType(1)(1))
        return builder.lshr(zeros, ir.IntType(64)(3))

    return types.int64(types.uint64), codegen


@intrinsic
def _count_bits(typingctx, mask):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), codegen


@kernel
def _specials(word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return two masks with the highest bit of each byte that is a quote or backslash, and of each that is a control character."""
    low = word & _LOW_BITS
    ascii_only = ~word & _HIGH_BITS
    other = ((low ^ _QUOTES) + _LOW_BITS) & ((low ^ _BACKSLASHES) + _LOW_BITS)
    return ~other & ascii_only, ~(low + _TO_SPACE) & ascii_only


@kernel
def _extra_and_state(word, state):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many bytes the escapes of a word add, and the state of the UTF-8 automaton after it."""
    quotes, controls = _specials(word)
    extra = _count_bits(quotes)  # type: ignore[call-arg, var-annotated]
    if controls | (word & _HIGH_BITS) | state != 0:
        for shift in range(8):
            byte = (word >> np.uint64(8 * shift)) & np.uint64(255)
            extra += _CONTROL_EXTRA[byte]
            state = (_NEXT_STATE[byte] >> state) & np.uint64(63)
    return extra, state


@kernel
def escaped_size(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many bytes ``data[at:end]`` takes inside the quotes of a JSON string, or -1 where it is not UTF-8."""
    size = end - at
    state = _WHOLE
    while at + 8 <= end:
        extra, state = _extra_and_state(_load_word(data, at), state)  # type: ignore[call-arg]
        size += extra
        at += 8
    if at < end:
        extra, state = _extra_and_state(_short_word(data, at, end), state)
        size += extra
    return size if state == _WHOLE else -1


@kernel
def _short_word(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the one to seven bytes of ``data[at:end]`` as the first bytes of a word, with plain letters after them."""
    word = _LETTERS
    if at + 8 <= data.size:
        beyond = ~np.uint64(0) << np.uint64(8 * (end - at))
        return (_load_word(data, at) & ~beyond) | (_LETTERS & beyond)  # type: ignore[call-arg]
    for i in range(end - 1, at - 1, -1):
        word = (word << np.uint64(8)) | np.uint64(data[i])
    return word


@kernel
def write_escaped(out, to, data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write what `escaped_size` measured at ``out[to]``; return the index after it.

    The text before and after each special character of a word is stored as a whole word, and the surplus is overwritten: there is room as
    long as another word follows.
    """
    while at + 16 <= end:
        word = _load_word(data, at)  # type: ignore[call-arg, var-annotated]
        _store_word(out, to, word)
        quotes, controls = _specials(word)
        special = quotes | controls
        done = 0
        while special != 0:
            plain = _first_byte_of(special)
            to = _write_byte(out, to + plain - done, data[at + plain])
            done = plain + 1
            _store_word(out, to, word >> np.uint64(8 * plain) >> np.uint64(8))
            special &= special - np.uint64(1)
        to += 8 - done
        at += 8
    while at < end:
        to = _write_byte(out, to, data[at])
        at += 1
    return to


@kernel
def _write_byte(out, to, byte):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    extra = _EXTRA[byte]
    if extra == 0:
        out[to] = byte
        return to + 1
    out[to] = ord("\\")
    if extra == 1:
        out[to + 1] = _SHORT[byte]
        return to + 2
    out[to + 1] = ord("u")
    out[to + 2] = ord("0")
    out[to + 3] = ord("0")
    out[to + 4] = _HEX[byte >> 4]
    out[to + 5] = _HEX[byte & 15]
    return to + 6


@kernel
def write_base64(out, to, data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write ``data[at:end]`` in base64 with padding: four bytes for each three."""
    while at + 3 <= end:
        bits = (np.int64(data[at]) << 16) | (np.int64(data[at + 1]) << 8) | np.int64(data[at + 2])
        out[to] = _BASE64[bits >> 18]
        out[to + 1] = _BASE64[(bits >> 12) & 63]
        out[to + 2] = _BASE64[(bits >> 6) & 63]
        out[to + 3] = _BASE64[bits & 63]
        at += 3
        to += 4
    if at < end:
        second = np.int64(data[at + 1]) if at + 1 < end else 0
        bits = (np.int64(data[at]) << 8) | second
        out[to] = _BASE64[bits >> 10]
        out[to + 1] = _BASE64[(bits >> 4) & 63]
        out[to + 2] = _BASE64[(bits & 15) << 2] if at + 1 < end else ord("=")
        out[to + 3] = ord("=")

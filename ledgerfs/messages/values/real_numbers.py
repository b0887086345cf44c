"""Floating-point numbers of which some are still text."""

import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.messages.kernels.gather import gather_text, masked


def to_reals(data: Bytes, bits: Int64, size: Int64, valid: Mask | None, kind: pa.DataType) -> pa.Array:
    """Return an array of numbers from their bits, or from ``data[bits[i] : bits[i] + size[i]]`` where there is a size.

    That is their text, which has been checked; Arrow rounds it exactly, and what is too large to infinity.
    """
    words = bits.astype(f"i{kind.bit_width // 8}")
    are_texts = size > 0 if valid is None else (size > 0) & valid
    if are_texts.any():
        texts = gather_text(data, bits[are_texts], size[are_texts])
        words[are_texts] = texts.cast(kind).to_numpy().view(words.dtype)
    return masked(words, valid, kind)

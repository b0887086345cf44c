"""Hadoop's integers of variable length (``WritableUtils``), for the few that are outside of kernels.

A byte from -112 on is the value itself. A smaller one tells the sign and how many bytes follow, big-endian: -113 … -120 one to eight bytes
of a positive number, -121 … -128 one to eight bytes of the complement of a negative one.
"""

from ledgerfs.formats.mapfile.window import Buffer

MAX_VINT_BYTES = 9


def read_vint(data: Buffer, at: int) -> tuple[int, int] | None:
    """Return the number at ``at`` and the index after it, or None when ``data`` ends before it does."""
    if at >= len(data):
        return None
    first = int.from_bytes(data[at : at + 1], "big", signed=True)
    at += 1
    if first >= -112:
        return first, at
    is_negative = first < -120
    size = -120 - first if is_negative else -112 - first
    if at + size > len(data):
        return None
    number = int.from_bytes(data[at : at + size], "big")
    number = ~number if is_negative else number
    return (number + 2**63) % 2**64 - 2**63, at + size

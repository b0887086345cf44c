"""The header of a record, ``int32 length | int64 entry id``, before each entry of a data object and of an ``.entries`` file.

Not in `ledgerfs.formats.records`, since that imports numba, which sums of sizes do not need.
"""

RECORD_HEADER_BYTES = 12
"""``int32`` entry length and ``int64`` entry id before each entry."""


def records_size(length: int, last_entry: int) -> int:
    """Return the bytes of the records of entries 0 … ``last_entry`` whose own bytes are ``length``."""
    return length + RECORD_HEADER_BYTES * (last_entry + 1)

"""Requests to a bookie, in version 2 of its protocol: reads of single entries, and of batches (``docs/formats/bookkeeper.md``).

A read may carry a flag that fences the ledger, so that its writer fails, and then ends with a master key. This module builds neither.
"""

import struct

import numpy as np

from ledgerfs.errors import EntryRangeError
from ledgerfs.formats.array_types import Int64

NEWEST = -1
"""The entry id that requests a bookie's newest entry of a ledger."""

_VERSION = 2
_READ = _VERSION << 24 | 2 << 16
_BATCH_READ = _VERSION << 24 | 7 << 16
_SINGLE = np.dtype([("size", ">i4"), ("header", ">u4"), ("ledger", ">i8"), ("entry", ">i8")])
_BATCH = struct.Struct(">iIqqqiq")


def read_requests(ledger_id: int, entries: Int64) -> bytes:
    """Return requests for single entries, 24 bytes each, one after the other; an entry of `NEWEST` requests the newest.

    Raises `EntryRangeError` for ids that no entry has.
    """
    if entries.size and int(entries.min()) < NEWEST:
        raise EntryRangeError(f"{int(entries.min())} is not a valid entry id", key=f"ledger {ledger_id}")
    requests = np.empty(entries.size, _SINGLE)
    requests["size"] = _SINGLE.itemsize - 4
    requests["header"] = _READ
    requests["ledger"] = ledger_id
    requests["entry"] = entries
    return requests.tobytes()


def batch_request(ledger_id: int, first_entry: int, request_id: int, most_entries: int, most_bytes: int) -> bytes:
    """Return a request for up to ``most_entries`` entries from ``first_entry`` on; the reply repeats ``request_id``; 44 bytes.

    The bookie stops at the first entry that it lacks, and before ``most_bytes`` (bytes of the reply) or its own limit; it always sends the
    first entry. Raises `EntryRangeError` for a negative first entry, and limits that allow no entry.
    """
    if first_entry < 0 or not 0 < most_entries < 2**31 or not 0 < most_bytes < 2**63:
        raise EntryRangeError(
            f"invalid batch request: {most_entries} entries, {most_bytes} bytes, from entry {first_entry} on",
            key=f"ledger {ledger_id}",
        )
    return _BATCH.pack(_BATCH.size - 4, _BATCH_READ, ledger_id, first_entry, request_id, most_entries, most_bytes)

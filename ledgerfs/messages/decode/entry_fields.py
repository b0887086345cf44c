"""Fields that a scan needs from the table of `TopicDecoder.walk`: only this module and the decoder use the table's columns."""

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, Status, transactions_of
from ledgerfs.messages.kernels.wire import ABSENT

EntryRows = npt.NDArray[np.intp]
Transaction = tuple[int, int]
"""The two halves of its id, the most significant first."""

_OUTCOME_OF_MARKER = {21: "committed", 22: "aborted"}


def rows_in_transactions(entries: Int64Table, keep: Mask) -> EntryRows:
    """Return which of the entries in ``keep`` belong to a transaction, with both halves of its id."""
    has_both = (_column(entries, Meta.TRANSACTION_LEAST) != ABSENT) & (
        _column(entries, Meta.TRANSACTION_MOST) != ABSENT
    )
    rows: EntryRows = (keep & has_both).nonzero()[0]
    return rows


def messages_in_transactions(entries: Int64Table) -> Mask:
    """Return which entries are messages of a transaction, with both halves of its id, and not markers."""
    are_users: Mask = _column(entries, Meta.MARKER) == ABSENT
    messages = np.zeros(are_users.size, bool)
    messages[rows_in_transactions(entries, are_users)] = True
    return messages


def transactions_at(entries: Int64Table, rows: EntryRows) -> list[Transaction]:
    """Return the transactions of the ``rows`` that `rows_in_transactions` found."""
    return [transaction for transaction in transactions_of(_at(entries, rows)) if transaction is not None]


def markers_at(entries: Int64Table, rows: EntryRows) -> list[bool]:
    """Return for each row whether it is a marker of the broker."""
    is_marker: list[bool] = (_column(entries, Meta.MARKER)[rows] != ABSENT).tolist()
    return is_marker


def outcomes_in(entries: Int64Table) -> list[tuple[int, Transaction, str]]:
    """Return each entry that ends a transaction: its row, the transaction, and ``committed`` or ``aborted``."""
    markers = _column(entries, Meta.MARKER)
    is_sound = _column(entries, Meta.STATUS) == Status.VALID
    rows = rows_in_transactions(entries, is_sound & np.isin(markers, list(_OUTCOME_OF_MARKER)))
    states = (_OUTCOME_OF_MARKER[kind] for kind in markers[rows].tolist())
    return list(zip(rows.tolist(), transactions_at(entries, rows), states, strict=True))


def publish_times(entries: Int64Table) -> npt.NDArray[np.int64]:
    """Return when each entry was published, ms since 1970 UTC; a replicated one has the time of its original cluster."""
    return _column(entries, Meta.PUBLISH_TIME)


def first_local_time(entries: Int64Table) -> int | None:
    """Return when the first entry was published, ms since 1970 UTC; None for a replicated one, which has the time of another cluster."""
    if _column(entries, Meta.REPLICATED_FROM_AT)[0] != ABSENT:
        return None
    return int(_column(entries, Meta.PUBLISH_TIME)[0])


def chunk_at(entries: Int64Table, row: int) -> tuple[int, int] | None:
    """Return number and count of the chunk in an entry; None for whole messages."""
    count = int(_column(entries, Meta.CHUNKS)[row])
    return (int(_column(entries, Meta.CHUNK)[row]), count) if count > 1 else None


def chunked_id_at(batch: EntryBatch, entries: Int64Table, row: int) -> bytes:
    """Return the id that all chunks of one message share (``uuid`` in its metadata)."""
    start = max(0, int(_column(entries, Meta.CHUNKED_ID_AT)[row]))
    return bytes(batch.buffer[start : start + int(_column(entries, Meta.CHUNKED_ID_SIZE)[row])])


def chunks_of(chunked_id: bytes, batch: EntryBatch, entries: Int64Table) -> Mask:
    """Return which entries are chunks of one message."""
    mask = np.zeros(len(batch), bool)
    for row in np.flatnonzero(_column(entries, Meta.CHUNKS) > 1).tolist():
        mask[row] = chunked_id_at(batch, entries, row) == chunked_id
    return mask


def _column(entries: Int64Table, column: Meta) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = entries[column]
    return values


def _at(entries: Int64Table, rows: EntryRows) -> Int64Table:
    return entries[:, rows]

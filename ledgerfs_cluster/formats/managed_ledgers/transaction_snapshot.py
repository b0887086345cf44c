"""Snapshots of a topic's aborted transactions, as brokers keep them in the system topic ``__transaction_buffer_snapshot`` of a namespace.

The newest message with a topic's name as its key counts (``TransactionBufferSnapshot`` in Pulsar). The value is Avro binary, with the
fields in the order of the alphabet.
"""

from collections.abc import Iterable

from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position

_PRESENT = b"\x02"
"""The second branch of a union with null."""


def snapshot_topic(namespace: str) -> str:
    """Return the system topic with the snapshots of a namespace."""
    return f"persistent://{namespace}/__transaction_buffer_snapshot"


def build_transaction_snapshot(topic: str, end: Position, aborts: Iterable[tuple[tuple[int, int], Position]]) -> bytes:
    """Return a snapshot by which brokers hide the messages of some transactions.

    Parameters
    ----------
    topic
        ``persistent://tenant/namespace/topic``.
    end
        The last entry up to which the snapshot is complete.
    aborts
        Transactions, as (most, least) significant bits, each with the position at which it was aborted, ascending by these: brokers forget
        it when that ledger is trimmed.

    """
    records = [_longs(at.entry_id, at.ledger_id, least, most) for (most, least), at in aborts]
    # An array is a block with its number of records, if it has some, and an empty block.
    block = _longs(len(records)) + b"".join(records) if records else b""
    name = topic.encode()
    return _PRESENT + block + b"\x00" + _longs(end.entry_id, end.ledger_id) + _PRESENT + _longs(len(name)) + name


def _longs(*values: int) -> bytes:
    """Return integers as zigzag varints."""
    data = bytearray()
    for value in values:
        rest = (value << 1) ^ (value >> 63)
        while rest > 0x7F:
            data.append(rest & 0x7F | 0x80)
            rest >>= 7
        data.append(rest)
    return bytes(data)

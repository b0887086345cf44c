"""The columns of the message table: names, types, meaning (``docs/reference/messages.md``)."""

from collections.abc import Sequence

import pyarrow as pa

from ledgerfs.errors import InvalidOptionError

_TIME = pa.timestamp("us", tz="UTC")

MESSAGE_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("ledger_id", pa.int64(), nullable=False),
        pa.field("entry_id", pa.int64(), nullable=False),
        pa.field("batch_index", pa.int32()),  # null: not in a batch
        pa.field("publish_time", _TIME, nullable=False),
        pa.field("event_time", _TIME),  # null: not set
        pa.field("key", pa.string()),  # null: no key, or one of bytes
        pa.field("key_bytes", pa.binary()),  # a key that the producer gave as bytes
        pa.field("ordering_key", pa.binary()),
        pa.field("value", pa.binary()),  # null: a tombstone
        pa.field("properties", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("producer_name", pa.string(), nullable=False),
        pa.field("sequence_id", pa.int64(), nullable=False),
        pa.field("schema_version", pa.binary()),
        pa.field("partition", pa.int32()),  # from the topic's name
        pa.field("broker_index", pa.int64()),  # null: the broker wrote none
        pa.field("broker_time", _TIME),
        pa.field("txn_id", pa.string()),  # "(most,least)" of a message in a transaction
        pa.field("txn_state", pa.string()),  # committed, aborted or open; null outside transactions
        pa.field("deliver_at_time", _TIME),
        pa.field("replicated_from", pa.string()),
    ]
)

_DEFAULT_LEFT_OUT = ("txn_state", "deliver_at_time", "replicated_from")
DEFAULT_COLUMNS = tuple(name for name in MESSAGE_SCHEMA.names if name not in _DEFAULT_LEFT_OUT)


def schema_of(columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of these columns, in this order; raises `InvalidOptionError` for an unknown one."""
    if isinstance(columns, str):
        raise InvalidOptionError("expected a list of names, not a text", key=f"columns={columns!r}")
    names = DEFAULT_COLUMNS if columns is None else tuple(columns)
    unknown = [name for name in names if name not in MESSAGE_SCHEMA.names]
    if unknown:
        raise InvalidOptionError(f"no such column; there are {', '.join(MESSAGE_SCHEMA.names)}", key=unknown[0])
    if len(set(names)) < len(names):
        raise InvalidOptionError("a column is named twice", key=", ".join(names))
    return pa.schema([MESSAGE_SCHEMA.field(name) for name in names])


def is_message_column(field: pa.Field) -> bool:
    """Whether a column is one of `MESSAGE_SCHEMA`, not a field of typed values with such a name."""
    place = MESSAGE_SCHEMA.get_field_index(field.name)
    return bool(place >= 0 and MESSAGE_SCHEMA.field(place).type == field.type)

"""The node of a managed ledger with other contexts; every other byte stays as brokers wrote it, and no ledger is taken out.

Unknown fields, the order of the ledgers, which is no order, and properties are of Pulsar's later versions, or of whoever. The ledger of the
greatest id is never changed: a broker that loads the topic makes its line anew from what BookKeeper has of that ledger.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ledgerfs.errors import CorruptMetadataError, NotFoundError, UnsupportedWriteError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    OffloadContext,
    build_context,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.proto.managed_ledger_pb2 import ManagedLedgerRecord
from ledgerfs_cluster.formats.managed_ledgers.stored_values import codec_of, uncompressed
from ledgerfs_cluster.formats.managed_ledgers.wire_fields import (
    LENGTH_DELIMITED,
    WireField,
    field_of,
    fields_of,
    joined,
    placed,
)

_LEDGER = 1
_CONTEXT = 5


@dataclass(frozen=True, slots=True)
class EditedList:
    """What the node is to be.

    Attributes
    ----------
    plain
        Its value without compression.
    codec
        What the value was compressed with before (`ledgerfs.formats.decompression.Compression`).

    """

    plain: bytes
    codec: int


def with_contexts(data: bytes, contexts: Mapping[int, OffloadContext], *, key: str) -> EditedList:
    """Return the list with these contexts of offloads, each in place of the one that its ledger has, with all of its fields.

    Raises
    ------
    CorruptMetadataError
        ``data`` is no list of ledgers.
    NotFoundError
        A ledger is not listed.
    UnsupportedWriteError
        A ledger has the greatest id of the list.

    """
    _require_changeable([one.ledger_id for one in parse_managed_ledger_info(data, key=key).ledgers], contexts, key)
    fields: list[WireField] = []
    try:
        for field in fields_of(uncompressed(data, key=key)):
            ledger_id = _ledger_id(field)
            fields.append(_with_context(field, contexts[ledger_id]) if ledger_id in contexts else field)
    except ValueError as error:
        raise CorruptMetadataError(f"the list of ledgers has {error}", key=key) from error
    return EditedList(joined(fields), codec_of(data, key=key))


def _with_context(field: WireField, context: OffloadContext) -> WireField:
    others = [one for one in fields_of(field.value) if not _is_context(one)]
    data = build_context(context).SerializeToString(deterministic=True)
    return field.with_value(joined(placed(others, field_of(_CONTEXT, data))))


def _require_changeable(ledgers: Collection[int], ledger_ids: Collection[int], key: str) -> None:
    for one in ledger_ids:
        if one not in ledgers:
            raise NotFoundError(f"does not list ledger {one}", key=key)
    if ledger_ids and max(ledgers) in ledger_ids:
        reason = (
            f"ledger {max(ledgers)} has the greatest id of its topic and is never changed: brokers make its line anew when they load the "
            "topic, and drop it if BookKeeper lacks the ledger"
        )
        raise UnsupportedWriteError(reason, key=key)


def _ledger_id(field: WireField) -> int:
    """Return the id of the ledger that a field of the list is; -1 for any other field."""
    if (field.number, field.wire) != (_LEDGER, LENGTH_DELIMITED):
        return -1
    return ManagedLedgerRecord.Ledger.FromString(field.value).ledger_id


def _is_context(field: WireField) -> bool:
    return (field.number, field.wire) == (_CONTEXT, LENGTH_DELIMITED)

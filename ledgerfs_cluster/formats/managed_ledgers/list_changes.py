"""The node of a managed ledger with other contexts; all else stays as brokers wrote it, and no ledger is taken out.

Unknown fields, such as those of later versions of Pulsar, keep their bytes: protobuf writes them behind the known fields of their message.
The ledger of the greatest id is never changed: a broker that loads the topic makes its line again from what BookKeeper has of that ledger.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ledgerfs.errors import NotFoundError, UnsupportedWriteError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    OffloadContext,
    build_context,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.stored_values import codec_of, uncompressed
from ledgerfs_cluster.formats.proto.metadata_pb2 import ManagedLedgerRecord


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
    record = ManagedLedgerRecord.FromString(uncompressed(data, key=key))
    for ledger in record.ledger:
        if ledger.ledger_id in contexts:
            ledger.context.CopyFrom(build_context(contexts[ledger.ledger_id]))
    return EditedList(record.SerializeToString(), codec_of(data, key=key))


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

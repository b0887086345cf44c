"""A ledger described in full: what ``ledgerfs info`` prints and the files of the ``info`` view hold."""

from typing import Any

from ledgerfs.dialects.described import describe_metadata, describe_object, describe_ref
from ledgerfs.dialects.pulsar_blob.block_map import block_ends
from ledgerfs.formats.pulsar_blob.index import OffloadIndex
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.storage.objects import ObjectHead


def describe_ledger(ref: LedgerRef, index: OffloadIndex, data: ObjectHead, index_object: ObjectHead) -> dict[str, Any]:
    """Return index, ledger metadata, blocks and object metadata as values that JSON knows; sizes in bytes, times in ISO 8601 UTC."""
    ends = block_ends(index)
    return {
        **describe_ref(ref),
        "index": {
            "data_length": index.data_length,
            "header_length": index.header_length,
            "padding": index.padding,
            "oddity": index.oddity,
        },
        "ledger_metadata": describe_metadata(index.metadata),
        "blocks": [
            {"first_entry": block.first_entry, "part": block.part, "offset": block.offset, "length": end - block.offset}
            for block, end in zip(index.blocks, ends, strict=True)
        ],
        "objects": {"data": describe_object(data), "index": describe_object(index_object)},
    }

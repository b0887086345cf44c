"""The index of a data object, made from the object itself, unless something shows that it is not the whole ledger."""

import re
from dataclasses import replace

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.ledger_metadata import LedgerMetadata, parse_ledger_metadata
from ledgerfs.formats.pulsar_blob.block import BLOCK_HEADER_BYTES
from ledgerfs.formats.pulsar_blob.index import OffloadIndex, build_index, parse_index
from ledgerfs.layouts.pulsar_blob.new_ledger import SMALLEST_BLOCK_SIZE, made_up_metadata, of_topic
from ledgerfs.layouts.pulsar_blob.repairs.data_walk import DataWalk
from ledgerfs.storage.objects import ObjectStat

_PARTS = re.compile(r'"?[0-9a-f]{32}-([0-9]{1,5})"?\Z', re.ASCII)
_METADATA_AT = 32


def why_not_whole(walk: DataWalk) -> str | None:
    """Return why an object that was walked to its end may lack entries of its ledger; None if it has all of them, as far as it tells.

    The last block of a ledger is as short as its records, and after a full block another one begins. So an object that ends with a full
    block may have been cut there, unless the store says that it was uploaded in just so many parts.
    """
    if walk.is_cut_off:
        return (
            f"it ends with a block without entries: those from {walk.entries} on did not fit a block and were never written; "
            "offload the ledger again with larger blocks while BookKeeper still has it"
        )
    if walk.last_size < (walk.block_size if len(walk.blocks) > 1 else SMALLEST_BLOCK_SIZE):
        return None
    is_round = walk.last_size % 1024 == 0 or walk.last_size % 1000 == 0
    if (len(walk.blocks) == 1 and not is_round) or parts_of(walk.stat) == len(walk.blocks):
        return None
    return "its last block is full to the last byte, so it cannot be told whether others followed"


def parts_of(stat: ObjectStat) -> int | None:
    """Return in how many parts an object was uploaded, if its ETag tells; Pulsar sends one block as one part."""
    match = _PARTS.match(stat.version)
    return None if match is None else int(match[1])


def rebuilt_index(walk: DataWalk, managed_ledger: str, told: LedgerMetadata | None = None) -> bytes:
    """Return the index object of a data object that was walked to its end, with BookKeeper's metadata if an old index still has it."""
    metadata = of_topic(made_up_metadata(managed_ledger) if told is None else told, managed_ledger)
    metadata = replace(metadata, length=walk.length, last_entry=walk.entries - 1)
    content = build_index(OffloadIndex(walk.stat.size, BLOCK_HEADER_BYTES, metadata, tuple(walk.blocks)))
    parse_index(content, key=walk.stat.key)
    return content


def metadata_left_in(damaged: bytes) -> LedgerMetadata | None:
    """Return the ledger metadata of an index that cannot be parsed as a whole; None if that is damaged as well."""
    length = int.from_bytes(damaged[28:_METADATA_AT], "big")
    if not 0 < length <= len(damaged) - _METADATA_AT:
        return None
    try:
        return parse_ledger_metadata(damaged[_METADATA_AT : _METADATA_AT + length])
    except CorruptMetadataError:
        return None

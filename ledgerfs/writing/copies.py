"""What a copy of a ledger keeps of it: how large its blocks are, and the user metadata of its objects."""

from ledgerfs.dialects.pulsar_blob.new_ledger import DEFAULT_BLOCK_SIZE, completed_user_metadata
from ledgerfs.ledgers.dialect import LedgerReader
from ledgerfs.writing.sources import largest_block


def own_block_size(reader: LedgerReader) -> int:
    """Return the size of blocks, bytes, with which the copy's data object is the same: of a ledger of one block, any that holds it."""
    largest = largest_block(reader)
    return largest if len(reader.index.blocks) > 1 else max(largest, DEFAULT_BLOCK_SIZE)


def copied_user_metadata(reader: LedgerReader, managed_ledger: str | None) -> dict[str, str]:
    """Return the user metadata of a ledger's index object, with what a broker looks for; costs a HEAD."""
    metadata = reader.store.head(reader.ref.index.key).metadata
    return completed_user_metadata(metadata, managed_ledger)

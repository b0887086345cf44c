"""The properties that a copy of a ledger keeps: its block size, its metadata, and the user metadata of its objects."""

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import RefusedLedgerError
from ledgerfs.formats.ledger_metadata import LedgerMetadata
from ledgerfs.layouts.pulsar_blob.new_ledger import DEFAULT_BLOCK_SIZE, completed_user_metadata, made_up_metadata


def own_block_size(reader: LedgerReader) -> int:
    """Return the block size, bytes, with which the copy's data object is the same; for a ledger of one block any that holds it."""
    origin = reader.origin()
    return origin.block_size or max(origin.largest_block or 0, DEFAULT_BLOCK_SIZE)


def copied_user_metadata(reader: LedgerReader, managed_ledger: str | None) -> dict[str, str]:
    """Return the user metadata of a ledger's objects, with what a broker looks for; costs a request."""
    return completed_user_metadata(reader.user_metadata(), managed_ledger)


def copied_metadata(reader: LedgerReader, ledger_id: int, managed_ledger: str | None) -> LedgerMetadata:
    """Return the metadata of a copy, marked as moved if its id is another one; made up if the ledger has none.

    Raises `RefusedLedgerError` for a ledger with neither metadata nor a managed ledger.
    """
    metadata = reader.metadata()
    if metadata is not None:
        return metadata if ledger_id == reader.ref.ledger_id else metadata.moved()
    if managed_ledger is None:
        raise RefusedLedgerError("its metadata is needed: nothing else names its topic", key=str(reader.ref.ledger_id))
    return made_up_metadata(managed_ledger, reader.ref.created_ms)

"""Deleting one ledger of a bucket."""

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey


def remove_ledger(bucket: Bucket, key: LedgerKey) -> None:
    """Delete a ledger's two objects, the index first: if deleting the data object fails, what is left is no ledger."""
    writes = bucket.raw_store.writes
    try:
        writes.delete(key.index_key)
        writes.delete(key.data_key)
    finally:
        bucket.expire()

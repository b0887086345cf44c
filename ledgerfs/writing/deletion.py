"""Delete one ledger of a bucket."""

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import BucketNotFoundError, ObjectNotFoundError, StoreError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.storage.object_store import RawStore


def remove_ledger(bucket: Bucket, key: LedgerKey) -> None:
    """Delete a ledger's two objects, the index first: if deleting the data object fails, only an orphan is left."""
    writes = bucket.raw_store.writes
    try:
        writes.delete(key.index_key)
        writes.delete(key.data_key)
    finally:
        bucket.expire()


def remove_for_good(bucket: Bucket, key: LedgerKey) -> None:
    """Delete a ledger, and check that it is gone, since no later run will check.

    Raises `BucketNotFoundError` for a bucket that does not exist, also as `require_mounted`, and `StoreError` for objects that still exist
    afterwards.
    """
    require_mounted(bucket, key)
    remove_ledger(bucket, key)
    for one in (key.index_key, key.data_key):
        if _is_there(bucket.raw_store, one):
            raise StoreError("the object was deleted but still exists", key=one)


def has_index(bucket: Bucket, key: LedgerKey) -> bool:
    """Whether a ledger's index exists; raises the errors of the store."""
    return _is_there(bucket.raw_store, key.index_key)


def require_mounted(bucket: Bucket, key: LedgerKey) -> None:
    """Raise `BucketNotFoundError` for an empty local folder: it may be an unmounted mount point that hides the ledger.

    Does nothing if an object of the ledger exists, and for object stores, which report a missing bucket.
    """
    store = bucket.raw_store
    if store.is_remote or any(_is_there(store, one) for one in (key.index_key, key.data_key)):
        return
    if not any(store.list_pages()):
        reason = "the folder is empty: is its file system not mounted? If the bucket is really empty, put any file into the folder"
        raise BucketNotFoundError(reason, key=store.url)


def _is_there(store: RawStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFoundError:
        return False
    return True

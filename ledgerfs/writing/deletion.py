"""Deleting one ledger of a bucket."""

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import BucketNotFoundError, ObjectNotFoundError, StoreError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.storage.object_store import RawStore


def remove_ledger(bucket: Bucket, key: LedgerKey) -> None:
    """Delete a ledger's two objects, the index first: if deleting the data object fails, what is left is no ledger."""
    writes = bucket.raw_store.writes
    try:
        writes.delete(key.index_key)
        writes.delete(key.data_key)
    finally:
        bucket.expire()


def remove_for_good(bucket: Bucket, key: LedgerKey) -> None:
    """Delete a ledger, and make sure that it is gone: nobody will look for it any more.

    Raises `BucketNotFoundError` for a bucket that is not there, also as `require_mounted`, and `StoreError` for objects that are still
    there afterwards.
    """
    require_mounted(bucket, key)
    remove_ledger(bucket, key)
    for one in (key.index_key, key.data_key):
        if _is_there(bucket.raw_store, one):
            raise StoreError("the object was deleted, and is there still", key=one)


def has_index(bucket: Bucket, key: LedgerKey) -> bool:
    """Whether a ledger has its index there, without which it is none; raises the errors of the store."""
    return _is_there(bucket.raw_store, key.index_key)


def require_mounted(bucket: Bucket, key: LedgerKey) -> None:
    """Raise `BucketNotFoundError` for an empty folder of this machine: what is to be deleted may be in what is to be mounted there.

    Raises nothing where an object of the ledger is, and for object stores, which tell whether there is such a bucket.
    """
    store = bucket.raw_store
    if store.is_remote or any(_is_there(store, one) for one in (key.index_key, key.data_key)):
        return
    if not any(store.list_pages()):
        reason = (
            "nothing is there: is it a folder that is not mounted? If the bucket is empty by right, put any file there"
        )
        raise BucketNotFoundError(reason, key=store.url)


def _is_there(store: RawStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFoundError:
        return False
    return True

"""The bucket beside which dumps are kept, as commands open it: without its ledgers."""

from collections.abc import Mapping
from typing import Any

from ledgerfs.errors import UnusableUrlError
from ledgerfs.ledgers.source import scheme_of_filesystem
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.url_filesystem import filesystem_of


def dumps_store(url: str, storage_options: Mapping[str, Any]) -> RawStore:
    """Return the store of a bucket for dumps, which are their owner's alone.

    Raises `UnusableUrlError` for what is none, and the errors of the store, `BucketNotFoundError` if there is no such bucket.
    """
    fs, root = filesystem_of(url, storage_options)
    if scheme_of_filesystem(fs) is not None:
        raise UnusableUrlError("dumps are kept beside a bucket, and this is none", key=without_credentials(url))
    store = open_store(fs, root, is_private=True)
    # A folder that is not there would look like a bucket without dumps.
    next(iter(store.list_pages()), None)
    return store

"""Open a bucket by its URL, or over an fsspec filesystem."""

import os
from collections.abc import Mapping
from typing import Any

from cachetools import LRUCache

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.current_catalog import OnUnreadable
from ledgerfs.cache.block_cache import process_cache
from ledgerfs.catalog.layouts_known import AUTO
from ledgerfs.catalog.source import Source, scheme_of_filesystem, url_of_paths
from ledgerfs.forked import ForkLock
from ledgerfs.scan.options import ScanOptions
from ledgerfs.storage.fsspec_handle import FsspecHandle
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.store_identity import identity_of
from ledgerfs.storage.url_filesystem import filesystem_of, require_url

_SHARED_BUCKETS = 16

BucketOrUrl = Bucket | str | os.PathLike[str]
"""A bucket, or the URL of a bucket with all its options in the environment."""


def open_bucket(
    url: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    cache_dir: str | None = None,
    scan_options: ScanOptions | Mapping[str, Any] | None = None,
    catalog_max_age: float | None = None,
    cache_bytes: int | None = None,
    layout: str = AUTO,
    on_unreadable: OnUnreadable = "raise",
) -> Bucket:
    """Open a bucket by any URL that fsspec supports: ``s3://tier``, ``gs://…``, ``abfs://…``, ``file:///…``, a local path.

    Parameters
    ----------
    url
        The bucket, or a folder in it.
    storage_options
        Options of the URL's filesystem, such as ``{"endpoint_url": …, "key": …, "secret": …}`` for s3fs.
    cache_dir
        Folder of the disk cache: catalogs, materialized files, and byte ranges of remote objects. None for ``$LEDGERFS_CACHE_DIR``, else
        ``~/.cache/ledgerfs`` without byte ranges.
    scan_options
        Options of `Topic.scan` for the tree's table files: a `ScanOptions`, or ``{"private_keys": …}``, ``{"transactions": "all"}``, ….
    catalog_max_age
        Maximum age of a cached listing, s; None for ``$LEDGERFS_CATALOG_MAX_AGE``, default 0: always list the bucket. `Bucket.refresh` and
        `verify` always list.
    cache_bytes
        Size of the memory cache in bytes, for all buckets of this process; None for ``$LEDGERFS_CACHE_BYTES``, default a quarter of the
        memory, at most 1 GiB.
    layout
        ``pulsar_blob`` (objects of the S3, Google Cloud Storage and Azure offloaders), ``mapfile`` (folders of the filesystem offloader),
        or ``auto`` for both, also in one bucket.
    on_unreadable
        By default, an object that the store refuses (access denied, archived, credentials expired) raises, since topics or rows would be
        missing. ``skip`` reads the rest; `UnreadableObjectsWarning` reports objects and folders, ``ScanReport.skipped`` reports entries.

    Raises
    ------
    InvalidOptionError
        An unknown layout.
    UnusableUrlError
        No filesystem for that scheme, or its library is not installed. A bucket that does not exist raises on first use.

    """
    if cache_bytes is not None:
        process_cache.resize(cache_bytes)
    options = storage_options or {}
    fs, root = filesystem_of(_named(os.fspath(url), options), options)
    return Bucket(
        _place(fs, root), cache_dir, scan_options, catalog_max_age, identity_of(fs, root), layout, on_unreadable
    )


def _named(url: str, options: Mapping[str, Any]) -> str:
    """Return the source URL of a local path that is a source; any other URL unchanged."""
    require_url(url)
    if "://" in url:
        return url
    path = os.path.abspath(os.path.expanduser(url))  # noqa: PTH100, PTH111  (texts, as in fsspec)
    return url_of_paths([path], options) or url


def _place(fs: Any, root: str) -> RawStore | Source:  # noqa: ANN401  (fsspec is not typed)
    scheme = scheme_of_filesystem(fs)
    return open_store(fs, root) if scheme is None else scheme.source(fs, root)


def bucket_at(bucket: BucketOrUrl) -> Bucket:
    """Return a bucket unchanged, or open the bucket of a URL; raises as `open_bucket`."""
    return bucket if isinstance(bucket, Bucket) else open_bucket(bucket)


def shared_bucket(
    fs: Any,  # noqa: ANN401  (fsspec is not typed)
    root: str,
    cache_dir: str | None = None,
    scan_options: Mapping[str, Any] | None = None,
    catalog_max_age: float | None = None,
    *,
    layout: str = AUTO,
    on_unreadable: OnUnreadable = "raise",
) -> Bucket:
    """Return the bucket over a folder of an fsspec filesystem; the same object for the same arguments in one process.

    So fsspec's instances of our filesystem, one for each thread, share one catalog.
    """
    handle = FsspecHandle.of(fs)
    options = (
        sorted(handle.options.items()),
        cache_dir,
        sorted((scan_options or {}).items()),
        catalog_max_age,
        layout,
        on_unreadable,
    )
    arguments = (handle.cls, repr(handle.args), repr(options), root)
    with _shared_lock:
        bucket = _shared.get(arguments)
        if bucket is None:
            bucket = Bucket(
                _place(fs, root),
                cache_dir,
                scan_options,
                catalog_max_age,
                identity_of(fs, root),
                layout,
                on_unreadable,
            )
            _shared[arguments] = bucket
        return bucket


_shared: "LRUCache[tuple[type, str, str, str], Bucket]" = LRUCache(_SHARED_BUCKETS)
_shared_lock = ForkLock()

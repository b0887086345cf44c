"""The tree of a bucket: one for each state of the catalog, shared by all who look at the same bucket in this process."""

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.cache.cache_folder import cache_folder
from ledgerfs.cache.rendered_files import RenderedFiles
from ledgerfs.storage.fork_lock import ForkLock
from ledgerfs.vfs.tree import Tree
from ledgerfs.vfs.views import make_views
from ledgerfs.vfs.views.ledger_tables import LedgerTables


def tree_of(bucket: Bucket) -> Tree:
    """Return the tree of views, topics and ledgers, as the bucket was listed last; raises as `Bucket.load_catalog`."""
    return bucket.attached(_BucketTree).tree()


class _BucketTree:
    """The views of one bucket, and the tree over its catalog of now."""

    __slots__ = ("_bucket", "_lock", "_tree", "_views")

    def __init__(self, bucket: Bucket) -> None:
        tables = LedgerTables(bucket, bucket.scan_options)
        self._bucket = bucket
        self._views = make_views(tables, RenderedFiles(cache_folder("rendered", bucket.cache_dir)))
        self._tree: Tree | None = None
        self._lock = ForkLock()

    def tree(self) -> Tree:
        bucket = self._bucket
        catalog = bucket.catalog  # not with the lock held, which another thread's listing would wait for
        with self._lock:
            if self._tree is None or self._tree.catalog is not catalog:
                self._tree = Tree(catalog, bucket.reader, self._views, bucket.warn_of_unplaced)
            return self._tree

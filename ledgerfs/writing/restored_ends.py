"""Where lost clusters end, for topics of a living cluster that were restored: no list names that, and a copy has to have it.

Beside what a lost cluster wrote, what the new one writes is only to be read with the ledger that parts the two (``ledgers.id_blocks``).
"""

from functools import cached_property

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.clusters.restored_topics import end_before
from ledgerfs.errors import RefusedLedgerError
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.id_blocks import ends_in
from ledgerfs.ledgers.ledger_ref import LedgerRef


class RestoredEnds:
    """Looks at what a copy of a living cluster finds in its target; any thread may ask. Of a bucket it asks nothing.

    Parameters
    ----------
    source
        What is copied.
    there
        What the target had at the beginning.

    """

    def __init__(self, source: Bucket, there: Catalog) -> None:
        self._cluster = source.raw_store.cluster
        self._there = there
        self._known: dict[str, int | None] = {}

    def require(self, ref: LedgerRef) -> None:
        """Raise `RefusedLedgerError` for a ledger that would come to those of a lost cluster, and not to the end of that.

        Raises `CorruptMetadataError`, and the errors of ZooKeeper, too.
        """
        name = ref.managed_ledger
        if self._cluster is None or name is None:
            return
        if name not in self._known:
            self._known[name] = end_before(self._cluster.nodes, name)
        end = self._known[name]
        if end is None or ref.ledger_id < end or end in self._ends.get(name, ()):
            return
        if (self._there.table_of(name)["ledger_id"] < end).any():
            reason = (
                f"its topic was restored, and the target has ledgers of the lost cluster, but not {end}, which tells where that ends: "
                "copy the bucket that it was restored from first (`ledgerfs offload` of that bucket)"
            )
            raise RefusedLedgerError(reason, key=ref.key)

    @cached_property
    def _ends(self) -> dict[str, tuple[int, ...]]:
        return ends_in(self._there)

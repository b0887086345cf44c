"""Where lost clusters end, for restored topics of a living cluster, or of its disks: no list names that, and a copy has to have it.

Beside what a lost cluster wrote, what the new one writes is only to be read with the ledger that parts the two (``ledgers.id_blocks``).
"""

from functools import cached_property
from typing import TYPE_CHECKING

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.clusters.restored_topics import end_before
from ledgerfs.disks.known_ledgers import known_ledgers
from ledgerfs.errors import RefusedLedgerError
from ledgerfs.formats.pulsar_blob.settled_uuids import is_settled_copy_of
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.id_blocks import ends_in
from ledgerfs.ledgers.ledger_ref import LedgerRef

if TYPE_CHECKING:
    from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo
    from ledgerfs.storage.disks.bookie_disks import BookieDisks
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster


class RestoredEnds:
    """Looks at what a copy of a living cluster, or of disks, finds in its target; any thread may ask. Of a bucket it asks nothing.

    Parameters
    ----------
    source
        What is copied.
    there
        What the target had at the beginning.

    """

    def __init__(self, source: Bucket, there: Catalog) -> None:
        self._cluster: LivingCluster | None = getattr(source.source, "cluster", None)
        self._disks: BookieDisks | None = getattr(source.source, "disks", None)
        self._there = there
        self._known: dict[str, int | None] = {}

    @property
    def are_of_living(self) -> bool:
        """Whether a living cluster is copied."""
        return self._cluster is not None

    def require(self, ref: LedgerRef) -> None:
        """Raise `RefusedLedgerError` for a ledger that would come to those of a lost cluster, and not to the end of that.

        Raises `CorruptMetadataError`, and the errors of ZooKeeper, too.
        """
        name = ref.managed_ledger
        if name is None or not (self._there.table_of(name)["ledger_id"] < ref.ledger_id).any():
            return
        if self._cluster is not None and self._lacks_noted(self._cluster, name, ref.ledger_id):
            raise _refused(ref)
        if self._disks is not None and self._lacks_any(name, ref.ledger_id):
            raise _refused(ref)

    def _lacks_noted(self, cluster: "LivingCluster", name: str, ledger_id: int) -> bool:
        """Whether the target has ledgers of before the end that the cluster's own note tells, and not that."""
        if name not in self._known:
            self._known[name] = end_before(cluster.nodes, name)
        end = self._known[name]
        if end is None or ledger_id < end or end in self._ends.get(name, ()):
            return False
        return bool((self._there.table_of(name)["ledger_id"] < end).any())

    def _lacks_any(self, name: str, ledger_id: int) -> bool:
        """Whether the target has a ledger of which the topic's list names the settled copy, and no end behind it."""
        for one in self._listed.get(name, ()):
            if one.context is None or one.context.uuid is None or one.ledger_id >= ledger_id:
                continue
            is_restored = any(
                is_settled_copy_of(one.context.uuid, ref.uuid) for ref in self._there.all_of(one.ledger_id)
            )
            if is_restored and not any(one.ledger_id < end <= ledger_id for end in self._ends.get(name, ())):
                return True
        return False

    @cached_property
    def _listed(self) -> "dict[str, tuple[LedgerInfo, ...]]":
        known = None if self._disks is None else known_ledgers(self._disks, None)
        topics = {} if known is None else known.topics
        return {name: ledgers for name, ledgers in topics.items() if isinstance(ledgers, tuple)}

    @cached_property
    def _ends(self) -> dict[str, tuple[int, ...]]:
        return ends_in(self._there)


def _refused(ref: LedgerRef) -> RefusedLedgerError:
    reason = (
        "its topic was restored, and the target has ledgers of the lost cluster, but not the one that tells where that ends: copy the "
        "bucket that it was restored from first (`ledgerfs offload` of that bucket)"
    )
    return RefusedLedgerError(reason, key=ref.key)

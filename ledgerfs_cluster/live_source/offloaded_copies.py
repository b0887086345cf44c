"""The offloaded ledgers of a living cluster, in the buckets that their contexts name. Here so that rooms that know no layout can ask."""

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptLedgerError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.live_source.offloaded import OffloadedLedgers
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading


class OffloadedCopies:
    """The offloaded ledgers of one cluster, in whichever buckets their contexts name."""

    __slots__ = ("_offloaded",)

    def __init__(self, reading: LiveReading) -> None:
        self._offloaded = OffloadedLedgers(reading)

    def reader(self, managed_ledger: str, info: LedgerInfo) -> LedgerReader:
        """Return a reader of a ledger whose objects agree with the list by their index; raises as `OffloadedLedgers.open`."""
        if info.context is None or not info.context.is_complete:
            raise CorruptLedgerError("not offloaded completely", key=f"ledger {info.ledger_id}")
        return self._offloaded.open(managed_ledger, info, info.context)

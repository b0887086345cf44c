"""The offloaded ledgers of a living cluster, in the buckets that their contexts name. Here so that rooms that know no dialect can ask."""

from ledgerfs.dialects.live_cluster.offloaded import OffloadedLedgers
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.storage.zookeeper.living_cluster import LiveReading


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

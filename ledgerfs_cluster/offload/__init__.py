"""Offloading as a managed ledger does it: PIP-17's interfaces over a bucket, and for a topic of a live cluster."""

from ledgerfs_cluster.offload.ledger_offloader import LedgerOffloader, NullLedgerOffloader
from ledgerfs_cluster.offload.managed_ledger import ManagedLedger

__all__ = ["LedgerOffloader", "ManagedLedger", "NullLedgerOffloader"]

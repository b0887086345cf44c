"""Offloading as a managed ledger does it: PIP-17's interface over a bucket."""

from ledgerfs.offload.ledger_offloader import LedgerOffloader, NullLedgerOffloader

__all__ = ["LedgerOffloader", "NullLedgerOffloader"]

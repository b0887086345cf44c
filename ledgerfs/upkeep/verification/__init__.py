"""Is all of a bucket readable? Names what is not, by object and offset."""

from ledgerfs.ledgers.findings import Finding, Report, Severity
from ledgerfs.upkeep.verification.verify import verify

__all__ = ["Finding", "Report", "Severity", "verify"]

"""Verifying that all of a bucket can be read; findings name object and offset."""

from ledgerfs.ledgers.findings import Finding, Report, Severity
from ledgerfs.upkeep.verification.verify import verify

__all__ = ["Finding", "Report", "Severity", "verify"]

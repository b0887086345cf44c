"""Verify that all of a bucket is readable; findings name object and offset."""

from ledgerfs.catalog.findings import Finding, Report, Severity
from ledgerfs.verification.verify import verify

__all__ = ["Finding", "Report", "Severity", "verify"]

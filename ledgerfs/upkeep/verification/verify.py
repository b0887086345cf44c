"""Verify a bucket: first what indexes and sizes tell, then every byte, a few ledgers at a time."""

import threading
from typing import Self

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.dialects.pulsar_blob.checks.catalog_checks import check_catalog, metadata_remark
from ledgerfs.ledgers.catalog import Catalog, LedgerRef
from ledgerfs.ledgers.dialect import Progress
from ledgerfs.ledgers.findings import Report
from ledgerfs.storage.ordered_map import ordered_map

THREADS = 4


class _Stopped(Exception):  # noqa: N818  (not an error: it ends threads whose caller is gone)
    """The caller does not want the rest."""


def verify(bucket: Bucket, *, quick: bool = False, progress: Progress | None = None, threads: int = THREADS) -> Report:
    """Check a bucket, which is listed anew, and return what was found.

    ``quick`` compares listing and indexes only, which also finds truncated offloads that Pulsar calls successful; otherwise every object is
    read in full, ``threads`` at a time, within the process's budget of memory (`ledgerfs.cache.block_cache`). Raises
    `StoreUnreachableError` and whatever keeps the catalog from loading; everything else is a finding.
    """
    return verify_listed(bucket, bucket.refresh(progress), quick=quick, progress=progress, threads=threads)


def verify_listed(
    bucket: Bucket, catalog: Catalog, *, quick: bool = False, progress: Progress | None = None, threads: int = THREADS
) -> Report:
    """Check a bucket as it was just listed: `verify` for those who did that themselves."""
    findings = list(check_catalog(catalog, bucket.reader))
    entries = read = 0
    ledgers = int(catalog.ledgers.size)
    if not quick and ledgers:
        # numba, which this imports, is not needed for a quick look.
        from ledgerfs.dialects.pulsar_blob.checks.copy_comparison import CopyComparison
        from ledgerfs.dialects.pulsar_blob.checks.ledger_checks import LedgerCheck

        with _Meter(int(catalog.ledgers["data_size"].sum()), progress) as meter:
            copies = CopyComparison(catalog)

            def check_one(ref: LedgerRef) -> LedgerCheck:
                return LedgerCheck(bucket.uncached_reader(ref), meter.add, digest=copies.digest_for(ref)).run()

            for check in ordered_map(check_one, catalog.refs(), threads, "ledgerfs-verify"):
                findings += [*check.findings, *copies.compared(check)]
                entries += check.entries
                read += check.bytes
        findings += metadata_remark(catalog, bucket.store)
    findings.sort(key=lambda finding: finding.severity.rank)
    return Report(quick, ledgers, entries, read, tuple(findings))


class _Meter:
    """Adds up bytes from several threads, and stops the threads when the caller leaves."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True

    def add(self, count: int) -> None:
        """Count bytes that were checked."""
        if self._stopped:
            raise _Stopped
        with self._lock:
            self._done += count
            if self._progress is not None:
                self._progress("verifying", self._done, self._total)

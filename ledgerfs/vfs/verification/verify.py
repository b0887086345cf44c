"""Verify a bucket: first what indexes and sizes tell, then every byte, a few ledgers at a time."""

import threading
from typing import Self

from ledgerfs.errors import AccessDeniedError, ObjectNotFoundError
from ledgerfs.vfs.bucket import Bucket
from ledgerfs.vfs.catalog import Catalog, LedgerRef
from ledgerfs.vfs.layout import Progress
from ledgerfs.vfs.ordered_map import ordered_map
from ledgerfs.vfs.verification.catalog_checks import check_catalog
from ledgerfs.vfs.verification.findings import Finding, Report, Severity

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
    findings = list(check_catalog(bucket, catalog))
    entries = read = 0
    ledgers = int(catalog.ledgers.size)
    if not quick and ledgers:
        # numba, which this imports, is not needed for a quick look.
        from ledgerfs.vfs.verification.copy_comparison import CopyComparison
        from ledgerfs.vfs.verification.ledger_checks import LedgerCheck

        with _Meter(int(catalog.ledgers["data_size"].sum()), progress) as meter:
            copies = CopyComparison(catalog)

            def check_one(ref: LedgerRef) -> LedgerCheck:
                return LedgerCheck(bucket.uncached_reader(ref), meter.add, digest=copies.digest_for(ref)).run()

            for check in ordered_map(check_one, catalog.refs(), threads, "ledgerfs-verify"):
                findings += [*check.findings, *copies.compared(check)]
                entries += check.entries
                read += check.bytes
        findings += metadata_remark(bucket, catalog)
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


def metadata_remark(bucket: Bucket, catalog: Catalog) -> list[Finding]:
    """Remark once that a store keeps no user metadata, which a broker that reads a copy of it would miss."""
    for ref in catalog.refs():
        try:
            keeps_metadata = bucket.store.head(ref.index.key).metadata is not None
        except ObjectNotFoundError:
            continue  # deleted since the listing; the next one tells as well
        except AccessDeniedError:
            return []  # told with the ledgers themselves
        if keeps_metadata:
            return []
        break
    else:
        return []
    message = (
        "this store keeps no user metadata; a broker refuses copies of these objects that lack "
        "s3managedledgeroffloaderformatversion=1, so set it when you put them back"
    )
    return [Finding(Severity.REMARK, "no-user-metadata", message)]

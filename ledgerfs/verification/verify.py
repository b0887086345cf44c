"""Verify a bucket: first indexes and sizes, then every byte, a few ledgers at a time."""

import threading
from collections.abc import Iterator
from hashlib import blake2b
from typing import Self

import numpy as np

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import BucketOrUrl, bucket_at
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_findings import (
    check_copies,
    check_hidden_partitions,
    check_messages_twice,
    check_read_order,
    check_unlisted,
    contradicting_copy,
    other_keys,
    severity_of,
)
from ledgerfs.catalog.catalog_rows import agree
from ledgerfs.catalog.findings import Finding, Report, Severity
from ledgerfs.catalog.layout import LedgerCheck, Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.listing import FOREIGN
from ledgerfs.catalog.reader import OnRead
from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs.storage.failures import archived
from ledgerfs.storage.ordered_map import ordered_map

_DIGEST_BYTES = 16

_Upload = tuple[int, str]

THREADS = 4
_HEAD_THREADS = 16


class _Stopped(Exception):  # noqa: N818  (not an error: it ends threads whose caller is gone)
    """The caller has stopped."""


def verify(
    bucket: BucketOrUrl, *, quick: bool = False, progress: Progress | None = None, threads: int = THREADS
) -> Report:
    """List a bucket (or the bucket of a URL) again, check it, and return the findings.

    ``quick`` compares listing and indexes only, which also finds truncated offloads that Pulsar reports as successful, and, on S3, archived
    objects; otherwise reads every object in full, ``threads`` at a time, within the process's budget of memory
    (`ledgerfs.cache.block_cache`). Raises `StoreUnreachableError`, and the errors of listing (`Bucket.load_catalog`); everything else is a
    finding.
    """
    bucket = bucket_at(bucket)
    return verify_listed(bucket, bucket.survey(progress), quick=quick, progress=progress, threads=threads)


def verify_listed(
    bucket: Bucket, catalog: Catalog, *, quick: bool = False, progress: Progress | None = None, threads: int = THREADS
) -> Report:
    """Check a bucket as `verify`, with a catalog that the caller has just listed."""
    findings = list(check_listed(bucket, catalog, quick=quick))
    entries = read = 0
    ledgers = int(catalog.ledgers.size)
    if not quick and ledgers:
        # This imports numba, which a quick check does not need.
        from ledgerfs.verification.unsaved_schemas import UnsavedSchemas

        with _Meter(int(catalog.ledgers["stored"].sum()), progress) as meter:
            copies, schemas = CopyComparison(catalog), UnsavedSchemas(bucket)

            def check_one(ref: LedgerRef) -> LedgerCheck:
                return check_ledger(bucket, ref, meter.add, copies.digest_for(ref))

            for check in ordered_map(check_one, catalog.refs(), threads, "ledgerfs-verify"):
                findings += [*check.findings, *copies.compared(check)]
                schemas.add(check.ref.managed_ledger, check.schema_versions)
                entries += check.entries
                read += check.bytes
        findings += [*last_remarks(bucket, catalog), *schemas.remarks()]
    findings.sort(key=lambda finding: finding.severity.rank)
    return Report(quick, ledgers, entries, read, tuple(findings))


def check_listed(bucket: Bucket, catalog: Catalog, *, quick: bool) -> Iterator[Finding]:
    """Yield the findings from listing and catalog alone; with ``quick`` also archived objects, which a full check finds by reading."""
    yield from bucket.source.check_catalog(catalog, bucket.reader)
    yield from check_unlisted(catalog)
    yield from check_copies(catalog)
    yield from check_messages_twice(catalog)
    yield from check_read_order(catalog)
    yield from check_hidden_partitions(catalog)
    yield from other_keys(catalog, FOREIGN, "keys that are not Pulsar's")
    if quick and catalog.archived:
        yield from _archived(bucket, catalog)


def check_ledger(bucket: Bucket, ref: LedgerRef, on_read: OnRead, digest: blake2b | None = None) -> LedgerCheck:
    """Read a ledger in full, without caches."""
    return bucket.source.check_ledger(bucket.uncached_reader(ref), on_read, digest)


def last_remarks(bucket: Bucket, catalog: Catalog) -> list[Finding]:
    """Return the remarks that need the check of all ledgers."""
    return list(bucket.source.remarks(catalog))


def _archived(bucket: Bucket, catalog: Catalog) -> Iterator[Finding]:
    """Yield the objects of ledgers that must be restored before they are readable, with a HEAD for each that is listed as archived."""

    def ask(one: tuple[LedgerRef, str]) -> Finding | None:
        ref, key = one
        try:
            storage_class = bucket.store.head(key).stat.archived
            if not storage_class:
                return None
            error: LedgerfsError = archived(key, storage_class)
        except StoreUnreachableError:
            raise
        except LedgerfsError as caught:
            error = caught
        severity = severity_of(error)
        kind = "deleted-meanwhile" if severity is Severity.REMARK else "unreadable-object"
        return Finding(severity, kind, error.reason, key, None, ref.ledger_id, ref.topic)

    listed = ((ref, stat.key) for ref in catalog.refs() for _, stat in ref.objects if stat.key in catalog.archived)
    for finding in ordered_map(ask, listed, _HEAD_THREADS, "ledgerfs-head"):
        if finding is not None:
            yield finding


class _Meter:
    """Adds up bytes from several threads, and stops the threads when the caller stops."""

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
        """Count checked bytes."""
        if self._stopped:
            raise _Stopped
        with self._lock:
            self._done += count
            if self._progress is not None:
                self._progress("verifying", self._done, self._total)


class CopyComparison:
    """Compares copies as their checks finish; the copy that is read comes first.

    Compares only whole copies whose indexes agree: others have findings already.

    Parameters
    ----------
    catalog
        Catalog of the verified bucket.

    """

    def __init__(self, catalog: Catalog) -> None:
        ledgers = catalog.ledgers
        copies = np.flatnonzero(ledgers["copy"] > 0)
        read = copies - ledgers["copy"][copies]
        agrees = agree(ledgers[copies], ledgers[read])
        pairs = zip(copies[agrees].tolist(), read[agrees].tolist(), strict=True)
        self._read_of: dict[_Upload, LedgerRef] = {_upload(catalog.ref(copy)): catalog.ref(one) for copy, one in pairs}
        self._compared = {*self._read_of, *map(_upload, self._read_of.values())}
        self._digests: dict[_Upload, bytes] = {}

    def digest_for(self, ref: LedgerRef) -> blake2b | None:
        """Return the digest that the check of a ledger has to update; None if it has no copies."""
        return blake2b(digest_size=_DIGEST_BYTES) if _upload(ref) in self._compared else None

    def compared(self, check: LedgerCheck) -> Iterator[Finding]:
        """Yield damage if a whole copy has other records than the copy that is read."""
        ref = check.ref
        is_whole = not any(finding.severity is not Severity.REMARK for finding in check.findings)
        if check.digest is None or not is_whole:
            return
        own = self._digests[_upload(ref)] = check.digest.digest()
        read = self._read_of.get(_upload(ref))
        if read is not None and self._digests.get(_upload(read), own) != own:
            yield contradicting_copy(
                ref, f"as many entries and bytes as the copy that is read, {read.key}, but other contents"
            )


def _upload(ref: LedgerRef) -> _Upload:
    return ref.ledger_id, ref.uuid

"""Comparing the records of a ledger's copies whose indexes agree: by digests, since `verify` reads every byte anyway."""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.catalog_findings import contradicting_copy
from ledgerfs.ledgers.catalog_rows import agree
from ledgerfs.ledgers.dialect import LedgerCheck
from ledgerfs.ledgers.findings import Finding, Severity
from ledgerfs.ledgers.ledger_ref import LedgerRef

_DIGEST_BYTES = 16

_Upload = tuple[int, str]


class CopyComparison:
    """Compares copies as their checks end; the copy that is read comes first.

    Only whole copies whose indexes agree are compared: other ones are findings already. Settled copies have other bytes by right.

    Parameters
    ----------
    catalog
        Of the bucket that is verified.

    """

    def __init__(self, catalog: Catalog) -> None:
        ledgers = catalog.ledgers
        copies = np.flatnonzero(ledgers["copy"] > 0)
        read = copies - ledgers["copy"][copies]
        agrees = agree(ledgers[copies], ledgers[read]) & ~ledgers["settled"][copies] & ~ledgers["settled"][read]
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
            yield contradicting_copy(ref, f"as many entries and bytes as {read.key}, which is read, but other contents")


def _upload(ref: LedgerRef) -> _Upload:
    return ref.ledger_id, ref.uuid

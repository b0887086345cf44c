"""Which digest the entries of a ledger have, if no metadata tells: the one that fits them."""

import numpy as np

from ledgerfs.disks.entries import EntryReading, OpenFiles
from ledgerfs.disks.index import DiskIndex
from ledgerfs.formats.bookkeeper.digests import Digest
from ledgerfs.formats.ledger_metadata import DigestType

_TRIED = (DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC)
"""In the order of how usual they are; HMAC with an empty password, which is Pulsar's. Without a digest nothing would show damage."""

_LOOKED_AT = 16


def digest_that_fits(index: DiskIndex, files: OpenFiles, ledger_id: int, last: int) -> Digest | None:
    """Return the digest by which one of the first or last entries of a ledger is sound; None if none is; raises as `EntryReading`."""
    copies = index.copies(ledger_id, 0, last)
    if not len(copies):
        return None
    rows = np.unique(
        np.append(np.arange(min(_LOOKED_AT, len(copies))), np.arange(max(0, len(copies) - _LOOKED_AT), len(copies)))
    )
    some = copies.at(rows)
    for kind in _TRIED:
        digest = Digest(kind)
        if (EntryReading(index, files, ledger_id, digest, 1).read(some).checked.wrong == 0).any():
            return digest
    return None

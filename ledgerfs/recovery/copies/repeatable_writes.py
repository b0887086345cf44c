"""Ledgers that are written under names which depend on what is in them: whoever does it again takes what is there, if it is whole.

A data object without an index is left to the store, for which one with the same bytes may count as written: another run may be about to put
its index. Only what is proved to be something else is removed.
"""

from collections.abc import Callable

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.dialects.pulsar_blob.new_ledger import NewLedger
from ledgerfs.dialects.pulsar_blob.writer import WrittenLedger, as_stored
from ledgerfs.errors import CorruptLedgerError, CorruptObjectError, ObjectExistsError, StaleObjectError
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.offload.record_digest import cryptographic, digest_of
from ledgerfs.writing.admission import is_current
from ledgerfs.writing.deletion import has_index, remove_ledger
from ledgerfs.writing.write import ref_of

Digest = tuple[int, int, str]
"""Entries, bytes of them all, and a cryptographic digest (`RecordDigest.value`)."""


def write_once(
    bucket: Bucket, ledger: NewLedger, expected: Callable[[], Digest], write: Callable[[], tuple[WrittenLedger, Digest]]
) -> LedgerRef:
    """Return a ledger that is there and whole, or write it and read it back.

    Parameters
    ----------
    bucket
        Where it is to be.
    ledger
        Its names, and what its index is to tell.
    expected
        Reads what the ledger is made of, and returns the digest of what that makes.
    write
        Writes it, and returns the digest of what was written.

    Raises
    ------
    CorruptLedgerError
        What was read back is not what was written; it is removed again.
    StaleObjectError
        Somebody else replaced or removed it meanwhile.
    LedgerfsError
        Of ``expected``, ``write`` and the store.

    """
    taken = _taken(bucket, ledger, expected)
    if taken is not None:
        return taken
    if has_index(bucket, ledger.key):
        remove_ledger(bucket, ledger.key)
    try:
        return _written(bucket, ledger, write)
    except ObjectExistsError:
        taken = _taken(bucket, ledger, expected)
        if taken is not None:
            return taken
        remove_ledger(bucket, ledger.key)
        return _written(bucket, ledger, write)


def _taken(bucket: Bucket, ledger: NewLedger, expected: Callable[[], Digest]) -> LedgerRef | None:
    """Return the ledger if an earlier attempt, or another run, has finished it, and it is whole."""
    there = as_stored(bucket.raw_store, ledger)
    return ref_of(there) if there is not None and _is_whole(bucket, there, expected) else None


def _written(bucket: Bucket, ledger: NewLedger, write: Callable[[], tuple[WrittenLedger, Digest]]) -> LedgerRef:
    written, sent = write()
    bucket.expire()
    if not _is_whole(bucket, written, lambda: sent):
        remove_ledger(bucket, ledger.key)
        raise CorruptLedgerError(
            "what was read back is not what was written; it is removed again", key=written.data.key
        )
    if not is_current(bucket.raw_store, ref_of(written)):
        raise StaleObjectError(
            "somebody has replaced or removed the ledger meanwhile; run it again", key=written.data.key
        )
    return ref_of(written)


def _is_whole(bucket: Bucket, there: WrittenLedger, expected: Callable[[], Digest]) -> bool:
    """Whether it is of its topic, and all entries are as they should be."""
    ref = ref_of(there)
    if ref.managed_ledger != there.ledger.metadata.managed_ledger:
        return False
    reader = bucket.uncached_reader(ref)
    try:
        found = digest_of(lambda: reader.batches(ref.first_entry, ref.last_entry), cryptographic)
    except CorruptObjectError:
        return False
    return found == expected()

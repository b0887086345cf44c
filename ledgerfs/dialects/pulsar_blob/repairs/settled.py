"""Repairs of data objects that are settled copies (``docs/formats/settled-copies.md``): their bytes are no other ledger's, by right.

A cluster may have such a copy in its lists, so that none is garbage, also not while the ledger that it was made of is whole.
"""

from collections.abc import Iterable, Mapping

from ledgerfs.dialects.pulsar_blob.columns import NUMBER, key_of
from ledgerfs.dialects.pulsar_blob.new_ledger import made_up_metadata
from ledgerfs.dialects.pulsar_blob.remains import remains_of
from ledgerfs.dialects.pulsar_blob.repairs.survey import Survey
from ledgerfs.formats.ledger_metadata import LedgerMetadata
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.pulsar_blob.settled_uuids import is_settled_copy_of
from ledgerfs.formats.pulsar_blob.user_metadata import settled_of
from ledgerfs.ledgers.ledger_ref import LedgerRef


def source_of(key: LedgerKey, copies: Iterable[LedgerRef]) -> LedgerRef | None:
    """Return the one of the copies of its ledger that a data object is a settled copy of, by its uuid; None without one."""
    blobs = (copy for copy in copies if copy.dialect == NUMBER)
    return next((copy for copy in blobs if is_settled_copy_of(key.uuid, copy.uuid)), None)


def with_same_bytes(key: LedgerKey, copies: Iterable[LedgerRef]) -> list[LedgerRef]:
    """Return the copies that a data object may be compared with: a settled copy with none, and others with those that are not settled."""
    found = list(copies)
    return [] if source_of(key, found) is not None else [copy for copy in found if not copy.is_settled]


def waits_for(survey: Survey, key: LedgerKey) -> LedgerKey | None:
    """Return the ledger that a data object is a settled copy of, if it has to be repaired first; None otherwise."""
    remains = remains_of(survey.catalog)
    others = [*map(key_of, remains.orphans), *(one.key for one in remains.bad_indexes)]
    same_id = (one for one in others if one.ledger_id == key.ledger_id)
    return next((one for one in same_id if is_settled_copy_of(key.uuid, one.uuid)), None)


def settled_metadata(
    survey: Survey, source: LedgerRef | None, user_metadata: Mapping[str, str] | None, managed_ledger: str
) -> LedgerMetadata | None:
    """Return BookKeeper's metadata for the index of a settled copy, by its source or by its user metadata; None if it is none."""
    if source is not None:
        told = survey.open_ledger(source).metadata() or made_up_metadata(managed_ledger)
        return told.settled(source.uuid)
    named = settled_of(user_metadata or {})
    return None if named is None else made_up_metadata(managed_ledger).settled(named)

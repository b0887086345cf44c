"""Whether the objects of an offload may be the only copy of a ledger: then they stay, whatever says that nobody needs them.

A list, a note or a subscription that was put back from a backup tells what was so then. Since then an offload may have been completed, and
BookKeeper's copy deleted.
"""

from ledgerfs.clusters.next_ids import end_of_former_ids
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.offload.candidates import Listed, listed_or_none


def why_only_copy(means: Means, managed_ledger: str, ledger_id: int, uuid: str) -> str | None:
    """Return why the objects of an offload, which its topic's list does not name, may be the only copy of a ledger; None if they are not.

    They are one of several if its bookies give the last entry of the ledger, or the objects of another offload that the list names. Brokers
    trim from the oldest ledger on, so what is older than all that is listed may be gone; what is younger, and not listed, is of a list that
    was set back. Raises the errors of ZooKeeper.
    """
    listed = listed_or_none(means.lock.newest(), managed_ledger)
    if listed is None:
        return None
    info = listed.ledger(ledger_id)
    if info is None:
        return why_set_back(listed, ledger_id)
    why = _why_not_in_bookkeeper(means, ledger_id)
    if why is not None and info.is_offloaded and info.context is not None and info.context.uuid != uuid:
        return _why_not_offloaded(means, managed_ledger, info)
    return why


def why_of_former_cluster(means: Means, ledger_id: int) -> str | None:
    """Return why the objects of an offload that no list names may be a lost cluster's; None if they are this one's. Raises as above."""
    if ledger_id >= end_of_former_ids(means.lock.newest(), means.ledgers.ledgers_path):
        return None
    return "something was restored into this cluster, and these are from before that: of the lost cluster nobody may have more"


def _why_not_offloaded(means: Means, managed_ledger: str, info: LedgerInfo) -> str | None:
    """Return why the objects that a list names do not give the last entry of a ledger; None if they do."""
    try:
        reader = means.copies.reader(managed_ledger, info)
        last = reader.ref.last_entry
        if not sum(map(len, reader.batches(last, last))):
            return "the objects that its list names do not have its last entry: these may be its only copy"
    except LedgerfsError as error:
        if means.lock.is_lost:
            raise
        return f"the objects that its list names do not give its last entry: these may be its only copy: {error}"
    return None


def _why_not_in_bookkeeper(means: Means, ledger_id: int) -> str | None:
    try:
        found = means.ledgers.found(ledger_id)
        if not found.node.is_closed:
            return "its topic lists the ledger, and in BookKeeper it is not closed"
        means.ledgers.require_last_entry(found)
    except ObjectNotFoundError:
        return "its topic lists the ledger, and BookKeeper does not have it: these may be its only copy"
    except LedgerfsError as error:
        if means.lock.is_lost:
            raise
        return f"its topic lists the ledger, and its bookies do not give it: these may be its only copy: {error}"
    return None


def why_set_back(listed: Listed, ledger_id: int) -> str | None:
    """Return why a list that does not name a ledger may have been set back; None if the ledger is older than all that it names."""
    first = min(one.ledger_id for one in listed.info.ledgers)
    if ledger_id < first:
        return None
    return f"its topic's list, which begins at ledger {first}, does not name the ledger: it was set back"

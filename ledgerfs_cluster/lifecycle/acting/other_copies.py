"""Whether the objects of an offload may be the only copy of a ledger: then they stay, whatever metadata say.

A list or a record that was put back from a backup contains what was so then. Since then an offload may have been completed, and
BookKeeper's copy deleted.
"""

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.lifecycle.acting.context import ActionContext
from ledgerfs_cluster.offload.candidates import listed_or_none
from ledgerfs_cluster.offload.journal import JournalRecord


def why_only_copy(context: ActionContext, record: JournalRecord) -> str | None:
    """Return why the objects of a record, which its topic's list does not name, may be the only copy of a ledger; None if they are not.

    They are one of several if its bookies give the last entry of the ledger, or the objects of another offload that the list names. Brokers
    trim from the oldest ledger on, so what is older than all that is listed may be gone; what is younger, and not listed, is of a list that
    was set back. Raises the errors of ZooKeeper.
    """
    managed_ledger, ledger_id = record.managed_ledger or "", record.ledger_id
    listed = listed_or_none(context.lock.newest(), managed_ledger)
    if listed is None:
        return None
    info, first = listed.ledger(ledger_id), listed.info.ledgers[0].ledger_id
    if info is None:
        is_trimmed = ledger_id < first
        return (
            None
            if is_trimmed
            else f"its topic's list, which begins at ledger {first}, does not name the ledger: it was set back"
        )
    why = _why_not_in_bookkeeper(context, ledger_id)
    if why is not None and info.is_offloaded and info.context is not None and info.context.uuid != record.uuid:
        return _why_not_offloaded(context, managed_ledger, info)
    return why


def _why_not_offloaded(context: ActionContext, managed_ledger: str, info: LedgerInfo) -> str | None:
    """Return why the objects that a list names do not give the last entry of a ledger; None if they do."""
    try:
        reader = context.copies.reader(managed_ledger, info)
        last = reader.ref.last_entry
        if not sum(map(len, reader.batches(last, last))):
            return "the objects that its list names do not have its last entry: these may be its only copy"
    except LedgerfsError as error:
        if context.lock.is_lost:
            raise
        return f"the objects that its list names do not give its last entry: these may be its only copy: {error}"
    return None


def _why_not_in_bookkeeper(context: ActionContext, ledger_id: int) -> str | None:
    try:
        found = context.ledgers.found(ledger_id)
        if not found.node.is_closed:
            return "its topic lists the ledger, and in BookKeeper it is not closed"
        context.ledgers.require_last_entry(found)
    except ObjectNotFoundError:
        return "its topic lists the ledger, and BookKeeper does not have it: these may be its only copy"
    except LedgerfsError as error:
        if context.lock.is_lost:
            raise
        return f"its topic lists the ledger, and its bookies do not give it: these may be its only copy: {error}"
    return None

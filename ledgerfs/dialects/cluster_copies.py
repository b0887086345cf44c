"""What copies of a cluster's ledgers into a bucket have in common, wherever they are read."""

from ledgerfs.errors import RefusedLedgerError
from ledgerfs.ledgers.ledger_ref import LedgerRef


def require_same_topic(ref: LedgerRef, managed_ledger: str | None) -> None:
    """Raise `RefusedLedgerError` for a ledger whose own metadata, all that a bucket has, does not name the topic that lists it."""
    if managed_ledger != ref.managed_ledger:
        reason = (
            f"the list of {ref.managed_ledger} names the ledger, and by its own metadata it is of {managed_ledger or 'no topic'}: "
            "in a bucket it would not be that topic's. Export the topic to have its rows"
        )
        raise RefusedLedgerError(reason, key=ref.key)

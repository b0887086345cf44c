"""What it means that no bookie gives an entry, in one sentence."""

from collections.abc import Sequence

from ledgerfs.errors import AccessDeniedError, CorruptLedgerError, LedgerfsError, StoreUnreachableError
from ledgerfs_cluster.bookies.window import UNREACHABLE, WRONG_BYTES, Refusal
from ledgerfs_cluster.formats.bookkeeper.replies import ReplyCode

_WORDS = {
    UNREACHABLE: "does not answer",
    WRONG_BYTES: "has bytes that contradict their digest",
    ReplyCode.NO_LEDGER: "has nothing of the ledger",
    ReplyCode.NO_ENTRY: "does not have it",
    ReplyCode.IO: "cannot read it",
    ReplyCode.TOO_MANY_REQUESTS: "is too busy",
}
_ABSENT = {ReplyCode.NO_LEDGER, ReplyCode.NO_ENTRY}


def is_passing(refusals: Sequence[Refusal]) -> bool:
    """Whether asking once more, a moment later, may help."""
    return any(one.code not in _ABSENT and one.code not in {WRONG_BYTES, ReplyCode.UNAUTHORISED} for one in refusals)


def refusal_error(ledger_id: int, what: str, refusals: Sequence[Refusal]) -> LedgerfsError:
    """Return the error for what cannot be had of a ledger.

    `AccessDeniedError` if a bookie demands authentication, `StoreUnreachableError` if one does not answer, that might have it, and
    `CorruptLedgerError` if all have answered: it is lost.
    """
    key = f"ledger {ledger_id}"
    # A bookie that was asked twice is named once, with its last answer.
    told = {one.bookie: one.code for one in refusals}
    guarded = [bookie for bookie, code in told.items() if code == ReplyCode.UNAUTHORISED]
    if guarded:
        reason = f"the bookie {guarded[0]} demands authentication, which ledgerfs does not know"
        return AccessDeniedError(reason, key=key)
    words = ", ".join(f"{bookie} {_WORDS.get(code, f'answers with code {code}')}" for bookie, code in told.items())
    kind = StoreUnreachableError if is_passing(refusals) else CorruptLedgerError
    return kind(f"no bookie gives {what}: {words}", key=key)

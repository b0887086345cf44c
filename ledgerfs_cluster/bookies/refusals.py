"""What bookies reply that give no entry, and the error for an entry that none gives."""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerfs.errors import AccessDeniedError, CorruptLedgerError, LedgerfsError, StoreUnreachableError
from ledgerfs_cluster.formats.bookkeeper.replies import ReplyCode

UNREACHABLE = -1
"""Instead of a `ReplyCode`: the bookie did not answer."""

WRONG_BYTES = -2
"""Instead of a `ReplyCode`: it sent bytes that the digest, or the ids in them, contradict."""

_WORDS = {
    UNREACHABLE: "does not answer",
    WRONG_BYTES: "has bytes that contradict their digest",
    ReplyCode.NO_LEDGER: "has nothing of the ledger",
    ReplyCode.NO_ENTRY: "does not have it",
    ReplyCode.IO: "cannot read it",
    ReplyCode.TOO_MANY_REQUESTS: "is too busy",
}
_LASTING = {ReplyCode.NO_LEDGER, ReplyCode.NO_ENTRY, WRONG_BYTES, ReplyCode.UNAUTHORISED}


class Refusal(NamedTuple):
    """What a bookie replied about an entry that it does not give: a `ReplyCode`, `UNREACHABLE` or `WRONG_BYTES`."""

    bookie: str
    code: int


def is_passing(refusals: Sequence[Refusal]) -> bool:
    """Whether asking once more, a moment later, may help."""
    return any(one.code not in _LASTING for one in refusals)


def refusal_error(ledger_id: int, what: str, refusals: Sequence[Refusal]) -> LedgerfsError:
    """Return the error for what cannot be had of a ledger.

    `AccessDeniedError` if a bookie demands authentication, `StoreUnreachableError` if one does not answer, that might have it, and
    `CorruptLedgerError` if all have answered: it is lost.
    """
    key = f"ledger {ledger_id}"
    # A bookie that was asked twice is named once, with its last answer.
    codes = {one.bookie: one.code for one in refusals}
    guarded = [bookie for bookie, code in codes.items() if code == ReplyCode.UNAUTHORISED]
    if guarded:
        reason = f"the bookie {guarded[0]} demands authentication, which ledgerfs does not know"
        return AccessDeniedError(reason, key=key)
    words = ", ".join(f"{bookie} {_WORDS.get(code, f'answers with code {code}')}" for bookie, code in codes.items())
    kind = StoreUnreachableError if is_passing(refusals) else CorruptLedgerError
    return kind(f"no bookie gives {what}: {words}", key=key)

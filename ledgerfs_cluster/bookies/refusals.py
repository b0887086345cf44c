"""Replies of bookies without the entry, and the error for an entry that no bookie returns."""

from collections.abc import Sequence
from typing import NamedTuple

from ledgerfs.errors import AccessDeniedError, CorruptLedgerError, LedgerfsError, StoreUnreachableError
from ledgerfs_cluster.formats.bookkeeper.replies import ReplyCode

UNREACHABLE = -1
"""In place of a `ReplyCode`: the bookie did not answer."""

WRONG_BYTES = -2
"""In place of a `ReplyCode`: the bytes do not match their digest or their ids."""

_WORDS = {
    UNREACHABLE: "does not answer",
    WRONG_BYTES: "returns bytes that do not match their digest",
    ReplyCode.NO_LEDGER: "does not have the ledger",
    ReplyCode.NO_ENTRY: "does not have the entry",
    ReplyCode.IO: "cannot read the entry (I/O error)",
    ReplyCode.TOO_MANY_REQUESTS: "is too busy",
}
_LASTING = {ReplyCode.NO_LEDGER, ReplyCode.NO_ENTRY, WRONG_BYTES, ReplyCode.UNAUTHORISED}


class Refusal(NamedTuple):
    """The reply of a bookie that does not return an entry: a `ReplyCode`, `UNREACHABLE` or `WRONG_BYTES`."""

    bookie: str
    code: int


def is_passing(refusals: Sequence[Refusal]) -> bool:
    """Return whether a retry a moment later may help."""
    return any(one.code not in _LASTING for one in refusals)


def refusal_error(ledger_id: int, part: str, refusals: Sequence[Refusal]) -> LedgerfsError:
    """Return the error for a part of a ledger that cannot be read.

    `AccessDeniedError` if a bookie demands authentication, `StoreUnreachableError` if a bookie that may have the part does not answer, and
    `CorruptLedgerError` if all have answered: the part is lost.
    """
    key = f"ledger {ledger_id}"
    # Each bookie appears once, with its last answer.
    codes = {one.bookie: one.code for one in refusals}
    guarded = [bookie for bookie, code in codes.items() if code == ReplyCode.UNAUTHORISED]
    if guarded:
        reason = f"bookie {guarded[0]} requires authentication, which ledgerfs does not support"
        return AccessDeniedError(reason, key=key)
    replies = ", ".join(
        f"{bookie} {_WORDS.get(code, f'replies with error code {code}')}" for bookie, code in codes.items()
    )
    kind = StoreUnreachableError if is_passing(refusals) else CorruptLedgerError
    return kind(f"cannot read {part} from any bookie: {replies}", key=key)

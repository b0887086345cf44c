"""Outcome of work on ledgers: done, skipped with a reason, or failed."""

from dataclasses import dataclass, field
from enum import Enum

from ledgerfs.errors import LedgerfsError


class Status(Enum):
    """How the work ended."""

    OK = "ok"
    SKIPPED = "skipped"
    """Nothing was done; the reason is in the message."""
    FAILED = "failed"
    """An error, or work for an operator."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome for one subject.

    Attributes
    ----------
    code
        The action or the reason, as one word. A later outcome of the same code and subject replaces an earlier one.
    subject
        The topic, ledger, object or node.
    message
        One sentence for an operator; empty after success.
    ledger_ids, size
        The ledgers, and the bytes that were freed or copied.
    action
        The kind of action; empty if there is none.
    due_ms
        Due time, ms since 1970 UTC; None if time alone does not decide.
    error
        The exception, if any.

    """

    status: Status
    code: str
    subject: str
    message: str = ""
    ledger_ids: tuple[int, ...] = ()
    size: int = 0
    action: str = ""
    due_ms: int | None = None
    error: LedgerfsError | None = field(default=None, compare=False)


def failed(code: str, subject: object, message: str, error: LedgerfsError | None = None) -> Outcome:
    """Return the outcome of a failure."""
    return Outcome(Status.FAILED, code, str(subject), message, error=error)

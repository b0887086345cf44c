"""What became of work on ledgers: one value for what was done, what was left and why, and what went wrong."""

from dataclasses import dataclass, field
from enum import Enum

from ledgerfs.errors import LedgerfsError


class Status(Enum):
    """How it ended."""

    OK = "ok"
    SKIPPED = "skipped"
    """Nothing was done, for a reason."""
    FAILED = "failed"
    """Something went wrong, or an operator has to do something."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of something.

    Attributes
    ----------
    code
        What was done, or the reason, in a word. A later outcome of the same code and subject replaces an earlier one.
    subject
        The topic, ledger, object or node that it is about.
    message
        One sentence for an operator; empty where all went well.
    ledger_ids, size
        The ledgers, and their bytes: those that were freed, or were copied.
    action
        The word of the kind of action; empty where there is none.
    due_ms
        When it will be due, ms since 1970 UTC; None if time alone does not decide that.
    error
        What was raised, if anything was.

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
    """Return what went wrong with something."""
    return Outcome(Status.FAILED, code, str(subject), message, error=error)

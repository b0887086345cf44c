"""What a repair is: a thing found, and what would be done about it."""

from dataclasses import dataclass
from typing import Any, Protocol

from ledgerfs.ledgers.findings import Severity
from ledgerfs.storage.object_store import RawStore

NOTHING = "nothing"


class Action(Protocol):
    """Something that changes the bucket."""

    @property
    def name(self) -> str:
        """Short stable name, such as ``rebuild-index``; ``docs/operating/repair.md`` lists them."""
        ...

    @property
    def rank(self) -> int:
        """Actions of a lower rank are carried out first."""
        ...

    def run(self, store: RawStore) -> None:
        """Do it, unless what it was planned upon has changed: then `StaleObjectError`; raises whatever the store does."""
        ...


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing found, and what can be done.

    Attributes
    ----------
    kind
        What was found, in the words of `verify` where it finds the same.
    reason
        Why that would be done, or why nothing is.
    action
        What would be done; None for nothing.
    severity
        How bad it is as long as it is not done; a remark where that is no damage.

    """

    kind: str
    severity: Severity
    reason: str
    key: str | None = None
    ledger_id: int | None = None
    topic: str | None = None
    action: Action | None = None

    @property
    def action_name(self) -> str:
        """The action's name; ``nothing`` without one."""
        return NOTHING if self.action is None else self.action.name

    def as_json(self) -> dict[str, Any]:
        """Return the repair as values that JSON knows."""
        return {
            "kind": self.kind,
            "severity": self.severity.value,
            "action": self.action_name,
            "key": self.key,
            "ledger_id": self.ledger_id,
            "topic": self.topic,
            "reason": self.reason,
        }

"""Repairs as values: a finding, and the action that would repair it."""

from dataclasses import dataclass
from typing import Any, Protocol

from ledgerfs.catalog.findings import Severity
from ledgerfs.storage.object_store import RawStore

NOTHING = "nothing"


class Action(Protocol):
    """A change of the bucket."""

    @property
    def name(self) -> str:
        """Short stable name, such as ``rebuild-index``; ``docs/operating/repair.md`` lists them."""
        ...

    @property
    def rank(self) -> int:
        """Actions of a lower rank are carried out first."""
        ...

    def run(self, store: RawStore) -> None:
        """Do it; raises `StaleObjectError` if the objects have changed since it was planned, and errors of the store."""
        ...


@dataclass(frozen=True, slots=True)
class Repair:
    """One finding, and what can be done about it.

    Attributes
    ----------
    kind
        Kind of the finding, the same as in `verify` if it finds the same.
    reason
        Why the action would be done, or why there is none.
    action
        What would be done; None for nothing.
    severity
        How bad it is until it is repaired; a remark if it is not damage.

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

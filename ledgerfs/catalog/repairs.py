"""Repairs: a finding, and the action that repairs it."""

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
        """Rank of execution, ascending."""
        ...

    def run(self, store: RawStore) -> None:
        """Run the action; raises `StaleObjectError` if the objects have changed since the plan, and errors of the store."""
        ...


@dataclass(frozen=True, slots=True)
class Repair:
    """One finding and its repair.

    Attributes
    ----------
    kind
        Kind of the finding, as in `verify`.
    reason
        The reason for the action, or for none.
    action
        The action; None without one.
    severity
        Severity without the repair; a remark if it is not damage.

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
        """Return the repair as JSON values."""
        return {
            "kind": self.kind,
            "severity": self.severity.value,
            "action": self.action_name,
            "key": self.key,
            "ledger_id": self.ledger_id,
            "topic": self.topic,
            "reason": self.reason,
        }

"""What a repair is: a thing found, what would be done about it, and what came of that."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs.vfs.bucket import Bucket
from ledgerfs.vfs.object_store import RawStore
from ledgerfs.vfs.verification import Severity

NOTHING = "nothing"

DATA_WITHOUT_INDEX = "data-without-index"
INDEX_WITHOUT_DATA = "index-without-data"
UNREADABLE_INDEX = "unreadable-index"
NO_VERSION_KEY = "no-version-key"
UNFINISHED_UPLOAD = "unfinished-upload"
GCS_PART = "gcs-part"


class Action(Protocol):
    """Something that changes the bucket."""

    @property
    def name(self) -> str:
        """Short stable name, such as ``rebuild-index``; ``docs/repair.md`` lists them."""
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """A repair that was carried out, or, with an error, was not."""

    repair: Repair
    error: LedgerfsError | None


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What is to be done in a bucket; nothing is before `carry_out`."""

    bucket: Bucket
    items: tuple[Repair, ...]

    @property
    def to_do(self) -> list[Repair]:
        """What can be done, in the order in which it is."""
        ranked = [(item.action.rank, number) for number, item in enumerate(self.items) if item.action is not None]
        return [self.items[number] for _, number in sorted(ranked)]

    @property
    def left(self) -> list[Repair]:
        """What nothing can be done about."""
        return [item for item in self.items if item.action is None]

    def carry_out(self) -> Iterator[Outcome]:
        """Do one thing after the other, each only if its grounds still hold; one that fails keeps none of the others from being done.

        Stopping between two of them leaves nothing half done. Raises `StoreUnreachableError`.
        """
        store = self.bucket.store.store
        try:
            for repair in self.to_do:
                yield _carried_out(repair, store)
        finally:
            self.bucket.expire()


def _carried_out(repair: Repair, store: RawStore) -> Outcome:
    try:
        if repair.action is not None:
            repair.action.run(store)
    except StoreUnreachableError:
        raise
    except LedgerfsError as error:
        return Outcome(repair, error)
    return Outcome(repair, None)

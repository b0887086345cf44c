"""Findings about a cluster: the evidence, the bytes concerned, and the step that repairs it.

Pure functions over snapshots make findings; a command sorts and prints them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class FindingKind(Enum):
    """Kind of finding; the value is the word in JSON, in tables and in Prometheus."""

    ORPHAN_LEDGER = "orphan-ledger"
    """A ledger of a topic that no ledger list contains."""
    FLAGGED_DELETED = "flagged-deleted"
    """A ledger that exists although its list marks it as deleted in BookKeeper: no broker deletes it again."""
    ORPHAN_CURSOR_LEDGER = "orphan-cursor-ledger"
    """A ledger of a subscription's state that its node does not reference, or whose subscription is gone."""
    ORPHAN_SCHEMA_LEDGER = "orphan-schema-ledger"
    """A ledger of a schema that no locator references."""
    ORPHAN_COMPACTED_LEDGER = "orphan-compacted-ledger"
    """A compacted topic that the compaction cursor does not reference."""
    ORPHAN_DELAYED_LEDGER = "orphan-delayed-ledger"
    """A bucket of delayed messages that no subscription references."""
    ORPHAN_OBJECT = "orphan-object"
    """An object of an offload that no ledger list references."""
    LOST_LEDGER = "lost-ledger"
    """A listed ledger that is neither in BookKeeper nor completely offloaded."""
    LOST_SCHEMA_LEDGER = "lost-schema-ledger"
    """A missing ledger that a schema locator references."""
    LOST_COMPACTED_LEDGER = "lost-compacted-ledger"
    """A missing compacted topic, or the missing state of its cursor."""
    LOST_OBJECTS = "lost-objects"
    """A ledger with a complete offload whose objects are missing."""
    TRUNCATED_OFFLOAD = "truncated-offload"
    """An offload whose data object is shorter than its index requires, or whose index cannot be read."""
    UNEQUAL_LEDGER = "unequal-ledger"
    """A closed ledger whose list and BookKeeper metadata differ in entries or bytes."""
    UNDER_REPLICATED = "under-replicated"
    """A ledger with unavailable bookies."""

    @property
    def is_loss(self) -> bool:
        """Whether data are lost, or may be with the next failure; other findings are warnings."""
        return self in _LOSS

    @property
    def is_orphan_of_bookkeeper(self) -> bool:
        """Whether it concerns ledgers without an owner; these may belong to another cluster."""
        return self.value.startswith("orphan-") and self is not FindingKind.ORPHAN_OBJECT


_LOSS = frozenset(
    {
        FindingKind.LOST_LEDGER,
        FindingKind.LOST_SCHEMA_LEDGER,
        FindingKind.LOST_COMPACTED_LEDGER,
        FindingKind.LOST_OBJECTS,
        FindingKind.TRUNCATED_OFFLOAD,
        FindingKind.UNEQUAL_LEDGER,
        FindingKind.UNDER_REPLICATED,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, and the step that repairs it.

    Attributes
    ----------
    kind
        Kind of the problem.
    subject
        The topic, ledger or object, in the users' form.
    ledger_ids
        The ledgers concerned.
    size
        Bytes that are freed or lost; -1 if unknown.
    since_ms
        Since when, ms since 1970 UTC; 0 if unknown.
    evidence
        Observation and its source, in one sentence.
    mend
        The command or step that repairs it. This program writes nothing to a cluster.

    """

    kind: FindingKind
    subject: str
    ledger_ids: tuple[int, ...]
    size: int
    since_ms: int
    evidence: str
    mend: str


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings for display: loss first, then by descending bytes, then by kind and subject."""
    return sorted(findings, key=lambda one: (not one.kind.is_loss, -one.size, one.kind.value, one.subject))

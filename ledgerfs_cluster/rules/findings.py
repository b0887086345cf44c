"""What is wrong with a cluster, one finding each: what was seen where, the bytes it is about, and the step that mends it.

Findings are made by pure functions over surveys; a command orders and shows them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class FindingKind(Enum):
    """What is found; the value is the word in JSON, in tables and in Prometheus."""

    ORPHAN_LEDGER = "orphan-ledger"
    """A ledger of a topic that no list names."""
    FLAGGED_DELETED = "flagged-deleted"
    """A ledger that its list calls deleted in BookKeeper, and that is there: no broker deletes it again."""
    ORPHAN_CURSOR_LEDGER = "orphan-cursor-ledger"
    """A ledger of a subscription's state that its node does not name, or whose subscription is gone."""
    ORPHAN_SCHEMA_LEDGER = "orphan-schema-ledger"
    """A ledger of a schema that no locator names."""
    ORPHAN_COMPACTED_LEDGER = "orphan-compacted-ledger"
    """A compacted topic that the cursor of compaction does not name."""
    ORPHAN_DELAYED_LEDGER = "orphan-delayed-ledger"
    """A bucket of delayed messages that no subscription names."""
    ORPHAN_OBJECT = "orphan-object"
    """An object of an offload that no list names."""
    LOST_LEDGER = "lost-ledger"
    """A ledger that is listed, in BookKeeper nowhere, and not offloaded completely."""
    LOST_SCHEMA_LEDGER = "lost-schema-ledger"
    """A ledger that a locator of schemas names, and that is gone."""
    LOST_COMPACTED_LEDGER = "lost-compacted-ledger"
    """A compacted topic that is gone, or the state of its cursor."""
    LOST_OBJECTS = "lost-objects"
    """A ledger whose offload is complete, and whose objects are not there."""
    TRUNCATED_OFFLOAD = "truncated-offload"
    """An offload whose data object is shorter than its index says, or whose index cannot be read."""
    UNEQUAL_LEDGER = "unequal-ledger"
    """A closed ledger that has other entries, or bytes, by its list than by BookKeeper's metadata."""
    UNDER_REPLICATED = "under-replicated"
    """A ledger that has bookies which are not available."""

    @property
    def is_loss(self) -> bool:
        """Whether data are lost, or may be with the next failure; the others are remarks."""
        return self in _LOSS

    @property
    def is_orphan_of_bookkeeper(self) -> bool:
        """Whether it is about ledgers that nothing names; they may be another cluster's."""
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
    """Something to be mended.

    Attributes
    ----------
    kind
        What it is.
    subject
        The topic, ledger or object, as users name it.
    ledger_ids
        The ledgers it is about.
    size
        Bytes that are freed, or lost; -1 if that is not known.
    since_ms
        From when on, ms since 1970 UTC; 0 if that is not known.
    evidence
        What was seen where, in one sentence.
    mend
        The command or step that mends it. This program writes nothing to a cluster.

    """

    kind: FindingKind
    subject: str
    ledger_ids: tuple[int, ...]
    size: int
    since_ms: int
    evidence: str
    mend: str


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings as they are shown: loss first, then by bytes, most first, then by kind and subject."""
    return sorted(findings, key=lambda one: (not one.kind.is_loss, -one.size, one.kind.value, one.subject))

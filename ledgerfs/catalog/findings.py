"""Findings: the result of a verification."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    """How bad a finding is."""

    DAMAGE = "damage"
    """Data is lost or unreadable, to us or to a broker."""
    UNCHECKED = "unchecked"
    """The store did not let us read it: its state is unknown."""
    REMARK = "remark"
    """Worth knowing; everything is readable."""

    @property
    def rank(self) -> int:
        """Its place in a report: damage first, then what could not be checked, then remarks."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    Attributes
    ----------
    kind
        Short stable name, such as ``checksum-mismatch``; ``docs/operating/verify.md`` lists them.
    key, offset
        Object and byte offset in it; None if the finding is about the whole object, or the whole bucket.
    ledger_id, topic
        Ledger and topic, if they are known.

    """

    severity: Severity
    kind: str
    message: str
    key: str | None = None
    offset: int | None = None
    ledger_id: int | None = None
    topic: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the finding as values that JSON knows."""
        return {**asdict(self), "severity": self.severity.value}


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a verification.

    Attributes
    ----------
    quick
        Whether only indexes and sizes were compared.
    ledgers
        Number of ledgers looked at, every copy counted.
    entries, bytes
        Entries whose records and checksums were checked, and bytes read for that; 0 when ``quick``.
    findings
        Damage first, then what could not be checked, then remarks.

    """

    quick: bool
    ledgers: int
    entries: int
    bytes: int
    findings: tuple[Finding, ...]

    @property
    def is_damaged(self) -> bool:
        """Whether anything is lost or unreadable."""
        return any(finding.severity is Severity.DAMAGE for finding in self.findings)

    @property
    def is_complete(self) -> bool:
        """Whether everything could be checked."""
        return not any(finding.severity is Severity.UNCHECKED for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the report as values that JSON knows."""
        return {
            "quick": self.quick,
            "damaged": self.is_damaged,
            "complete": self.is_complete,
            "ledgers": self.ledgers,
            "entries": self.entries,
            "bytes": self.bytes,
            "findings": [finding.as_json() for finding in self.findings],
        }

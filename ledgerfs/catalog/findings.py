"""Findings: the result of a verification."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Severity(Enum):
    """Severity of a finding."""

    DAMAGE = "damage"
    """Data is lost or unreadable, to ledgerfs or to a broker."""
    UNCHECKED = "unchecked"
    """The store refused access: the state is unknown."""
    REMARK = "remark"
    """Information; everything is readable."""

    @property
    def rank(self) -> int:
        """Order in a report: damage, then unchecked objects, then remarks."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes
    ----------
    kind
        Short stable name, such as ``checksum-mismatch``; ``docs/operating/verify.md`` lists them.
    key, offset
        Object and byte offset in it; None if the finding concerns the whole object, or the whole bucket.
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
        """Return the finding as JSON values."""
        return {**asdict(self), "severity": self.severity.value}


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a verification.

    Attributes
    ----------
    quick
        Whether only indexes and sizes were compared.
    ledgers
        Number of checked ledgers, including all copies.
    entries, bytes
        Entries whose records and checksums were checked, and bytes read for that; 0 if ``quick``.
    findings
        Damage, then unchecked objects, then remarks.

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
        """Return the report as JSON values."""
        return {
            "quick": self.quick,
            "damaged": self.is_damaged,
            "complete": self.is_complete,
            "ledgers": self.ledgers,
            "entries": self.entries,
            "bytes": self.bytes,
            "findings": [finding.as_json() for finding in self.findings],
        }

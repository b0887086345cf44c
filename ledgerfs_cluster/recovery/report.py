"""Report of a recovery: of each topic what is there, what is lost, and from when to when, as JSON and in words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs_cluster.recovery.planning.topic_plan import MissingPart, TopicPlan
from ledgerfs_cluster.recovery.settings.former_settings import FormerSetting

if TYPE_CHECKING:
    from ledgerfs_cluster.recovery.checking.comparison import TopicComparison


class Outcome(Enum):
    """What became of a topic, or will."""

    PLANNED = "to be restored"
    RESTORED = "restored"
    THERE = "there before"
    """An earlier run restored it."""
    REFUSED = "not restored"
    FAILED = "failed"


@dataclass(slots=True)
class TopicLine:
    """One topic of a report.

    Attributes
    ----------
    reason
        Why it is not as it should be, in words; None if it is.
    ledgers
        Of each ledger that was restored its id in the lost cluster, and what the list has of it.
    subscriptions
        How many it has.
    hidden, opened
        How many entries are of aborted transactions, and of transactions that never ended; None where this run restored nothing.
    own_remarks
        What an operator has to know of this outcome, a sentence each.
    compared
        What its brokers served, compared with the bucket; None if they were not asked.

    """

    plan: TopicPlan
    outcome: Outcome
    reason: str | None = None
    ledgers: tuple[tuple[int, LedgerRef], ...] = ()
    subscriptions: int = 0
    hidden: int | None = None
    opened: int | None = None
    own_remarks: list[str] = field(default_factory=list)
    compared: "TopicComparison | None" = None

    @classmethod
    def of_plan(cls, plan: TopicPlan) -> Self:
        """Return the line of a topic about which nothing was done."""
        outcome = Outcome.PLANNED if plan.refusal is None else Outcome.REFUSED
        return cls(plan, outcome, plan.refusal, subscriptions=len(plan.former.cursors))

    @property
    def is_well(self) -> bool:
        """Whether nothing of it needs a look: what is missing is reported, and no failure."""
        return self.reason is None and (self.compared is None or self.compared.is_whole)

    @property
    def is_served(self) -> bool:
        """Whether the new cluster has the topic from this bucket, by this run or an earlier one."""
        return self.outcome in {Outcome.RESTORED, Outcome.THERE}

    @property
    def remarks(self) -> list[str]:
        """What an operator has to know, a sentence each."""
        found = [*self.plan.remarks, *self.own_remarks]
        if self.hidden:
            found.append(f"{self.hidden:,} entries of aborted transactions, which no reader gets")
        if self.opened:
            found.append(f"{self.opened:,} entries of transactions of which no end is known")
        return found


@dataclass(frozen=True, slots=True)
class Report:
    """All of a plan, or of a run.

    Attributes
    ----------
    bucket, cluster, dump
        URLs and files, without credentials; None for no dump.
    known_until_ms
        Up to when the lost cluster is known: the beginning of its dump, ms since 1970 UTC; None without one.
    began_ms, ended_ms
        When the run began and ended; equal for a plan.
    remarks
        What concerns all topics, a sentence each.
    by_hand
        Settings of the lost cluster that are left to be set by hand.

    """

    bucket: str
    cluster: str
    dump: str | None
    known_until_ms: int | None
    began_ms: int
    ended_ms: int
    topics: Sequence[TopicLine]
    remarks: Sequence[str] = ()
    by_hand: Sequence[FormerSetting] = ()

    @property
    def is_well(self) -> bool:
        """Whether each topic that was wanted is as it should be."""
        return all(one.is_well for one in self.topics)

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            "bucket": self.bucket,
            "cluster": self.cluster,
            "dump": self.dump,
            "known_until": iso_time(self.known_until_ms),
            "began": iso_time(self.began_ms),
            "ended": iso_time(self.ended_ms),
            "topics": [_topic_as_json(one) for one in self.topics],
            "remarks": list(self.remarks),
            "by_hand": [one.as_json() for one in self.by_hand],
        }


def missing_text(plan: TopicPlan) -> str:
    """Return how many entries will be missing, in words."""
    known = plan.missing_entries
    if not plan.former.is_known:
        return f"{known:,}, and what nobody knows of" if known else "not known"
    if plan.is_missing_exact or all(one.entries == 0 for one in plan.missing):
        return f"{known:,} up to the dump" if known else "none up to the dump"
    return f"at least {known:,}"


def parts_to_show(plan: TopicPlan) -> list[MissingPart]:
    """Return the missing parts but those of open ledgers that were empty when they were dumped, as any topic's last one may be."""
    return [one for one in plan.missing if one.entries != 0]


def part_text(part: MissingPart) -> str:
    """Return a missing part in words."""
    ids = (
        f"ledger {part.first_ledger}"
        if part.ledgers == 1
        else f"{part.ledgers:,} ledgers {part.first_ledger} to {part.last_ledger}"
    )
    if part.first_ledger < 0:
        ids = "a ledger of unknown id"
    count = (
        "entries unknown"
        if part.entries is None
        else f"{'at least ' if part.is_at_least else ''}{part.entries:,} entries"
    )
    return f"{ids}: {count}, written {_span(part)}; {part.why}"


def _span(part: MissingPart) -> str:
    since = "from a time that is not known" if part.from_ms is None else f"from {iso_time(part.from_ms)}"
    until = "until the cluster was lost" if part.to_ms is None else f"until {iso_time(part.to_ms)}"
    return f"{since} {until}"


def _topic_as_json(line: TopicLine) -> dict[str, Any]:
    plan = line.plan
    return {
        "topic": plan.topic,
        "target": plan.target_topic,
        "state": line.outcome.value,
        "why": line.reason,
        "ledgers": len(plan.ledgers),
        "entries": plan.entries,
        "bytes": plan.size,
        "subscriptions": line.subscriptions,
        "is_missing_exact": plan.is_missing_exact,
        "missing_entries": plan.missing_entries,
        "missing": [
            {
                "first_ledger": one.first_ledger, "last_ledger": one.last_ledger, "ledgers": one.ledgers, "entries": one.entries,
                "is_at_least": one.is_at_least, "from": iso_time(one.from_ms), "to": iso_time(one.to_ms), "why": one.why,
            }
            for one in plan.missing
        ],
        "aborted_entries": line.hidden,
        "open_entries": line.opened,
        "compared": None if line.compared is None else line.compared.as_json(),
        "remarks": line.remarks,
    }  # fmt: skip

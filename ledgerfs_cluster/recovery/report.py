"""Plans and results of topics: ledgers, subscriptions, missing data; as JSON and in words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCursor
from ledgerfs_cluster.recovery.settings.namespaces import FormerSetting

if TYPE_CHECKING:
    from ledgerfs_cluster.recovery.checking.comparison import TopicComparison


class Outcome(Enum):
    """Planned or actual result of a topic."""

    PLANNED = "to be restored"
    RESTORED = "restored"
    THERE = "there before"
    """An earlier run restored it."""
    REFUSED = "not restored"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MissingPart:
    """Consecutive ledgers that will be missing in the new cluster, wholly or partly.

    Attributes
    ----------
    first_ledger, last_ledger
        Their ids; -1 if unknown.
    ledgers
        Their number.
    entries
        Number of missing entries; None if unknown.
    is_at_least
        Whether there may be more than ``entries``.
    from_ms, to_ms
        Time range of writing, ms since 1970 UTC: after ``from_ms``, until ``to_ms``; None if unknown.
    why
        Why they are missing, in words.

    """

    first_ledger: int
    last_ledger: int
    ledgers: int
    entries: int | None
    from_ms: int | None
    to_ms: int | None
    why: str
    is_at_least: bool = False


@dataclass(frozen=True, slots=True)
class TopicRecovery:
    """A topic of the lost cluster.

    Attributes
    ----------
    source, target
        The managed ledger in the bucket, and the one in the new cluster.
    ledgers
        Restored ledgers, ascending by id, each complete.
    missing
        Missing data.
    info, cursors
        Ledger list and subscriptions by name, from a dump; None and empty without one.
    left_out
        Ids of the bucket's ledgers that the topic no longer had when the lost cluster was dumped.
    remarks
        Warnings for an operator, a sentence each.
    outcome, reason
        Planned or actual result, and the reason if it is not as expected; None if it is.
    listed
        For each restored ledger: its id in the lost cluster, and its metadata in the new list.
    subscriptions
        Number of its subscriptions.
    compared
        Result of comparing the brokers' messages with the bucket; None if they were not compared.

    """

    source: str
    target: str
    ledgers: tuple[LedgerRef, ...] = ()
    missing: tuple[MissingPart, ...] = ()
    info: ManagedLedgerInfo | None = None
    cursors: Mapping[str, DumpedCursor] = field(default_factory=dict)
    left_out: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()
    outcome: Outcome = Outcome.PLANNED
    reason: str | None = None
    listed: tuple[tuple[int, LedgerRef], ...] = ()
    subscriptions: int = 0
    compared: "TopicComparison | None" = None

    @property
    def topic(self) -> str:
        """The topic's name."""
        return topic_of(self.source)

    @property
    def target_topic(self) -> str:
        """Its name in the new cluster."""
        return topic_of(self.target)

    @property
    def whole(self) -> str:
        """The managed ledger in the new cluster without a partition number."""
        return split_partition(self.target)[0]

    @property
    def is_planned(self) -> bool:
        """Whether it is still to be restored."""
        return self.outcome is Outcome.PLANNED

    @property
    def is_served(self) -> bool:
        """Whether the new cluster has the topic from this bucket, by this run or an earlier one."""
        return self.outcome in {Outcome.RESTORED, Outcome.THERE}

    @property
    def is_well(self) -> bool:
        """Whether nothing failed; missing data are reported, but no failure."""
        return self.reason is None and (self.compared is None or self.compared.is_whole)

    @property
    def entries(self) -> int:
        """Number of restored entries."""
        return sum(ref.entries for ref in self.ledgers)

    @property
    def size(self) -> int:
        """Bytes of all restored entries."""
        return sum(ref.length for ref in self.ledgers)

    @property
    def renumbered(self) -> Mapping[int, int]:
        """{ledger: its number of entries in the dump}, of ledgers with another number in the bucket, such as after splitting batches."""
        former = {} if self.info is None else {one.ledger_id: one.entries for one in self.info.ledgers if one.entries}
        return {
            ref.ledger_id: former[ref.ledger_id]
            for ref in self.ledgers
            if ref.entries != former.get(ref.ledger_id, ref.entries)
        }

    @property
    def missing_entries(self) -> int:
        """Number of entries known to be missing."""
        return sum(one.entries or 0 for one in self.missing)

    @property
    def is_missing_exact(self) -> bool:
        """Whether `missing_entries` is exact for everything written before the dump."""
        return self.info is not None and all(one.entries is not None and not one.is_at_least for one in self.missing)

    def with_remarks(self, *remarks: str) -> "TopicRecovery":
        """Return a copy with more warnings."""
        return replace(self, remarks=(*self.remarks, *remarks)) if remarks else self

    def refused(self, reason: str) -> "TopicRecovery":
        """Return a copy that is not restored, with the reason."""
        return replace(self, outcome=Outcome.REFUSED, reason=reason)


@dataclass(frozen=True, slots=True)
class Report:
    """A plan, or the result of a run.

    Attributes
    ----------
    bucket, cluster, dump
        URLs and files, without credentials; None for no dump.
    known_until_ms
        Time until which the lost cluster is known: the beginning of its dump, ms since 1970 UTC; None without one.
    began_ms, ended_ms
        Beginning and end of the run; equal for a plan.
    remarks
        Warnings about all topics, a sentence each.
    by_hand
        Settings of the lost cluster that an operator must set by hand.

    """

    bucket: str
    cluster: str
    dump: str | None
    known_until_ms: int | None
    began_ms: int
    ended_ms: int
    topics: Sequence[TopicRecovery]
    remarks: Sequence[str] = ()
    by_hand: Sequence[FormerSetting] = ()

    @property
    def is_well(self) -> bool:
        """Whether each selected topic is as expected."""
        return all(one.is_well for one in self.topics)

    def as_json(self) -> dict[str, Any]:
        """Return all fields."""
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


def refused(topics: Iterable[TopicRecovery], reasons: Mapping[str, str]) -> list[TopicRecovery]:
    """Refuse planned topics by source, and with each of these all partitions of its topic."""
    made = [one.refused(reasons[one.source]) if one.is_planned and one.source in reasons else one for one in topics]
    others = {stem: one for one in made if one.outcome is Outcome.REFUSED and (stem := _partitioned(one.source))}
    return [
        one.refused(f"another partition of the topic cannot be restored: {others[stem].topic}")
        if one.is_planned and (stem := _partitioned(one.source)) in others
        else one
        for one in made
    ]


def joined(parts: Sequence[MissingPart]) -> tuple[MissingPart, ...]:
    """Join consecutive parts with the same reason: there may be a hundred thousand ledgers."""
    made: list[MissingPart] = []
    for _, group in groupby(parts, key=lambda one: (one.why, one.entries is None, one.is_at_least)):
        first, *_ = same = list(group)
        entries = None if first.entries is None else sum(one.entries or 0 for one in same)
        ledgers, last = sum(one.ledgers for one in same), same[-1]
        made.append(replace(first, last_ledger=last.last_ledger, ledgers=ledgers, entries=entries, to_ms=last.to_ms))
    return tuple(made)


def _partitioned(managed_ledger: str) -> str:
    """Return the partitioned topic of a partition; "" for other topics."""
    name, partition = split_partition(managed_ledger)
    return "" if partition is None else name


def missing_text(topic: TopicRecovery) -> str:
    """Return how many entries will be missing, in words."""
    known = topic.missing_entries
    if topic.info is None:
        return f"at least {known:,}" if known else "unknown"
    if topic.is_missing_exact or all(one.entries == 0 for one in topic.missing):
        return f"{known:,} up to the dump" if known else "none up to the dump"
    return f"at least {known:,}"


def part_text(part: MissingPart) -> str:
    """Return a missing part in words."""
    ids = f"{part.ledgers:,} ledgers {part.first_ledger} to {part.last_ledger}"
    if part.ledgers == 1:
        ids = f"ledger {part.first_ledger}"
    if part.first_ledger < 0:
        ids = "a ledger of unknown id"
    count = "unknown number of entries"
    if part.entries is not None:
        count = f"{'at least ' if part.is_at_least else ''}{part.entries:,} entries"
    since = "from an unknown time" if part.from_ms is None else f"from {iso_time(part.from_ms)}"
    until = "until the cluster was lost" if part.to_ms is None else f"until {iso_time(part.to_ms)}"
    return f"{ids}: {count}, written {since} {until}; {part.why}"


def _topic_as_json(topic: TopicRecovery) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "target": topic.target_topic,
        "state": topic.outcome.value,
        "why": topic.reason,
        "ledgers": len(topic.ledgers),
        "entries": topic.entries,
        "bytes": topic.size,
        "subscriptions": topic.subscriptions,
        "is_missing_exact": topic.is_missing_exact,
        "missing_entries": topic.missing_entries,
        "missing": [
            {
                "first_ledger": one.first_ledger, "last_ledger": one.last_ledger, "ledgers": one.ledgers, "entries": one.entries,
                "is_at_least": one.is_at_least, "from": iso_time(one.from_ms), "to": iso_time(one.to_ms), "why": one.why,
            }
            for one in topic.missing
        ],
        "compared": None if topic.compared is None else topic.compared.as_json(),
        "remarks": list(topic.remarks),
    }  # fmt: skip

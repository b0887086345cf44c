"""Report of a recovery: of each topic what is there, what is lost, and from when to when, as JSON and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ledgerfs.ledgers.time_arguments import iso_time
from ledgerfs.recovery.checking.comparison import TopicComparison
from ledgerfs.recovery.planning.topic_plan import MissingPart, TopicPlan
from ledgerfs.recovery.settings.former_settings import FormerSetting
from ledgerfs.recovery.topics.restoring import Outcome, RestoredTopic


@dataclass(frozen=True, slots=True)
class TopicLine:
    """One topic of a report.

    Attributes
    ----------
    done
        What became of it; None in a plan.
    compared
        What its brokers served, compared with the bucket; None if they were not asked.
    trouble
        Why it is not as it should be, whatever the rest says; None if it is.

    """

    plan: TopicPlan
    done: RestoredTopic | None = None
    compared: TopicComparison | None = None
    trouble: str | None = None

    @property
    def why(self) -> str | None:
        """Why it is not as it should be; None if it is."""
        if self.trouble is not None:
            return self.trouble
        if self.done is not None and self.done.why is not None:
            return self.done.why
        return self.plan.refusal

    @property
    def is_well(self) -> bool:
        """Whether nothing of it needs a look: what is missing is told, and no failure."""
        return self.why is None and (self.compared is None or self.compared.is_whole)

    @property
    def state(self) -> str:
        """What became of it, a word or two."""
        if self.done is not None:
            return self.done.outcome.value
        return Outcome.REFUSED.value if self.plan.refusal is not None else "to be restored"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What somebody has to know, a sentence each."""
        return (*self.plan.remarks, *(() if self.done is None else self.done.remarks))


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


def parts_to_tell(plan: TopicPlan) -> list[MissingPart]:
    """Return the missing parts but those of open ledgers that were empty when they were dumped, as any topic's last one may be."""
    return [one for one in plan.missing if one.entries != 0]


def transaction_texts(line: TopicLine) -> list[str]:
    """Return how many entries are of transactions that were not committed, in words."""
    told = []
    if line.done is not None and line.done.hidden:
        told.append(f"{line.done.hidden:,} entries of aborted transactions, which no reader gets")
    if line.done is not None and line.done.opened:
        told.append(f"{line.done.opened:,} entries of transactions of which no end is known")
    return told


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


def comparison_text(found: TopicComparison) -> str:
    """Return what a comparison found, in words."""
    kinds = {
        "differ": found.differing,
        "missing": found.missing,
        "unexpected": found.unexpected,
        "repeated": found.repeated,
    }
    bad = [f"{one.count:,} {name} ({', '.join(map(str, one.first[:3]))})" for name, one in kinds.items() if one.count]
    compared = f"{found.same:,} of {found.expected:,} the same{' (sample)' if found.is_sample else ''}"
    appended = f", {found.appended:,} appended since" if found.appended else ""
    silent = ", brokers stopped sending" if found.is_silent else ""
    dropped = f", {found.not_compared:,} not compared (Pulsar's client drops them)" if found.not_compared else ""
    return ", ".join([compared, *bad]) + appended + silent + dropped


def _comparison_as_json(found: TopicComparison) -> dict[str, Any]:
    kinds = {name: getattr(found, name) for name in ("differing", "missing", "unexpected", "repeated")}
    return {
        "expected": found.expected,
        "same": found.same,
        "is_sample": found.is_sample,
        "is_silent": found.is_silent,
        "appended": found.appended,
        "not_compared": found.not_compared,
        **{name: {"messages": one.count, "first": [str(at) for at in one.first]} for name, one in kinds.items()},
    }


def _span(part: MissingPart) -> str:
    since = "from a time that is not known" if part.from_ms is None else f"from {iso_time(part.from_ms)}"
    until = "until the cluster was lost" if part.to_ms is None else f"until {iso_time(part.to_ms)}"
    return f"{since} {until}"


def _topic_as_json(line: TopicLine) -> dict[str, Any]:
    plan, done = line.plan, line.done
    return {
        "topic": plan.topic,
        "target": plan.target_topic,
        "state": line.state,
        "why": line.why,
        "ledgers": len(plan.ledgers),
        "entries": plan.entries,
        "bytes": plan.size,
        "subscriptions": len(plan.former.cursors) if done is None else done.subscriptions,
        "is_missing_exact": plan.is_missing_exact,
        "missing_entries": plan.missing_entries,
        "missing": [
            {
                "first_ledger": one.first_ledger, "last_ledger": one.last_ledger, "ledgers": one.ledgers, "entries": one.entries,
                "is_at_least": one.is_at_least, "from": iso_time(one.from_ms), "to": iso_time(one.to_ms), "why": one.why,
            }
            for one in plan.missing
        ],
        "aborted_entries": None if done is None else done.hidden,
        "open_entries": None if done is None else done.opened,
        "compared": None if line.compared is None else _comparison_as_json(line.compared),
        "remarks": list(line.remarks),
    }  # fmt: skip

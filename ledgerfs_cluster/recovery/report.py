"""Report of a recovery: of each topic what is there, what is lost, and from when to when, as JSON and in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs_cluster.recovery.settings.namespaces import FormerSetting
from ledgerfs_cluster.recovery.topic_recovery import MissingPart, TopicRecovery


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
    topics: Sequence[TopicRecovery]
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


def missing_text(topic: TopicRecovery) -> str:
    """Return how many entries will be missing, in words."""
    known = topic.missing_entries
    if topic.info is None:
        return f"{known:,}, and what nobody knows of" if known else "not known"
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
    count = "entries unknown"
    if part.entries is not None:
        count = f"{'at least ' if part.is_at_least else ''}{part.entries:,} entries"
    since = "from a time that is not known" if part.from_ms is None else f"from {iso_time(part.from_ms)}"
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
        "aborted_entries": topic.hidden,
        "open_entries": topic.opened,
        "compared": None if topic.compared is None else topic.compared.as_json(),
        "remarks": list(topic.remarks),
    }  # fmt: skip

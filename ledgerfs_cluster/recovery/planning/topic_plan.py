"""What is to become of one topic: its ledgers, its subscriptions, and what will be missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Properties
from ledgerfs_cluster.recovery.lost.dumped_cluster import DumpedCursor


@dataclass(frozen=True, slots=True)
class MissingPart:
    """Ledgers, one after the other, that the new cluster will not have, or not all of.

    Attributes
    ----------
    first_ledger, last_ledger
        Their ids; -1 where nothing tells them.
    ledgers
        How many they are.
    entries
        How many entries will be missing; None if that is not known.
    is_at_least
        Whether there may be more than ``entries``.
    from_ms, to_ms
        When these were written, ms since 1970 UTC: after the one, until the other; None if not known.
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
class FormerTopic:
    """A topic as the dump of the lost cluster has it.

    Attributes
    ----------
    is_known
        Whether there is its list; without one nobody knows what else there was.
    closed_ms
        {ledger: when it was closed, ms since 1970 UTC}.
    entries
        {ledger: its entries}, of those that were closed.
    cursors
        {name: subscription}, but those that are not restored.
    is_terminated
        Whether it took no more messages.
    properties
        Of the managed ledger.

    """

    is_known: bool = False
    closed_ms: Mapping[int, int] = field(default_factory=dict)
    entries: Mapping[int, int] = field(default_factory=dict)
    cursors: Mapping[str, DumpedCursor] = field(default_factory=dict)
    is_terminated: bool = False
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic of the lost cluster.

    Attributes
    ----------
    source, target
        The managed ledger in the bucket, and the one that is made in the new cluster.
    ledgers
        What is restored, ascending by id, each as a whole.
    missing
        What will be missing.
    former
        What a dump tells of it.
    left_out
        Ids of ledgers in the bucket that were not the topic's any more when the lost cluster was dumped.
    remarks
        What an operator has to know, a sentence each.
    refusal
        Why the topic is not restored; None if it is.

    """

    source: str
    target: str
    ledgers: tuple[LedgerRef, ...] = ()
    missing: tuple[MissingPart, ...] = ()
    former: FormerTopic = field(default_factory=FormerTopic)
    left_out: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()
    refusal: str | None = None

    @property
    def topic(self) -> str:
        """The topic as users know it."""
        return topic_of(self.source)

    @property
    def target_topic(self) -> str:
        """What it is called in the new cluster."""
        return topic_of(self.target)

    @property
    def entries(self) -> int:
        """How many entries are restored."""
        return sum(ref.entries for ref in self.ledgers)

    @property
    def size(self) -> int:
        """Bytes of all entries that are restored."""
        return sum(ref.length for ref in self.ledgers)

    @property
    def renumbered(self) -> Mapping[int, int]:
        """{ledger: how many entries it has by the dump}, of those that have others in the bucket: their batches were split since, say."""
        former = self.former.entries
        return {
            ref.ledger_id: former[ref.ledger_id]
            for ref in self.ledgers
            if ref.entries != former.get(ref.ledger_id, ref.entries)
        }

    @property
    def missing_entries(self) -> int:
        """How many entries are known to be missing."""
        return sum(one.entries or 0 for one in self.missing)

    @property
    def is_missing_exact(self) -> bool:
        """Whether no more can be missing than `missing_entries`, of what was written before the dump."""
        return self.former.is_known and all(one.entries is not None and not one.is_at_least for one in self.missing)


def joined(parts: Sequence[MissingPart]) -> tuple[MissingPart, ...]:
    """Return parts with those as one that follow each other for the same reason: there may be a hundred thousand ledgers."""
    made: list[MissingPart] = []
    for _, group in groupby(parts, key=lambda one: (one.why, one.entries is None, one.is_at_least)):
        same = list(group)
        first, last = same[0], same[-1]
        made.append(
            MissingPart(
                first.first_ledger,
                last.last_ledger,
                sum(one.ledgers for one in same),
                None if first.entries is None else sum(one.entries or 0 for one in same),
                first.from_ms,
                last.to_ms,
                first.why,
                first.is_at_least,
            )
        )
    return tuple(made)

"""What a bookie's collector would do with each entry log, why, and what that frees and costs.

The rules are those of BookKeeper 4.17's collector. Each run of it deletes logs without a live ledger. Then, if that is due or forced, it
compacts logs whose live share is below a threshold: it writes what lives again, into the log that is being written, and deletes the log.
When major compaction is due it does that alone, for its threshold is the higher one; what is below the minor threshold goes with it.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ledgerfs.disks.collector.log_use import CountedBy, Int8, LogUse, is_in
from ledgerfs.disks.collector.rules import CollectorRules, Float64
from ledgerfs.formats.array_types import Int64, Mask


class Fate(IntEnum):
    """What happens to a log."""

    CURRENT = 0
    """It is being written, and never collected."""
    DELETED = 1
    """By the next run of the collector."""
    MINOR = 2
    """It is compacted by the next minor or major compaction."""
    MAJOR = 3
    """It is compacted by the next major compaction."""
    KEPT = 4
    """It stays."""


class Why(IntEnum):
    """Why."""

    CURRENT = 0
    NO_LEDGER = 1
    ALL_DEAD = 2
    BELOW_MINOR = 3
    BELOW_MAJOR = 4
    NOT_RUN = 5
    ENOUGH_LIVES = 6
    NO_METADATA = 7
    NOT_READ = 8

    @property
    def phrase(self) -> str:
        """It in words."""
        return _PHRASES[self]


_PHRASES = {
    Why.CURRENT: "it is being written: such a log is never collected",
    Why.NO_LEDGER: "no ledger has an entry in it",
    Why.ALL_DEAD: "none of its ledgers lives",
    Why.BELOW_MINOR: "its live share is below the minor threshold",
    Why.BELOW_MAJOR: "its live share is below the major threshold",
    Why.NOT_RUN: "its live share is below a threshold, but that compaction is off or suspended",
    Why.ENOUGH_LIVES: "its live share is not below a threshold of compaction",
    Why.NO_METADATA: "without metadata no ledger is known to be dead",
    Why.NOT_READ: "it could not be read: nothing is known of its ledgers",
}


@dataclass(frozen=True, slots=True)
class FateSum:
    """The logs of one fate: how many, bytes of their files, bytes freed, and what is written again, in how many seconds.

    ``entries`` is -1, and ``seconds`` NaN, if that is not known of each of them.
    """

    logs: int
    file_size: int
    freed: int
    rewritten: int
    entries: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LogSpace:
    """Each entry log of a ledger directory: what lives of it, and what the collector does with it. `log_space` makes it.

    All but the first four have shape (logs,).

    Attributes
    ----------
    use, rules
        What it was made of.
    has_metadata
        Whether it is known which ledgers live; if not, all do but those that were said not to.
    are_live
        Which rows of ``use`` are of live ledgers; shape (rows,).
    totals, live_sizes
        Bytes of all entries, and of those of live ledgers, each with its size field.
    live_entries
        Entries of live ledgers, -1 if that is not known.
    usages
        The live share, as the collector compares it: 0 for a log without entries.
    ledgers, live_ledgers
        How many there are.
    fates, whys
        `Fate` and `Why`.
    freed
        Bytes that the directory has less afterwards: of a compacted log its file without what is written again.
    rewritten
        Bytes that compaction writes again; 0 for logs that are not compacted.
    seconds
        How long that takes by the rate of the rules, NaN if that is not known.

    """

    use: LogUse
    rules: CollectorRules
    has_metadata: bool
    are_live: Mask
    totals: Int64
    live_sizes: Int64
    live_entries: Int64
    usages: Float64
    ledgers: Int64
    live_ledgers: Int64
    fates: Int8
    whys: Int8
    freed: Int64
    rewritten: Int64
    seconds: Float64

    def why(self, row: int) -> str:
        """Return in words why that happens to a log."""
        return Why(int(self.whys[row])).phrase

    def sum_of(self, fate: Fate) -> FateSum:
        """Return the sums of the logs of a fate."""
        rows = np.flatnonzero(self.fates == fate)
        entries = np.where(self.rewritten[rows] > 0, self.live_entries[rows], 0)
        return FateSum(
            rows.size,
            int(self.use.file_sizes[rows].sum()),
            int(self.freed[rows].sum()),
            int(self.rewritten[rows].sum()),
            -1 if np.any(entries < 0) else int(entries.sum()),
            float(self.seconds[rows].sum()),
        )


def log_space(use: LogUse, rules: CollectorRules, live: Int64 | None, dead: Int64 | None = None) -> LogSpace:
    """Return what the collector would do with each log.

    ``live`` are the ids of ledgers in the metadata, ascending; without (None), all ledgers live. Ledgers of ``dead``, ascending too, are
    dead in any case.
    """
    are_live = np.ones(use.ledger_ids.size, np.bool_) if live is None else is_in(use.ledger_ids, live)
    if dead is not None:
        are_live &= ~is_in(use.ledger_ids, dead)
    totals, live_sizes = use.sums(use.sizes), use.sums(np.where(are_live, use.sizes, 0))
    ledgers, live_ledgers = np.diff(use.firsts), use.sums(are_live)
    live_entries = use.entry_sums(are_live)
    usages = _usages(totals, live_sizes, rules.target_log_size)
    fates, whys = _fates(use, rules, usages, ledgers, live_ledgers)
    if live is None:
        whys[whys == Why.ENOUGH_LIVES] = Why.NO_METADATA
    is_compacted = (fates == Fate.MINOR) | (fates == Fate.MAJOR)
    rewritten = np.where(is_compacted, live_sizes, 0)
    freed = np.where(is_compacted | (fates == Fate.DELETED), use.file_sizes - rewritten, 0)
    seconds = np.where(is_compacted, rules.throttle.seconds(live_entries, live_sizes), 0.0)
    return LogSpace(
        use,
        rules,
        live is not None,
        are_live,
        totals,
        live_sizes,
        live_entries,
        usages,
        ledgers,
        live_ledgers,
        fates,
        whys,
        freed,
        rewritten,
        seconds,
    )


@dataclass(frozen=True, slots=True)
class IfDead:
    """What the collector does with each log, before and after some ledgers are gone from the metadata."""

    before: LogSpace
    after: LogSpace

    @property
    def freed(self) -> int:
        """How many bytes more are freed then, by deleting and by compacting."""
        return int(self.after.freed.sum()) - int(self.before.freed.sum())

    @property
    def rewritten(self) -> int:
        """How many bytes more compaction writes again then; often below 0."""
        return int(self.after.rewritten.sum()) - int(self.before.rewritten.sum())

    @property
    def changed(self) -> Int64:
        """Rows of the logs to which something else happens then."""
        return np.flatnonzero(self.before.fates != self.after.fates)


def if_dead(use: LogUse, rules: CollectorRules, live: Int64 | None, ledger_ids: Int64) -> IfDead:
    """Return what it would change if some ledgers were dead, as after they are offloaded and deleted, or trimmed; ids in any order."""
    return IfDead(log_space(use, rules, live), log_space(use, rules, live, np.sort(ledger_ids)))


def _usages(totals: Int64, live_sizes: Int64, target_log_size: int) -> Float64:
    """Return live shares by division of doubles, as a bookie computes them."""
    usages = np.zeros(totals.size, np.float64)
    np.divide(live_sizes, totals, out=usages, where=totals > 0)
    if target_log_size:
        usages = np.where(usages < 1, live_sizes / np.maximum(totals, target_log_size), usages)
    return usages


def _fates(
    use: LogUse, rules: CollectorRules, usages: Float64, ledgers: Int64, live_ledgers: Int64
) -> tuple[Int8, Int8]:
    """Return `Fate` and `Why` of each log; of what holds for several, the last one here."""
    fates = np.full(usages.size, Fate.KEPT, np.int8)
    whys = np.full(usages.size, Why.ENOUGH_LIVES, np.int8)
    below_minor, below_major = usages < rules.minor_threshold, usages < rules.major_threshold
    whys[below_minor | below_major] = Why.NOT_RUN
    cases = [
        (below_major & rules.runs_major, Fate.MAJOR, Why.BELOW_MAJOR),
        (below_minor & rules.runs_minor, Fate.MINOR, Why.BELOW_MINOR),
        (live_ledgers == 0, Fate.DELETED, Why.ALL_DEAD),
        (ledgers == 0, Fate.DELETED, Why.NO_LEDGER),
        (use.counted_by == CountedBy.NOTHING, Fate.KEPT, Why.NOT_READ),
        (use.are_current, Fate.CURRENT, Why.CURRENT),
    ]
    for holds, fate, why in cases:
        fates[holds], whys[holds] = fate, why
    return fates, whys

"""When a bookie's collector compacts a log, and how fast it may: the part of a bookie's configuration that decides it."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.array_types import Int64

Float64 = npt.NDArray[np.float64]
SIZE_FIELD = 4
"""Bytes before each entry of a log, which ledgers maps count, and the throttle does not."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """How many entries, or bytes of entries, a collector reads and writes again in a second.

    Raises `InvalidOptionError` for a rate that is not above 0.
    """

    is_by_bytes: bool
    per_second: float

    def __post_init__(self) -> None:
        if not 0 < self.per_second < math.inf:
            raise InvalidOptionError("a rate has to be above 0", key=str(self.per_second))

    def seconds(self, entries: Int64, sizes: Int64) -> Float64:
        """Return how long each of some logs takes; NaN if that needs its entries, and they are not known (-1).

        ``sizes`` count the size field of each entry. By bytes, entries that are not known make this up to 4 bytes an entry too long.
        """
        is_known = entries >= 0
        if self.is_by_bytes:
            return np.where(is_known, sizes - SIZE_FIELD * entries, sizes) / self.per_second
        return np.where(is_known, entries / self.per_second, np.nan)


@dataclass(frozen=True, slots=True)
class CollectorRules:
    """A bookie's settings, with the defaults of Pulsar's ``bookkeeper.conf``; a bookie refuses to start with what is refused here.

    Attributes
    ----------
    minor_threshold, major_threshold
        A log is compacted if its live share is below: ``minorCompactionThreshold``, ``majorCompactionThreshold``; 0 for never.
    minor_interval_s, major_interval_s
        How often that is done by itself, in seconds: ``minorCompactionInterval``, ``majorCompactionInterval``; 0 or less for never.
    gc_wait_s
        Seconds between two runs of the collector: ``gcWaitTime``. Logs without a live ledger are deleted in each.
    is_throttled_by_bytes, entries_per_second, bytes_per_second
        ``isThrottleByBytes``, ``compactionRateByEntries``, ``compactionRateByBytes``.
    force_allows_compaction
        Whether a run that is forced compacts also what has no interval: ``forceAllowCompaction``.
    target_log_size
        ``logSizeLimit`` in bytes if ``useTargetEntryLogSizeForGc`` is on: a smaller log's share is that of this size; 0 for off.
    minor_suspended, major_suspended
        Whether the bookie has suspended it, as it does with major compaction when a disk is nearly full, and with both when it is full,
        unless ``isForceGCAllowWhenNoSpace`` is on.

    Raises `InvalidOptionError`.

    """

    minor_threshold: float = 0.2
    major_threshold: float = 0.5
    minor_interval_s: float = 3600
    major_interval_s: float = 86_400
    gc_wait_s: float = 900
    is_throttled_by_bytes: bool = False
    entries_per_second: float = 1000
    bytes_per_second: float = 1_000_000
    force_allows_compaction: bool = True
    target_log_size: int = 0
    minor_suspended: bool = False
    major_suspended: bool = False

    def __post_init__(self) -> None:
        if not self.gc_wait_s > 0:
            raise InvalidOptionError("the time between two runs has to be above 0 s", key=f"gc wait {self.gc_wait_s}")
        self._check("minor", self.minor_threshold, self.minor_interval_s)
        self._check("major", self.major_threshold, self.major_interval_s)
        if self.has_minor_interval and self.has_major_interval:
            if self.minor_threshold >= self.major_threshold:
                reason = "the minor threshold has to be below the major one"
                raise InvalidOptionError(reason, key=f"{self.minor_threshold}, {self.major_threshold}")
            if self.minor_interval_s >= self.major_interval_s:
                reason = "the minor interval has to be shorter than the major one"
                raise InvalidOptionError(reason, key=f"{self.minor_interval_s}, {self.major_interval_s}")
        if self.target_log_size < 0:
            raise InvalidOptionError("the size of a log cannot be below 0", key=str(self.target_log_size))
        for rate in (self.entries_per_second, self.bytes_per_second):
            Throttle(is_by_bytes=self.is_throttled_by_bytes, per_second=rate)

    def _check(self, name: str, threshold: float, interval_s: float) -> None:
        if not 0 <= threshold <= 1:
            raise InvalidOptionError("a threshold is a share from 0 to 1", key=f"{name} threshold {threshold}")
        if math.isnan(interval_s) or (interval_s > 0 and threshold > 0 and interval_s < self.gc_wait_s):
            reason = f"the interval has to be at least the {self.gc_wait_s} s between two runs"
            raise InvalidOptionError(reason, key=f"{name} interval {interval_s}")

    @property
    def has_minor_interval(self) -> bool:
        """Whether minor compaction is done without being forced, unless it is suspended."""
        return self.minor_interval_s > 0 and self.minor_threshold > 0

    @property
    def has_major_interval(self) -> bool:
        """Whether major compaction is done without being forced, unless it is suspended."""
        return self.major_interval_s > 0 and self.major_threshold > 0

    @property
    def runs_minor(self) -> bool:
        """Whether minor compaction is done at all, by itself or forced."""
        may_be_forced = self.force_allows_compaction and 0 < self.minor_threshold < 1
        return not self.minor_suspended and (self.has_minor_interval or may_be_forced)

    @property
    def runs_major(self) -> bool:
        """Whether major compaction is done at all, by itself or forced."""
        may_be_forced = self.force_allows_compaction and 0 < self.major_threshold < 1
        return not self.major_suspended and (self.has_major_interval or may_be_forced)

    @property
    def throttle(self) -> Throttle:
        """The one of both rates that holds."""
        rate = self.bytes_per_second if self.is_throttled_by_bytes else self.entries_per_second
        return Throttle(is_by_bytes=self.is_throttled_by_bytes, per_second=rate)


BOOKKEEPERS_DEFAULTS = CollectorRules(major_threshold=0.8, gc_wait_s=600, force_allows_compaction=False)
"""What a bookie does without Pulsar's ``bookkeeper.conf``."""

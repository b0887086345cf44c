"""What a bookie's collector does with logs: by hand, and against its loop, log by log."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.disks.collector.compaction import compaction_order, plan, scan_seconds, tenths
from ledgerfs.disks.collector.log_use import CountedBy, LogUse, log_use
from ledgerfs.disks.collector.rules import BOOKKEEPERS_DEFAULTS, CollectorRules, Throttle
from ledgerfs.disks.collector.scattered import NO_NAME, LedgerNames, held_by_ledgers, held_by_names, scattered
from ledgerfs.disks.collector.space import Fate, LogSpace, Why, if_dead, log_space
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.array_types import Int64
from tests.support.each import for_each

PULSAR = CollectorRules()
HEADER = 1024


@dataclass
class Log:
    """A log as its map has it; its file has a header besides."""

    id: int
    ledgers: dict[int, int] = field(default_factory=dict)
    is_current: bool = False
    by: CountedBy = CountedBy.MAP
    entries: dict[int, int] = field(default_factory=dict)

    @property
    def file_size(self) -> int:
        return HEADER + sum(self.ledgers.values())


def ids(*values: int) -> Int64:
    return np.array(values, np.int64)


def use_of(*logs: Log) -> LogUse:
    triples = [(log.id, ledger, size) for log in logs for ledger, size in log.ledgers.items()]
    columns = np.array(triples, np.int64).reshape(-1, 3)
    entries = [log.entries.get(ledger, -1) for log in logs for ledger in log.ledgers]
    return log_use(
        ids(*(log.id for log in logs)),
        ids(*(log.file_size for log in logs)),
        np.array([log.is_current for log in logs], np.bool_),
        np.array([log.by for log in logs], np.int8),
        (columns[:, 0], columns[:, 1], columns[:, 2]),
        entries=ids(*entries),
    )


def fates(space: LogSpace) -> list[Fate]:
    return [Fate(one) for one in space.fates.tolist()]


def whys(space: LogSpace) -> list[Why]:
    return [Why(one) for one in space.whys.tolist()]


def test_each_fate_and_what_it_frees_and_costs() -> None:
    use = use_of(
        Log(0, {1: 600, 2: 400}),
        Log(1, {1: 900, 3: 100}, entries={3: 4}),
        Log(2, {1: 700, 3: 300}, entries={3: 12}),
        Log(3, {1: 100, 3: 900}),
        Log(4, {1: 500}, is_current=True),
    )
    space = log_space(use, PULSAR, ids(3))
    assert fates(space) == [Fate.DELETED, Fate.MINOR, Fate.MAJOR, Fate.KEPT, Fate.CURRENT]
    assert whys(space) == [Why.ALL_DEAD, Why.BELOW_MINOR, Why.BELOW_MAJOR, Why.ENOUGH_LIVES, Why.CURRENT]
    assert space.usages.tolist() == [0, 0.1, 0.3, 0.9, 0]
    assert space.totals.tolist() == [1000, 1000, 1000, 1000, 500]
    assert space.live_sizes.tolist() == [0, 100, 300, 900, 0]
    assert space.ledgers.tolist() == [2, 2, 2, 2, 1]
    assert space.live_ledgers.tolist() == [0, 1, 1, 1, 0]
    assert space.freed.tolist() == [2024, 1924, 1724, 0, 0]
    assert space.rewritten.tolist() == [0, 100, 300, 0, 0]
    assert space.seconds.tolist() == [0, 0.004, 0.012, 0, 0]
    minor = space.sum_of(Fate.MINOR)
    assert (minor.logs, minor.file_size, minor.freed, minor.rewritten, minor.entries) == (1, 2024, 1924, 100, 4)
    assert space.sum_of(Fate.DELETED).freed == 2024
    assert space.sum_of(Fate.DELETED).entries == 0
    assert space.why(1) == "its live share is below the minor threshold"


@for_each(
    ("live", "fate"),
    [(199, Fate.MINOR), (200, Fate.MAJOR), (499, Fate.MAJOR), (500, Fate.KEPT), (1000, Fate.KEPT)],
)
def test_a_share_at_a_threshold_is_not_below_it(live: int, fate: Fate) -> None:
    use = use_of(Log(0, {1: live, 2: 1000 - live}))
    assert fates(log_space(use, PULSAR, ids(1))) == [fate]


def test_shares_are_divisions_of_doubles() -> None:
    """The exact quotient is below 0.2, and the nearest double is 0.2: a bookie does not compact the log in a minor compaction."""
    total = 5 * 10**17
    use = use_of(Log(0, {1: total // 5 - 1, 2: total - total // 5 + 1}))
    space = log_space(use, PULSAR, ids(1))
    assert space.usages[0] == 0.2
    assert fates(space) == [Fate.MAJOR]


def test_bookkeepers_own_threshold() -> None:
    use = use_of(Log(0, {1: 79, 2: 21}), Log(1, {1: 80, 2: 20}))
    assert fates(log_space(use, BOOKKEEPERS_DEFAULTS, ids(1))) == [Fate.MAJOR, Fate.KEPT]


def test_a_log_without_entries_is_deleted_and_one_that_was_not_read_is_not() -> None:
    use = use_of(Log(0), Log(1, by=CountedBy.NOTHING), Log(2, by=CountedBy.SCAN), Log(3, is_current=True))
    space = log_space(use, PULSAR, ids(1))
    assert fates(space) == [Fate.DELETED, Fate.KEPT, Fate.DELETED, Fate.CURRENT]
    assert whys(space) == [Why.NO_LEDGER, Why.NOT_READ, Why.NO_LEDGER, Why.CURRENT]
    assert space.freed.tolist() == [HEADER, 0, HEADER, 0]


def test_a_live_ledger_of_no_bytes_keeps_its_log_from_deletion_but_not_from_compaction() -> None:
    space = log_space(use_of(Log(0, {1: 0})), PULSAR, ids(1))
    assert fates(space) == [Fate.MINOR]
    assert space.usages.tolist() == [0]
    assert log_space(use_of(Log(0, {1: 1})), PULSAR, ids(1)).usages.tolist() == [1]


def test_without_metadata_nothing_is_dead() -> None:
    use = use_of(Log(0, {1: 10}), Log(1), Log(2, {2: 1}, is_current=True))
    space = log_space(use, PULSAR, None)
    assert not space.has_metadata
    assert fates(space) == [Fate.KEPT, Fate.DELETED, Fate.CURRENT]
    assert whys(space) == [Why.NO_METADATA, Why.NO_LEDGER, Why.CURRENT]
    # Metadata that has no ledger is something else.
    assert fates(log_space(use, PULSAR, ids())) == [Fate.DELETED, Fate.DELETED, Fate.CURRENT]


def test_no_logs() -> None:
    space = log_space(use_of(), PULSAR, ids(1))
    assert fates(space) == []
    assert plan(space).rows.tolist() == []
    assert plan(space).room == 0
    found = scattered(space)
    assert held_by_ledgers(found).keys.tolist() == []
    assert held_by_names(found, LedgerNames(ids(), ids())).keys.tolist() == []


def test_what_is_told_twice_of_a_ledger_is_added_up() -> None:
    use = log_use(
        ids(7, 3),
        ids(900, 800),
        np.array([True, False]),
        CountedBy.SCAN,
        (ids(3, 7, 3, 3, 7), ids(2, 1, 1, 2, 1), ids(5, 6, 7, 8, 9)),
        entries=ids(1, -1, 1, 2, 4),
    )
    assert use.log_ids.tolist() == [3, 7]
    assert use.file_sizes.tolist() == [800, 900]
    assert use.are_current.tolist() == [False, True]
    assert use.firsts.tolist() == [0, 2, 3]
    assert use.ledger_ids.tolist() == [1, 2, 1]
    assert use.sizes.tolist() == [7, 13, 15]
    assert use.entries.tolist() == [1, 3, -1]


@for_each(
    ("log_ids", "by", "triples", "reason"),
    [
        ((1, 1), CountedBy.MAP, ((), (), ()), "twice"),
        ((1, 2), CountedBy.MAP, ((3,), (1,), (1,)), "not among the logs"),
        ((1, 2), CountedBy.NOTHING, ((1,), (1,), (1,)), "not read"),
        ((1, 2), CountedBy.MAP, ((1,), (1, 2), (1,)), "one length"),
        ((1, 2, 3), CountedBy.MAP, ((), (), ()), "one length"),
        ((1, 2), CountedBy.MAP, ((1,), (-1,), (1,)), "below 0"),
        ((1, 2), CountedBy.MAP, ((1,), (1,), (-1,)), "below 0"),
    ],
)
def test_columns_that_make_no_sense(log_ids: tuple[int, ...], by: CountedBy, triples: tuple, reason: str) -> None:
    logs, ledgers, sizes = (ids(*column) for column in triples)
    with pytest.raises(InvalidOptionError, match=reason):
        log_use(ids(*log_ids), ids(9, 9), np.zeros(2, np.bool_), by, (logs, ledgers, sizes))


@for_each(
    "wrong",
    [
        {"minor_threshold": 1.1},
        {"major_threshold": -0.1},
        {"major_threshold": math.nan},
        {"minor_threshold": 0.5},
        {"minor_interval_s": 86_400},
        {"minor_interval_s": 899},
        {"major_interval_s": math.nan},
        {"gc_wait_s": 0},
        {"entries_per_second": 0},
        {"bytes_per_second": -1},
        {"target_log_size": -1},
    ],
)
def test_rules_with_which_no_bookie_starts(wrong: dict) -> None:
    with pytest.raises(InvalidOptionError):
        CollectorRules(**wrong)


def test_rules_with_which_bookies_start() -> None:
    CollectorRules(minor_interval_s=900)
    # Without both intervals thresholds are not compared.
    CollectorRules(minor_interval_s=0, minor_threshold=0.9)
    CollectorRules(minor_threshold=0, minor_interval_s=1)


@for_each(
    ("changes", "expected"),
    [
        ({"major_interval_s": 0}, [Fate.MINOR, Fate.MAJOR]),
        ({"major_interval_s": 0, "force_allows_compaction": False}, [Fate.MINOR, Fate.KEPT]),
        ({"minor_interval_s": 0, "force_allows_compaction": False}, [Fate.MAJOR, Fate.MAJOR]),
        ({"major_threshold": 1.0, "major_interval_s": -1}, [Fate.MINOR, Fate.KEPT]),
        ({"major_suspended": True}, [Fate.MINOR, Fate.KEPT]),
        ({"minor_suspended": True, "major_suspended": True}, [Fate.KEPT, Fate.KEPT]),
        ({"minor_threshold": 0.0}, [Fate.MAJOR, Fate.MAJOR]),
    ],
)
def test_compaction_that_is_off_or_suspended(changes: dict, expected: list[Fate]) -> None:
    use = use_of(Log(0, {1: 10, 2: 90}), Log(1, {1: 40, 2: 60}))
    space = log_space(use, CollectorRules(**changes), ids(1))
    assert fates(space) == expected
    assert [why is Why.NOT_RUN for why in whys(space)] == [fate is Fate.KEPT for fate in expected]


def test_small_logs_count_as_logs_of_the_size_that_is_aimed_at() -> None:
    use = use_of(Log(0, {1: 300, 2: 100}), Log(1, {1: 400}), Log(2, {1: 3000, 2: 1000}))
    assert fates(log_space(use, PULSAR, ids(1))) == [Fate.KEPT, Fate.KEPT, Fate.KEPT]
    space = log_space(use, CollectorRules(target_log_size=1000), ids(1))
    # A log of which all lives is never compacted.
    assert space.usages.tolist() == [0.3, 1, 0.75]
    assert fates(space) == [Fate.MAJOR, Fate.KEPT, Fate.KEPT]


def test_tenths() -> None:
    assert tenths(np.array([0, 0.0999, 0.1, 0.29, 0.3, 0.9999, 1])).tolist() == [0, 0, 1, 2, 3, 9, 9]


def test_the_lowest_tenth_is_compacted_first_and_ids_decide_inside_it() -> None:
    use = use_of(
        Log(0, {1: 45, 2: 55}),
        Log(1, {1: 29, 2: 71}),
        Log(2, {1: 5, 2: 95}),
        Log(3, {1: 21, 2: 79}),
        Log(4, {1: 1, 2: 99}),
        Log(5, {1: 15, 2: 85}),
        Log(6, {1: 60, 2: 40}),
    )
    space = log_space(use, PULSAR, ids(1))
    assert compaction_order(space).tolist() == [2, 4, 5, 1, 3, 0]
    assert compaction_order(space, is_major=False).tolist() == [2, 4, 5]
    suspended = log_space(use, CollectorRules(major_suspended=True), ids(1))
    assert compaction_order(suspended).tolist() == [2, 4, 5]
    assert compaction_order(suspended, is_major=True).tolist() == []


def test_a_plan_adds_up_and_says_how_much_room_it_needs() -> None:
    use = use_of(
        Log(0, {1: 400, 2: 600}, entries={1: 10}),
        Log(1, {2: 50}),
        Log(2, {1: 100, 2: 900}, entries={1: 5}),
    )
    space = log_space(use, PULSAR, ids(1))
    found = plan(space)
    assert found.rows.tolist() == [1, 2, 0]
    assert found.freed.tolist() == [1074, 1074 + 1924, 1074 + 1924 + 1624]
    assert found.rewritten.tolist() == [0, 100, 500]
    assert found.ends_s.tolist() == [0, 0.005, 0.015]
    assert found.room == 0
    # By bytes, the size field of each entry is not counted.
    assert plan(space, Throttle(is_by_bytes=True, per_second=40)).ends_s.tolist() == [0, 2, 11]


def test_room_is_that_of_the_first_log_if_nothing_is_deleted() -> None:
    space = log_space(use_of(Log(0, {1: 400, 2: 600}), Log(1, {1: 4_000, 2: 6_000})), PULSAR, ids(1))
    # 400 are written, 2024 go; then 4000 are needed, of which 1624 are free.
    assert plan(space).room == 4_000 - 1_624


def test_a_compaction_begins_no_log_after_its_longest_time() -> None:
    logs = [Log(one, {1: 10, 2: 90}, entries={1: 1000}) for one in range(4)]
    space = log_space(use_of(*logs), PULSAR, ids(1))
    assert plan(space, most_seconds=2).rows.tolist() == [0, 1]
    assert plan(space, most_seconds=2).left.tolist() == [2, 3]
    assert plan(space, most_seconds=2.5).rows.tolist() == [0, 1, 2]
    assert plan(space).left.tolist() == []
    with pytest.raises(InvalidOptionError):
        plan(space, most_seconds=0)
    with pytest.raises(InvalidOptionError):
        plan(log_space(use_of(Log(0, {1: 10, 2: 90})), PULSAR, ids(1)), most_seconds=1)


def test_entries_that_are_not_known_make_times_unknown_by_entries_alone() -> None:
    use = use_of(Log(0, {1: 100, 3: 80, 2: 820}, entries={1: 3, 2: 9}), Log(1, {1: 100, 2: 900}, entries={1: 3}))
    space = log_space(use, PULSAR, ids(1, 3))
    assert space.live_entries.tolist() == [-1, 3]
    assert math.isnan(space.seconds[0])
    assert space.seconds[1] == 0.003
    assert space.sum_of(Fate.MINOR).entries == -1
    assert math.isnan(space.sum_of(Fate.MINOR).seconds)
    assert np.isnan(plan(space).ends_s).all()
    by_bytes = log_space(use, CollectorRules(is_throttled_by_bytes=True, bytes_per_second=1), ids(1, 3))
    assert by_bytes.seconds.tolist() == [180, 88]


def test_logs_without_a_map_are_scanned_under_the_same_rate() -> None:
    use = use_of(
        Log(0, {1: 100, 2: 900}, entries={1: 10, 2: 90}, by=CountedBy.SCAN),
        Log(1, {1: 100, 2: 900}, entries={1: 10, 2: 90}),
        Log(2, {1: 100}, entries={1: 10}, by=CountedBy.SCAN, is_current=True),
    )
    space = log_space(use, PULSAR, ids(1))
    assert scan_seconds(space) == 0.1
    assert scan_seconds(space, Throttle(is_by_bytes=True, per_second=6)) == 100


def test_what_more_is_freed_if_ledgers_were_dead() -> None:
    use = use_of(Log(0, {1: 50, 2: 950}), Log(1, {1: 300, 3: 700}), Log(2, {3: 100}))
    change = if_dead(use, PULSAR, ids(1, 2, 3), ids(3, 2))
    assert fates(change.before) == [Fate.KEPT, Fate.KEPT, Fate.KEPT]
    assert fates(change.after) == [Fate.MINOR, Fate.MAJOR, Fate.DELETED]
    assert change.freed == (2024 - 50) + (2024 - 300) + 1124
    assert change.rewritten == 350
    assert change.changed.tolist() == [0, 1, 2]
    # What was compacted is deleted instead.
    again = if_dead(use, PULSAR, ids(1), ids(1))
    assert (again.freed, again.rewritten) == (350, -350)


def test_what_is_said_to_be_dead_is_dead_without_metadata_too() -> None:
    change = if_dead(use_of(Log(0, {1: 50}), Log(1, {2: 50})), PULSAR, None, ids(2, 9))
    assert fates(change.after) == [Fate.KEPT, Fate.DELETED]
    assert not change.after.has_metadata


SCATTERED = use_of(
    Log(0, {1: 90, 2: 99, 3: 411, 9: 400}),  # 1, 2 small, 3 large
    Log(1, {4: 80, 1: 60, 2: 99, 5: 99, 9: 662}),  # all small, 338 live
    Log(2, {1: 99, 9: 901}),  # taken by minor compaction
    Log(3, {1: 100, 5: 99, 4: 98, 9: 703}),  # 1 is not below a tenth
    Log(4, dict.fromkeys(range(11, 31), 50)),  # nothing dead
    Log(5, {1: 30, 9: 70}, is_current=True),
    Log(6, {4: 99, 5: 99, 6: 99, 9: 703}),
    Log(7, {9: 1000}),
)
LIVE = ids(1, 2, 3, 4, 5, 6, *range(11, 31))


def test_logs_that_small_ledgers_hold() -> None:
    space = log_space(SCATTERED, PULSAR, LIVE)
    found = scattered(space)
    assert found.log_rows.tolist() == [1, 6]
    assert found.ledgers_of(0).tolist() == [1, 4, 2, 5]
    assert found.ledgers_of(1).tolist() == [4, 5, 6]
    assert found.sizes.tolist() == [60, 80, 99, 99, 99, 99, 99]
    assert found.hostage.tolist() == [HEADER + 662, HEADER + 703]
    assert scattered(space, 0.11).log_rows.tolist() == [1, 3, 6]
    assert scattered(space, fates=(Fate.MINOR,)).log_rows.tolist() == [2]
    with pytest.raises(InvalidOptionError):
        scattered(space, 0)


def test_whose_ledgers_hold_them() -> None:
    found = scattered(log_space(SCATTERED, PULSAR, LIVE))
    first, second = HEADER + 662, HEADER + 703
    ledgers = held_by_ledgers(found)
    assert ledgers.keys.tolist() == [4, 5, 6, 1, 2]
    assert ledgers.logs.tolist() == [2, 2, 1, 1, 1]
    assert ledgers.sizes.tolist() == [179, 198, 99, 60, 99]
    assert ledgers.hostage.tolist() == [first + second, first + second, second, first, first]
    assert ledgers.hostage_alone.tolist() == [0, 0, 0, 0, 0]
    names = held_by_names(found, LedgerNames(ids(1, 4, 5, 6, 9), ids(1, 0, 0, 0, 2)))
    assert names.keys.tolist() == [0, NO_NAME, 1]
    assert names.logs.tolist() == [2, 1, 1]
    assert names.sizes.tolist() == [179 + 198 + 99, 99, 60]
    assert names.hostage.tolist() == [first + second, first, first]
    assert names.hostage_alone.tolist() == [second, 0, 0]


class Metadata:
    """`EntryLogMetadata`, one ledger after the other."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.ledgers = dict(log.ledgers)
        self.total = self.remaining = sum(self.ledgers.values())

    def remove_dead(self, live: set[int]) -> None:
        for ledger in list(self.ledgers):
            if ledger not in live:
                self.remaining -= self.ledgers.pop(ledger)

    def usage(self, target: int) -> float:
        usage = 0.0 if self.total == 0 else float(self.remaining) / float(self.total)
        return float(self.remaining) / float(max(self.total, target)) if target and usage < 1.0 else usage


def run_of_a_bookie(logs: list[Log], live: set[int], threshold: float, target: int) -> tuple[list[int], list[int], int]:
    """Return ids of logs that are deleted, of those that are compacted, in order, and the bytes of all files afterwards."""
    kept, deleted, compacted = {}, [], []
    sizes = {log.id: log.file_size for log in logs}
    for log in sorted(logs, key=lambda log: log.id):
        if log.is_current or log.by is CountedBy.NOTHING:
            continue
        meta = Metadata(log)
        meta.remove_dead(live)
        if not meta.ledgers:
            deleted.append(log.id)
            del sizes[log.id]
        else:
            kept[log.id] = meta
    buckets: list[list[int]] = [[] for _ in range(10)]
    for log_id, meta in kept.items():
        if meta.usage(target) >= threshold:
            continue
        buckets[min(9, math.floor(meta.usage(target) * 10))].append(log_id)
    for bucket in buckets[: min(9, math.floor(threshold * 10)) + 1]:
        for log_id in bucket:
            compacted.append(log_id)
            sizes[log_id] = kept[log_id].remaining
    return deleted, compacted, sum(sizes.values())


SIZES = st.one_of(st.integers(0, 12), st.integers(0, 2**40))
LOGS = st.lists(
    st.builds(
        Log,
        st.integers(0, 40),
        st.dictionaries(st.integers(0, 8), SIZES, max_size=6),
        st.booleans(),
        st.sampled_from([CountedBy.MAP, CountedBy.SCAN]),
    ),
    max_size=12,
    unique_by=lambda log: log.id,
)
RULES = st.one_of(
    st.just(PULSAR),
    st.builds(
        lambda minor, more, target: CollectorRules(
            minor_threshold=minor, major_threshold=min(1.0, minor + more), target_log_size=target
        ),
        st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.7]),
        st.sampled_from([0.05, 0.1, 0.25, 0.3]),
        st.sampled_from([0, 0, 20]),
    ),
)


@given(LOGS, st.sets(st.integers(0, 8)), RULES)
def test_as_a_bookie_does_it(logs: list[Log], live: set[int], rules: CollectorRules) -> None:
    use = use_of(*logs)
    space = log_space(use, rules, ids(*sorted(live)))
    all_sizes = sum(log.file_size for log in logs)
    for is_major, threshold in ((True, rules.major_threshold), (False, rules.minor_threshold)):
        deleted, compacted, left = run_of_a_bookie(logs, live, threshold, rules.target_log_size)
        found = plan(space, is_major=is_major)
        assert use.log_ids[found.rows].tolist() == deleted + compacted
        assert all_sizes - (found.freed[-1] if found.rows.size else 0) == left
        fates_of = {Fate.MINOR, Fate.MAJOR} if is_major else {Fate.MINOR}
        assert sorted(compacted) == use.log_ids[np.isin(space.fates, list(fates_of))].tolist()


@given(LOGS, st.sets(st.integers(0, 8)), st.dictionaries(st.integers(0, 8), st.integers(0, 2)))
def test_holders_are_those_of_a_slow_count(logs: list[Log], live: set[int], names: dict[int, int]) -> None:
    space = log_space(use_of(*logs), PULSAR, ids(*sorted(live)))
    found = scattered(space, 0.5, tuple(Fate))
    columns = LedgerNames(ids(*sorted(names)), ids(*(names[one] for one in sorted(names))))
    expected: dict[int, list[int]] = {}
    for log in logs:
        total = sum(log.ledgers.values())
        alive = {ledger: size for ledger, size in log.ledgers.items() if ledger in live}
        if not alive or sum(alive.values()) == total or max(alive.values()) >= total / 2:
            continue
        hostage = log.file_size - sum(alive.values())
        holders = {names.get(ledger, NO_NAME) for ledger in alive}
        for key in holders:
            row = expected.setdefault(key, [0, 0, 0, 0])
            row[0] += 1
            row[1] += sum(size for ledger, size in alive.items() if names.get(ledger, NO_NAME) == key)
            row[2] += hostage
            row[3] += hostage * (len(holders) == 1)
    held = held_by_names(found, columns)
    rows = zip(held.logs.tolist(), held.sizes.tolist(), held.hostage.tolist(), held.hostage_alone.tolist(), strict=True)
    assert dict(zip(held.keys.tolist(), map(list, rows), strict=True)) == expected
    assert held.hostage.tolist() == sorted(held.hostage.tolist(), reverse=True)


def test_two_that_hold_a_log_together_hold_it_neither_alone() -> None:
    use = use_of(Log(0, {1: 90, 2: 95, 9: 700}), Log(1, {2: 80, 9: 300}))
    held = held_by_ledgers(scattered(log_space(use, PULSAR, ids(1, 2)), 0.25))
    assert held.keys.tolist() == [2, 1]
    assert held.hostage_alone.tolist() == [HEADER + 300, 0]


def test_a_million_rows() -> None:
    """Columns stay small and quick; what they say is compared with sums by other means."""
    random = np.random.default_rng(7)
    logs, rows = 10_000, 1_000_000
    of_logs, ledgers = random.integers(0, logs, rows), random.integers(0, 50_000, rows)
    sizes = random.integers(20, 100_000, rows)
    use = log_use(
        np.arange(logs), np.full(logs, 2**30), np.arange(logs) == logs - 1, CountedBy.MAP, (of_logs, ledgers, sizes)
    )
    live = np.arange(0, 50_000, 3)
    space = log_space(use, PULSAR, live)
    lives = ledgers % 3 == 0
    assert space.live_sizes.sum() == sizes[lives].sum()
    assert space.live_sizes[17] == sizes[lives & (of_logs == 17)].sum()
    assert plan(space).rows.size == (space.fates == Fate.MAJOR).sum() + (space.fates == Fate.MINOR).sum()
    found = scattered(space)
    assert found.log_rows.size > 9_000
    assert held_by_ledgers(found).logs.sum() == space.live_ledgers[found.log_rows].sum()

"""What is trimmed, against a slow rule written from what brokers were seen to do."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs_cluster.rules.retention import keeps_its_last, retention_of, trim_of
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.snapshot.policies import BrokerDefaults, NamespacePolicies, Retention
from ledgerfs_cluster.snapshot.survey import TopicLedgers
from tests.support.each import for_each

NOW = 1_700_000_000_000
MINUTE, MIB = 60_000, 1 << 20


@dataclass
class Ledger:
    id: int
    entries: int
    size: int
    closed_ms: int


def columns(ledgers: list[Ledger], last_end: LastEnd = LastEnd.CLOSED) -> TopicLedgers:
    return TopicLedgers(
        *(
            np.array([getattr(one, name) for one in ledgers], np.int64)
            for name in ("id", "entries", "size", "closed_ms")
        ),
        np.zeros(len(ledgers), np.bool_),
        last_end,
    )


def reference(
    ledgers: list[Ledger], slowest: tuple[int, int] | None, rule: Retention, now: int, *, current: bool
) -> tuple[list[int], list[int]]:
    """Return ids that loading drops, and ids that are trimmed, one ledger after the other."""
    rest, dropped = list(ledgers), []
    if not current:
        last = rest[-1]
        rest[-1] = Ledger(last.id, last.entries, last.size, now)
        dropped = [one.id for one in rest if one.entries == 0]
        rest = [one for one in rest if one.entries != 0]
    first_needed = float("inf")
    if slowest is not None:
        ledger, entry = slowest
        entries = {one.id: one.entries for one in ledgers}
        is_current = current and ledger == ledgers[-1].id
        first_needed = ledger + 1 if entries.get(ledger) == entry + 1 and not is_current else ledger
    total, acc, gone = sum(one.size for one in rest), 0, []
    for one in rest:
        if one.id >= first_needed or (current and one is rest[-1]):
            break
        acc += one.size
        by_time = rule.time_ms >= 0 and now - one.closed_ms > rule.time_ms
        by_size = rule.size >= 0 and total - acc >= rule.size
        if not (by_time or by_size):
            break
        gone.append(one.id)
    return dropped, gone


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[Ledger], tuple[int, int] | None, Retention, bool]:
    ids = sorted(draw(st.sets(st.integers(0, 30), min_size=1, max_size=8)))
    ages = sorted((draw(st.integers(0, 5)) for _ in ids), reverse=True)
    ledgers = []
    for ledger_id, age in zip(ids, ages, strict=True):
        entries = draw(st.integers(0, 4))
        ledgers.append(Ledger(ledger_id, entries, draw(st.integers(0, 3)) * MIB * bool(entries), NOW - age * MINUTE))
    near = st.sampled_from([(one.id, one.entries - 1) for one in ledgers])
    cursor = draw(st.none() | near | st.tuples(st.integers(0, 31), st.integers(-1, 4)))
    rule = Retention.of(draw(st.integers(-1, 5)), draw(st.integers(-1, 8)))
    return ledgers, cursor, rule, draw(st.booleans())


@given(topics())
def test_what_goes_is_what_the_slow_rule_says(topic: tuple) -> None:
    ledgers, cursor, rule, current = topic
    found = trim_of(columns(ledgers), cursor, rule, NOW, has_current=current)
    ids = [one.id for one in ledgers]
    dropped, gone = reference(ledgers, cursor, rule, NOW, current=current)
    assert [ids[row] for row in found.dropped] == dropped
    assert [ids[row] for row in found.going] == gone


@for_each(
    ("owner", "end", "terminated", "keeps"),
    [
        (Owner.NONE, LastEnd.OPEN, False, False),
        (Owner.NONE, LastEnd.CLOSED, False, False),
        (Owner.SOME, LastEnd.OPEN, False, True),
        (Owner.SOME, LastEnd.CLOSED, False, False),
        (Owner.UNKNOWN, LastEnd.OPEN, False, True),
        (Owner.NONE, LastEnd.UNKNOWN, False, True),
        (Owner.NONE, LastEnd.CLOSED, True, True),
    ],
)
def test_which_last_ledgers_stay(owner: Owner, end: LastEnd, terminated: bool, keeps: bool) -> None:
    assert keeps_its_last(owner, end, is_terminated=terminated) is keeps


def test_policies_are_of_the_system_the_namespace_or_the_broker() -> None:
    own, broker = Retention.of(10, 10), Retention.of(-1, -1)
    defaults = BrokerDefaults(broker)
    for name in ("t/ns/persistent/__change_events", "t/ns/persistent/__change_events-partition-0"):
        assert retention_of(name, NamespacePolicies(own), defaults) == (Retention(), "system")
    assert retention_of("t/ns/persistent/x", NamespacePolicies(own), defaults) == (own, "namespace")
    assert retention_of("t/ns/persistent/x", NamespacePolicies(), defaults) == (broker, "broker")
    assert retention_of("t/ns/persistent/x", None, defaults) == (broker, "broker")

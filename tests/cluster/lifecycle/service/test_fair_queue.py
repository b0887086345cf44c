"""Turns of topics: each gets its share of bytes, within the largest ledger, and what is planned is done once and in order."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs_cluster.lifecycle.service.fair_queue import FairQueue, Work

MIB = 1 << 20


def ledgers(topic: str, sizes: Iterable[int], first: int = 0) -> list[Work]:
    """Return ledgers of so many MiB."""
    return [Work(topic, first + number, size * MIB) for number, size in enumerate(sizes)]


@dataclass
class Fluid:
    """What max-min fairness gives each topic of so many bytes, with no ledgers and no turns."""

    due: dict[str, int]
    served: dict[str, float] = field(default_factory=dict)

    def share_of(self, size: float) -> dict[str, float]:
        left, shares = dict(self.due), dict.fromkeys(self.due, 0.0)
        while size > 1e-3 and left:
            each = min(size / len(left), *(left[name] - shares[name] for name in left))
            for name in left:
                shares[name] += each
            size -= each * len(left)
            left = {name: due for name, due in left.items() if due - shares[name] > 1e-3}
        return shares


def drained(queue: FairQueue) -> list[Work]:
    """All work in the order in which one worker takes it."""
    found = []
    while (work := queue.take()) is not None:
        queue.done(work)
        found.append(work)
    return found


def taken(queue: FairQueue) -> Work:
    work = queue.take()
    assert work is not None
    return work


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(1, 5000), min_size=1, max_size=20), min_size=1))
def test_a_topic_is_never_further_from_its_fair_share_than_the_largest_ledger(sizes: dict[str, list[int]]) -> None:
    queue = FairQueue()
    queue.replace({name: ledgers(name, some) for name, some in sizes.items()})
    fluid = Fluid({name: sum(some) * MIB for name, some in sizes.items()})
    bound = max(max(some) for some in sizes.values()) * MIB + 1
    sent: Counter[str] = Counter()
    for work in drained(queue):
        sent[work.topic] += work.size
        share = fluid.share_of(sent.total())
        for name in sizes:
            assert abs(sent[name] - share[name]) <= bound
    assert sent == Counter(fluid.due)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=30), st.lists(st.integers(0, 3000), min_size=1, max_size=30))
def test_each_ledger_is_taken_once_and_the_oldest_of_a_topic_first(one: list[int], other: list[int]) -> None:
    queue = FairQueue()
    work = {"one": ledgers("one", one), "other": ledgers("other", other)}
    queue.replace(work)
    found = drained(queue)
    assert sorted(found, key=lambda it: (it.topic, it.ledger_id)) == work["one"] + work["other"]
    for name, some in work.items():
        assert [it for it in found if it.topic == name] == some
    assert queue.is_idle


def test_a_hundred_thousand_topics_have_their_turns_beside_a_large_one() -> None:
    """Three workers, and a new plan while they work; only if each pick is cheap does this end."""
    names = [f"t-{number}" for number in range(100_000)]
    plan = {"large": ledgers("large", [10_000] * 50), **{name: ledgers(name, [2, 2]) for name in names}}
    queue = FairQueue()
    queue.replace(plan)
    order: list[Work] = []
    under_way: list[Work] = []
    while True:
        if len(order) == 50_000:
            begun = {(one.topic, one.ledger_id) for one in order}
            queue.replace(
                {name: [it for it in some if (name, it.ledger_id) not in begun] for name, some in plan.items()}
            )
        while len(under_way) < 3 and (work := queue.take()) is not None:
            under_way.append(work)
            order.append(work)
        if not under_way:
            break
        done = under_way.pop(0)
        queue.done(done)
    assert sorted(order, key=lambda it: (it.topic, it.ledger_id)) == sorted(
        (it for some in plan.values() for it in some), key=lambda it: (it.topic, it.ledger_id)
    )
    # Every topic has its first ledger sent before any has its second, and the large topic waits for all of them.
    assert {it.ledger_id for it in order[:100_001]} == {0}
    assert {it.topic for it in order[-49:]} == {"large"}


def test_a_new_plan_replaces_the_old_and_debts_stay() -> None:
    queue = FairQueue()
    queue.replace({"greedy": ledgers("greedy", [100])})
    work = taken(queue)
    queue.replace({"greedy": ledgers("greedy", [1] * 5, first=1), "new": ledgers("new", [1] * 50)})
    queue.done(work)
    order = [one.topic for one in drained(queue)]
    assert order == ["new"] * 50 + ["greedy"] * 5


def test_who_had_nothing_to_do_has_saved_nothing() -> None:
    queue = FairQueue()
    queue.replace({"busy": ledgers("busy", [10] * 100), "idle": ledgers("idle", [1])})
    for _ in range(90):
        work = taken(queue)
        queue.done(work)
    queue.replace({"busy": ledgers("busy", [10] * 10), "idle": ledgers("idle", [10] * 10)})
    order = [one.topic for one in drained(queue)]
    for upto in range(1, 20):
        counts = Counter(order[:upto])
        assert abs(counts["busy"] - counts["idle"]) <= 2


def test_new_topics_of_each_plan_do_not_pass_one_that_waits() -> None:
    queue = FairQueue()
    queue.replace({"first": ledgers("first", [1, 1]), "waits": ledgers("waits", [1, 1])})
    for _ in range(2):
        work = taken(queue)
        queue.done(work)
    names = []
    for number in range(2):
        work = taken(queue)
        names.append(work.topic)
        new = f"new-{number}"
        queue.replace({new: ledgers(new, [1]), "waits": ledgers("waits", [1], first=1)})
        queue.done(work)
    assert names == ["first", "waits"]


def test_what_is_under_way_is_not_begun_again_by_a_new_plan_that_has_it() -> None:
    queue = FairQueue()
    queue.replace({"t": ledgers("t", [1, 1])})
    first = taken(queue)
    # The plan may know another size by now.
    queue.replace({"t": ledgers("t", [3, 1])})
    assert queue.take() is None
    assert queue.under_way("t") == first
    assert queue.has("t")
    queue.done(first)
    assert drained(queue) == [Work("t", 1, MIB)]
    assert not queue.has("t")


def test_work_that_is_not_under_way_cannot_be_ended() -> None:
    queue = FairQueue()
    queue.replace({"t": ledgers("t", [1])})
    with pytest.raises(KeyError):
        queue.done(Work("t", 0, MIB))


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_whatever_is_planned_meanwhile_nothing_is_done_twice_or_lost(seed: int) -> None:
    """Against a plain model: several workers, and new plans at any time.

    Draws only a seed: `hypothesis` would take ten times as long to draw each choice.
    """
    dice = random.Random(seed)
    queue = FairQueue()
    planned: dict[str, list[Work]] = {}
    under_way: list[Work] = []
    for _ in range(60):
        match dice.randrange(5):
            case 0:
                names = dice.sample("abcdef", dice.randrange(5))
                planned = {name: ledgers(name, [dice.randrange(30)] * dice.randrange(4)) for name in names}
                queue.replace(planned)
                planned = {
                    name: [it for it in some if (name, it.ledger_id) not in {(u.topic, u.ledger_id) for u in under_way}]
                    for name, some in planned.items()
                }
            case 1 if under_way:
                done = under_way.pop(dice.randrange(len(under_way)))
                queue.done(done)
            case _:
                work = queue.take()
                if work is not None:
                    assert work.topic not in {one.topic for one in under_way}
                    assert planned[work.topic].pop(0) == work
                    under_way.append(work)
        assert queue.is_idle is not (bool(under_way) or any(planned.values()))
    _finish(queue, planned, under_way)


def _finish(queue: FairQueue, planned: Mapping[str, list[Work]], under_way: list[Work]) -> None:
    for work in under_way:
        queue.done(work)
    while (work := queue.take()) is not None:
        assert planned[work.topic].pop(0) == work
        queue.done(work)
    assert not any(planned.values())
    assert queue.is_idle

"""Learned offsets: found from both sides, never contradicting each other, bounded, true whatever threads do at once."""

import threading
from itertools import accumulate, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.layouts.pulsar_blob import learned_offsets
from ledgerfs.layouts.pulsar_blob.learned_offsets import STEP, LearnedOffsets

NEAR = STEP // 2


@st.composite
def positions(draw):
    """Draw where the items of an object begin: pairs that ascend in both."""
    steps = st.tuples(st.integers(1, 5), st.one_of(st.integers(12, 2 * STEP), st.sampled_from([NEAR - 1, NEAR, STEP])))
    rows = draw(st.lists(steps, min_size=1, max_size=25))
    return list(zip(accumulate(row[0] for row in rows), accumulate(row[1] for row in rows), strict=True))


def known_pairs(learned):
    pairs = []
    pair = learned.at_or_after(0)
    while pair is not None:
        pairs.append(pair)
        pair = learned.at_or_after(pair[0] + 1)
    return pairs


def slow_learn(pairs):
    """Return what should be kept of ``pairs``, learned in this order."""
    kept = []
    for item, offset in pairs:
        if all(abs(offset - other) >= NEAR for _, other in kept):
            kept.append((item, offset))
    return sorted(kept)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_lookups_agree_with_the_slow_reference_in_any_order_of_learning(data):
    pairs = data.draw(positions())
    order = data.draw(st.permutations(pairs))
    learned = LearnedOffsets()
    for item, offset in order:
        learned.learn(item, offset)
    kept = slow_learn(order)
    for item in range(pairs[-1][0] + 2):
        assert learned.at_or_before(item) == max((pair for pair in kept if pair[0] <= item), default=None)
        assert learned.at_or_after(item) == min((pair for pair in kept if pair[0] >= item), default=None)


def test_thread_that_learns_a_neighbour_meanwhile_waits():
    """The rival starts in the middle of learning, where its place is sought or found free; two neighbours would be one too many."""
    for place in ("search", "distance"):
        learned = LearnedOffsets()
        learned.learn(0, 0)
        rival = threading.Thread(target=learned.learn, args=(11, 2 * STEP + 1), daemon=True)

        def pause(rival=rival):
            if rival.ident is None:
                rival.start()
                rival.join(timeout=0.1)

        class PausingItem(int):
            def __gt__(self, other, pause=pause):
                pause()
                return int(self) > int(other)

        class PausingOffset(int):
            def __sub__(self, other, pause=pause):
                pause()
                return int(self) - other

        learned.learn(*((PausingItem(10), 2 * STEP) if place == "search" else (10, PausingOffset(2 * STEP))))
        assert rival.ident is not None, place
        rival.join()
        assert len(known_pairs(learned)) == 2, place


def test_a_huge_object_keeps_fewer_positions_a_byte_never_more_than_the_bound(monkeypatch):
    most = 1000
    monkeypatch.setattr(learned_offsets, "MAX_PAIRS", most)
    learned = LearnedOffsets()
    for item in range(3 * most):
        learned.learn(item, item * STEP)
        assert len(learned) <= most
    assert len(learned) > most // 3
    assert all(offset == item * STEP for item, offset in known_pairs(learned))
    assert all(after - before <= 4 * STEP for (_, before), (_, after) in pairwise(known_pairs(learned)))
    assert learned.at_or_before(3 * most)[0] >= 3 * most - 4

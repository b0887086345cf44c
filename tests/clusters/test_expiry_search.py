"""Up to where a time to live acknowledges: the search against brokers' own steps, one entry after the other in a list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.clusters.answers import LastEnd
from ledgerfs.clusters.expiry_search import CLOCK_SKEW_MS, ExpirySearch, moved_to
from ledgerfs.clusters.survey import TopicLedgers

BEFORE = 1_700_000_000_000

TIMES = st.one_of(st.none(), st.integers(-3 * CLOCK_SKEW_MS, 3 * CLOCK_SKEW_MS).map(lambda one: BEFORE + one))
LEDGERS = st.lists(
    st.tuples(st.lists(TIMES, max_size=9), st.integers(-4 * CLOCK_SKEW_MS, 4 * CLOCK_SKEW_MS)), max_size=6
)


def columns(entries: list[int], closed_ms: list[int]) -> TopicLedgers:
    ids = np.arange(len(entries)) * 3 + 5
    empty = np.zeros(len(entries), np.bool_)
    return TopicLedgers(
        ids, np.array(entries, np.int64), ids * 10, np.array(closed_ms, np.int64), empty, LastEnd.CLOSED
    )


def searched(ledgers: TopicLedgers, times: dict[tuple[int, int], int | None]) -> tuple[tuple[int, int] | None, int]:
    """Return what is found, and how many entries were looked at."""
    search, looks = ExpirySearch(ledgers, BEFORE), 0
    while (entry := search.next_entry) is not None:
        search.tell(times[entry])
        looks += 1
    return search.found, looks


def reference(ledgers: TopicLedgers, times: dict[tuple[int, int], int | None]) -> tuple[int, int] | None:
    """Return what a broker finds, from positions in the order of the topic and the times at which ledgers were closed."""
    places = [
        (int(one), entry)
        for one, entries in zip(ledgers.ids, ledgers.entries, strict=True)
        for entry in range(int(entries))
    ]
    if not places:
        return None
    start, end = places[0], places[-1]
    for ledger, entries, closed in zip(ledgers.ids.tolist(), ledgers.entries.tolist(), ledgers.closed_ms, strict=True):
        if entries == 0:
            continue
        if closed == 0:
            end = places[-1]
            break
        if closed <= BEFORE - CLOCK_SKEW_MS:
            start = (ledger, entries - 1)
        elif closed > BEFORE + CLOCK_SKEW_MS:
            end = (ledger, entries - 1)
            break

    def is_expired(place: tuple[int, int]) -> bool:
        told = times[place]
        return told is not None and told < BEFORE

    def after(count: int) -> tuple[int, int]:
        return places[min(places.index(start) + count, len(places) - 1)]

    if not is_expired(start):
        return None
    low, high, found = 0, places.index(end) - places.index(start) + 1, start
    if is_expired(after(high)):
        return after(high)
    while True:
        middle = low + max((high - low) // 2, 1)
        if is_expired(after(middle)):
            found, low = after(middle), middle
        else:
            high = middle - 1
        if high <= low:
            return found


@given(LEDGERS, st.booleans())
def test_the_search_takes_the_steps_of_a_broker(made: list[tuple[list[int | None], int]], has_open_last: bool) -> None:
    closed = [BEFORE + one for _, one in made]
    if has_open_last and closed:
        closed[-1] = 0
    ledgers = columns([len(times) for times, _ in made], closed)
    times = {
        (int(one), entry): told
        for one, (of_ledger, _) in zip(ledgers.ids, made, strict=True)
        for entry, told in enumerate(of_ledger)
    }
    assert searched(ledgers, times)[0] == reference(ledgers, times)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(0, 3000))
def test_of_ascending_times_the_newest_expired_entry_is_found_by_few_looks(sizes: list[int], expired: int) -> None:
    ledgers = columns(sizes, [0] * len(sizes))
    places = [
        (int(one), entry)
        for one, entries in zip(ledgers.ids, ledgers.entries, strict=True)
        for entry in range(int(entries))
    ]
    times = {place: BEFORE - expired + number for number, place in enumerate(places)}
    found, looks = searched(ledgers, times)
    assert found == (places[min(expired, len(places)) - 1] if expired else None)
    assert looks <= 3 + len(places).bit_length()


def test_a_subscription_goes_on_over_what_it_has_acknowledged_behind_what_is_expired() -> None:
    ledgers = columns([10, 0, 10, 10], [1, 1, 1, 0])
    holes = np.array([(5, 4, 5), (5, 7, 9), (11, 0, 3), (11, 5, 5), (14, 0, 9)], np.int64)
    none = np.empty((0, 3), np.int64)
    assert moved_to(ledgers, (5, -1), (5, 2), none) == (5, 2)
    assert moved_to(ledgers, (5, 6), (5, 2), holes) == (5, 6)
    assert moved_to(ledgers, (5, -1), (5, 2), holes) == (5, 2)
    assert moved_to(ledgers, (5, -1), (5, 3), holes) == (5, 5)
    assert moved_to(ledgers, (5, -1), (5, 4), holes) == (5, 5)
    assert moved_to(ledgers, (5, -1), (5, 6), holes) == (11, 3)
    assert moved_to(ledgers, (5, -1), (11, 9), holes) == (14, 9)

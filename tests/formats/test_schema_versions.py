"""Which schema a message means by its number, and what is in effect of all that was saved and given by hand."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, BY_IMPORT, SchemaInfo, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import (
    AMBIGUOUS,
    NO_VERSION,
    ODD_VERSION,
    REGISTRATION_SLACK_MS,
    REUSED,
    TopicSchemas,
    common_number,
    is_in_effect,
    next_word_ms,
    version_numbers,
    writers_of,
)

HOUR = 3_600_000
SLACK = REGISTRATION_SLACK_MS


def version(number: int, data: str = "a", registered: int | None = None, **more: object) -> SchemaVersion:
    return SchemaVersion(number, SchemaInfo("AVRO", data.encode()), registered, **more)  # type: ignore[arg-type]


def by_hand(
    number: int, data: str = "mine", registered: int | None = None, saved_ms: int = 0, **more: object
) -> SchemaVersion:
    return version(number, data, registered, source=BY_HAND, saved_ms=saved_ms, **more)


def places(generations: list[SchemaVersion], *times: int) -> list[int]:
    return writers_of(generations, np.array(times, np.int64)).tolist()


def test_a_schema_is_of_messages_from_shortly_before_it_on() -> None:
    one = [version(0, registered=HOUR)]
    assert places(one, 0, HOUR - SLACK - 1, HOUR - SLACK, HOUR, 9 * HOUR) == [REUSED, REUSED, 0, 0, 0]
    assert places([version(0)], 0, HOUR) == [0, 0]
    assert places([], 0, HOUR) == [REUSED, REUSED]


def test_of_two_schemas_of_one_number_and_one_time_none_is_taken() -> None:
    """They are of two clusters."""
    one, other, later = version(0, "a", HOUR), version(0, "b", HOUR), version(0, "a", 5 * HOUR)
    times = (0, HOUR - SLACK, HOUR, 4 * HOUR, 5 * HOUR - 1, 5 * HOUR)
    for both in ([one, other], [other, one]):
        known = TopicSchemas.of([*both, later]).numbered(0)
        assert known == [*both, later]
        assert places(known, *times) == [REUSED, AMBIGUOUS, AMBIGUOUS, AMBIGUOUS, AMBIGUOUS, 2]
    # One that means the same is the same.
    texts = [version(0, '"int"', HOUR), version(0, ' "int"', HOUR)]
    assert TopicSchemas.of(texts).versions == (texts[1],)
    mine = by_hand(0, registered=HOUR)
    assert TopicSchemas.of([one, other, mine]).versions == (mine,)


@given(
    st.lists(st.tuples(st.integers(0, 50_000), st.sampled_from("ab")), min_size=1, max_size=5),
    st.integers(-20_000, 70_000),
)
def test_no_message_gets_a_schema_that_could_be_another(registered: list[tuple[int, str]], when: int) -> None:
    """The same by its definition: of all that may have been there, within the slack, the newest; unless another was there before."""
    known = [version(0, data, time) for time, data in sorted(dict(registered).items())]
    (place,) = places(known, when)
    certain = [one for one in known if one.timestamp_ms <= when]  # type: ignore[operator]
    possible = [one for one in known if when < one.timestamp_ms <= when + SLACK]  # type: ignore[operator]
    candidates = [*certain[-1:], *possible]
    if not candidates:
        assert place == REUSED
    elif len({one.schema.data for one in candidates}) > 1:
        assert place == AMBIGUOUS
    else:
        assert known[place].schema == candidates[0].schema


@given(
    st.lists(st.tuples(st.integers(0, 50_000), st.sampled_from("ab")), min_size=1, max_size=5),
    st.lists(st.integers(-20_000, 70_000), max_size=9),
    st.booleans(),
)
def test_messages_are_reported_together_as_one_by_one(
    registered: list[tuple[int, str]], times: list[int], is_by_import: bool
) -> None:
    known = [version(0, data, time) for time, data in sorted(dict(registered).items())]
    if is_by_import:
        known.insert(0, version(0, "b", source=BY_IMPORT))
    each = [places(known, one)[0] for one in times]
    assert places(known, *times) == each
    # A scan asks for the first and the last of a batch only, and takes their answer for all, if it is one.
    edges = set(places(known, min(times), max(times))) if times else {AMBIGUOUS}
    if len(edges) == 1 and edges != {AMBIGUOUS}:
        assert set(each) == edges


ALIKE = st.sampled_from([b"\0" * 8, b"\0" * 7 + b"\1", b"\0" * 7, b"\0" * 9, b"", None])


@given(st.lists(st.binary(min_size=8, max_size=8) | ALIKE | st.binary(max_size=9), max_size=5), st.integers(0, 3))
def test_numbers_are_those_of_eight_bytes(column: list[bytes | None], begin: int) -> None:
    def number(one: bytes | None) -> int:
        if not one:
            return NO_VERSION
        return max(int.from_bytes(one, "big", signed=True), ODD_VERSION) if len(one) == 8 else ODD_VERSION

    array = pa.array(column, pa.binary())[begin:]
    numbers = [number(one) for one in column[begin:]]
    assert version_numbers(array).tolist() == numbers
    assert common_number(array) in ({None, *numbers} if len(set(numbers)) < 2 else {None})


@given(st.binary(min_size=8, max_size=8) | st.none(), st.integers(1, 9), st.integers(0, 3))
def test_a_number_that_all_have_is_seen_at_once(one: bytes | None, count: int, before: int) -> None:
    array = pa.array([b"before"] * before + [one] * count, pa.binary())[before:]
    assert common_number(array) == version_numbers(array)[0]


def test_what_was_given_by_hand_comes_before_what_was_saved() -> None:
    saved = [version(0, "a", HOUR), version(1, "b", 2 * HOUR)]
    known = TopicSchemas.of([*saved, by_hand(0)])
    assert [one.schema.data for one in known.versions] == [b"mine", b"b"]
    assert known.latest == saved[1]
    # The last word counts, and may be to take it back.
    assert (
        TopicSchemas.of([*saved, by_hand(0, "x", saved_ms=9), by_hand(0, saved_ms=1)]).numbered(0)[0].schema.data
        == b"x"
    )
    assert TopicSchemas.of(
        [*saved, by_hand(0, saved_ms=1), by_hand(0, saved_ms=2, is_deletion=True)]
    ).versions == tuple(saved)


def test_of_what_is_saved_the_last_word_is_in_effect_whatever_clocks_say() -> None:
    saved, first, last = version(0, "a", HOUR), by_hand(0, "x", saved_ms=5), by_hand(0, "y", saved_ms=9)
    back = by_hand(0, saved_ms=10, is_deletion=True)

    def in_effect(*known: SchemaVersion) -> list[bool]:
        return [is_in_effect(one, known) for one in known]

    assert in_effect(saved) == [True]
    assert in_effect(saved, last, first) == [False, True, False]
    assert in_effect(saved, first, last, back) == [True, False, False, True]
    assert in_effect(saved, back, replace(last, saved_ms=11)) == [False, False, True]
    # One for all times is in the place of those for one time.
    assert in_effect(saved, by_hand(0, "x", HOUR), first) == [False, False, True]
    # Of two words in one millisecond everybody takes the same.
    assert in_effect(first, by_hand(0, "y", saved_ms=5)) == in_effect(by_hand(0, "y", saved_ms=5), first)[::-1]
    assert next_word_ms([saved, replace(saved, saved_ms=99)], 0, 7) == 7
    assert next_word_ms([saved, last, by_hand(1, saved_ms=99)], 0, 7) == 10


def test_what_was_given_by_hand_as_of_a_time_stands_beside_what_was_saved() -> None:
    saved = version(0, "b", 5 * HOUR)
    given_ = by_hand(0, "a", HOUR)
    known = TopicSchemas.of([saved, given_])
    assert known.numbered(0) == [given_, saved]
    assert places(known.numbered(0), 2 * HOUR, 6 * HOUR) == [0, 1]
    assert TopicSchemas.of([saved, given_, by_hand(0, registered=HOUR, saved_ms=1, is_deletion=True)]).versions == (
        saved,
    )


def test_one_for_any_version_is_the_oldest_and_latest_only_if_there_is_no_other() -> None:
    any_one = by_hand(ANY_VERSION)
    assert TopicSchemas.of([any_one]).latest == any_one
    known = TopicSchemas.of([version(0, registered=HOUR), any_one])
    assert known.versions[0] == any_one
    assert known.latest == version(0, registered=HOUR)


@pytest.mark.parametrize(("number", "latest"), [(0, 1), (5, 5)])
def test_one_by_hand_that_was_never_saved_is_the_latest_if_its_number_is_beyond_all(number: int, latest: int) -> None:
    known = TopicSchemas.of([version(1, registered=HOUR), by_hand(number)]).latest
    assert known is not None
    assert known.version == latest


def test_after_a_forced_deletion_the_latest_is_the_one_that_was_registered_last() -> None:
    old = [version(number, "a", number) for number in range(5)]
    new = version(0, "b", HOUR)
    deletion = version(3, is_deletion=True)
    known = TopicSchemas.of([*old, deletion, new])
    assert known.latest == new
    assert known.numbered(0) == [old[0], new]
    assert known.numbered(3) == [old[3]]


def test_an_imported_schema_and_the_clusters_are_both_known_also_without_times() -> None:
    of_import, of_cluster = version(0, "b", source=BY_IMPORT), version(0, "a", source="http://a")
    for saved in ([of_import, of_cluster], [of_cluster, of_import]):
        known = TopicSchemas.of(saved).numbered(0)
        assert known == [of_import, of_cluster]
        assert places(known, HOUR) == [AMBIGUOUS]


def test_what_was_taken_back_does_not_make_an_imported_schema_older() -> None:
    known = [version(0, registered=HOUR), version(1, source=BY_IMPORT)]
    assert TopicSchemas.of(known).latest == known[1]
    assert TopicSchemas.of([*known, by_hand(1), by_hand(1, saved_ms=1, is_deletion=True)]).latest == known[1]


def test_what_rows_alone_have_may_be_another_schema_that_was_deleted() -> None:
    known = [version(0, source=BY_IMPORT), version(1, registered=HOUR), version(3, source=BY_IMPORT)]
    deletion = version(2, is_deletion=True)
    assert not TopicSchemas.of(known).may_be_deleted(0)
    after = TopicSchemas.of([*known, deletion])
    assert [after.may_be_deleted(number) for number in range(4)] == [True, False, True, False]
    assert not TopicSchemas.of([*known, deletion, by_hand(0)]).may_be_deleted(0)
    assert (
        TopicSchemas.of([deletion, by_hand(0)]).digest
        != TopicSchemas.of([deletion, version(0, "mine", source=BY_IMPORT)]).digest
    )

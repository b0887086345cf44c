"""What numbers of schemas meant at the end, of all that was ever saved."""

import itertools

import pytest

from ledgerfs.formats.schemas.schema_info import ANY_VERSION, BY_HAND, BY_IMPORT, SchemaInfo, SchemaVersion
from ledgerfs_cluster.recovery.settings.schema_plan import last_generation


def version(number: int, name: str, when: int | None, **told: object) -> SchemaVersion:
    return SchemaVersion(
        number, SchemaInfo("AVRO", f'{{"type":"fixed","size":1,"name":"{name}"}}'.encode()), when, **told
    )  # type: ignore[arg-type]


def deletion(number: int, when: int | None = None, saved: int | None = None) -> SchemaVersion:
    return SchemaVersion(number, SchemaInfo("NONE"), when, is_deletion=True, saved_ms=saved)


def lost(number: int, when: int | None = None) -> SchemaVersion:
    return SchemaVersion(number, SchemaInfo("NONE", unreadable="its bookies are lost"), when)


def names(*versions: SchemaVersion) -> dict[int, str]:
    """Return what numbers mean, which is the same in whatever order versions come."""
    found = [last_generation(order) for order in itertools.islice(itertools.permutations(versions), 24)]
    assert all(one == found[0] for one in found)
    return {
        number: "deleted"
        if one.is_deletion
        else "lost"
        if one.schema.unreadable
        else one.schema.data.decode().split('"')[-2]
        for number, one in sorted(found[0][0].items())
    }


def test_one_generation_is_what_it_is() -> None:
    assert names(version(0, "a", 10), version(1, "b", 20), version(2, "c", 30)) == {0: "a", 1: "b", 2: "c"}
    assert names() == {}


def test_of_two_generations_the_last_one_counts() -> None:
    before = [version(0, "a", 10), version(1, "b", 20), version(2, "c", 30)]
    now = [version(0, "x", 100), version(1, "y", 110)]
    assert names(*before, *now) == {0: "x", 1: "y"}
    assert last_generation([*before, *now])[1] == {0, 1, 2}


def test_a_gap_is_not_filled_from_an_earlier_generation() -> None:
    # 1 of the last generation was never saved; that of before is older than 0 of the last one.
    versions = [version(0, "a", 10), version(1, "b", 20), version(0, "x", 100), version(2, "z", 120)]
    assert names(*versions) == {0: "x", 2: "z"}
    assert last_generation(versions)[1] == {0, 1}


def test_what_a_restored_cluster_had_by_then_ends_nothing() -> None:
    before = [version(0, "a", 10), version(1, "b", 20), version(2, "c", 30)]
    again = [version(0, "a", 1000), version(1, "b", 1010)]
    assert names(*before, *again) == {0: "a", 1: "b", 2: "c"}
    assert last_generation([*before, *again])[1] == frozenset()
    assert names(*before, *again, version(2, "other", 1020)) == {0: "a", 1: "b", 2: "other"}


def test_equal_schemas_of_two_generations_were_never_another() -> None:
    found = last_generation([version(0, "a", 10), version(0, "a", 100)])
    assert found[1] == frozenset()


@pytest.mark.parametrize(("saved", "kept"), [(50, {0: "a", 1: "deleted", 2: "c"}), (5, {0: "a", 2: "c"})])
def test_a_deletion_without_a_time_is_of_when_it_was_saved(saved: int, kept: dict[int, str]) -> None:
    assert names(version(0, "a", 10), deletion(1, saved=saved), version(2, "c", 40)) == kept


def test_a_deletion_at_the_end_counts() -> None:
    assert names(version(0, "a", 10), deletion(1, when=20)) == {0: "a", 1: "deleted"}
    assert names(version(0, "a", 10), deletion(1, saved=20)) == {0: "a", 1: "deleted"}


def test_what_a_deletion_took_the_number_of_before_is_no_schema() -> None:
    assert names(version(0, "a", 10), version(1, "b", 20), version(0, "x", 100), deletion(1, saved=120)) == {
        0: "x",
        1: "deleted",
    }


def test_a_lost_definition_stays_lost_unless_it_is_known_elsewhere() -> None:
    assert names(version(0, "a", 10), lost(1), version(2, "c", 30)) == {0: "a", 1: "lost", 2: "c"}
    assert names(version(0, "a", 10), lost(1), version(1, "b", 20), version(2, "c", 30)) == {0: "a", 1: "b", 2: "c"}
    # One that has a time by those beside it is none of a generation before.
    assert names(version(1, "b", 20), version(0, "x", 100), lost(1, 120), version(2, "z", 120)) == {
        0: "x",
        1: "lost",
        2: "z",
    }


def test_imports_and_words_by_hand_fill_what_nobody_registered() -> None:
    by_hand = version(1, "h", None, source=BY_HAND, saved_ms=5)
    by_import = version(2, "i", None, source=BY_IMPORT)
    assert names(version(0, "a", 10), by_hand, by_import) == {0: "a", 1: "h", 2: "i"}
    assert names(version(0, "a", 10), version(1, "b", 20), by_hand) == {0: "a", 1: "b"}
    taken_back = SchemaVersion(1, SchemaInfo("NONE"), None, is_deletion=True, source=BY_HAND, saved_ms=6)
    assert names(by_hand, taken_back) == {}
    assert names(version(ANY_VERSION, "h", None, source=BY_HAND)) == {}


def test_what_was_before_a_forced_deletion_is_not_filled_by_hand() -> None:
    found = last_generation(
        [version(0, "x", 100), version(1, "b", 20), version(1, "h", None, source=BY_HAND, saved_ms=5)]
    )
    assert set(found[0]) == {0}
    assert found[1] == {1}

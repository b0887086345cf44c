"""What a reader of columns may find: of each message the value that was written, or that it cannot be decoded, which is counted.

The only values that were not written, and yet may be found, are those that the docs tell of: what a user says by hand is what a number
means; a copy in another bucket means what that bucket says; and numbers that are given wrongly, where nothing is saved that could
contradict.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ledgerfs.formats.schemas.schema_info import ANY_VERSION, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import REGISTRATION_SLACK_MS
from tests.model.bucket_model import Row
from tests.model.schemas import KINDS, Shape, Undecodable, kind_of

Saved = tuple[SchemaVersion, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """One row of a table: its value, None for none, and what values are there."""

    value: Any
    shape: Shape


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the bytes of one message may be taken for.

    Attributes
    ----------
    kinds
        Schemas that it may be read by.
    may_fail
        Whether it may be said that it cannot be decoded.
    is_bytes
        Whether it names no schema, so that it is null and no error.

    """

    kinds: frozenset[str] = frozenset()
    may_fail: bool = False
    is_bytes: bool = False


def meaning_of(row: Row, saved: Saved, bucket: int) -> Meaning:
    """Return what a message of a bucket may be taken for while these schemas are saved."""
    number = ANY_VERSION if row.written is None else row.written.version
    word = _word_for(saved, number)
    known = [one for one in saved if one.version == number and not one.is_deletion and not _is_word(one)]
    if word is None and not known:
        word = _word_for(saved, ANY_VERSION)
    if word is not None:
        return Meaning(frozenset({kind_of(word.schema)}))
    if row.written is None:
        return Meaning(is_bytes=True)
    if not known:
        return Meaning(may_fail=True)
    kinds = frozenset(kind_of(one.schema) for one in known)
    was_said = any(one.version == number and _is_word(one) for one in saved)
    if _is_excused(row, known, bucket, was_said=was_said):
        return Meaning(kinds | {row.written.kind}, may_fail=True)
    return Meaning(frozenset({row.written.kind}), may_fail=not _is_certain(row, known))


def _is_word(one: SchemaVersion) -> bool:
    return one.is_by_hand and one.timestamp_ms is None


def _word_for(saved: Saved, number: int) -> SchemaVersion | None:
    """Return what somebody has said by hand that a number means, whatever else is saved."""
    words = [one for one in saved if one.version == number and _is_word(one)]
    last = max(words, key=lambda one: one.saved_ms or 0, default=None)
    return None if last is None or last.is_deletion else last


def _is_certain(row: Row, known: Sequence[SchemaVersion]) -> bool:
    """Whether a message has to be read by the schema that it was written by."""
    assert row.written is not None
    if {kind_of(one.schema) for one in known} == {row.written.kind}:
        return any((one.timestamp_ms or 0) <= row.time_ms for one in known)
    if any(one.is_by_import for one in known):
        return False
    times = sorted((one.timestamp_ms or 0, kind_of(one.schema)) for one in known)
    before = [kind for time_ms, kind in times if time_ms <= row.time_ms]
    is_near = any(row.time_ms < time_ms <= row.time_ms + REGISTRATION_SLACK_MS for time_ms, _ in times)
    return bool(before) and before[-1] == row.written.kind and not is_near


def _is_excused(row: Row, known: Sequence[SchemaVersion], bucket: int, *, was_said: bool) -> bool:
    """Whether nothing that is saved in the bucket could tell that a number means another schema here.

    ``was_said``: that somebody has said what it means, by which rows may have been written, and has taken that back.
    """
    assert row.written is not None
    own = row.written.kind
    imported = {kind_of(one.schema) for one in known if one.is_by_import}
    if row.written.home is not None:
        return row.written.home != bucket or (was_said and bool(imported - {own}))
    # The cluster's own schema of it was not saved, as its number was given again before.
    times = sorted((one.timestamp_ms or 0, kind_of(one.schema)) for one in known if not one.is_by_import)
    before = [kind for time_ms, kind in times if time_ms <= row.time_ms]
    is_near = any(kind == own and 0 < time_ms - row.time_ms <= REGISTRATION_SLACK_MS for time_ms, kind in times)
    return before[-1:] != [own] and not is_near and own not in imported


class Expectation:
    """What a reader may find of one message while one of some states of schemas was there."""

    def __init__(self, row: Row, states: Iterable[Saved], bucket: int) -> None:
        self.row = row
        self._meanings = {meaning_of(row, saved, bucket) for saved in states}
        self.is_bytes = any(one.is_bytes for one in self._meanings)
        self.is_certainly_bytes = all(one.is_bytes for one in self._meanings)

    def may_fail(self, shape: Shape) -> bool:
        """Whether it may be said that it cannot be decoded."""
        return any(one.may_fail for one in self._meanings) or any(
            not self._values(kind, shape) for one in self._meanings for kind in one.kinds
        )

    def may_be(self, found: Found) -> bool:
        """Whether this may be its value, which is there."""
        if found.shape == ("bytes",):
            return bool(found.value == self.row.value.encode())
        kinds = {kind for one in self._meanings for kind in one.kinds}
        return any(found.value in self._values(kind, found.shape) for kind in kinds)

    def _values(self, name: str, shape: Shape) -> list[Any]:
        """Return the value by a schema, if it has one."""
        kind = KINDS[name]
        try:
            return [kind.read_as(kind.decode(self.row.value.encode()), shape)]
        except Undecodable:
            return []


@dataclass(frozen=True, slots=True)
class Table:
    """What a reader found.

    Attributes
    ----------
    rows
        In their order.
    counts
        How many values could not be decoded and are errors, and how many name no schema; None for readers that only log that.
    is_skipped
        Whether messages that cannot be decoded are left out.

    """

    rows: Sequence[Found]
    counts: tuple[int, int] | None = None
    is_skipped: bool = False


def difference(table: Table, expected: Sequence[Expectation], shape: Shape | None) -> str | None:
    """Return how a table differs from what it may be; None if it does not."""
    place, failed, empty = 0, 0, 0
    for one in expected:
        found = table.rows[place] if place < len(table.rows) else None
        if found is not None and _is(one, found, is_skipped=table.is_skipped):
            place += 1
            failed += found.value is None and not one.is_bytes
            empty += found.value is None
        elif table.is_skipped and shape is not None and one.may_fail(shape):
            failed += 1
        else:
            return f"{one.row} is {found}"
    if place < len(table.rows):
        return f"there are more rows: {table.rows[place:]}"
    if table.counts is None or shape == ("bytes",):
        return None
    errors, others = table.counts
    counted = errors + others if not table.is_skipped else others
    if counted != empty:
        return f"{empty} values are null, and {counted} are counted"
    if table.is_skipped and errors != failed:
        return f"{failed} messages are left out, and {errors} are counted"
    plain = sum(one.is_certainly_bytes for one in expected)
    if not any(one.is_bytes and not one.is_certainly_bytes for one in expected) and others != plain:
        return f"{plain} messages name no schema, and {others} are counted"
    return None


def _is(expected: Expectation, found: Found, *, is_skipped: bool) -> bool:
    if found.value is None:
        return found.shape != ("bytes",) and (expected.is_bytes or (not is_skipped and expected.may_fail(found.shape)))
    return expected.may_be(found)

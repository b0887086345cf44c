"""The versions of a topic's schema, and the one that wrote a message.

A version number does not always mean one schema: numbers restart at 0 after a forced deletion, so one may stand for several schemas, one
after the other. The publish time of a message selects one: a schema is registered before the messages that name it, except for some
milliseconds where a producer has several schemas.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.schemas.schema_info import (
    ANY_VERSION,
    VERSION_BYTES,
    SchemaInfo,
    SchemaVersion,
    version_number,
)

NO_VERSION = -1
"""Number of a message that names no schema: its value is bytes."""
ODD_VERSION = -2
"""Number of a message that names a schema in another way than Pulsar does."""
REGISTRATION_SLACK_MS = 10_000
"""How much later than a message its schema may have been registered, by two clocks."""
REUSED = -1
AMBIGUOUS = -2
_BEFORE_ALL = -(2**62)


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    """All known versions.

    Attributes
    ----------
    versions
        In the order in which they were registered.
    are_of_cluster
        Whether a live cluster reported them: then there were no others.

    """

    versions: tuple[SchemaVersion, ...] = ()
    are_of_cluster: bool = False

    @classmethod
    def of(cls, versions: Sequence[SchemaVersion], *, are_of_cluster: bool = False) -> "TopicSchemas":
        """Return those of the saved versions (in any order) that are in effect: versions by hand replace others.

        A schema for any version (`ANY_VERSION`) comes first.
        """
        in_effect = list(_in_effect(versions))
        return cls(tuple(sorted(in_effect, key=lambda one: _age(one, in_effect, versions))), are_of_cluster)

    @property
    def latest(self) -> SchemaVersion | None:
        """The last version that is not a deletion."""
        return next((one for one in reversed(self.versions) if not one.is_deletion), None)

    def meant_by(self, version: int | str) -> SchemaInfo | None:
        """Return the schema of a number, or of ``latest``; None if there is none."""
        if version == "latest":
            return None if self.latest is None else self.latest.schema
        found = [] if isinstance(version, str) else self.numbered(version)
        return found[-1].schema if found else None

    def numbered(self, number: int) -> list[SchemaVersion]:
        """Return the schemas that had a number, in their order."""
        return [one for one in self.versions if one.version == number and not one.is_deletion]

    @property
    def last_deletion(self) -> int:
        """The number of the last deletion, which hides those before it; -1 without one."""
        return max((one.version for one in self.versions if one.is_deletion), default=-1)

    def may_be_deleted(self, number: int) -> bool:
        """Whether messages of a number may have a schema that was deleted before it was saved: only those of imported rows are known."""
        return number <= self.last_deletion and all(one.is_by_import for one in self.numbered(number))

    @property
    def digest(self) -> str:
        """Digest of all versions: equal for equal schemas."""
        digest = hashlib.sha256()
        for one in self.versions:
            said = (
                one.version,
                one.timestamp_ms,
                one.is_deletion,
                one.is_by_import,
                one.schema.type,
                sorted(one.schema.properties.items()),
            )
            digest.update(repr(said).encode() + one.schema.data + one.schema.unreadable.encode() + b"\0")
        return digest.hexdigest()


def common_number(column: pa.Array) -> int | None:
    """Return the number that all rows of a column ``schema_version`` have, as in `version_numbers`; None if they (may) differ."""
    if not len(column):
        return None
    if column.null_count == len(column):
        return NO_VERSION
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    numbers = np.frombuffer(data or b"", np.uint8)
    if column.null_count or not _are_equal(numbers, places):
        return None
    return _number(column[0].as_py())


def version_numbers(column: pa.Array) -> Int64:
    """Return the numbers of a column ``schema_version``: `NO_VERSION` and `ODD_VERSION` where there is none."""
    encoded = column.dictionary_encode()
    numbers = np.array([*map(_number, encoded.dictionary.to_pylist()), NO_VERSION], np.int64)
    places = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
    found: Int64 = numbers[places]
    return found


def numbers_named(column: pa.Array) -> frozenset[int]:
    """Return the numbers that rows of a column ``schema_version`` name."""
    common = common_number(column)
    found = np.unique(version_numbers(column)).tolist() if common is None else [common]
    return frozenset(found) - {NO_VERSION, ODD_VERSION}


def _are_equal(data: Bytes, places: npt.NDArray[np.int32]) -> bool:
    """Whether all of ``data[places[i] : places[i + 1]]`` are the same bytes, and as many as a version has."""
    if places.size < 2 or not (np.diff(places) == VERSION_BYTES).all():
        return False
    words = data[places[0] : places[-1]].view(np.int64)
    return bool((words == words[0]).all())


def _number(data: bytes) -> int:
    number = version_number(data)
    if number is None:
        return ODD_VERSION if data else NO_VERSION
    return max(number, ODD_VERSION)


def writers_of(generations: Sequence[SchemaVersion], published_ms: Int64) -> Int64:
    """Return for each message the index of the schema that wrote it, among the schemas of one number.

    This is the last one that was registered before the message; one without a time may be any. `REUSED` where all were registered later:
    the number then meant another, unknown schema. `AMBIGUOUS` where one was registered within the slack after the message, and a different
    one before; where different ones were registered at one time, in two clusters; or where rows were written, at any time, with a schema
    that differs from the cluster's. Two times with one index that is not `AMBIGUOUS` have no other between them.
    """
    if not generations:
        return np.full(published_ms.size, REUSED, np.int64)
    starts = np.array([_BEFORE_ALL if one.timestamp_ms is None else one.timestamp_ms for one in generations], np.int64)
    certain = np.maximum(np.searchsorted(starts, published_ms, "right") - 1, 0)
    possible = np.searchsorted(starts, published_ms + REGISTRATION_SLACK_MS, "right") - 1
    is_other = [not one.schema.means_the_same(before.schema) for before, one in pairwise(generations)]
    # Equal schemas that follow each other are one kind.
    kinds = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(is_other, np.int64))])
    # Schemas registered at one time count only if all are of one kind.
    first = np.searchsorted(starts, starts, "left")
    writers = np.where(kinds[first[certain]] == kinds[possible], certain, AMBIGUOUS)
    for one in generations:
        if one.is_by_import:
            is_same = np.array([other.schema.means_the_same(one.schema) for other in generations])
            writers = np.where((writers >= 0) & ~is_same[np.maximum(writers, 0)], AMBIGUOUS, writers)
    found: Int64 = np.where(possible < 0, REUSED, writers)
    return found


def _in_effect(versions: Sequence[SchemaVersion]) -> Iterator[SchemaVersion]:
    """Yield the versions in effect: the one that a user gave for a number, otherwise the saved ones, except at times with one by hand."""
    for number in sorted({one.version for one in versions}):
        saved = [one for one in versions if one.version == number and not one.is_by_hand]
        given = [one for one in versions if one.version == number and one.is_by_hand]
        for_all = last_word([one for one in given if one.timestamp_ms is None])
        if for_all is not None:
            yield for_all
            continue
        by_time: dict[int | None, list[SchemaVersion]] = {}
        for one in saved:
            if not one.is_by_import:
                of_then = by_time.setdefault(one.timestamp_ms, [])
                of_then[:] = [*(other for other in of_then if not other.schema.means_the_same(one.schema)), one]
        for when in {one.timestamp_ms for one in given} - {None}:
            for_then = last_word([one for one in given if one.timestamp_ms == when])
            if for_then is not None:
                by_time[when] = [for_then]
        others = [one for of_then in by_time.values() for one in of_then]
        yield from others
        for one in saved:
            if one.is_by_import and not _says_nothing_new(one, others):
                yield one


def _says_nothing_new(imported: SchemaVersion, others: Sequence[SchemaVersion]) -> bool:
    """Whether an imported schema equals all of the cluster's schemas of this number, and has the registration time of one of them."""
    is_since = imported.timestamp_ms is not None and imported.timestamp_ms in {one.timestamp_ms for one in others}
    return is_since and all(one.schema.means_the_same(imported.schema) for one in others)


def last_word(given: Sequence[SchemaVersion]) -> SchemaVersion | None:
    """Return the version that a user gave last; None if that was a deletion."""
    last = max(given, key=_moment, default=None)
    return None if last is None or last.is_deletion else last


def is_in_effect(one: SchemaVersion, versions: Sequence[SchemaVersion]) -> bool:
    """Whether a saved version is in effect among all of its topic: none by hand replaces it.

    A deletion by hand is in effect until a user gives a schema again.
    """
    if not one.is_by_hand:
        # One of several equal schemas of one time represents all.
        return any(
            _place(other) == _place(one) and other.schema.means_the_same(one.schema) for other in _in_effect(versions)
        )
    if not one.is_deletion:
        return one in _in_effect(versions)
    of_it = [other for other in versions if other.is_by_hand and _place(other) == _place(one)]
    return max(of_it, key=_moment) == one


def next_word_ms(versions: Sequence[SchemaVersion], number: int, now_ms: int) -> int:
    """Return a time that makes a new version by hand the last one of its number, even if another user's clock is ahead."""
    return max([now_ms, *((one.saved_ms or 0) + 1 for one in versions if one.is_by_hand and one.version == number)])


def _place(one: SchemaVersion) -> tuple[int, int | None]:
    return one.version, one.timestamp_ms


def _moment(one: SchemaVersion) -> tuple[int, bool, str]:
    """Return the sort key of versions by hand of one number; of two in one millisecond, all readers choose the same one."""
    return one.saved_ms or 0, one.is_deletion, repr(one)


def _age(
    one: SchemaVersion, in_effect: Sequence[SchemaVersion], versions: Sequence[SchemaVersion]
) -> tuple[float, int]:
    """Return the sort key of versions, by the time of their registration.

    A version by hand has no known time: it counts as old as the saved ones of its number. Without any, it is the youngest if its number is
    the highest, otherwise the oldest. An imported version without a time is older than all others of its number. Deletions have no time
    either; their order does not matter.
    """
    if one.timestamp_ms is not None:
        # Imported rows were written with the schema that was registered then.
        return one.timestamp_ms, ANY_VERSION if one.is_by_import else one.version
    if one.is_by_import and any(other.version == one.version and other is not one for other in in_effect):
        return -math.inf, one.version
    saved = [
        other.timestamp_ms for other in versions if other.version == one.version and other.timestamp_ms is not None
    ]
    is_beyond = all(other.version <= one.version for other in versions) and not one.is_deletion
    return (max(saved) if saved else math.inf if is_beyond and one.version >= 0 else -math.inf), one.version

"""Saving the schemas of many topics: each that fails is named, and the others are saved."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.errors import (
    AuthenticationError,
    CorruptObjectError,
    InvalidOptionError,
    LedgerfsError,
    SchemaConflictError,
    UncertainWriteError,
    UnknownSchemaError,
    UnsupportedFormatError,
)
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas, SchemaStore
from ledgerfs.storage.ordered_map import ordered_map
from ledgerfs_cluster.errors import AdminApiUnreachableError

THREADS = 8
_OF_ONE_TOPIC = (CorruptObjectError, UnsupportedFormatError)
"""Errors in what is saved of a topic."""


@dataclass(frozen=True, slots=True)
class SavedTopic:
    """What became of one topic's schemas.

    Attributes
    ----------
    versions, new
        How many versions the source has, deletions not counted, and how many objects were written.
    error
        Why not all of them are saved; None if they are.

    """

    topic: str
    versions: int
    new: int
    error: LedgerfsError | None = None


def save_schemas(
    source: SchemaStore, saved: SavedSchemas, topics: Iterable[str], threads: int = THREADS
) -> Iterator[SavedTopic]:
    """Save what the source knows of the schemas of topics, some at a time; yield what became of each, in their order.

    Raises what ends all of them: `AdminApiUnreachableError`, `AuthenticationError`, and the errors of the place where they are saved. What
    is saved by then stays.
    """

    def save_one(topic: str) -> SavedTopic:
        # Before the source is asked: what others save later may be of a version that it did not have yet.
        kept = _kept(saved, topic)
        try:
            found = source.versions(topic)
        except (AdminApiUnreachableError, AuthenticationError):
            raise
        except LedgerfsError as error:
            return SavedTopic(topic, 0, 0, error)
        return _saved(saved, topic, found, kept)

    return ordered_map(save_one, topics, threads, "ledgerfs-schemas")


def _kept(saved: SavedSchemas, topic: str) -> tuple[SchemaVersion, ...]:
    try:
        return saved.versions(topic)
    except _OF_ONE_TOPIC:
        # It is told by what adds to them, after the new ones are saved.
        return ()


def _saved(
    saved: SavedSchemas, topic: str, found: tuple[SchemaVersion, ...], kept: tuple[SchemaVersion, ...]
) -> SavedTopic:
    lost = {one.version: one.schema.unreadable for one in found if one.schema.unreadable}
    readable = tuple(one for one in found if one.version not in lost)
    count = sum(not one.is_deletion for one in readable)
    now_ms = int(time.time() * 1000)
    try:
        new = saved.add(topic, (replace(one, saved_ms=now_ms) for one in readable))
        _require_one_cluster(topic, readable, tuple(one for one in kept if one.version not in lost))
    except (*_OF_ONE_TOPIC, InvalidOptionError, UncertainWriteError, SchemaConflictError) as error:
        return SavedTopic(topic, count, 0, error)
    if lost:
        return SavedTopic(topic, count, new, UnknownSchemaError("; ".join(lost.values()), key=topic))
    return SavedTopic(topic, count, new)


def _require_one_cluster(topic: str, found: tuple[SchemaVersion, ...], kept: tuple[SchemaVersion, ...]) -> None:
    """Raise `SchemaConflictError` if one that was saved before is of another cluster than what the source has.

    In one cluster numbers begin anew only after all versions are deleted. So what was registered after a version that the source still has
    is there as well, unless a later deletion, which has a number of its own, hides it; and of one number there is only one at a time.
    """
    hidden = max((one.version for one in found if one.is_deletion), default=-1)
    there = [one for one in found if not one.is_deletion]
    for other in kept:
        is_registered = not (other.is_deletion or other.is_by_hand or other.is_by_import)
        if not is_registered or other.timestamp_ms is None or other.version <= hidden:
            continue
        of_then = [one for one in there if _place(one) == _place(other)]
        if any(one.schema.means_the_same(other.schema) for one in of_then):
            continue
        # It could not be there if the other one, which is not, had been registered in the same cluster.
        proof = next((one for one in there if (one.timestamp_ms or 0) < other.timestamp_ms or one in of_then), None)
        if proof is not None:
            reason = (
                f"schema version {other.version}, saved from {other.source}, was registered at {iso_time(other.timestamp_ms)}, and "
                f"{proof.source} does not have it, although its version {proof.version} is there since {iso_time(proof.timestamp_ms)}: "
                "these are two clusters. Both are saved, and nothing tells which of them a message means; save each cluster's schemas to a "
                "place of its own (--to)"
            )
            raise SchemaConflictError(reason, key=topic)


def _place(one: SchemaVersion) -> tuple[int, int]:
    """Return what no two schemas of one cluster share: number and time."""
    return one.version, one.timestamp_ms or 0

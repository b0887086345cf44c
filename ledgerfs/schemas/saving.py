"""Saving the schemas of many topics: each that fails is named, and the others are saved."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ledgerfs.errors import (
    AdminApiUnreachableError,
    AuthenticationError,
    CorruptObjectError,
    LedgerfsError,
    SchemaConflictError,
    UncertainWriteError,
    UnsupportedFormatError,
)
from ledgerfs.formats.schemas.schema_info import SchemaVersion
from ledgerfs.ledgers.time_arguments import iso_time
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.schemas.schema_store import SchemaStore
from ledgerfs.storage.ordered_map import ordered_map

THREADS = 8


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
        try:
            found = source.versions(topic)
        except (AdminApiUnreachableError, AuthenticationError):
            raise
        except LedgerfsError as error:
            return SavedTopic(topic, 0, 0, error)
        return _saved(saved, topic, found)

    return ordered_map(save_one, topics, threads, "ledgerfs-schemas")


def _saved(saved: SavedSchemas, topic: str, found: tuple[SchemaVersion, ...]) -> SavedTopic:
    count = sum(not one.is_deletion for one in found)
    now_ms = int(time.time() * 1000)
    try:
        new = saved.add(topic, (replace(one, saved_ms=now_ms) for one in found)) if found else 0
        _require_one_cluster(topic, found, saved.versions(topic))
    except (CorruptObjectError, UnsupportedFormatError, UncertainWriteError, SchemaConflictError) as error:
        return SavedTopic(topic, count, 0, error)
    return SavedTopic(topic, count, new)


def _require_one_cluster(topic: str, found: tuple[SchemaVersion, ...], kept: tuple[SchemaVersion, ...]) -> None:
    """Raise `SchemaConflictError` if a younger schema of a number is saved than the one that the cluster still has."""
    for one in found:
        for other in kept:
            is_of_number = other.version == one.version and not (
                one.is_deletion or other.is_deletion or other.is_by_hand
            )
            if is_of_number and (other.timestamp_ms or 0) > (one.timestamp_ms or 0) and other.schema != one.schema:
                reason = (
                    f"schema version {one.version} of {one.source} was registered at {iso_time(one.timestamp_ms)}, and another one, "
                    f"saved from {other.source}, at {iso_time(other.timestamp_ms)}: these are two clusters. Both are saved, and nothing "
                    "tells which of them a message means; save each cluster's schemas to a place of its own (--to)"
                )
                raise SchemaConflictError(reason, key=topic)

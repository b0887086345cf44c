"""Save the schemas of many topics; a topic that fails is reported, and the others are saved."""

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
"""Errors that concern one topic's saved schemas."""


@dataclass(frozen=True, slots=True)
class SavedTopic:
    """Result for one topic's schemas.

    Attributes
    ----------
    versions, new
        Number of versions at the source without deletions, and number of new objects.
    error
        Why some versions are not saved; None if all are.

    """

    topic: str
    versions: int
    new: int
    error: LedgerfsError | None = None


def save_schemas(
    source: SchemaStore, saved: SavedSchemas, topics: Iterable[str], threads: int = THREADS
) -> Iterator[SavedTopic]:
    """Save the source's schemas of topics in parallel; yield the result for each topic, in their order.

    Raises the errors that stop all topics: `AdminApiUnreachableError`, `AuthenticationError`, and the errors of the place to save to.
    Schemas saved by then stay.
    """

    def save_one(topic: str) -> SavedTopic:
        # Read before the request to the source: other processes may later save versions that the source's answer does not contain.
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
        # `SavedSchemas.add` reports it, after the new ones are saved.
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
    """Raise `SchemaConflictError` if an earlier saved version is of another cluster than the source's.

    In one cluster numbers start over only after all versions are deleted. So a version registered after one that the source still has is
    there as well, unless a later deletion, which has its own number, hides it; and each number exists only once at a time.
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
        # Versions that prove it: had the missing one been registered in the same cluster, they could not exist.
        proof = next((one for one in there if (one.timestamp_ms or 0) < other.timestamp_ms or one in of_then), None)
        if proof is not None:
            reason = (
                f"the saved schemas are of two clusters: version {other.version}, saved from {other.source}, was registered at "
                f"{iso_time(other.timestamp_ms)}, but {proof.source} does not have it, although its version {proof.version} exists since "
                f"{iso_time(proof.timestamp_ms)}. Both are saved, but messages do not contain their cluster; save the schemas of each "
                "cluster to its own place (--to)"
            )
            raise SchemaConflictError(reason, key=topic)


def _place(one: SchemaVersion) -> tuple[int, int]:
    """Return number and time, which are unique within a cluster."""
    return one.version, one.timestamp_ms or 0

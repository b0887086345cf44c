"""Schemas as stored by a live cluster: locators in ZooKeeper list the versions, BookKeeper has an entry for each.

These include versions that a soft deletion hides from the admin API and from Pulsar's clients. A version whose entry is lost is returned as
unreadable, with the reason.

Each call reads the cluster again, and raises `CorruptMetadataError` (a damaged locator), `StaleObjectError` (schemas that keep changing
while they are read) and the errors of ZooKeeper and bookies: `StoreUnreachableError`, `AccessDeniedError`.
"""

from dataclasses import replace
from functools import partial

from ledgerfs.errors import (
    CorruptObjectError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
    UnsupportedFormatError,
)
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.formats.topic_names import parse_managed_ledger_name
from ledgerfs.storage.ordered_map import ordered_map
from ledgerfs_cluster.formats.stored_schema import (
    ROOT,
    StoredVersion,
    locator_path,
    parse_locator,
    parse_stored_schema,
)
from ledgerfs_cluster.live_source.access import ClusterAccess

_TRIES = 6
"""Most reads of a topic's schemas that change while they are read."""

_THREADS = 8
_NAMES = 3
"""Levels of folders above locators, with their own: tenant, namespace, topic."""

_EXPECTED_BYTES = 4096
"""Approximate size of a schema's entry, bytes."""

_LOST = (ObjectNotFoundError, CorruptObjectError, UnsupportedFormatError)
"""Permanent errors of one version alone."""


def schema_versions(access: ClusterAccess, topic: str) -> tuple[SchemaVersion, ...]:
    """Return all versions of a topic, with deletions, ascending by number; raises `InvalidNameError`, too.

    Reads again until no version is unreadable, or the locator did not change in between.
    """
    path = locator_path(topic)
    before: tuple[object, ...] = ()
    for _ in range(_TRIES):
        try:
            locator = access.cluster.nodes.get(path)
        except ObjectNotFoundError:
            return ()
        stored = parse_locator(locator.data, key=path)
        read = partial(_read, access, path)
        found = tuple(
            map(read, stored) if len(stored) == 1 else ordered_map(read, stored, _THREADS, "ledgerfs-schemas")
        )
        # A locator that was deleted and created again may have the same data.
        now = (locator.created_ms, locator.version, locator.data)
        if now == before or not any(one.schema.unreadable for one in found):
            return found
        before = now
    raise StaleObjectError("the schemas changed during each of several tries to read them; try again", key=path)


def schema_topics(access: ClusterAccess) -> list[str]:
    """Return the names of all topics with schemas, sorted; skips nodes that are not named after a topic."""
    level = [ROOT]
    for _ in range(_NAMES):
        below: list[str] = []
        for folder, names in zip(level, access.cluster.nodes.children_many(level), strict=True):
            if isinstance(names, ObjectNotFoundError):
                continue
            if isinstance(names, LedgerfsError):
                raise names
            below += [f"{folder}/{name}" for name in names]
        level = below
    return sorted(name for name in map(_topic_at, level) if name is not None)


def _read(access: ClusterAccess, path: str, stored: StoredVersion) -> SchemaVersion:
    # Import numba only here: topics without schemas do not need it.
    from ledgerfs_cluster.live_source.hot_ledger import HotLedger

    ledger_id, entry_id = stored.position
    try:
        (batch,) = HotLedger(access, ledger_id, _EXPECTED_BYTES).batches(entry_id, entry_id)
        ((_, entry),) = batch
        found = parse_stored_schema(bytes(entry), key=path, version=stored.version)
    except _LOST as error:
        reason = f"schema version {stored.version} cannot be read from entry {entry_id} of ledger {ledger_id}: {error}"
        return SchemaVersion(stored.version, SchemaInfo("NONE", unreadable=reason), source=access.cluster.url)
    return replace(found, source=access.cluster.url)


def _topic_at(path: str) -> str | None:
    namespace, _, encoded = path.removeprefix(f"{ROOT}/").rpartition("/")
    parsed = parse_managed_ledger_name(f"{namespace}/persistent/{encoded}")
    return None if parsed is None else parsed.topic

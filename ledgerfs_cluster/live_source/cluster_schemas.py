"""Schemas as a living cluster itself keeps them: which versions there are tells ZooKeeper, what they say an entry of BookKeeper for each.

These are all versions, also those that a soft deletion hides from the admin API and from Pulsar's own clients. A version whose entry is
lost is there as one that cannot be read: whoever needs it is told why.

Each call asks the cluster anew, and raises `CorruptMetadataError` (a locator that is none), `StaleObjectError` (schemas that change again
and again while they are read) and the errors of ZooKeeper and bookies: `StoreUnreachableError`, `AccessDeniedError`.
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
"""How often the schemas of a topic are read again that change while they are read."""

_THREADS = 8
_NAMES = 3
"""Names of a locator: tenant, namespace, topic."""

_EXPECTED_BYTES = 4096
"""Bytes of a schema's entry, about."""

_LOST = (ObjectNotFoundError, CorruptObjectError, UnsupportedFormatError)
"""What is wrong with one version alone, and for good."""


def schema_versions(access: ClusterAccess, topic: str) -> tuple[SchemaVersion, ...]:
    """Return all versions of a topic, deletions among them, ascending by number; raises `InvalidNameError`, too.

    They are read again until none is missing, or none of those that are was only just deleted.
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
        # A locator that is deleted and made anew may say the same as before.
        now = (locator.created_ms, locator.version, locator.data)
        if now == before or not any(one.schema.unreadable for one in found):
            return found
        before = now
    raise StaleObjectError("the schemas changed while they were read, again and again", key=path)


def schema_topics(access: ClusterAccess) -> list[str]:
    """Return the names of all topics that have schemas, sorted; what is stored under no topic's name is no topic's."""
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
    # numba, which this imports, is not needed where there are no schemas.
    from ledgerfs_cluster.live_source.hot_ledger import HotLedger

    ledger_id, entry_id = stored.position
    try:
        (batch,) = HotLedger(access, ledger_id, _EXPECTED_BYTES).batches(entry_id, entry_id)
        ((_, entry),) = batch
        found = parse_stored_schema(bytes(entry), key=path, version=stored.version)
    except _LOST as error:
        reason = f"schema version {stored.version} is in entry {entry_id} of ledger {ledger_id}, which cannot be read: {error}"
        return SchemaVersion(stored.version, SchemaInfo("NONE", unreadable=reason), source=access.cluster.url)
    return replace(found, source=access.cluster.url)


def _topic_at(path: str) -> str | None:
    namespace, _, encoded = path.removeprefix(f"{ROOT}/").rpartition("/")
    parsed = parse_managed_ledger_name(f"{namespace}/persistent/{encoded}")
    return None if parsed is None else parsed.topic

"""Schemas as a living cluster itself keeps them: which versions there are tells ZooKeeper, what they say an entry of BookKeeper for each.

These are all versions, also those that a soft deletion hides from the admin API and from Pulsar's own clients. A version whose entry is
lost is there as one that cannot be read: whoever needs it is told why.
"""

from collections.abc import Sequence
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


class ClusterSchemas:
    """`ledgerfs.schemas.schema_store.SchemaStore` of a living cluster. Each call asks the cluster anew.

    All methods raise `CorruptMetadataError` (a locator that is none), `StaleObjectError` (schemas that change again and again while they
    are read) and the errors of ZooKeeper and bookies: `StoreUnreachableError`, `AccessDeniedError`. Of a version whose entry is lost
    nothing is known but its number, and why.
    """

    __slots__ = ("_access",)

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    @property
    def source(self) -> str:
        """The URL of the cluster."""
        return self._access.cluster.url

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all versions of a topic, deletions among them, ascending by number; raises `InvalidNameError`, too."""
        return self._versions_at(locator_path(topic))

    def topics(self) -> list[str]:
        """Return the names of all topics that have schemas, sorted; what is stored under no topic's name is no topic's."""
        return sorted(name for name in map(_topic_at, self._paths()) if name is not None)

    def _versions_at(self, path: str) -> tuple[SchemaVersion, ...]:
        """Return the versions of a locator, read again until none is missing, or none of those that are was only just deleted."""
        before: tuple[object, ...] = ()
        for _ in range(_TRIES):
            try:
                locator = self._access.cluster.nodes.get(path)
            except ObjectNotFoundError:
                return ()
            found = self._all_of(path, parse_locator(locator.data, key=path))
            # A locator that is deleted and made anew may say the same as before.
            now = (locator.created_ms, locator.version, locator.data)
            if now == before or not any(one.schema.unreadable for one in found):
                return found
            before = now
        raise StaleObjectError("the schemas changed while they were read, again and again", key=path)

    def _paths(self) -> list[str]:
        """Return the paths of all locators: below tenants and namespaces."""
        level = [ROOT]
        for _ in range(_NAMES):
            below: list[str] = []
            answers = self._access.cluster.nodes.children_many(level)
            for folder, names in zip(level, answers, strict=True):
                if isinstance(names, ObjectNotFoundError):
                    continue
                if isinstance(names, LedgerfsError):
                    raise names
                below += [f"{folder}/{name}" for name in names]
            level = below
        return level

    def _all_of(self, path: str, stored: Sequence[StoredVersion]) -> tuple[SchemaVersion, ...]:
        """Return what the versions of a locator say; some are read at a time."""
        read = partial(self._read, path)
        return tuple(map(read, stored) if len(stored) == 1 else ordered_map(read, stored, _THREADS, "ledgerfs-schemas"))

    def _read(self, path: str, stored: StoredVersion) -> SchemaVersion:
        ledger_id, entry_id = stored.position
        try:
            found = parse_stored_schema(self._entry(ledger_id, entry_id), key=path, version=stored.version)
        except _LOST as error:
            reason = f"schema version {stored.version} is in entry {entry_id} of ledger {ledger_id}, which cannot be read: {error}"
            return SchemaVersion(stored.version, SchemaInfo("NONE", unreadable=reason), source=self.source)
        return replace(found, source=self.source)

    def _entry(self, ledger_id: int, entry_id: int) -> bytes:
        """Return one entry; raises as `HotLedger.batches`."""
        # numba, which this imports, is not needed where there are no schemas.
        from ledgerfs_cluster.live_source.hot_ledger import HotLedger

        (batch,) = HotLedger(self._access, ledger_id, _EXPECTED_BYTES).batches(entry_id, entry_id)
        ((_, entry),) = batch
        return bytes(entry)


def _topic_at(path: str) -> str | None:
    namespace, _, encoded = path.removeprefix(f"{ROOT}/").rpartition("/")
    parsed = parse_managed_ledger_name(f"{namespace}/persistent/{encoded}")
    return None if parsed is None else parsed.topic

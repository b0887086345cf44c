"""All that is known of the schemas of a lost cluster's topic: by its dump, beside the bucket, and in other places of saved schemas.

A dump has all versions, deleted ones, too. Where it could not get a definition, one that is saved stands in for it, if it has the hash that
ZooKeeper had.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ledgerfs.errors import CorruptMetadataError, UnsupportedFormatError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.schemas.schema_store import SchemaStore
from ledgerfs_cluster.formats.stored_schema import StoredVersion, locator_path, parse_locator, parse_stored_schema
from ledgerfs_cluster.formats.told_schema import has_hash
from ledgerfs_cluster.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs_cluster.snapshot.answers import SchemaAnswer

SOURCE = "dump"
"""The source of a schema that a dump of the cluster has."""


def known_versions(topic: str, settings: DumpedSettings, stores: Sequence[SchemaStore]) -> tuple[SchemaVersion, ...]:
    """Return all versions of a topic's schema that are known, those of the dump first.

    Parameters
    ----------
    topic
        As it was named; partitions have the schemas of the whole.
    settings
        What the dump tells.
    stores
        Where schemas are saved: the bucket (`ledgerfs.bucket.known_schemas.KnownSchemas`), and other places.

    Raises
    ------
    CorruptMetadataError
        The dump's locator is damaged. A version that is damaged is one that cannot be read.
    InvalidNameError
        Not the name of a topic.
    LedgerfsError
        The errors of the stores.

    """
    saved = [one for store in stores for one in store.versions(topic)]
    return (*_dumped(locator_path(topic, root="").lstrip("/"), settings, saved), *saved)


def _dumped(name: str, settings: DumpedSettings, saved: Sequence[SchemaVersion]) -> Iterator[SchemaVersion]:
    locator = settings.locators.get(name)
    if locator is None:
        return
    answers = {one.version: one for one in settings.schemas.get(name, ())}
    found = [_version(name, one, answers.get(one.version), saved) for one in parse_locator(locator, key=name)]
    # What has no time was registered before the next one that has, and is no older one of the same number.
    near = max((one.timestamp_ms for one in found if one.timestamp_ms is not None), default=None)
    for at in range(len(found) - 1, -1, -1):
        if found[at].timestamp_ms is None:
            found[at] = replace(found[at], timestamp_ms=near)
        near = found[at].timestamp_ms
    yield from found


def _version(
    name: str, stored: StoredVersion, answer: SchemaAnswer | None, saved: Sequence[SchemaVersion]
) -> SchemaVersion:
    found = _read(name, stored, answer)
    if not found.schema.unreadable:
        return found
    if not stored.hash:
        # A deletion, whose number is all that there is to it.
        return replace(found, schema=SchemaInfo("NONE"), is_deletion=True)
    of_number = (one for one in saved if one.version == stored.version and not one.is_deletion)
    return next((replace(one, source=SOURCE) for one in of_number if has_hash(one.schema, stored.hash)), found)


def _read(name: str, stored: StoredVersion, answer: SchemaAnswer | None) -> SchemaVersion:
    """Return what BookKeeper had of a version, or that it cannot be read, and why."""
    if answer is None or answer.payload is None:
        why = "the dump has no entry of it" if answer is None else answer.trouble or "the dump has no entry of it"
    else:
        try:
            found = parse_stored_schema(answer.payload, key=name, version=stored.version)
        except (CorruptMetadataError, UnsupportedFormatError) as error:
            why = error.reason
        else:
            return replace(found, source=SOURCE)
    return SchemaVersion(stored.version, SchemaInfo("NONE", unreadable=why), source=SOURCE)

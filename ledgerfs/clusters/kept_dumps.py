"""Dumps that are kept beside a bucket: which there are, and reading one, whole or as what changed since another one.

Whoever decides by them lists anew: nothing of it is remembered.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from ledgerfs.clusters.dump_deltas import applied
from ledgerfs.clusters.dump_file import Record, dump_lines, read_dump, records_of
from ledgerfs.clusters.kept_dump_names import FOLDER, KeptDump, parse_kept_dump
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptObjectError,
    InvalidOptionError,
    NotFoundError,
    ObjectNotFoundError,
)
from ledgerfs.formats.local_paths import local_path
from ledgerfs.storage.object_store import ObjectStore, RawStore
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs.storage.whole_objects import WholeObject

__all__ = [
    "KeptDump",
    "kept_dump_at",
    "kept_dump_lines",
    "kept_dumps",
    "read_dump_at",
    "read_kept_dump",
    "without_base",
]

_log = logging.getLogger("ledgerfs.dumps")


def kept_dumps(store: ObjectStore, cluster: str | None = None) -> list[KeptDump]:
    """Return all dumps that a bucket has, or those of one cluster, by clusters and ascending times; costs a listing of their folder.

    Objects of other names are told of (`logging`), and left out. A delta may be among them whose base is not there (`without_base`).
    Raises `AccessDeniedError` if a folder may not be listed, and the errors of the store.
    """
    found: list[KeptDump] = []
    for page in store.list_folder(FOLDER if cluster is None else f"{FOLDER}{cluster}/"):
        for stat in page:
            if stat.refused:
                raise AccessDeniedError(f"dumps may be here, and nothing of it is known: {stat.refused}", key=stat.key)
            if stat.key.endswith("/"):
                continue
            kept = parse_kept_dump(stat)
            if kept is None:
                _log.warning("%s: no name of a dump that ledgerfs keeps; left out", stat.key)
            else:
                found.append(kept)
    return sorted(found, key=lambda one: (one.cluster, one.taken_ms, one.key))


def without_base(kept: list[KeptDump]) -> list[KeptDump]:
    """Return those of one listing that cannot be read, since they tell what changed since a dump that is not there."""
    keys = {one.key for one in kept}
    return [one for one in kept if one.base is not None and one.base not in keys]


def read_kept_dump(store: ObjectStore, kept: KeptDump) -> Iterator[Record]:
    """Yield the records of a dump, of a delta those of the whole dump that it stands for.

    What is yielded counts only once the end is reached: what is damaged may show there alone.

    Raises
    ------
    CorruptObjectError
        It is damaged, or its base is missing, damaged, or another one.
    ObjectNotFoundError
        It has been pruned since it was listed.
    AccessDeniedError, StoreError
        As the store has them.

    """
    return records_of(kept_dump_lines(store, kept), kept.key)


def kept_dump_lines(store: ObjectStore, kept: KeptDump) -> Iterator[bytes]:
    """Yield the lines of a dump's file, of a delta those of the whole dump; raises as `read_kept_dump`."""
    own = dump_lines(WholeObject(store, kept.stat, kept.digest), kept.key)
    return own if kept.base is None else applied(_base_lines(store, kept.base), own, kept.base, kept.key)


def _base_lines(store: ObjectStore, key: str) -> Iterator[bytes]:
    try:
        base = parse_kept_dump(store.head(key).stat)
    except ObjectNotFoundError as error:
        raise CorruptObjectError("the dump that others tell the changes to is not there", key=key) from error
    if base is None:
        raise CorruptObjectError("no name of a dump", key=key)
    yield from dump_lines(WholeObject(store, base.stat, base.digest), key)


def read_dump_at(place: str, storage_options: Mapping[str, Any] | None = None) -> Iterator[Record]:
    """Yield the records of a dump that a user names: a file, or a kept dump (`kept_dump_at`).

    Raises as `kept_dump_at` and `read_kept_dump`, and for a file `NotFoundError`, `CorruptObjectError`, `UnusableUrlError`.
    """
    found = kept_dump_at(place, storage_options)
    return read_dump(local_path(place, "dump")) if found is None else read_kept_dump(*found)


def kept_dump_at(place: str, storage_options: Mapping[str, Any] | None = None) -> tuple[RawStore, KeptDump] | None:
    """Return the kept dump that a user names as ``<bucket>/_ledgerfs/dumps/<cluster>/<name>``, and its bucket; None for another place.

    Of a name as much is enough as no other one begins with.

    Raises
    ------
    NotFoundError
        None is kept whose name begins so.
    InvalidOptionError
        Several are, or an option of the store is invalid.
    UnusableUrlError, AccessDeniedError, StoreError
        As the store has them.

    """
    bucket, folder, name = (f"./{place}" if place.startswith(FOLDER) else place).rpartition(f"/{FOLDER}")
    if not folder:
        return None
    store = open_store(*filesystem_of(bucket or "/", storage_options or {}))
    try:
        kept = parse_kept_dump(store.head(FOLDER + name).stat)
    except ObjectNotFoundError:
        kept = None
    return store, kept or _only_one(store, FOLDER + name)


def _only_one(store: ObjectStore, beginning: str) -> KeptDump:
    """Return the dump whose key begins so, if that is one; raises as `kept_dump_at`."""
    cluster, slash, name = beginning.removeprefix(FOLDER).partition("/")
    found = [one for one in kept_dumps(store, cluster) if one.key.startswith(beginning)] if slash and name else []
    if not found:
        raise NotFoundError(
            "no dump is kept whose name begins so; `ledgerfs cluster dumps` lists them", key=f"{store.url}/{beginning}"
        )
    if len(found) > 1:
        reason = f"{len(found):,} dumps have names that begin so: {found[0].key} is the first, {found[-1].key} the last"
        raise InvalidOptionError(reason, key=f"{store.url}/{beginning}")
    return found[0]

"""Dumps that are kept beside a bucket: which there are, reading one, and copying one to a file.

Whoever decides by them lists anew: nothing of it is remembered.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from ledgerfs.clusters.dump_file import Record, read_dump, records_in
from ledgerfs.clusters.kept_dump_names import FOLDER, KeptDump, parse_kept_dump
from ledgerfs.errors import (
    AccessDeniedError,
    InvalidOptionError,
    LedgerfsError,
    NotFoundError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from ledgerfs.formats.local_paths import local_path
from ledgerfs.storage.object_store import ObjectStore, RawStore
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs.storage.whole_objects import WholeObject

__all__ = [
    "KeptDump",
    "copy_kept_dump",
    "kept_dump_at",
    "kept_dumps",
    "read_dump_at",
    "read_kept_dump",
]

_log = logging.getLogger("ledgerfs.dumps")
_PIECE = 1 << 20


def kept_dumps(store: ObjectStore, cluster: str | None = None) -> list[KeptDump]:
    """Return all dumps that a bucket has, or those of one cluster, by clusters and ascending times; costs a listing of their folder.

    Objects of other names are told of (`logging`), and left out.
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


def read_kept_dump(store: ObjectStore, kept: KeptDump) -> Iterator[Record]:
    """Yield the records of a dump.

    What is yielded counts only once the end is reached: what is damaged may show there alone.

    Raises
    ------
    CorruptObjectError
        It is damaged.
    ObjectNotFoundError
        It has been pruned since it was listed.
    AccessDeniedError, StoreError
        As the store has them.

    """
    return records_in(WholeObject(store, kept.stat, kept.digest), kept.key)


def copy_kept_dump(store: ObjectStore, kept: KeptDump, path: Path) -> int:
    """Write a dump to a file that only its owner can read, once all of it is read and compared; return the file's bytes.

    Raises `ObjectExistsError` if there is such a file, `InvalidOptionError` if it cannot be written, and as `read_kept_dump`.
    """
    if path.exists():
        raise ObjectExistsError("the file is there already", key=str(path))
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    whole = WholeObject(store, kept.stat, kept.digest)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            while piece := whole.read(_PIECE):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except LedgerfsError:
        raise
    except OSError as error:
        raise InvalidOptionError(f"the dump cannot be written: {error.strerror}", key=str(path)) from error
    finally:
        part.unlink(missing_ok=True)
    return kept.stat.size


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

"""Dumps stored beside a bucket: names, listing, reading, adding, and removing old ones.

``_ledgerfs/dumps/<cluster>/<time>-full-<digest>.json.zst`` is a dump in the format of `dump_file.py`. The digest is the beginning of
the object's SHA-256: so a name stands for exactly these bytes, concurrent dumpers never use one name for two dumps, and an incomplete
object is not accepted as a dump. Listings are not cached.
"""

import io
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from ledgerfs.errors import (
    AccessDeniedError,
    CorruptObjectError,
    LedgerfsError,
    NotFoundError,
    ObjectExistsError,
    UnusableUrlError,
)
from ledgerfs.formats.local_paths import local_path
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.object_store import ObjectStore, RawStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT as MANAGED_LEDGERS
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.dump_file import Record, read_dump, records_in
from ledgerfs_cluster.source_filesystem import SourceFileSystem
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

FOLDER = "_ledgerfs/dumps/"
"""Folder of dumps in a bucket, with a subfolder for each cluster."""
DIGITS = 32
"""Length of the digest in names."""
_SUFFIX = ".json.zst"
_STAMP = r"[0-9]{8}T[0-9]{9}Z"
_DIGEST = rf"[0-9a-f]{{{DIGITS}}}"
_NAME = re.compile(rf"(?P<time>{_STAMP})-full-(?P<digest>{_DIGEST}){re.escape(_SUFFIX)}")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}", re.ASCII)
_NO_NAME = re.compile(r"[^A-Za-z0-9-]+", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 250_000_000_000_000
"""The year 9892: later times still fit into a name."""
_PIECE = 8 << 20
_log = logging.getLogger("ledgerfs.dumps")


@dataclass(frozen=True, slots=True)
class KeptDump:
    """A dump, from a listing of the bucket.

    Attributes
    ----------
    cluster
        Name of its folder, one per cluster (`dumps_folder`).
    taken_ms
        Beginning of the dump, ms since 1970 UTC. It ascends among a cluster's dumps, also if the clock went back.
    digest
        The beginning of the object's SHA-256.
    stat
        The object.

    """

    cluster: str
    taken_ms: int
    digest: str
    stat: ObjectStat

    @property
    def key(self) -> str:
        """The object's key."""
        return self.stat.key


def dumps_store(url: str, storage_options: Mapping[str, Any]) -> RawStore:
    """Return the store of a bucket for dumps, readable by its owner only.

    Raises `UnusableUrlError` for an invalid URL, and the errors of the store, `BucketNotFoundError` if the bucket does not exist.
    """
    fs, root = filesystem_of(url, storage_options)
    if isinstance(fs, SourceFileSystem):
        raise UnusableUrlError(
            "dumps are stored in a bucket or folder, but this URL is neither", key=without_credentials(url)
        )
    store = open_store(fs, root, is_private=True)
    # A missing folder would look like a bucket without dumps.
    next(iter(store.list_pages()), None)
    return store


def kept_dumps(store: ObjectStore, cluster: str | None = None) -> list[KeptDump]:
    """Return all dumps of a bucket, or those of one cluster, by cluster and ascending time; lists their folder.

    Logs and skips objects with other names.
    Raises `AccessDeniedError` if a folder cannot be listed, and the errors of the store.
    """
    found: list[KeptDump] = []
    for page in store.list_folder(FOLDER if cluster is None else f"{FOLDER}{cluster}/"):
        for stat in page:
            if stat.refused:
                raise AccessDeniedError(f"the folder with dumps cannot be listed: {stat.refused}", key=stat.key)
            if stat.key.endswith("/"):
                continue
            kept = parse_kept_dump(stat)
            if kept is None:
                _log.warning("%s: skipped, since this is not the name of a stored dump", stat.key)
            else:
                found.append(kept)
    return sorted(found, key=lambda one: (one.cluster, one.taken_ms, one.key))


def read_kept_dump(store: ObjectStore, kept: KeptDump) -> Iterator[Record]:
    """Yield the records of a dump; holds its compressed bytes in memory meanwhile.

    Raises
    ------
    CorruptObjectError
        It is damaged.
    ObjectNotFoundError
        It has been removed since it was listed.
    AccessDeniedError, StoreError
        The store's errors.

    """
    return records_in(io.BytesIO(kept_bytes(store, kept)), kept.key)


def kept_bytes(store: ObjectStore, kept: KeptDump) -> bytes:
    """Return the bytes of the listed version. Raises `CorruptObjectError` for another digest, and the store's errors."""
    stat, pieces = kept.stat, []
    starts = range(0, stat.size, _PIECE)
    for piece in store.read_many(
        ReadRequest(stat.key, one, min(one + _PIECE, stat.size), stat.version, is_kept=False) for one in starts
    ):
        if isinstance(piece, LedgerfsError):
            raise piece
        pieces.append(piece)
    data = b"".join(pieces)
    if not sha256(data).hexdigest().startswith(kept.digest):
        raise CorruptObjectError("the dump is damaged: its bytes do not match the digest in its name", key=stat.key)
    return data


def dumps_folder(cluster: LivingCluster) -> str:
    """Return the folder name of a cluster's dumps (`KeptDump.cluster`); raises the errors of ZooKeeper.

    It consists of the BookKeeper instance id and the creation time of Pulsar's metadata, since several clusters may share one BookKeeper.
    """
    path = f"{cluster.reading.ledgers_path}/INSTANCEID"
    found = dict(answered(cluster.nodes.get_many, [path, MANAGED_LEDGERS]))
    instance_id = found[path].data.decode("ascii", "replace") if path in found else ""
    name = _NO_NAME.sub("-", instance_id)[:60].strip("-") or "cluster"
    return f"{name}.{found[MANAGED_LEDGERS].created_ms:x}" if MANAGED_LEDGERS in found else name


def add_dump(store: RawStore, folder: str, file: Path, began_ms: int) -> KeptDump:
    """Add a finished dump, begun at ``began_ms`` (ms since 1970 UTC), to a cluster's dumps (`dumps_folder`).

    Open a store that is a folder as a private one (`dumps_store`): dumps contain passwords. Raises the errors of the store; then nothing
    was added, or, if the store's answer was lost, a whole dump.
    """
    before = kept_dumps(store, folder)
    # After all existing dumps, also if the clock went back since.
    taken_ms = max(began_ms, before[-1].taken_ms + 1 if before else 0)
    data = file.read_bytes()
    digest = sha256(data).hexdigest()[:DIGITS]
    key = kept_dump_key(folder, taken_ms, digest)
    try:
        stat = store.writes.put(key, data, {})
    except ObjectExistsError:
        # It is this dump, by its digest.
        stat = store.head(key).stat
    return KeptDump(folder, taken_ms, digest, replace(stat, key=key))


def remove_old_dumps(store: RawStore, added: KeptDump, count: int) -> list[KeptDump]:
    """Remove all dumps of a cluster except the newest ``count`` (at least 1) and the one just added; return the removed ones."""
    old = [one for one in kept_dumps(store, added.cluster)[: -max(1, count)] if one.key != added.key]
    for one in old:
        store.writes.delete(one.key)
    return old


def read_dump_at(place: str, storage_options: Mapping[str, Any] | None = None) -> Iterator[Record]:
    """Yield the records of a dump at a user's path or URL: a file, or a stored dump (`kept_dump_at`).

    Raises as `kept_dump_at` and `read_kept_dump`, and for a file `NotFoundError`, `CorruptObjectError`, `UnusableUrlError`.
    """
    found = kept_dump_at(place, storage_options)
    return read_dump(local_path(place, "dump")) if found is None else read_kept_dump(*found)


def kept_dump_at(place: str, storage_options: Mapping[str, Any] | None = None) -> tuple[RawStore, KeptDump] | None:
    """Return the stored dump at ``<bucket>/_ledgerfs/dumps/<cluster>/<name>``, and its bucket; None for a URL of another form.

    Raises `NotFoundError` if the dump does not exist, and the errors of the store.
    """
    bucket, folder, name = (f"./{place}" if place.startswith(FOLDER) else place).rpartition(f"/{FOLDER}")
    if not folder:
        return None
    store = open_store(*filesystem_of(bucket or "/", storage_options or {}))
    kept = parse_kept_dump(store.head(FOLDER + name).stat)
    if kept is None:
        raise NotFoundError(
            "not the name of a stored dump; `ledgerfs cluster dumps` lists them", key=f"{store.url}/{FOLDER}{name}"
        )
    return store, kept


def kept_dump_key(cluster: str, taken_ms: int, digest: str) -> str:
    """Return the key of a dump."""
    return f"{FOLDER}{cluster}/{_stamp(taken_ms)}-full-{digest}{_SUFFIX}"


def parse_kept_dump(stat: ObjectStat) -> KeptDump | None:
    """Parse an object's key; None unless it is that of a dump."""
    folder, _, name = stat.key.removeprefix(FOLDER).rpartition("/")
    match = _NAME.fullmatch(name)
    if not stat.key.startswith(FOLDER) or match is None or not _CLUSTER.fullmatch(folder):
        return None
    taken_ms = _milliseconds(match["time"])
    if taken_ms is None or not 0 <= taken_ms < _LATEST_MS:
        return None
    return KeptDump(folder, taken_ms, match["digest"], stat)


def _stamp(milliseconds: int) -> str:
    time = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{time:%Y%m%dT%H%M%S}{time.microsecond // 1000:03}Z"


def _milliseconds(stamp: str) -> int | None:
    try:
        time = datetime.strptime(f"{stamp[:-1]}000+0000", "%Y%m%dT%H%M%S%f%z")
    except ValueError:
        return None
    return (time - _EPOCH) // timedelta(milliseconds=1)

"""Dumps that are kept beside a bucket: their names, which there are, reading one, and copying one to a file.

``_ledgerfs/dumps/<cluster>/<time>-full-<digest>.json.zst`` is a dump as `dump_file.py` has it. The digest is the beginning
of the object's SHA-256: a name can only mean these bytes, so two dumpers that know nothing of each other never have one name for two
dumps, and an incomplete object is not taken for a dump. Whoever decides by them lists anew: nothing of it is remembered.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from ledgerfs.errors import (
    AccessDeniedError,
    CorruptObjectError,
    NotFoundError,
    UnusableUrlError,
)
from ledgerfs.formats.local_paths import local_path
from ledgerfs.storage.credentials import without_credentials
from ledgerfs.storage.object_store import ObjectStore, RawStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.url_filesystem import filesystem_of
from ledgerfs_cluster.snapshot.dump_file import Record, new_private_file, read_dump, records_in
from ledgerfs_cluster.source_filesystem import SourceFileSystem

FOLDER = "_ledgerfs/dumps/"
"""Where dumps are in a bucket; a folder in it for each cluster."""
DIGITS = 32
"""Of a digest, in names."""
_SUFFIX = ".json.zst"
_STAMP = r"[0-9]{8}T[0-9]{9}Z"
_DIGEST = rf"[0-9a-f]{{{DIGITS}}}"
_NAME = re.compile(rf"(?P<time>{_STAMP})-full-(?P<digest>{_DIGEST}){re.escape(_SUFFIX)}")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,99}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 250_000_000_000_000
"""The year 9892: there is a time behind each."""
_PIECE = 8 << 20
_log = logging.getLogger("ledgerfs.dumps")


@dataclass(frozen=True, slots=True)
class KeptDump:
    """A dump as a listing of the bucket shows it.

    Attributes
    ----------
    cluster
        Whose it is: the name of its folder (`cluster_folder`).
    taken_ms
        When it was begun, ms since 1970 UTC: what was there before is in it. Dumps of a cluster ascend by it, also if the clock went back.
    digest
        With what the object's SHA-256 begins.
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


class _WholeObject:
    """The bytes of a dump's object as what is read from a file, one piece of some mebibytes in memory at a time."""

    __slots__ = ("_left", "_pieces")

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        """Return at most so many of the next bytes, none behind the last; raises as `_pieces_of`."""
        self._left = self._left or memoryview(next(self._pieces, b""))
        found, self._left = bytes(self._left[:size]), self._left[size:]
        return found


def _pieces_of(store: ObjectStore, kept: KeptDump) -> Iterator[bytes]:
    """Yield the bytes of the version that was listed. Raises `CorruptObjectError` at the end for another digest, and the store's errors."""
    digest, stat = sha256(), kept.stat
    for start in range(0, stat.size, _PIECE):
        end = min(start + _PIECE, stat.size)
        piece = store.read(ReadRequest(stat.key, start, end, stat.version, is_kept=False))
        digest.update(piece)
        yield piece
    if not digest.hexdigest().startswith(kept.digest):
        raise CorruptObjectError("its bytes are not those that its name has the digest of", key=stat.key)


def dumps_store(url: str, storage_options: Mapping[str, Any]) -> RawStore:
    """Return the store of a bucket for dumps, which are their owner's alone.

    Raises `UnusableUrlError` for what is none, and the errors of the store, `BucketNotFoundError` if there is no such bucket.
    """
    fs, root = filesystem_of(url, storage_options)
    if isinstance(fs, SourceFileSystem):
        raise UnusableUrlError("dumps are kept beside a bucket, and this is none", key=without_credentials(url))
    store = open_store(fs, root, is_private=True)
    # A folder that is not there would look like a bucket without dumps.
    next(iter(store.list_pages()), None)
    return store


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
    return records_in(_WholeObject(_pieces_of(store, kept)), kept.key)


def copy_kept_dump(store: ObjectStore, kept: KeptDump, path: Path) -> int:
    """Write a dump to a file that only its owner can read, once all of it is read and compared; return the file's bytes.

    Raises as `ledgerfs_cluster.snapshot.dump_file.new_private_file` and `read_kept_dump`.
    """
    with new_private_file(path) as file:
        file.writelines(_pieces_of(store, kept))
    return kept.stat.size


def read_dump_at(place: str, storage_options: Mapping[str, Any] | None = None) -> Iterator[Record]:
    """Yield the records of a dump that a user names: a file, or a kept dump (`kept_dump_at`).

    Raises as `kept_dump_at` and `read_kept_dump`, and for a file `NotFoundError`, `CorruptObjectError`, `UnusableUrlError`.
    """
    found = kept_dump_at(place, storage_options)
    return read_dump(local_path(place, "dump")) if found is None else read_kept_dump(*found)


def kept_dump_at(place: str, storage_options: Mapping[str, Any] | None = None) -> tuple[RawStore, KeptDump] | None:
    """Return the kept dump that a user names as ``<bucket>/_ledgerfs/dumps/<cluster>/<name>``, and its bucket; None for another place.

    Raises `NotFoundError` if there is no such dump, and the errors of the store.
    """
    bucket, folder, name = (f"./{place}" if place.startswith(FOLDER) else place).rpartition(f"/{FOLDER}")
    if not folder:
        return None
    store = open_store(*filesystem_of(bucket or "/", storage_options or {}))
    kept = parse_kept_dump(store.head(FOLDER + name).stat)
    if kept is None:
        raise NotFoundError(
            "not the name of a kept dump; `ledgerfs cluster dumps` lists them", key=f"{store.url}/{FOLDER}{name}"
        )
    return store, kept


def kept_dump_key(cluster: str, taken_ms: int, digest: str) -> str:
    """Return the key of a dump."""
    return f"{FOLDER}{cluster}/{_stamp(taken_ms)}-full-{digest}{_SUFFIX}"


def parse_kept_dump(stat: ObjectStat) -> KeptDump | None:
    """Return what the key of an object means; None for one that no dump has."""
    folder, _, name = stat.key.removeprefix(FOLDER).rpartition("/")
    match = _NAME.fullmatch(name)
    if not stat.key.startswith(FOLDER) or match is None or not _CLUSTER.fullmatch(folder):
        return None
    taken_ms = _milliseconds(match["time"])
    if taken_ms is None or not 0 <= taken_ms < _LATEST_MS:
        return None
    return KeptDump(folder, taken_ms, match["digest"], stat)


def cluster_folder(instance_id: str | None, url: str, made_ms: int | None = None) -> str:
    """Return what a cluster's dumps are below.

    Its BookKeeper's id, and when Pulsar's metadata were made, ms since 1970 UTC, since several clusters may have one BookKeeper. A digest
    stands for an id that is no name, and one of the cluster's URL for none.
    """
    made = "" if made_ms is None else f".{made_ms:x}"
    if instance_id is not None and _CLUSTER.fullmatch(f"{instance_id}{made}"):
        return f"{instance_id}{made}"
    servers, slash, chroot = url.rpartition("://")[2].partition("/")
    told = ",".join(sorted(servers.split(","))) + slash + chroot if instance_id is None else instance_id
    return f"{'url' if instance_id is None else 'id'}-{sha256(told.encode()).hexdigest()[:DIGITS]}{made}"


def _stamp(milliseconds: int) -> str:
    time = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{time:%Y%m%dT%H%M%S}{time.microsecond // 1000:03}Z"


def _milliseconds(stamp: str) -> int | None:
    try:
        time = datetime.strptime(f"{stamp[:-1]}000+0000", "%Y%m%dT%H%M%S%f%z")
    except ValueError:
        return None
    return (time - _EPOCH) // timedelta(milliseconds=1)

"""Keeping one more dump of a cluster beside a bucket: whole, or as what changed since the newest whole one; and pruning old ones.

A dump is written to a file of this machine first, so its digest is known before its object begins, and whatever ends this leaves nothing in
the bucket, or a whole dump. All that is decided is decided by a listing of that moment. What happens beside it:

* another dumper adds dumps: they have other digests, and so other names, and each one's base stays (`ledgerfs.clusters.dump_pruning`);
* the base goes nevertheless, since this took longer than a base stays: the dump is added whole, and a delta without a base is removed;
* this ends between adding and pruning: the next one prunes.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO

from ledgerfs.clusters.answered_nodes import answered
from ledgerfs.clusters.answers import BookieReads
from ledgerfs.clusters.dump_deltas import write_delta
from ledgerfs.clusters.dump_file import DumpWriter, dump_lines
from ledgerfs.clusters.dump_pruning import BASE_GRACE_MS, Keeping, superfluous
from ledgerfs.clusters.dumping import Dumped, dump_cluster
from ledgerfs.clusters.kept_dump_names import DIGITS, KeptDump, cluster_folder, kept_dump_key
from ledgerfs.clusters.kept_dumps import kept_dump_lines, kept_dumps
from ledgerfs.clusters.surveying import Progress
from ledgerfs.errors import CorruptObjectError, ObjectExistsError, ObjectNotFoundError
from ledgerfs.formats.managed_ledgers.names import ROOT as MANAGED_LEDGERS
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.object_writes import WritableStore
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster

MOST_DELTAS = 23
"""Of one base: then a full dump is due again, a day at one an hour."""
_LARGEST_SHARE = 3
"""A delta is at most this part of its base: a third."""
_PART_BYTES = 16 << 20
_MOST_AGE_S = BASE_GRACE_MS / 2000
"""From the listing that a base was chosen by, s: half as long as the base stays at least."""


@dataclass(frozen=True, slots=True)
class Added:
    """A dump that was added.

    Attributes
    ----------
    kept
        Where it is.
    dumped
        What is in it.
    pruned
        Dumps that were removed.
    remarks
        What somebody should look at: a base that is damaged.

    """

    kept: KeptDump
    dumped: Dumped
    pruned: tuple[KeptDump, ...]
    remarks: tuple[str, ...]


def add_dump(
    cluster: LivingCluster,
    bookies: BookieReads | None,
    store: RawStore,
    keeping: Keeping,
    progress: Progress,
    *,
    broker_ttl_ms: int = 0,
    spool: str | None = None,
) -> Added:
    """Dump a cluster into a bucket, then prune; nothing is written to the cluster.

    The dump is a file in the folder ``spool`` before, of which only its owner can read anything; None for the system's temporary one.

    A store that is a folder has to be opened as a private one (`ledgerfs.storage.opening.open_store`): dumps have passwords.

    Raises the errors of `ledgerfs.clusters.dumping.dump_cluster` and of the store; then nothing was added, or a whole dump (where the
    store's answer was lost, or pruning failed).
    """
    folder = dumps_folder(cluster)
    listed_s, before = time.monotonic(), kept_dumps(store, folder)
    with tempfile.TemporaryDirectory(prefix="ledgerfs-dump-", dir=spool) as folder_of_dump:
        whole = Path(folder_of_dump, "whole")
        dumped = dump_cluster(cluster, bookies, whole, progress, broker_ttl_ms)
        # Behind all that were there when this began, also if the clock went back since.
        taken_ms = max(dumped.began_ms, before[-1].taken_ms + 1 if before else 0)
        addition = _Addition(store, folder, taken_ms, whole)
        remarks: list[str] = []
        base = _base_for_delta(before)
        made = None if base is None else addition.as_delta(base, listed_s, remarks)
        kept = made or addition.as_whole()
    pruned = prune(store, kept, keeping)
    return Added(kept, dumped, pruned, tuple(remarks))


def dumps_folder(cluster: LivingCluster) -> str:
    """Return what the dumps of a cluster are below (`KeptDump.cluster`); raises the errors of ZooKeeper."""
    path = f"{cluster.reading.ledgers_path}/INSTANCEID"
    found = dict(answered(cluster.nodes.get_many, [path, MANAGED_LEDGERS]))
    instance_id, made = found.get(path), found.get(MANAGED_LEDGERS)
    name = None if instance_id is None else instance_id.data.decode("ascii", "replace").strip() or None
    return cluster_folder(name, cluster.url, None if made is None else made.created_ms)


def prune(store: RawStore, added: KeptDump, keeping: Keeping) -> tuple[KeptDump, ...]:
    """Remove what is not wanted any more of one cluster's dumps, by a new listing; return what was removed. Raises as the store."""
    listed = kept_dumps(store, added.cluster)
    own = next((one for one in listed if one.key == added.key), None)
    if own is None:
        # Somebody has removed it: by this listing nothing can be said of ages.
        return ()
    gone = superfluous(listed, own, keeping)
    for one in gone:
        store.writes.delete(one.key)
    return tuple(gone)


class _Addition:
    """One dump on its way into the bucket."""

    __slots__ = ("_folder", "_store", "_taken_ms", "_whole")

    def __init__(self, store: RawStore, folder: str, taken_ms: int, whole: Path) -> None:
        self._store = store
        self._folder = folder
        self._taken_ms = taken_ms
        self._whole = whole

    def as_whole(self) -> KeptDump:
        """Add the dump as it is."""
        return self._put(self._whole, None)

    def as_delta(self, base: KeptDump, listed_s: float, remarks: list[str]) -> KeptDump | None:
        """Add what changed since a base; None if the dump has to be added whole. Of a base that cannot be read it is remarked why."""
        path = self._whole.with_name("delta")
        try:
            with path.open("xb") as file:
                writer = DumpWriter(file)
                write_delta(kept_dump_lines(self._store, base), self._lines, base.key, writer)
                writer.flush()
        except CorruptObjectError as error:
            if error.key != base.key:
                raise
            remarks.append(f"no delta can be made: {error}")
            return None
        except ObjectNotFoundError:
            return None
        if path.stat().st_size * _LARGEST_SHARE > base.stat.size or time.monotonic() - listed_s > _MOST_AGE_S:
            return None
        kept = self._put(path, base)
        if any(one.key == base.key for one in kept_dumps(self._store, self._folder)):
            return kept
        self._store.writes.delete(kept.key)
        return None

    def _lines(self) -> Iterator[bytes]:
        with self._whole.open("rb") as file:
            yield from dump_lines(file, str(self._whole))

    def _put(self, path: Path, base: KeptDump | None) -> KeptDump:
        """Upload a file; one that is there already is this one, by its digest."""
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()[:DIGITS]
            key = kept_dump_key(self._folder, self._taken_ms, digest, base)
            file.seek(0)
            try:
                stat = _uploaded(self._store.writes, key, file)
            except ObjectExistsError:
                stat = self._store.head(key).stat
        return KeptDump(
            self._folder, self._taken_ms, digest, None if base is None else base.key, replace(stat, key=key)
        )


def _uploaded(writes: WritableStore, key: str, file: BinaryIO) -> ObjectStat:
    """Write a file to the store, in one request if it is small."""
    part = file.read(_PART_BYTES)
    if len(part) < _PART_BYTES:
        return writes.put(key, part, {})
    upload = writes.begin_upload(key, {}, _PART_BYTES)
    try:
        while part:
            upload.write(part)
            upload.end_part()
            part = file.read(_PART_BYTES)
        return upload.complete()
    except BaseException:
        upload.abort()
        raise


def _base_for_delta(kept: list[KeptDump]) -> KeptDump | None:
    """Return the newest full dump of a listing; None if there is none, or a full one is due again."""
    full = next((one for one in reversed(kept) if not one.is_delta), None)
    if full is None or sum(one.base == full.key for one in kept) >= MOST_DELTAS:
        return None
    return full

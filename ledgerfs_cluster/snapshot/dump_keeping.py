"""Keeping one more dump of a cluster beside a bucket, and pruning old ones.

A dump is written to a file of this machine first, so its digest is known before its object begins, and whatever ends this leaves nothing in
the bucket, or a whole dump. Dumps of another dumper have other digests, and so other names. If this ends between adding and pruning, the
next one prunes.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO

from ledgerfs.errors import ObjectExistsError
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.object_writes import WritableStore
from ledgerfs.storage.objects import ObjectStat
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT as MANAGED_LEDGERS
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.answers import BookieReads
from ledgerfs_cluster.snapshot.kept_dumps import DIGITS, KeptDump, cluster_folder, kept_dump_key, kept_dumps
from ledgerfs_cluster.snapshot.surveying import Dumped, Progress, dump_cluster
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

_PART_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Keeping:
    """Which dumps of a cluster stay: the newest ``count``, at least one, and besides all that are younger than ``younger_ms``."""

    count: int
    younger_ms: int


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

    """

    kept: KeptDump
    dumped: Dumped
    pruned: tuple[KeptDump, ...]


def add_dump(
    cluster: LivingCluster,
    bookies: BookieReads | None,
    store: RawStore,
    keeping: Keeping,
    progress: Progress,
    *,
    spool: str | None = None,
) -> Added:
    """Dump a cluster into a bucket, then prune; nothing is written to the cluster.

    The dump is a file in the folder ``spool`` before, of which only its owner can read anything; None for the system's temporary one.

    A store that is a folder has to be opened as a private one (`ledgerfs.storage.opening.open_store`): dumps have passwords.

    Raises the errors of `surveying.dump_cluster` and of the store; then nothing was added, or a whole dump (where the
    store's answer was lost, or pruning failed).
    """
    folder = dumps_folder(cluster)
    before = kept_dumps(store, folder)
    with tempfile.TemporaryDirectory(prefix="ledgerfs-dump-", dir=spool) as folder_of_dump:
        whole = Path(folder_of_dump, "whole")
        dumped = dump_cluster(cluster, bookies, whole, progress)
        # Behind all that were there when this began, also if the clock went back since.
        taken_ms = max(dumped.began_ms, before[-1].taken_ms + 1 if before else 0)
        kept = _put(store, folder, taken_ms, whole)
    return Added(kept, dumped, prune(store, kept, keeping))


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


def superfluous(kept: Sequence[KeptDump], added: KeptDump, keeping: Keeping) -> list[KeptDump]:
    """Return which of a listing of the dumps of one cluster may go, the oldest first; never the newest one, nor that which was just added.

    Ages are between the dump that was just added and the others by the store's own times, so a clock of ours that jumps makes no dump old.
    """
    oldest_first = sorted(kept, key=lambda one: (one.taken_ms, one.key))
    stay = {added.key, *(one.key for one in oldest_first[-max(1, keeping.count) :])}
    return [one for one in oldest_first if one.key not in stay and not _is_younger(one, added, keeping.younger_ms)]


def _is_younger(one: KeptDump, added: KeptDump, age_ms: int) -> bool:
    """Whether an object was made less than so long before another one, or the store does not tell when."""
    times = one.stat.modified_ms, added.stat.modified_ms
    return not all(times) or times[1] - times[0] < age_ms


def _put(store: RawStore, folder: str, taken_ms: int, path: Path) -> KeptDump:
    """Upload a file; one that is there already is this one, by its digest."""
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()[:DIGITS]
        key = kept_dump_key(folder, taken_ms, digest)
        file.seek(0)
        try:
            stat = _uploaded(store.writes, key, file)
        except ObjectExistsError:
            stat = store.head(key).stat
    return KeptDump(folder, taken_ms, digest, replace(stat, key=key))


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

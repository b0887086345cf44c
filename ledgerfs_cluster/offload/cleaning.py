"""Removing what an attempt to offload left in a bucket.

The objects are looked for twice, some time apart, since a request that was on its way when its process died may still arrive; the note goes
with the second time.
"""

from collections.abc import Callable
from dataclasses import replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import StaleObjectError
from ledgerfs_cluster.offload.candidates import listed_or_none
from ledgerfs_cluster.offload.journal import AGAIN_MS, JournalRecord
from ledgerfs_cluster.zookeeper.changes import ClusterLock, RequireNode, SetNode

Remove = Callable[[Bucket, JournalRecord], None]


def clean(  # noqa: PLR0917  (what is cleaned, when, and how)
    lock: ClusterLock, bucket: Bucket, attempt: JournalRecord, now_ms: int, noted_ms: int, remove: Remove | None = None
) -> bool:
    """Delete the objects of an attempt that no list names; return whether its record is gone, too.

    The record is set first: a process that would complete the attempt drops it at the version at which it was made, and cannot any more.
    ``remove`` deletes the objects, `remove_objects` unless given. The attempt may have been read of a server that is behind, and be
    complete; then this fails, and nothing is deleted.

    Raises `ChangedMeanwhileError` for an attempt that has ended or was changed since it was read, `StaleObjectError` for one whose topic's
    list names it, and the errors of the store and of ZooKeeper.
    """
    is_first = not attempt.due_ms
    if is_first:
        again = replace(attempt, due_ms=noted_ms + AGAIN_MS)
        lock.commit([SetNode(attempt.path, again.build(), attempt.version)])
    else:
        lock.commit([RequireNode(attempt.path, attempt.version)])
    listed = listed_or_none(lock.newest(), attempt.managed_ledger or "")
    info = None if listed is None else listed.ledger(attempt.ledger_id)
    if info is not None and info.context is not None and info.context.uuid == attempt.uuid:
        reason = "the topic's list names these objects: they are not deleted"
        raise StaleObjectError(reason, key=attempt.key.data_key)
    (remove or remove_objects)(bucket, attempt)
    if is_first or now_ms < attempt.due_ms:
        return False
    lock.commit([attempt.dropped()])
    return True


def remove_objects(bucket: Bucket, attempt: JournalRecord) -> None:
    """Delete the index, then the data object, then what was uploaded of them; what is not there is no error."""
    writes = bucket.raw_store.writes
    keys = (attempt.key.index_key, attempt.key.data_key)
    try:
        for key in keys:
            writes.delete(key)
        for upload in writes.unfinished_uploads():
            if upload.key in keys:
                writes.end_unfinished(upload)
    finally:
        bucket.expire()

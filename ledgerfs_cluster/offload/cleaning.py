"""Remove the objects of a failed attempt to offload.

Objects are deleted twice, some time apart: a request that was under way when its process died may still arrive. The second deletion also
removes the record.
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
    """Delete the objects of an attempt, unless the ledger list references them; return whether its record is removed, too.

    Sets the record first: a process that would complete the attempt drops the record at its original version, so its commit then fails.
    ``remove`` deletes the objects (default `remove_objects`). If the attempt was read from a server that is behind, it may be complete;
    then this raises, and deletes nothing.

    Raises `ChangedMeanwhileError` if the attempt has ended or changed since it was read, `StaleObjectError` if the topic's ledger list
    references it, and the errors of the store and of ZooKeeper.
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
        reason = "the topic's ledger list references these objects, so they are not deleted"
        raise StaleObjectError(reason, key=attempt.key.data_key)
    (remove or remove_objects)(bucket, attempt)
    if is_first or now_ms < attempt.due_ms:
        return False
    lock.commit([attempt.dropped()])
    return True


def remove_objects(bucket: Bucket, attempt: JournalRecord) -> None:
    """Delete the index, the data object, and unfinished uploads of both; missing ones are no error."""
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

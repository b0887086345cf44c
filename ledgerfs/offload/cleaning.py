"""Removing what an attempt to offload left in a bucket.

The objects are looked for twice, some time apart, since a request that was on its way when its process died may still arrive; the note goes
with the second look.
"""

from collections.abc import Callable

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import StaleObjectError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.offload.attempts import Attempt, NotedAttempt
from ledgerfs.storage.zookeeper.changes import ClusterLock, DropNode, RequireNode, SetNode

AGAIN_MS = 600_000
"""Between the two looks: longer than any store lets a request wait."""


Remove = Callable[[Bucket, Attempt], None]


def clean(  # noqa: PLR0917  (what is cleaned, when, and how)
    lock: ClusterLock, bucket: Bucket, noted: NotedAttempt, now_ms: int, noted_ms: int, remove: Remove | None = None
) -> bool:
    """Delete the objects of an attempt that no list names; return whether its note is gone, too.

    The note is changed first: who would complete the attempt drops its note at the version at which it was made, and cannot any more.
    ``remove`` deletes the objects, `remove_objects` unless told. What was read before may be of a server that is behind, and the attempt
    complete; then this fails, and nothing is deleted.

    Raises `ChangedMeanwhileError` for an attempt that has ended or was changed since it was read, `StaleObjectError` for one whose topic's
    list names it, and the errors of the store and of ZooKeeper.
    """
    attempt = noted.attempt
    version = noted.version
    is_first = not attempt.cleaned_ms
    if is_first:
        lock.commit([SetNode(attempt.path, attempt.cleaned(noted_ms).build(), version)])
    else:
        lock.commit([RequireNode(attempt.path, version)])
    if is_named(lock, attempt):
        reason = "the topic's list names these objects: they are not deleted"
        raise StaleObjectError(reason, key=attempt.key.data_key)
    (remove or remove_objects)(bucket, attempt)
    if is_first or now_ms - attempt.cleaned_ms < AGAIN_MS:
        return False
    lock.commit([DropNode(attempt.path, version)])
    return True


def is_named(lock: ClusterLock, attempt: Attempt) -> bool:
    """Whether the list of its topic names the objects of an attempt, as ZooKeeper has it now."""
    node = lock.node(managed_ledger_path(attempt.managed_ledger))
    if node is None:
        return False
    listed = parse_managed_ledger_info(node.data, key=node.path).ledgers
    return any(
        one.ledger_id == attempt.ledger_id and one.context is not None and one.context.uuid == attempt.uuid
        for one in listed
    )


def remove_objects(bucket: Bucket, attempt: Attempt) -> None:
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

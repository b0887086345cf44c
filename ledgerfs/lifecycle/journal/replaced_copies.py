"""Lines of the trash journal for BookKeeper's copies of ledgers whose batches were split on their way into a bucket.

The ids in such a copy mean other messages, or none, from the commit on that completes the offload: there is no way back to them. So its
line is past `TrashState.MARKED` from the start, and what it waits for is only that somebody might want to look into the copy.
"""

from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState, build_trash_line
from ledgerfs.offload.copied_ledger import CopiedLedger
from ledgerfs.storage.zookeeper.operations import MakeNode


def replaced_copy(grace_ms: int, copied: CopiedLedger, now_ms: int) -> MakeNode:
    """Return what notes the way of BookKeeper's copy, which goes after ``grace_ms``, in the commit that completes an offload."""
    stored, attempt = copied.stored, copied.attempt
    before = stored.node.last_entry + 1
    line = TrashLine(
        *(TrashKind.UNBATCHED, attempt.ledger_id, attempt.managed_ledger, None, None),
        f"its {before:,} entries are {copied.entries:,} in offload {attempt.uuid}, and have other ids: nobody reads them any more",
        *(stored.version, stored.node.length, now_ms, now_ms + grace_ms, TrashState.UNLISTED),
    )
    return MakeNode(line.path, build_trash_line(line))

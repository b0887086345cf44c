"""Attempts to offload a ledger, noted in ZooKeeper before the first byte is uploaded.

Objects have names of their own for each attempt, which no list has before they are whole. So that none are left of an attempt that did not
end, it is noted first, and its note is dropped in the same commit that sets the list. A note that is there tells of objects that no list
names, and of a process that failed, or goes on without the lock: then its commit fails, since the note, or the lock, is not as it was.
"""

import json
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.storage.zookeeper.nodes import Node

ROOT = "/ledgerfs/lifecycle/attempts"


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt.

    Attributes
    ----------
    uuid
        Of this attempt alone; its objects are named by it.
    bucket
        Where the objects are: the URL.
    began_ms, cleaned_ms
        When it was noted, and when its objects were deleted first, ms since 1970 UTC; the latter is 0 before that.

    """

    managed_ledger: str
    ledger_id: int
    uuid: str
    bucket: str
    began_ms: int
    cleaned_ms: int = 0

    @classmethod
    def begun(cls, managed_ledger: str, ledger_id: int, bucket: str, now_ms: int) -> "Attempt":
        """Return a new attempt."""
        return cls(managed_ledger, ledger_id, str(uuid4()), bucket, now_ms)

    @property
    def key(self) -> LedgerKey:
        """The names of its objects."""
        return LedgerKey(self.uuid, self.ledger_id, is_index=False)

    @property
    def path(self) -> str:
        """Where it is noted."""
        return f"{ROOT}/{self.key.data_key}"

    def cleaned(self, now_ms: int) -> "Attempt":
        """Return it as one whose objects were deleted."""
        return replace(self, cleaned_ms=now_ms)

    def build(self) -> bytes:
        """Return the data of its note."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class NotedAttempt:
    """An attempt that is noted, and the version of the note."""

    attempt: Attempt
    version: int


def parse_attempt(node: Node) -> NotedAttempt:
    """Parse the node of a note; raises `CorruptMetadataError` for one that is none of ours, or of other objects than its name tells."""
    try:
        told = json.loads(node.data)
        attempt = Attempt(
            *(str(told["managed_ledger"]), int(told["ledger_id"]), str(told["uuid"]), str(told["bucket"])),
            *(int(told["began_ms"]), int(told["cleaned_ms"])),
        )
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CorruptMetadataError("no note of an attempt to offload", key=node.path) from error
    if parse_ledger_key(node.path.rpartition("/")[2]) != attempt.key:
        # What is deleted by a note is what its name says.
        raise CorruptMetadataError("the note of an attempt is of other objects than its name tells", key=node.path)
    if attempt.cleaned_ms:
        # Whoever cleaned up may have had a clock that was behind.
        attempt = attempt.cleaned(max(attempt.cleaned_ms, node.changed_ms))
    return NotedAttempt(attempt, node.version)

"""The journal of work on a cluster, in its own ZooKeeper: attempts to offload, and marks for deletion.

Each record is a node. The record of an attempt is written before the first byte is uploaded, and removed by the commit that sets the ledger
list: an existing record names objects of a process that failed, or that lost the lock and cannot commit. A mark lasts for its grace period;
it is removed after the deletion. So a crash at any step leaves a record to resume from.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any
from uuid import uuid4

from ledgerfs.errors import (
    AccessDeniedError,
    CorruptMetadataError,
    InvalidOptionError,
    LedgerfsError,
    NotFoundError,
    ObjectNotFoundError,
    RefusedLedgerError,
)
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs_cluster.formats.managed_ledgers.names import is_managed_ledger
from ledgerfs_cluster.snapshot.policies import json_object
from ledgerfs_cluster.zookeeper.changes import ClusterLock, DropNode, MakeNode, Operation
from ledgerfs_cluster.zookeeper.node import Node
from ledgerfs_cluster.zookeeper.nodes import NodeReader

ROOT = "/ledgerfs/lifecycle/journal"
"""Parent node of all records, below the cluster's chroot."""
MOST_MARKED = 5_000
"""Maximum number of marks at a time: a cluster with more orphans marks the others after these are deleted."""
MOST_BYTES = 65_536
"""Maximum size of a record."""
AGAIN_MS = 600_000
"""Time between the two deletions of an attempt's objects, since a request of a dead process may arrive later. Stores keep requests for
less than this."""

_AT_ONCE = 100
_MOST_TEXT = 4096
_LEDGER_ID = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_LONG, _INT = 2**63, 2**31
_TEXTS = ("managed_ledger", "bucket", "reason")
_NUMBERS = {"ledger_version": (-1, _INT), "size": (0, _LONG), "noted_ms": (0, _LONG), "due_ms": (0, _LONG)}


class RecordKind(Enum):
    """Subject of a record; the value is the word in node names, JSON and tables."""

    ATTEMPT = "attempt"
    """An attempt to offload a ledger; the ledger list does not contain it before it is complete."""
    ORPHAN = "orphan"
    """A ledger in BookKeeper without an owner, marked for deletion."""
    OBJECTS = "objects"
    """The objects of an offload that no ledger list references, marked for deletion."""


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A record.

    Attributes
    ----------
    kind, ledger_id
        Subject of the record.
    managed_ledger
        The topic; None if it is not known.
    uuid, bucket
        Of the offload, and its bucket's URL; None for a ledger in BookKeeper.
    reason
        Why it is deleted, in one sentence.
    ledger_version
        Version of the ledger's own node when it was marked; -1 for none.
    size
        Bytes that the deletion frees.
    noted_ms
        Time of writing, ms since 1970 UTC.
    due_ms
        Earliest time of deletion. For an attempt: 0 until the first deletion of its objects, then the time of the second.
    version
        Version of the record's own node; not stored in its data.

    """

    kind: RecordKind
    ledger_id: int
    managed_ledger: str | None
    uuid: str | None
    bucket: str | None
    reason: str
    ledger_version: int = -1
    size: int = 0
    noted_ms: int = 0
    due_ms: int = 0
    version: int = field(default=0, compare=False)

    @classmethod
    def attempt(
        cls, managed_ledger: str, ledger_id: int, bucket: str, now_ms: int, uuid: str | None = None
    ) -> "JournalRecord":
        """Return the record of an attempt to offload; of a new attempt without ``uuid``."""
        return cls(
            *(RecordKind.ATTEMPT, ledger_id, managed_ledger, uuid or str(uuid4()), bucket, "an attempt to offload"),
            noted_ms=now_ms,
        )

    @property
    def is_marked(self) -> bool:
        """Whether it marks something for deletion."""
        return self.kind is not RecordKind.ATTEMPT

    @property
    def key(self) -> LedgerKey:
        """The object names of an offload."""
        if self.uuid is None:
            raise ValueError(f"{self.name} has no objects")
        return LedgerKey(self.uuid, self.ledger_id, is_index=False)

    @property
    def name(self) -> str:
        """The name of its node: ``<kind>-<ledgerId>`` or ``<kind>-<ledgerId>-<uuid>``."""
        return f"{self.kind.value}-{self.ledger_id}" + ("" if self.uuid is None else f"-{self.uuid}")

    @property
    def path(self) -> str:
        """The path of its node, below the cluster's chroot."""
        return f"{ROOT}/{self.name}"

    def made(self) -> MakeNode:
        """Return the operation that writes it."""
        return MakeNode(self.path, self.build())

    def dropped(self) -> DropNode:
        """Return the operation that removes it, at the version that was read."""
        return DropNode(self.path, self.version)

    def build(self) -> bytes:
        """Return its node's data: JSON, one key per attribute; raises `InvalidOptionError` for a record that cannot be parsed again."""
        reported = {name: getattr(self, name) for name in self.__slots__ if name != "version"}
        data = json.dumps({**reported, "kind": self.kind.value}).encode()
        try:
            _parse(data, self.path)
        except CorruptMetadataError as error:
            raise InvalidOptionError(f"invalid journal record: {error.reason}", key=self.path) from error
        return data


@dataclass(frozen=True, slots=True)
class Journal:
    """All records.

    Attributes
    ----------
    records
        In the order of node names.
    unreadable
        {path: reason} of nodes that are damaged or not readable.

    """

    records: Sequence[JournalRecord] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def marked(self) -> tuple[JournalRecord, ...]:
        """The marks for deletion."""
        return tuple(one for one in self.records if one.is_marked)

    @property
    def attempts(self) -> tuple[JournalRecord, ...]:
        """The attempts to offload."""
        return tuple(one for one in self.records if not one.is_marked)


def parse_record_name(name: str) -> tuple[RecordKind, int, str | None]:
    """Return kind, ledger and uuid from a node's name; raises `CorruptMetadataError` for an invalid name."""
    kind, _, rest = name.partition("-")
    ledger, has_uuid, uuid = rest.partition("-")
    kinds = {one.value: one for one in RecordKind}
    is_ours = kind in kinds and _LEDGER_ID.fullmatch(ledger) is not None and int(ledger) < _LONG
    if not is_ours or (has_uuid and _UUID.fullmatch(uuid) is None):
        raise CorruptMetadataError("the node name is not that of a journal record", key=f"{ROOT}/{name}"[:200])
    return kinds[kind], int(ledger), uuid if has_uuid else None


def parse_record(node: Node) -> JournalRecord:
    """Parse the node of a record; ignores unknown keys.

    Moves its times to those of the node's creation and last change if these are later: the writer's clock may have been behind. Raises
    `CorruptMetadataError` for an incomplete record, and for one that belongs to another node.
    """
    found = _parse(node.data, node.path)
    late_ms = max(0, node.created_ms - found.noted_ms)
    due_ms = found.due_ms + late_ms
    if found.kind is RecordKind.ATTEMPT:
        due_ms = max(found.due_ms, node.changed_ms + AGAIN_MS) if found.due_ms else 0
    return replace(found, noted_ms=found.noted_ms + late_ms, due_ms=due_ms, version=node.version)


def read_journal(nodes: NodeReader) -> Journal:
    """Read all records; those that are damaged or not readable are in ``unreadable``.

    Raises `AccessDeniedError` if the folder cannot be listed, and `StoreUnreachableError`.
    """
    records: list[JournalRecord] = []
    unreadable: dict[str, str] = {}
    try:
        paths = [f"{ROOT}/{name}" for name in nodes.children(ROOT)]
    except ObjectNotFoundError:
        return Journal()
    for path, found in zip(paths, nodes.get_many(paths), strict=True):
        if isinstance(found, ObjectNotFoundError):
            continue
        try:
            if isinstance(found, LedgerfsError):
                raise found
            records.append(parse_record(found))
        except (AccessDeniedError, CorruptMetadataError) as error:
            unreadable[path] = error.reason
    return Journal(records, unreadable)


def mark(lock: ClusterLock, records: Iterable[JournalRecord]) -> None:
    """Write new records; raises `ChangedMeanwhileError` for one that exists."""
    _commit_all(lock, [one.made() for one in records])


def drop(lock: ClusterLock, records: Iterable[JournalRecord]) -> None:
    """Remove records at the versions that were read; raises `ChangedMeanwhileError` for one that changed."""
    _commit_all(lock, [one.dropped() for one in records])


def undo(lock: ClusterLock, name: str) -> JournalRecord | None:
    """Remove a mark by the name of its node, and return it; None for a damaged record, which is dropped.

    A damaged record can be dropped: nothing depends on it, and a later iteration finds its ledger or objects again.

    Raises `NotFoundError` for one that does not exist, and `RefusedLedgerError` for an attempt.
    """
    parse_record_name(name)
    node = lock.node(f"{ROOT}/{name}")
    if node is None:
        raise NotFoundError(
            "the journal has no record with this name; `ledgerfs lifecycle status` lists the records", key=name
        )
    try:
        found = parse_record(node)
    except CorruptMetadataError:
        # Drop only the damaged version: a record that was written meanwhile stays.
        lock.commit([DropNode(node.path, node.version)])
        return None
    if not found.is_marked:
        raise RefusedLedgerError(
            "this is the record of an unfinished offload, which the service cleans up; only marks for deletion can be undone",
            key=name,
        )
    drop(lock, [found])
    return found


def _commit_all(lock: ClusterLock, changes: Sequence[Operation]) -> None:
    for start in range(0, len(changes), _AT_ONCE):
        lock.commit(changes[start : start + _AT_ONCE])


def _parse(data: bytes, key: str) -> JournalRecord:
    if len(data) > MOST_BYTES:
        raise CorruptMetadataError(f"the node has {len(data):,} bytes, more than a journal record can have", key=key)
    reported = json_object(data, key=key)
    kind, ledger_id, uuid = parse_record_name(key.rpartition("/")[2])
    for name in _TEXTS:
        value = reported.get(name)
        is_text = isinstance(value, str) and 0 < len(value) <= _MOST_TEXT
        if not is_text and (name == "reason" or value is not None):
            raise CorruptMetadataError(f"{name} must be a text of 1 to {_MOST_TEXT:,} characters", key=key)
    for name, (least, end) in _NUMBERS.items():
        value = reported.get(name)
        if type(value) is not int or not least <= value < end:
            raise CorruptMetadataError(f"{name} must be a number from {least} to {end - 1}", key=key)
    values: dict[str, Any] = {name: reported.get(name) for name in (*_TEXTS, *_NUMBERS)}
    found = JournalRecord(kind, ledger_id, uuid=uuid, **values)
    if (reported.get("kind"), reported.get("ledger_id"), reported.get("uuid")) != (kind.value, ledger_id, uuid):
        # The name decides about the object to delete.
        raise CorruptMetadataError("the contents of the record do not match its name", key=key)
    if (kind is RecordKind.ORPHAN) is not (uuid is None) or (uuid is None) is not (found.bucket is None):
        raise CorruptMetadataError(
            f"a record of kind {kind.value} cannot have uuid {uuid} and bucket {found.bucket}", key=key
        )
    if kind is RecordKind.ATTEMPT and found.managed_ledger is None:
        raise CorruptMetadataError("the record of an offload has no topic", key=key)
    if found.managed_ledger is not None and not is_managed_ledger(found.managed_ledger):
        raise CorruptMetadataError("managed_ledger is not the name of a managed ledger", key=key)
    return found

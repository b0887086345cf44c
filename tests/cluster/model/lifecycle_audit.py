"""What a lifecycle service may do to a cluster, judged at each change by what the model knows, and not by the service's words.

No list loses a ledger, nor is what a list names deleted: brokers do that. What goes was marked for as long as its grace.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.offload.journal import ROOT, JournalRecord, RecordKind, parse_record
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH, MARKS_PATH
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.model.clock import ModelClock
from tests.cluster.model.shared_cluster import Broker, SharedCluster

Changes = Mapping[str, tuple[bytes | None, bytes | None]]

_OURS = "/ledgerfs"


@dataclass(frozen=True, slots=True)
class Terms:
    """How long what is kept, ms: BookKeeper's copies, what is marked, and what nobody names."""

    lag_ms: int
    grace_ms: int
    orphan_grace_ms: int


class Audit:
    """Notes what is wrong in `wrong`.

    Attributes
    ----------
    is_stale
        Whether whoever writes has lost the lock to somebody else, who does nothing.
    may_unload
        Whether the service can ask a broker.
    done
        How often it did what.
    retention_ms
        {topic: for how long its ledgers stay, -1 for ever}.

    """

    def __init__(self, cluster: SharedCluster, broker: Broker, clock: ModelClock, terms: Terms) -> None:
        self.cluster = cluster
        self.broker = broker
        self.clock = clock
        self.terms = terms
        self.retention_ms: dict[str, int] = {}
        self.wrong: list[str] = []
        self.is_stale = False
        self.may_unload = False
        self.done: Counter[str] = Counter()
        self._marked_ms: dict[str, int] = {}
        self._nodes = cluster.zookeeper._tree.nodes
        self._paths = {managed_ledger_path(managed_ledger_of(topic)): topic for topic in broker.topics}

    # Of ZooKeeper; while it answers nobody else.

    def changed(self, changes: Changes) -> None:
        """Judge a commit; called by the server."""
        if self.is_stale and not all(path.startswith((LOCK_PATH, MARKS_PATH)) for path in changes):
            self._say(f"{sorted(changes)} changed by a service that has lost its lock")
        try:
            records = [self._record(path, *both) for path, both in changes.items() if path.startswith(f"{ROOT}/")]
            for path, (before, after) in changes.items():
                if path in self._paths:
                    self._list(self._paths[path], before, after, changes)
                elif path.startswith("/ledgers/"):
                    self._ledger(path, before, after, records)
                elif not f"{path}/".startswith(f"{_OURS}/"):
                    self._say(f"{path} was changed")
        except (AssertionError, LedgerfsError, LookupError, ValueError) as error:
            self._say(f"{sorted(changes)}: {error!r}")

    def _record(self, path: str, before: bytes | None, after: bytes | None) -> JournalRecord:
        """Take a record that was written, set or dropped; return it as it was, or as it is if it is new."""
        data = after if before is None else before
        assert data is not None
        record = parse_record(Node(path, data, 0, 0, 0, 0))
        if before is None:
            self._marked_ms[path] = self.clock.now_ms()
        elif after is not None and record.is_marked:
            self._say(f"record {path} was set")
        return record

    def _list(self, topic: str, before: bytes | None, after: bytes | None, changes: Changes) -> None:
        if before is None or after is None:
            self._say(f"the list of {topic} was made or dropped")
            return
        was, now = (parse_managed_ledger_info(data, key=topic) for data in (before, after))
        # Copies of a topic that a broker has taken meanwhile are completed if it can be asked to unload the topic.
        is_offload = self.may_unload and was != now
        if self.broker.has(topic) and not self.broker.has_unseen(topic) and not is_offload:
            self._say(f"the list of {topic} was changed, which its broker has loaded")
        if [one.ledger_id for one in was.ledgers] != [one.ledger_id for one in now.ledgers]:
            self._say(f"the list of {topic} has other ledgers: {was.ledgers}, {now.ledgers}")
        for one, found in zip(was.ledgers, now.ledgers, strict=False):
            if found == one:
                continue
            if one.ledger_id == was.ledgers[-1].ledger_id:
                self._say(f"the last ledger of {topic}, {one.ledger_id}, was changed")
            self._context(topic, one, found, changes)

    def _context(self, topic: str, was: LedgerInfo, now: LedgerInfo, changes: Changes) -> None:
        before, after, ledger_id = was.context, now.context, was.ledger_id
        self.done["offloaded"] += 1
        if after is None or not after.is_complete or after.is_deleted_from_bookkeeper:
            self._say(f"the offload of ledger {ledger_id} of {topic} became {after}")
            return
        if before is not None and before.is_complete:
            self._say(f"the complete offload of ledger {ledger_id} of {topic} became {after}")
        note = changes.get(self._attempt(ledger_id, str(after.uuid)))
        if note is None or note[1] is not None:
            self._say(f"ledger {ledger_id} is offloaded as {after.uuid}, and its record is left")
        if before is not None:
            self._require_noted(before.uuid, ledger_id, changes)
        self._require_whole(now)

    def _attempt(self, ledger_id: int, uuid: str) -> str:
        return f"{ROOT}/attempt-{ledger_id}-{uuid}"

    def _require_noted(self, uuid: str | None, ledger_id: int, changes: Changes) -> None:
        if uuid is None or changes.get(self._attempt(ledger_id, uuid), (None, None))[1] is None:
            self._say(f"attempt {uuid} of ledger {ledger_id} is gone from its list, and is not noted")

    def _require_record(self, ledger_id: int, records: Sequence[JournalRecord]) -> None:
        """Say what is wrong with the record by which a ledger goes: it has to be there for long enough, and go together."""
        found = [one for one in records if one.ledger_id == ledger_id and one.kind is RecordKind.ORPHAN]
        if len(found) != 1:
            self._say(f"ledger {ledger_id} is deleted with {found} of {records}")
        for one in found:
            waited = self.clock.now_ms() - self._marked_ms.get(one.path, self.clock.now_ms())
            if waited < self.terms.grace_ms:
                self._say(f"{one.path} has waited for {waited} ms")

    def _require_whole(self, info: LedgerInfo) -> None:
        """Say if the objects of an offload are not there, or lack an entry."""
        uuid, written = str(info.context and info.context.uuid), self.cluster.written[info.ledger_id]
        key, folder = LedgerKey(uuid, info.ledger_id, is_index=False), self.cluster.bucket()
        if not (folder / key.index_key).is_file() or not (folder / key.data_key).is_file():
            self._say(f"the objects of ledger {info.ledger_id} are not there")
            return
        data, at = (folder / key.data_key).read_bytes(), 0
        for payload in written.payloads[: written.node.last_entry + 1]:
            at = data.find(payload, at)
            if at < 0:
                self._say(f"the objects of ledger {info.ledger_id} lack an entry")
                return

    def _ledger(self, path: str, before: bytes | None, after: bytes | None, records: Sequence[JournalRecord]) -> None:
        ledger_id = next((one for one in self.cluster.written if ledger_path(one) == path), None)
        if ledger_id is None or before is None or after is not None:
            self._say(f"{path} was made or set")
            return
        self.done["deleted, orphan"] += 1
        if not self.cluster.written[ledger_id].node.is_closed:
            self._say(f"ledger {ledger_id} is deleted, and open")
        self._require_record(ledger_id, records)
        age_ms = self.clock.now_ms() - self.cluster.created_ms[ledger_id]
        if age_ms < self.terms.orphan_grace_ms + self.terms.grace_ms:
            self._say(f"ledger {ledger_id} is deleted as an orphan, {age_ms} ms after it was made")
        if ledger_id in self.broker.named():
            self._say(f"ledger {ledger_id} is deleted, which a subscription names")
        for topic, info in self._lists():
            if any(one.ledger_id == ledger_id for one in info.ledgers):
                self._say(f"ledger {ledger_id} is deleted, and {topic} lists it")

    def _lists(self) -> list[tuple[str, ManagedLedgerInfo]]:
        nodes = [(topic, self._nodes.get(path)) for path, topic in self._paths.items()]
        return [(topic, parse_managed_ledger_info(node.data, key=topic)) for topic, node in nodes if node is not None]

    # Of the store.

    def deletes(self, folder: Path, name: str) -> None:
        """Judge a deletion of an object, right before it."""
        key = parse_ledger_key(name)
        if key is None or not (folder / name).exists():
            return
        self.done["objects deleted"] += 1
        lists = [(topic, self.cluster.list_of(topic)) for topic in self.broker.topics]
        for topic, info in lists:
            for one in info.ledgers:
                if one.ledger_id == key.ledger_id and one.context is not None and one.context.uuid == key.uuid:
                    self._say(f"{name} is deleted, and {topic} names it")
        if self.cluster.zookeeper.get(self._attempt(key.ledger_id, key.uuid)) is not None:
            return
        path = f"{ROOT}/objects-{key.ledger_id}-{key.uuid}"
        since_ms = self._marked_ms.get(path, self.clock.now_ms())
        if self.cluster.zookeeper.get(path) is None or self.clock.now_ms() - since_ms < self.terms.grace_ms:
            self._say(f"{name} is deleted, and neither noted nor marked for as long as its grace")

    def _say(self, what: str) -> None:
        self.wrong.append(what)

"""What a lifecycle service may do to a cluster, judged at each change by what the model knows, and not by the service's words.

A list loses a ledger only if retention and all subscriptions let it go, and BookKeeper's copy of an offloaded one goes only behind its lag
and with whole objects; either only if a line of the trash journal has told of it for as long as the grace. No list names objects that go.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    parse_managed_ledger_info,
)
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.lifecycle.journal.trash_line import TRASH, TrashKind, TrashLine, TrashState, parse_trash_line
from ledgerfs.offload.attempts import ROOT as ATTEMPTS
from ledgerfs.storage.zookeeper.changes import LOCK_PATH, MARKS_PATH
from tests.model.clock import ModelClock
from tests.model.shared_cluster import Broker, SharedCluster, namespace_of

Changes = Mapping[str, tuple[bytes | None, bytes | None]]

_OURS = "/ledgerfs"


@dataclass(frozen=True, slots=True)
class Terms:
    """How long what is kept, ms: BookKeeper's copies, lines of the trash, and what nobody names."""

    lag_ms: int
    grace_ms: int
    orphan_grace_ms: int


def policies_path(topic: str) -> str:
    return f"/admin/policies/{namespace_of(topic)}"


class Audit:
    """Notes what is wrong in `wrong`.

    Attributes
    ----------
    trimmed
        Gets what a service takes from lists.
    is_stale
        Whether whoever writes has lost the lock to somebody else, who does nothing.
    done
        How often it did what.
    retention_ms
        {topic: for how long its ledgers stay, -1 for ever}, as somebody who has read the policies has to know it.
    excused
        {topic: what held before, and how often the node of its policies was read by then}: who has not read it since cannot know.

    """

    def __init__(
        self, cluster: SharedCluster, broker: Broker, clock: ModelClock, terms: Terms, trimmed: set[int]
    ) -> None:
        self.cluster = cluster
        self.broker = broker
        self.clock = clock
        self.terms = terms
        self.trimmed = trimmed
        self.retention_ms: dict[str, int] = {}
        self.excused: dict[str, tuple[int, int]] = {}
        self.wrong: list[str] = []
        self.is_stale = False
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
            lines = {path: self._line(path, *both) for path, both in changes.items() if path.startswith(f"{TRASH}/")}
            for path, (before, after) in changes.items():
                if path in self._paths:
                    self._list(self._paths[path], before, after, changes, lines)
                elif path.startswith("/ledgers/"):
                    self._ledger(path, before, after, lines, changes)
                elif path.rpartition("/")[0] in self._paths:
                    self._subscription(path, before, after, changes)
                elif not f"{path}/".startswith(f"{_OURS}/"):
                    self._say(f"{path} was changed")
        except (AssertionError, LedgerfsError, LookupError, ValueError) as error:
            self._say(f"{sorted(changes)}: {error!r}")

    def _line(self, path: str, before: bytes | None, after: bytes | None) -> TrashLine:
        """Take a line that was written, changed or dropped; return it as it was, or as it is if it is new."""
        line = parse_trash_line(after if before is None else before, key=path)  # type: ignore[arg-type]
        if before is None:
            if line.state is not TrashState.MARKED:
                self._say(f"line {path} begins as {line.state}")
            self._marked_ms[path] = self.clock.now_ms()
        elif after is None:
            if line.state is TrashState.UNLISTED:
                self._say(f"line {path} is dropped, and its deletion goes on")
            self._marked_ms.pop(path, None)
        elif parse_trash_line(after, key=path).state is TrashState.MARKED:
            self._say(f"line {path} was changed, and is marked")
        return line

    def _list(
        self, topic: str, before: bytes | None, after: bytes | None, changes: Changes, lines: Mapping[str, TrashLine]
    ) -> None:
        if before is None or after is None:
            self._say(f"the list of {topic} was made or dropped")
            return
        was, now = (parse_managed_ledger_info(data, key=topic) for data in (before, after))
        left = {one.ledger_id: one for one in now.ledgers}
        is_unseen = self.broker.has_unseen(topic)
        if self.broker.has(topic) and not is_unseen:
            self._say(f"the list of {topic} was changed, which its broker has loaded")
        if was.terminated is not None and (_gone(was) != _gone(now) or len(was.ledgers) != len(left)):
            self._say(f"ledgers of {topic} are gone, which is terminated")
        for one in was.ledgers:
            found = left.pop(one.ledger_id, None)
            if found == one:
                continue
            if one.ledger_id == was.ledgers[-1].ledger_id:
                self._say(f"the last ledger of {topic}, {one.ledger_id}, was changed")
            if found is None:
                self._require_line(one.ledger_id, {TrashKind.TRIMMED}, lines)
                self.trimmed.add(one.ledger_id)
                self.done["trimmed"] += 1
            else:
                self._context(topic, one, found, changes, lines)
        if left:
            self._say(f"the list of {topic} has more ledgers: {sorted(left)}")
        if not is_unseen:
            self._trimmed(topic, was, now)

    def _trimmed(self, topic: str, was: ManagedLedgerInfo, now: ManagedLedgerInfo) -> None:
        """Judge by retention and subscriptions; what goes are the first ones."""
        left = {one.ledger_id for one in now.ledgers}
        gone = [one for one in was.ledgers if one.ledger_id not in left]
        kept = [self.retention_ms[topic]]
        before_ms, asked = self.excused.get(topic, (0, -1))
        if asked == self.cluster.zookeeper.asked[policies_path(topic)]:
            kept.append(before_ms)
        may = [self.broker.past_of(topic, was.ledgers[:-1], one, self.clock.now_ms()) for one in kept]
        if gone not in [one[: len(gone)] for one in may]:
            places = {name: one.place for name, one in self.broker.subscriptions[topic].items()}
            self._say(f"{topic} lost {[one.ledger_id for one in gone]}: retention {kept} ms, {places}, {was.ledgers}")

    def _context(
        self, topic: str, was: LedgerInfo, now: LedgerInfo, changes: Changes, lines: Mapping[str, TrashLine]
    ) -> None:
        before, after, ledger_id = was.context, now.context, was.ledger_id
        self.done[
            "no context" if after is None else "flagged" if after.is_deleted_from_bookkeeper else "offloaded"
        ] += 1
        if before is not None and before.is_complete:
            ago = self.clock.now_ms() - (before.offloaded_ms or 0)
            is_flag = after is not None and after.is_complete and after.uuid == before.uuid
            if not is_flag or after is None or not after.is_deleted_from_bookkeeper or was.size != now.size:
                self._say(f"the complete offload of ledger {ledger_id} of {topic} became {after}")
            elif ago <= self.terms.lag_ms:
                self._say(f"the copy of ledger {ledger_id} goes {ago} ms after its offload")
            self._require_line(ledger_id, {TrashKind.OFFLOADED}, lines)
            self._require_whole(now)
        elif after is None:
            # A failed attempt goes from the list, and is noted.
            self._require_noted(before.uuid if before else None, ledger_id, changes)
        else:
            if not after.is_complete or after.is_deleted_from_bookkeeper:
                self._say(f"the offload of ledger {ledger_id} of {topic} became {after}")
            note = changes.get(f"{ATTEMPTS}/{LedgerKey(str(after.uuid), ledger_id, is_index=False).data_key}")
            if note is None or note[1] is not None:
                self._say(f"ledger {ledger_id} is offloaded as {after.uuid}, and its note is left")
            if before is not None:
                self._require_noted(before.uuid, ledger_id, changes)
            self._require_whole(now)

    def _require_noted(self, uuid: str | None, ledger_id: int, changes: Changes) -> None:
        key = LedgerKey(str(uuid), ledger_id, is_index=False)
        if uuid is None or changes.get(f"{ATTEMPTS}/{key.data_key}", (None, None))[1] is None:
            self._say(f"attempt {uuid} of ledger {ledger_id} is gone from its list, and is not noted")

    def _require_line(self, ledger_id: int, kinds: set[TrashKind], lines: Mapping[str, TrashLine]) -> None:
        """Say what is wrong with the line by which a ledger goes: it has to be there for long enough, and be changed together."""
        found = [(path, one) for path, one in lines.items() if one.ledger_id == ledger_id and one.kind in kinds]
        if len(found) != 1:
            self._say(f"ledger {ledger_id} goes with the lines {[path for path, _ in found]} of {sorted(lines)}")
        for path, line in found:
            waited = self.clock.now_ms() - self._marked_ms.get(path, self.clock.now_ms())
            if waited < self.terms.grace_ms and line.state is not TrashState.UNLISTED:
                self._say(f"{path} has waited for {waited} ms")

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

    def _ledger(
        self,
        path: str,
        before: bytes | None,
        after: bytes | None,
        lines: Mapping[str, TrashLine],
        changes: Changes,
    ) -> None:
        ledger_id = next((one for one in self.cluster.written if ledger_path(one) == path), None)
        if ledger_id is None or before is None or after is not None:
            self._say(f"{path} was made or set")
            return
        for one in lines.values():
            self.done[f"deleted, {one.kind.value}"] += 1
        written = self.cluster.written[ledger_id]
        if not written.node.is_closed:
            self._open(ledger_id, changes)
        self._require_line(ledger_id, set(TrashKind), lines)
        age_ms = self.clock.now_ms() - self.cluster.created_ms[ledger_id]
        is_orphan = any(one.kind is TrashKind.ORPHAN for one in lines.values() if one.ledger_id == ledger_id)
        if is_orphan and age_ms < self.terms.orphan_grace_ms + self.terms.grace_ms:
            self._say(f"ledger {ledger_id} is deleted as an orphan, {age_ms} ms after it was made")
        if ledger_id in self.broker.named():
            self._say(f"ledger {ledger_id} is deleted, which a subscription names")
        for topic, info in self._lists():
            for one in info.ledgers:
                if one.ledger_id == ledger_id:
                    context = one.context
                    if context is None or not context.is_complete or not context.is_deleted_from_bookkeeper:
                        self._say(f"ledger {ledger_id} is deleted, and {topic} has {one}")
                    else:
                        self._require_whole(one)

    def _open(self, ledger_id: int, changes: Changes) -> None:
        """Judge the deletion of a ledger that is not closed: whoever made it is kept from naming it by what is set anew."""
        written = self.cluster.written[ledger_id]
        name, cursor = written.node.managed_ledger or "", written.node.told("pulsar/cursor")
        before, after = changes.get(managed_ledger_path(name), (None, None))
        if before is None or after is None:
            self._say(f"ledger {ledger_id} is deleted, and open, and the list of {name} is not set")
            return
        if cursor is None:
            first = parse_managed_ledger_info(after, key=name).ledgers[0].ledger_id
            if written.payloads and ledger_id >= first:
                self._say(f"ledger {ledger_id} is deleted, open, and not empty, and the list begins at {first}")
            self.done["deleted, trimmed and open" if written.payloads else "deleted, never listed"] += 1
            return
        path = f"{managed_ledger_path(name)}/{cursor}"
        if path in self._nodes and path not in changes:
            self._say(f"ledger {ledger_id} is deleted, and open, and its subscription is not set")
        self.done["deleted, of a subscription"] += 1

    def _subscription(self, path: str, before: bytes | None, after: bytes | None, changes: Changes) -> None:
        """Judge what becomes of a subscription's node: it is set as it is, together with its topic's list."""
        if before is None or before != after or path.rpartition("/")[0] not in changes:
            self._say(f"{path} was made, or changed, or set without its topic's list")

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
        if self.cluster.zookeeper.get(f"{ATTEMPTS}/{key.data_key}") is not None:
            return
        for path, since_ms in list(self._marked_ms.items()):
            found = self.cluster.zookeeper.get(path)
            line = None if found is None else parse_trash_line(found[0], key=path)
            if line is not None and line.ledger_id == key.ledger_id and line.uuid == key.uuid:
                is_due = self.clock.now_ms() - since_ms >= self.terms.grace_ms
                if line.state is TrashState.UNLISTED or (line.kind is TrashKind.OBJECTS and is_due):
                    return
        self._say(f"{name} is deleted, and neither noted nor in the trash")

    def _say(self, what: str) -> None:
        self.wrong.append(what)


def _gone(info: ManagedLedgerInfo) -> list[int]:
    """Return the ledgers that a list calls deleted in BookKeeper."""
    return [one.ledger_id for one in info.ledgers if one.context is not None and one.context.is_deleted_from_bookkeeper]

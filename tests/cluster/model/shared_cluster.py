"""A cluster whose lists of ledgers others change, too, and the broker that has some of its topics, or none.

A broker sets a list at the version at which it knows it. If that fails, somebody else has changed it: the broker closes the topic, and
loads it again (`FencedError`). It has a topic while its node of the topic's bundle is in ZooKeeper; one that is stopped loses the node, and
does not know.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import IN_THE_NODE, CursorInfo, build_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    Position,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from tests.cluster.support.encoders import build_position_info
from tests.cluster.support.live_broker import WHOLE
from tests.cluster.support.live_clusters import LiveCluster

Place = tuple[int, int]


class FencedError(Exception):
    """Somebody else has changed a list since the broker read it."""


def namespace_of(topic: str) -> str:
    return topic.rpartition("/")[0]


def owners_path(topic: str) -> str:
    """Return the node below which are those of the owners of a topic's namespace."""
    return f"/namespace/{namespace_of(topic)}"


class SharedCluster(LiveCluster):
    """`LiveCluster` that knows of each list what is in ZooKeeper, and changes only what its broker knows."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._known: dict[str, int] = {}

    def has(self, topic: str) -> bool:
        return self.zookeeper.get(managed_ledger_path(managed_ledger_of(topic))) is not None

    def is_terminated(self, topic: str) -> bool:
        return self.list_of(topic).terminated is not None

    def know(self, topic: str) -> None:
        """Read a list as a broker that loads the topic does."""
        name = managed_ledger_of(topic)
        found = self.zookeeper.get(managed_ledger_path(name))
        self._known.pop(name, None)
        if found is not None:
            self._known[name] = found[1]

    def list_of(self, topic: str) -> ManagedLedgerInfo:
        name = managed_ledger_of(topic)
        found = self.zookeeper.get(managed_ledger_path(name))
        self._lists[name] = (
            ManagedLedgerInfo(())
            if found is None
            else parse_managed_ledger_info(found[0], key=managed_ledger_path(name))
        )
        return self._lists[name]

    def _store_list(self, name: str, data: bytes) -> None:
        if not self.zookeeper.set(managed_ledger_path(name), data, version=self._known.get(name)):
            raise FencedError(name)
        self._known[name] = self._known.get(name, -1) + 1

    def write_ledgers(
        self, topic: str, many: Iterable[Sequence[bytes]], *, closed_ms: int | None = None, **options: Any
    ) -> list[int]:
        before = set(self.written)
        try:
            return super().write_ledgers(topic, many, closed_ms=closed_ms, **options)
        except FencedError:
            for one in set(self.written) - before:
                self.delete_from_bookkeeper(one, flag=False)
            raise

    def list_made(self, topic: str, ledger_id: int) -> None:
        """End the last ledger of a topic, and list one that was made before."""
        kept, empty = self._with_ended_last(managed_ledger_of(topic), None)
        self.change_list(topic, lambda info: replace(info, ledgers=(*kept, LedgerInfo(ledger_id, 0, 0, 0))))
        if empty is not None:
            self.delete_from_bookkeeper(empty, flag=False)

    def drop(self, path: str) -> None:
        """Delete a node that somebody else may have deleted."""
        if self.zookeeper.get(path) is not None:
            self.zookeeper.delete(path)

    def delete_from_bookkeeper(
        self, ledger_id: int, *, flag: bool = True, node: bool = True, collected: bool = False
    ) -> None:
        if flag or (node and self.zookeeper.get(ledger_path(ledger_id)) is not None):
            super().delete_from_bookkeeper(ledger_id, flag=flag, node=node, collected=collected)

    def collect_all(self) -> None:
        """Have bookies forget whatever ZooKeeper does not know, which is all that they go by."""
        for one in sorted({ledger for bookie in self.bookies for ledger in bookie.ledgers}):
            if self.zookeeper.get(ledger_path(one)) is None:
                self.collect(one)


@dataclass(slots=True)
class Subscription:
    """Where a subscription is, where its node says that it is, and the ledger that has its state; -1 if that is the node."""

    place: Place
    in_node: Place
    ledger_id: int = -1


@dataclass(frozen=True, slots=True)
class MadeStates:
    """A ledger that a broker had made for the states of a subscription.

    Attributes
    ----------
    loads
        How often it had loaded the topic by then.
    version
        Of the subscription's node, as it knew that.

    """

    ledger_id: int
    loads: int
    version: int


class Broker:
    """The one broker. What it does to topics it does to those that it has loaded.

    Attributes
    ----------
    loaded
        Topics that it has in memory.
    is_stopped
        Whether its process is: its bundles are free, and it has its topics in memory.
    subscriptions
        {topic: {name: where it is}}.
    loads
        {topic: how often it was loaded}.

    """

    def __init__(self, cluster: SharedCluster, topics: Iterable[str]) -> None:
        self.cluster = cluster
        self.topics = tuple(topics)
        self.loaded: set[str] = set()
        self.is_stopped = False
        self.loads: Counter[str] = Counter()
        self._back: dict[str, int] = {}
        self.subscriptions: dict[str, dict[str, Subscription]] = {topic: {} for topic in self.topics}

    def has(self, topic: str) -> bool:
        """Whether it has a topic, and the right to."""
        return topic in self.loaded and not self.is_stopped

    def has_unseen(self, topic: str) -> bool:
        """Whether it has loaded a terminated topic, or has one again after it was stopped, and nobody has asked for owners since.

        Neither changes a list.
        """
        return self.has(topic) and self._back.get(topic) == self.cluster.zookeeper.asked[owners_path(topic)]

    def take(self, namespace: str) -> None:
        """Take a bundle, and load nothing yet."""
        self.go_on()
        self.cluster.own_bundle(namespace, WHOLE)

    def load(self, namespace: str) -> None:
        """Take a bundle, and load all of its topics."""
        self.take(namespace)
        for topic in self.topics:
            if namespace_of(topic) == namespace and topic not in self.loaded:
                self.load_topic(topic)

    def load_topic(self, topic: str) -> None:
        """Read a list, end its last ledger, and begin another one; subscriptions are read from their ledgers."""
        self.cluster.know(topic)
        self.loaded.add(topic)
        self.loads[topic] += 1
        self._back.pop(topic, None)
        if self.cluster.has(topic):
            if self.cluster.is_terminated(topic):
                self._back[topic] = self.cluster.zookeeper.asked[owners_path(topic)]
            else:
                self.cluster.roll_over(topic)
            for name in self.subscriptions[topic]:
                self.keep(topic, name)

    def ready(self, topic: str) -> None:
        """Have it loaded."""
        self.go_on()
        if topic not in self.loaded:
            self.load(namespace_of(topic))

    def stop(self) -> None:
        """Stop its process for so long that its session ends."""
        if not self.is_stopped:
            self.is_stopped = True
            self._leave()

    def go_on(self) -> None:
        """Have a stopped process go on, which takes its bundles again, and has its topics as they were."""
        if self.is_stopped:
            self.is_stopped = False
            for topic in self.loaded:
                self.cluster.own_bundle(namespace_of(topic), WHOLE)
                self._back[topic] = self.cluster.zookeeper.asked[owners_path(topic)]

    def unload(self, namespace: str) -> None:
        """Close all topics of a bundle: the last ledger is, and the list says nothing of it; then it is free."""
        self.go_on()
        mine = [one for one in self.loaded if namespace_of(one) == namespace]
        for topic in mine:
            ledgers = self.cluster.list_of(topic).ledgers
            last = self.cluster.written[ledgers[-1].ledger_id] if ledgers else None
            if last is not None and not last.node.is_closed:
                self.cluster.close(last.node.ledger_id)
            for name in self.subscriptions[topic]:
                self.keep(topic, name, in_ledger=False)
        self.loaded.difference_update(mine)
        self.cluster.drop(self._owner_path(namespace))

    def die(self) -> None:
        """End, with all ledgers open, and subscriptions in their ledgers."""
        self._leave()
        self.loaded.clear()
        self.is_stopped = False

    def keep(self, topic: str, name: str, *, in_ledger: bool = True) -> None:
        """Write down where a subscription is: in a new ledger, while its node keeps what it had, or in its node."""
        one, before = self.subscriptions[topic][name], self.subscriptions[topic][name].ledger_id
        stale = one.in_node if in_ledger else None
        one.ledger_id = self.cluster.add_cursor(topic, name, one.place, stale=stale)
        one.in_node = one.in_node if in_ledger else one.place
        if before >= 0:
            self.cluster.delete_from_bookkeeper(before, flag=False)

    def subscribe(self, topic: str, name: str, place: Place) -> None:
        """Make a subscription, or set one to a place, also to an earlier one."""
        found = self.subscriptions[topic].setdefault(name, Subscription(place, place))
        found.place = place
        self.keep(topic, name)

    def make_states(self, topic: str, name: str) -> MadeStates:
        """Have a ledger made for the states of a subscription, with the one it has, as a broker does before it names it."""
        path = cursor_path(managed_ledger_of(topic), name)
        found = self.cluster.zookeeper.get(path)
        assert found is not None, f"{path} is gone"
        state = CursorInfo(IN_THE_NODE, Position(*self.subscriptions[topic][name].place))
        ledger_id = self.cluster.add_states(topic, name, state)
        return MadeStates(ledger_id, self.loads[topic], found[1])

    def name_states(self, topic: str, name: str, made: MadeStates) -> bool:
        """Have a subscription name a ledger, and write to it, if its node is as it was when that was made; return whether it was."""
        one, path = self.subscriptions[topic].get(name), cursor_path(managed_ledger_of(topic), name)
        if one is None:
            return False
        named = build_cursor_info(CursorInfo(made.ledger_id, Position(*one.in_node)))
        if not self.cluster.zookeeper.set(path, named, version=made.version):
            return False
        self.cluster.append(made.ledger_id, [build_position_info(CursorInfo(IN_THE_NODE, Position(*one.place)))])
        before, one.ledger_id = one.ledger_id, made.ledger_id
        if before >= 0:
            self.cluster.delete_from_bookkeeper(before, flag=False)
        return True

    def delete(self, topic: str) -> list[int]:
        """Delete a topic, its ledgers and their objects, and its subscriptions; return the ids of its ledgers."""
        ledgers = [one.ledger_id for one in self.cluster.list_of(topic).ledgers]
        for one in ledgers:
            self.cluster.trim(topic, one, collected=False)
        for name, one in self.subscriptions[topic].items():
            self.cluster.drop(cursor_path(managed_ledger_of(topic), name))
            if one.ledger_id >= 0:
                self.cluster.delete_from_bookkeeper(one.ledger_id, flag=False)
        self.subscriptions[topic] = {}
        self.cluster.drop(managed_ledger_path(managed_ledger_of(topic)))
        self.cluster.know(topic)
        return ledgers

    def past(self, topic: str, retention_ms: int, now_ms: int) -> list[LedgerInfo]:
        """Return what retention lets go of a topic now, the oldest first: -1 is for ever. The last one stays."""
        return self.past_of(topic, self.cluster.list_of(topic).ledgers[:-1], retention_ms, now_ms)

    def past_of(self, topic: str, ledgers: Iterable[LedgerInfo], retention_ms: int, now_ms: int) -> list[LedgerInfo]:
        """Return the same of some of its ledgers."""
        found: list[LedgerInfo] = []
        for one in ledgers if retention_ms >= 0 else ():
            is_passed = all(_is_behind(each.place, one) for each in self.subscriptions[topic].values())
            if not is_passed or (retention_ms and now_ms - one.closed_ms <= retention_ms):
                break
            found.append(one)
        return found

    def named(self) -> set[int]:
        """Return the ledgers of subscriptions."""
        return {one.ledger_id for each in self.subscriptions.values() for one in each.values() if one.ledger_id >= 0}

    def _leave(self) -> None:
        for namespace in {namespace_of(one) for one in self.topics}:
            self.cluster.drop(self._owner_path(namespace))

    @staticmethod
    def _owner_path(namespace: str) -> str:
        return f"/namespace/{namespace}/{WHOLE}"


def _is_behind(place: Place, one: LedgerInfo) -> bool:
    """Whether a subscription at a place has read all of a ledger."""
    return place[0] > one.ledger_id or (place[0] == one.ledger_id and place[1] + 1 >= one.entries)

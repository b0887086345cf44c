"""Holders of a cluster's lock that commit in turn, whatever becomes of servers and connections, and what they were told of each commit."""

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

from interop.links import Link
from interop.zookeeper_ensemble import Ensemble
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StoreUnreachableError
from ledgerfs_cluster.errors import ChangedMeanwhileError, LockHeldError, LockLostError
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode, SetNode
from ledgerfs_cluster.zookeeper.nodes import Nodes

COUNT, ENTRIES = "/interop/count", "/interop/entries"
TIMEOUT_S = 2.0
_PAUSE_S = 0.05
_MOST_COMMITS = 60
_KILLED = 0.15


class Client:
    """The servers as one client has them, in an order of its own, through links of its own."""

    def __init__(self, ensemble: Ensemble, order: Sequence[int], timeout_s: float = TIMEOUT_S) -> None:
        self._ensemble = ensemble
        self._links = {one: Link(ensemble.client_port(one)) for one in order}
        self.nodes = Nodes(",".join(f"127.0.0.1:{one.port}" for one in self._links.values()), timeout_s=timeout_s)

    def cut(self) -> None:
        """Break its connections; it may come again."""
        for link in self._links.values():
            link.cut()

    def lead_to(self, server: int | None) -> None:
        """Break its connections, and let it come to this server alone, whichever address it tries; None for no server."""
        for link in self._links.values():
            link.target = None if server is None else self._ensemble.client_port(server)
        self.cut()

    def lead_back(self) -> None:
        """Let it come to each server again; connections that there are stay."""
        for one, link in self._links.items():
            link.target = self._ensemble.client_port(one)

    @contextmanager
    def lost(self) -> Iterator[None]:
        """Have it reach no server."""
        self.lead_to(None)
        try:
            yield
        finally:
            self.lead_back()

    def close(self) -> None:
        """End its session for reading, and its links."""
        self.nodes.close()
        for link in self._links.values():
            link.close()


@dataclass
class Reported:
    """What was told of commits, each of which sets the count to the next number and makes an entry of its own.

    Attributes
    ----------
    done, not_done, uncertain
        Paths of entries.
    newest
        The greatest number that was told as done.
    wrong
        What must not be, in words.
    is_old_read
        Whether old nodes are no fault: those of a leader that was deposed, and does not know it.
    how
        How often what came about.

    """

    done: dict[str, int] = field(default_factory=dict)
    not_done: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    newest: int = 0
    wrong: list[str] = field(default_factory=list)
    is_old_read: bool = False
    how: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def is_done(self, entry: str, number: int) -> None:
        """Take a commit that was told as done."""
        with self._lock:
            self.done[entry] = number
            self.newest = max(self.newest, number)


class Worker:
    """Does something in a thread, again and again, until it is stopped."""

    def __init__(self, client: Client, reported: Reported, chance: random.Random) -> None:
        self.client = client
        self.reported = reported
        self.chance = chance
        self.stopping = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Have it end, and wait for that."""
        self.stopping.set()
        self._thread.join()

    def work(self) -> None:
        """Do it once."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.work()
            except LedgerfsError as error:
                self.reported.how[type(error).__name__] += 1
            except Exception as error:  # noqa: BLE001  (the test shows it)
                self.reported.wrong.append(repr(error))
            time.sleep(_PAUSE_S)


class Holder(Worker):
    """Takes the lock when it is to be had, commits some times, and gives it back, or dies with it."""

    def __init__(self, client: Client, reported: Reported, chance: random.Random, name: str) -> None:
        self._name = name
        self._turns = 0
        super().__init__(client, reported, chance)

    def work(self) -> None:
        """Have one turn."""
        self._turns += 1
        turn = f"{self._name}{self._turns}"
        try:
            lock = ClusterLock.take(self.client.nodes.settings, turn.encode())
        except LockHeldError:
            return
        self.reported.how["turns"] += 1
        try:
            for number in range(self.chance.randrange(1, _MOST_COMMITS)):
                if self.stopping.is_set() or not self._commit(lock, f"{turn}-{number}"):
                    return
            if self.chance.random() < _KILLED:
                # As one that is killed: nobody is told that it leaves.
                self.reported.how["killed"] += 1
                with self.client.lost():
                    lock.release()
        finally:
            lock.release()

    def _commit(self, lock: ClusterLock, name: str) -> bool:
        """Commit once; return whether the lock is still held, as far as is known."""
        reported = self.reported
        before = reported.newest
        node = lock.node(COUNT)
        if node is None or (int(node.data) < before and not reported.is_old_read):
            reported.wrong.append(f"{name} read {node and node.data!r} after {before} was told as done")
            return False
        number = int(node.data) + 1
        entry = f"{ENTRIES}/{name}"
        try:
            lock.commit([SetNode(COUNT, b"%d" % number, node.version), MakeNode(entry, b"%d" % number)])
        except ChangedMeanwhileError as error:
            reported.not_done.add(entry)
            if not reported.is_old_read:
                reported.wrong.append(f"{name}: somebody else commits, or an old count was read: {error}")
        except LockLostError as error:
            reported.how["lost"] += 1
            (reported.uncertain if error.is_uncertain else reported.not_done).add(entry)
            return False
        except StoreUnreachableError:
            reported.how["given up"] += 1
            reported.not_done.add(entry)
        else:
            reported.is_done(entry, number)
        return True


class Reader(Worker):
    """Reads the count without a lock: never an older one than it has read, and behind `Nodes.catch_up` none older than what is done."""

    def __init__(self, client: Client, reported: Reported, chance: random.Random) -> None:
        self._last = 0
        super().__init__(client, reported, chance)

    def work(self) -> None:
        """Read once."""
        before, is_newest = self._last, self.chance.random() < 0.5
        if is_newest:
            before = max(before, 0 if self.reported.is_old_read else self.reported.newest)
            self.client.nodes.catch_up()
        if self.chance.random() < 0.05:
            self.client.nodes.close()
        try:
            number = int(self.client.nodes.get(COUNT).data)
        except ObjectNotFoundError:
            number = -1
        if number < before:
            self.reported.wrong.append(f"read {number} behind {before}, {is_newest=}")
        self._last = max(number, self._last)
        self.reported.how["reads"] += 1

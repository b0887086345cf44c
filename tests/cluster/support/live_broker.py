"""A broker for tests that changes a cluster of ours (`LiveCluster`): it loads topics, offloads, trims and unloads them when it is asked to.

As a real one it rolls a topic over when it loads it, offloads in a thread, forgets its offload with the topic, and trims what its retention
lets it. Loading is counted, so that tests can show what loads no topic.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.snapshot.bundles import hash_of, namespace_of
from tests.cluster.support.live_clusters import LiveCluster
from tests.support.admin_api import AdminServer, send, serving

MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
WHOLE = "0x00000000_0xffffffff"
NAME = "127.0.0.1:8080"
_NOT_FOUND = (404, '{"reason":"Topic not found"}')
_RUNS = (409, '{"reason":"Offload already in progress"}')


@dataclass
class _Offload:
    """One that runs, or the last one."""

    state: str = "RUNNING"
    error: str = ""
    thread: threading.Thread | None = None


@dataclass
class LiveBroker:
    """The broker. Any thread may call it.

    Attributes
    ----------
    live
        The cluster.
    admin
        Its web service: ``faults`` are answered instead of what is asked for.
    loaded
        Managed ledgers that it has loaded.
    loads
        Those that it loaded, one after the other.
    unloads
        Those that it was asked to unload.
    bucket
        Where it offloads to.
    past_retention
        Ids of ledgers that a trim removes.
    deletes_copies
        Whether a trim deletes BookKeeper's copies of what is offloaded.
    skips
        Ids of ledgers that an offload leaves out, and reports success all the same.
    fails_with
        The error of the next offloads; None if they succeed.
    before_ledger
        Called with each ledger before it is offloaded.

    """

    live: LiveCluster
    admin: AdminServer
    load_manager: str = MODULAR
    loaded: set[str] = field(default_factory=set)
    loads: list[str] = field(default_factory=list)
    unloads: list[str] = field(default_factory=list)
    bucket: str = "tier"
    past_retention: set[int] = field(default_factory=set)
    deletes_copies: bool = False
    skips: set[int] = field(default_factory=set)
    fails_with: str | None = None
    before_ledger: Callable[[int], None] | None = None
    _offloads: dict[str, _Offload] = field(default_factory=dict)
    _owned: set[str] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _goes_on: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._goes_on.set()

    @property
    def url(self) -> str:
        """Where it is asked."""
        return self.admin.url

    def join(self) -> None:
        """Note in ZooKeeper that it is there."""
        reported = json.dumps({"loadManagerClassName": self.load_manager})
        self.live.zookeeper.set(f"{self.live.chroot}/loadbalance/brokers/{NAME}", reported.encode())
        self.live.zookeeper.set(f"{self.live.chroot}/admin/clusters/ours", b"{}")
        self.live.zookeeper.set(f"{self.live.chroot}/admin/clusters/global", b"{}")

    def load(self, topic: str) -> None:
        """Load a topic as a client's lookup does, with its bundle; nothing happens if it is loaded."""
        name = managed_ledger_of(topic)
        with self._lock:
            if name in self.loaded:
                return
            self._own(namespace_of(name))
            # Others may have set it meanwhile.
            path = managed_ledger_path(name)
            self.live._lists[name] = parse_managed_ledger_info(self.live.nodes[self.live.chroot + path], key=path)
            if self.live.list_of(name).terminated is None:
                self.live.roll_over(name)
            self.loaded.add(name)
            self.loads.append(name)

    def forget(self, topic: str) -> None:
        """Close a topic, and know nothing more of its offload."""
        name = managed_ledger_of(topic)
        with self._lock:
            self.loaded.discard(name)
            self._offloads.pop(name, None)

    def die(self) -> None:
        """Be gone: the nodes of its session, too."""
        self._goes_on.set()
        with self._lock:
            for path in [*self._owned, f"/loadbalance/brokers/{NAME}"]:
                self.live.zookeeper.delete(self.live.chroot + path)
            self._owned.clear()
            self.loaded.clear()
            self._offloads.clear()

    def pause(self) -> None:
        """Do nothing, as a stopped process: no request is answered, no offload goes on."""
        self._goes_on.clear()

    def resume(self) -> None:
        """Go on."""
        self._goes_on.set()

    def wait(self) -> None:
        """Wait until nothing is offloaded."""
        for one in list(self._offloads.values()):
            if one.thread is not None:
                one.thread.join(300)

    def answer(self, method: str, path: str, value: Any) -> tuple[int, str]:
        """Do what is asked for, and return the answer."""
        self._goes_on.wait(300)
        parts = path.partition("?")[0].strip("/").split("/")
        name, act = _asked(parts)
        if name is None:
            return self._reported_of_brokers(parts)
        if not self.live.list_of(name).ledgers:
            return _NOT_FOUND
        self.load(name)
        if (method, act) == ("GET", "offload"):
            return 200, json.dumps(self._status(name))
        acts = {("PUT", "offload"): self._offload, ("POST", "trim"): self._trim, ("PUT", "unload"): self._unload}
        found = acts.get((method, act))
        return (405, "") if found is None else found(name, value)

    def _own(self, namespace: str) -> None:
        if self.load_manager == MODULAR:
            self.live.own_bundle(namespace, WHOLE)
        self._owned.add(f"/namespace/{namespace}/{WHOLE}")

    def _reported_of_brokers(self, parts: list[str]) -> tuple[int, str]:
        if parts == ["admin", "v2", "brokers", "ours"]:
            return 200, json.dumps([NAME])
        if parts == ["admin", "v2", "brokers", "ours", NAME, "ownedNamespaces"]:
            return 200, json.dumps({one.removeprefix("/namespace/"): {} for one in self._owned})
        return 404, "<html>nothing here</html>"

    def _status(self, name: str) -> dict[str, Any]:
        with self._lock:
            found = self._offloads.get(name)
        if found is None:
            return {"status": "NOT_RUN", "lastError": ""}
        return {"status": found.state, "lastError": found.error}

    def _offload(self, name: str, value: Any) -> tuple[int, str]:
        with self._lock:
            running = self._offloads.get(name)
            if running is not None and running.state == "RUNNING":
                return _RUNS
            made = self._offloads[name] = _Offload()
            made.thread = threading.Thread(target=self._run, args=(name, value["ledgerId"], made), daemon=True)
        made.thread.start()
        return 204, ""

    def _run(self, name: str, before: int, made: _Offload) -> None:
        try:
            self._offload_before(name, before, made)
        except Exception as error:
            made.state, made.error = "ERROR", repr(error)
            raise

    def _offload_before(self, name: str, before: int, made: _Offload) -> None:
        listed = self.live.list_of(name).ledgers[:-1]
        for ledger_id in [one.ledger_id for one in listed if one.ledger_id < before and not one.is_offloaded]:
            if self.before_ledger is not None:
                self.before_ledger(ledger_id)
            self._goes_on.wait(300)
            if self.fails_with is not None:
                made.state, made.error = "ERROR", self.fails_with
                return
            if ledger_id not in self.skips:
                self.live.offload(name, ledger_id, bucket=self.bucket)
        made.state = "SUCCESS"

    def _trim(self, name: str, _: Any) -> tuple[int, str]:
        for one in self.live.list_of(name).ledgers[:-1]:
            is_copied = one.context is not None and one.is_offloaded and not one.context.is_deleted_from_bookkeeper
            if one.ledger_id in self.past_retention:
                self.live.trim(name, one.ledger_id)
            elif self.deletes_copies and is_copied:
                self.live.delete_from_bookkeeper(one.ledger_id)
        return 204, ""

    def _unload(self, name: str, _: Any) -> tuple[int, str]:
        self.unloads.append(name)
        self.forget(name)
        return 204, ""


@contextmanager
def live_broker(live: LiveCluster, **options: Any) -> Iterator[LiveBroker]:
    """Serve a broker of a cluster until the end of a block; ``options`` are attributes of `LiveBroker`."""
    with serving({}) as admin:
        broker = LiveBroker(live, admin, **options)
        admin.does = broker.answer
        admin.reports = lambda path: broker.answer("GET", path, None)
        broker.join()
        try:
            yield broker
        finally:
            broker.resume()
            broker.wait()


def done_and_lost(broker: LiveBroker) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return the fault of a broker that does what it is asked for, and whose answer is lost."""

    def lose(handler: BaseHTTPRequestHandler) -> None:
        method, path, value = broker.admin.asked[-1]
        assert path == handler.path
        broker.answer(method, path, value)
        handler.close_connection = True

    return lose


def answering(status: int, reason: str = "", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return the fault of a broker that answers with a status, and its reason as Pulsar tells it."""
    body = json.dumps({"reason": reason}) if reason else ""
    return lambda handler: send(handler, status, body, **headers)


def bundle_of(managed_ledger: str) -> str:
    """Return a small bundle that has a topic."""
    place = hash_of(managed_ledger)
    return f"0x{place:08x}_0x{place + 1:08x}"


def _asked(parts: list[str]) -> tuple[str | None, str]:
    """Return the managed ledger that a path is of, and what of it is asked for."""
    if "persistent" not in parts:
        return None, ""
    *names, act = parts[parts.index("persistent") + 1 :]
    return managed_ledger_of("persistent://" + "/".join(unquote(one) for one in names)), act

"""A cluster with a lifecycle service, a broker that has some topics or none, and readers; time passes when an act says so."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.errors import LedgerfsError, RefusedLedgerError
from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY
from ledgerfs.formats.pulsar_blob.object_names import parse_ledger_key
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.layouts.pulsar_blob.new_ledger import completed_user_metadata
from ledgerfs_cluster.errors import LockHeldError
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.policy.policy_file import parse_policy_file
from ledgerfs_cluster.lifecycle.service.making import service_of
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.offload.journal import read_journal, undo
from ledgerfs_cluster.offload.offload_driver import user_metadata
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH, ClusterLock
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster
from tests.cluster.model.clock import ModelClock
from tests.cluster.model.lifecycle_audit import Audit, Terms
from tests.cluster.model.living_cluster import Reader, World
from tests.cluster.model.service_requests import Died, Requests, met_at, watched_store
from tests.cluster.model.shared_cluster import Broker, FencedError, MadeStates, SharedCluster, namespace_of
from tests.cluster.support.living_clusters import PATIENCE_S

MINUTE_MS = 60_000
KEPT = ("public/kept/a", "public/kept/b")
TIMED, READ = "public/timed/c", "public/read/d"
TERMS = Terms(lag_ms=30 * MINUTE_MS, grace_ms=10 * MINUTE_MS, orphan_grace_ms=20 * MINUTE_MS)
RETENTION_MS = {**dict.fromkeys(KEPT, -1), TIMED: 60 * MINUTE_MS, READ: 0}
_POLICY = """
cluster = "{cluster.url}"
[broker]
deletion_lag = "30m"
[defaults]
trash_grace = "10m"
orphans = true
orphan_grace = "20m"
[buckets.tier]
url = "{url}"
bucket = "tier"
region = "us-east-1"
block_size = "5MiB"
[[topics]]
match = "public/read/.*"
offload = false
[[topics]]
match = "public/.*"
offload_after = "1m"
bucket = "tier"
"""


class OneByOne:
    """`ThreadPoolExecutor` that does what it is given at once, so that a walk is the same each time."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit(self, act: Any, *args: object) -> None:
        act(*args)

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """Have nothing to wait for."""


class LifecycleWorld(World):
    """The cluster, and all who use it."""

    topics = (*KEPT, TIMED, READ)
    cluster: SharedCluster
    admin: Any = None
    """The admin API of the broker."""

    def __init__(self, folder: Path) -> None:
        self.clock = ModelClock()
        self._used = ExitStack()
        self._used.enter_context(self.clock.used())
        super().__init__(folder)

    def new_cluster(self, folder: Path) -> SharedCluster:
        return SharedCluster(folder, bookies=4)

    def begin(self) -> None:
        cluster = self.cluster
        self.broker = Broker(cluster, self.topics)
        self.audit = Audit(cluster, self.broker, self.clock, TERMS)
        self.passer_by = Reader(self.opened("confirmed"))
        self._rivals = ExitStack()
        self.offloading: dict[str, tuple[int, str]] = {}
        # {topic: a ledger that its broker has had made and not listed, and how often it had loaded the topic by then}
        self.making: dict[str, tuple[int, int]] = {}
        # {(topic, subscription): a ledger that its broker has had made for its states, and that it does not name}
        self.naming: dict[tuple[str, str], MadeStates] = {}
        cluster.zookeeper.takes_writes = True
        cluster.zookeeper.set("/admin/clusters/ours", b"{}")
        cluster.bucket().mkdir(parents=True)
        for topic, retention_ms in RETENTION_MS.items():
            self.set_retention(topic, retention_ms)
            self.broker.load(namespace_of(topic))
            cluster.write_ledger(topic, ())
        text = _POLICY.format(cluster=cluster, url=cluster.bucket_url())
        self.file = parse_policy_file(text.encode(), self.folder / "policy.toml")
        cluster.zookeeper.on_change = self.audit.changed
        self._used.enter_context(watched_store(self.audit.deletes, self.metadata_of))
        patch = self._used.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("ledgerfs_cluster.lifecycle.service.service._STEP_S", 0.02)
        patch.setattr("ledgerfs_cluster.lifecycle.service.broker_work.ThreadPoolExecutor", OneByOne)

    def close(self) -> None:
        super().close()
        self._used.close()

    def has(self, topic: str) -> bool:
        return self.cluster.has(topic)

    def metadata_of(self, key: str) -> Mapping[str, str]:
        """Return the user metadata that an object has."""
        parsed = parse_ledger_key(key)
        assert parsed is not None
        custom = dict(self.cluster.written[parsed.ledger_id].node.custom)
        return completed_user_metadata(user_metadata("ours"), custom[MANAGED_LEDGER_KEY].decode())

    def older_than_lists(self) -> set[int]:
        """Return ledgers of topics that were made anew since: nobody can tell them from those of a list that was lost.

        Closed ones without entries go all the same.
        """
        found = set()
        for topic in self.topics:
            name = managed_ledger_of(topic)
            node = self.cluster.zookeeper._tree.nodes.get(managed_ledger_path(name))
            made_ms = 0 if node is None else node.created_ms
            found |= {
                one
                for one, written in self.cluster.written.items()
                if written.node.managed_ledger == name
                and (written.payloads or not written.node.is_closed)
                and self.cluster.created_ms[one] < made_ms
            }
        return found

    def set_retention(self, topic: str, retention_ms: int) -> None:
        """Change the retention of a topic's namespace, as an administrator does."""
        self.audit.retention_ms[topic] = retention_ms
        minutes, megabytes = (0, 0) if retention_ms == 0 else (max(-1, retention_ms // MINUTE_MS), -1)
        retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        self.cluster.set_policies(namespace_of(topic), retention_policies=retention)

    # What the broker does.

    @contextmanager
    def loaded(self, topic: str) -> Iterator[None]:
        """Have the broker do something to a topic; if its list is not as the broker knows it, the topic is loaded again instead."""
        try:
            self.broker.ready(topic)
            yield
        except FencedError:
            self.offloading.pop(topic, None)
            self.broker.load_topic(topic)

    def publish(self, topic: str, count: int) -> None:
        with self.loaded(topic):
            if not self.cluster.is_terminated(topic):
                super().publish(topic, count)

    # What services do.

    @contextmanager
    def living(self) -> Iterator[LivingCluster]:
        """Lend the cluster as a process of its own sees it."""
        options = {"timeout_s": PATIENCE_S, "bucket_urls": {"tier": self.cluster.bucket_url()}}
        made = ClusterFileSystem(**options, skip_instance_cache=True).cluster(
            self.cluster.url.removeprefix("pulsar+zk://")
        )
        try:
            yield made
        finally:
            made.nodes.close()

    def serve(self, requests: Requests | None = None, *, has_admin: bool = False) -> tuple[str, list[str]]:
        """Make one pass, as ``ledgerfs lifecycle run --once`` does; return how it ended, and its troubles."""
        with self._rivals:
            return self._served(requests, has_admin=has_admin)

    def _served(self, requests: Requests | None, *, has_admin: bool) -> tuple[str, list[str]]:
        brokers = self.admin if has_admin else None
        troubles: list[str] = []
        with ExitStack() as entered:
            entered.callback(setattr, self.audit, "may_unload", self.audit.may_unload)
            self.audit.may_unload = has_admin
            if requests is not None:
                entered.enter_context(met_at(requests))
            living = entered.enter_context(self.living())
            try:
                with service_of(self.file, living, NewestEntries(living.reading), brokers, 0.0) as made:
                    try:
                        made.run(lambda *_: None, once=True)
                    finally:
                        troubles += [one.text for one in made.events.troubles()]
            except Died:
                return "died", troubles
            except LedgerfsError as error:
                return f"{type(error).__name__}: {error}", troubles
        return "", troubles

    def replace_service(self, *, reports: bool) -> None:
        """Have the session of a service end that is in the middle of something, and another one make a pass."""
        self.cluster.zookeeper.expire_owner(LOCK_PATH)
        if reports:
            self.cluster.zookeeper.drop_connections()
        self.serve()

    def take_the_lock(self, *, reports: bool) -> None:
        """Have the session of a service end that is in the middle of something; another one has the lock until that one is done."""
        self.cluster.zookeeper.expire_owner(LOCK_PATH)
        if reports:
            self.cluster.zookeeper.drop_connections()
        living = self._rivals.enter_context(self.living())
        try:
            self._rivals.enter_context(ClusterLock.take(living.nodes.settings, b"a rival"))
        except LockHeldError:
            # The first one has made it anew: it had not begun, or had ended.
            return
        self.audit.is_stale = True
        self._rivals.callback(setattr, self.audit, "is_stale", False)

    def ask_for_the_lock(self) -> None:
        """Have a second service begin, which ends if there is another one."""
        is_held = self.cluster.zookeeper.get(LOCK_PATH) is not None
        ended, _ = self.serve()
        assert ended.startswith("LockHeldError") or not is_held, f"a second service: {ended}"

    def take_back(self, number: int) -> str | None:
        """Take back what is marked; return which record."""
        with self.living() as living, suppress(LockHeldError, RefusedLedgerError):
            records = read_journal(living.nodes).marked
            if not records:
                return None
            name = records[number % len(records)].name
            with ClusterLock.take(living.nodes.settings, b"an operator") as lock:
                undo(lock, name)
                return name
        return None

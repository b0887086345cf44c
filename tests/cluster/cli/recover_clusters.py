"""A lost cluster and a new one, as `ledgerfs recover` is run about them by its command."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.pulsar_settings import PulsarSettings, pulsar_settings
from tests.cluster.support.served_topics import ServedTopics
from tests.support.invoked import run

SERVICE = "pulsar://brokers:6650"
"""Where clients of the new cluster connect; nobody does."""
ORDERS = "persistent://public/default/orders"


@dataclass
class Clusters:
    """The lost one, the new one, which has the same bucket, and what the new one's brokers serve.

    ``dump`` is where a dump is written, ``snapshots`` what was published.
    """

    old: LiveCluster
    new: LiveCluster
    settings: PulsarSettings
    broker: ServedTopics
    dump: Path
    snapshots: dict[str, bytes]

    def rolled(self, topic: str, *entries: bytes) -> int:
        """Write a ledger of the lost cluster, and offload it; return its id."""
        ledger_id = self.old.write_ledger(topic, entries or messages(4))
        self.old.roll_over(topic)
        self.old.offload(topic, ledger_id)
        return ledger_id

    def write_dump(self) -> str:
        """Dump the lost cluster; return the file."""
        run("cluster", "dump", self.old.url, str(self.dump))
        return str(self.dump)

    def arguments(self, *more: str) -> tuple[str, ...]:
        """Return those of plan and run."""
        return (self.old.bucket_url(), "--into", self.new.url, "--admin", self.settings.admin.url, *more)

    def check_arguments(self, *more: str) -> tuple[str, ...]:
        """Return those of check."""
        return self.arguments("--service", SERVICE, *more)


@contextmanager
def lent_clusters(folder: Path) -> Iterator[Clusters]:
    """Lend them; the brokers serve no entries yet."""
    with LiveCluster(folder / "old") as old, LiveCluster(folder / "new", instance_id="another") as new:
        new.zookeeper.takes_writes = True
        new.buckets = old.buckets
        broker, snapshots = ServedTopics({}), dict[str, bytes]()
        with pulsar_settings() as settings, pytest.MonkeyPatch.context() as patch:
            # The package need not be there.
            patch.setitem(sys.modules, "pulsar", ModuleType("pulsar"))
            patch.setattr(PulsarService, "reading", lambda _, topic: broker.reading(topic))
            patch.setattr(PulsarService, "publish", lambda _, __, key, data: snapshots.update({key: data}))
            patch.setattr(PulsarService, "silence_s", broker.silence_s)
            patch.setattr(PulsarService, "patience_s", broker.patience_s)
            yield Clusters(old, new, settings, broker, folder / "dump.json.zst", snapshots)

"""A lost cluster and a new one, as `ledgerfs recover` is run about them by its command."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.commands import run
from tests.support.live_clusters import LiveCluster, messages
from tests.support.pulsar_settings import PulsarSettings, pulsar_settings
from tests.support.reader_broker import ReaderBroker, serving_entries

ORDERS = "persistent://public/default/orders"


@dataclass
class Clusters:
    """The lost one, the new one, which has the same bucket, and the new one's brokers; ``dump`` is where a dump is written."""

    old: LiveCluster
    new: LiveCluster
    settings: PulsarSettings
    broker: ReaderBroker
    dump: Path

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
        """Return those of each command."""
        return (self.old.bucket_url(), "--into", self.new.url, "--admin", self.settings.admin.url, *more)


@contextmanager
def lent_clusters(folder: Path) -> Iterator[Clusters]:
    """Lend them; the brokers serve no entries yet."""
    with LiveCluster(folder / "old") as old, LiveCluster(folder / "new", instance_id="another") as new:
        new.zookeeper.takes_writes = True
        new.buckets = old.buckets
        with pulsar_settings() as settings, serving_entries({}) as broker:
            yield Clusters(old, new, settings, broker, folder / "dump.json.zst")

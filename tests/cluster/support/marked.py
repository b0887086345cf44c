"""What is marked in a cluster of ours, and deleted as a pass of a service does it."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.acting.acting import Acting
from ledgerfs_cluster.lifecycle.acting.context import ActionContext
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind, Orphans, Situation
from ledgerfs_cluster.lifecycle.planning.orphans import OrphanOffload
from ledgerfs_cluster.lifecycle.policy.policy_file import Via, parse_policy_file
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.live_source.offloaded_copies import OffloadedCopies
from ledgerfs_cluster.offload.journal import JournalRecord, RecordKind, mark, read_journal
from ledgerfs_cluster.offload.outcomes import Outcome
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.surveying import survey_cluster
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import LiveCluster
from tests.cluster.support.living_clusters import PATIENCE_S
from tests.cluster.support.reported_owners import NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

POLICY = """
[defaults]
orphans = true
orphan_grace = "0s"
trash_grace = "0s"
bucket = "tier"
[buckets.tier]
url = "{url}"
bucket = "tier"
"""


class Marked:
    """Marks and deletes in a cluster of ours, with the bucket at ``url``."""

    def __init__(
        self,
        cluster: LiveCluster,
        url: str | None = None,
        options: dict[str, object] | None = None,
    ) -> None:
        self.cluster, self.url, self.options = cluster, url or cluster.bucket_url(), options or {}
        reading = {"bucket_urls": {"tier": self.url}, "bucket_options": self.options, "timeout_s": PATIENCE_S}
        self.living: LivingCluster = ClusterFileSystem(**reading).cluster(cluster.url.removeprefix("pulsar+zk://"))
        self.lock = ClusterLock.take(self.living.nodes.settings, b"{}")
        self.file = parse_policy_file(POLICY.format(url=self.url).encode(), Path("policy.toml"))
        self.in_flight: set[str] = set()
        self.edited: Callable[[], str | None] = lambda: None
        self.going: Callable[[], None] = lambda: None
        self.context = ActionContext(
            *(self.living, self.lock, ClosedLedgers(self.living), OffloadedCopies(self.living.reading)),
            *(NewestEntries(self.living.reading), self.bucket_at),
            lambda: frozenset(self.in_flight),
            *(self._why_edited, self._require_going),
        )
        self.offloads: list[OrphanOffload] = []

    def _why_edited(self) -> str | None:
        return self.edited()

    def _require_going(self) -> None:
        self.going()

    def bucket_at(self, url: str) -> Bucket:
        return open_bucket(url, self.options)

    def orphan(self, ledger_id: int, **others: Any) -> JournalRecord:
        """Return the record of a ledger as it is now."""
        found = ClosedLedgers(self.living).found(ledger_id)
        size = found.node.length if found.node.is_closed else 0
        now_ms = time.time_ns() // 1_000_000
        name = found.node.managed_ledger if found.node.component == "managed-ledger" else None
        record = JournalRecord(
            *(RecordKind.ORPHAN, ledger_id, name, None, None, "a test", found.version, size, now_ms, now_ms)
        )
        return replace(record, **others)

    def objects(self, ledger_id: int, uuid: str) -> JournalRecord:
        """Return the record of an offload, which two checks have called an orphan."""
        now_ms = time.time_ns() // 1_000_000
        self.offloads.append(
            OrphanOffload(ledger_id, uuid, self.url, NAME, is_known=True, size=100, modified_ms=now_ms)
        )
        return JournalRecord(*(RecordKind.OBJECTS, ledger_id, NAME, uuid, self.url, "a test", -1, 100, now_ms, now_ms))

    def mark(self, *records: JournalRecord) -> None:
        mark(self.lock, records)

    def records(self) -> list[JournalRecord]:
        return list(read_journal(self.lock.newest()).records)

    def seen(self) -> tuple[Survey, Situation]:
        """Return what a pass begins with now."""
        survey = survey_cluster(self.living, None, lambda *_: None)
        now_ms = time.time_ns() // 1_000_000 + 1
        orphans = Orphans((), tuple(self.offloads))
        return survey, Situation(self.file, now_ms, now_ms, journal=read_journal(self.lock.newest()), orphans=orphans)

    def carry_out(self, kind: ActionKind, seen: tuple[Survey, Situation] | None = None) -> list[Outcome]:
        """Carry out an action of a pass with all records."""
        survey, situation = seen or self.seen()
        records = tuple(situation.journal.records)
        ids = tuple(one.ledger_id for one in records)
        action = Action(kind, NAME, ids, 0, Via.DIRECT, None, "a test", records=records)
        return Acting(self.context, survey, situation).carry_out(action)

    def delete(self, *records: JournalRecord) -> list[Outcome]:
        """Mark some records, and delete what is marked."""
        self.mark(*records)
        return self.carry_out(ActionKind.DELETE)

    def listed(self) -> dict[int, Any]:
        data = self.cluster.nodes.get(managed_ledger_path(NAME), b"")
        return {one.ledger_id: one for one in parse_managed_ledger_info(data, key="").ledgers}

    def version(self) -> int:
        return self.lock.newest().get(managed_ledger_path(NAME)).version

    def in_bookkeeper(self, ledger_id: int) -> bool:
        return ledger_path(ledger_id) in self.cluster.nodes

    def in_bucket(self) -> set[str]:
        folder = self.cluster.bucket()
        return {one.name for one in folder.iterdir()} if folder.exists() else set()

    def close(self) -> None:
        self.lock.release()
        self.living.nodes.close()

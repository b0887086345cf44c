"""What brokers are asked to do with a topic, and what became of it by the topic's list afterwards. From any thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledgerfs_cluster.errors import BrokerOffloadError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import OffloadContext, Position
from ledgerfs_cluster.lifecycle.brokers.outcomes import ListReader, offload_and_compare, trim_and_compare
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind
from ledgerfs_cluster.offload.outcomes import Outcome, Status, failed

if TYPE_CHECKING:
    from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi


@dataclass(frozen=True, slots=True)
class ByBrokers:
    """Has brokers offload and trim; nothing is trimmed while ``why_other_policy`` says that the policy file was edited."""

    broker: "BrokerApi"
    listed: ListReader
    url_of: Callable[[OffloadContext], str | None]
    why_other_policy: Callable[[], str | None]

    def carry_out(self, action: Action) -> list[Outcome]:
        """Have a broker offload or trim, and compare the list afterwards. Raises the errors of the broker, and those of ZooKeeper."""
        name = action.managed_ledger or ""
        if action.kind is ActionKind.TRIM:
            # It may have waited for its turn; the next plan has it, if it is still wanted.
            if self.why_other_policy() is not None:
                return []
            return trim_and_compare(self.broker, name, self.listed, action.ledger_ids)
        return self._offload(action, name)

    def _offload(self, action: Action, name: str) -> list[Outcome]:
        """Have a broker offload up to the ledger behind the last that is due."""
        behind = self._behind(action, name)
        if behind is None:
            text = f"offload {name}: ledger {max(action.ledger_ids)} is the last ledger of its topic by now"
            return [Outcome(Status.SKIPPED, "broker offload postponed", name, text, action.ledger_ids)]
        try:
            done = offload_and_compare(self.broker, name, Position(behind, 0), self.listed)
        except BrokerOffloadError:
            # A broker that loads the topic for that forgets a last ledger without entries, makes another one, and knows no such position.
            now = self._behind(action, name)
            if now in {None, behind}:
                raise
            done = offload_and_compare(self.broker, name, Position(now, 0), self.listed)
        return [done, *self._compare_buckets(action, name, done.ledger_ids)]

    def _behind(self, action: Action, name: str) -> int | None:
        """Return the ledger that a topic lists behind all that are due; None without one."""
        ids = (one.ledger_id for one in self.listed(name).ledgers)
        return next((one for one in ids if one > max(action.ledger_ids)), None)

    def _compare_buckets(self, action: Action, name: str, offloaded: Sequence[int]) -> list[Outcome]:
        """Return that a broker, which does not know the policy file, has offloaded to another place than the file's bucket, if it has."""
        rule = action.rule
        if rule is None or not rule.is_bucket_the_files or rule.bucket is None:
            return []
        contexts = [one.context for one in self.listed(name).ledgers if one.ledger_id in offloaded]
        elsewhere = [one for one in contexts if one is not None and self.url_of(one) != rule.bucket.url]
        places = dict.fromkeys(", ".join(rule.bucket.differences(one.driver, one.properties)) for one in elsewhere)
        # A file may name one place twice: then no URL is that of the offload, and nothing differs.
        differing = [one for one in places if one]
        if not differing:
            return []
        text = (
            f"the broker of {name} has offloaded by its own settings to another place than bucket {rule.bucket.name} "
            f"of the policy file: {'; '.join(differing)}"
        )
        return [failed("other-bucket", name, text)]

"""What brokers are asked to do with a topic, and what became of it by the topic's list afterwards. From any thread."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledgerfs_cluster.errors import BrokerOffloadError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.lifecycle.brokers.outcomes import ListReader, offload_and_compare, trim_and_compare
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind
from ledgerfs_cluster.offload.outcomes import Outcome, Status

if TYPE_CHECKING:
    from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi


@dataclass(frozen=True, slots=True)
class ByBrokers:
    """Has brokers offload and trim; nothing is trimmed while ``why_other_policy`` says that the policy file was edited."""

    broker: "BrokerApi"
    listed: ListReader
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
        return [done]

    def _behind(self, action: Action, name: str) -> int | None:
        """Return the ledger that a topic lists behind all that are due; None without one."""
        ids = (one.ledger_id for one in self.listed(name).ledgers)
        return next((one for one in ids if one > max(action.ledger_ids)), None)

"""Have brokers offload and trim, and compare their reports with the ledger list in ZooKeeper afterwards.

A broker reports success of an offload that skipped ledgers, and forgets an offload when it unloads the topic. A complete context does not
prove that the objects have all entries: check them before BookKeeper's copy is deleted.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.errors import BrokerOffloadError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    Position,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind
from ledgerfs_cluster.offload.outcomes import Outcome, Status, failed
from ledgerfs_cluster.zookeeper.nodes import NodeReader

ListReader = Callable[[str], ManagedLedgerInfo]
"""Returns the current ledger list of a managed ledger; raises `ObjectNotFoundError` for a topic that is gone."""
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class ByBrokers:
    """Has brokers offload and trim, from any thread; trims nothing while ``why_other_policy`` reports that the policy file was edited."""

    broker: BrokerApi
    listed: ListReader
    why_other_policy: Callable[[], str | None]

    def carry_out(self, action: Action) -> list[Outcome]:
        """Have a broker offload or trim, and compare the list afterwards. Raises the errors of the broker, and those of ZooKeeper."""
        name = action.managed_ledger or ""
        if action.kind is ActionKind.TRIM:
            # It may have waited in the queue; the next plan has it again, if the policy still wants it.
            if self.why_other_policy() is not None:
                return []
            return trim_and_compare(self.broker, name, self.listed, action.ledger_ids)
        return self._offload(action, name)

    def _offload(self, action: Action, name: str) -> list[Outcome]:
        """Have a broker offload up to the ledger after the last due one."""
        behind = self._behind(action, name)
        if behind is None:
            text = (
                f"offload {name}: postponed, since ledger {max(action.ledger_ids)} is now the last ledger of the topic"
            )
            return [Outcome(Status.SKIPPED, "broker offload postponed", name, text, action.ledger_ids)]
        try:
            done = offload_and_compare(self.broker, name, Position(behind, 0), self.listed)
        except BrokerOffloadError:
            # A broker that loads the topic drops an empty last ledger, creates another one, and rejects the old position.
            now = self._behind(action, name)
            if now in {None, behind}:
                raise
            done = offload_and_compare(self.broker, name, Position(now, 0), self.listed)
        return [done]

    def _behind(self, action: Action, name: str) -> int | None:
        """Return the ledger that a topic lists after all due ones; None without one."""
        ids = (one.ledger_id for one in self.listed(name).ledgers)
        return next((one for one in ids if one > max(action.ledger_ids)), None)


def list_reader(nodes: NodeReader) -> ListReader:
    """Return a reader of lists in ZooKeeper."""

    def listed(managed_ledger: str) -> ManagedLedgerInfo:
        path = managed_ledger_path(managed_ledger)
        return parse_managed_ledger_info(nodes.get(path).data, key=path)

    return listed


def offload_and_compare(
    broker: BrokerApi,
    managed_ledger: str,
    up_to: Position,
    listed: ListReader,
) -> Outcome:
    """Have a broker offload a topic as `BrokerApi.offload` does, and return the listed ledgers that it offloaded.

    Those are the ledgers before that of ``up_to``, except for the one of the greatest id, empty ones, those that were offloaded before, and
    those that are trimmed meanwhile. Without any, the broker is not asked. Raises `BrokerOffloadError`, which names ledgers, if it did
    less, and as `BrokerApi.offload`.
    """
    before = listed(managed_ledger)
    wanted = _left(before, up_to)
    if wanted:
        broker.offload(managed_ledger, up_to)
        try:
            after = {one.ledger_id: one.is_offloaded for one in listed(managed_ledger).ledgers}
        except ObjectNotFoundError as error:
            raise BrokerOffloadError(
                "the topic was deleted during the offload", key=topic_of(managed_ledger)
            ) from error
        left = [one for one in wanted if not after.get(one, True)]
        if left:
            named = ", ".join(map(str, left[:_MOST_NAMED])) + (", …" if len(left) > _MOST_NAMED else "")
            raise BrokerOffloadError(
                f"the broker finished, but by the ledger list {len(left)} of {len(wanted)} ledgers are not offloaded: {named}",
                key=topic_of(managed_ledger),
            )
        wanted = tuple(one for one in wanted if one in after)
    size = _size_of(before.ledgers, wanted)
    return Outcome(Status.OK, "offloaded", managed_ledger, ledger_ids=wanted, size=size)


def trim_and_compare(
    broker: BrokerApi, managed_ledger: str, listed: ListReader, due: Sequence[int] = ()
) -> list[Outcome]:
    """Have a broker trim a topic; return the ledgers that were deleted by the list, and the ``due`` ones that it left.

    Deletions may be those of another trim. Unloads a topic again that was not loaded before; the broker keeps its bundle, which is one node
    in ZooKeeper. Raises as `BrokerApi.trim`.
    """
    before = listed(managed_ledger).ledgers
    # A status request loads the topic, which begins another ledger, and so shows if a broker had it. (Not for a terminated topic.)
    broker.offload_status(managed_ledger)
    was_loaded = _ids(listed(managed_ledger).ledgers)[-1:] == _ids(before)[-1:]
    try:
        broker.trim(managed_ledger)
        after = listed(managed_ledger).ledgers
    finally:
        error = None if was_loaded else _unload_error(broker, managed_ledger)
    kept = {one.ledger_id for one in after if not _is_only_offloaded(one)}
    only_offloaded = {one.ledger_id for one in before if _is_only_offloaded(one)} & set(_ids(after))
    gone = tuple(one for one in _ids(before) if one not in kept | only_offloaded)
    outcomes = []
    if gone:
        outcomes.append(Outcome(Status.OK, "trimmed", managed_ledger, ledger_ids=gone, size=_size_of(before, gone)))
    left = tuple(one for one in due if one in kept)
    if left:
        text = (
            f"the broker of {managed_ledger} did not trim {len(left)} of {len(due)} due ledgers: "
            "it decides by its own retention, deletion lag and subscriptions"
        )
        outcomes.append(Outcome(Status.SKIPPED, "not-trimmed", managed_ledger, text, left))
    if error is not None:
        text = f"{managed_ledger} was loaded by a broker for trimming and cannot be unloaded: {error}"
        outcomes.append(failed("not-unloaded", managed_ledger, text, error))
    return outcomes


def _unload_error(broker: BrokerApi, managed_ledger: str) -> LedgerfsError | None:
    try:
        broker.unload(managed_ledger)
    except LedgerfsError as error:
        return error
    return None


def _ids(ledgers: Iterable[LedgerInfo]) -> list[int]:
    return [one.ledger_id for one in ledgers]


def _size_of(ledgers: Iterable[LedgerInfo], ids: Collection[int]) -> int:
    return sum(one.size for one in ledgers if one.ledger_id in ids)


def _left(info: ManagedLedgerInfo, up_to: Position) -> tuple[int, ...]:
    """Return the ledgers that a broker will offload, from their list, which has no size of the last one."""
    greatest = max((one.ledger_id for one in info.ledgers), default=-1)
    end = min(up_to.ledger_id, greatest)
    return tuple(one.ledger_id for one in info.ledgers if one.ledger_id < end and one.size > 0 and not one.is_offloaded)


def _is_only_offloaded(ledger: LedgerInfo) -> bool:
    return ledger.context is not None and ledger.context.is_deleted_from_bookkeeper

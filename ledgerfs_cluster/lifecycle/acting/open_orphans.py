"""Deleting ledgers that nothing names, and that are not closed: brokers leave them where they are killed, or lose ZooKeeper.

A closed ledger has no writer. One that is not closed may have been made by a broker that was stopped before it named it, and goes on. So
whatever could name it is set again, as it is, by the commit that deletes it: a broker names a ledger at the version that it knows, before
the commit, which then fails, or never.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs_cluster.errors import ChangedMeanwhileError
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import parse_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.names import is_node_name, managed_ledger_path
from ledgerfs_cluster.lifecycle.acting.context import ActionContext, postponed
from ledgerfs_cluster.offload.candidates import Listed, listed_or_none
from ledgerfs_cluster.offload.journal import JournalRecord
from ledgerfs_cluster.offload.list_bytes import fits
from ledgerfs_cluster.offload.outcomes import Outcome, Status
from ledgerfs_cluster.offload.owners import let_go
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.zookeeper.changes import DropNode, Operation, SetNode

if TYPE_CHECKING:
    from ledgerfs_cluster.live_source.closed_ledgers import StoredLedger
    from ledgerfs_cluster.snapshot.answers import BookieReads


class OpenOrphans:
    """Deletes those of topics in one pass. For one thread.

    Parameters
    ----------
    bookies
        Tell whether a ledger has entries; None if none is to be asked.

    """

    __slots__ = ("_bookies", "_context", "_silent")

    def __init__(self, context: ActionContext, bookies: "BookieReads | None") -> None:
        self._context = context
        self._bookies = bookies
        # Bookies that did not answer.
        self._silent: set[str] = set()

    def delete(
        self,
        managed_ledger: str,
        list_version: int,
        records: Sequence[JournalRecord],
        outcomes: list[Outcome],
        why_not: Callable[[], str | None],
    ) -> None:
        """Delete ledgers that were made for a topic's list or subscriptions, and were planned again by a list of ``list_version``.

        ``why_not`` is asked right before each commit. Raises `StoppedError`, `LockLostError`, and the errors of ZooKeeper.
        """
        left = list(records)
        while left:
            listed = listed_or_none(self._context.lock.newest(), managed_ledger)
            why = self._why_not_free(managed_ledger, listed, list_version)
            if listed is None or why is not None:
                outcomes += [postponed(one, why or "the topic is gone") for one in left]
                return
            going, changes, left = self._that_fit(listed, managed_ledger, left, outcomes)
            if not going:
                continue
            why = why_not()
            try:
                if why is None:
                    self._context.lock.commit([SetNode.of(listed.node, listed.node.data), *changes])
            except ChangedMeanwhileError as error:
                why = str(error)
            if why is not None:
                outcomes += [postponed(one, why) for one in going]
                continue
            list_version += 1
            ids, size = tuple(one.ledger_id for one in going), sum(one.size for one in going)
            outcomes.append(Outcome(Status.OK, "deleted", managed_ledger, ledger_ids=ids, size=size))
            outcomes += let_go(self._context.owners, managed_ledger)

    def _why_not_free(self, managed_ledger: str, listed: Listed | None, version: int) -> str | None:
        if listed is None or listed.node.version != version:
            return "the topic's list has changed since it was decided"
        # Behind the list: a broker that loads the topic from now on changes its version.
        owner = self._context.owners.owner_of(managed_ledger)
        return None if owner is Owner.NONE else "a broker has the topic, or it is not known whether one has"

    def _that_fit(
        self, listed: Listed, managed_ledger: str, records: list[JournalRecord], outcomes: list[Outcome]
    ) -> tuple[list[JournalRecord], list[Operation], list[JournalRecord]]:
        """Return as many records as one commit takes, what it changes, and those behind them."""
        as_it_is = SetNode.of(listed.node, listed.node.data)
        changes: list[Operation] = []
        going: list[JournalRecord] = []
        for place, record in enumerate(records):
            # Each may have its bookies asked, and nothing is changed yet.
            self._context.require_going()
            found = self._changes(listed, managed_ledger, record)
            if isinstance(found, str):
                outcomes.append(postponed(record, found))
                continue
            more = [one for one in found if one not in changes]
            if fits([as_it_is, *changes, *more]):
                changes += more
                going.append(record)
            elif going:
                return going, changes, records[place:]
            else:
                outcomes.append(postponed(record, "a commit has no room for it beside its topic's list"))
        return going, changes, []

    def _changes(self, listed: Listed, managed_ledger: str, record: JournalRecord) -> list[Operation] | str:
        """Return the changes that delete a ledger, so that nothing can name it from then on; or why it is kept."""
        try:
            found = self._context.ledgers.found(record.ledger_id)
        except ObjectNotFoundError:
            return "it is gone"
        if found.made_ms < listed.node.created_ms:
            # Versions begin again with a node: this one may have come to that of the list by which was decided.
            return "its topic's list was made later: it was lost, or the topic was deleted and made anew"
        cursor = found.node.told("pulsar/cursor")
        named = [] if cursor is None else self._subscription(managed_ledger, cursor, found)
        why = self._why_rows(listed, found) if cursor is None else None
        if why is not None or isinstance(named, str):
            return why or named
        path = self._context.ledgers.path_of(record.ledger_id)
        return [record.dropped(), DropNode(path, record.ledger_version), *named]

    def _why_rows(self, listed: Listed, found: "StoredLedger") -> str | None:
        """Return why a ledger may have rows that its topic has lost; None if it has not.

        Brokers write only to what is listed, and trim from the oldest on: so what has entries was listed, and was trimmed if the list
        begins behind it.
        """
        first = listed.info.ledgers[0].ledger_id
        if found.node.ledger_id < first:
            return None
        if self._bookies is None:
            return "its bookies are not asked whether it has entries"
        is_empty = self._bookies.none_has_any(found.node, self._silent)
        if isinstance(is_empty, LedgerfsError):
            return f"it is not closed, and it is not known whether it has entries: {is_empty}"
        lost = f"its topic's list, which begins at ledger {first}, does not name the ledger: it was set back"
        return None if is_empty else f"it is not closed, and has entries; {lost}"

    def _subscription(self, managed_ledger: str, cursor: str, found: "StoredLedger") -> list[Operation] | str:
        """Return what sets the subscription that a ledger was made for as it is, so that it cannot name it from then on; or why it may.

        Nothing where there is no such subscription: its node is made before its first ledger is, so no broker knows a version of it at
        which it could name this one.
        """
        if not is_node_name(cursor):
            return f"it was made for {cursor!r}, which no subscription is called"
        # Behind the list, and behind the owner: no broker loads the topic, and sets this one, without setting the list.
        node = self._context.lock.node(f"{managed_ledger_path(managed_ledger)}/{cursor}")
        if node is None:
            return []
        if parse_cursor_info(node.data, key=node.path).cursors_ledger == found.node.ledger_id:
            return "its subscription names it now"
        if found.made_ms < node.created_ms:
            return "its subscription was made later: it was lost, or deleted and made anew"
        return [SetNode.of(node, node.data)]

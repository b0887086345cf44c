"""Deleting ledgers that nothing names, and that are not closed: brokers leave them where they are killed, or lose ZooKeeper.

A closed ledger has no writer. One that is not closed may have been made by a broker that was stopped before it named it, and goes on. So
whatever could name it is set anew, as it is, by the commit that deletes it: a broker names a ledger at the version that it knows, before
the commit, which then fails, or never.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledgerfs.clusters.ownership import MANAGED_LEDGER
from ledgerfs.dialects.closed_ledgers import StoredLedger
from ledgerfs.errors import CorruptMetadataError, LedgerfsError
from ledgerfs.formats.managed_ledgers.cursor_info import parse_cursor_info
from ledgerfs.formats.managed_ledgers.names import is_node_name, managed_ledger_path
from ledgerfs.lifecycle.acting.decided_policies import WhyNot
from ledgerfs.lifecycle.acting.free_lists import FreeLists
from ledgerfs.lifecycle.acting.marked_ledgers import CHANGED, why_another
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.only_copies import why_set_back
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.trash_line import TrashState
from ledgerfs.offload.candidates import Listed
from ledgerfs.offload.list_bytes import fits
from ledgerfs.storage.zookeeper.changes import DropNode, Operation, SetNode

if TYPE_CHECKING:
    from ledgerfs.clusters.answers import BookieReads


class OpenOrphans:
    """Deletes those of topics. For one thread.

    Parameters
    ----------
    lists
        Of the same pass.
    bookies
        Tell whether a ledger has entries; None if none is to be asked.

    """

    __slots__ = ("_bookies", "_lists", "_means", "_silent")

    def __init__(self, means: Means, lists: FreeLists, bookies: "BookieReads | None") -> None:
        self._means = means
        self._lists = lists
        self._bookies = bookies
        # Of this pass: bookies that did not answer.
        self._silent: set[str] = set()

    def forget(self) -> None:
        """Ask bookies again that did not answer."""
        self._silent.clear()

    def delete(
        self, managed_ledger: str, orphans: Sequence[tuple[NotedLine, StoredLedger]], done: Done, why_not: WhyNot
    ) -> None:
        """Delete ledgers that were made for the list or for subscriptions of one topic (`is_of_topic`), and tell which stay, and why.

        ``why_not`` is asked right before each commit. Raises as `FreeLists`, and `StoppedError`.
        """
        left = list(orphans)
        while left:
            left = self._delete_some(managed_ledger, left, done, why_not)

    def _delete_some(
        self, managed_ledger: str, orphans: list[tuple[NotedLine, StoredLedger]], done: Done, why_not: WhyNot
    ) -> list[tuple[NotedLine, StoredLedger]]:
        """Delete as many as one commit takes; return those behind them."""
        listed = self._lists.read(managed_ledger, [one for one, _ in orphans], done)
        if listed is None:
            return []
        as_it_is = SetNode.of(listed.node, listed.node.data)
        changes: list[Operation] = []
        going: list[int] = []
        left: list[tuple[NotedLine, StoredLedger]] = []
        for place, (noted, found) in enumerate(orphans):
            # Each may have its bookies asked, and nothing is changed yet.
            self._means.turn.require_going()
            why, anew = self._why_kept(listed, noted, found), None
            if why is None:
                why, anew = self._subscription(managed_ledger, found)
            gone = [noted.as_changed(TrashState.DELETED)[0], self._dropped(found)]
            more = [one for one in (*gone, anew) if one is not None and one not in changes]
            if why is None and not fits([as_it_is, *changes, *more]):
                if going:
                    left = orphans[place:]
                    break
                why = "a commit has no room for it beside its topic's list"
            if why is not None:
                done.postponed[found.node.ledger_id] = why
                continue
            changes += more
            going.append(found.node.ledger_id)
        if going:
            self._commit(managed_ledger, listed, going, changes, done, why_not)
        return left

    def _commit(  # noqa: PLR0917  (what goes, of what, and what it was decided by)
        self,
        managed_ledger: str,
        listed: Listed,
        going: list[int],
        changes: list[Operation],
        done: Done,
        why_not: WhyNot,
    ) -> None:
        why = why_not() or self._lists.set(listed, listed.node.data, changes)
        if why is not None:
            done.postponed.update(dict.fromkeys(going, why))
            return
        done.ledger_ids += going
        self._lists.let_go(managed_ledger, done)

    def _dropped(self, found: StoredLedger) -> DropNode:
        return DropNode(self._means.ledgers.path_of(found.node.ledger_id), found.version)

    def _why_kept(self, listed: Listed, noted: NotedLine, found: StoredLedger) -> str | None:
        """Return why it is not sure that a ledger is what was marked, and that no list may name it any more; None if it is."""
        if listed.ledger(noted.line.ledger_id) is not None:
            return "its topic's list names it now"
        if (why := why_another(noted.line, found)) is not None:
            return why
        if found.version != noted.line.version:
            return CHANGED
        if found.made_ms < listed.node.created_ms:
            # It is of the list that was before, which may be put back; and a broker of then may know a version that this one will have.
            return "its topic's list was made later: it was lost, or the topic was deleted and made anew"
        return None if _cursor(found) is not None else self._why_rows(listed, found)

    def _why_rows(self, listed: Listed, found: StoredLedger) -> str | None:
        """Return why a ledger may have rows that its topic has lost; None if it has not.

        Brokers write only to what is listed, and trim from the oldest on: so what has entries was listed, and was trimmed if the list
        begins behind it.
        """
        lost = why_set_back(listed, found.node.ledger_id)
        return None if lost is None else self._why_not_empty(found, lost)

    def _why_not_empty(self, found: StoredLedger, lost: str) -> str | None:
        """Return why it is not sure that no bookie has an entry of a ledger; None if it is."""
        if self._bookies is None:
            return "its bookies are not asked whether it has entries"
        is_empty = self._bookies.none_has_any(found.node, self._silent)
        if isinstance(is_empty, LedgerfsError):
            return f"it is not closed, and it is not known whether it has entries: {is_empty}"
        return None if is_empty else f"it is not closed, and has entries; {lost}"

    def _subscription(self, managed_ledger: str, found: StoredLedger) -> tuple[str | None, SetNode | None]:
        """Return why a subscription may name a ledger, or what sets the subscription as it is, so that none can from then on.

        Neither for what was made for the list, nor where there is no such subscription: its node is made before its first ledger is, so no
        broker knows a version of it at which it could name this one.
        """
        cursor = _cursor(found)
        if cursor is not None and not is_node_name(cursor):
            return f"it was made for {cursor!r}, which no subscription is called", None
        # Behind the list, and behind who has the topic: no broker loads it, and sets this one, without setting the list.
        node = None if cursor is None else self._means.lock.node(f"{managed_ledger_path(managed_ledger)}/{cursor}")
        if node is None:
            return None, None
        try:
            named = parse_cursor_info(node.data, key=node.path).cursors_ledger
        except CorruptMetadataError as error:
            return f"its subscription's node, which may name it, is damaged: {error}", None
        if named == found.node.ledger_id:
            return "its subscription names it now", None
        if found.made_ms < node.created_ms:
            return "its subscription was made later: it was lost, or deleted and made anew", None
        return None, SetNode.of(node, node.data)


def is_of_topic(found: StoredLedger, managed_ledger: str) -> bool:
    """Whether a ledger was made for the list of a topic, or for one of its subscriptions, and not for a schema or the like."""
    return (found.node.component, found.node.managed_ledger) == (MANAGED_LEDGER, managed_ledger)


def _cursor(found: StoredLedger) -> str | None:
    """Return the node's name of the subscription that a ledger was made for; None for one of a list."""
    return found.node.told("pulsar/cursor")

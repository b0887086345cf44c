"""Lists of ledgers that are set while no broker has their topics: read, set at the version that was read, and loaded anew afterwards."""

from collections.abc import Iterable, Sequence

from ledgerfs.clusters.bundles import Owner
from ledgerfs.errors import ChangedMeanwhileError, LedgerfsError
from ledgerfs.lifecycle.acting.decided_policies import WhyNot
from ledgerfs.lifecycle.acting.free_topics import why_not_free
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.trash_line import TrashState
from ledgerfs.offload.candidates import Listed, listed_or_none
from ledgerfs.offload.owners import TopicOwners
from ledgerfs.storage.zookeeper.changes import ClusterLock, Operation, SetNode


class FreeLists:
    """For one thread. All methods raise `LockLostError`, and the errors of ZooKeeper, but for `let_go`."""

    __slots__ = ("_lock", "_owners")

    def __init__(self, lock: ClusterLock, owners: TopicOwners) -> None:
        self._lock = lock
        self._owners = owners

    def read(self, managed_ledger: str, lines: Sequence[NotedLine], done: Done) -> Listed | None:
        """Return the list of a topic that no broker has; None, and why in ``done``, for others."""
        listed = listed_or_none(self._lock.newest(), managed_ledger)
        # After the list, so that a broker that loads the topic from now on changes its version.
        why = "the topic is gone" if listed is None else why_not_free(self._owners, managed_ledger, listed.info)
        if why is not None:
            done.postponed.update({one.line.ledger_id: why for one in lines})
            return None
        return listed

    def unlist(  # noqa: PLR0917  (what is set, for what, and what must not have changed)
        self,
        managed_ledger: str,
        listed: Listed,
        data: bytes,
        lines: Sequence[NotedLine],
        done: Done,
        why_not: WhyNot,
    ) -> list[NotedLine]:
        """Set a list and the lines of its ledgers together; return the lines as they are then, none if the list has changed meanwhile."""
        changes, changed = [], []
        for one in lines:
            change, now = one.as_changed(TrashState.UNLISTED)
            changes.append(change)
            changed.append(now)
        why = why_not() or why_not_free(self._owners, managed_ledger, listed.info) or self.set(listed, data, changes)
        if why is None:
            return changed
        done.postponed.update({one.line.ledger_id: why for one in lines})
        return []

    def set(self, listed: Listed, data: bytes, others: Iterable[Operation]) -> str | None:
        """Set a list, if it is as it was read, and make other changes by the same commit; return why nothing was done, None if it was."""
        why = self._why_another(listed)
        if why is None:
            try:
                self._lock.commit([SetNode(listed.node.path, data, listed.node.version), *others])
            except ChangedMeanwhileError as error:
                why = str(error)
        return why

    def let_go(self, managed_ledger: str | None, done: Done) -> bool:
        """Have a broker let the topic go that took it meanwhile, or had it while it was stopped: it has the list as it was before.

        Returns whether one has it, or may have it. Errors are told: a deletion that began goes on.
        """
        try:
            if managed_ledger is None or self._owners.owner_of(managed_ledger) is Owner.NONE:
                return False
            if self._owners.can_unload:
                self._owners.unload(managed_ledger)
            else:
                done.remarks.append(
                    f"a broker has taken {managed_ledger} meanwhile: unload the topic, so that it reads its list again"
                )
        except LedgerfsError as error:
            done.remarks.append(f"{managed_ledger} may have been taken by a broker, and could not be unloaded: {error}")
        return True

    def _why_another(self, listed: Listed) -> str | None:
        """Return why a list is not the one that was read; None if it is.

        A topic that is deleted and made anew has a list whose versions begin at 0 again, and may have come as far as the old one's.
        """
        node = self._lock.node(listed.node.path)
        is_same = node is not None and (node.created_ms, node.data) == (listed.node.created_ms, listed.node.data)
        return None if is_same else "its topic was deleted, or its list has changed since it was read"

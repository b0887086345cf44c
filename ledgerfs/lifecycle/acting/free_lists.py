"""Lists of ledgers that are set while no broker has their topics: read, set at the version that was read, and loaded anew afterwards."""

from collections.abc import Iterable, Sequence

from ledgerfs.clusters.bundles import Owner
from ledgerfs.errors import AdminApiUnreachableError, ChangedMeanwhileError, LedgerfsError, UncertainRequestError
from ledgerfs.lifecycle.acting.decided_policies import WhyNot
from ledgerfs.lifecycle.acting.free_topics import why_not_free
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.acting.silent_topics import SilentTopics
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.trash_line import TrashLine, TrashState
from ledgerfs.offload.candidates import Listed, listed_or_none
from ledgerfs.offload.owners import TopicOwners
from ledgerfs.offload.remarks import Remark
from ledgerfs.storage.zookeeper.changes import ClusterLock, Operation, SetNode


class FreeLists:
    """For one thread. All methods raise `LockLostError`, and the errors of ZooKeeper, but for `let_go`."""

    __slots__ = ("_lock", "_owners", "_silent", "_tried", "_unloaded")

    def __init__(self, lock: ClusterLock, owners: TopicOwners) -> None:
        self._lock = lock
        self._owners = owners
        # Topics that were unloaded since they were last worked on.
        self._unloaded: set[str] = set()
        # Of this pass: topics that could not be unloaded.
        self._tried: set[str] = set()
        self._silent = SilentTopics()

    def forget(self) -> None:
        """Forget what could not be unloaded: it is tried again."""
        self._tried.clear()
        self._silent.begin_pass()

    def begin(self, managed_ledger: str | None) -> None:
        """Begin to delete something of a topic: that it was unloaded after the last deletion tells nothing any more."""
        self._unloaded.discard(managed_ledger or "")

    def read(self, managed_ledger: str, lines: Sequence[NotedLine], done: Done) -> Listed | None:
        """Return the list of a topic that no broker has; None, and why in ``done``, for others."""
        self.begin(managed_ledger)
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
        why = why_not() or self.why_not_free(managed_ledger, listed) or self.set(listed, data, changes)
        if why is None:
            return changed
        done.postponed.update({one.line.ledger_id: why for one in lines})
        return []

    def why_not_free(self, managed_ledger: str, listed: Listed) -> str | None:
        """Return why a list that was read may not be changed now; None if it may, at its version."""
        return why_not_free(self._owners, managed_ledger, listed.info)

    def set(self, listed: Listed, data: bytes, others: Iterable[Operation]) -> str | None:
        """Set a list, if it is as it was read, and make other changes by the same commit; return why nothing was done, None if it was."""
        try:
            self._lock.commit([SetNode.of(listed.node, data), *others])
        except ChangedMeanwhileError as error:
            return str(error)
        return None

    def let_go(self, managed_ledger: str | None, done: Done) -> bool:
        """Have a broker let the topic go that took it meanwhile, or had it while it was stopped: it has the list as it was before.

        Returns whether one has it, or may have it. Errors are told: a deletion that began goes on.
        """
        try:
            if managed_ledger is None or self._owners.owner_of(managed_ledger) is Owner.NONE:
                return False
            if self._owners.can_unload:
                self._owners.unload(managed_ledger)
                self._unloaded.add(managed_ledger)
                self._silent.answered(managed_ledger)
            else:
                text = (
                    f"a broker has taken {managed_ledger} meanwhile: unload the topic, so that it reads its list again"
                )
                done.remarks.append(Remark("taken", managed_ledger, text))
        except LedgerfsError as error:
            if isinstance(error, AdminApiUnreachableError | UncertainRequestError):
                self._silent.note(managed_ledger or "")
            text = f"{managed_ledger} may have been taken by a broker, and could not be unloaded: {error}"
            done.remarks.append(Remark("not-unloaded", managed_ledger, text))
        return True

    def is_let_go(self, line: TrashLine, now_ms: int, done: Done) -> bool:
        """Whether no broker can have a list that names what a line deleted; a broker that has the topic is asked to let it go.

        That is tried again with each pass until it was done, since nobody else does it.
        """
        name = line.managed_ledger
        if not line.watched_until_ms or name is None or name in self._unloaded:
            return True
        if name in self._tried:
            return not self._owners.can_unload
        if listed_or_none(self._lock.newest(), name) is None:
            # No broker can be asked about a topic that is gone.
            return True
        if not self._silent.may_be_asked(name):
            return self._owners.owner_of(name) is Owner.NONE and now_ms >= line.watched_until_ms
        if self.let_go(name, done):
            self._tried.add(name)
            return name in self._unloaded or not self._owners.can_unload
        return now_ms >= line.watched_until_ms

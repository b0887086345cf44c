"""Plan again right before deletions: read all possible references of ledgers once more, and apply the same rules.

One reading serves all deletions within 30 s, since each reads all lists. Each deletion is committed at the versions of that reading: it
fails if these have changed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster.errors import StoppedError
from ledgerfs_cluster.lifecycle.planning.actions import ActionKind, Orphans, Plan, Situation
from ledgerfs_cluster.lifecycle.planning.orphans import orphan_ledgers
from ledgerfs_cluster.lifecycle.planning.planning import plan_deletions_again
from ledgerfs_cluster.offload.journal import JournalRecord, read_journal
from ledgerfs_cluster.rules.orphans import unnamed_ledgers
from ledgerfs_cluster.snapshot.surveying import look_again

if TYPE_CHECKING:
    from ledgerfs_cluster.lifecycle.acting.context import ActionContext
    from ledgerfs_cluster.snapshot.survey import Survey

_HOLDS_S = 30.0


@dataclass(frozen=True, slots=True)
class PlannedAgain:
    """The result of planning again.

    Attributes
    ----------
    due
        {name: record} of the deletions that are due now.
    list_versions
        {managed ledger: version of its list}.

    """

    plan: Plan
    due: dict[str, JournalRecord]
    list_versions: dict[str, int]

    def why_not_due(self, record: JournalRecord) -> str:
        """Return the reason why a record is no longer due."""
        kept = (*self.plan.refused, *self.plan.waiting)
        reported = (one.message for one in kept if record.ledger_id in one.ledger_ids)
        return next(reported, "it is now in use or may be, or it was changed or deleted")


class PlanAgain:
    """Plans an iteration's deletions again, and once more when the last plan is older than 30 s or than its reading took. For one thread.

    Parameters
    ----------
    survey, situation
        Input of the iteration's plan.
    clock
        Monotonic seconds.

    """

    __slots__ = ("_clock", "_context", "_error", "_found", "_situation", "_survey", "_until_s")

    def __init__(
        self,
        context: "ActionContext",
        survey: "Survey",
        situation: Situation,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._survey = survey
        self._situation = situation
        self._clock = clock
        self._found: PlannedAgain | None = None
        self._error: LedgerfsError | None = None
        self._until_s = 0.0

    def deletions(self) -> PlannedAgain:
        """Return the deletions that are due now.

        Raises `StoppedError`, and the errors of `look_again`, once an iteration: an error of one topic would be that of the next, too.
        """
        if self._error is not None:
            raise self._error
        if self._found is None or self._clock() >= self._until_s:
            began_s = self._clock()
            try:
                self._found = self._planned()
            except StoppedError:
                raise
            except LedgerfsError as error:
                self._error = error
                raise
            ended_s = self._clock()
            self._until_s = ended_s + max(_HOLDS_S, ended_s - began_s)
        return self._found

    def _planned(self) -> PlannedAgain:
        survey, situation = self._survey, self._situation
        ids = np.array(sorted({one.ledger_id for one in situation.journal.marked}), np.int64)
        require_going = self._context.require_going
        found = look_again(self._context.cluster, ids, self._context.bookies, lambda *_: require_going())
        # Policies and owners do not refer to ledgers.
        now = replace(
            found,
            damaged=[*found.damaged, *survey.damaged],
            **{
                name: getattr(survey, name)
                for name in ("policies", "topic_policies", "namespaces_read", "owners", "clusters", "neighbours")
            },
        )
        unnamed = unnamed_ledgers(now, situation.now_ms, 0).rows
        before = situation.orphans or Orphans()
        orphans = Orphans(tuple(orphan_ledgers(now, unnamed)), before.offloads, before.unlisted)
        # After the lists, as in an iteration; an unreadable record does not stop the others.
        journal = read_journal(self._context.cluster.nodes)
        plan = plan_deletions_again(now, replace(situation, orphans=orphans, journal=journal))
        due = {one.name: one for action in plan.actions if action.kind is ActionKind.DELETE for one in action.records}
        versions = dict(zip(now.topics, now.topic_table["version"].tolist(), strict=True))
        return PlannedAgain(plan, due, versions)

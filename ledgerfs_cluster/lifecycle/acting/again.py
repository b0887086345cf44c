"""Planning again right before anything is deleted: all that may name a ledger is read once more, and the same rules decide.

One time serves all deletions that follow within 30 s, since each reads all lists. Each deletion is committed at the versions that were read
then: what has changed since makes it fail.
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
    """What came out of it.

    Attributes
    ----------
    due
        {name: record} of what is to be deleted now.
    list_versions
        {managed ledger: version of its list}.

    """

    plan: Plan
    due: dict[str, JournalRecord]
    list_versions: dict[str, int]

    def why_not_due(self, record: JournalRecord) -> str:
        """Return why a record is not due any more."""
        kept = (*self.plan.refused, *self.plan.waiting)
        told = (one.message for one in kept if record.ledger_id in one.ledger_ids)
        return next(told, "something names it now, or may name it, or it is gone or changed")


class PlanAgain:
    """Plans again what a pass has planned, and once more when that is too long ago: after 30 s, or as long as reading took. For one thread.

    Parameters
    ----------
    survey, situation
        By which the pass was planned.
    clock
        Seconds that only grow.

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
        """Return what is to be deleted now.

        Raises `StoppedError`, and as `look_again`, once a pass: what cannot be read for one topic cannot be for the next one either.
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
        # Neither policies nor owners name ledgers.
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
        # Behind the lists, as in a pass; a record that may not be read keeps no other back.
        journal = read_journal(self._context.cluster.nodes)
        plan = plan_deletions_again(now, replace(situation, orphans=orphans, journal=journal))
        due = {one.name: one for action in plan.actions if action.kind is ActionKind.DELETE for one in action.records}
        versions = dict(zip(now.topics, now.topic_table["version"].tolist(), strict=True))
        return PlannedAgain(plan, due, versions)

"""Carrying out the actions of a plan; offloads take long, and are carried out in the background."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from ledgerfs.clusters.bundles import namespace_of
from ledgerfs.clusters.orphans import unnamed_ledgers
from ledgerfs.clusters.policies import NOTHING_SET, NamespacePolicies, parse_policies
from ledgerfs.clusters.second_look import look_again
from ledgerfs.clusters.subscriptions_now import subscriptions_now
from ledgerfs.clusters.survey_builder import POLICIES
from ledgerfs.errors import LedgerfsError, StoppedError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.lifecycle.acting.cleaning import Cleaner
from ledgerfs.lifecycle.acting.deletions import Deletions
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.brokers.outcomes import list_reader, offload_and_compare, trim_and_compare
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.reading import Journal
from ledgerfs.lifecycle.journal.trash_journal import drop, mark
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.offload.attempts import NotedAttempt
from ledgerfs.offload.candidates import listed_or_none

if TYPE_CHECKING:
    from ledgerfs.clusters.answers import BookieReads
    from ledgerfs.clusters.survey import Survey
    from ledgerfs.lifecycle.brokers.broker_api import BrokerApi
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster

_BY_POLICY = frozenset({TrashKind.TRIMMED, TrashKind.OFFLOADED, TrashKind.FLAGGED})


@dataclass(frozen=True, slots=True)
class Seen:
    """What an action was planned by.

    Attributes
    ----------
    lines
        {path: line of the trash journal}, as they were read for the plan.
    attempts
        {uuid: note of an attempt to offload}, likewise.
    list_versions
        {managed ledger: version of its list}, read before its subscriptions.
    policies
        {namespace: what is set for it}.
    now_ms
        ms since 1970 UTC.

    """

    lines: Mapping[str, NotedLine]
    attempts: Mapping[str, NotedAttempt]
    list_versions: Mapping[str, int]
    policies: Mapping[str, NamespacePolicies]
    now_ms: int

    @classmethod
    def of(cls, survey: "Survey", journal: Journal, now_ms: int) -> "Seen":
        """Return what a survey and a journal tell."""
        versions = dict(zip(survey.topics, survey.topic_table["version"].tolist(), strict=True))
        lines = {one.line.path: one for one in journal.noted_lines}
        attempts = {one.attempt.uuid: one for one in journal.noted_attempts}
        return cls(lines, attempts, versions, survey.policies, now_ms)


class CarryingOut:
    """Carries actions out, one after the other. For one thread.

    Parameters
    ----------
    broker
        None if none can be asked.
    in_flight
        Tells the uuids of attempts of this process that go on.

    """

    __slots__ = ("_bookies", "_broker", "_cleaner", "_cluster", "_deletions", "_means")

    def __init__(
        self,
        cluster: "LivingCluster",
        means: Means,
        bookies: "BookieReads | None",
        broker: "BrokerApi | None",
        in_flight: Callable[[], frozenset[str]],
    ) -> None:
        self._cluster = cluster
        self._means = means
        self._bookies = bookies
        self._broker = broker
        self._deletions = Deletions(means, partial(subscriptions_now, cluster, bookies))
        self._cleaner = Cleaner(means, in_flight)

    def carry_out(self, action: Action, seen: Seen) -> Done:
        """Carry out an action, for one turn and as far as all is as it was planned for; what is not is told, and so is what is left.

        Once the service is ending no more of it is begun. Raises `LockLostError`, after which nothing more can be done, and
        `StoreUnreachableError` if ZooKeeper does not answer. Other errors are remarks.
        """
        done = Done()
        self._means.turn.begin()
        try:
            self._do(action, seen, done)
        except StoppedError:
            # What was not begun is planned again by the next service.
            return done
        except LedgerfsError as error:
            if self._means.lock.is_lost:
                raise
            done.remarks.append(f"{action.kind.value} {action.managed_ledger or ''}: {error}")
        return done

    def _do(self, action: Action, seen: Seen, done: Done) -> None:
        match action.kind:
            case ActionKind.MARK:
                mark(self._means.lock, action.lines)
                done.ledger_ids += action.ledger_ids
            case ActionKind.DELETE:
                noted = [seen.lines[one.path] for one in action.lines if one.path in seen.lines]
                for (name, _), some in groupby(noted, lambda one: (one.line.managed_ledger, one.line.kind)):
                    self._delete(name, list(some), seen, done)
            case ActionKind.TRIM:
                self._trim(action, done)
            case ActionKind.CLEAN:
                self._clean(action, seen, done)
            case ActionKind.OFFLOAD:
                raise ValueError("offloads are carried out in the background")

    # Deleting.

    def _delete(self, name: str | None, lines: list[NotedLine], seen: Seen, done: Done) -> None:
        """Delete what lines of one kind, and of one topic, tell."""
        self._deletions.finish([one for one in lines if one.line.state is TrashState.UNLISTED], done)
        marked = [one for one in lines if one.line.state is TrashState.MARKED]
        by_policy = [one for one in marked if one.line.kind in _BY_POLICY]
        if by_policy and name is not None and self._is_policy_changed(name, seen):
            why = "the policies of its namespace have changed since it was decided"
            done.postponed.update({one.line.ledger_id: why for one in by_policy})
        elif marked:
            self._delete_marked(name or "", marked, seen, done)

    def _is_policy_changed(self, managed_ledger: str, seen: Seen) -> bool:
        """Whether its namespace keeps a topic otherwise than when its deletions were decided, which may be hours ago.

        Brokers set policies without a change of the topic's list. Raises `CorruptMetadataError`, and the errors of ZooKeeper.
        """
        namespace = namespace_of(managed_ledger)
        node = self._means.lock.node(f"{POLICIES}/{namespace}")
        now = NOTHING_SET if node is None or not node.data else parse_policies(node.data, key=node.path)
        return now != seen.policies.get(namespace, NOTHING_SET)

    def _delete_marked(self, name: str, marked: list[NotedLine], seen: Seen, done: Done) -> None:
        match marked[0].line.kind:
            case TrashKind.ORPHAN:
                self._delete_orphans(marked, seen, done)
            case TrashKind.OFFLOADED:
                self._deletions.flag(name, marked, done)
            case TrashKind.TRIMMED:
                self._deletions.trim(name, marked, seen.list_versions.get(name, -1), done)
            case TrashKind.FLAGGED:
                for one in marked:
                    self._means.turn.require_going()
                    if self._means.turn.is_over:
                        done.later.append(one.line.ledger_id)
                    else:
                        self._deletions.delete_flagged(name, one, done)
            case TrashKind.OBJECTS:
                for one in marked:
                    self._means.turn.require_going()
                    self._deletions.delete_objects(one, done)

    def _delete_orphans(self, lines: Sequence[NotedLine], seen: Seen, done: Done) -> None:
        """Look once more, ledgers first and then all that may own them, and delete what nothing names still."""
        ids = np.array(sorted(one.line.ledger_id for one in lines), np.int64)
        survey = look_again(self._cluster, ids, self._bookies, lambda *_: self._means.turn.require_going())
        free = frozenset(unnamed_ledgers(survey, seen.now_ms, 0).rows["ledger_id"].tolist())
        for one in lines:
            self._means.turn.require_going()
            if one.line.ledger_id in free:
                self._deletions.delete_orphan(one, done)
            else:
                done.postponed[one.line.ledger_id] = "something names it now, or may name it, or it is gone"

    # Cleaning.

    def _clean(self, action: Action, seen: Seen, done: Done) -> None:
        """Drop lines, and clean up after attempts and contexts; told are the ledgers of which nothing is left to be cleaned up now."""
        if action.lines:
            drop(self._means.lock, [seen.lines[one.path] for one in action.lines if one.path in seen.lines])
            done.ledger_ids += [one.ledger_id for one in action.lines]
        if action.attempts:
            noted = [seen.attempts[one.uuid] for one in action.attempts if one.uuid in seen.attempts]
            gone, troubles = self._cleaner.attempts(noted, seen.now_ms)
            done.ledger_ids += gone
            done.remarks += troubles
        if action.contexts and action.managed_ledger is not None:
            self._cleaner.contexts(action.managed_ledger, action.contexts, seen.now_ms)
            done.ledger_ids += [ledger_id for ledger_id, _ in action.contexts]

    # By a broker.

    def _trim(self, action: Action, done: Done) -> None:
        if self._broker is None or action.managed_ledger is None:
            return
        report = trim_and_compare(self._broker, action.managed_ledger, list_reader(self._means.nodes))
        done.ledger_ids += [*report.gone, *report.only_offloaded]
        done.size += action.size if done.ledger_ids else 0
        left = [one for one in action.ledger_ids if one in report.kept]
        done.postponed.update(dict.fromkeys(left, "its broker was asked to trim, and left it"))
        if left:
            done.remarks.append(
                f"the broker of {action.managed_ledger} left {len(left)} of {len(action.ledger_ids)} ledgers that are due: "
                "its own retention, lag and subscriptions decide"
            )

    def offload_by_broker(self, action: Action) -> Done:
        """Have a broker offload up to the ledger behind the last that is due, and look at the list afterwards; from any thread.

        Raises the errors of the broker, and of ZooKeeper.
        """
        done, name = Done(), action.managed_ledger
        if self._broker is None or name is None:
            return done
        listed = listed_or_none(self._means.nodes, name)
        ids = () if listed is None else (one.ledger_id for one in listed.info.ledgers)
        behind = [one for one in ids if one > max(action.ledger_ids)]
        if not behind:
            done.postponed.update(dict.fromkeys(action.ledger_ids, "it is the last ledger of its topic by now"))
            return done
        report = offload_and_compare(self._broker, name, Position(behind[0], 0), list_reader(self._means.nodes))
        done.ledger_ids += report.offloaded
        done.size = action.size if report.offloaded else 0
        return done

"""Carrying out the actions of a plan; offloads take long, and are carried out in the background."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from ledgerfs.clusters.policies_now import SetPolicies, set_policies
from ledgerfs.clusters.subscriptions_now import SubscriptionsNow, subscriptions_now
from ledgerfs.errors import BrokerOffloadError, LedgerfsError, StoppedError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, Position
from ledgerfs.lifecycle.acting.cleaning import Cleaner
from ledgerfs.lifecycle.acting.decided_policies import DecidedPolicies, WhyNot, nothing_against_it
from ledgerfs.lifecycle.acting.deletions import Deletions
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.orphan_look import OrphanLook
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.brokers.outcomes import list_reader, offload_and_compare, trim_and_compare
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.reading import Journal
from ledgerfs.lifecycle.journal.trash_journal import drop, mark
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.offload.attempts import NotedAttempt
from ledgerfs.offload.candidates import listed_or_none
from ledgerfs.offload.remarks import Remark

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
        {managed ledger: what is set for it}, of those that lines are about.
    now_ms, noted_ms
        The times by which was decided, and which is noted, ms since 1970 UTC.

    """

    lines: Mapping[str, NotedLine]
    attempts: Mapping[str, NotedAttempt]
    list_versions: Mapping[str, int]
    policies: Mapping[str, SetPolicies]
    now_ms: int
    noted_ms: int

    @classmethod
    def of(cls, survey: "Survey", journal: Journal, now_ms: int, noted_ms: int) -> "Seen":
        """Return what a survey and a journal tell."""
        versions = dict(zip(survey.topics, survey.topic_table["version"].tolist(), strict=True))
        lines = {one.line.path: one for one in journal.noted_lines}
        attempts = {one.attempt.uuid: one for one in journal.noted_attempts}
        topics = {one.managed_ledger for one in journal.lines if one.managed_ledger is not None}
        return cls(lines, attempts, versions, set_policies(survey, topics), now_ms, noted_ms)

    def marked_orphans(self) -> Iterator[int]:
        """Yield the ids of all ledgers that are marked as orphans."""
        lines = (one.line for one in self.lines.values())
        yield from (one.ledger_id for one in lines if one.kind is TrashKind.ORPHAN and one.state is TrashState.MARKED)


class CarryingOut:
    """Carries actions out, one after the other. For one thread.

    Parameters
    ----------
    broker
        None if none can be asked.
    in_flight
        Tells the uuids of attempts of this process that go on.
    why_other_policy
        Returns why the policy file is not the one by which was decided; None if it is.

    """

    __slots__ = (
        "_bookies",
        "_broker",
        "_cleaner",
        "_cluster",
        "_decided",
        "_deletions",
        "_means",
        "_orphans",
        "_seen",
        "_why_other_policy",
    )

    def __init__(  # noqa: PLR0917  (what it works with)
        self,
        cluster: "LivingCluster",
        means: Means,
        bookies: "BookieReads | None",
        broker: "BrokerApi | None",
        in_flight: Callable[[], frozenset[str]],
        why_other_policy: WhyNot = nothing_against_it,
    ) -> None:
        self._cluster = cluster
        self._means = means
        self._bookies = bookies
        self._broker = broker
        self._why_other_policy = why_other_policy
        self._decided = DecidedPolicies(means.lock, bookies, cluster.reading.ledgers_path)
        self._deletions = Deletions(means, self._subscriptions, bookies)
        self._cleaner = Cleaner(means, in_flight)
        self._orphans = OrphanLook(cluster, bookies, means.turn)
        self._seen: Seen | None = None

    def _subscriptions(self, managed_ledger: str) -> SubscriptionsNow:
        nodes, path = self._means.lock.newest(), self._cluster.reading.ledgers_path
        return subscriptions_now(nodes, path, self._bookies, managed_ledger)

    def carry_out(self, action: Action, seen: Seen) -> Done:
        """Carry out an action, for one turn and as far as all is as it was planned for; what is not is told, and so is what is left.

        Once the service is ending no more of it is begun. Raises `LockLostError`, after which nothing more can be done, and
        `StoreUnreachableError` if ZooKeeper does not answer. Other errors are remarks.
        """
        done = Done()
        if seen is not self._seen:
            # Of another pass: a bucket that did not answer in the one before is asked again.
            self._seen = seen
            self._deletions.forget()
            self._orphans.forget()
        self._means.turn.begin()
        try:
            self._do(action, seen, done)
        except StoppedError:
            # What was not begun is planned again by the next service.
            return done
        except LedgerfsError as error:
            if self._means.lock.is_lost:
                raise
            what, topic = action.kind.value, action.managed_ledger or ""
            done.remarks.append(Remark(f"{what} {type(error).__name__}", topic, f"{what} {topic}: {error}"))
        return done

    def _do(self, action: Action, seen: Seen, done: Done) -> None:
        match action.kind:
            case ActionKind.MARK:
                mark(self._means.lock, action.lines)
                done.ledger_ids += action.ledger_ids
                done.size += action.size
            case ActionKind.DELETE:
                noted = [seen.lines[one.path] for one in action.lines if one.path in seen.lines]
                for (name, _), some in groupby(noted, lambda one: (one.line.managed_ledger, one.line.kind)):
                    if self._means.turn.is_stopping:
                        return
                    self._delete(name, list(some), seen, done)
            case ActionKind.CLEAN:
                self._clean(action, seen, done)
            case ActionKind.TRIM | ActionKind.OFFLOAD:
                raise ValueError("what brokers are asked for, and offloads, are carried out in the background")

    # Deleting.

    def _delete(self, name: str | None, lines: list[NotedLine], seen: Seen, done: Done) -> None:
        """Delete what lines of one kind, and of one topic, tell."""
        self._deletions.finish([one for one in lines if one.line.state is TrashState.UNLISTED], done)
        marked = [one for one in lines if one.line.state is TrashState.MARKED]
        if not marked:
            return
        why_not = self._why_other_policy
        if name is not None and marked[0].line.kind in _BY_POLICY:
            why_not = partial(self._why_not, name, seen)
        # Once more right before the list is set: all objects may be read in between.
        why = why_not()
        if why is not None:
            done.postponed.update({one.line.ledger_id: why for one in marked})
        else:
            self._delete_marked(name or "", marked, seen, why_not, done)

    def _why_not(self, name: str, seen: Seen) -> str | None:
        """Return what has changed of that by which a topic's deletions were decided; None if nothing has."""
        return self._why_other_policy() or self._decided.why_changed(name, seen.policies)

    def _delete_marked(self, name: str, marked: list[NotedLine], seen: Seen, why_not: WhyNot, done: Done) -> None:
        match marked[0].line.kind:
            case TrashKind.ORPHAN:
                self._delete_orphans(name, marked, seen, done, why_not)
            case TrashKind.OFFLOADED:
                self._deletions.flag(name, marked, done, why_not)
            case TrashKind.TRIMMED:
                self._deletions.trim(name, marked, seen.list_versions.get(name, -1), done, why_not)
            case TrashKind.FLAGGED:
                for one in marked:
                    self._means.turn.require_going()
                    if self._means.turn.is_over:
                        done.later.append(one.line.ledger_id)
                    else:
                        self._deletions.delete_flagged(name, one, done, why_not)
            case TrashKind.OBJECTS:
                for one in marked:
                    self._means.turn.require_going()
                    line, due = one.line, seen.marked_orphans()
                    if line.uuid and self._orphans.names_offload(line.ledger_id, line.uuid, due, seen.now_ms):
                        done.postponed[line.ledger_id] = "a list names these objects now"
                    else:
                        self._deletions.delete_objects(one, done, why_not)

    def _delete_orphans(self, name: str, lines: Sequence[NotedLine], seen: Seen, done: Done, why_not: WhyNot) -> None:
        """Look once more, ledgers first and then all that may own them, and delete what nothing names still.

        Orphans of other topics are looked at together with these: whoever has them deleted next needs no look of its own.
        """
        free = self._orphans.free_of((one.line.ledger_id for one in lines), seen.marked_orphans(), seen.now_ms)
        gone = [one.line.ledger_id for one in lines if one.line.ledger_id not in free]
        done.postponed.update(dict.fromkeys(gone, "something names it now, or may name it, or it is gone"))
        self._deletions.delete_orphans(name, [one for one in lines if one.line.ledger_id in free], done, why_not)

    # Cleaning.

    def _clean(self, action: Action, seen: Seen, done: Done) -> None:
        """Drop lines, and clean up after attempts and contexts; told are the ledgers of which nothing is left to be cleaned up now."""
        if (why := self._why_other_policy()) is not None:
            done.postponed.update(dict.fromkeys(action.ledger_ids, why))
            return
        if action.lines:
            noted_lines = [seen.lines[one.path] for one in action.lines if one.path in seen.lines]
            closed = [one for one in noted_lines if self._may_be_closed(one, seen, done)]
            drop(self._means.lock, closed)
            done.ledger_ids += [one.line.ledger_id for one in closed]
        if action.attempts:
            noted = [seen.attempts[one.uuid] for one in action.attempts if one.uuid in seen.attempts]
            gone, troubles = self._cleaner.attempts(noted, seen.now_ms, seen.noted_ms)
            done.ledger_ids += gone
            done.remarks += troubles
        if action.contexts and action.managed_ledger is not None:
            left = self._cleaner.contexts(action.managed_ledger, action.contexts, seen.noted_ms)
            done.postponed.update(left)
            done.ledger_ids += [ledger_id for ledger_id, _ in action.contexts if ledger_id not in left]

    def _may_be_closed(self, noted: NotedLine, seen: Seen, done: Done) -> bool:
        is_deleted = noted.line.state is TrashState.DELETED
        return not is_deleted or self._deletions.is_let_go(noted.line, seen.now_ms, done)

    # By a broker.

    def by_broker(self, action: Action) -> Done:
        """Have a broker offload or trim, and look at the list afterwards; from any thread. Raises its errors, and those of ZooKeeper."""
        done = Done()
        if self._broker is not None and action.managed_ledger is not None:
            (self._trim if action.kind is ActionKind.TRIM else self._offload)(
                action, self._broker, action.managed_ledger, done
            )
        return done

    def _trim(self, action: Action, broker: "BrokerApi", name: str, done: Done) -> None:
        report = trim_and_compare(broker, name, self._listed_now)
        done.ledger_ids += [*report.gone, *report.only_offloaded]
        done.size += report.size
        left = [one for one in action.ledger_ids if one in report.kept]
        done.postponed.update(dict.fromkeys(left, "its broker was asked to trim, and left it"))
        if left:
            text = (
                f"the broker of {name} left {len(left)} of {len(action.ledger_ids)} ledgers that are due: "
                "its own retention, lag and subscriptions decide"
            )
            done.remarks.append(Remark("not-trimmed", name, text))

    def _offload(self, action: Action, broker: "BrokerApi", name: str, done: Done) -> None:
        """Have a broker offload up to the ledger behind the last that is due."""
        behind = self._behind(action, name)
        if behind is None:
            done.postponed.update(dict.fromkeys(action.ledger_ids, "it is the last ledger of its topic by now"))
            return
        try:
            report = offload_and_compare(broker, name, Position(behind, 0), self._listed_now)
        except BrokerOffloadError:
            # A broker that loads the topic for that forgets a last ledger without entries, makes another one, and knows no such position.
            now = self._behind(action, name)
            if now in {None, behind}:
                raise
            report = offload_and_compare(broker, name, Position(now, 0), self._listed_now)
        done.ledger_ids += report.offloaded
        done.size += report.size
        self._compare_buckets(action, report.offloaded, done)

    def _behind(self, action: Action, name: str) -> int | None:
        """Return the ledger that a topic lists behind all that are due; None without one."""
        listed = listed_or_none(self._means.lock.newest(), name)
        ids = () if listed is None else (one.ledger_id for one in listed.info.ledgers)
        return next((one for one in ids if one > max(action.ledger_ids)), None)

    def _compare_buckets(self, action: Action, offloaded: Sequence[int], done: Done) -> None:
        """Add a remark if a broker, which knows nothing of the policy file, has offloaded to another place than the file's bucket."""
        rule = action.rule
        if rule is None or not rule.is_bucket_the_files or rule.bucket is None or action.managed_ledger is None:
            return
        listed = listed_or_none(self._means.lock.newest(), action.managed_ledger)
        contexts = [] if listed is None else [one.context for one in listed.info.ledgers if one.ledger_id in offloaded]
        elsewhere = [one for one in contexts if one is not None and self._means.url_of(one) != rule.bucket.url]
        places = dict.fromkeys(", ".join(rule.bucket.differences(one.driver, one.properties)) for one in elsewhere)
        # A file may name one place twice: then no URL is that of the offload, and nothing differs.
        differing = [one for one in places if one]
        if differing:
            text = (
                f"the broker of {action.managed_ledger} has offloaded by its own settings to another place than bucket {rule.bucket.name} "
                f"of the policy file: {'; '.join(differing)}"
            )
            done.remarks.append(Remark("other-bucket", action.managed_ledger, text))

    def _listed_now(self, managed_ledger: str) -> ManagedLedgerInfo:
        """Return a list, with what a broker has changed before this was asked, whichever server it did that with."""
        return list_reader(self._means.lock.newest())(managed_ledger)

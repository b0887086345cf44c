"""Carrying out what this program does itself, under the lock: marking and deleting what nothing names, and cleaning up after attempts.

Direct offloads take long, and are carried out in the background (`ledgerfs_cluster.lifecycle.service.background`).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ledgerfs.errors import LedgerfsError, RefusedLedgerError, StoreUnreachableError
from ledgerfs.writing.deletion import remove_for_good, require_mounted
from ledgerfs_cluster.errors import ChangedMeanwhileError, StoppedError
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.acting.again import PlanAgain, PlannedAgain
from ledgerfs_cluster.lifecycle.acting.context import ActionContext, postponed
from ledgerfs_cluster.lifecycle.acting.open_orphans import OpenOrphans
from ledgerfs_cluster.lifecycle.acting.other_copies import why_only_copy
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind, Situation
from ledgerfs_cluster.offload.cleaning import clean, remove_objects
from ledgerfs_cluster.offload.journal import JournalRecord, RecordKind, drop, mark
from ledgerfs_cluster.offload.outcomes import Outcome, Status, failed
from ledgerfs_cluster.zookeeper.changes import DropNode, RequireNode

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs_cluster.snapshot.answers import BookieReads
    from ledgerfs_cluster.snapshot.survey import Survey
    from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

WhyNot = Callable[[], str | None]
"""Returns why nothing is to be done any more by what was decided; None if all holds."""


class Acting:
    """Carries out the actions of one pass, one after the other: a bucket or a bookie that does not answer is asked once. For one thread.

    Parameters
    ----------
    in_flight
        Returns the uuids of attempts of this process that go on.
    why_other_policy
        Returns why the policy file is not the one by which was decided; None if it is. Asked right before each deletion.
    survey, situation
        By which the pass was planned.

    """

    __slots__ = ("_again", "_away", "_context", "_in_flight", "_open_orphans", "_situation", "_why_other_policy")

    def __init__(  # noqa: PLR0917  (what a service works with, and what a pass has seen)
        self,
        cluster: "LivingCluster",
        context: ActionContext,
        bookies: "BookieReads | None",
        in_flight: Callable[[], frozenset[str]],
        why_other_policy: WhyNot,
        survey: "Survey",
        situation: Situation,
    ) -> None:
        self._context = context
        self._in_flight = in_flight
        self._why_other_policy = why_other_policy
        self._again = PlanAgain(cluster, bookies, context, survey, situation)
        self._open_orphans = OpenOrphans(context, bookies)
        self._situation = situation
        # URLs of buckets that did not answer.
        self._away: set[str] = set()

    def carry_out(self, action: Action) -> list[Outcome]:
        """Carry out an action of the plan, as far as the same comes out again now.

        Once the service is ending no more of it is begun. Raises `LockLostError`, after which nothing more can be done, and
        `StoreUnreachableError` if ZooKeeper does not answer. Other errors are outcomes.
        """
        outcomes: list[Outcome] = []
        try:
            match action.kind:
                case ActionKind.MARK:
                    mark(self._context.lock, action.records)
                    outcomes.append(_done("marked", action.records))
                case ActionKind.DELETE:
                    self._delete(action, outcomes)
                case ActionKind.CLEAN:
                    self._clean(action, outcomes)
                case ActionKind.TRIM | ActionKind.OFFLOAD:
                    raise ValueError("offloads, and work of brokers, are carried out in the background")
        except StoppedError:
            # What was not begun is planned again by the next service.
            pass
        except LedgerfsError as error:
            if self._context.lock.is_lost:
                raise
            what, topic = action.kind.value, action.managed_ledger or ""
            outcomes.append(failed(f"{what} {type(error).__name__}", topic, f"{what} {topic}: {error}", error))
        return outcomes

    # Deleting.

    def _delete(self, action: Action, outcomes: list[Outcome]) -> None:
        again = self._again.deletions()
        still_open = []
        for planned in action.records:
            self._context.require_going()
            record = again.due.get(planned.name)
            if record is None:
                outcomes.append(postponed(planned, again.why_not_due(planned)))
            elif (why := self._why_other_policy()) is not None:
                outcomes.append(postponed(record, why))
            elif record.kind is RecordKind.OBJECTS:
                outcomes.append(self._tried(record, again, self._delete_objects))
            elif record.ledger_id in again.closed:
                outcomes.append(self._tried(record, again, self._delete_ledger))
            else:
                still_open.append(record)
        if still_open:
            version = again.list_versions.get(action.managed_ledger or "", -1)
            self._open_orphans.delete(
                action.managed_ledger or "", version, still_open, outcomes, self._why_other_policy
            )

    def _tried(
        self, record: JournalRecord, again: PlannedAgain, act: Callable[[JournalRecord, list[RequireNode]], str | None]
    ) -> Outcome:
        """Delete what a record is about, if all is as it was read again; an error keeps no other record back."""
        name = record.managed_ledger or ""
        as_read = [
            RequireNode(managed_ledger_path(name), version)
            for version in (again.list_versions.get(name),)
            if version is not None
        ]
        try:
            why = act(record, as_read)
        except StoppedError:
            raise
        except ChangedMeanwhileError as error:
            why = str(error)
        except LedgerfsError as error:
            if self._context.lock.is_lost:
                raise
            text = f"{record.name} could not be deleted: {error}"
            return failed("deletion-stands", record.name, text, error)
        return _done("deleted", [record]) if why is None else postponed(record, why)

    def _delete_ledger(self, record: JournalRecord, as_read: list[RequireNode]) -> None:
        """Delete a closed ledger's node, as it was marked, and its record together."""
        path = self._context.ledgers.path_of(record.ledger_id)
        self._context.lock.commit([*as_read, record.dropped(), DropNode(path, record.ledger_version)])

    def _delete_objects(self, record: JournalRecord, as_read: list[RequireNode]) -> str | None:
        """Delete the objects of an offload, and then their record; return why they stay, None if they are gone."""
        lock, url = self._context.lock, record.bucket or ""
        lock.commit([*as_read, RequireNode(record.path, record.version)])
        why = why_only_copy(self._context, record) or self._why_other_policy()
        if why is None:
            with self._reaching(url):
                remove_for_good(self._context.bucket_at(url), record.key)
            lock.commit([record.dropped()])
        return why

    @contextmanager
    def _reaching(self, url: str) -> Iterator[None]:
        """Do something that asks this bucket alone; raises `StoreUnreachableError` at once if it did not answer before."""
        if url in self._away:
            reason = "the bucket cannot be reached, and is not asked again in this pass"
            raise StoreUnreachableError(reason, key=url)
        try:
            yield
        except StoreUnreachableError:
            self._away.add(url)
            raise

    # Cleaning.

    def _clean(self, action: Action, outcomes: list[Outcome]) -> None:
        """Drop records, and clean up after attempts."""
        if (why := self._why_other_policy()) is not None:
            outcomes += [postponed(one, why, "clean") for one in action.records]
            return
        marked = [one for one in action.records if one.is_marked]
        drop(self._context.lock, marked)
        cleaned = [*marked, *self._cleaned(action.records, outcomes)]
        if cleaned:
            outcomes.append(_done("cleaned", cleaned, size=0))

    def _cleaned(self, records: Iterable[JournalRecord], outcomes: list[Outcome]) -> list[JournalRecord]:
        """Clean up after attempts; return those whose records are gone by it."""
        gone, situation = [], self._situation
        for one in records:
            # Asked after the record was read: an attempt is in flight before it is noted.
            if one.is_marked or one.uuid in self._in_flight():
                continue
            self._context.require_going()
            try:
                bucket = self._context.bucket_at(one.bucket or "")
                if clean(self._context.lock, bucket, one, situation.now_ms, situation.noted_ms, self._remove):
                    gone.append(one)
            except (ChangedMeanwhileError, StoppedError):
                # It was completed since its record was read, or a server that is behind gave it.
                continue
            except LedgerfsError as error:
                if self._context.lock.is_lost:
                    raise
                key = one.key.data_key
                outcomes.append(failed("attempt-stays", key, f"attempt {key}: {error}", error))
        return gone

    def _remove(self, bucket: "Bucket", attempt: JournalRecord) -> None:
        why = why_only_copy(self._context, attempt)
        if why is not None:
            raise RefusedLedgerError(f"its objects stay: {why}", key=attempt.key.data_key)
        with self._reaching(attempt.bucket or ""):
            require_mounted(bucket, attempt.key)
            remove_objects(bucket, attempt)


def _done(code: str, records: Iterable[JournalRecord], size: int | None = None) -> Outcome:
    some = list(records)
    ids = tuple(one.ledger_id for one in some)
    bytes_ = sum(one.size for one in some) if size is None else size
    return Outcome(Status.OK, code, some[0].managed_ledger or "-", ledger_ids=ids, size=bytes_)

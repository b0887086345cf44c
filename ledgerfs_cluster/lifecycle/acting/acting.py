"""Carry out this program's own actions under the lock: mark and delete orphans, and clean up after attempts.

Direct offloads take long, and run in the background (`ledgerfs_cluster.lifecycle.service.background`).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, RefusedLedgerError, StoreUnreachableError
from ledgerfs.writing.deletion import remove_for_good, require_mounted
from ledgerfs_cluster.errors import ChangedMeanwhileError, StoppedError
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.acting.again import PlanAgain, PlannedAgain
from ledgerfs_cluster.lifecycle.acting.context import ActionContext, why_only_copy
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind, Situation
from ledgerfs_cluster.offload.cleaning import clean, remove_objects
from ledgerfs_cluster.offload.journal import JournalRecord, RecordKind, drop, mark
from ledgerfs_cluster.offload.outcomes import Outcome, Status, failed
from ledgerfs_cluster.zookeeper.changes import DropNode, Operation, RequireNode

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs_cluster.snapshot.survey import Survey


class Acting:
    """Carries out the actions of one iteration, one after the other; asks an unreachable bucket only once. For one thread.

    Parameters
    ----------
    survey, situation
        Input of the iteration's plan.

    """

    __slots__ = ("_again", "_away", "_context", "_situation")

    def __init__(self, context: ActionContext, survey: "Survey", situation: Situation) -> None:
        self._context = context
        self._again = PlanAgain(context, survey, situation)
        self._situation = situation
        # URLs of buckets that did not answer.
        self._away: set[str] = set()

    def carry_out(self, action: Action) -> list[Outcome]:
        """Carry out an action of the plan, as far as a new plan still contains it.

        Begins no more of it once the service is stopping. Raises `LockLostError`, after which no more changes are possible, and
        `StoreUnreachableError` if ZooKeeper does not answer. Other errors are outcomes.
        """
        outcomes: list[Outcome] = []
        try:
            match action.kind:
                case ActionKind.MARK:
                    mark(self._context.lock, action.records)
                    outcomes.append(_done("marked", action.records))
                case ActionKind.DELETE:
                    self._delete(action.records, outcomes)
                case ActionKind.CLEAN:
                    self._clean(action.records, outcomes)
                case ActionKind.TRIM | ActionKind.OFFLOAD:
                    raise ValueError("offloads and trims run in the background, not here")
        except StoppedError:
            # The next service plans the rest again.
            pass
        except LedgerfsError as error:
            what, topic = action.kind.value, action.managed_ledger or ""
            outcomes.append(
                self._failed(f"{what} {type(error).__name__}", topic, f"{what} of {topic} failed: {error}", error)
            )
        return outcomes

    def _failed(self, code: str, subject: str, message: str, error: LedgerfsError) -> Outcome:
        """Return an error as an outcome; raise it if the lock is lost."""
        if self._context.lock.is_lost:
            raise error
        return failed(code, subject, message, error)

    # Deleting.

    def _delete(self, records: Sequence[JournalRecord], outcomes: list[Outcome]) -> None:
        """Delete the orphans of records whose second reading agrees; an error does not stop the other records."""
        again = self._again.deletions()
        for planned in records:
            self._context.require_going()
            record = again.due.get(planned.name)
            why = again.why_not_due(planned) if record is None else self._context.why_other_policy()
            if record is None or why is not None:
                outcomes.append(_postponed(planned, why or "", "delete"))
                continue
            try:
                if record.kind is RecordKind.OBJECTS:
                    why = self._delete_objects(record, again)
                else:
                    self._delete_ledger(record, again)
            except StoppedError:
                raise
            except (ChangedMeanwhileError, ObjectNotFoundError) as error:
                why = str(error)
            except LedgerfsError as error:
                text = f"cannot delete {record.name}: {error}"
                outcomes.append(self._failed("deletion-stands", record.name, text, error))
                continue
            outcomes.append(_done("deleted", [record]) if why is None else _postponed(record, why, "delete"))

    def _delete_ledger(self, record: JournalRecord, again: PlannedAgain) -> None:
        """Delete a ledger's node, at the marked version, together with its record."""
        path = self._context.ledgers.path_of(record.ledger_id)
        changes = [*_as_read(record, again), record.dropped(), DropNode(path, record.ledger_version)]
        self._context.lock.commit(changes)

    def _delete_objects(self, record: JournalRecord, again: PlannedAgain) -> str | None:
        """Delete the objects of an offload, then their record; return the reason if they are kept, None if they are gone."""
        lock, url = self._context.lock, record.bucket or ""
        lock.commit([*_as_read(record, again), RequireNode(record.path, record.version)])
        why = why_only_copy(self._context, record) or self._context.why_other_policy()
        if why is None:
            with self._reaching(url):
                remove_for_good(self._context.bucket_at(url), record.key)
            lock.commit([record.dropped()])
        return why

    @contextmanager
    def _reaching(self, url: str) -> Iterator[None]:
        """Run a block that needs only this bucket; raises `StoreUnreachableError` at once if the bucket did not answer before."""
        if url in self._away:
            reason = "the bucket did not answer before, so it is skipped for the rest of this pass"
            raise StoreUnreachableError(reason, key=url)
        try:
            yield
        except StoreUnreachableError:
            self._away.add(url)
            raise

    # Cleaning.

    def _clean(self, records: Sequence[JournalRecord], outcomes: list[Outcome]) -> None:
        """Drop records, and clean up after attempts."""
        if (why := self._context.why_other_policy()) is not None:
            outcomes += [_postponed(one, why, "clean") for one in records]
            return
        marked = [one for one in records if one.is_marked]
        drop(self._context.lock, marked)
        cleaned = [*marked, *self._cleaned(records, outcomes)]
        if cleaned:
            outcomes.append(_done("cleaned", cleaned, size=0))

    def _cleaned(self, records: Iterable[JournalRecord], outcomes: list[Outcome]) -> list[JournalRecord]:
        """Clean up after attempts; return those whose records are gone by that."""
        gone, situation = [], self._situation
        for one in records:
            # Check after the record was read: an attempt is in flight before it is noted.
            if one.is_marked or one.uuid in self._context.in_flight():
                continue
            self._context.require_going()
            try:
                bucket = self._context.bucket_at(one.bucket or "")
                if clean(self._context.lock, bucket, one, situation.now_ms, situation.noted_ms, self._remove):
                    gone.append(one)
            except (ChangedMeanwhileError, StoppedError):
                # It was completed since its record was read, or a lagging server returned the record.
                continue
            except LedgerfsError as error:
                key = one.key.data_key
                outcomes.append(
                    self._failed("attempt-stays", key, f"cannot clean up the failed offload {key}: {error}", error)
                )
        return gone

    def _remove(self, bucket: "Bucket", attempt: JournalRecord) -> None:
        why = why_only_copy(self._context, attempt)
        if why is not None:
            raise RefusedLedgerError(f"its objects are kept: {why}", key=attempt.key.data_key)
        with self._reaching(attempt.bucket or ""):
            require_mounted(bucket, attempt.key)
            remove_objects(bucket, attempt)


def _as_read(record: JournalRecord, again: PlannedAgain) -> list[Operation]:
    """Return operations that require the read version of the list of a record's topic, if there was one."""
    name = record.managed_ledger or ""
    version = again.list_versions.get(name)
    return [] if version is None else [RequireNode(managed_ledger_path(name), version)]


def _done(code: str, records: Sequence[JournalRecord], size: int | None = None) -> Outcome:
    ids = tuple(one.ledger_id for one in records)
    bytes_ = sum(one.size for one in records) if size is None else size
    return Outcome(Status.OK, code, records[0].managed_ledger or "-", ledger_ids=ids, size=bytes_)


def _postponed(record: JournalRecord, why: str, what: str) -> Outcome:
    """Return the outcome for a record whose action is postponed."""
    subject = f"{record.managed_ledger or ''}, ledger {record.ledger_id}"
    text = f"{what} of {subject} is postponed: {why}"
    return Outcome(Status.SKIPPED, f"{what} postponed", subject, text, (record.ledger_id,))

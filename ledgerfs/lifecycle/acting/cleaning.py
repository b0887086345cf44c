"""Cleaning up after attempts to offload that did not end."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ledgerfs.errors import ChangedMeanwhileError, LedgerfsError, RefusedLedgerError
from ledgerfs.formats.managed_ledgers.list_changes import without_contexts
from ledgerfs.lifecycle.acting.free_topics import why_not_free
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.only_copies import why_only_copy
from ledgerfs.offload.attempts import Attempt, NotedAttempt
from ledgerfs.offload.candidates import listed_or_none
from ledgerfs.offload.cleaning import clean, remove_objects
from ledgerfs.offload.list_bytes import stored
from ledgerfs.offload.remarks import Remark
from ledgerfs.storage.zookeeper.changes import MakeNode, Operation, SetNode
from ledgerfs.writing.deletion import require_mounted

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


class Cleaner:
    """Removes what attempts have left. For one thread.

    Parameters
    ----------
    in_flight
        Tells the uuids of attempts of this process that go on.

    """

    __slots__ = ("_in_flight", "_means")

    def __init__(self, means: Means, in_flight: Callable[[], frozenset[str]]) -> None:
        self._means = means
        self._in_flight = in_flight

    def attempts(self, noted: Iterable[NotedAttempt], now_ms: int, noted_ms: int) -> tuple[list[int], list[Remark]]:
        """Clean up after attempts as they were noted; return the ledgers whose notes are gone by it, and what went wrong.

        Raises `LockLostError`, and the errors of ZooKeeper.
        """
        gone: list[int] = []
        troubles: list[Remark] = []
        for note in noted:
            if self._means.turn.is_stopping:
                break
            one = note.attempt
            # Asked after the note was read: an attempt is in flight before it is noted.
            if one.uuid in self._in_flight():
                continue
            try:
                self._means.away.require_near(one.bucket)
                if clean(self._means.lock, self._means.bucket_at(one.bucket), note, now_ms, noted_ms, self._remove):
                    gone.append(one.ledger_id)
            except ChangedMeanwhileError:
                # It was completed since its note was read, or a server that is behind told of it.
                continue
            except LedgerfsError as error:
                if self._means.lock.is_lost:
                    raise
                troubles.append(Remark("attempt-stays", one.key.data_key, f"attempt {one.key.data_key}: {error}"))
        return gone, troubles

    def _remove(self, bucket: "Bucket", attempt: Attempt) -> None:
        why = why_only_copy(self._means, attempt.managed_ledger, attempt.ledger_id, attempt.uuid)
        if why is not None:
            raise RefusedLedgerError(f"its objects stay: {why}", key=attempt.key.data_key)
        with self._means.away.reaching(attempt.bucket):
            require_mounted(bucket, attempt.key)
            remove_objects(bucket, attempt)

    def contexts(self, managed_ledger: str, failed: Iterable[tuple[int, str]], noted_ms: int) -> dict[int, str]:
        """Take failed attempts of brokers out of a topic's list, and note them to be cleaned, together; return {ledger: why it was left}.

        The list goes first: a broker that is stopped, and goes on, could complete an attempt whose objects were deleted. Raises
        `RefusedLedgerError` if the topic is not as it was planned for, `LockLostError`, and the errors of ZooKeeper.
        """
        listed = listed_or_none(self._means.lock.newest(), managed_ledger)
        if listed is None:
            raise RefusedLedgerError("the topic is gone", key=managed_ledger)
        node, info = listed.node, listed.info
        why = why_not_free(self._means.owners, managed_ledger, info)
        if why is not None:
            raise RefusedLedgerError(why, key=managed_ledger)
        wanted = dict(failed)
        there = [
            Attempt(managed_ledger, one.ledger_id, one.context.uuid, url, noted_ms)
            for one in info.ledgers[:-1]
            if one.context is not None
            and not one.context.is_complete
            and one.context.uuid is not None
            and one.context.uuid == wanted.get(one.ledger_id)
            and (url := self._means.url_of(one.context)) is not None
        ]
        whys = {
            one.ledger_id: why_only_copy(self._means, managed_ledger, one.ledger_id, one.uuid)
            for one in there
            if not self._means.turn.is_stopping
        }
        left = {ledger_id: why for ledger_id, why in whys.items() if why is not None}
        there = [one for one in there if one.ledger_id in whys and one.ledger_id not in left]
        if not there:
            return left
        edited = without_contexts(node.data, [one.ledger_id for one in there], key=node.path)
        changes: list[Operation] = [SetNode.of(node, stored(edited, key=node.path))]
        changes += [MakeNode(one.path, one.build()) for one in there]
        try:
            self._means.lock.commit(changes)
        except ChangedMeanwhileError as error:
            raise RefusedLedgerError(f"the topic changed meanwhile: {error}", key=managed_ledger) from error
        return left

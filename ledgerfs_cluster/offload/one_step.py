"""Offload ledgers of one topic without its broker, by a single commit of the ledger list.

PIP-17 records an attempt in the topic's ledger list, uploads, and completes it. If another program than the broker does so, data is lost: a
broker that loads the topic in between deletes the attempt's objects. So here the list does not contain an attempt before its objects are
whole and were read back. Then one versioned set completes all copied ledgers; any other change of the list makes it fail, and it is retried
with the new list. The same commit removes the attempts' records (`ledgerfs_cluster.offload.journal`).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import CorruptLedgerError, LedgerfsError, RefusedLedgerError, UncertainWriteError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.layouts.pulsar_blob.new_ledger import NewLedger, completed_user_metadata
from ledgerfs.storage.ordered_map import ordered_map
from ledgerfs.writing.sources import EntryBatches
from ledgerfs.writing.write import ref_of, write_ledger
from ledgerfs_cluster.errors import ChangedMeanwhileError, ListFullError, LockLostError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import build_context, with_contexts
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers, StoredLedger
from ledgerfs_cluster.offload.candidates import Listed, candidate, listed_now, listed_or_none, not_offloaded
from ledgerfs_cluster.offload.cleaning import remove_objects
from ledgerfs_cluster.offload.journal import JournalRecord
from ledgerfs_cluster.offload.list_bytes import FULL, MOST_BYTES, fits, stored
from ledgerfs_cluster.offload.offload_bucket import OffloadBucket
from ledgerfs_cluster.offload.outcomes import Outcome, Status, failed
from ledgerfs_cluster.offload.record_digest import RecordDigest, digest_of
from ledgerfs_cluster.rules.topic_owners import owner_now
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.snapshot.survey import is_of_brokers
from ledgerfs_cluster.zookeeper.changes import ClusterLock, Operation, SetNode

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import OffloadContext

_TRIES = 20
"""Tries of a set after conflicts on the list: brokers change it when ledgers begin, which takes seconds."""
BETWEEN_SETS_S = 60.0
"""Minimum seconds between sets: a broker that has loaded the topic meanwhile reloads it after each, and its clients wait."""
_THREADS = 2
"""Each thread has up to four blocks in memory."""
_MORE_OF_A_LINE = 16
"""Bytes that a ledger's metadata grows by besides its context: lengths, and its size and entries."""


@dataclass(frozen=True, slots=True)
class CopiedLedger:
    """A ledger that is copied into a bucket but not yet in the list; ``stored`` is its BookKeeper state before the copy."""

    attempt: JournalRecord
    stored: StoredLedger
    place: OffloadBucket
    bucket: Bucket

    @property
    def ledger_id(self) -> int:
        """The ledger."""
        return self.attempt.ledger_id


class OneStep:
    """Offloads ledgers of topics that no broker has loaded: `copy` each, then `complete` those of a topic together. Thread-safe.

    Parameters
    ----------
    bucket_at
        Returns the bucket of a URL, opened.
    user_metadata
        User metadata of all objects, besides the topic's name and role.
    noted_ms
        Returns the time to record, from which deletions count their delay: rather too late, ms since 1970 UTC.
    url_of
        Returns the URL of the bucket with an offload's objects, such as a broker's failed one; None if unknown.
    unload
        Has a broker unload a topic, so that it reads the list again; None without access to a broker.
    owner_of
        Returns whether a broker owns a topic now; by default from ZooKeeper.
    pace
        Called with the bytes of each batch before it is sent, and after it was read back; it may wait, or abort the copy.

    """

    __slots__ = (
        "_beginning", "_bucket_at", "_in_flight", "_ledgers", "_lock", "_noted_ms", "_owner_of", "_pace", "_unload", "_url_of",
        "_user_metadata",
    )  # fmt: skip

    def __init__(
        self,
        lock: ClusterLock,
        ledgers: ClosedLedgers,
        bucket_at: Callable[[str], Bucket],
        user_metadata: Mapping[str, str],
        *,
        noted_ms: "Callable[[], int]",
        url_of: "Callable[[OffloadContext], str | None]",
        unload: Callable[[str], None] | None = None,
        owner_of: Callable[[str], Owner] | None = None,
        pace: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._lock = lock
        self._ledgers = ledgers
        self._unload = unload
        # Never older than earlier reads and commits of the lock's holder, so that a broker that loaded the topic before is seen.
        self._owner_of = owner_of or (lambda name: owner_now(lock.newest(), name))
        self._bucket_at = bucket_at
        self._user_metadata = user_metadata
        self._noted_ms = noted_ms
        self._url_of = url_of
        self._pace = pace
        self._beginning = Lock()
        # {uuid: (topic, bytes that its completion adds to the list)}
        self._in_flight: dict[str, tuple[str, int]] = {}

    @property
    def in_flight(self) -> frozenset[str]:
        """The uuids of attempts that began here and are neither completed nor given up; cleaning must skip these."""
        return frozenset(self._in_flight.copy())

    def offload(self, managed_ledger: str, ledger_ids: Iterable[int], place: OffloadBucket) -> list[Outcome]:
        """Offload ledgers of a topic, the oldest first; returns outcomes, also for ledgers that cannot be or already are offloaded.

        Raises `RefusedLedgerError` if the topic must not be offloaded this way, `LockLostError`, and the errors of ZooKeeper. A failed copy
        is an outcome; its objects are removed, and the list does not contain it.
        """
        self.require_free(managed_ledger)
        outcomes: list[Outcome] = []
        waiting: list[CopiedLedger] = []

        def complete() -> None:
            whole = waiting.copy()
            waiting.clear()
            self.complete(managed_ledger, whole, outcomes)

        last_set = time.monotonic()
        try:
            copies = ordered_map(
                lambda one: self.copy(managed_ledger, one, place), sorted(ledger_ids), _THREADS, "ledgerfs-offload"
            )
            for found in copies:
                if isinstance(found, CopiedLedger):
                    waiting.append(found)
                else:
                    outcomes.append(found)
                if waiting and time.monotonic() - last_set >= BETWEEN_SETS_S:
                    complete()
                    last_set = time.monotonic()
            complete()
        except LockLostError:
            # The next holder of the lock cleans recorded attempts; a commit that was sent may reference the objects.
            waiting.clear()
            raise
        finally:
            for one in waiting:
                self._give_up(one, outcomes)
        return outcomes

    def require_free(self, managed_ledger: str) -> None:
        """Raise `RefusedLedgerError` if a broker has the topic, if that is unknown, or if it is a broker's own topic."""
        if is_of_brokers(managed_ledger):
            raise RefusedLedgerError("system topics of the brokers are not offloaded", key=managed_ledger)
        owner = self._owner_of(managed_ledger)
        if owner is Owner.SOME:
            reason = 'a broker owns the topic: offload through the broker (via = "broker"), or unload the topic'
            raise RefusedLedgerError(reason, key=managed_ledger)
        if owner is Owner.UNKNOWN:
            reason = 'the extensible load manager does not record owners in ZooKeeper: offload through the broker (via = "broker")'
            raise RefusedLedgerError(reason, key=managed_ledger)

    def copy(self, managed_ledger: str, ledger_id: int, place: OffloadBucket) -> CopiedLedger | Outcome:
        """Copy a ledger without changing the list; return the copy, or an outcome: already offloaded, or the reason for not copying.

        The caller completes the copy. Raises `LockLostError`, and the errors of ZooKeeper.
        """
        listed = listed_now(self._lock.newest(), managed_ledger)
        found = candidate(listed, ledger_id, self._ledgers.found)
        if not isinstance(found, StoredLedger):
            return found
        bucket = self._bucket_at(place.url)
        attempt = JournalRecord.attempt(managed_ledger, ledger_id, bucket.store.url, self._noted_ms())
        copied = CopiedLedger(attempt, found, place, bucket)
        if not self._has_room(listed, copied):
            return not_offloaded(managed_ledger, ledger_id, FULL, ListFullError(FULL, key=managed_ledger))
        try:
            self._lock.commit([attempt.made()])
        except LedgerfsError:
            self._in_flight.pop(attempt.key.uuid, None)
            raise
        try:
            self._write(copied)
        except LockLostError:
            raise
        except LedgerfsError as error:
            self._give_up(copied, is_certain=not isinstance(error, UncertainWriteError))
            return not_offloaded(managed_ledger, ledger_id, str(error), error)
        except BaseException:
            self._give_up(copied)
            raise
        return copied

    def _has_room(self, listed: Listed, copied: CopiedLedger) -> bool:
        """Return whether a topic's list has room for this attempt besides all others in flight; if so, add it to these."""
        info, uuid = listed.ledger(copied.ledger_id), copied.attempt.key.uuid
        more = build_context(copied.place.context(uuid, copied.attempt.noted_ms)).ByteSize() + _MORE_OF_A_LINE
        if info is not None and info.context is not None:
            more = max(0, more - build_context(info.context).ByteSize())
        with self._beginning:
            others = sum(size for name, size in self._in_flight.copy().values() if name == listed.topic)
            # An upper bound for a compressed list.
            if len(listed.node.data) + others + more > MOST_BYTES:
                return False
            self._in_flight[uuid] = listed.topic, more
        return True

    def _write(self, copied: CopiedLedger) -> None:
        """Write a closed ledger in the format of Pulsar's offloader, and read all of it back.

        Raises as `ClosedLedgers.batches`, `RefusedLedgerError` for an entry that is larger than a block, `CorruptLedgerError` if the data
        read back differ, and the errors of the store. Objects in the bucket are then left to the attempt's cleaning.
        """
        attempt, stored, sent = copied.attempt, copied.stored, RecordDigest()
        closed = stored.node.closed_at(stored.node.last_entry, stored.node.length)
        user_metadata = completed_user_metadata(self._user_metadata, attempt.managed_ledger or "")
        ledger = NewLedger(attempt.key, closed, user_metadata, copied.place.block_size)
        batches = map(sent.add, self._paced(self._ledgers.batches(stored)))
        written = write_ledger(copied.bucket, ledger, EntryBatches(batches, stored.records_size))
        ref = ref_of(written)
        reader = copied.bucket.uncached_reader(ref)
        found = digest_of(lambda: self._paced(reader.batches(0, ref.last_entry)))
        if found != sent.value():
            reason = (
                f"the objects that were read back differ from the written ones: {found[0]:,} entries with {found[1]:,} bytes "
                f"instead of {sent.entries:,} with {sent.length:,}"
            )
            raise CorruptLedgerError(reason, key=written.data.key)

    def _paced(self, batches: "Iterator[EntryBatch]") -> "Iterator[EntryBatch]":
        """Yield batches at the allowed rate: reads count as much as writes."""
        for batch in batches:
            self._pace(int(batch.lengths.sum()))
            yield batch

    # Completion.

    def complete(self, managed_ledger: str, copies: Sequence[CopiedLedger], outcomes: list[Outcome]) -> None:
        """Set the contexts of all copies by one commit; a broker that loaded the topic meanwhile has to read the list again.

        If they exceed ZooKeeper's limit, several commits complete them, the oldest first. Gives up copies that the list has no room for,
        and those that cannot be completed any more. Raises `LockLostError`, after which the copies must not be touched, and the errors of
        ZooKeeper.
        """
        left, tries = sorted(copies, key=lambda one: one.ledger_id), 0
        while left:
            listed = listed_or_none(self._lock.newest(), managed_ledger)
            left = [one for one in left if self._is_as_copied(listed, one, outcomes)]
            if listed is None or not left:
                return
            if tries == _TRIES:
                self._give_up_all(
                    left, outcomes, f"the topic's ledger list changed during each of {_TRIES} tries to update it"
                )
                return
            if self._owner_of(managed_ledger) is not Owner.NONE and self._unload is None:
                self._give_up_all(left, outcomes, "a broker loaded the topic during the offload")
                return
            some, changes = self._that_fit(listed, left)
            if not some:
                self._give_up_all(left, outcomes, FULL, ListFullError(FULL, key=managed_ledger))
                return
            try:
                self._lock.commit(changes)
            except ChangedMeanwhileError as error:
                if error.key != listed.node.path:
                    raise
                tries += 1
                continue
            left, tries = left[len(some) :], 0
            for one in some:
                self._in_flight.pop(one.attempt.key.uuid, None)
            ids, size = tuple(one.ledger_id for one in some), sum(one.stored.node.length for one in some)
            outcomes.append(Outcome(Status.OK, "offloaded", managed_ledger, ledger_ids=ids, size=size))
            replaced = (self._replaced(listed, one.attempt) for one in some)
            outcomes += [one for one in replaced if isinstance(one, Outcome)]
            outcomes += self._let_go(managed_ledger)

    def _let_go(self, managed_ledger: str) -> list[Outcome]:
        """Unload a topic that a broker loaded while its list was set, since it has the old list; return work for an operator."""
        if self._owner_of(managed_ledger) is Owner.NONE:
            return []
        if self._unload is None:
            text = (
                f"a broker loaded {managed_ledger} during the offload and has the old ledger list: unload the topic "
                "(`pulsar-admin topics unload`)"
            )
            return [failed("taken", managed_ledger, text)]
        try:
            self._unload(managed_ledger)
        except LedgerfsError as error:
            text = f"a broker loaded {managed_ledger} during the offload and has the old ledger list, but the unload failed: {error}"
            return [failed("not-unloaded", managed_ledger, text, error)]
        return []

    def _give_up_all(
        self, copies: Iterable[CopiedLedger], outcomes: list[Outcome], reason: str, error: LedgerfsError | None = None
    ) -> None:
        """Give up copies, and add an outcome with the reason for each."""
        for one in copies:
            self._give_up(one, outcomes)
            outcomes.append(not_offloaded(one.attempt.managed_ledger or "", one.ledger_id, reason, error))

    def _is_as_copied(self, listed: Listed | None, copied: CopiedLedger, outcomes: list[Outcome]) -> bool:
        """Return whether a ledger is unchanged since it was copied; if not, give up the copy."""
        topic, ledger_id = copied.attempt.managed_ledger or "", copied.ledger_id
        if listed is None:
            found: StoredLedger | Outcome = not_offloaded(topic, ledger_id, "the topic was deleted")
        else:
            found = candidate(listed, ledger_id, self._ledgers.found)
        if found == copied.stored:
            return True
        if isinstance(found, StoredLedger):
            found = not_offloaded(topic, ledger_id, "its metadata in BookKeeper changed during the copy")
        self._give_up(copied, outcomes)
        outcomes.append(found)
        return False

    def _that_fit(
        self, listed: Listed, copies: Sequence[CopiedLedger]
    ) -> tuple[Sequence[CopiedLedger], list[Operation]]:
        """Return the first copies that fit into the list and one commit, at least half of them, and the operations to complete them."""
        count = len(copies)
        while count:
            with suppress(ListFullError):
                changes = self._changes(listed, copies[:count])
                if fits(changes):
                    return copies[:count], changes
            count //= 2
        return [], []

    def _changes(self, listed: Listed, copies: Sequence[CopiedLedger]) -> list[Operation]:
        now_ms = self._noted_ms()
        replaced = (self._replaced(listed, one.attempt) for one in copies)
        contexts = {one.ledger_id: one.place.context(one.attempt.key.uuid, now_ms) for one in copies}
        edited = with_contexts(listed.node.data, contexts, key=listed.node.path)
        changes: list[Operation] = [SetNode.of(listed.node, stored(edited, key=listed.node.path))]
        changes += [one.attempt.dropped() for one in copies]
        changes += [one.made() for one in replaced if isinstance(one, JournalRecord)]
        return changes

    def _replaced(self, listed: Listed, attempt: JournalRecord) -> JournalRecord | Outcome | None:
        """Return the failed attempt whose context is replaced, as a record to clean its objects; None if there is none.

        If the bucket of its objects is unknown, returns an outcome for an operator.
        """
        info = listed.ledger(attempt.ledger_id)
        before = None if info is None else info.context
        if before is None or before.uuid is None:
            return None
        bucket = before.get("bucket")
        url = attempt.bucket if bucket is None else self._url_of(before)
        topic = attempt.managed_ledger or ""
        if url is not None:
            return JournalRecord.attempt(topic, attempt.ledger_id, url, self._noted_ms(), before.uuid)
        key = LedgerKey(before.uuid, attempt.ledger_id, is_index=False).data_key
        endpoint = before.get("serviceEndpoint") or "none"
        text = (
            f"a broker's failed offload left {key} in bucket {bucket} (endpoint {endpoint}), which is not configured here: "
            "delete the object yourself"
        )
        return failed("left-elsewhere", key, text)

    def _give_up(self, copied: CopiedLedger, outcomes: list[Outcome] | None = None, *, is_certain: bool = True) -> None:
        """Remove an attempt's objects if no commit was sent for it. Its record stays if that fails, for a later cleaning.

        Without ``is_certain`` a request may still arrive: the record stays.
        """
        attempt = copied.attempt
        try:
            remove_objects(copied.bucket, attempt)
            if is_certain:
                self._lock.commit([attempt.dropped()])
        except LedgerfsError as error:
            if outcomes is not None:
                text = f"{attempt.key.data_key} cannot be deleted now; a later run deletes it: {error}"
                outcomes.append(failed("cleaned-later", attempt.ledger_id, text, error))
        finally:
            self._in_flight.pop(attempt.key.uuid, None)

"""Deleting ledgers that lie in the trash beyond their grace, step by step as their lines tell.

The order is that of brokers: the list first, then BookKeeper's copy, then objects. What a step needs to be gone on with after a crash is in
the lines: a list is changed by the same commit as the lines of its ledgers, and a ledger's node goes by the same commit that closes its
line. Each list is set at the version that was read, while no broker has the topic: a broker that loads it in between changes the list, and
nothing is done. Topics whose loading changes nothing (terminated ones) are not touched.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ledgerfs.clusters.subscriptions_now import SubscriptionsNow
from ledgerfs.dialects.closed_ledgers import StoredLedger
from ledgerfs.errors import (
    ChangedMeanwhileError,
    CorruptObjectError,
    LedgerfsError,
    NotFoundError,
    ObjectNotFoundError,
    StoppedError,
    UnsupportedFormatError,
)
from ledgerfs.formats.managed_ledgers.list_changes import with_bookkeeper_deleted, without_ledgers
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    OffloadContext,
)
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.lifecycle.acting.comparing import require_same
from ledgerfs.lifecycle.acting.decided_policies import WhyNot, nothing_against_it
from ledgerfs.lifecycle.acting.free_lists import FreeLists
from ledgerfs.lifecycle.acting.marked_ledgers import why_another, why_kept
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.only_copies import why_of_former_cluster, why_only_copy, why_set_back
from ledgerfs.lifecycle.acting.open_orphans import OpenOrphans, is_of_topic
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState, build_trash_line
from ledgerfs.offload.attempts import Attempt
from ledgerfs.offload.candidates import Listed, listed_or_none
from ledgerfs.offload.cleaning import is_named
from ledgerfs.offload.list_bytes import MOST_BYTES, stored
from ledgerfs.offload.remarks import Remark
from ledgerfs.storage.zookeeper.changes import DropNode, Operation, RequireNode
from ledgerfs.writing.deletion import has_index, remove_for_good, require_anything
from ledgerfs.writing.sources import require_whole

if TYPE_CHECKING:
    from ledgerfs.clusters.answers import BookieReads

_MOST_LINES = 500
"""With one commit. What a commit that fails was prepared for, objects that were read above all, is to be done again."""
_MORE_BYTES = 256
"""Of a line in a commit besides its path and data: the chroot, numbers, and what the list grows by."""
_COPIES = frozenset({TrashKind.OFFLOADED, TrashKind.FLAGGED})
_LAST = "it is the last ledger of its topic"


class Deletions:
    """Carries lines out. For one thread.

    Parameters
    ----------
    subscriptions
        Tells where the subscriptions of a topic are at that moment.
    bookies
        Tell whether ledgers that are not closed have entries; None if none is to be asked.

    """

    __slots__ = ("_lists", "_means", "_open_orphans", "_subscriptions")

    def __init__(
        self, means: Means, subscriptions: Callable[[str], SubscriptionsNow], bookies: "BookieReads | None" = None
    ) -> None:
        self._means = means
        self._lists = FreeLists(means.lock, means.owners)
        self._subscriptions = subscriptions
        self._open_orphans = OpenOrphans(means, self._lists, bookies)

    def forget(self) -> None:
        """Begin another pass: who did not answer in the last one is asked again."""
        self._means.away.forget()
        self._lists.forget()
        self._open_orphans.forget()

    def is_let_go(self, line: TrashLine, now_ms: int, done: Done) -> bool:
        """As `FreeLists.is_let_go`."""
        return self._lists.is_let_go(line, now_ms, done)

    # BookKeeper's copies of what is offloaded.

    def flag(
        self, managed_ledger: str, lines: Sequence[NotedLine], done: Done, why_not: WhyNot = nothing_against_it
    ) -> None:
        """Delete BookKeeper's copies of offloaded ledgers of one topic (`TrashKind.OFFLOADED`), whose objects are read and compared before.

        ``why_not`` is asked right before each change of the list. Those that this turn (`Means.turn`) leaves are told. Raises
        `LockLostError`, `StoppedError`, and the errors of ZooKeeper.
        """
        left = _oldest_first(lines)
        while left:
            self._means.turn.require_going()
            if self._means.turn.is_over:
                done.later += [one.line.ledger_id for one in left]
                return
            listed = self._lists.read(managed_ledger, left, done)
            if listed is None:
                return
            some, left = _that_fit(left, listed)
            some = [one for one in some if _may_be_flagged(listed, one, done)]
            if not some:
                continue
            # Before anything is read for nothing: raises for a list that has no room.
            ids = [one.line.ledger_id for one in some]
            stored(with_bookkeeper_deleted(listed.node.data, ids, key=listed.node.path), key=listed.node.path)
            sound, others = self._whole(managed_ledger, listed, some, done)
            left = [*others, *left]
            if sound:
                ids = [one.line.ledger_id for one in sound]
                edited = with_bookkeeper_deleted(listed.node.data, ids, key=listed.node.path)
                data = stored(edited, key=listed.node.path)
                unlisted = self._lists.unlist(managed_ledger, listed, data, sound, done, why_not)
                self._go_on(managed_ledger, unlisted, self._delete_from_bookkeeper, done)

    def _whole(
        self, managed_ledger: str, listed: Listed, lines: Sequence[NotedLine], done: Done
    ) -> tuple[list[NotedLine], Sequence[NotedLine]]:
        """Return lines whose objects are whole, as far as they were read in this turn, and those that were not read."""
        sound: list[NotedLine] = []
        for place, one in enumerate(lines):
            if self._means.turn.is_over:
                return sound, lines[place:]
            info = listed.ledger(one.line.ledger_id)
            if info is not None and self._is_whole(managed_ledger, info, done):
                sound.append(one)
        return sound, []

    def _is_whole(self, managed_ledger: str, info: LedgerInfo, done: Done) -> bool:
        """Whether the objects of an offloaded ledger hold every entry as BookKeeper does: then BookKeeper's copy is one too many."""
        stored = self._found(info.ledger_id)
        try:
            with self._means.away.reaching(self._means.copies.url_of(managed_ledger, info)):
                reader = self._means.copies.reader(managed_ledger, info)
            if stored is None:
                require_whole(reader, self._means.from_store)
            else:
                watches = self._means.from_store, self._means.from_bookies
                require_same(self._means.ledgers, stored, reader, *watches)
        except StoppedError:
            raise
        except (CorruptObjectError, NotFoundError, UnsupportedFormatError) as error:
            done.postponed[info.ledger_id] = f"its objects are not whole, BookKeeper's copy stays: {error}"
            text = f"ledger {info.ledger_id}: its objects are not whole: {error}"
            done.remarks.append(Remark("not-whole", info.ledger_id, text))
            return False
        except LedgerfsError as error:
            if self._means.lock.is_lost:
                raise
            done.postponed[info.ledger_id] = f"its objects and its bookies cannot be compared: {error}"
            text = f"ledger {info.ledger_id}: its objects and its bookies cannot be compared: {error}"
            done.remarks.append(Remark("not-compared", info.ledger_id, text))
            return False
        return True

    def _found(self, ledger_id: int) -> StoredLedger | None:
        """Return what BookKeeper's metadata tells of a ledger; None if it has none."""
        try:
            return self._means.ledgers.found(ledger_id)
        except ObjectNotFoundError:
            return None

    # What is past its retention.

    def trim(
        self,
        managed_ledger: str,
        lines: Sequence[NotedLine],
        list_version: int,
        done: Done,
        why_not: WhyNot = nothing_against_it,
    ) -> None:
        """Delete ledgers of one topic that are past its retention (`TrashKind.TRIMMED`), with their objects.

        ``list_version`` is that of the list by which it was decided, before the subscriptions were read. Raises as `flag`.
        """
        left, version = _oldest_first(lines), list_version
        while left:
            self._means.turn.require_going()
            listed = self._lists.read(managed_ledger, left, done)
            if listed is None:
                return
            if listed.node.version != version:
                why = "the topic's list has changed since it was decided"
                done.postponed.update({one.line.ledger_id: why for one in left})
                return
            some, left = _that_fit(left, listed)
            for url in {one.line.bucket for one in some if one.line.uuid is not None and one.line.bucket is not None}:
                with self._means.away.reaching(url):
                    require_anything(self._means.bucket_at(url))
            # Behind the owner: a broker may have had the topic for a moment since the decision, and set one back.
            now = self._subscriptions(managed_ledger)
            going = _without_holes(listed, [one for one in some if self._may_be_trimmed(listed, now, one, done)], done)
            if going:
                ids = [one.line.ledger_id for one in going]
                edited = without_ledgers(listed.node.data, ids, key=listed.node.path)
                data = stored(edited, key=listed.node.path)
                unlisted = self._lists.unlist(managed_ledger, listed, data, going, done, why_not)
                # Only a set of ours is no change by others.
                version += bool(unlisted)
                self._go_on(managed_ledger, unlisted, self._finish, done)

    def _may_be_trimmed(self, listed: Listed, subscriptions: SubscriptionsNow, noted: NotedLine, done: Done) -> bool:
        line = noted.line
        info, found = listed.ledger(line.ledger_id), self._found(line.ledger_id)
        if line.ledger_id == listed.last:
            why: str | None = _LAST
        elif info is None:
            why = "the topic does not list it any more"
        elif not subscriptions.has_passed(line.ledger_id, info.entries):
            why = subscriptions.unknown or "a subscription has not passed it (any more)"
        else:
            # Once the list is without it there is no way back.
            why = None if found is None else why_kept(line, found) or _why_different(info, found)
            why = why or self._why_elsewhere(line, info.context)
        if why is not None:
            done.postponed[line.ledger_id] = why
        return why is None

    def _why_elsewhere(self, line: TrashLine, context: OffloadContext | None) -> str | None:
        """Return why it is not sure where the objects of a ledger are; None if it is, or if it has none."""
        if (None if context is None else context.uuid) != line.uuid:
            return "it is not offloaded any more as it was when it was marked"
        if context is None or line.uuid is None or line.bucket is None:
            return None
        if self._means.url_of(context) != line.bucket:
            return f"it was marked with objects in {line.bucket}, and the policy file has that bucket elsewhere now"
        if context.is_complete:
            with self._means.away.reaching(line.bucket):
                if not has_index(
                    self._means.bucket_at(line.bucket), LedgerKey(line.uuid, line.ledger_id, is_index=True)
                ):
                    return (
                        f"its objects are not in {line.bucket}: is that the right bucket, or a folder that is not mounted? If they are "
                        "lost, load the topic: its broker trims it"
                    )
        return None

    # Lines whose list is changed.

    def finish(self, lines: Sequence[NotedLine], done: Done) -> None:
        """Go on with lines of one topic in the state `UNLISTED`: delete what its list does not name any more. Raises as `flag`."""
        if lines:
            self._go_on(lines[0].line.managed_ledger, lines, self._finish, done)

    def _go_on(
        self, managed_ledger: str | None, lines: Sequence[NotedLine], end: Callable[[NotedLine, Done], None], done: Done
    ) -> None:
        """Bring lines in the state `UNLISTED` to their end, each for itself, and have a broker let the topic go that has the old list.

        That is before the first line is closed, for nobody goes on from a closed one, and once more behind the last.
        """
        if not lines:
            return
        self._lists.begin(managed_ledger)
        had_broker = self._lists.let_go(managed_ledger, done)
        try:
            for one in lines:
                self._try(one, end, done)
        finally:
            if not had_broker:
                self._lists.let_go(managed_ledger, done)

    def _try(self, noted: NotedLine, end: Callable[[NotedLine, Done], None], done: Done) -> None:
        """Bring a line to its end; an error is told, so that it holds up no other line, and raised if nothing can be done any more."""
        try:
            end(noted, done)
        except StoppedError:
            raise
        except LedgerfsError as error:
            if self._means.lock.is_lost:
                raise
            done.postponed[noted.line.ledger_id] = str(error)
            text = f"ledger {noted.line.ledger_id}: its deletion began, and could not go on: {error}"
            done.remarks.append(Remark("deletion-stands", noted.line.ledger_id, text))

    def _finish(self, noted: NotedLine, done: Done) -> None:
        line = noted.line
        # Where objects are to be read or deleted the rest takes long, and may be done by the next service.
        self._means.turn.require_going()
        name = line.managed_ledger
        listed = None if name is None else listed_or_none(self._means.lock.newest(), name)
        info = None if listed is None else listed.ledger(line.ledger_id)
        if line.kind is TrashKind.TRIMMED and info is not None:
            done.postponed[line.ledger_id] = "the topic lists it again"
            return
        if line.kind in _COPIES and info is None and (why := self._why_list_lost(line, listed)) is not None:
            done.postponed[line.ledger_id] = why
            return
        if line.kind is TrashKind.OFFLOADED and info is not None:
            if not _is_flagged(info, line.uuid):
                done.postponed[line.ledger_id] = "its list does not call it deleted any more"
                return
            if self._means.turn.is_over:
                done.later.append(line.ledger_id)
                return
            # Its objects may have gone since, while nobody went on with it.
            if not self._is_whole(line.managed_ledger or "", info, done):
                return
        freed = 0
        if line.kind is TrashKind.TRIMMED and line.uuid is not None and line.bucket is not None:
            self._remove_objects(line.bucket, line.uuid, line.ledger_id)
            freed = line.size
        self._delete_from_bookkeeper(noted, done, (), freed)

    def _why_list_lost(self, line: TrashLine, listed: Listed | None) -> str | None:
        """Return why a list that does not name a ledger, of which a copy is to go, may have lost it; None if BookKeeper has none."""
        found = self._found(line.ledger_id)
        if found is None or why_another(line, found) is not None:
            return None
        if listed is None:
            return "its topic has no list (any more), so nobody knows whether its objects are whole"
        return why_set_back(listed, line.ledger_id)

    def delete_flagged(
        self, managed_ledger: str, noted: NotedLine, done: Done, why_not: WhyNot = nothing_against_it
    ) -> None:
        """Delete a ledger that its list calls deleted already, and that is there (`TrashKind.FLAGGED`). Raises as `flag`."""
        line = noted.line
        listed = self._lists.read(managed_ledger, [noted], done)
        if listed is None:
            return
        info = listed.ledger(line.ledger_id)
        if info is None or not _is_flagged(info, line.uuid):
            done.postponed[line.ledger_id] = "its list does not call it deleted any more"
        elif _may_be_flagged(listed, noted, done) and self._is_whole(managed_ledger, info, done):
            # Comparing takes long.
            if (why := why_not() or self._lists.why_not_free(managed_ledger, listed)) is not None:
                done.postponed[line.ledger_id] = why
                return
            try:
                self._delete_from_bookkeeper(noted, done, [RequireNode(listed.node.path, listed.node.version)])
            finally:
                if line.ledger_id not in done.postponed:
                    self._lists.let_go(managed_ledger, done)

    # What nobody names.

    def delete_orphans(
        self, managed_ledger: str, lines: Sequence[NotedLine], done: Done, why_not: WhyNot = nothing_against_it
    ) -> None:
        """Delete ledgers that nothing names, as the caller has just made sure (`TrashKind.ORPHAN`), of one topic, or of none ("").

        ``why_not`` is asked right before each of them. Raises as `flag`.
        """
        still_open: list[tuple[NotedLine, StoredLedger]] = []
        # Others may have been deleted since the caller has looked, and a list may be set back to what it was.
        listed = listed_or_none(self._means.lock.newest(), managed_ledger) if managed_ledger else None
        as_read = [] if listed is None else [RequireNode(listed.node.path, listed.node.version)]
        for one in lines:
            self._means.turn.require_going()
            found = self._found(one.line.ledger_id)
            if (why := why_not()) is not None:
                done.postponed[one.line.ledger_id] = why
            elif listed is not None and listed.ledger(one.line.ledger_id) is not None:
                done.postponed[one.line.ledger_id] = "its topic's list names it now"
            elif found is None or found.node.is_closed:
                self._delete_from_bookkeeper(one, done, as_read)
            elif is_of_topic(found, managed_ledger):
                still_open.append((one, found))
            else:
                done.postponed[one.line.ledger_id] = "it is not closed: a writer may live"
        if still_open:
            self._open_orphans.delete(managed_ledger, still_open, done, why_not)

    def delete_objects(self, noted: NotedLine, done: Done, why_not: WhyNot = nothing_against_it) -> None:
        """Delete the objects of an offload that no list names (`TrashKind.OBJECTS`); ``why_not`` as `delete_orphans`. Raises as `flag`."""
        line = noted.line
        if line.uuid is None or line.bucket is None or line.managed_ledger is None:
            done.postponed[line.ledger_id] = "it is not known whose objects these are"
            return
        attempt = Attempt(line.managed_ledger, line.ledger_id, line.uuid, line.bucket, 0)
        # A line that was taken back since it was read deletes nothing. Before all that is read: that is then no older than this commit.
        self._means.lock.commit([RequireNode(line.path, noted.version)])
        # The note before the list: one commit sets the list, and drops the note.
        if self._means.lock.node(attempt.path) is not None:
            done.postponed[line.ledger_id] = (
                "an attempt to offload is noted that goes on, or is cleaned up after by its note"
            )
            return
        if is_named(self._means.lock, attempt):
            done.postponed[line.ledger_id] = "its topic's list names these objects now"
            return
        why = (
            why_of_former_cluster(self._means, line.ledger_id)
            or why_only_copy(self._means, line.managed_ledger, line.ledger_id, line.uuid)
            or why_not()
        )
        if why is not None:
            done.postponed[line.ledger_id] = why
            return
        try:
            self._remove_objects(line.bucket, line.uuid, line.ledger_id)
        except LedgerfsError as error:
            if self._means.lock.is_lost:
                raise
            done.postponed[line.ledger_id] = str(error)
            text = f"offload {line.uuid} of ledger {line.ledger_id} could not be deleted: {error}"
            done.remarks.append(Remark("objects-stay", line.uuid, text))
            return
        closing, _ = noted.as_changed(TrashState.DELETED)
        self._means.lock.commit([closing])
        done.ledger_ids.append(line.ledger_id)
        done.size += line.size

    def _remove_objects(self, bucket: str, uuid: str, ledger_id: int) -> None:
        with self._means.away.reaching(bucket):
            remove_for_good(self._means.bucket_at(bucket), LedgerKey(uuid, ledger_id, is_index=False))

    def _delete_from_bookkeeper(
        self, noted: NotedLine, done: Done, others: Sequence[Operation] = (), freed: int = 0
    ) -> None:
        """Delete a ledger's node, which is as when it was marked, and close its line, together, with what else is to hold.

        ``freed`` bytes were freed if there is no node, either.
        """
        line = noted.line
        closing, _ = noted.as_changed(TrashState.DELETED)
        changes: list[Operation] = [closing, *others]
        found = self._found(line.ledger_id)
        is_unlisted = line.state is TrashState.UNLISTED
        if found is not None and is_unlisted and (why := why_another(line, found)) is not None:
            # That of the line is gone, and this one is not to be waited for.
            text = f"ledger {line.ledger_id} stays, and its trash line is closed: {why}"
            done.remarks.append(Remark("ledger-stays", line.ledger_id, text))
            found = None
        if found is not None:
            if (why := why_kept(line, found)) is not None:
                done.postponed[line.ledger_id] = why
                return
            changes.append(DropNode(self._means.ledgers.path_of(line.ledger_id), found.version))
        try:
            self._means.lock.commit(changes)
        except ChangedMeanwhileError as error:
            done.postponed[line.ledger_id] = str(error)
            return
        done.ledger_ids.append(line.ledger_id)
        done.size += freed if found is None else line.size


def _oldest_first(lines: Sequence[NotedLine]) -> list[NotedLine]:
    return sorted(lines, key=lambda one: one.line.ledger_id)


def _that_fit(lines: Sequence[NotedLine], listed: Listed) -> tuple[list[NotedLine], list[NotedLine]]:
    """Return as many lines, one at least, as one commit takes together with the list, and the others."""
    left, count = MOST_BYTES - len(listed.node.data), 0
    for one in lines[:_MOST_LINES]:
        left -= len(one.line.path) + len(build_trash_line(one.line)) + _MORE_BYTES
        if left < 0 and count:
            break
        count += 1
    return list(lines[:count]), list(lines[count:])


def _may_be_flagged(listed: Listed, noted: NotedLine, done: Done) -> bool:
    """Whether a ledger is listed as when it was marked; its objects are another matter."""
    line = noted.line
    info = listed.ledger(line.ledger_id)
    if info is None or not _is_offloaded(info, line.uuid):
        done.postponed[line.ledger_id] = "it is not offloaded any more as it was when it was marked"
    elif info.ledger_id == listed.last:
        done.postponed[line.ledger_id] = _LAST
    else:
        return True
    return False


def _without_holes(listed: Listed, going: Sequence[NotedLine], done: Done) -> list[NotedLine]:
    """Return those that are older than the first ledger with entries that stays: a topic gets no holes."""
    ids = {one.line.ledger_id for one in going}
    staying = (one.ledger_id for one in listed.info.ledgers if one.entries and one.ledger_id not in ids)
    first = min(staying, default=listed.last)
    why = f"ledger {first}, which is older, stays: a topic gets no holes"
    done.postponed.update({one.line.ledger_id: why for one in going if one.line.ledger_id > first})
    return [one for one in going if one.line.ledger_id < first]


def _why_different(info: LedgerInfo, found: StoredLedger) -> str | None:
    """Return why a list and BookKeeper do not tell the same of a closed ledger; None if they do, or if the list tells of objects alone."""
    context, node = info.context, found.node
    is_complete = context is not None and context.is_complete
    if is_complete and context is not None and context.is_deleted_from_bookkeeper:
        return None
    if info.entries == node.last_entry + 1 and (is_complete or info.size == node.length):
        return None
    return f"it is listed with {info.entries:,} entries, and closed in BookKeeper with {node.last_entry + 1:,}, or other bytes"


def _is_offloaded(info: LedgerInfo, uuid: str | None) -> bool:
    context = info.context
    return context is not None and context.is_complete and (uuid is None or context.uuid == uuid)


def _is_flagged(info: LedgerInfo, uuid: str | None) -> bool:
    context = info.context
    return _is_offloaded(info, uuid) and context is not None and context.is_deleted_from_bookkeeper

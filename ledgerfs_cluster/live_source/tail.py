"""The end of one topic of a live cluster, polled: a few small requests for each poll, never a watch.

The node and the bookies of the open ledger show how far it can be read. The ledger list, which may be long, is read when that ledger is
closed or gone, and otherwise once a second. Ledgers that disappear from the list unread are reported, with their known ranges.

Ledgers that come and go between two polls leave no trace but the number of changes of the list. Brokers trim from the oldest ledger on, so
while the newest one of the last poll is listed, no later one is gone. If it is gone, another one may have come between it and the first new
one, unless there is no id between these, or the list was changed too seldom: each new ledger is one change, and the trim of a ledger with
entries is another.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ledgerfs.catalog.catalog_rows import ref_of_row
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import GapKind
from ledgerfs.catalog.tail import Gone, Look, Next
from ledgerfs.errors import ObjectNotFoundError, StaleObjectError, StoreUnreachableError
from ledgerfs_cluster.bookies.asking import Asked, ask_each
from ledgerfs_cluster.formats.bookkeeper.requests import NEWEST
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.live_source.access import ClusterAccess, ListedTopic
from ledgerfs_cluster.live_source.listed_ledgers import ListedLedgers
from ledgerfs_cluster.live_source.reader import LiveReader
from ledgerfs_cluster.snapshot.managed_ledger_paths import list_of_ledgers

if TYPE_CHECKING:
    from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
    from ledgerfs_cluster.zookeeper.nodes import Node

_LIST_S = 1.0
"""A ledger list is used for so many seconds, unless there is a sign of a change."""

_REMEMBERED_S = 10.0
"""Bookies keep entries of deleted ledgers at least so many seconds: they collect them every fifteen seconds, or minutes."""

_TRIMMED = "trimmed before it was read"
_UNSEEN = "may have been written and trimmed since the last poll {:.1f} s before"
_UNKNOWN_END = "trimmed while it was open, and no bookie has its last entry any more"


class _Seen(NamedTuple):
    """A ledger at the last poll: its last entry, and its metadata if it was still open, so that it may have grown since."""

    last_entry: int
    node: "LedgerNode | None"


@dataclass(frozen=True, slots=True)
class _Found:
    """Ledgers of a topic by id, from one on: those with entries, and all that are listed."""

    refs: Mapping[int, LedgerRef]
    listed: Mapping[int, _Seen]


class TopicTail:
    """`ledgerfs.catalog.tail.Tail` of a managed ledger."""

    __slots__ = ("_access", "_listed_s", "_looked_s", "_name", "_node", "_seen", "_seen_version", "_topic")

    def __init__(self, access: ClusterAccess, name: str) -> None:
        self._access = access
        self._name = name
        self._node: Node | None = None
        self._topic = ListedTopic(name, ManagedLedgerInfo(()), 0)
        self._listed_s = self._looked_s = 0.0
        self._seen: dict[int, _Seen] = {}
        self._seen_version = 0

    def look(self, since: Next, *, is_anew: bool = False) -> Look:
        """Return the topic from a ledger on (`ledgerfs.catalog.tail.Tail.look`).

        Also raises `StoreUnreachableError` while the topic lists a ledger that is nowhere, which a broker may cause for a moment.
        """
        now = time.monotonic()
        is_listed_now = is_anew or self._node is None or now - self._listed_s >= _LIST_S
        if is_listed_now:
            self._list()
        found = self._find(since)
        if not is_listed_now and (found is None or not self._is_as_before(found, since)):
            self._list()
            found = self._find(since)
        if found is not None and self._is_ahead(found):
            self._list()
            found = self._find(since)
        if found is None:
            raise StoreUnreachableError(
                "the topic lists a ledger that does not exist", key=managed_ledger_path(self._name)
            )
        if not found.listed:
            if self._seen:
                raise self._behind()
            return Look((), since, is_ended=self._is_terminated)
        last = max(found.listed)
        if self._seen and last < max(self._seen):
            raise self._behind()
        gone = tuple(self._gone(since, found, now - self._looked_s))
        self._seen, self._looked_s, self._seen_version = dict(found.listed), time.monotonic(), self._version
        readers = [LiveReader(self._access, found.refs[one]) for one in sorted(found.refs)]
        end = Next(last, found.listed[last].last_entry + 1)
        return Look(readers, end, gone, is_ended=self._is_terminated and found.listed[last].node is None)

    @property
    def _is_terminated(self) -> bool:
        return self._topic.info.terminated is not None

    @property
    def _version(self) -> int:
        return 0 if self._node is None else self._node.version

    def _came(self, found: _Found) -> list[int]:
        """Return the ids of the ledgers that were listed since the last poll."""
        newest = max(self._seen, default=-1)
        return sorted(one for one in found.listed if one > newest)

    def _is_ahead(self, found: _Found) -> bool:
        """Return whether ledgers were found by a later list than the one with the known version."""
        is_gone = bool(self._seen) and max(self._seen) not in found.listed
        return is_gone and self._version - self._seen_version < max(1, len(self._came(found)))

    def _may_have_missed(self, found: _Found) -> bool:
        """Return whether ledgers may have come after the last poll, and gone before this one."""
        newest, came = max(self._seen, default=-1), self._came(found)
        if newest < 0 or newest in found.listed or not came or came[0] == newest + 1:
            return False
        return self._version - self._seen_version > len(came) + 1

    def _list(self) -> None:
        """Read the ledger list."""
        path = managed_ledger_path(self._name)
        try:
            node = self._access.cluster.nodes.get(path)
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError("the topic was deleted", key=path) from error
        before = self._node
        if before is not None and node.created_ms != before.created_ms:
            raise StaleObjectError("the topic was deleted and created again with other ledgers", key=path)
        # An empty list may have been empty before.
        if before is None or node.data != before.data or not node.data:
            self._topic = ListedTopic(self._name, list_of_ledgers(node), node.changed_ms)
        self._node, self._listed_s = node, time.monotonic()

    def _find(self, since: Next) -> _Found | None:
        """Return the listed ledgers and their ends; None if one of them is nowhere."""
        some = tuple(one for one in self._topic.info.ledgers if one.ledger_id >= since.ledger_id)
        place = self._access.reading.ledgers_path
        found = ListedLedgers(self._access)
        found.take(self._topic._replace(info=replace(self._topic.info, ledgers=some)))
        found.find_ends(None)
        for one in found.lacking:
            if one.kind is GapKind.NOT_IN_BOOKKEEPER:
                return None
            raise one.error
        refs = [ref_of_row(row, self._name, place) for row in found.table()]
        wanted = {ref.ledger_id: ref for ref in refs if ref.ledger_id >= since.ledger_id}
        empty = {one for one in found.empty if one >= since.ledger_id}
        listed = {one: _Seen(ref.last_entry, found.growing.get(one)) for one, ref in wanted.items()}
        listed |= {one: _Seen(-1, found.growing.get(one)) for one in empty}
        # If the topic changed meanwhile, use only ledgers that are still listed: the next list has the rest.
        return _Found(wanted, listed) if listed.keys() >= {one.ledger_id for one in some} else None

    def _is_as_before(self, found: _Found, since: Next) -> bool:
        """Return whether the list seems unchanged: its last ledger is still open, and none is missing."""
        last = max(found.listed, default=-1)
        if last < 0 or found.listed[last].node is None:
            return False
        return all(one in found.listed for one in self._seen if one >= since.ledger_id)

    def _gone(self, since: Next, found: _Found, unwatched_s: float) -> Iterator[Gone]:
        """Yield the unread ranges of the last poll that are no longer listed."""
        newest, is_end_known = max(self._seen, default=-1), True
        for ledger_id in sorted(self._seen.keys() - found.listed.keys()):
            if ledger_id < since.ledger_id:
                continue
            first = since.entry_id if ledger_id == since.ledger_id else 0
            last = self._end_of(ledger_id, self._seen[ledger_id])
            if last is None or (last < 0 and unwatched_s > _REMEMBERED_S and self._may_be_trimmed(found)):
                is_end_known = ledger_id != newest
                yield Gone(ledger_id, first, None, _UNKNOWN_END)
            elif first <= last:
                yield Gone(ledger_id, first, last, _TRIMMED)
        if is_end_known and self._may_have_missed(found):
            yield Gone(newest + 1, 0, None, _UNSEEN.format(unwatched_s))

    def _may_be_trimmed(self, found: _Found) -> bool:
        """Return whether the list changed often enough for a trim: an empty ledger is removed in the change that adds the next one."""
        return self._version - self._seen_version > len(self._came(found))

    def _end_of(self, ledger_id: int, seen: _Seen) -> int | None:
        """Return the last entry of a ledger that is no longer listed, -1 for none; None if unknown."""
        if seen.node is None:
            return seen.last_entry
        node = seen.node
        with suppress(ObjectNotFoundError):  # of a deleted ledger, whose entries bookies keep for a while
            node = self._access.stored(ledger_id).node
        if node.is_closed:
            return node.last_entry
        asked = [Asked(node, NEWEST, bookie) for bookie in node.ensembles[-1].bookies]
        reported = ask_each(self._access.pool, asked, self._access.traffic)
        newest = [one.entry for one in reported if one.is_there]
        if newest:
            return max(newest)
        if not all(one.is_answer for one in reported):
            raise StoreUnreachableError("no bookie returns the last entry of the ledger", key=f"ledger {ledger_id}")
        return None if seen.last_entry >= 0 else -1

    def _behind(self) -> StoreUnreachableError:
        reason = "this ZooKeeper server is behind: its data is older than data that another server returned before"
        return StoreUnreachableError(reason, key=managed_ledger_path(self._name))

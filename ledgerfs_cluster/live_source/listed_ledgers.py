"""Ledgers in topics' lists as rows of a catalog; reads the ends of open ones."""

from dataclasses import replace
from typing import NamedTuple

from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.missing_ledgers import UNKNOWN, GapKind
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptMetadataError,
    CorruptObjectError,
    LedgerfsError,
    MissingLedgerError,
    ObjectNotFoundError,
    StoreUnreachableError,
    UnsupportedFormatError,
)
from ledgerfs_cluster.bookies.asking import LedgerEnd, ends_of
from ledgerfs_cluster.cluster_ledgers import NAME, ClusterFragments, FoundLedgers, ledger_row
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.live_source.access import ClusterAccess, ListedTopic, UnlistedTopic, listed_topic
from ledgerfs_cluster.live_source.rows import NUMBER, cut_bytes, pack_own

_TRIES = 3
"""Most reads of a topic whose last ledger is gone because it has just been replaced."""


class _Open(NamedTuple):
    """A ledger without an end in its topic's list: the one written last, or one that is listed without entries."""

    topic: ListedTopic
    info: LedgerInfo


class ListedLedgers(FoundLedgers):
    """Collects the ledgers of a cluster.

    Attributes
    ----------
    growing
        The metadata of ledgers that are still open, by id.

    """

    def __init__(self, access: ClusterAccess) -> None:
        super().__init__()
        self._access = access
        self._open: list[_Open] = []
        self.growing: dict[int, LedgerNode] = {}

    def take(self, topic: ListedTopic | UnlistedTopic) -> None:
        """Take the ledgers of a topic; `find_ends` then reads the end of the last one, and of those listed without entries.

        Brokers remove closed ledgers without entries: a count of 0 may be wrong, and entries would silently be missing.
        """
        if isinstance(topic, UnlistedTopic):
            self.lack(topic.name, UNKNOWN, GapKind.LIST_UNREADABLE, topic.error)
            return
        self.topics.add(self.names.row_of(topic.name))
        for info in topic.info.ledgers:
            is_last = info is topic.info.ledgers[-1]
            if info.entries and (info.is_offloaded or not is_last):
                self._add(topic, info, info.entries, info.size)
            else:
                self._open.append(_Open(topic, info))

    def find_ends(self, progress: Progress | None) -> None:
        """Read the ends of open ledgers; raises as `ledgerfs_cluster.live_source.layout.LiveCluster.list_ledgers`."""
        for _ in range(_TRIES):
            gone = self._find_ends(progress)
            if not (gone or self._open):
                return
            self._look_again(gone)
        for one in self._find_ends(None):
            self._add_gone(one.topic, one.info)
        for one in self._open:
            reason = "its last entry is unknown: its bookies changed during each of several requests; try again"
            self._add_unknown(one, StoreUnreachableError(reason, key=f"ledger {one.info.ledger_id}"))

    def fragments(self) -> ClusterFragments:
        """Return the ledgers without entries, and the topics that have no others."""
        return replace(super().fragments(), is_lasting=not self.lacking)

    def _find_ends(self, progress: Progress | None) -> list[_Open]:
        """Add the open ledgers, and return those that BookKeeper does not have; those that changed meanwhile stay in `_open`."""
        asked, self._open = self._open, []
        gone: list[_Open] = []
        growing: list[tuple[_Open, LedgerNode]] = []
        paths = [self._access.path_of(one.info.ledger_id) for one in asked]
        found = self._access.cluster.nodes.get_many(paths)
        for one, node in zip(asked, found, strict=True):
            if isinstance(node, ObjectNotFoundError):
                gone.append(one)
                continue
            if isinstance(node, LedgerfsError):
                raise node
            try:
                ledger = parse_ledger_node(node.data, one.info.ledger_id, key=node.path)
            except CorruptMetadataError as error:
                self._add_unknown(one, error)
                continue
            if ledger.is_closed:
                self._add(one.topic, one.info, ledger.last_entry + 1, ledger.length)
            else:
                growing.append((one, ledger))
                self.growing[ledger.ledger_id] = ledger
        self._find_growing(growing, progress)
        return gone

    def _find_growing(self, growing: list[tuple[_Open, LedgerNode]], progress: Progress | None) -> None:
        if progress is not None and growing:
            progress("finding the ends of open ledgers", 0, len(growing))
        ends = ends_of(
            self._access.pool,
            [node for _, node in growing],
            self._access.traffic,
            acknowledged=self._access.reading.open_end == "acknowledged",
        )
        for (one, node), end in zip(growing, ends, strict=True):
            if isinstance(end, LedgerEnd):
                self._add(one.topic, one.info, end.last_entry + 1, end.length, is_open=True)
            elif self._has_changed(node):
                self._open.append(one)
            elif isinstance(end, AccessDeniedError):
                raise end
            else:
                self._add_unknown(one, end)

    def _has_changed(self, old: LedgerNode) -> bool:
        """Return whether a ledger got other bookies, was closed, or deleted, since its node was read."""
        try:
            new = self._access.stored(old.ledger_id).node
        except ObjectNotFoundError:
            return True
        return (new.state, new.ensembles) != (old.state, old.ensembles)

    def _look_again(self, gone: list[_Open]) -> None:
        """Take topics with missing nodes again: their lists may have changed since they were read."""
        of_topics: dict[str, list[_Open]] = {}
        for one in gone:
            of_topics.setdefault(one.topic.name, []).append(one)
        changed: list[ListedTopic] = []
        taken: list[ListedTopic | UnlistedTopic] = []
        for name, some in of_topics.items():
            old = some[-1].topic
            new = self._listed_now(name)
            if isinstance(new, ListedTopic) and new.info == old.info:
                self._open += some
                continue
            changed.append(old)
            taken += () if new is None else (new,)
        self._drop(changed)
        for topic in taken:
            self.take(topic)

    def _listed_now(self, name: str) -> ListedTopic | UnlistedTopic | None:
        """Return a topic with its current list, or the error of reading it; None if it was deleted."""
        try:
            return listed_topic(self._access.cluster.nodes, name)
        except ObjectNotFoundError:
            return None
        except CorruptMetadataError as error:
            return UnlistedTopic(name, error)

    def _drop(self, topics: list[ListedTopic]) -> None:
        """Drop all results of topics that are taken again: their open ledgers would be there twice."""
        names = {self.names.row_of(one.name) for one in topics}
        if not names:
            return
        self.rows = [row for row in self.rows if row[NAME] not in names]
        self._open = [one for one in self._open if self.names.row_of(one.topic.name) not in names]
        self.lacking = [one for one in self.lacking if one.name not in names]
        self.topics -= names
        self.empty -= {info.ledger_id for one in topics for info in one.info.ledgers}

    def _add_gone(self, topic: ListedTopic, info: LedgerInfo) -> None:
        """Add a ledger that BookKeeper does not have: from the index of its objects, or as empty if its record has a closing time."""
        if info.is_offloaded:
            try:
                self._add(topic, info, *self._access.offloaded.reported(topic.name, info))
            except ObjectNotFoundError:
                self._lack_all(topic, info)
            except (CorruptObjectError, UnsupportedFormatError) as error:
                self._add_unknown(_Open(topic, info), error)
        elif info.closed_ms and not info.entries:
            self.empty.add(info.ledger_id)
        else:
            self._lack_all(topic, info)

    def _lack_all(self, topic: ListedTopic, info: LedgerInfo) -> None:
        reason = "the topic lists this ledger, but neither BookKeeper nor a bucket has it: its entries are lost"
        error = MissingLedgerError(reason, key=self._access.path_of(info.ledger_id))
        self.lack(topic.name, info.ledger_id, GapKind.NOT_IN_BOOKKEEPER, error)

    def _add_unknown(self, one: _Open, error: LedgerfsError) -> None:
        kind = GapKind.END_UNKNOWN if isinstance(error, StoreUnreachableError) else GapKind.UNREADABLE
        self.lack(one.topic.name, one.info.ledger_id, kind, error)

    def _add(self, topic: ListedTopic, info: LedgerInfo, entries: int, length: int, *, is_open: bool = False) -> None:
        if entries <= 0:
            self.empty.add(info.ledger_id)
            return
        context = info.context if info.context is not None and info.context.is_complete else None
        is_in_bucket = context is not None and context.is_deleted_from_bookkeeper
        row = ledger_row(
            (info.ledger_id, self.names.row_of(topic.name), 1, NUMBER),
            entries=entries,
            length=length,
            cut_bytes=cut_bytes(is_in_bucket=is_in_bucket),
            times_ms=(0, info.closed_ms or topic.changed_ms),
            own=pack_own(is_in_bucket=is_in_bucket),
            uuid=None if context is None else context.uuid,
            # A ledger that is only in a bucket may be a restored copy, with messages of any time.
            is_ordered=not is_in_bucket,
            is_open=is_open,
        )
        self.rows.append(row)

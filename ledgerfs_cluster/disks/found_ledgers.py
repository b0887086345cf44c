"""The ledgers of some disks as rows, from their metadata and from the entries on the disks.

With metadata a topic has the ledgers in its list that BookKeeper still has; a ledger in no list has no topic. Without metadata, topics are
unknown, and so is whether a ledger continues after its last entry here.
"""

from dataclasses import replace

from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.missing_ledgers import UNKNOWN, GapKind
from ledgerfs.errors import CorruptLedgerError, CorruptMetadataError, MissingLedgerError, StoreUnreachableError
from ledgerfs_cluster.cluster_ledgers import ClusterFragments, FoundLedgers, ledger_row
from ledgerfs_cluster.disks.ends import end_of_open, length_up_to, newest_sound
from ledgerfs_cluster.disks.entries import EntryReading, digest_that_fits
from ledgerfs_cluster.disks.index import DiskIndex
from ledgerfs_cluster.disks.known_ledgers import KnownLedgers
from ledgerfs_cluster.disks.rows import CUT_BYTES, NUMBER, pack_own
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import is_of_transactions

_EVERY = 256
_OF_OTHERS = "ledgers of subscriptions, schemas and transactions"
_DELETED = "deleted ledgers whose space is not free yet"
_OFFLOADED = "ledgers of these topics that are only in buckets"


class FoundOnDisks(FoundLedgers):
    """Collects the rows of a catalog; ``open_end`` is that of `BookieDisks`."""

    def __init__(self, index: DiskIndex, known: KnownLedgers | None, open_end: str) -> None:
        super().__init__()
        self._index, self._known = index, known
        self._open_end = open_end
        self._ledgers_path = "/ledgers" if known is None else known.ledgers_path
        # {id of an empty ledger: its newest entry that exists here after its end}
        self._behind: dict[int, int] = {}

    def find(self, progress: Progress | None) -> None:
        """Find all ledgers; raises as `EntryReading`."""
        here = dict(zip(self._index.ledger_ids().tolist(), self._index.last_entries().tolist(), strict=True))
        if self._known is None:
            for done, (ledger_id, last) in enumerate(here.items(), 1):
                self._take_nameless(ledger_id, last, None)
                if progress is not None and done % _EVERY == 0:
                    progress("checking ledgers", done, len(here))
            return
        listed = self._take_topics(self._known, here, progress)
        for ledger_id, last in here.items():
            if ledger_id not in listed:
                self._take_unlisted(self._known, ledger_id, last)

    def fragments(self) -> ClusterFragments:
        """Return everything that is not a row."""
        troubles = [one.trouble for one in self._index.files if one.trouble is not None]
        return replace(
            super().fragments(),
            behind=tuple(sorted(self._behind.items())),
            troubles=(*self._index.listing.troubles, *troubles),
        )

    def _take_topics(self, known: KnownLedgers, here: dict[int, int], progress: Progress | None) -> set[int]:
        """Take the ledgers that topics list; return all listed ids."""
        listed: set[int] = set()
        for done, (topic, infos) in enumerate(sorted(known.topics.items()), 1):
            if progress is not None and done % _EVERY == 0:
                progress("checking topics", done, len(known.topics))
            if isinstance(infos, CorruptMetadataError):
                self.lack(topic, UNKNOWN, GapKind.LIST_UNREADABLE, infos)
                continue
            listed |= {info.ledger_id for info in infos}
            if is_of_transactions(topic):
                self._note(_OF_OTHERS, len(infos))
                continue
            self.topics.add(self.names.row_of(topic))
            for info in infos:
                self._take_listed(known, topic, info, here.get(info.ledger_id, -1))
        return listed

    def _take_listed(self, known: KnownLedgers, topic: str, info: LedgerInfo, last_here: int) -> None:
        key = ledger_path(info.ledger_id, known.ledgers_path)
        try:
            node = known.node(info.ledger_id)
        except CorruptMetadataError as error:
            self.lack(topic, info.ledger_id, GapKind.UNREADABLE, error)
            return
        if node is None:
            self._take_without_node(topic, info, last_here, key)
        elif node.is_closed or info.entries:
            self._take_closed(topic, info, node, last_here, key)
        else:
            self._take_open(topic, info, node, last_here, key)

    def _take_empty(self, ledger_id: int, newest_here: int) -> None:
        self.empty.add(ledger_id)
        if newest_here >= 0:
            self._behind[ledger_id] = newest_here

    def _take_without_node(self, topic: str, info: LedgerInfo, last_here: int, key: str) -> None:
        """Take a ledger that BookKeeper does not have: it is offloaded, or was empty, or is lost."""
        if info.context is not None and info.is_offloaded:
            self._note(_OFFLOADED, 1)
        elif info.closed_ms and not info.entries:
            self._take_empty(info.ledger_id, last_here)
        else:
            reason = "its topic lists it, but BookKeeper's metadata does not contain it and it is not offloaded: its entries are lost"
            self.lack(topic, info.ledger_id, GapKind.NOT_IN_BOOKKEEPER, MissingLedgerError(reason, key=key))

    def _take_closed(self, topic: str, info: LedgerInfo, node: LedgerNode, last_here: int, key: str) -> None:
        """Take a ledger that is closed in BookKeeper or, by now, in its topic's list."""
        last, length = (node.last_entry, node.length) if node.is_closed else (info.entries - 1, info.size)
        if last < 0 and not info.entries:
            self._take_empty(node.ledger_id, last_here)
        elif info.entries and info.entries != last + 1:
            reason = f"the topic's ledger list has {info.entries:,} entries for it, but BookKeeper's metadata has {node.last_entry + 1:,}"
            self.lack(topic, node.ledger_id, GapKind.UNREADABLE, CorruptMetadataError(reason, key=key))
        elif last_here < 0:
            reason = "none of the given disks has entries of this ledger; add the disks of its other bookies"
            self.lack(topic, node.ledger_id, GapKind.NOT_ON_DISKS, MissingLedgerError(reason, key=key))
        else:
            self._add(topic, node.ledger_id, (last, length, last_here), _times_ms(info, node))

    def _take_open(self, topic: str, info: LedgerInfo, node: LedgerNode, last_here: int, key: str) -> None:
        end = end_of_open(self._index, node, self._open_end)
        if not end.is_certain:
            reason = (
                f"it is not closed, and its end is uncertain: the last entry found is {end.last_entry}, but later entries may be "
                "damaged, or on disks that are missing or not fully readable; add the disks of its other bookies"
            )
            is_beside = end.last_entry >= 0
            error = StoreUnreachableError(reason, key=key)
            self.lack(topic, node.ledger_id, GapKind.END_UNKNOWN, error, is_beside=is_beside)
        if end.newest < 0 and self._index.next_entry(node.ledger_id, 0) is not None:
            reason = (
                "no entry matches the ledger's digest: all entries are damaged, or its metadata has the wrong password"
            )
            self.lack(topic, node.ledger_id, GapKind.UNREADABLE, CorruptLedgerError(reason, key=key))
            return
        if end.last_entry < 0:
            self._take_empty(node.ledger_id, last_here)
            return
        length = length_up_to(EntryReading(self._index, node.ledger_id, node.digest), end.last_entry)
        if length is None:
            reason = f"its length is unknown: entry {end.last_entry}, which later entries confirm, is damaged or missing on all given disks"
            self.lack(topic, node.ledger_id, GapKind.UNREADABLE, CorruptLedgerError(reason, key=key))
            return
        # A ledger without a known end must not count as complete.
        is_open = self._open_end != "recovered" or not end.is_certain
        ends = end.last_entry, length, end.newest
        self._add(topic, node.ledger_id, ends, _times_ms(info, node), is_open=is_open)

    def _take_unlisted(self, known: KnownLedgers, ledger_id: int, last: int) -> None:
        """Take a ledger here that is in no list: deleted, not of a topic, or an orphan of a crash."""
        try:
            node = known.node(ledger_id)
        except CorruptMetadataError:
            self._take_nameless(ledger_id, last, None)
            return
        if node is None and known.may_lack(ledger_id):
            reason = "its topic is unknown: the ledger may be newer than the metadata; pass newer metadata (--metadata)"
            error = MissingLedgerError(reason, key=ledger_path(ledger_id, known.ledgers_path))
            self.lack(None, ledger_id, GapKind.NEWER_THAN_METADATA, error, is_beside=True)
            self._take_nameless(ledger_id, last, None)
        elif node is None:
            self._note(_DELETED, 1)
        elif node.component not in {None, "managed-ledger"} or node.reported("pulsar/cursor") is not None:
            self._note(_OF_OTHERS, 1)
        else:
            self._take_nameless(ledger_id, last, node)

    def _take_nameless(self, ledger_id: int, last: int, node: LedgerNode | None) -> None:
        """Take a ledger of no known topic, up to its newest entry here."""
        digest = digest_that_fits(self._index, ledger_id, last) if node is None else node.digest
        key = ledger_path(ledger_id, self._ledgers_path)
        if digest is None:
            reason = "no entry matches a digest without a password: the entries are damaged, or the password is needed (--metadata)"
            self.lack(None, ledger_id, GapKind.UNREADABLE, CorruptLedgerError(reason, key=key))
            return
        if node is not None and node.is_closed:
            end, length = node.last_entry, node.length
        else:
            reading = EntryReading(self._index, ledger_id, digest)
            end = newest_sound(reading)
            length = length_up_to(reading, end) or 0
        if end < 0:
            self._take_empty(ledger_id, last)
            return
        self._add(None, ledger_id, (end, length, last))

    def _add(
        self,
        topic: str | None,
        ledger_id: int,
        ends: tuple[int, int, int],
        times_ms: tuple[int, int] = (0, 0),
        *,
        is_open: bool = False,
    ) -> None:
        """Add a row; ``ends`` are its last entry, its length, and the greatest id of an existing entry."""
        last, length, newest = ends
        row = ledger_row(
            (ledger_id, self.names.row_of(topic), 1, NUMBER),
            entries=last + 1,
            length=length,
            cut_bytes=CUT_BYTES,
            times_ms=times_ms,
            own=pack_own(newest),
            is_open=is_open,
        )
        self.rows.append(row)

    def _note(self, what: str, count: int) -> None:
        self.notes[what] = self.notes.get(what, 0) + count


def _times_ms(info: LedgerInfo, node: LedgerNode) -> tuple[int, int]:
    """Return when a ledger was created, 0 if unknown, and when it was closed."""
    created_ms = node.created_ms or 0
    return created_ms, info.closed_ms or created_ms

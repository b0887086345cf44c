"""Where a ledger of a living cluster can be read, by the cluster's metadata of this moment, and which of these places have failed."""

from dataclasses import dataclass, field
from typing import NamedTuple

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptLedgerError, LedgerfsError, NotFoundError, StaleObjectError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.live_source.hot_ledger import HotLedger

BOOKKEEPER, BUCKET = "BookKeeper", "bucket"

_MOST_MOVES = 8
"""How often a ledger is looked for again whose line in its topic's list keeps changing, without an entry of it read meanwhile."""


class Found(NamedTuple):
    """A place of a ledger, what reads it there, the other places where it may be, and the line of the list that says so."""

    place: str
    reader: HotLedger | LedgerReader
    others: frozenset[str]
    info: LedgerInfo


def places_of(info: LedgerInfo, read_from: str) -> tuple[str, ...]:
    """Return where a ledger may be, the first to be asked first; ``read_from`` is that of `LiveReading`."""
    context = info.context
    if context is None or not context.is_complete:
        return (BOOKKEEPER,)
    if read_from == "bookkeeper" and not context.is_deleted_from_bookkeeper:
        return (BOOKKEEPER, BUCKET)
    # A broker that died behind the flag has deleted nothing.
    return (BUCKET, BOOKKEEPER)


@dataclass(slots=True)
class Attempts:
    """What has failed while one range of a ledger is read.

    Attributes
    ----------
    info
        The ledger's line in its topic's list, when it was last looked for; None before that.
    failed
        {place: why it could not be read there}, by that line.
    last_resort
        The place that is read though it is damaged, since there is no other one.

    """

    info: LedgerInfo | None = None
    failed: dict[str, LedgerfsError] = field(default_factory=dict)
    last_resort: str | None = None
    moves: int = 0

    def look(self, info: LedgerInfo) -> LedgerInfo:
        """Take, and return, the ledger's line as it is now: if it has changed, what failed may do now."""
        if self.info is not None and info != self.info:
            self.moves += 1
            self.last_resort = None
            if self.moves < _MOST_MOVES:
                self.failed.clear()
        self.info = info
        return info

    def note(self, found: Found, error: LedgerfsError) -> None:
        """Note that a place failed; raises the error if that was the last resort."""
        if found.place == self.last_resort:
            raise error
        self.info = found.info if self.info is None else self.info
        self.failed[found.place] = error

    def is_last(self, found: Found) -> bool:
        """Whether no other place is left to be asked, by a line that was read since this range was begun."""
        return found.place == self.last_resort or (self.info is not None and found.others <= self.failed.keys())

    def damaged(self) -> str | None:
        """Return the place that has damaged entries, and others that may be read; None if there is none, or that was tried."""
        if self.last_resort is not None:
            return None
        return next((place for place, error in self.failed.items() if isinstance(error, CorruptLedgerError)), None)

    def error(self, key: str) -> LedgerfsError:
        """Return the error for a ledger that cannot be read in any place."""
        errors = list(self.failed.values())
        told = [one for one in errors if not isinstance(one, (NotFoundError, StaleObjectError))]
        if told:
            return told[0]
        is_offloaded = self.info is not None and self.info.is_offloaded
        lost = "the topic lists this ledger, which is neither in BookKeeper nor offloaded: its entries are lost"
        if is_offloaded:
            asked = self.failed[BUCKET].key if BUCKET in self.failed else None
            lost = (
                f"the topic lists this ledger, but BookKeeper's copy is gone, and there is no object {asked}: its entries are lost, "
                "unless the bucket is at another place by now (bucket_urls)"
            )
        made = NotFoundError(lost, key=key)
        made.__cause__ = errors[0]
        return made

"""Dumps of a cluster that lives on, and what each of them may have: a list as it was at any moment from the beginning to the end of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ledgerfs_cluster.formats.managed_ledgers.cursor_info import CursorInfo
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster
from ledgerfs_cluster.snapshot.answers import LastEnd

Lists = Mapping[str, tuple[LedgerInfo, ...] | None]


@dataclass(frozen=True, slots=True)
class Moment:
    """A cluster at one moment.

    Attributes
    ----------
    lists
        {topic: its list}.
    sizes
        {ledger: entries that are acknowledged, and all that bookies have}.
    open
        Ledgers that are not closed.
    cursors
        {topic: where its subscription is}.
    ensembles
        {ledger: its bookies, if BookKeeper has it}.

    """

    lists: Lists
    sizes: Mapping[int, tuple[int, int]]
    open: frozenset[int]
    cursors: Mapping[str, CursorInfo]
    ensembles: Mapping[int, object]


@dataclass
class Recording:
    """The moments from the beginning of a dump to its end."""

    moments: list[Moment] = field(default_factory=list)
    key: str = ""

    def require_true(self, dump: DumpedCluster, names: Mapping[str, str], reported: str) -> None:
        """See to it that a dump has of each topic what was there at one of the moments; ``names`` are managed ledgers by topic."""
        for topic, name in names.items():
            info = dump.lists.get(name)
            found = None if info is None else info.ledgers
            assert any(_are_equal(found, one.lists.get(topic)) for one in self.moments), f"{reported}: list of {topic}"
            if info is not None and info.ledgers:
                self._require_end(dump, info.ledgers[-1].ledger_id, reported)

    def _require_end(self, dump: DumpedCluster, ledger_id: int, reported: str) -> None:
        end = dump.ends.get(ledger_id)
        if end is None or end.end in {LastEnd.UNKNOWN, LastEnd.GONE}:
            return
        sizes = {size for one in self.moments for size in one.sizes.get(ledger_id, ())}
        assert end.entries in sizes, f"{reported}: ledger {ledger_id} ends behind {end.entries} entries, not {sizes}"
        if end.end is LastEnd.CLOSED:
            assert ledger_id not in self.moments[-1].open, reported

    def cursors(self, topic: str) -> list[CursorInfo]:
        """Return where the subscription of a topic was, at each of the moments when it was there."""
        return [one.cursors[topic] for one in self.moments if topic in one.cursors]

    def was_always(self, what: Callable[[Moment], bool]) -> bool:
        """Whether something was so at each of the moments."""
        return all(map(what, self.moments))


def _are_equal(found: tuple[LedgerInfo, ...] | None, kept: tuple[LedgerInfo, ...] | None) -> bool:
    if found is None or kept is None:
        return found is kept
    return sorted(found, key=_id) == sorted(kept, key=_id)


def _id(one: LedgerInfo) -> int:
    return one.ledger_id

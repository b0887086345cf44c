"""Catalog rows, gaps and findings of a cluster's ledgers, common to reading from bookies and from their disks.

A module ``rows`` imports the names that `ledgerfs.catalog.layouts_known.LayoutRows` requires from here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER, Table, origin_columns
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.fragments import Fragments, Kept, Unreadable
from ledgerfs.catalog.layout import Names
from ledgerfs.catalog.ledger_ref import CatalogState, LedgerRef
from ledgerfs.catalog.listing import with_gaps
from ledgerfs.catalog.missing_ledgers import UNKNOWN, GapKind
from ledgerfs.errors import LedgerfsError, RefusedLedgerError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path

NAME = LEDGER.names.index("name") if LEDGER.names else 0
"""The column with the row of the ledger's name."""

KEPT_TABLES: dict[str, Any] = {}
IS_WRITABLE = False

_MOST_CUTS = 1 << 20
"""More are not needed; a damaged record of a list may contain any number of bytes."""
_UNCLEAR = frozenset({GapKind.END_UNKNOWN, GapKind.NOT_ON_DISKS, GapKind.NEWER_THAN_METADATA})
_KINDS = {
    GapKind.NOT_ON_DISKS: "not-on-disks",
    GapKind.NOT_IN_BOOKKEEPER: "lost-ledger",
    GapKind.END_UNKNOWN: "unknown-end",
    GapKind.NEWER_THAN_METADATA: "newer-ledger",
}


class Lacking(NamedTuple):
    """A ledger, or a whole topic, that cannot be read, or not to its end.

    Attributes
    ----------
    name
        Row of the topic's name.
    ledger_id
        Its id; `UNKNOWN` where the topic's list itself cannot be read.
    kind
        The kind of gap, as in reads of the topic.
    error
        The full reason.
    is_beside
        Whether the existing part can be read on request.

    """

    name: int
    ledger_id: int
    kind: GapKind
    error: LedgerfsError
    is_beside: bool = False


@dataclass(frozen=True, slots=True)
class ClusterFragments:
    """Everything found that is not a readable ledger (`ledgerfs.catalog.fragments.Fragments`).

    Attributes
    ----------
    empty
        Ids of listed ledgers without a valid entry.
    topics
        Rows of the names whose topics have only such ledgers, or none.
    lacking
        Ledgers and topics with missing parts; reading their topics is an error.
    notes
        {kind in words for users: count}, of ledgers and files that belong to no topic.
    is_lasting
        Whether another process may use the listing: not while ledgers are lacking, since bookies may be back soon, and not for disks,
        which are listed each time.
    behind
        (id, newest entry) of those of ``empty`` that have entries on disks after their end.
    troubles
        Damaged or unexpected files on disks.

    """

    empty: frozenset[int] = frozenset()
    topics: frozenset[int] = frozenset()
    lacking: tuple[Lacking, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
    is_lasting: bool = False
    behind: tuple[tuple[int, int], ...] = ()
    troubles: tuple[LedgerfsError, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not any(self.counts().values())

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "ClusterFragments":
        """Return a copy with other rows of names: ``new_row`` maps each old one."""
        lacking = tuple(
            one if one.name == UNKNOWN else one._replace(name=int(new_row[one.name])) for one in self.lacking
        )
        return replace(self, topics=frozenset(int(new_row[row]) for row in self.topics), lacking=lacking)

    def why_not(self, ledger_id: int) -> str | None:
        """Return the reason why a ledger has nothing to read, None if it has; raises the error of one that cannot be read."""
        for one in self.lacking:
            if one.ledger_id == ledger_id:
                raise one.error
        return "the ledger exists, but has no confirmed entries" if ledger_id in self.empty else None

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield the ledgers that cannot be read at all; they have no uuid."""
        return (
            Unreadable(one.ledger_id, "", one.error.key or "", one.error) for one in self.lacking if not one.is_beside
        )

    def ledger_ids(self) -> Iterator[int]:
        """Yield the ids of all these ledgers."""
        yield from self.empty
        yield from (one.ledger_id for one in self.lacking if one.ledger_id != UNKNOWN)

    def counts(self) -> dict[str, int]:
        """Return the number of each kind."""
        return {
            "ledgers without entries": len(self.empty),
            "topics without entries": len(self.topics),
            "ledgers that cannot be read, or only in part": len(self.lacking),
            "damaged files": len(self.troubles),
            **self.notes,
        }


class FoundLedgers:
    """Collects the ledgers of a cluster: rows of a catalog, and everything that is not a row."""

    def __init__(self) -> None:
        self.names = Names()
        self.rows: list[tuple[Any, ...]] = []
        self.empty: set[int] = set()
        self.topics: set[int] = set()
        self.lacking: list[Lacking] = []
        self.notes: dict[str, int] = {}

    def lack(
        self, topic: str | None, ledger_id: int, kind: GapKind, error: LedgerfsError, *, is_beside: bool = False
    ) -> None:
        """Note the missing part of a ledger or topic (`Lacking`); ``topic`` is None for a ledger of no known topic."""
        name = UNKNOWN if topic is None else self.names.row_of(topic)
        self.lacking.append(Lacking(name, ledger_id, kind, error, is_beside))

    def table(self) -> Table:
        """Return all rows of `LEDGER`."""
        return np.array(self.rows, LEDGER)

    def fragments(self) -> ClusterFragments:
        """Return everything that is not a row."""
        have_others = {row[NAME] for row in self.rows} | {one.name for one in self.lacking}
        empty, topics = frozenset(self.empty), frozenset(self.topics - have_others)
        return ClusterFragments(empty, topics, tuple(self.lacking), self.notes)

    def catalog(self, number: int, ledgers_path: str) -> Catalog:
        """Return the catalog of a layout, by its number, with the lacking ledgers as gaps."""
        fragments = {number: self.fragments()}
        catalog = Catalog.of([*self.names], self.table(), fragments, places=("", ledgers_path))
        gaps = [
            (0, 0, one.ledger_id, one.name, 1, number, one.kind, one.is_beside, -1, -1, 0, 0)
            for one in fragments_in(catalog, number).lacking
        ]
        return with_gaps(catalog, gaps)


def kept(fragments: Fragments) -> Kept:
    """Return the part to cache for the next process."""
    if not isinstance(fragments, ClusterFragments):
        raise TypeError(type(fragments).__name__)
    reported = {
        "empty": sorted(fragments.empty),
        "topics": sorted(fragments.topics),
        "is_lasting": fragments.is_lasting,
    }
    return Kept(reported, {})


def fragments_of_kept(kept: Kept) -> ClusterFragments:
    """Return the cached value; raises `ValueError` for anything else."""
    reported = kept.reported
    if not isinstance(reported, dict) or not reported.keys() >= {"empty", "topics", "is_lasting"}:
        raise ValueError("the cached value is not one of this class")
    empty, topics = (frozenset(map(int, reported[name])) for name in ("empty", "topics"))
    return ClusterFragments(empty, topics, is_lasting=reported["is_lasting"] is True)


def key_of_missing(uuid: str, ledger_id: int, managed_ledger: str | None, place: str, kind: int) -> str:  # noqa: ARG001
    """Return the path of the missing or unreadable node: of the ledger, or of its topic's list."""
    if kind == GapKind.LIST_UNREADABLE and managed_ledger is not None:
        return managed_ledger_path(managed_ledger)
    return ledger_path(ledger_id, place)


def fragments_in(catalog: Catalog, number: int) -> ClusterFragments:
    """Return the `ClusterFragments` of a layout by its number; empty if the catalog has none."""
    fragments = catalog.fragments.get(number)
    return fragments if isinstance(fragments, ClusterFragments) else ClusterFragments()


def lacking_findings(catalog: Catalog, number: int) -> Iterator[Finding]:
    """Yield a finding for each ledger or topic with a missing part."""
    for one in fragments_in(catalog, number).lacking:
        severity = Severity.UNCHECKED if one.kind in _UNCLEAR else Severity.DAMAGE
        ledger_id = None if one.ledger_id == UNKNOWN else one.ledger_id
        topic = None if one.name == UNKNOWN else topic_of(catalog.names[one.name])
        kind = _KINDS.get(one.kind, "unreadable-object")
        yield Finding(severity, kind, one.error.reason, one.error.key or "", None, ledger_id, topic)


def entries_between_cuts(entries: int, length: int, cut_bytes: int) -> int:
    """Return the number of a ledger's entries between two split points that are about ``cut_bytes`` apart."""
    size = max(cut_bytes, -(-length // _MOST_CUTS))
    return entries if length <= size else max(1, entries * size // length)


def ledger_row(
    ids: tuple[int, int, int, int],
    *,
    entries: int,
    length: int,
    cut_bytes: int,
    times_ms: tuple[int, int],
    own: bytes,
    uuid: str | None = None,
    is_ordered: bool = True,
    is_open: bool = False,
) -> tuple[Any, ...]:
    """Return a row of `LEDGER`.

    ``ids`` are the ledger's id, the rows of its name and its place, and the number of the layout; ``times_ms`` are when it was created, 0
    if unknown, and when it changed; ``cut_bytes`` is that of `entries_between_cuts`.
    """
    ledger_id, name, place, number = ids
    cuts = -(-entries // entries_between_cuts(entries, length, cut_bytes))
    return (
        *((0, 0) if uuid is None else uuid_halves(uuid)),
        *(
            ledger_id,
            name,
            place,
            0,
            number,
            CatalogState.SOUND,
            is_ordered,
            0,
            entries - 1,
            length,
            length,
            length,
            cuts,
        ),
        *times_ms,
        *origin_columns(None),
        is_open,
        own,
    )


def require_same_topic(ref: LedgerRef, managed_ledger: str | None) -> None:
    """Raise `RefusedLedgerError` if the ledger's own metadata, the only one in a bucket, does not name the topic that lists it."""
    if managed_ledger != ref.managed_ledger:
        reason = (
            f"the ledger list of {ref.managed_ledger} contains the ledger, but by its own metadata the ledger belongs to "
            f"{managed_ledger or 'no topic'}: readers of a bucket would assign it to the wrong topic. Use `ledgerfs export` for its rows"
        )
        raise RefusedLedgerError(reason, key=ref.key)

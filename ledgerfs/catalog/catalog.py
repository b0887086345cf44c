"""The catalog: all ledgers of a bucket, as a table of columns.

A catalog is immutable: a refresh creates a new one. A `LedgerRef` is created from a row on demand. Catalogs can be pickled.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog_rows import Table, ranked, ref_of_row
from ledgerfs.catalog.fragments import Fragments, OtherKeys
from ledgerfs.catalog.ledger_ref import CatalogState, LedgerRef
from ledgerfs.catalog.missing_ledgers import (
    GAP,
    UNKNOWN,
    GapKind,
    MissingLedger,
    missing_error,
    missing_of_row,
)
from ledgerfs.catalog.topic_infos import TopicInfo, topic_infos
from ledgerfs.errors import AccessDeniedError, AmbiguousLedgerError, LedgerfsError, NotFoundError
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs.storage.failures import READ_THE_REST, is_refusal


@dataclass(frozen=True, slots=True)
class Catalog:
    """All ledgers of a bucket.

    Attributes
    ----------
    names
        Managed-ledger names, sorted; None (unknown name) is the last.
    places
        Places of ledgers in the bucket, in the form of their layouts.
    ledgers
        Rows of `LEDGER`, sorted by name, ledger id, copy.
    lost
        Rows of `LEDGER` whose bytes are gone.
    fragments
        {number of a layout: its objects that are not ledgers}.
    others
        Keys outside of all layouts.
    gaps
        Rows of `GAP`, sorted by name and ledger id: missing ledgers.
    unlisted
        The errors of unlistable folders that contain ledgers.
    closed
        The errors of other unlistable folders, which may contain ledgers of any topic.
    archived
        The keys of objects that the listing shows as archived (`ledgerfs.storage.objects.ObjectStat.archived`); not cached on disk.
    skips_refused
        Whether readers skip objects that the store refuses (``on_unreadable="skip"``).

    """

    names: tuple[str | None, ...]
    places: tuple[str, ...]
    ledgers: Table
    lost: Table
    fragments: Mapping[int, Fragments]
    others: OtherKeys
    _name_rows: dict[str | None, int] = field(repr=False)
    _starts: npt.NDArray[np.int64] = field(repr=False)
    _by_id: npt.NDArray[np.int64] = field(repr=False)
    gaps: Table = field(default_factory=lambda: np.empty(0, GAP))
    unlisted: tuple[AccessDeniedError, ...] = ()
    closed: tuple[AccessDeniedError, ...] = ()
    archived: frozenset[str] = frozenset()
    skips_refused: bool = False

    def __repr__(self) -> str:
        found = {"topics": len(self.managed_ledgers), "lost ledgers": self.lost.size}
        for one in self.fragments.values():
            found |= one.counts()
        reported = "".join(f", {count:,} {what}" for what, count in found.items() if count)
        return f"<catalog: {self.ledgers.size:,} ledgers{reported}>"

    @classmethod
    def of(
        cls,
        names: Sequence[str | None],
        ledgers: Table,
        fragments: Mapping[int, Fragments] | None = None,
        others: OtherKeys | None = None,
        places: Sequence[str] = ("",),
    ) -> "Catalog":
        """Sort and rank rows of `LEDGER`, including lost ones; their ``name`` is a row of ``names``."""
        order = sorted(range(len(names)), key=lambda i: (names[i] is None, names[i] or ""))
        new_row = np.empty(len(names), np.int32)
        new_row[order] = np.arange(len(names), dtype=np.int32)
        ledgers["name"] = new_row[ledgers["name"]]
        is_lost = ledgers["state"] == CatalogState.LOST
        return cls.of_ranked(
            tuple(names[i] for i in order),
            ranked(ledgers[~is_lost]),
            ledgers[is_lost],
            {number: one.renamed(new_row) for number, one in (fragments or {}).items()},
            others=others or OtherKeys(),
            places=places,
        )

    @classmethod
    def of_ranked(
        cls,
        names: tuple[str | None, ...],
        ledgers: Table,
        lost: Table,
        fragments: Mapping[int, Fragments],
        *,
        others: OtherKeys,
        places: Sequence[str] = ("",),
        gaps: Table | None = None,
    ) -> "Catalog":
        """Index rows that `of` sorted and ranked."""
        return cls(
            names=names,
            places=tuple(places),
            ledgers=ledgers,
            lost=lost,
            fragments=fragments,
            others=others,
            _name_rows={name: row for row, name in enumerate(names)},
            _starts=np.searchsorted(ledgers["name"], np.arange(len(names) + 1)),
            _by_id=np.argsort(ledgers["ledger_id"]),
            gaps=np.empty(0, GAP) if gaps is None else gaps,
        )

    def refused(self) -> list[LedgerfsError]:
        """Return the errors of refused folders and objects that may belong to any topic."""
        unplaced = self._gaps_of(UNKNOWN)
        ids = zip(*(unplaced[name].tolist() for name in ("uuid_high", "uuid_low", "ledger_id")), strict=True)
        refusals = self.refusals()
        return [*self.unlisted, *self.closed, *(refusals[key] for key in ids if key in refusals)]

    @property
    def is_complete(self) -> bool:
        """Whether the store refused nothing, of any topic."""
        return not (self.unlisted or self.closed or self.refusals())

    def require_readable(self) -> None:
        """Raise the error of a refused object that may belong to any topic, since topics and ledgers may be missing."""
        self._raise_first(self.refused(), READ_THE_REST)

    def require_writable(self) -> None:
        """Raise the same even if readers skip it, since a new ledger's id may exist there."""
        self._raise_first(self.refused(), "ledgerfs writes nothing until it can be read")

    def _raise_first(self, refused: Sequence[LedgerfsError], advice: str) -> None:
        if refused:
            first = refused[0]
            more = f" (and {len(refused) - 1:,} more objects or folders)" if len(refused) > 1 else ""
            what = "cannot read an object of unknown topic"
            if first in (*self.unlisted, *self.closed):
                what = "cannot list a folder that may contain ledgers"
            reason = f"{what}{more}: {first.reason}; {advice}, `ledgerfs verify` lists all"
            raise type(first)(reason, key=first.key, offset=first.offset)

    def refusals(self) -> dict[tuple[int, int, int], LedgerfsError]:
        """Return {both halves of the uuid, and ledger id: the store's refusal}.

        Excludes ledgers of clusters and disks, which have no uuid; unreachable bookies have their own kind (`GapKind.END_UNKNOWN`).
        """
        unreadable = (one for fragments in self.fragments.values() for one in fragments.unreadable())
        refused = (one for one in unreadable if one.uuid and is_refusal(one.error))
        return {(*uuid_halves(one.uuid), one.ledger_id): one.error for one in refused}

    @property
    def is_empty(self) -> bool:
        """Whether the bucket has no objects of any layout."""
        return not (self.ledgers.size or self.lost.size) and all(one.is_empty for one in self.fragments.values())

    @property
    def managed_ledgers(self) -> list[str | None]:
        """The names with ledgers, even if all are missing or empty, in order."""
        return self._names_with(self.gaps["name"][self.gaps["kind"] != GapKind.BEING_WRITTEN])

    @property
    def known_names(self) -> list[str | None]:
        """The same and the names whose ledgers are all being written, for reports."""
        return self._names_with(self.gaps["name"])

    def topics(self) -> list[TopicInfo]:
        """Summarize each topic, sorted by managed-ledger name."""
        missing = self.gaps[self.gaps["kind"] != GapKind.BEING_WRITTEN]
        return topic_infos(self.names, self.ledgers, missing, self._without_entries())

    def has(self, managed_ledger: str | None) -> bool:
        """Return whether there are ledgers of this name, even if all of them are missing or empty."""
        return (
            len(self._rows_of(managed_ledger)) > 0
            or self.row_of(managed_ledger) in self._without_entries()
            or bool(self.missing_of(managed_ledger))
        )

    def knows(self, managed_ledger: str) -> bool:
        """Return whether there are ledgers of this name, even if all of them are missing, empty or being written."""
        row = self._name_rows.get(managed_ledger)
        if row is None:
            return False
        return len(self._rows_of(managed_ledger)) > 0 or row in self._without_entries() or self._gaps_of(row).size > 0

    def names_from(self, prefix: str) -> Iterator[str]:
        """Yield the names that begin with ``prefix``, in order, by bisection."""
        # The last of the sorted names may be None.
        end = len(self.names) - (None in self.names[-1:])
        for row in range(bisect_left(range(end), prefix, key=lambda row: self.names[row] or ""), end):
            name = self.names[row]
            if name is None or not name.startswith(prefix):
                return
            yield name

    def row_of(self, managed_ledger: str | None) -> int:
        """Return the row of a name; `UNKNOWN` for None and for missing names."""
        return UNKNOWN if managed_ledger is None else self._name_rows.get(managed_ledger, UNKNOWN)

    def missing_of(self, managed_ledger: str | None) -> tuple[MissingLedger, ...]:
        """Return the known but unreadable ledgers of one managed ledger, ascending by id; none for None."""
        found = () if managed_ledger is None else self.absent_of(managed_ledger)
        return tuple(one for one in found if one.kind is not GapKind.BEING_WRITTEN)

    def absent_of(self, managed_ledger: str | None) -> tuple[MissingLedger, ...]:
        """Return the same and the ledgers being written, which a copy of the bucket lacks; for None those of unknown topic."""
        row = self.row_of(managed_ledger)
        if row == UNKNOWN and managed_ledger is not None:
            # An unknown name has no ledgers, and must not get those of unknown topic.
            return ()
        return tuple(self._missing(self._gaps_of(row), managed_ledger))

    def unplaced(self) -> list[int]:
        """Return the ids of ledgers of unknown topic, without those being written."""
        gaps = self._gaps_of(UNKNOWN)
        found: list[int] = gaps["ledger_id"][gaps["kind"] != GapKind.BEING_WRITTEN].tolist()
        return found

    def being_written(self, managed_ledgers: Iterable[str | None]) -> list[MissingLedger]:
        """Return the ledgers of some managed ledgers that are probably being written; for None those of unknown topic."""
        wanted = set(managed_ledgers)
        found = self.gaps[self.gaps["kind"] == GapKind.BEING_WRITTEN]
        named = ((gap, None if gap["name"] == UNKNOWN else self.names[gap["name"]]) for gap in found)
        return [missing_of_row(gap, name, self.places[gap["place"]]) for gap, name in named if name in wanted]

    def _names_with(self, others: npt.NDArray[np.int32]) -> list[str | None]:
        """Return the names with ledgers, and the names of some other rows, in order."""
        is_there = np.diff(self._starts) > 0
        is_there[others[others != UNKNOWN]] = True
        is_there[list(self._without_entries())] = True
        return [self.names[row] for row in np.flatnonzero(is_there).tolist()]

    def is_without_entries(self, managed_ledger: str | None) -> bool:
        """Return whether the topic of this name has no entries, yet or any more."""
        return self.row_of(managed_ledger) in self._without_entries()

    def _without_entries(self) -> frozenset[int]:
        """Return the name rows of topics without entries."""
        return frozenset[int]().union(*(one.topics for one in self.fragments.values()))

    def _gaps_of(self, row: int) -> Table:
        low, high = np.searchsorted(self.gaps["name"], [row, row + 1])
        found: Table = self.gaps[low:high]
        return found

    def refs_of(self, managed_ledger: str | None) -> Iterator[LedgerRef]:
        """Yield the ledgers of one managed ledger, with all copies, ascending by id."""
        for ledger in self.table_of(managed_ledger):
            yield self.ref_of(ledger)

    def refs(self) -> Iterator[LedgerRef]:
        """Yield all ledgers, with all copies, in the order of the table."""
        for row in range(self.ledgers.size):
            yield self.ref(row)

    def copies_of(self, managed_ledger: str | None, ledger_id: int) -> list[LedgerRef]:
        """Return all copies of a ledger of a managed ledger, the one to read first; empty without any."""
        rows = self._rows_of(managed_ledger)
        ids = self.ledgers["ledger_id"]
        return [self.ref(row) for row in _equal_run(rows, ledger_id, lambda row: int(ids[row]))]

    def all_of(self, ledger_id: int) -> list[LedgerRef]:
        """Return all ledgers of this id, of all topics, with all copies."""
        ids, by_id = self.ledgers["ledger_id"], self._by_id
        found = _equal_run(range(by_id.size), ledger_id, lambda place: int(ids[by_id[place]]))
        return [self.ref(row) for row in sorted(by_id[found.start : found.stop].tolist())]

    def find(
        self, ledger_id: int, managed_ledgers: Sequence[str | None] | None = None, uuid: str | None = None
    ) -> LedgerRef:
        """Return the ledger of this id: its newest complete copy, or the one with ``uuid``.

        Raises `NotFoundError`, `MissingLedgerError` for a known but unreadable ledger, and `AmbiguousLedgerError` if several topics have a
        ledger of this id and ``managed_ledgers`` is not given.
        """
        refs = self.all_of(ledger_id)
        if managed_ledgers is not None:
            refs = [ref for ref in refs if ref.managed_ledger in managed_ledgers]
        refs = [ref for ref in refs if (ref.copy == 0 if uuid is None else ref.uuid == uuid)]
        if not refs:
            self._require_not_missing(ledger_id, managed_ledgers)
            raise NotFoundError(self._why_not(ledger_id), key=f"ledger {ledger_id}")
        if len({ref.managed_ledger for ref in refs}) > 1:
            topics = ", ".join(ref.topic for ref in refs)
            raise AmbiguousLedgerError(
                f"several topics have a ledger with this id; choose one topic: {topics}", key=f"ledger {ledger_id}"
            )
        return refs[0]

    def table_of(self, managed_ledger: str | None) -> Table:
        """Return the rows of ``ledgers`` of one managed ledger, ascending by id."""
        rows = self._rows_of(managed_ledger)
        found: Table = self.ledgers[rows.start : rows.stop]
        return found

    def ref(self, row: int) -> LedgerRef:
        """Return the value of one row of ``ledgers``."""
        return self.ref_of(self.ledgers[row])

    def ref_of(self, ledger: np.void) -> LedgerRef:
        """Return the value of one row of ``ledgers`` or ``lost``."""
        return ref_of_row(ledger, self.names[int(ledger["name"])], self.places[int(ledger["place"])])

    def _rows_of(self, managed_ledger: str | None) -> range:
        row = self._name_rows.get(managed_ledger)
        return range(0) if row is None else range(int(self._starts[row]), int(self._starts[row + 1]))

    def _require_not_missing(self, ledger_id: int, managed_ledgers: Sequence[str | None] | None) -> None:
        for row in np.flatnonzero(self.gaps["ledger_id"] == ledger_id).tolist():
            name = int(self.gaps["name"][row])
            is_meant = name >= 0 and (managed_ledgers is None or self.names[name] in managed_ledgers)
            if is_meant and self.gaps["kind"][row] != GapKind.BEING_WRITTEN:
                (missing,) = self._missing(self.gaps[row : row + 1], self.names[name])
                raise missing_error(missing.topic, [missing])

    def _missing(self, gaps: Table, managed_ledger: str | None) -> Iterator[MissingLedger]:
        refusals = self.refusals() if gaps.size else {}
        for gap in gaps:
            missing = missing_of_row(gap, managed_ledger, self.places[gap["place"]])
            key = (int(gap["uuid_high"]), int(gap["uuid_low"]), int(gap["ledger_id"]))
            refusal = refusals.get(key)
            yield replace(missing, refusal=refusal, is_skipped=refusal is not None and self.skips_refused)

    def _why_not(self, ledger_id: int) -> str:
        for (_, _, refused_id), error in self.refusals().items():
            if refused_id == ledger_id:
                raise error
        if (self.lost["ledger_id"] == ledger_id).any():
            return "its index is in the bucket, but its data object is missing"
        reported = (one.why_not(ledger_id) for one in self.fragments.values())
        return next((why for why in reported if why is not None), "no such ledger in this bucket")


def _equal_run(places: range, value: int, value_at: Callable[[int], int]) -> range:
    """Return the ``places`` with ``value``, by bisection of ascending values."""
    low = bisect_left(places, value, key=value_at)
    high = bisect_right(places, value, lo=low, key=value_at)
    return places[low:high]

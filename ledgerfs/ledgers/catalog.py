"""The catalog: every ledger of a bucket, as a table of columns.

A million ledgers are one numpy table of some 230 bytes a row, not a million objects; a `LedgerRef` is made from a row when somebody asks
for that ledger. A catalog never changes: a refresh makes a new one. It pickles.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import AmbiguousLedgerError, LedgerfsError, NotFoundError
from ledgerfs.formats.pulsar_blob.object_names import KeyKind, LedgerKey, uuid_from_halves, uuid_halves
from ledgerfs.formats.record_header import records_size
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.ledgers.missing_ledgers import GAP, UNKNOWN, GapKind, MissingLedger, missing_error, missing_of_row
from ledgerfs.ledgers.topic_infos import TopicInfo, topic_infos
from ledgerfs.storage.objects import ObjectStat

Table = npt.NDArray[np.void]

VERSION_BYTES = 64
"""More than an ETag of any store known; a longer one is not kept, and reads then do not check it."""

_KEY_COLUMNS = [("uuid_high", "u8"), ("uuid_low", "u8"), ("ledger_id", "i8")]

LISTED = np.dtype([*_KEY_COLUMNS, ("size", "i8"), ("modified_ms", "i8"), ("version", f"S{VERSION_BYTES}")])
"""A listed object of Pulsar's: row of a listing."""

UNASKED = -2

ORPHAN = np.dtype(
    [
        *LISTED.descr,
        # Row of Catalog.names, by user metadata; UNKNOWN where none tells it, UNASKED where the store did not answer.
        ("name", "i4"),
        ("is_of_job", "?"),  # written by a job that publishes several ledgers together
        ("has_copy", "?"),  # a complete ledger of this id begins with the same bytes and has as many
        # The ledger that was last compared with it: its uuid, 0 for none, and the version of its data object.
        ("near_high", "u8"),
        ("near_low", "u8"),
        ("near_version", f"S{VERSION_BYTES}"),
    ]
)
"""A data object without an index: row of a catalog."""

LEDGER = np.dtype(
    [
        *_KEY_COLUMNS,
        ("name", "i4"),  # row of Catalog.names
        ("copy", "i4"),  # 0: the one to read; 1, 2, …: further complete copies, then damaged ones
        ("last_entry", "i8"),
        ("length", "i8"),
        ("data_length", "i8"),
        ("blocks", "i4"),
        ("plausible", "?"),  # OffloadIndex.is_plausible
        ("odd_index", "?"),  # the index object's own length is not what its header says
        ("ordered", "?"),  # a broker wrote it, so its entries are nearly in the order of their times
        ("created_ms", "i8"),  # 0: unknown
        ("data_size", "i8"),  # -1: no data object
        ("data_modified_ms", "i8"),
        ("data_version", f"S{VERSION_BYTES}"),
        ("index_size", "i8"),
        ("uploaded_ms", "i8"),
        ("index_version", f"S{VERSION_BYTES}"),
    ]
)
"""A ledger: row of a catalog."""


@dataclass(frozen=True, slots=True)
class LedgerRef:
    """One ledger of the bucket, as far as listing and index tell.

    Attributes
    ----------
    managed_ledger
        Name of the managed ledger; None where nothing in the bucket tells it.
    copy
        0 for the copy to read; others are further uploads of the same ledger.
    length, data_length
        Bytes of all entries; bytes of the data object as the index tells it (``data.size`` is what the store tells).
    created_ms
        Creation of the ledger in BookKeeper, ms since 1970 UTC, or None.
    is_sound
        Whether sizes agree: false means that entries are missing or unreadable.
    is_ordered
        Whether a broker wrote it, so that its entries are nearly in the order of their publish times. What was imported has any order.

    """

    ledger_id: int
    uuid: str
    managed_ledger: str | None
    copy: int
    last_entry: int
    length: int
    data_length: int
    blocks: int
    created_ms: int | None
    data: ObjectStat
    index: ObjectStat
    is_sound: bool
    is_ordered: bool = False

    @property
    def topic(self) -> str:
        """Topic name as users know it."""
        return topic_of(self.managed_ledger)

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self.last_entry + 1

    @property
    def records_size(self) -> int:
        """Exact size of the ``.entries`` file, bytes."""
        return records_size(self.length, self.last_entry)

    def agrees_with(self, other: "LedgerRef") -> bool:
        """Whether two indexes of one ledger claim the same entries, bytes and creation, where both tell that."""
        created = {self.created_ms, other.created_ms} - {None}
        return (self.last_entry, self.length) == (other.last_entry, other.length) and len(created) <= 1

    @property
    def uploaded_ms(self) -> int:
        """When the index object, and so the ledger, was complete in the bucket; ms since 1970 UTC."""
        return self.index.modified_ms


@dataclass(frozen=True, slots=True)
class BadIndex:
    """An index object that could not be read or parsed, and why.

    Attributes
    ----------
    managed_ledger
        Its topic's, where user metadata tells it.
    has_copy
        Whether a complete ledger of this id and topic has the same data object, as far as size and first bytes tell.

    """

    key: LedgerKey
    error: LedgerfsError
    managed_ledger: str | None = None
    has_copy: bool = False


@dataclass(frozen=True, slots=True)
class OtherKeys:
    """Keys that are no V1 object: how many of each kind, and the first names."""

    counts: dict[KeyKind, int] = field(default_factory=dict)
    names: dict[KeyKind, list[str]] = field(default_factory=dict)

    MAX_NAMES = 1000

    def add(self, kind: KeyKind, key: str) -> None:
        """Count a key."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        names = self.names.setdefault(kind, [])
        if len(names) < self.MAX_NAMES:
            names.append(key)


@dataclass(frozen=True, slots=True)
class Catalog:
    """All ledgers of a bucket.

    Attributes
    ----------
    names
        Managed-ledger names, sorted; None (no name known) is the last.
    ledgers
        Rows of `LEDGER` with a data object, sorted by name, ledger id, copy.
    lost
        Rows of `LEDGER` whose data object is gone.
    orphans
        Rows of `ORPHAN`: data objects without an index.
    bad_indexes, others
        What else is in the bucket.
    gaps
        Rows of `GAP`, sorted by name and ledger id: what all of that means for those who read topics.

    """

    names: tuple[str | None, ...]
    ledgers: Table
    lost: Table
    orphans: Table
    bad_indexes: tuple[BadIndex, ...]
    others: OtherKeys
    _name_rows: dict[str | None, int] = field(repr=False)
    _starts: npt.NDArray[np.int64] = field(repr=False)
    _by_id: npt.NDArray[np.int64] = field(repr=False)
    gaps: Table = field(default_factory=lambda: np.empty(0, GAP))

    @classmethod
    def of(
        cls, names: list[str | None], ledgers: Table, orphans: Table, bad_indexes: list[BadIndex], others: OtherKeys
    ) -> "Catalog":
        """Sort and rank rows of `LEDGER` (with and without data object) whose ``name`` is a row of ``names``."""
        order = sorted(range(len(names)), key=lambda i: (names[i] is None, names[i] or ""))
        new_row = np.empty(len(names), np.int32)
        new_row[order] = np.arange(len(names), dtype=np.int32)
        ledgers["name"] = new_row[ledgers["name"]]
        is_named = orphans["name"] >= 0
        orphans["name"][is_named] = new_row[orphans["name"][is_named]]
        has_data = ledgers["data_size"] >= 0
        table = _ranked(ledgers[has_data])
        ranked_names = tuple(names[i] for i in order)
        return cls.of_ranked(ranked_names, table, ledgers[~has_data], orphans, bad_indexes=bad_indexes, others=others)

    @classmethod
    def of_ranked(
        cls,
        names: tuple[str | None, ...],
        ledgers: Table,
        lost: Table,
        orphans: Table,
        *,
        bad_indexes: Iterable[BadIndex] = (),
        others: OtherKeys,
        gaps: Table | None = None,
    ) -> "Catalog":
        """Index what `of` sorted and ranked."""
        return cls(
            names=names,
            ledgers=ledgers,
            lost=lost,
            orphans=orphans,
            bad_indexes=tuple(bad_indexes),
            others=others,
            _name_rows={name: row for row, name in enumerate(names)},
            _starts=np.searchsorted(ledgers["name"], np.arange(len(names) + 1)),
            _by_id=np.argsort(ledgers["ledger_id"]),
            gaps=np.empty(0, GAP) if gaps is None else gaps,
        )

    @property
    def is_empty(self) -> bool:
        """Whether the bucket holds nothing of Pulsar's."""
        return not (self.ledgers.size or self.lost.size or self.orphans.size or self.bad_indexes)

    @property
    def managed_ledgers(self) -> list[str | None]:
        """The names that have ledgers, be it that these are missing, in order."""
        with_missing = set(self.gaps["name"][self.gaps["kind"] != GapKind.BEING_WRITTEN].tolist())
        return [
            name
            for row, name in enumerate(self.names)
            if self._starts[row] < self._starts[row + 1] or row in with_missing
        ]

    def topics(self) -> list[TopicInfo]:
        """Sum up each topic, sorted by managed-ledger name."""
        return topic_infos(self.names, self.ledgers, self.gaps[self.gaps["kind"] != GapKind.BEING_WRITTEN])

    def has(self, managed_ledger: str | None) -> bool:
        """Whether there are ledgers of this name, be it that all of them are missing."""
        return len(self._rows_of(managed_ledger)) > 0 or bool(self.missing_of(managed_ledger))

    def row_of(self, managed_ledger: str | None) -> int:
        """Return the row of a name; `UNKNOWN` for None, and for one that is not there."""
        return UNKNOWN if managed_ledger is None else self._name_rows.get(managed_ledger, UNKNOWN)

    def missing_of(self, managed_ledger: str | None) -> tuple[MissingLedger, ...]:
        """Return the ledgers of one managed ledger that the bucket knows of and cannot deliver, ascending by id."""
        gaps = self._gaps_of(self.row_of(managed_ledger)) if managed_ledger is not None else self.gaps[:0]
        return tuple(missing_of_row(gap, managed_ledger) for gap in gaps if gap["kind"] != GapKind.BEING_WRITTEN)

    def unplaced(self) -> list[int]:
        """Return the ids of the ledgers of which nothing tells the topic; those that are being written left out."""
        gaps = self._gaps_of(UNKNOWN)
        found: list[int] = gaps["ledger_id"][gaps["kind"] != GapKind.BEING_WRITTEN].tolist()
        return found

    def being_written(self, managed_ledger: str | None) -> int:
        """Return how many ledgers of one managed ledger, or of one that nobody can tell, seem to be written just now."""
        rows = {UNKNOWN, self.row_of(managed_ledger)}
        return sum(int((self._gaps_of(row)["kind"] == GapKind.BEING_WRITTEN).sum()) for row in rows)

    def _gaps_of(self, row: int) -> Table:
        low, high = np.searchsorted(self.gaps["name"], [row, row + 1])
        found: Table = self.gaps[low:high]
        return found

    def refs_of(self, managed_ledger: str | None) -> Iterator[LedgerRef]:
        """Yield the ledgers of one managed ledger, ascending by id, all copies."""
        for row in self._rows_of(managed_ledger):
            yield self.ref(row)

    def refs(self) -> Iterator[LedgerRef]:
        """Yield every ledger, all copies, in the order of the table."""
        for row in range(self.ledgers.size):
            yield self.ref(row)

    def copies_of(self, managed_ledger: str | None, ledger_id: int) -> list[LedgerRef]:
        """Return all copies of one ledger of one managed ledger, that to be read first; empty when there is none."""
        rows = self._rows_of(managed_ledger)
        ids = self.ledgers["ledger_id"]
        return [self.ref(row) for row in _equal_run(rows, ledger_id, lambda row: int(ids[row]))]

    def all_of(self, ledger_id: int) -> list[LedgerRef]:
        """Return every ledger of this id, of whatever topic, and all its copies."""
        ids, by_id = self.ledgers["ledger_id"], self._by_id
        found = _equal_run(range(by_id.size), ledger_id, lambda place: int(ids[by_id[place]]))
        return [self.ref(row) for row in sorted(by_id[found.start : found.stop].tolist())]

    def find(
        self, ledger_id: int, managed_ledgers: Sequence[str | None] | None = None, uuid: str | None = None
    ) -> LedgerRef:
        """Return the ledger of this id, its newest complete copy unless ``uuid`` names another.

        Raises `NotFoundError`, `MissingLedgerError` for one that the bucket knows of and cannot deliver, and `AmbiguousLedgerError` when
        several topics have such a ledger and ``managed_ledgers`` names none.
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
                f"several topics have this ledger id, name one: {topics}", key=f"ledger {ledger_id}"
            )
        return refs[0]

    def ref(self, row: int) -> LedgerRef:
        """Make the value of one row of ``ledgers``."""
        return self.ref_of(self.ledgers[row])

    def ref_of(self, ledger: np.void) -> LedgerRef:
        """Make the value of one row of ``ledgers`` or ``lost``."""
        return ref_of_row(ledger, self.names[int(ledger["name"])])

    def _rows_of(self, managed_ledger: str | None) -> range:
        row = self._name_rows.get(managed_ledger)
        return range(0) if row is None else range(int(self._starts[row]), int(self._starts[row + 1]))

    def _require_not_missing(self, ledger_id: int, managed_ledgers: Sequence[str | None] | None) -> None:
        for row in np.flatnonzero(self.gaps["ledger_id"] == ledger_id).tolist():
            name = int(self.gaps["name"][row])
            is_meant = name >= 0 and (managed_ledgers is None or self.names[name] in managed_ledgers)
            if is_meant and self.gaps["kind"][row] != GapKind.BEING_WRITTEN:
                missing = missing_of_row(self.gaps[row], self.names[name])
                raise missing_error(missing.topic, [missing])

    def _why_not(self, ledger_id: int) -> str:
        if (self.lost["ledger_id"] == ledger_id).any():
            return "its index is in the bucket, its data object is not"
        if (self.orphans["ledger_id"] == ledger_id).any():
            return "its data object is in the bucket, but no index: the upload is unfinished or failed"
        for bad in self.bad_indexes:
            if bad.key.ledger_id == ledger_id:
                raise bad.error
        return "no such ledger in this bucket"


def ref_of_row(ledger: np.void, managed_ledger: str | None) -> LedgerRef:
    """Make the value of one row of `LEDGER`, whose name is known."""
    # All fields at once: one by one, each would be an object of numpy's first.
    row = cast("tuple[Any, ...]", ledger.item())
    high, low, ledger_id, _, copy, last_entry, length, data_length, blocks, plausible, _, ordered, *stored = row
    created_ms, data_size, data_ms, data_version, index_size, uploaded_ms, index_version = stored
    key = LedgerKey(uuid_from_halves(high, low), ledger_id, is_index=False)
    return LedgerRef(
        ledger_id=ledger_id,
        uuid=key.uuid,
        managed_ledger=managed_ledger,
        copy=copy,
        last_entry=last_entry,
        length=length,
        data_length=data_length,
        blocks=blocks,
        created_ms=created_ms or None,
        data=ObjectStat(key.data_key, data_size, data_ms, data_version.decode()),
        index=ObjectStat(key.index_key, index_size, uploaded_ms, index_version.decode()),
        is_sound=bool(plausible and data_size == data_length),
        is_ordered=bool(ordered),
    )


def is_sound(rows: Table | np.void) -> npt.NDArray[np.bool_]:
    """Return for rows of `LEDGER` whether index and size of the data object agree with each other."""
    sound: npt.NDArray[np.bool_] = rows["plausible"] & (rows["data_size"] == rows["data_length"])
    return sound


def agree(left: Table | np.void, right: Table | np.void) -> npt.NDArray[np.bool_]:
    """Return for rows of `LEDGER` what `LedgerRef.agrees_with` does."""
    one, other = left["created_ms"], right["created_ms"]
    same: npt.NDArray[np.bool_] = (
        (left["last_entry"] == right["last_entry"])
        & (left["length"] == right["length"])
        & ((one == other) | (one == 0) | (other == 0))
    )
    return same


def key_of(row: np.void) -> LedgerKey:
    """Return the names of the objects of a row of `LEDGER` or `LISTED`."""
    return LedgerKey(
        uuid_from_halves(int(row["uuid_high"]), int(row["uuid_low"])), int(row["ledger_id"]), is_index=False
    )


def keys_of(rows: Table) -> list[LedgerKey]:
    """Return the names of the objects of many rows."""
    columns = (rows[name].tolist() for name, _ in _KEY_COLUMNS)
    return [
        LedgerKey(uuid_from_halves(high, low), ledger, is_index=False)
        for high, low, ledger in zip(*columns, strict=True)
    ]


def listed_row(key: LedgerKey, stat: ObjectStat) -> tuple[int, int, int, int, int, bytes]:
    """Return the row of `LISTED` for one object."""
    version = stat.version.encode()
    kept = version if len(version) <= VERSION_BYTES else b""
    return (*uuid_halves(key.uuid), key.ledger_id, stat.size, stat.modified_ms, kept)


def match_rows(left: Table, right: Table) -> npt.NDArray[np.int64]:
    """Return for each row of ``left`` the row of ``right`` with the same uuid and ledger id, or -1; no key occurs twice on one side."""
    high, low, ledger = (np.concatenate([left[name], right[name]]) for name, _ in _KEY_COLUMNS)
    side = np.repeat([0, 1], [left.size, right.size])
    order = np.lexsort((side, ledger, low, high))
    first, second = order[:-1], order[1:]
    same = (high[first] == high[second]) & (low[first] == low[second]) & (ledger[first] == ledger[second])
    pair = same & (side[first] == 0) & (side[second] == 1)
    matches = np.full(left.size, -1, np.int64)
    matches[first[pair]] = second[pair] - left.size
    return matches


def _ranked(table: Table) -> Table:
    """Sort by name and ledger id, and number the copies of each ledger: complete ones first, newest first."""
    keys = (
        table["uuid_low"],
        table["uuid_high"],
        -table["uploaded_ms"],
        ~is_sound(table),
        table["ledger_id"],
        table["name"],
    )
    table = table[np.lexsort(keys)]
    if table.size:
        begins = np.append(True, (np.diff(table["ledger_id"]) != 0) | (np.diff(table["name"]) != 0))
        starts = np.flatnonzero(begins)
        table["copy"] = np.arange(table.size) - np.repeat(starts, np.diff(np.append(starts, table.size)))
    return table


def _equal_run(places: range, value: int, value_at: Callable[[int], int]) -> range:
    """Return those of ``places`` that have ``value``, where values ascend; looks at a few of them only."""
    low = bisect_left(places, value, key=value_at)
    high = bisect_right(places, value, lo=low, key=value_at)
    return places[low:high]

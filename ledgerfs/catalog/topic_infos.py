"""Sum the ledgers, entries and bytes of each topic, from the catalog's tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog_rows import Table
from ledgerfs.catalog.time_arguments import iso_time, time_of
from ledgerfs.display import html_table, printable
from ledgerfs.formats.topic_names import topic_of

_NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """The ledgers, entries and bytes of one topic.

    Attributes
    ----------
    name
        ``persistent://tenant/namespace/topic``; the managed ledger's own name outside of all topics.
    ledgers, entries, bytes
        Number of ledgers, and of their entries and bytes, without further copies.
    created_ms
        Creation of the oldest ledger, ms since 1970 UTC, or None.
    newest_ms
        Creation of the newest ledger, ms since 1970 UTC, or None.
    uploaded_ms
        Upload of the newest ledger, ms since 1970 UTC.
    missing
        Missing ledgers (`Catalog.missing_of`), not counted above.

    """

    name: str
    managed_ledger: str | None
    ledgers: int
    entries: int
    bytes: int
    created_ms: int | None
    uploaded_ms: int
    missing: int = 0
    newest_ms: int | None = None

    def __repr__(self) -> str:
        missing = f", {self.missing:,} ledgers missing" if self.missing else ""
        counts = f"{self.ledgers:,} ledgers, {self.entries:,} entries, {self.bytes:,} bytes"
        return f"<{printable(self.name)}: {counts}{missing}>"

    @property
    def created(self) -> datetime | None:
        """``created_ms`` as a time in UTC."""
        return time_of(self.created_ms)

    @property
    def uploaded(self) -> datetime | None:
        """``uploaded_ms`` as a time in UTC; None outside Python's calendar."""
        return time_of(self.uploaded_ms)


class TopicInfos(list[TopicInfo]):
    """A list of `TopicInfo`, which a notebook shows as a table with a caption."""

    __slots__ = ("_caption",)

    def __init__(self, infos: Iterable[TopicInfo], caption: str) -> None:
        super().__init__(infos)
        self._caption = caption

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (list(self), self._caption))

    def _repr_html_(self) -> str:
        if not self:
            return html_table(self._caption, (), ())
        heads = ("topic", "ledgers", "entries", "bytes", "created", "uploaded", "missing")
        rows = (
            (one.name, one.ledgers, one.entries, one.bytes, iso_time(one.created_ms), iso_time(one.uploaded_ms or None), one.missing)
            for one in self
        )  # fmt: skip
        return html_table(f"{self._caption}: {len(self):,} topics", heads, rows)


def topic_infos(names: Sequence[str | None], ledgers: Table, missing: Table, empty: Iterable[int]) -> list[TopicInfo]:
    """Summarize each topic, sorted by managed-ledger name; ``empty`` are names without entries.

    ``ledgers`` are rows of `ledgerfs.catalog.catalog.LEDGER`, counted if ``copy`` is 0; ``missing`` are rows of
    `ledgerfs.catalog.missing_ledgers.GAP`. Both are sorted by ``name``, a row of ``names``.
    """
    rows, counts = np.unique(missing["name"], return_counts=True)
    gaps: dict[int, int] = dict(zip(rows.tolist(), counts.tolist(), strict=True))
    found = {row: (0, 0, 0, _NEVER, 0, 0) for row in (*gaps, *empty) if row >= 0} | _sums(ledgers)
    return [
        TopicInfo(
            name=topic_of(names[row]),
            managed_ledger=names[row],
            ledgers=count,
            entries=entries,
            bytes=size,
            created_ms=created if created < _NEVER else None,
            uploaded_ms=uploaded,
            missing=gaps.get(row, 0),
            newest_ms=newest or None,
        )
        for row, (count, entries, size, created, uploaded, newest) in sorted(found.items())
    ]


def _sums(ledgers: Table) -> dict[int, tuple[int, int, int, int, int, int]]:
    """Return {row of a name: (ledgers, entries, bytes, first creation, last upload, last creation)}."""
    is_primary = ledgers["copy"] == 0

    def column(name: str) -> npt.NDArray[np.int64]:
        # Column by column: a copy of all rows would double the memory.
        values: npt.NDArray[np.int64] = ledgers[name][is_primary]
        return values

    rows, starts, counts = np.unique(column("name"), return_index=True, return_counts=True)
    if not rows.size:
        return {}
    # Python integers: sums of hostile 63-bit lengths must not wrap.
    entries = _exact_sums(column("last_entry") - column("first_entry"), starts) + counts
    sizes = _exact_sums(column("length"), starts)
    created = column("created_ms")
    last = np.maximum.reduceat(np.maximum(created, 0), starts)
    created[created <= 0] = _NEVER
    oldest = np.minimum.reduceat(created, starts)
    newest = np.maximum.reduceat(column("changed_ms"), starts)
    sums = zip(counts, entries, sizes, oldest, newest, last, strict=True)
    return {
        int(row): (int(n), int(e), int(size), int(first), int(u), int(final))
        for row, (n, e, size, first, u, final) in zip(rows, sums, strict=True)
    }


def _exact_sums(column: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
    """Sum each group without overflow: by 32-bit halves."""
    high = np.add.reduceat(column >> 32, starts).astype(object)
    low = np.add.reduceat(column & 0xFFFF_FFFF, starts).astype(object)
    sums: npt.NDArray[np.object_] = high * 2**32 + low
    return sums

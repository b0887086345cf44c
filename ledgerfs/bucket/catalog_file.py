"""The catalog of a bucket as a file: raw tables, so that a million ledgers load as fast as the disk reads them.

Each choice of layouts has a file of its own. Bad indexes are not in it: the next listing finds them again, and a catalog with bad indexes
is never used without a listing.
"""

import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np

from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.cache.kept_file import KeptFile, read_array, write_array
from ledgerfs.cache.sealed_file import SealedWriter
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER, Table
from ledgerfs.catalog.layouts_known import is_known, layout_rows
from ledgerfs.catalog.missing_ledgers import GAP, UNKNOWN
from ledgerfs.catalog.remains import Kept, OtherKeys
from ledgerfs.errors import InvalidOptionError

_HEADER = Struct("<qQ")  # when it was listed, ms since 1970; bytes of text
_TABLES = {"ledgers": LEDGER, "lost": LEDGER, "gaps": GAP}
_LAYOUT = (6, *(kind.descr for kind in _TABLES.values()))
_NEVER = -1
_MAX_AGE_VARIABLE = "LEDGERFS_CATALOG_MAX_AGE"
_COMPARED = 4 << 20

REWRITE_SECONDS = 60.0
"""A catalog with the same tables as the file, and a later time, is written only after so many seconds."""


def max_age_of(given: float | None) -> float:
    """Return how many seconds old a listing may be: by the option, else by the environment, else 0. Raises `InvalidOptionError`."""
    text = os.environ.get(_MAX_AGE_VARIABLE) or "0"
    place = "catalog_max_age" if given is not None else _MAX_AGE_VARIABLE
    try:
        age = float(text if given is None else given)
    except (TypeError, ValueError):
        age = math.nan
    if not age >= 0:
        raise InvalidOptionError("not a number of seconds", key=f"{place}={text if given is None else given}")
    return age


class ListedCatalog(NamedTuple):
    """A catalog, and when the bucket was listed for it, ms since 1970; negative if it must not be used without a listing."""

    catalog: Catalog
    listed_ms: int


class CatalogFile:
    """The kept catalog of one bucket.

    Parameters
    ----------
    files
        Where it is.
    identity
        The bucket's (`Bucket.identity`).
    layouts
        Names of those that it is listed in: in others it has other ledgers.

    """

    __slots__ = ("_file", "_last")

    def __init__(self, files: DiskFiles, identity: str, layouts: Sequence[str]) -> None:
        self._file = KeptFile(files, "catalog", f"{identity} {','.join(layouts)}", _LAYOUT)
        self._last: ListedCatalog | None = None

    def load(self, max_age: float | None = None) -> Catalog | None:
        """Return the kept catalog; with ``max_age`` only if it was listed less than so many seconds ago. Otherwise None."""

        def parse(descriptor: int, size: int) -> ListedCatalog | None:
            listed_ms, text_bytes = _HEADER.unpack(os.pread(descriptor, _HEADER.size, 0))
            if max_age is not None and not _is_younger(listed_ms, max_age):
                return None
            return ListedCatalog(_read(descriptor, size, text_bytes), listed_ms)

        loaded = self._file.load(parse)
        if loaded is None:
            return None
        self._last = loaded
        return loaded.catalog

    def save(self, catalog: Catalog, listed_ms: int) -> None:
        """Keep a catalog, if it differs from the one in the file."""
        listed = ListedCatalog(
            catalog, listed_ms if all(one.is_lasting for one in catalog.remains.values()) else _NEVER
        )
        if self._last is not None and _says_no_more(listed, self._last):
            return

        def write(sink: SealedWriter) -> None:
            text = _text_of(catalog)
            sink.write(_HEADER.pack(listed.listed_ms, len(text)))
            sink.write(text)
            for table in _tables_of(catalog):
                write_array(sink, table)

        if self._file.save(write):
            self._last = listed


def _is_younger(listed_ms: int, max_age: float) -> bool:
    """Whether a time is less than so many seconds ago; a time in the future (the clock was set back) is not."""
    return listed_ms >= 0 and 0 <= time.time() - listed_ms / 1000 < max_age


def _says_no_more(new: ListedCatalog, old: ListedCatalog) -> bool:
    is_near = (new.listed_ms < 0) == (old.listed_ms < 0) and 0 <= new.listed_ms - old.listed_ms < REWRITE_SECONDS * 1000
    return (
        is_near
        and _text_of(new.catalog) == _text_of(old.catalog)
        and all(map(_is_same, _tables_of(new.catalog), _tables_of(old.catalog)))
    )


def _is_same(left: Table, right: Table) -> bool:
    if left.size != right.size:
        return False
    one, other = (np.ascontiguousarray(table).view(np.uint8).data for table in (left, right))
    return all(one[at : at + _COMPARED] == other[at : at + _COMPARED] for at in range(0, len(one), _COMPARED))


def _kept_of(catalog: Catalog) -> Iterator[tuple[int, Kept]]:
    """Yield each layout's number and what is kept of its remains."""
    for number, remains in sorted(catalog.remains.items()):
        yield number, layout_rows(number).kept(remains)


def _tables_of(catalog: Catalog) -> list[Table]:
    own = (table for _, kept in _kept_of(catalog) for table in kept.tables.values())
    return [*(getattr(catalog, name) for name in _TABLES), *own]


def _text_of(catalog: Catalog) -> bytes:
    """Return everything except the tables as text, with the number of rows of each table."""
    others = {kind: (count, catalog.others.names[kind]) for kind, count in catalog.others.counts.items()}
    rows = [getattr(catalog, name).size for name in _TABLES]
    remains = [
        (number, kept.told, {name: table.size for name, table in kept.tables.items()})
        for number, kept in _kept_of(catalog)
    ]
    return json.dumps([catalog.names, catalog.places, others, rows, remains]).encode()


def _read(descriptor: int, size: int, text_bytes: int) -> Catalog:
    """Read what `CatalogFile.save` wrote; raises `ValueError` if it contradicts itself."""
    if text_bytes > size - _HEADER.size:
        raise ValueError("its size and its text differ")
    text = np.empty(text_bytes, np.uint8)
    at = read_array(descriptor, _HEADER.size, text)
    names, places, others, rows, told_remains = json.loads(text.tobytes())
    wanted = list(zip(_TABLES.values(), rows, strict=True))
    if not all(is_known(number) for number, _, _ in told_remains):
        raise ValueError("its layouts are not those of this place")
    for number, _, counts in told_remains:
        kinds = layout_rows(number).KEPT_TABLES
        wanted += [(kinds[name], count) for name, count in counts.items()]
    if size != at + sum(kind.itemsize * count for kind, count in wanted):
        raise ValueError("its size and its counts differ")
    tables = []
    for kind, count in wanted:
        tables.append(np.empty(count, kind))
        at = read_array(descriptor, at, tables[-1])
    ledgers, lost, gaps, *own = tables
    _require_inside(len(names), len(places), ledgers, lost, gaps)
    remains = {}
    for number, told, counts in told_remains:
        remains[number] = layout_rows(number).remains_of_kept(Kept(told, {name: own.pop(0) for name in counts}))
    other_keys = OtherKeys(
        {kind: one[0] for kind, one in others.items()}, {kind: one[1] for kind, one in others.items()}
    )
    return Catalog.of_ranked(tuple(names), ledgers, lost, remains, others=other_keys, places=places, gaps=gaps)


def _require_inside(names: int, places: int, *tables: Table) -> None:
    """Raise `ValueError` if rows refer to names, places or layouts that do not exist."""
    for table in tables:
        for column, count in (("name", names), ("place", places)):
            if table.size and not (table[column].min() >= UNKNOWN and table[column].max() < count):
                raise ValueError(f"rows have a {column} that is not there")
        if not all(map(is_known, np.unique(table["layout"]).tolist())):
            raise ValueError("rows have a layout that is not there")

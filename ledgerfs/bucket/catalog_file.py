"""The cached catalog of a bucket: a file of raw tables, so that a million ledgers load at the speed of the disk.

Each set of layouts has a separate file. It omits damaged indexes: the next listing finds them again, and a catalog with damaged indexes is
never used without a listing.
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
from ledgerfs.catalog.fragments import Kept, OtherKeys
from ledgerfs.catalog.layouts_known import is_known, layout_rows
from ledgerfs.catalog.missing_ledgers import GAP, UNKNOWN
from ledgerfs.errors import InvalidOptionError

_HEADER = Struct("<qQ")  # time of the listing, ms since 1970; bytes of text
_TABLES = {"ledgers": LEDGER, "lost": LEDGER, "gaps": GAP}
_LAYOUT = (6, *(kind.descr for kind in _TABLES.values()))
_NEVER = -1
_MAX_AGE_VARIABLE = "LEDGERFS_CATALOG_MAX_AGE"
_COMPARED = 4 << 20

REWRITE_SECONDS = 60.0
"""Least age in seconds of a file that is rewritten only for a later time of listing, with the same tables."""


def max_age_of(given: float | None) -> float:
    """Return the maximum age of a listing in seconds: by the option, else the environment, else 0. Raises `InvalidOptionError`."""
    text = os.environ.get(_MAX_AGE_VARIABLE) or "0"
    place = "catalog_max_age" if given is not None else _MAX_AGE_VARIABLE
    try:
        age = float(text if given is None else given)
    except (TypeError, ValueError):
        age = math.nan
    if not age >= 0:
        raise InvalidOptionError(
            "expected a number of seconds, 0 or more", key=f"{place}={text if given is None else given}"
        )
    return age


class ListedCatalog(NamedTuple):
    """A catalog, and the time of its listing, ms since 1970; negative if it must not be used without a listing."""

    catalog: Catalog
    listed_ms: int


class CatalogFile:
    """The cached catalog of one bucket.

    Parameters
    ----------
    files
        The folder of the file.
    identity
        The bucket's identity (`Bucket.identity`).
    layouts
        Names of the layouts of the listing; with others the bucket has other ledgers.

    """

    __slots__ = ("_file", "_last")

    def __init__(self, files: DiskFiles, identity: str, layouts: Sequence[str]) -> None:
        self._file = KeptFile(files, "catalog", f"{identity} {','.join(layouts)}", _LAYOUT)
        self._last: ListedCatalog | None = None

    def load(self, max_age: float | None = None) -> Catalog | None:
        """Return the cached catalog, or None; with ``max_age`` only if it was listed less than so many seconds ago."""

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
        """Write a catalog, if it differs from the one in the file."""
        listed = ListedCatalog(
            catalog, listed_ms if all(one.is_lasting for one in catalog.fragments.values()) else _NEVER
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
    """Return whether a time is less than so many seconds ago; false for a time in the future (the clock was set back)."""
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
    """Yield the number of each layout, and its other objects in cached form."""
    for number, fragments in sorted(catalog.fragments.items()):
        yield number, layout_rows(number).kept(fragments)


def _tables_of(catalog: Catalog) -> list[Table]:
    own = (table for _, kept in _kept_of(catalog) for table in kept.tables.values())
    return [*(getattr(catalog, name) for name in _TABLES), *own]


def _text_of(catalog: Catalog) -> bytes:
    """Return everything but the tables as JSON, with the number of rows of each table."""
    others = {kind: (count, catalog.others.names[kind]) for kind, count in catalog.others.counts.items()}
    rows = [getattr(catalog, name).size for name in _TABLES]
    fragments = [
        (number, kept.reported, {name: table.size for name, table in kept.tables.items()})
        for number, kept in _kept_of(catalog)
    ]
    return json.dumps([catalog.names, catalog.places, others, rows, fragments]).encode()


def _read(descriptor: int, size: int, text_bytes: int) -> Catalog:
    """Read the output of `CatalogFile.save`; raises `ValueError` if it is inconsistent."""
    if text_bytes > size - _HEADER.size:
        raise ValueError("its size does not match the length of its text")
    text = np.empty(text_bytes, np.uint8)
    at = read_array(descriptor, _HEADER.size, text)
    names, places, others, rows, reported_fragments = json.loads(text.tobytes())
    wanted = list(zip(_TABLES.values(), rows, strict=True))
    if not all(is_known(number) for number, _, _ in reported_fragments):
        raise ValueError("it contains layouts that this bucket was not opened with")
    for number, _, counts in reported_fragments:
        kinds = layout_rows(number).KEPT_TABLES
        wanted += [(kinds[name], count) for name, count in counts.items()]
    if size != at + sum(kind.itemsize * count for kind, count in wanted):
        raise ValueError("its size does not match its row counts")
    tables = []
    for kind, count in wanted:
        tables.append(np.empty(count, kind))
        at = read_array(descriptor, at, tables[-1])
    ledgers, lost, gaps, *own = tables
    _require_inside(len(names), len(places), ledgers, lost, gaps)
    fragments = {}
    for number, reported, counts in reported_fragments:
        fragments[number] = layout_rows(number).fragments_of_kept(Kept(reported, {name: own.pop(0) for name in counts}))
    other_keys = OtherKeys(
        {kind: one[0] for kind, one in others.items()}, {kind: one[1] for kind, one in others.items()}
    )
    return Catalog.of_ranked(tuple(names), ledgers, lost, fragments, others=other_keys, places=places, gaps=gaps)


def _require_inside(names: int, places: int, *tables: Table) -> None:
    """Raise `ValueError` if rows refer to names, places or layouts that do not exist."""
    for table in tables:
        for column, count in (("name", names), ("place", places)):
            if table.size and not (table[column].min() >= UNKNOWN and table[column].max() < count):
                raise ValueError(f"rows refer to a {column} that does not exist")
        # np.unique would import numpy.ma.
        if not all(map(is_known, set(table["layout"].tolist()))):
            raise ValueError("rows refer to an unknown layout")

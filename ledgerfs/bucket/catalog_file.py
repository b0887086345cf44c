"""The catalog of a bucket as a file: raw tables, so that a million ledgers are there as fast as the disk reads them.

Bad indexes are not in it: the next listing finds them again, and a catalog that had some is never used without a listing.
"""

import json
import math
import os
import time
from struct import Struct
from typing import NamedTuple

import numpy as np

from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.kept_file import KeptFile, read_table, write_table
from ledgerfs.cache.sealed_file import SealedWriter
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.pulsar_blob.object_names import KeyKind
from ledgerfs.ledgers.catalog import LEDGER, ORPHAN, Catalog, OtherKeys, Table
from ledgerfs.ledgers.missing_ledgers import GAP

_HEADER = Struct("<qQQQQQ")  # when it was listed, ms since 1970; bytes of text; rows of the four tables
_TABLES = {"ledgers": LEDGER, "lost": LEDGER, "orphans": ORPHAN, "gaps": GAP}
_LAYOUT = (2, *(kind.descr for kind in _TABLES.values()))
_NEVER = -1
_MAX_AGE_VARIABLE = "LEDGERFS_CATALOG_MAX_AGE"
_COMPARED = 4 << 20

REWRITE_SECONDS = 60.0
"""A catalog that says the same as the one in the file is written anew, with its later time, only so long after that."""


def max_age_of(given: float | None) -> float:
    """Return for how many seconds a listing is good enough, by the option, else the environment, else 0."""
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
    """A catalog, and when the bucket was listed for it, ms since 1970; negative where it is not to be used without a listing."""

    catalog: Catalog
    listed_ms: int


class CatalogFile:
    """The kept catalog of one bucket.

    Parameters
    ----------
    folder
        Where the file lies.
    identity
        What the bucket is known by.

    """

    __slots__ = ("_file", "_last")

    def __init__(self, folder: CacheFolder, identity: str) -> None:
        self._file = KeptFile(folder, "catalog", identity, _LAYOUT)
        self._last: ListedCatalog | None = None

    def load(self, max_age: float | None = None) -> Catalog | None:
        """Return the kept catalog, with ``max_age`` only one that was listed less than so many seconds ago."""

        def parse(descriptor: int, size: int) -> ListedCatalog | None:
            listed_ms, text_bytes, *counts = _HEADER.unpack(os.pread(descriptor, _HEADER.size, 0))
            if max_age is not None and not _is_younger(listed_ms, max_age):
                return None
            return ListedCatalog(_read(descriptor, size, text_bytes, counts), listed_ms)

        loaded = self._file.load(parse)
        if loaded is None:
            return None
        self._last = loaded
        return loaded.catalog

    def save(self, catalog: Catalog, listed_ms: int) -> None:
        """Keep a catalog, if it says more than the one in the file."""
        listed = ListedCatalog(catalog, _NEVER if catalog.bad_indexes else listed_ms)
        if self._last is not None and _says_no_more(listed, self._last):
            return

        def write(sink: SealedWriter) -> None:
            tables = [getattr(catalog, name) for name in _TABLES]
            text = _text_of(catalog)
            sink.write(_HEADER.pack(listed.listed_ms, len(text), *(table.size for table in tables)))
            sink.write(text)
            for table in tables:
                write_table(sink, table)

        if self._file.save(write):
            self._last = listed


def _is_younger(listed_ms: int, max_age: float) -> bool:
    """Whether a time is less than so many seconds ago; one from the future, before the clock was set back, is not."""
    return listed_ms >= 0 and 0 <= time.time() - listed_ms / 1000 < max_age


def _says_no_more(new: ListedCatalog, old: ListedCatalog) -> bool:
    is_near = (new.listed_ms < 0) == (old.listed_ms < 0) and 0 <= new.listed_ms - old.listed_ms < REWRITE_SECONDS * 1000
    return (
        is_near
        and _text_of(new.catalog) == _text_of(old.catalog)
        and all(_is_same(getattr(new.catalog, name), getattr(old.catalog, name)) for name in _TABLES)
    )


def _is_same(left: Table, right: Table) -> bool:
    if left.size != right.size:
        return False
    one, other = (np.ascontiguousarray(table).view(np.uint8).data for table in (left, right))
    return all(one[at : at + _COMPARED] == other[at : at + _COMPARED] for at in range(0, len(one), _COMPARED))


def _text_of(catalog: Catalog) -> bytes:
    others = {kind.value: (count, catalog.others.names[kind]) for kind, count in catalog.others.counts.items()}
    return json.dumps([catalog.names, others]).encode()


def _read(descriptor: int, size: int, text_bytes: int, counts: list[int]) -> Catalog:
    """Read what `CatalogFile.save` wrote; raises `ValueError` where it contradicts itself."""
    kinds = _TABLES.values()
    sizes = (kind.itemsize * count for kind, count in zip(kinds, counts, strict=True))
    if size != _HEADER.size + text_bytes + sum(sizes):
        raise ValueError("its size and its counts differ")
    text = np.empty(text_bytes, np.uint8)
    at = read_table(descriptor, _HEADER.size, text)
    tables = [np.empty(count, kind) for kind, count in zip(kinds, counts, strict=True)]
    for table in tables:
        at = read_table(descriptor, at, table)
    ledgers, lost, orphans, gaps = tables
    names, others = json.loads(text.tobytes())
    return Catalog.of_ranked(tuple(names), ledgers, lost, orphans, others=_others_of(others), gaps=gaps)


def _others_of(kept: dict[str, tuple[int, list[str]]]) -> OtherKeys:
    return OtherKeys(
        {KeyKind(kind): count for kind, (count, _) in kept.items()},
        {KeyKind(kind): names for kind, (_, names) in kept.items()},
    )

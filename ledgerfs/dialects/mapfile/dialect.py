"""Buckets of Pulsar's filesystem offloader: a folder a ledger, in folders named like topics, perhaps below the offloader's base folder.

A catalog costs a listing, and two or three small reads a ledger that was not seen before. Its metadata tells the topic, and so where in the
bucket the offloader's base is. What is no whole ledger becomes a `PartialLedger`; nothing in the bucket is fatal.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ledgerfs.cache.learned_offsets import LearnedOffsets
from ledgerfs.dialects.mapfile.checks.catalog_checks import check_catalog
from ledgerfs.dialects.mapfile.columns import NUMBER, IndexState, kept_version, own_of, pack_own
from ledgerfs.dialects.mapfile.ends import End
from ledgerfs.dialects.mapfile.folders import FolderFiles, LedgerFolder, MapFileListing
from ledgerfs.dialects.mapfile.gaps import find_gaps, is_young
from ledgerfs.dialects.mapfile.loading import Loaded, Unloaded, load_folders, may_grow
from ledgerfs.dialects.mapfile.reader import MapFileReader
from ledgerfs.dialects.mapfile.remains import MapFileRemains, PartialLedger, remains_of, require_top
from ledgerfs.errors import AccessDeniedError, CorruptLedgerError, CorruptMetadataError, LedgerfsError, StoreError
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.catalog_rows import LEDGER, Table, uuid_from_halves, uuid_halves
from ledgerfs.ledgers.dialect import FoundLedgers, Names, OpenLedger, Progress, RepairRequest
from ledgerfs.ledgers.findings import Finding
from ledgerfs.ledgers.ledger_ref import CatalogState, LedgerRef
from ledgerfs.ledgers.reader import LedgerReader, OnRead
from ledgerfs.ledgers.repairs import Repair
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.storage.objects import ObjectStat

if TYPE_CHECKING:
    from hashlib import blake2b

    from ledgerfs.dialects.mapfile.checks.ledger_check import MapFileCheck

_CHUNK = 256


class MapFiles:
    """`Dialect` of what Pulsar's filesystem offloader writes into a bucket. It only reads."""

    __slots__ = ("_store",)

    number = NUMBER
    is_in_folders = True
    repaired_kinds: frozenset[str] = frozenset()

    def __init__(self, store: KeepingStore) -> None:
        self._store = store

    def begin_listing(self) -> MapFileListing:
        """Return what takes the objects in ledgers' folders."""
        return MapFileListing()

    def kind_of_other(self, key: str) -> str | None:  # noqa: ARG002  (nothing else is the offloader's)
        """Know nothing."""
        return None

    def load(
        self,
        listing: MapFileListing,
        previous: Catalog | None,
        names: Names,
        places: Names,
        progress: Progress | None,
    ) -> FoundLedgers:
        """Read of each folder that ``previous`` does not know in its present version what makes it a ledger."""
        known = _KnownRows(previous)
        rows, unseen = [], []
        for files in listing.folders():
            row = known.unchanged(files)
            if row is None:
                unseen.append(files)
            else:
                rows.append(known.row(row, names, places))
        found = _Findings(names, places)
        for low in range(0, len(unseen), _CHUNK):

            def tell(done: int, before: int = low) -> None:
                if progress is not None:
                    progress("reading ledgers", before + done, len(unseen))

            for one in load_folders(self._store, unseen[low : low + _CHUNK], tell):
                found.take(one)
        found.require_the_stores_health(has_others=bool(rows))
        table = np.concatenate([np.array(rows, LEDGER), np.array(found.rows, LEDGER)])
        return FoundLedgers(
            table, MapFileRemains(tuple(found.partial()), is_one_ledger={"data", "index"} <= listing.at_top)
        )

    def completed(self, catalog: Catalog) -> Catalog:
        """Return the catalog as it is; raises `NotFoundError` where a folder was opened that is below the one which is a bucket."""
        if not (catalog.ledgers.size or catalog.lost.size):
            require_top(remains_of(catalog), self._store.url)
        return catalog

    def gaps(self, catalog: Catalog, now_ms: int) -> Iterator[tuple[Any, ...]]:
        """Yield what is missing by folders that are no whole ledgers."""
        return find_gaps(catalog, now_ms)

    def open_ledger(self, ref: LedgerRef, offsets: LearnedOffsets | None = None) -> LedgerReader:  # noqa: ARG002  (the index has them)
        """Return a reader of one ledger; nothing is read before it is needed."""
        return MapFileReader(self._store, ref)

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterator[Finding]:  # noqa: ARG002  (the catalog tells all)
        """Yield what was seen while the catalog was made."""
        return check_catalog(catalog)

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None) -> "MapFileCheck":
        """Read every byte of a ledger's objects."""
        # numba, which this imports, is not needed for a quick look.
        from ledgerfs.dialects.mapfile.checks.ledger_check import MapFileCheck

        return MapFileCheck(cast("MapFileReader", ledger), on_read, digest=digest).run()

    def remarks(self, catalog: Catalog) -> list[Finding]:  # noqa: ARG002
        """Say nothing more."""
        return []

    def repairs(self, request: RepairRequest) -> Iterator[Repair]:  # noqa: ARG002
        """Yield nothing: there is no writer."""
        return iter(())


def open_dialect(store: KeepingStore) -> MapFiles:
    """Return the dialect over one bucket (`ledgerfs.dialects.opening`)."""
    return MapFiles(store)


class _KnownRows:
    """The ledgers of an earlier catalog."""

    def __init__(self, previous: Catalog | None) -> None:
        self._catalog = previous
        self._rows = np.empty(0, LEDGER)
        self._by_folder: dict[LedgerFolder, int] = {}
        if previous is None:
            return
        self._rows = previous.ledgers[previous.ledgers["dialect"] == NUMBER]
        self._own: Table = own_of(self._rows)
        for number, row in enumerate(self._rows[["uuid_high", "uuid_low", "ledger_id", "name", "place"]].tolist()):
            high, low, ledger_id, name, place = row
            path = f"{previous.places[place]}{previous.names[name]}"
            self._by_folder[LedgerFolder(path, ledger_id, uuid_from_halves(high, low))] = number

    def unchanged(self, files: FolderFiles) -> int | None:
        """Return the row of a folder whose objects have the sizes and versions that they had."""
        number = self._by_folder.get(files.folder)
        if number is None or files.data is None:
            return None
        own = self._own[number]
        if own["index_state"] == IndexState.UNREAD:
            return None
        is_same = _is_same(files.data, int(self._rows["stored"][number]), own["data_version"])
        if files.index is None:
            is_same &= int(own["index_size"]) < 0
        else:
            is_same &= _is_same(files.index, int(own["index_size"]), own["index_version"])
        return number if is_same else None

    def row(self, number: int, names: Names, places: Names) -> tuple[Any, ...]:
        """Return a row with name and place of the new catalog."""
        assert self._catalog is not None  # noqa: S101  (there are rows)
        row = self._rows[number].copy()
        row["name"] = names.row_of(self._catalog.names[int(row["name"])])
        row["place"] = places.row_of(self._catalog.places[int(row["place"])])
        return cast("tuple[Any, ...]", row.item())


def _is_same(stat: ObjectStat, size: int, version: bytes) -> bool:
    return stat.size == size and version != b"" and kept_version(stat) == version


class _Findings:
    """What became of folders: rows, and what is left of others."""

    def __init__(self, names: Names, places: Names) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self._names = names
        self._places = places
        self._unloaded: list[tuple[Unloaded, bool, str | None]] = []
        self._now_ms = int(time.time() * 1000)

    def take(self, one: Loaded | Unloaded) -> None:
        """Take a folder; one that lacks its end, and is young, may be growing, and is no ledger yet."""
        fault = one.files.folder.fault
        if isinstance(one, Unloaded):
            self._unloaded.append((one, may_grow(one.error) and not fault, None))
        elif fault:
            error = CorruptLedgerError(fault, key=one.data.key)
            self._unloaded.append((Unloaded(one.files, error), False, one.metadata.managed_ledger))
        elif one.end is End.MISSING and is_young(one.data.modified_ms, self._now_ms):
            self._unloaded.append((Unloaded(one.files, _unfinished(one)), True, None))
        elif (name := _name_of(one)) is None:
            self._unloaded.append((Unloaded(one.files, _of_another(one)), False, one.metadata.managed_ledger))
        else:
            self.rows.append(self._row(one, name))

    def require_the_stores_health(self, *, has_others: bool) -> None:
        """Raise what the store said if it refused each of all folders."""
        errors = [one.error for one, *_ in self._unloaded]
        if errors and not (has_others or self.rows) and all(map(_is_the_stores, errors)):
            raise errors[0]

    def partial(self) -> Iterator[PartialLedger]:
        """Yield what is left, when the places of all ledgers are known."""
        known = list(self._places.texts)
        for one, grows, told in self._unloaded:
            files, folder = one.files, one.files.folder
            place = folder.guessed_place(known)
            path_tells = not folder.fault or bool(folder.name)
            name = folder.path.removeprefix(place) if path_tells else None
            for path in (place, folder.exact_place) if told or folder.fault else (place,):
                self._places.row_of(path)
            for text in (name, told):
                if text is not None:
                    self._names.row_of(text)
            stats = [stat for stat in (files.data, files.index) if stat is not None]
            modified_ms = max((stat.modified_ms for stat in stats), default=0)
            has = files.data is not None, files.index is not None
            yield PartialLedger(folder, place, name, told, one.error, modified_ms, grows, *has)

    def _row(self, one: Loaded, name: str) -> tuple[Any, ...]:
        folder, metadata, data = one.files.folder, one.metadata, one.data
        place = folder.path.removesuffix(name)
        return (
            *uuid_halves(folder.uuid),
            folder.ledger_id,
            self._names.row_of(name),
            self._places.row_of(place),
            0,
            NUMBER,
            CatalogState.DAMAGED if one.end is End.MISSING else CatalogState.SOUND,
            metadata.is_in_place,
            0,
            metadata.last_entry,
            metadata.length,
            data.size,
            -1,
            one.cuts,
            metadata.created_ms or 0,
            data.modified_ms,
            pack_own(data, one.files.index, one.index_state),
        )


def _is_the_stores(error: LedgerfsError) -> bool:
    """Whether not the object is at fault."""
    return isinstance(error, AccessDeniedError | StoreError)


def _name_of(one: Loaded) -> str | None:
    """Return the managed ledger of a ledger; None where folder and metadata contradict each other."""
    folder, told = one.files.folder, one.metadata.managed_ledger
    if told is None:
        return folder.path.removeprefix(folder.guessed_place(()))
    return None if folder.place_of(told) is None else told


def _unfinished(one: Loaded) -> CorruptLedgerError:
    reason = f"the data ends before entry {one.metadata.last_entry}, the last one: it is being written, or was never finished"
    return CorruptLedgerError(reason, key=one.data.key, offset=one.data.size)


def _of_another(one: Loaded) -> CorruptMetadataError:
    reason = f"the metadata is of {one.metadata.managed_ledger!r}, which is not where the path of the folder ends"
    return CorruptMetadataError(reason, key=one.data.key)

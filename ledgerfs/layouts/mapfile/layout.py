"""Buckets of Pulsar's filesystem offloader: one folder per ledger, in folders named like topics, optionally below a base folder.

A catalog costs a listing, and two or three small reads per new ledger. Its metadata contains the topic, and so shows where in the bucket
the offloader's base is. A folder that is not a whole ledger becomes a `PartialLedger`; nothing in the bucket is fatal.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER, Table, kept_version, origin_columns
from ledgerfs.catalog.findings import Finding
from ledgerfs.catalog.layout import FoundLedgers, Names, OpenLedger, Progress, RepairRequest
from ledgerfs.catalog.ledger_ref import CatalogState, LedgerRef
from ledgerfs.catalog.missing_ledgers import is_young
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import CorruptLedgerError, CorruptMetadataError, CorruptObjectError
from ledgerfs.formats.uuid_halves import uuid_from_halves, uuid_halves
from ledgerfs.layouts.mapfile.checks.catalog_checks import check_catalog
from ledgerfs.layouts.mapfile.columns import NUMBER, IndexState, own_of, pack_own
from ledgerfs.layouts.mapfile.ends import End
from ledgerfs.layouts.mapfile.folders import FolderFiles, LedgerFolder, MapFileListing, NameStarts
from ledgerfs.layouts.mapfile.fragments import MapFileFragments, PartialLedger, find_gaps, fragments_of, require_top
from ledgerfs.layouts.mapfile.loading import Loaded, Unloaded, load_folders, may_grow
from ledgerfs.layouts.mapfile.reader import MapFileReader
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.storage.objects import ObjectStat

if TYPE_CHECKING:
    from hashlib import blake2b

    from ledgerfs.layouts.mapfile.checks.ledger_check import MapFileCheck

_CHUNK = 256


class MapFiles:
    """`Layout` of Pulsar's filesystem offloader; read-only."""

    __slots__ = ("_store",)

    number = NUMBER
    is_in_folders = True
    repaired_kinds: frozenset[str] = frozenset()

    def __init__(self, store: KeepingStore) -> None:
        self._store = store

    def begin_listing(self) -> MapFileListing:
        """Return the collector of objects in ledgers' folders."""
        return MapFileListing()

    def kind_of_other(self, key: str) -> str | None:  # noqa: ARG002  (nothing else is the offloader's)
        """Return None: other objects have no kind."""
        return None

    def load(
        self,
        listing: MapFileListing,
        previous: Catalog | None,
        names: Names,
        places: Names,
        progress: Progress | None,
    ) -> FoundLedgers:
        """Read the metadata and ends of folders that are new or changed since ``previous``."""
        known, found = _KnownRows(previous), _Findings(names, places)
        unseen = []
        for files in listing.folders():
            number = known.unchanged(files)
            if number is None:
                unseen.append(files)
            else:
                found.keep(known.row(number), files.folder, known.name_of(number))
        for low in range(0, len(unseen), _CHUNK):

            def tell(done: int, before: int = low) -> None:
                if progress is not None:
                    progress("reading ledgers", before + done, len(unseen))

            for one in load_folders(self._store, unseen[low : low + _CHUNK], tell):
                found.take(one)
        starts = found.name_starts()
        partial = tuple(found.partial(starts))
        return FoundLedgers(
            found.table(starts), MapFileFragments(partial, is_one_ledger={"data", "index"} <= listing.at_top)
        )

    def completed(self, catalog: Catalog) -> Catalog:
        """Return the catalog as it is; raises `NotFoundError` if the opened folder is below the one that is the bucket."""
        if not (catalog.ledgers.size or catalog.lost.size):
            require_top(fragments_of(catalog), self._store.url)
        return catalog

    def gaps(self, catalog: Catalog, now_ms: int) -> Iterator[tuple[Any, ...]]:
        """Yield the gaps that incomplete ledgers leave."""
        return find_gaps(catalog, now_ms)

    def open_ledger(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader of one ledger, which reads nothing yet."""
        return MapFileReader(self._store, ref)

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterator[Finding]:  # noqa: ARG002  (the catalog has all)
        """Yield the findings of making the catalog."""
        return check_catalog(catalog)

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None) -> "MapFileCheck":
        """Read every byte of a ledger's objects."""
        # This imports numba, which a quick check does not need.
        from ledgerfs.layouts.mapfile.checks.ledger_check import MapFileCheck

        return MapFileCheck(cast("MapFileReader", ledger), on_read, digest=digest).run()

    def remarks(self, catalog: Catalog) -> list[Finding]:  # noqa: ARG002
        """Return no remarks."""
        return []

    def repairs(self, request: RepairRequest) -> Iterator[Repair]:  # noqa: ARG002
        """Yield nothing: ledgerfs does not write this layout."""
        return iter(())


class _KnownRows:
    """The ledgers of an earlier catalog."""

    def __init__(self, previous: Catalog | None) -> None:
        self._catalog = previous
        self._rows = np.empty(0, LEDGER)
        self._by_folder: dict[LedgerFolder, int] = {}
        if previous is None:
            return
        self._rows = previous.ledgers[previous.ledgers["layout"] == NUMBER]
        self._own: Table = own_of(self._rows)
        for number, row in enumerate(self._rows[["uuid_high", "uuid_low", "ledger_id", "name", "place"]].tolist()):
            high, low, ledger_id, name, place = row
            path = f"{previous.places[place]}{previous.names[name]}"
            self._by_folder[LedgerFolder(path, ledger_id, uuid_from_halves(high, low))] = number

    def unchanged(self, files: FolderFiles) -> int | None:
        """Return the row of a folder whose objects have the same sizes and versions; None if there is none."""
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

    def row(self, number: int) -> tuple[Any, ...]:
        """Return a row, with name and place of the earlier catalog."""
        return cast("tuple[Any, ...]", self._rows[number].item())

    def name_of(self, number: int) -> str | None:
        """Return the managed ledger of a row by its metadata; None if the metadata does not name it."""
        assert self._catalog is not None  # noqa: S101  (there are rows)
        return self._catalog.names[int(self._rows["name"][number])] if self._own["is_named"][number] else None


def _is_same(stat: ObjectStat, size: int, version: bytes) -> bool:
    return stat.size == size and version != b"" and kept_version(stat) == version


class _Findings:
    """The results of loading folders: rows, and partial ledgers.

    Names and places of rows are set last, since known names are needed to guess those of ledgers without one.
    """

    def __init__(self, names: Names, places: Names) -> None:
        self._names = names
        self._places = places
        self._rows: list[tuple[tuple[Any, ...], LedgerFolder, str | None]] = []
        self._unloaded: list[tuple[Unloaded, bool]] = []
        self._now_ms = int(time.time() * 1000)

    def keep(self, row: tuple[Any, ...], folder: LedgerFolder, reported: str | None) -> None:
        """Add a row, and its managed ledger by the metadata; its name and place are set later."""
        self._rows.append((row, folder, reported))

    def take(self, one: Loaded | Unloaded) -> None:
        """Add a folder; skips a young one without an end, which may still grow."""
        folder = one.files.folder
        if isinstance(one, Unloaded):
            self._unloaded.append((one, may_grow(one.error) and not folder.fault))
            return
        is_recent = bool(is_young(one.data.modified_ms, self._now_ms))
        is_written = one.end is End.MISSING and is_recent and not folder.fault
        error = _unfinished(one) if is_written else _contradiction(one)
        if error is None:
            self.keep(_row(one), folder, one.metadata.managed_ledger)
        else:
            self._unloaded.append((Unloaded(one.files, error, one.metadata), is_written))

    def name_starts(self) -> NameStarts:
        """Return where names begin, by the ledgers whose metadata has them; empty if no other folders need it."""
        starts = NameStarts()
        if self._unloaded or any(reported is None for *_, reported in self._rows):
            for _, folder, reported in self._rows:
                place = None if reported is None else folder.place_of(reported)
                if reported is not None and place is not None:
                    starts.learn(place, reported)
        return starts

    def table(self, starts: NameStarts) -> Table:
        """Return the rows of ledgers."""
        rows = []
        for row, folder, reported in self._rows:
            name = folder.path.removeprefix(starts.guess(folder)) if reported is None else reported
            named = self._names.row_of(name), self._places.row_of(folder.path.removesuffix(name))
            rows.append((*row[:3], *named, *row[5:]))
        return np.array(rows, LEDGER)

    def partial(self, starts: NameStarts) -> Iterator[PartialLedger]:
        """Yield the partial ledgers."""
        for one, grows in self._unloaded:
            files, folder, metadata = one.files, one.files.folder, one.metadata
            reported = None if metadata is None else metadata.managed_ledger
            place = None if reported is None else folder.place_of(reported)
            place = starts.guess(folder) if place is None else place
            name = folder.path.removeprefix(place) if folder.is_in_a_topic else None
            stats = [stat for stat in (files.data, files.index) if stat is not None]
            modified_ms = max((stat.modified_ms for stat in stats), default=0)
            has = files.data is not None, files.index is not None
            partial = PartialLedger(folder, place, name, metadata, one.error, modified_ms, grows, *has, files.is_empty)
            for text in partial.managed_ledgers:
                self._places.row_of(partial.place_of(text))
                if text is not None:
                    self._names.row_of(text)
            yield partial


def _row(one: Loaded) -> tuple[Any, ...]:
    """Return a ledger as a row without name and place."""
    folder, metadata, data = one.files.folder, one.metadata, one.data
    return (
        *uuid_halves(folder.uuid),
        folder.ledger_id,
        0,
        0,
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
        *origin_columns(metadata.origin),
        False,
        pack_own(data, one.files.index, one.index_state, is_named=metadata.managed_ledger is not None),
    )


def _unfinished(one: Loaded) -> CorruptLedgerError:
    reason = f"the data ends before the last entry, {one.metadata.last_entry}: it is still being written, or was never completed"
    return CorruptLedgerError(reason, key=one.data.key, offset=one.data.size)


def _contradiction(one: Loaded) -> CorruptObjectError | None:
    """Return the error for a folder in a wrong place: not that of a ledger, or not of the one that the metadata names."""
    folder, owner = one.files.folder, one.metadata.managed_ledger
    if folder.fault:
        return CorruptLedgerError(folder.fault, key=one.data.key)
    if owner is None or folder.place_of(owner) is not None:
        return None
    reason = f"the metadata belongs to {owner!r}, but the path of the folder does not end with it"
    return CorruptMetadataError(reason, key=one.data.key)

"""The offloaded objects of a bucket as columns, from one listing and from ledgerfs's catalog; and the clusters that own them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import is_sound
from ledgerfs.catalog.layout import Progress
from ledgerfs.errors import ObjectNotFoundError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, parse_ledger_key
from ledgerfs.formats.pulsar_blob.user_metadata import OffloadUserMetadata, parse_user_metadata
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs.storage.ordered_map import ordered_map
from ledgerfs_cluster.rules.tiered_objects import PAIR, TieredObjects, pair_keys, uuid_text
from ledgerfs_cluster.snapshot.tables import GrowingTable, Table

_OBJECT = np.dtype(
    [
        ("uuid_high", "u8"),
        ("uuid_low", "u8"),
        ("ledger_id", "i8"),
        ("is_index", "?"),
        ("size", "i8"),
        ("modified_ms", "i8"),
    ]
)
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Tier:
    """A bucket that a cluster offloads to.

    Attributes
    ----------
    names
        Its names in offload contexts.
    endpoint
        Its endpoint; None if unknown.

    """

    bucket: Bucket
    names: frozenset[str]
    endpoint: str | None = None


def listed_tier(tier: Tier, progress: Progress) -> TieredObjects:
    """List a bucket; raises `NotFoundError` (no such bucket), `AccessDeniedError` and `StoreError`, but nothing for damaged objects."""
    pairs = _pairs(_objects(tier, progress))
    catalog = tier.bucket.survey(progress)
    _note_ledgers(pairs, catalog)
    reasons, refused = _reasons(catalog), frozenset(catalog.refusals())
    return TieredObjects(tier.bucket.store.url, tier.names, tier.endpoint, pairs, reasons, refused)


def reported_of(tier: Tier, pairs: Table) -> Iterator[OffloadUserMetadata | None]:
    """Yield each pair's user metadata, by one request each: empty where the store has none, None for objects that are gone."""

    def ask(row: np.void) -> OffloadUserMetadata | None:
        key = LedgerKey(uuid_text(row), int(row["ledger_id"]), is_index=False)
        try:
            head = tier.bucket.raw_store.head(key.index_key if row["index_size"] >= 0 else key.data_key)
        except ObjectNotFoundError:
            return None
        return parse_user_metadata(head.metadata or {})

    return ordered_map(ask, pairs, _THREADS, "ledgerfs-doctor")


def keys_of(row: np.void) -> list[str]:
    """Return the keys of the existing objects of a pair."""
    key = LedgerKey(uuid_text(row), int(row["ledger_id"]), is_index=False)
    return [name for name, size in ((key.data_key, row["data_size"]), (key.index_key, row["index_size"])) if size >= 0]


def key_of(row: np.void) -> str:
    """Return the expected key of the data object of a row of `LISTED`."""
    return LedgerKey(uuid_text(row), int(row["ledger_id"]), is_index=False).data_key


def _objects(tier: Tier, progress: Progress) -> Table:
    objects, seen = GrowingTable(_OBJECT), 0
    for page in tier.bucket.raw_store.list_pages():
        for stat in page:
            key = parse_ledger_key(stat.key)
            if key is not None:
                halves = uuid_halves(key.uuid)
                objects.append((*halves, key.ledger_id, key.is_index, stat.size, stat.modified_ms))
        seen += len(page)
        progress(f"listing {tier.bucket.store.url}", seen, None)
    return objects.table()


def _pairs(objects: Table) -> Table:
    """Return rows of `PAIR`, sorted by key, from listed objects."""
    keys = pair_keys(objects)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    pairs = np.zeros(first.size, PAIR)
    for name in ("uuid_high", "uuid_low", "ledger_id"):
        pairs[name] = objects[name][first]
    pairs["data_size"] = pairs["index_size"] = pairs["entries"] = pairs["length"] = -1
    for is_index, column in ((False, "data_size"), (True, "index_size")):
        of_kind = objects["is_index"] == is_index
        pairs[column][place[of_kind]] = objects["size"][of_kind]
    np.maximum.at(pairs["modified_ms"], place, objects["modified_ms"])
    is_unknown = np.zeros(pairs.size, np.bool_)
    is_unknown[place[objects["modified_ms"] <= 0]] = True
    pairs["modified_ms"][is_unknown] = 0
    return pairs


def _note_ledgers(pairs: Table, catalog: Catalog) -> None:
    """Add the catalog's values to each pair whose objects agree."""
    sound = catalog.ledgers[is_sound(catalog.ledgers)]
    if not (sound.size and pairs.size):
        return
    keys, wanted = pair_keys(pairs), pair_keys(sound)
    places = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    is_there = keys[places] == wanted
    rows, found = places[is_there], sound[is_there]
    pairs["is_readable"][rows] = True
    pairs["entries"][rows] = found["last_entry"] + 1
    pairs["length"][rows] = found["length"]


def _reasons(catalog: Catalog) -> Mapping[tuple[int, int, int], str]:
    """Return the reason for each offload of a catalog that cannot be read, by uuid and ledger."""
    found: dict[tuple[int, int, int], str] = {}
    for row in catalog.ledgers[~is_sound(catalog.ledgers)]:
        stored, expected = int(row["stored"]), int(row["expected"])
        differ = f"the data object has {stored:,} bytes, but its index has {expected:,}"
        found[_key(row)] = differ if stored != expected else "its index and the ledger's metadata contradict each other"
    for fragments in catalog.fragments.values():
        for one in fragments.unreadable():
            found[(*uuid_halves(one.uuid), one.ledger_id)] = one.error.reason
    return found


def _key(row: np.void) -> tuple[int, int, int]:
    return int(row["uuid_high"]), int(row["uuid_low"]), int(row["ledger_id"])

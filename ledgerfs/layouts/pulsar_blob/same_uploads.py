"""Find data objects without a readable index that are another upload of a complete ledger, so that deleting them loses nothing.

The id alone is not enough: two clusters may share a bucket, and an import may use the id of a ledger that lost its index. Another upload
of the same ledger has the same size and the same first bytes; any other data object is a separate ledger. The catalog stores the results,
by the versions of both objects.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.missing_ledgers import UNKNOWN
from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs.layouts.pulsar_blob.columns import NUMBER, key_of, own_of
from ledgerfs.layouts.pulsar_blob.fragments import BadIndex, BlobFragments, SameIds, fragments_of, refused_data
from ledgerfs.layouts.pulsar_blob.unpaired_objects import topic_of_object
from ledgerfs.storage.failures import is_refusal
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.ordered_map import ordered_map

COMPARED = 64 << 10
"""First bytes of two data objects to compare: hundreds of messages with their times, for one small request each."""

_THREADS = 16


def compared_with_copies(store: ObjectStore, catalog: Catalog) -> Catalog:
    """Return the catalog with ``has_copy`` of its orphans and bad indexes set; raises only `StoreUnreachableError`.

    Adds objects for which the store refused access to ``refused`` of the orphans.
    """
    copies, fragments = _Copies(store, catalog, SameIds(catalog)), fragments_of(catalog)
    orphans = fragments.orphans.copy()
    for column in ("has_copy", "near_high", "near_low", "near_version"):
        orphans[column] = np.zeros(1, orphans.dtype[column])
    rows = np.flatnonzero(np.isin(orphans["ledger_id"], copies.same_ids.ids))
    looks = ordered_map(copies.of_orphan, fragments.orphans[rows], _THREADS, "ledgerfs-same")
    refused = list(fragments.refused)
    for row, (has_copy, near, error) in zip(rows.tolist(), looks, strict=True):
        orphans["has_copy"][row] = has_copy
        if error is not None and is_refusal(error):
            refused.append(refused_data(key_of(orphans[row]), error))
        if near is not None:
            for column, value in (
                ("high", near["uuid_high"]),
                ("low", near["uuid_low"]),
                ("version", _version_of(near)),
            ):
                orphans[f"near_{column}"][row] = value
    by_bad = ordered_map(copies.of_bad_index, fragments.bad_indexes, _THREADS, "ledgerfs-same")
    bad = tuple(replace(one, has_copy=has) for one, has in zip(fragments.bad_indexes, by_bad, strict=True))
    return replace(catalog, fragments={**catalog.fragments, NUMBER: BlobFragments(orphans, bad, tuple(refused))})


@dataclass(frozen=True, slots=True)
class _Copies:
    """The complete ledgers with the same ids as data objects without a readable index."""

    store: ObjectStore
    catalog: Catalog
    same_ids: SameIds

    def of_orphan(self, orphan: np.void) -> tuple[bool, np.void | None, LedgerfsError | None]:
        """Return whether a row of `ORPHAN` has a copy, the last compared ledger, and why there was no comparison."""
        near, key = None, key_of(orphan)
        for near in self._as_large(key.ledger_id, int(orphan["name"]), int(orphan["size"])):
            try:
                if _was_compared(orphan, near):
                    is_same = bool(orphan["has_copy"])
                else:
                    is_same = self._begins_alike(key.data_key, orphan["version"].decode(), near)
            except StoreUnreachableError:
                raise
            except LedgerfsError as error:
                # The next listing tries again, since no ledger is returned.
                return False, None, error
            if is_same:
                return True, near, None
        return False, near, None

    def of_bad_index(self, bad: BadIndex) -> bool:
        """Return whether the data object of an unreadable index has a copy."""
        ledger_id = bad.key.ledger_id
        stat = topic_of_object(self.store, bad.key.data_key).stat if self._of_id(ledger_id) else None
        if stat is None:
            return False
        near = self._as_large(ledger_id, self.catalog.row_of(bad.managed_ledger), stat.size)
        try:
            return any(self._begins_alike(stat.key, stat.version, ledger) for ledger in near)
        except StoreUnreachableError:
            raise
        except LedgerfsError:
            # Without a comparison it does not count as a copy; the next listing tries again.
            return False

    def _of_id(self, ledger_id: int) -> list[np.void]:
        """Return the complete ledgers of an id."""
        return [ledger for ledger in self.same_ids.sound(ledger_id) if ledger["layout"] == NUMBER]

    def _as_large(self, ledger_id: int, name: int, size: int) -> Iterator[np.void]:
        """Yield the ledgers of an id (and of a topic if that is known) with a data object of ``size`` bytes."""
        for ledger in self._of_id(ledger_id):
            if ledger["stored"] == size and (name <= UNKNOWN or ledger["name"] == name):
                yield ledger

    def _begins_alike(self, key: str, version: str, ledger: np.void) -> bool:
        end = min(int(ledger["stored"]), COMPARED)
        mine = self.store.read(ReadRequest(key, 0, end, version, is_kept=False))
        data_key, data_version = key_of(ledger).data_key, _version_of(ledger).decode()
        return mine == self.store.read(ReadRequest(data_key, 0, end, data_version, is_kept=False))


def _was_compared(orphan: np.void, ledger: np.void) -> bool:
    """Whether the catalog has the result of comparing these two, in their present versions."""
    is_near = (orphan["near_high"], orphan["near_low"]) == (ledger["uuid_high"], ledger["uuid_low"])
    version = orphan["near_version"]
    return bool(is_near and version == _version_of(ledger) and version != b"")


def _version_of(ledger: np.void) -> bytes:
    """Return the version of a ledger's data object."""
    version: bytes = own_of(np.array([ledger]))["data_version"][0]
    return version

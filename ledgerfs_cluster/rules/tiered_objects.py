"""Compare the objects of offloads in a bucket with a cluster's ledger lists: find orphans and missing objects.

Pure functions over a snapshot and a listing. The bucket is listed before the lists are read: a list references an offload before, or soon
after, its objects exist, and drops the reference before they are deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.uuid_halves import uuid_from_halves
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.tables import Table

PAIR = np.dtype(
    [
        ("uuid_high", "u8"),
        ("uuid_low", "u8"),
        ("ledger_id", "i8"),
        ("data_size", "i8"),
        ("index_size", "i8"),
        ("modified_ms", "i8"),
        ("is_readable", "?"),
        ("entries", "i8"),
        ("length", "i8"),
    ]
)
"""Data and index object of one offload: bytes, -1 for a missing one; ``modified_ms`` is that of the younger one, 0 if unknown. ``entries``
and ``length`` are the ledger's by its index, if objects and index agree (``is_readable``)."""

PairKeys = npt.NDArray[np.bytes_]
"""A value for each pair of uuid and ledger."""


@dataclass(frozen=True, slots=True)
class TieredObjects:
    """A listed bucket.

    Attributes
    ----------
    url
        URL of the bucket.
    names
        Names of the bucket in offload contexts.
    endpoint
        The endpoint that was used; None if unknown.
    pairs
        Rows of `PAIR`.
    reasons
        {(high and low half of the uuid, ledger): why the offload is unreadable}.
    refused
        Those for which the store refuses an object: they may be whole.

    """

    url: str
    names: frozenset[str]
    endpoint: str | None
    pairs: Table
    reasons: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    refused: frozenset[tuple[int, int, int]] = frozenset()


def uuid_text(row: np.void) -> str:
    """Return the uuid of a row of `PAIR` or `LISTED`."""
    return uuid_from_halves(int(row["uuid_high"]), int(row["uuid_low"]))


def pair_keys(rows: Table) -> PairKeys:
    """Return a value of 24 bytes for uuid and ledger of each row of `PAIR` or `LISTED`."""
    columns = np.empty((rows.size, 3), np.uint64)
    for number, name in enumerate(("uuid_high", "uuid_low", "ledger_id")):
        columns[:, number] = rows[name].astype(np.uint64)
    return columns.view("S24").ravel()


def completely_offloaded(survey: Survey) -> Table:
    """Return rows of `LISTED` with a complete offload."""
    found: Table = survey.listed[survey.listed["is_complete"]]
    return found


def are_in(survey: Survey, rows: Table, bucket: TieredObjects) -> Mask:
    """Return which rows of `LISTED` reference a bucket; shape (rows,).

    A bucket of the same name at another endpoint may be another one: if contexts contain several endpoints, only the one in use counts.
    """
    endpoints = [_endpoint_in(one, bucket.names) for one in survey.drivers]
    different = {one for one in endpoints if one is not None}
    wanted = different if len(different) == 1 else {bucket.endpoint or ""} & different
    is_meant = np.array([*(one in wanted for one in endpoints), False])
    # Row -1 stands for no driver.
    found: Mask = is_meant[rows["driver"]]
    return found


def unnamed_pairs(
    survey: Survey, bucket: TieredObjects, now_ms: int, grace_ms: int, former_ids: int
) -> tuple[Table, int, int]:
    """Return the offloads that no ledger list references, rows of `PAIR`, and the number of others that are left out.

    Left out are offloads that are too young or of unknown age, and those with ids below ``former_ids``, from before something was restored
    into the cluster: they may be the last copies of the lost cluster.
    """
    named = survey.listed[survey.listed["has_context"]]
    free = ~np.isin(pair_keys(bucket.pairs), pair_keys(named))
    modified_ms = bucket.pairs["modified_ms"]
    is_old = free & (modified_ms > 0) & (modified_ms <= now_ms - grace_ms)
    is_former = is_old & (bucket.pairs["ledger_id"] < former_ids)
    rows = bucket.pairs[is_old & ~is_former]
    return rows, int((free & ~is_old).sum()), int(is_former.sum())


def without_objects(rows: Table, bucket: TieredObjects) -> Table:
    """Return the rows of `LISTED`, all of this bucket, that lack an object."""
    whole = bucket.pairs[(bucket.pairs["data_size"] >= 0) & (bucket.pairs["index_size"] >= 0)]
    found: Table = rows[~np.isin(pair_keys(rows), pair_keys(whole))]
    return found


def with_broken_objects(rows: Table, bucket: TieredObjects) -> list[tuple[np.void, str]]:
    """Return the rows of `LISTED`, all of this bucket, whose existing objects do not match the ledger, and the reasons."""
    pairs = bucket.pairs[(bucket.pairs["data_size"] >= 0) & (bucket.pairs["index_size"] >= 0)]
    keys = pair_keys(pairs)
    order = np.argsort(keys, kind="stable")
    wanted = pair_keys(rows)
    if not (order.size and wanted.size):
        return []
    places = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), order.size - 1)]
    found = pairs[places]
    # For a ledger listed without entries the index's numbers count, as for readers.
    is_other = (rows["entries"] > 0) & ((found["entries"] != rows["entries"]) | (found["length"] != rows["size"]))
    is_broken = (keys[places] == wanted) & (~found["is_readable"] | is_other)
    return [(rows[at], _why(rows[at], found[at], bucket.reasons)) for at in np.flatnonzero(is_broken).tolist()]


def _why(row: np.void, pair: np.void, reasons: Mapping[tuple[int, int, int], str]) -> str:
    if pair["is_readable"]:
        indexed = f"{int(pair['entries']):,} entries with {int(pair['length']):,} bytes"
        return f"the index has {indexed}, but the topic's ledger list has {int(row['entries']):,} with {int(row['size']):,}"
    key = int(row["uuid_high"]), int(row["uuid_low"]), int(row["ledger_id"])
    return reasons.get(key, "data and index object do not match")


def _endpoint_in(driver: tuple[str | None, tuple[tuple[str, str], ...]], names: frozenset[str]) -> str | None:
    """Return the endpoint in a driver's properties ("" if none); None if they contain another bucket."""
    properties = dict(driver[1])
    return properties.get("serviceEndpoint", "") if properties.get("bucket") in names else None

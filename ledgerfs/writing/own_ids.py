"""Generate ledger ids: far above those of any cluster, and random, so that two are never the same.

BookKeeper generates ids one after another from 0 on. Generated ids are from 2^52 to 2^53, which a double still represents: the time in
milliseconds, then 11 random bits. So the order of ids, in which ledgers of a topic are read, is the order in which their writers began.
"""

import secrets
import time
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.same_messages import END_OF_OWN_IDS, FIRST_OWN_ID
from ledgerfs.errors import RefusedLedgerError

_EPOCH_MS = 1_735_689_600_000
"""1 January 2025 UTC; 41 bits of milliseconds last 69 years from there."""

_RANDOM_BITS = 11


def new_own_id(catalogs: Sequence[Catalog], managed_ledgers: Collection[str | None] | None = None) -> int:
    """Return an id that no ledger of some buckets has, above all generated ids of some topics, even if the clock was set back.

    Parameters
    ----------
    catalogs
        The known catalogs of the buckets; may be empty, since the time and random bits make the id unique.
    managed_ledgers
        Of the topics; None for all.

    Raises `RefusedLedgerError` if one of the topics has the last id of the range.

    """
    now = min(max(int(time.time() * 1000) - _EPOCH_MS, 0), (1 << 41) - 1)
    made = FIRST_OWN_ID + (now << _RANDOM_BITS) + secrets.randbelow(1 << _RANDOM_BITS)
    made = max(made, _greatest(catalogs, managed_ledgers) + _step())
    taken = {ledger_id for catalog in catalogs for ledger_id in _ids_from(catalog, made)}
    while made in taken:
        made += _step()
    if made >= END_OF_OWN_IDS:
        raise RefusedLedgerError(
            "ledgerfs has no generated id left for this topic; pass a ledger id (--ledger-id)", key=str(made)
        )
    return made


def _step() -> int:
    return 1 + secrets.randbelow(1 << _RANDOM_BITS)


def _greatest(catalogs: Sequence[Catalog], managed_ledgers: Collection[str | None] | None) -> int:
    """Return the greatest generated id among the ledgers of the topics; ids that users chose do not count."""
    found = [0]
    for catalog in catalogs:
        rows = [row for row, name in enumerate(catalog.names) if managed_ledgers is None or name in managed_ledgers]
        for table in (catalog.ledgers, catalog.lost):
            ids = table["ledger_id"][np.isin(table["name"], rows)]
            own = ids[(ids >= FIRST_OWN_ID) & (ids < END_OF_OWN_IDS)]
            found += [int(own.max())] if own.size else []
    return max(found)


def _ids_from(catalog: Catalog, first: int) -> Iterator[int]:
    """Yield the ids from ``first`` on of everything in the bucket, also of incomplete ledgers."""
    for table in (catalog.ledgers, catalog.lost):
        ids = table["ledger_id"]
        yield from ids[ids >= first].tolist()
    for fragments in catalog.fragments.values():
        yield from fragments.ledger_ids()

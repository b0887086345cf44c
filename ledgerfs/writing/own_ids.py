"""Ledger ids that ledgerfs chooses itself: so far above those of any cluster, and so random, that two never meet.

BookKeeper hands out ids one after another from 0 on. Ours are from 2^52 to 2^53, which a double still tells apart: the time in milliseconds
stands above 11 random bits. So ledgers of a topic, which are read in the order of their ids, are in the order in which their writers began.
"""

import secrets
import time
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from ledgerfs.errors import RefusedLedgerError
from ledgerfs.ledgers.catalog import Catalog

FIRST_OWN_ID = 2**52
END_OF_OWN_IDS = 2**53

_EPOCH_MS = 1_735_689_600_000
"""1 January 2025 UTC; 41 bits of milliseconds go 69 years from there."""

_RANDOM_BITS = 11


def is_own_id(ledger_id: int) -> bool:
    """Whether an id is of the range that no cluster hands out."""
    return FIRST_OWN_ID <= ledger_id < END_OF_OWN_IDS


def new_own_id(catalogs: Sequence[Catalog], managed_ledgers: Collection[str | None] | None = None) -> int:
    """Return an id that no ledger of some buckets has, above all of our own that some topics have, also when the clock was set back.

    Parameters
    ----------
    catalogs
        What the buckets have, listed just now.
    managed_ledgers
        Of the topics; None for all.

    Raises `RefusedLedgerError` where one of the topics has the last ids of all.

    """
    now = min(max(int(time.time() * 1000) - _EPOCH_MS, 0), (1 << 41) - 1)
    made = FIRST_OWN_ID + (now << _RANDOM_BITS) + secrets.randbelow(1 << _RANDOM_BITS)
    made = max(made, _greatest(catalogs, managed_ledgers) + _step())
    taken = {ledger_id for catalog in catalogs for ledger_id in _ids_from(catalog, made)}
    while made in taken:
        made += _step()
    if made >= END_OF_OWN_IDS:
        raise RefusedLedgerError(
            "the topic has the last of the ids that ledgerfs gives; name one yourself", key=str(made)
        )
    return made


def _step() -> int:
    return 1 + secrets.randbelow(1 << _RANDOM_BITS)


def _greatest(catalogs: Sequence[Catalog], managed_ledgers: Collection[str | None] | None) -> int:
    """Return the greatest id of our own that ledgers of the topics have; ids that users chose may be any."""
    found = [0]
    for catalog in catalogs:
        rows = [row for row, name in enumerate(catalog.names) if managed_ledgers is None or name in managed_ledgers]
        for table in (catalog.ledgers, catalog.lost):
            ids = table["ledger_id"][np.isin(table["name"], rows)]
            own = ids[(ids >= FIRST_OWN_ID) & (ids < END_OF_OWN_IDS)]
            found += [int(own.max())] if own.size else []
    return max(found)


def _ids_from(catalog: Catalog, first: int) -> Iterator[int]:
    """Yield the ids from one on that anything in the bucket has, also halves of ledgers."""
    for table in (catalog.ledgers, catalog.lost):
        ids = table["ledger_id"]
        yield from ids[ids >= first].tolist()
    for remains in catalog.remains.values():
        yield from remains.ledger_ids()

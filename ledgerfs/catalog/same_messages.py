"""Ledgers made of others under new ids (`LedgerRef.origin`): find equal messages, and check the order of ledgers.

A topic that has both returns these messages more than once. A ledger from `offload --unbatch` must be read at the position of its root:
otherwise a transaction may end before it begins, and a chunked message lacks its first part.
"""

from collections.abc import Iterator

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.formats.origin import Origin

FIRST_OWN_ID = 2**52
END_OF_OWN_IDS = 2**53
"""End of the range of generated ledger ids (`ledgerfs.writing.own_ids`)."""


def is_own_id(ledger_id: int) -> bool:
    """Return whether an id is in the range of generated ids, which clusters do not use."""
    return FIRST_OWN_ID <= ledger_id < END_OF_OWN_IDS


def out_of_order(catalog: Catalog, managed_ledger: str | None, ledger_id: int, root_id: int) -> LedgerRef | None:
    """Return a ledger of the topic that is out of order with this one, made of ``root_id``; None without any.

    For a ledger that was not made of another one, ``root_id`` is its own id, compared with ledgers that were. Imported rows, under
    generated ids, have no order.
    """
    is_made = ledger_id != root_id
    if not is_made and is_own_id(ledger_id):
        return None
    table = catalog.table_of(managed_ledger)
    ids, are_made = table["ledger_id"], table["origin_entries"] > 0
    roots = np.where(are_made, table["origin_id"], ids)
    others = are_made | (ids < FIRST_OWN_ID) if is_made else are_made
    wrong = np.flatnonzero(others & (roots != root_id) & ((ids < ledger_id) != (roots < root_id)))
    return catalog.ref_of(table[wrong[0]]) if wrong.size else None


class SameMessages:
    """The ledgers of one catalog by root. Free if the catalog has no ledgers that were made of others."""

    __slots__ = ("_catalog", "_made")

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._made: dict[int, list[int]] = {}
        for row in np.flatnonzero(catalog.ledgers["origin_entries"]).tolist():
            self._made.setdefault(int(catalog.ledgers["origin_id"][row]), []).append(row)

    @property
    def is_any_made(self) -> bool:
        """Whether the catalog has ledgers that were made of others."""
        return bool(self._made)

    def made(self) -> Iterator[LedgerRef]:
        """Yield the ledgers that were made of others, without further copies."""
        for row in sorted(row for rows in self._made.values() for row in rows):
            if self._catalog.ledgers["copy"][row] == 0:
                yield self._catalog.ref(row)

    def of(self, root: Origin, managed_ledger: str | None, created_ms: int | None) -> list[LedgerRef]:
        """Return the complete ledgers of any id with the messages of ``root`` (`LedgerRef.root`), a ledger of this topic and creation.

        Compares topic, id, last entry and creation time of their root, or its length if a creation time is unknown.
        """
        made = [self._catalog.ref(row) for row in self._made.get(root.ledger_id, ())]
        found = {(ref.ledger_id, ref.uuid): ref for ref in [*self._catalog.all_of(root.ledger_id), *made]}
        return [ref for ref in found.values() if ref.is_sound and _is_of(ref, root, managed_ledger, created_ms)]

    def under_other_ids(
        self, ledger_id: int, root: Origin, managed_ledger: str | None, created_ms: int | None
    ) -> list[LedgerRef]:
        """Return the same, without ledgers of the given id."""
        if root.ledger_id == ledger_id and ledger_id not in self._made:
            return []
        return [ref for ref in self.of(root, managed_ledger, created_ms) if ref.ledger_id != ledger_id]

    def others_of(self, ledger: LedgerRef) -> list[LedgerRef]:
        """Return the same for a ledger of this or another catalog."""
        return self.under_other_ids(ledger.ledger_id, ledger.root, ledger.managed_ledger, ledger.created_ms)


def _is_of(ref: LedgerRef, root: Origin, managed_ledger: str | None, created_ms: int | None) -> bool:
    mine = ref.root
    if (ref.managed_ledger, mine.ledger_id, mine.last_entry) != (managed_ledger, root.ledger_id, root.last_entry):
        return False
    if None in {ref.created_ms, created_ms}:
        return mine.length == root.length >= 0
    # Compressed in another way it has another length.
    return ref.created_ms == created_ms

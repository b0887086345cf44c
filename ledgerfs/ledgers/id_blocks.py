"""Which ledgers of a topic one cluster has written, and which another one that served the topic after it.

`ledgerfs recover` has a new cluster make its ids in another block of 2³² than the lost one did. The new one's coordinator of transactions
gives ids again that the lost one gave, so that the end of a transaction means messages of its own cluster only.

A block is no cluster: one that is in use goes on in another block, too, when something is restored into it. A cluster ends where a
recovery has put a ledger that says so (`ledgerfs.formats.pulsar_blob.end_uuids`) into the topic. That is also told by the block where a
marker is before its message: the two follow each other within moments, and no cluster gets another block meanwhile but by an operator.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

from ledgerfs.formats.bookkeeper.ledger_paths import BLOCK_BITS
from ledgerfs.formats.pulsar_blob.end_uuids import are_ends, is_end_uuid
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.missing_ledgers import MissingLedger
from ledgerfs.ledgers.read_order import is_own_id


def is_in_one_block(ledger_id: int, other: int) -> bool:
    """Whether two ids of a living cluster's ledgers are of one block."""
    return ledger_id >> BLOCK_BITS == other >> BLOCK_BITS


def blocks_of(ledgers: Iterable[LedgerRef]) -> list[int]:
    """Return the number of the block that each ledger of a topic is of, given in the order of their ids.

    What was made of a ledger under another id is of that one's block; imported rows are of none, so they have that of what is before them.
    """
    blocks: list[int] = []
    for ref in ledgers:
        if ref.origin is None and is_own_id(ref.ledger_id):
            blocks.append(blocks[-1] if blocks else -1)
        else:
            blocks.append(ref.root.ledger_id >> BLOCK_BITS)
    return blocks


def ends_cluster(ref: LedgerRef) -> bool:
    """Whether a recovery wrote a ledger to say that the cluster before it was lost; its one entry is a marker that ends nothing."""
    return ref.last_entry == 0 and is_end_uuid(ref.uuid, ref.ledger_id)


def ends_in(catalog: Catalog) -> dict[str, tuple[int, ...]]:
    """Return {managed ledger: ids of the ledgers that end clusters, ascending}, also of those that lost an object: their names say it."""
    found: dict[str, set[int]] = {}
    tables = (catalog.ledgers[catalog.ledgers["last_entry"] == 0], catalog.lost, catalog.gaps)
    for table in tables:
        ends = table[are_ends(table["uuid_high"], table["ledger_id"])]
        for ledger_id, name in zip(ends["ledger_id"].tolist(), ends["name"].tolist(), strict=True):
            if name >= 0:
                found.setdefault(catalog.names[name] or "", set()).add(ledger_id)
    return {name: tuple(sorted(ids)) for name, ids in found.items()}


def ends_among(missing: Iterable[MissingLedger]) -> tuple[int, ...]:
    """Return the ids of those ledgers of a topic that end clusters, although they cannot be read."""
    return tuple(one.ledger_id for one in missing if is_end_uuid(one.uuid, one.ledger_id))


def first_of_clusters(ledgers: Sequence[LedgerRef], ends: Collection[int] = ()) -> list[int]:
    """Return the numbers of the ledgers with which a cluster begins; given those of a topic, in the order of their ids.

    ``ends`` are ids of ledgers that end clusters, and are not among these.
    """
    ids, behind = [ref.ledger_id for ref in ledgers], sorted(ends)
    found = [number for number, ref in enumerate(ledgers) if number == 0 or ends_cluster(ref)]
    found += [number for end in behind if 0 < (number := bisect_right(ids, end)) < len(ids)]
    return sorted(set(found))

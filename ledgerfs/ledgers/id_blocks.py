"""Which ledgers of a topic one cluster has written, and which another one that served the topic after it: as the blocks of their ids tell.

`ledgerfs recover` has a new cluster make its ids in another block of 2³² than the lost one did. The new one's coordinator of transactions
gives ids again that the lost one gave, so that the end of a transaction means messages of its own cluster only.

A block alone is no cluster: one that is in use goes on in another block, too, when something is restored into it. So a cluster ends only
where a settled copy of one of its ledgers was made for another one, which makes its ids from the next block on, or a later one. Ledgers
without messages of transactions have no such copy, and need none, since a marker that is before a message counts in its own block alone.
"""

from collections.abc import Iterable, Sequence

from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.read_order import is_own_id

_BLOCK_BITS = 32
_NEVER = 2**63


def is_in_one_block(ledger_id: int, other: int) -> bool:
    """Whether two ids of a living cluster's ledgers are of one block."""
    return ledger_id >> _BLOCK_BITS == other >> _BLOCK_BITS


def blocks_of(ledgers: Iterable[LedgerRef]) -> list[int]:
    """Return the number of the block that each ledger of a topic is of, given in the order of their ids.

    What was made of a ledger under another id is of that one's block; imported rows are of none, so they have that of what is before them.
    """
    blocks: list[int] = []
    for ref in ledgers:
        if ref.origin is None and is_own_id(ref.ledger_id):
            blocks.append(blocks[-1] if blocks else -1)
        else:
            blocks.append(ref.root.ledger_id >> _BLOCK_BITS)
    return blocks


def first_of_clusters(ledgers: Sequence[LedgerRef]) -> list[int]:
    """Return the numbers of the ledgers with which a cluster begins; given those of a topic, in the order of their ids."""
    found: list[int] = []
    before, next_cluster = -1, _NEVER
    for number, (ref, block) in enumerate(zip(ledgers, blocks_of(ledgers), strict=True)):
        if not number or (block != before and block >= next_cluster):
            found.append(number)
            next_cluster = _NEVER
        before = block
        if ref.restored_for is not None:
            next_cluster = min(next_cluster, ref.restored_for)
    return found

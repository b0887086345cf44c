"""Which ledgers of a topic one cluster has written, and which another one that served the topic after it: as the blocks of their ids tell.

`ledgerfs recover` has a new cluster make its ids in another block of 2³² than the lost one did. The new one's coordinator of transactions
gives ids again that the lost one gave, so that the end of a transaction means messages of its own cluster only.

A block alone is no cluster: one that is in use goes on in another block, too, when something is restored into it. So a cluster ends only
where a settled copy of one of its ledgers was made for another one, which makes its ids from the next block on, or a later one. Ledgers
without messages of transactions have no such copy, and need none.
"""

from collections.abc import Iterable

from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.read_order import is_own_id

_BLOCK_BITS = 32
_NEVER = 2**63


def first_of_clusters(ledgers: Iterable[LedgerRef]) -> list[int]:
    """Return the numbers of the ledgers with which a cluster begins; given those of a topic, in the order of their ids.

    What was made of a ledger under another id is of that one's cluster; imported rows are of no cluster, and begin none.
    """
    found: list[int] = []
    block, next_cluster = -1, _NEVER
    for number, ref in enumerate(ledgers):
        is_of_none = ref.origin is None and is_own_id(ref.ledger_id)
        its = block if is_of_none else ref.root.ledger_id >> _BLOCK_BITS
        if not number or (its != block and its >= next_cluster):
            found.append(number)
            next_cluster = _NEVER
        block = its
        if ref.restored_for is not None:
            next_cluster = min(next_cluster, ref.restored_for)
    return found

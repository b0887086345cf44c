"""Names of partitioned topics: such a name refers to its partitions, unless ledgers of exactly that name exist and hide them.

So writers refuse to create a first ledger of that name beside partitions; they check before the write and after it.
"""

from collections.abc import Collection
from itertools import chain

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.topic_names import split_partition, topic_of

_MOST_NAMED = 3
"""Largest number of partitions in an error."""


def partitions_of(catalog: Catalog, managed_ledger: str) -> list[str]:
    """Return the managed ledgers of a topic's partitions, by number, including those whose ledgers are all being written."""
    numbered = [(name, split_partition(name)) for name in catalog.names_from(f"{managed_ledger}-partition-")]
    found = [
        (int(number), name)
        for name, (stem, number) in numbered
        if stem == managed_ledger and number is not None and catalog.knows(name)
    ]
    return [name for _, name in sorted(found)]


def require_own_name(catalog: Catalog, managed_ledger: str, new: Collection[str] = ()) -> None:
    """Raise `InvalidNameError` if a ledger of this name is its first one and would hide the partitions of that name.

    ``new`` are uuids of the ledgers being written, which may already be in the catalog.
    """
    partitions = partitions_of(catalog, managed_ledger)
    if not partitions or _has_others(catalog, managed_ledger, new):
        return
    named = ", ".join(map(topic_of, partitions[:_MOST_NAMED]))
    more = f" and {len(partitions) - _MOST_NAMED} more" if len(partitions) > _MOST_NAMED else ""
    raise InvalidNameError(
        f"this topic is partitioned: the bucket has {named}{more}. A ledger under the topic's own name would hide these partitions: "
        "choose a partition, or another topic",
        key=topic_of(managed_ledger),
    )


def _has_others(catalog: Catalog, managed_ledger: str, new: Collection[str]) -> bool:
    uuids = chain(
        (one.uuid for one in catalog.refs_of(managed_ledger)), (one.uuid for one in catalog.missing_of(managed_ledger))
    )
    return any(one not in new for one in uuids)

"""How much tasks read of the bookies of a living cluster, which serve producers meanwhile: a rate over all tasks, in equal shares.

Nobody tells the process that plans a query how many of its tasks run at once. So there are few tasks: each has one connection a bookie,
and its share of the rate is worth having.
"""

from dataclasses import replace

from ledgerfs.spark.runtime.storage import Storage

DEFAULT_BOOKIE_RATE = 64 << 20
"""Bytes a second of each bookie: what leaves the disks and networks of most to their producers."""

DEFAULT_BOOKIE_CONNECTIONS = 16
"""Tasks of a query, each of which has a connection to a bookie: a bookie serves hundreds, and this many have work for most sessions."""

_SCHEME, _OPTION = "pulsar+zk://", "bookie_rate"


def with_share(storage: Storage, rate: int | None, tasks: int) -> Storage:
    """Return the storage for one of ``tasks`` tasks that may run at once, which together read ``rate`` bytes a second of each bookie.

    Without a rate it is `DEFAULT_BOOKIE_RATE`, unless the user has given what each process may read (``bookie_rate``). Buckets
    have no bookies: their storage is returned as it is.
    """
    if not _is_cluster(storage) or (rate is None and _OPTION in storage.options):
        return storage
    share = (DEFAULT_BOOKIE_RATE if rate is None else rate) / max(1, tasks)
    return replace(storage, options={**storage.options, _OPTION: share})


def most_tasks(storage: Storage, connections: int | None) -> int | None:
    """Return into how many tasks a query may be cut whose tasks have ``connections`` to each bookie; None for any number.

    Without a number it is `DEFAULT_BOOKIE_CONNECTIONS`. Buckets have no bookies, and any number of tasks.
    """
    if not _is_cluster(storage):
        return None
    return DEFAULT_BOOKIE_CONNECTIONS if connections is None else connections


def _is_cluster(storage: Storage) -> bool:
    return storage.url.startswith(_SCHEME)

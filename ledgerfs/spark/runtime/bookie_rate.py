"""How much tasks read of the bookies of a living cluster, which serve producers meanwhile: a rate over all tasks, in equal shares."""

from dataclasses import replace

from ledgerfs.spark.runtime.storage import Storage

DEFAULT_BOOKIE_RATE = 64 << 20
"""Bytes a second of each bookie: what leaves the disks and networks of most to their producers."""

_SCHEME, _OPTION = "pulsar+zk://", "bookie_rate"


def with_share(storage: Storage, rate: int | None, tasks: int) -> Storage:
    """Return the storage for one of ``tasks`` tasks that may run at once, which together read ``rate`` bytes a second of each bookie.

    Without a rate it is `DEFAULT_BOOKIE_RATE`, unless the user has given what each process may read (``bookie_rate``). Buckets
    have no bookies: their storage is returned as it is.
    """
    is_cluster = storage.url.startswith(_SCHEME)
    if not is_cluster or (rate is None and _OPTION in storage.options):
        return storage
    share = (DEFAULT_BOOKIE_RATE if rate is None else rate) / max(1, tasks)
    return replace(storage, options={**storage.options, _OPTION: share})

"""Which parts of a bucket a query reads."""

import logging

from ledgerfs.spark.read_options import ReadOptions
from ledgerfs.vfs.catalog import Catalog
from ledgerfs.vfs.ledger_times import TimeRange
from ledgerfs.vfs.moments import CLOCK_SLACK_MS, milliseconds_of
from ledgerfs.vfs.partitions import PartitionPlan, plan_partitions, wanted_ledgers, within
from ledgerfs.vfs.scan_options import require_known

_MOST_NAMED = 10

_log = logging.getLogger("ledgerfs.spark")


def plan(options: ReadOptions) -> PartitionPlan:
    """List the bucket and plan the query: the same bucket always gives the same plan.

    Raises `NotFoundError` (no such bucket or topic), `InvalidOptionError` (a time that is none), `AccessDeniedError`, `StoreError`.
    """
    scan = options.scan
    require_known(scan)
    start, end = milliseconds_of(scan.get("start_time")), milliseconds_of(scan.get("end_time"))
    times = TimeRange(start, end, scan.get("clock_slack_ms", CLOCK_SLACK_MS))
    # Not the bucket of this process, which may know the catalog of an earlier plan.
    catalog = options.storage.open().catalog
    say_what_is_missing(catalog)
    wanted = wanted_ledgers(catalog, options.topics, options.pattern)
    return plan_partitions(catalog, within(catalog, wanted, times), options.partition_bytes)


def say_what_is_missing(catalog: Catalog) -> None:
    """Log which ledgers no query can have: nobody should take the rest for all."""
    for bad in catalog.bad_indexes:
        _log.warning("ledger %d is left out: %s", bad.key.ledger_id, bad.error)
    if catalog.lost.size:
        ids = ", ".join(map(str, catalog.lost["ledger_id"][:_MOST_NAMED].tolist()))
        more = f" and {catalog.lost.size - _MOST_NAMED:,} more" if catalog.lost.size > _MOST_NAMED else ""
        _log.warning("left out, as there is no data object: ledgers %s%s; `ledgerfs verify` tells", ids, more)

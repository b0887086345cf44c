"""Which parts of a bucket a query reads."""

from ledgerfs.spark.read_options import ReadOptions
from ledgerfs.vfs.moments import milliseconds_of
from ledgerfs.vfs.partitions import PartitionPlan, plan_partitions, wanted_ledgers, within
from ledgerfs.vfs.time_pruning import CLOCK_SLACK_MS


def plan(options: ReadOptions) -> PartitionPlan:
    """List the bucket and plan the query: the same bucket always gives the same plan.

    Raises `NotFoundError` (no such bucket or topic), `InvalidNameError` (a time that is none), `AccessDeniedError`, `StoreError`.
    """
    scan = options.scan
    times = (milliseconds_of(scan.get("start_time")), milliseconds_of(scan.get("end_time")))
    # Not the bucket of this process, which may know the catalog of an earlier plan.
    catalog = options.storage.open().catalog
    wanted = wanted_ledgers(catalog, options.topics, options.pattern)
    wanted = within(catalog, wanted, *times, scan.get("clock_slack_ms", CLOCK_SLACK_MS))
    return plan_partitions(catalog, wanted, options.partition_bytes)

"""Plan a query: select the parts of a bucket that it reads."""

import logging
from collections.abc import Callable, Iterator, Sequence

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.partition_plan import PartitionPlan, plan_partitions, within
from ledgerfs.bucket.partitions import Reported
from ledgerfs.bucket.wanted_topics import wanted_ledgers, wanted_names
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.missing_ledgers import MissingLedger, require_present
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.part_reading import times_of
from ledgerfs.spark.source.query_values import (
    QueryValues,
    Schemas,
    topics_to_read,
    values_of,
    with_topics,
)
from ledgerfs.spark.source.read_options import ReadOptions

_MOST_NAMED = 10

OnMissing = Callable[[Sequence[MissingLedger]], None]
"""Called with the missing ledgers that a query skips."""

_log = logging.getLogger("ledgerfs.spark")


def plan(options: ReadOptions, on_missing: OnMissing = lambda _: None) -> PartitionPlan:
    """List the bucket and plan the query; the same bucket always results in the same plan.

    Raises `NotFoundError` (no such bucket or topic), `MissingLedgerError` (a topic lacks ledgers), `InvalidOptionError` (an invalid
    option), `AccessDeniedError`, `StoreError`.
    """
    options.scan.require_of_parts()
    # Not the bucket of this process, which may have the catalog of an earlier plan.
    bucket = options.storage.open()
    catalog = bucket.catalog
    on_missing(look_for_missing(bucket, catalog, options.topics, options.pattern, options.scan))
    wanted = wanted_ledgers(catalog, options.topics, options.pattern)
    return plan_partitions(
        catalog, within(catalog, wanted, times_of(options.scan)), options.partition_bytes, most=options.most_parts
    )


def plan_values(options: ReadOptions) -> QueryValues:
    """List the bucket, unless values are bytes, and return the value format of the query; raises as `plan` and `values_of`."""
    if options.scan.values == "bytes":
        return QueryValues()
    bucket = options.storage.open()
    return values_of(bucket, topics_to_read(bucket.catalog, options.topics, options.pattern), options.scan)


def plan_parts(
    options: ReadOptions, values: QueryValues | None, on_missing: OnMissing = lambda _: None
) -> Iterator[tuple[Reported, Schemas]]:
    """Plan the query, and yield each part with the schemas of its topics; looks up schemas of topics that are new since then.

    Raises as `plan` and `values_of`.
    """
    parts = list(plan(options, on_missing).reported())
    names = (run[0] for part in parts for run in part)
    known = (
        with_topics(values or QueryValues(), options.storage.open(), names, options.scan) if parts else QueryValues()
    )
    return ((part, known.of_part(part)) for part in parts)


def look_for_missing(
    bucket: Bucket,
    catalog: Catalog,
    topics: Sequence[str] | str | None,
    pattern: str | None,
    options: ScanOptions,
) -> list[MissingLedger]:
    """Return and log missing ledgers with ``on_corrupt="skip"``; otherwise raise `MissingLedgerError` if there are any.

    Warns (`UnplacedLedgersWarning`) about ledgers of unknown topics, and about ledgers that are being uploaded.
    """
    names = sorted(wanted_names(catalog, topics, pattern), key=lambda one: one or "")
    missing: list[MissingLedger] = []
    bucket.warn_of_unplaced([None, *names], catalog)
    for name in names:
        lacking = catalog.missing_of(name)
        require_present(topic_of(name), lacking, options.on_corrupt)
        missing += lacking
    for one in missing[:_MOST_NAMED]:
        _log.warning("%s: ledger %d is left out: %s (%s)", one.topic, one.ledger_id, one.why, one.key)
    if len(missing) > _MOST_NAMED:
        _log.warning("%d more ledgers are left out", len(missing) - _MOST_NAMED)
    return missing

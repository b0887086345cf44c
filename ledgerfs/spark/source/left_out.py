"""Omissions of a read: damaged entries, incomplete chunked messages and undecodable values, which tasks report, and missing ledgers."""

from collections.abc import Iterable
from dataclasses import replace

from pyspark import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from ledgerfs.catalog.missing_ledgers import MissingLedger
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped
from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.scan.report import ScanReport

Omission = tuple[str, Skipped | Incomplete | MissingLedger | Undecodable]
"""A topic, and an omission in it."""

Omissions = frozenset[Omission]


class _Union(AccumulatorParam[Omissions]):
    """The union of the tasks' reports: a task may run twice and repeat its report."""

    def zero(self, value: Omissions) -> Omissions:  # noqa: ARG002  (as Spark has it)
        return frozenset()

    def addInPlace(self, value1: Omissions, value2: Omissions) -> Omissions:  # noqa: N802  (as Spark has it)
        return value1 | value2


def left_out_accumulator(spark: SparkSession) -> "Accumulator[Omissions]":
    """Return an accumulator of the tasks' omissions, for `ledgerfs.spark.read_messages`; complete when a query has finished."""
    return spark.sparkContext.accumulator(frozenset(), _Union())


def omissions_of(report: ScanReport) -> Omissions:
    """Return the omissions of a scan."""
    places: list[Skipped | Incomplete | Undecodable] = [*report.skipped, *report.incomplete, *report.undecodable]
    return frozenset((report.topic, place) for place in places)


def by_topic(omissions: Iterable[Omission]) -> list[ScanReport]:
    """Return one report for each topic, with its omissions in the order of the topic."""
    topics: dict[str, list[Skipped | Incomplete | MissingLedger | Undecodable]] = {}
    for topic, omitted in omissions:
        topics.setdefault(topic, []).append(omitted)
    return [
        ScanReport(
            topic,
            sorted((one for one in found if isinstance(one, Skipped)), key=_position),
            sorted((one for one in found if isinstance(one, Incomplete)), key=_position),
            summed(one for one in found if isinstance(one, Undecodable)),
            sorted((one for one in found if isinstance(one, MissingLedger)), key=lambda one: one.ledger_id),
        )
        for topic, found in sorted(topics.items())
    ]


def summed(parts: Iterable[Undecodable]) -> list[Undecodable]:
    """Sum up the undecodable values of several scans of one topic, by version and reason, sorted by these."""
    found: dict[tuple[int | None, str], Undecodable] = {}
    for one in sorted(parts, key=lambda one: _place_of(one.first)):
        before = found.get((one.version, one.reason))
        count = one.count + (0 if before is None else before.count)
        found[one.version, one.reason] = replace(one if before is None else before, count=count)
    return [found[key] for key in sorted(found, key=lambda key: (-1 if key[0] is None else key[0], key[1]))]


def _place_of(first: str) -> tuple[int, ...]:
    """Return a sort key for a message id, which a word may follow."""
    return tuple(map(int, first.partition(" ")[0].split(":")))


def _position(omitted: Skipped | Incomplete) -> tuple[int, int]:
    return (omitted.ledger_id, omitted.first_entry if isinstance(omitted, Skipped) else omitted.entry_id)

"""What reading left out: damaged entries, incomplete chunked messages and undecodable values, which tasks report, and missing ledgers."""

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
"""A topic, and what is missing of it."""

Omissions = frozenset[Omission]


class _Union(AccumulatorParam[Omissions]):
    """The union of the tasks' reports: a task may run twice, and report the same twice."""

    def zero(self, value: Omissions) -> Omissions:  # noqa: ARG002  (as Spark has it)
        return frozenset()

    def addInPlace(self, value1: Omissions, value2: Omissions) -> Omissions:  # noqa: N802  (as Spark has it)
        return value1 | value2


def left_out_accumulator(spark: SparkSession) -> "Accumulator[Omissions]":
    """Return an accumulator of what tasks leave out, for `ledgerfs.spark.read_messages`; it is complete when a query has ended."""
    return spark.sparkContext.accumulator(frozenset(), _Union())


def omissions_of(report: ScanReport) -> Omissions:
    """Return what a scan has left out."""
    places: list[Skipped | Incomplete | Undecodable] = [*report.skipped, *report.incomplete, *report.undecodable]
    return frozenset((report.topic, place) for place in places)


def by_topic(omissions: Iterable[Omission]) -> list[ScanReport]:
    """Return a report of what tasks left out of each topic, in the topic's order."""
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
    """Return the values of several scans of one topic that could not be decoded: one for each version and reason, by these."""
    found: dict[tuple[int | None, str], Undecodable] = {}
    for one in sorted(parts, key=lambda one: _place_of(one.first)):
        before = found.get((one.version, one.reason))
        count = one.count + (0 if before is None else before.count)
        found[one.version, one.reason] = replace(one if before is None else before, count=count)
    return [found[key] for key in sorted(found, key=lambda key: (-1 if key[0] is None else key[0], key[1]))]


def _place_of(first: str) -> tuple[int, ...]:
    """Return what orders ids of messages, which may be followed by a word."""
    return tuple(map(int, first.partition(" ")[0].split(":")))


def _position(omitted: Skipped | Incomplete) -> tuple[int, int]:
    return (omitted.ledger_id, omitted.first_entry if isinstance(omitted, Skipped) else omitted.entry_id)

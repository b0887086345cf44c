"""What reading left out: damaged entries and incomplete chunked messages, which tasks report to the driver, and missing ledgers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from ledgerfs.ledgers.missing_ledgers import MissingLedger
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.decode.entries import Skipped

if TYPE_CHECKING:
    from ledgerfs.scan.scan import Scan

Omission = tuple[str, Skipped | Incomplete | MissingLedger]
"""A topic, and what is missing of it."""

Omissions = frozenset[Omission]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What was left out of one topic, in its order."""

    topic: str
    skipped: tuple[Skipped, ...]
    incomplete: tuple[Incomplete, ...]
    missing: tuple[MissingLedger, ...]


class _Union(AccumulatorParam[Omissions]):
    """The union of the tasks' reports: a task may run twice, and report the same twice."""

    def zero(self, value: Omissions) -> Omissions:  # noqa: ARG002  (as Spark has it)
        return frozenset()

    def addInPlace(self, value1: Omissions, value2: Omissions) -> Omissions:  # noqa: N802  (as Spark has it)
        return value1 | value2


def left_out_accumulator(spark: SparkSession) -> "Accumulator[Omissions]":
    """Return an accumulator of what tasks leave out, for `ledgerfs.spark.read_messages`; it is complete when a query has ended."""
    return spark.sparkContext.accumulator(frozenset(), _Union())


def omissions_of(scan: "Scan") -> Omissions:
    """Return what a scan has left out."""
    places: list[Skipped | Incomplete] = [*scan.skipped, *scan.incomplete]
    return frozenset((scan.topic, place) for place in places)


def by_topic(omissions: Iterable[Omission]) -> list[LeftOut]:
    """Return what tasks left out, topic by topic."""
    topics: dict[str, list[Skipped | Incomplete | MissingLedger]] = {}
    for topic, omitted in omissions:
        topics.setdefault(topic, []).append(omitted)
    return [
        LeftOut(
            topic,
            tuple(sorted((one for one in found if isinstance(one, Skipped)), key=_position)),
            tuple(sorted((one for one in found if isinstance(one, Incomplete)), key=_position)),
            tuple(sorted((one for one in found if isinstance(one, MissingLedger)), key=lambda one: one.ledger_id)),
        )
        for topic, found in sorted(topics.items())
    ]


def _position(omitted: Skipped | Incomplete) -> tuple[int, int]:
    return (omitted.ledger_id, omitted.first_entry if isinstance(omitted, Skipped) else omitted.entry_id)

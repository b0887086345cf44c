"""The bytes of the values that a scan reads, and nothing else: what their type is inferred from."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import pyarrow as pa

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.missing_ledgers import MissingLedger
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.scan.scan import Scan


class TopicLedgers(NamedTuple):
    """A topic or a partition.

    Attributes
    ----------
    topic
        Its name.
    ledgers, missing
        Its ledgers, and those that cannot be read.
    skips_refused
        Whether what the store refuses is left out (``on_unreadable="skip"``).

    """

    topic: str
    ledgers: Sequence[LedgerReader]
    missing: Sequence[MissingLedger] = ()
    skips_refused: bool = False

    @classmethod
    def of(cls, managed_ledger: str | None, ledgers: Sequence[LedgerReader], catalog: Catalog) -> Self:
        """Return a topic as a catalog has it; ``ledgers`` are those that it can read."""
        return cls(topic_of(managed_ledger), ledgers, catalog.missing_of(managed_ledger), catalog.skips_refused)

    def scan_as(self, whole: Scan) -> Scan:
        """Return a scan of the topic with the options of ``whole``, a scan of no ledgers."""
        # Known outcomes are by places in their topic.
        return replace(
            whole, topic=self.topic, ledgers=self.ledgers, missing=self.missing,
            skips_refused=self.skips_refused, known_outcomes={},
        )  # fmt: skip


def value_bytes(whole: Scan, topics: Iterable[TopicLedgers]) -> Iterator[pa.RecordBatch]:
    """Yield the column ``value`` of some topics, each read with the options of ``whole``, a scan of no ledgers.

    The rows are those that scans with these options have, before values are decoded. Raises as these do.
    """
    bare = replace(whole, values=None, options=replace(whole.options, columns=("value",)))
    scans = [one.scan_as(bare) for one in topics]
    for scan in scans:
        scan.require_all()
    for scan in scans:
        yield from scan

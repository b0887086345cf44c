"""The bytes of the values that a scan reads, and nothing else: what their type is inferred from."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from ledgerfs.ledgers.missing_ledgers import MissingLedger
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.scan.scan import Scan

TopicLedgers = tuple[str, Sequence[LedgerReader], Sequence[MissingLedger]]
"""Name of a topic or a partition, its ledgers, and its ledgers that cannot be read."""


def value_bytes(whole: Scan, topics: Iterable[TopicLedgers]) -> Iterator[pa.RecordBatch]:
    """Yield the column ``value`` of some topics, each read with the options of ``whole``, a scan of no ledgers.

    The rows are those that scans with these options have, before values are decoded. Raises as these do.
    """
    bare = replace(whole, values=None, options=replace(whole.options, columns=("value",)))
    scans = [
        # Known outcomes are by places in their topic.
        replace(bare, topic=topic, ledgers=ledgers, missing=missing, known_outcomes={})
        for topic, ledgers, missing in topics
    ]
    for scan in scans:
        scan.require_all()
    for scan in scans:
        yield from scan

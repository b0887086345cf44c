"""Inferred types of topics whose values are documents without a schema: one for all files of a topic.

A type is inferred from all ledgers of a topic, with all partitions, and cached until these change: a new ledger may have new fields, which
change all files. Skips damage: only the file of the damaged ledger is an error.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from cachetools import LRUCache

from ledgerfs.bucket.wanted_topics import NamedTopic
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.catalog.row_dependencies import state_of
from ledgerfs.forked import ForkLock
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs.scan.options import ScanOptions

if TYPE_CHECKING:
    from ledgerfs.scan.shown_values import ShownValues

_TOPICS, _STATES = 1 << 10, 16
_OfTopic = tuple[str | None, list[LedgerRef]]
"""A managed ledger and its ledgers."""


class InferredTypes:
    """Inferred types of the topics of one bucket, with the same options.

    Parameters
    ----------
    open_ledger
        Returns the reader of a ledger.
    scan_options
        The scan options.

    """

    def __init__(self, open_ledger: Callable[[LedgerRef], LedgerReader], scan_options: ScanOptions) -> None:
        self._open_ledger = open_ledger
        on_encrypted = "null" if scan_options.on_encrypted == "raise" else scan_options.on_encrypted
        self._options = replace(scan_options, on_corrupt="skip", on_encrypted=on_encrypted)
        self._known: LRUCache[bytes, ShownValues] = LRUCache(_TOPICS)
        self._learning: dict[bytes, ForkLock] = {}
        self._states: LRUCache[str | None, tuple[Catalog, list[_OfTopic], bytes]] = LRUCache(_STATES)
        self._lock = ForkLock()

    def known(self, catalog: Catalog, managed_ledger: str | None) -> "ShownValues | None":
        """Return the value format that was inferred from the current ledgers; None if not yet inferred."""
        _, state = self._ledgers_of(catalog, managed_ledger)
        with self._lock:
            return self._known.get(state)

    def learned(self, shown: "ShownValues", catalog: Catalog, managed_ledger: str | None) -> "ShownValues":
        """Return the value format of a topic with all its partitions; raises the errors of reading them."""
        topics, state = self._ledgers_of(catalog, managed_ledger)
        with self._lock:
            learning = self._learning.setdefault(state, ForkLock())
        # Another thread that opens a file of the topic waits for the same result.
        with learning:
            try:
                found = self.known(catalog, managed_ledger)
                if found is None:
                    found = self._learned(shown, topics)
                    with self._lock:
                        self._known[state] = found
                return found
            finally:
                with self._lock:
                    self._learning.pop(state, None)

    def _ledgers_of(self, catalog: Catalog, managed_ledger: str | None) -> tuple[list[_OfTopic], bytes]:
        """Return the ledgers of a managed ledger, for a partition those of all partitions, and their digest; called for each file."""
        with self._lock:
            kept = self._states.get(managed_ledger)
        if kept is None or kept[0] is not catalog:
            topics = _ledgers_of_all(catalog, managed_ledger)
            kept = (catalog, topics, _state_of(topics))
            with self._lock:
                self._states[managed_ledger] = kept
        return kept[1], kept[2]

    def _learned(self, shown: "ShownValues", topics: "Sequence[_OfTopic]") -> "ShownValues":
        """Return the value format from the ledgers of topics, without unreadable ones."""
        # This imports pyarrow and numba, which listing and copying do not need.
        from ledgerfs.scan.part_reading import TopicPart
        from ledgerfs.scan.scan import learned_values

        parts = [TopicPart(topic_of(name), [self._open_ledger(ref) for ref in refs]) for name, refs in topics]
        return learned_values(shown, parts[0].topic, parts, self._options)


def _ledgers_of_all(catalog: Catalog, managed_ledger: str | None) -> list[_OfTopic]:
    stem, number = split_partition(managed_ledger or "")
    named = NamedTopic(managed_ledger) if number is None else NamedTopic(stem, is_partitioned=True)
    return [(name, [ref for ref in catalog.refs_of(name) if ref.copy == 0]) for name in named.managed_ledgers(catalog)]


def _state_of(topics: Sequence[_OfTopic]) -> bytes:
    return sha256(repr([(name, state_of(refs)) for name, refs in topics]).encode()).digest()

"""One ledger of a topic as a table of messages, and the identity of such a table.

A table depends on more than its ledger: a chunked message may begin in an earlier ledger, the outcome of a transaction may be in a later
one, perhaps not yet offloaded. So each table has a key from its constants (bucket, ledger, options), and a state, a digest of the topic's
current ledgers, which matters only for tables that are not final. Where values are columns, the key also contains their source: the topic's
schemas, or the type that was inferred from all its ledgers.
"""

import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, overload
from uuid import uuid4

from cachetools import LRUCache

from ledgerfs import __version__
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.catalog.row_dependencies import state_of
from ledgerfs.errors import LedgerfsError
from ledgerfs.forked import ForkLock
from ledgerfs.scan.options import ScanOptions
from ledgerfs.vfs.views.inferred_types import InferredTypes

if TYPE_CHECKING:
    from ledgerfs.scan.scan import Scan
    from ledgerfs.scan.shown_values import ShownValues

_TOPICS = 16
_RENDERER = 4
"""Increment this when the table of a ledger changes, so that older files are not used any more."""

_Infer = Callable[["ShownValues", Catalog, str | None], "ShownValues | None"]


class LedgerTables:
    """The tables of one bucket's ledgers.

    Parameters
    ----------
    source
        The bucket.
    scan_options
        Options of `Topic.scan`, except ``on_corrupt``: a damaged ledger must not appear whole.

    """

    def __init__(self, source: Bucket, scan_options: ScanOptions) -> None:
        scan_options.require_of_files()
        self._source = source
        self._scan_options = scan_options
        self._catalog: Catalog | None = None
        self._topics: LRUCache[str | None, _Topic] = LRUCache(_TOPICS)
        self._unread: set[str | None] = set()
        self._types = InferredTypes(source.reader, scan_options)
        self._lock = ForkLock()

    def table(self, ref: LedgerRef, kind: str) -> "LedgerTable":
        """Return a ledger's table as a file of one kind, from the current catalog; determines the value format once per catalog.

        For the value format, reads the schemas of the topic, or all its messages if their type is inferred. Raises as `Bucket.schemas_of`,
        and the errors of reading undamaged ledgers.
        """
        topic = self._topic_of(ref)
        if not topic.are_values_known:
            topic = self._with_values(ref, topic, self._types.learned)
        return self._table(ref, kind, topic)

    def table_if_known(self, ref: LedgerRef, kind: str) -> "LedgerTable | None":
        """Return the result of `table`; None if a type is not inferred yet: a listing of a folder must not read a topic.

        Also None if the schemas cannot be read, which is tried once for each topic of a catalog.
        """
        if ref.managed_ledger in self._unread and self._source.catalog is self._catalog:
            return None
        try:
            topic = self._topic_of(ref)
            if not topic.are_values_known:
                topic = self._with_values(ref, topic, lambda _, *of: self._types.known(*of))
        except LedgerfsError:
            # Opening the file raises the reason; the other files of its folder can be listed.
            self._unread.add(ref.managed_ledger)
            return None
        return self._table(ref, kind, topic) if topic.are_values_known else None

    def _table(self, ref: LedgerRef, kind: str, topic: "_Topic") -> "LedgerTable":
        of_values = () if topic.values is None else (repr(sorted(topic.values.described.items())),)
        return LedgerTable(self._source, self._scan_options, topic, ref, self.key(ref, kind, *of_values))

    def key(self, ref: LedgerRef, kind: str, *of_values: str) -> str:
        """Return the key of a ledger's file of one kind: 64 hexadecimal digits, which reveal no option.

        ``of_values`` is the source of its value format; empty for bytes.
        """
        return _digest(
            self._fingerprint, kind, ref.managed_ledger, *(stat for _, stat in ref.objects), *of_values
        ).hex()

    def _topic_of(self, ref: LedgerRef) -> "_Topic":
        catalog = self._source.catalog
        with self._lock:
            if self._catalog is not catalog:
                self._catalog = catalog
                self._topics.clear()
                self._unread.clear()
            topic = self._topics.get(ref.managed_ledger)
            if topic is None:
                are_bytes = self._scan_options.values == "bytes"
                topic = self._topics[ref.managed_ledger] = _Topic.of(catalog, ref.managed_ledger, are_bytes=are_bytes)
            return topic

    def _with_values(self, ref: LedgerRef, topic: "_Topic", infer: "_Infer") -> "_Topic":
        """Return the topic of a ledger with its value format; unchanged if the type is not inferred yet."""
        # This imports pyarrow and numba, which listing and copying of bytes do not need.
        from ledgerfs.scan.scan import shown_values

        # Without the lock, which would block other threads; two may read at once.
        shown = shown_values(ref.topic, self._scan_options, lambda: self._source.schemas_of(ref.topic))
        if shown is not None and shown.source.awaits_values:
            shown = infer(shown, topic.catalog, ref.managed_ledger)
            if shown is None:
                return topic
        read = replace(topic, values=shown, are_values_known=True)
        with self._lock:
            if self._topics.get(ref.managed_ledger) is topic:
                self._topics[ref.managed_ledger] = read
        return read

    @cached_property
    def _fingerprint(self) -> bytes:
        options = self._scan_options
        of_rows = {**options.described, "columns": options.columns, "values": options.values != "bytes"}
        secrets = sorted((name, _content(source)) for name, source in (options.private_keys or {}).items())
        # A bucket without an identity does not share its files with another one.
        identity = self._source.identity or uuid4().hex
        return _digest(__version__, _RENDERER, identity, self._source.layout, sorted(of_rows.items()), secrets)


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """One ledger's table as a file of one kind: its key, and its scan, both with the same columns.

    Attributes
    ----------
    key
        The key from `LedgerTables.key`, with the source of the value format.

    """

    _source: Bucket
    _scan_options: ScanOptions
    _topic: "_Topic"
    _ref: LedgerRef
    key: str

    @property
    def state(self) -> bytes:
        """A digest of the topic's ledgers."""
        return self._topic.state

    def scan(self) -> "Scan":
        """Return a scan of this ledger's rows of the topic; a further copy replaces the default copy."""
        # These import pyarrow and numba, which listing and copying do not need.
        from ledgerfs.catalog.ledger_times import LedgerTimes
        from ledgerfs.scan.part_reading import TopicPart, times_of
        from ledgerfs.scan.scan import scan_of
        from ledgerfs.scan.topic_entries import Reach

        ref, refs = self._ref, list(self._topic.refs)
        number = bisect_left(refs, ref.ledger_id, key=lambda one: one.ledger_id)
        is_there = number < len(refs) and refs[number].ledger_id == ref.ledger_id
        refs[number : number + is_there] = [ref]
        limits = LedgerTimes.of_refs(refs) if times_of(self._scan_options).has_limits else None
        reach = Reach.of(range(number, number + 1))
        part = TopicPart(ref.topic, _Readers(self._source, refs), reach=reach, limits=limits)
        return scan_of(ref.topic, [part], self._scan_options, self._topic.values)


@dataclass(frozen=True, slots=True)
class _Topic:
    """The ledgers of a topic, a digest of them, and the value format if known: None for bytes."""

    catalog: Catalog
    refs: tuple[LedgerRef, ...]
    state: bytes
    are_values_known: bool
    values: "ShownValues | None" = None

    @classmethod
    def of(cls, catalog: Catalog, managed_ledger: str | None, *, are_bytes: bool) -> "_Topic":
        refs = tuple(ref for ref in catalog.refs_of(managed_ledger) if ref.copy == 0)
        return cls(catalog, refs, state_of(refs), are_bytes)


class _Readers(Sequence[LedgerReader]):
    """The readers of a topic's ledgers, created on demand: few of thousands are used."""

    def __init__(self, source: Bucket, refs: Sequence[LedgerRef]) -> None:
        self._source = source
        self._refs = refs

    def __len__(self) -> int:
        return len(self._refs)

    @overload
    def __getitem__(self, place: int) -> LedgerReader: ...

    @overload
    def __getitem__(self, place: slice) -> "_Readers": ...

    def __getitem__(self, place: int | slice) -> "LedgerReader | _Readers":
        if isinstance(place, slice):
            return _Readers(self._source, self._refs[place])
        return self._source.reader(self._refs[place])


def _content(source: object) -> object:
    """Return the bytes of a private key's file, of which only a digest is stored; a key itself is returned unchanged."""
    if not isinstance(source, os.PathLike):
        return source
    try:
        return Path(source).read_bytes()
    except OSError:
        # Decrypting with the key will raise.
        return source


def _digest(*values: object) -> bytes:
    return sha256(repr(values).encode()).digest()

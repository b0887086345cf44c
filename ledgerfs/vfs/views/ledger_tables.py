"""One ledger of a topic as a table of messages, and the identity of such a table.

A table depends on more than its ledger: a chunked message may begin in an earlier ledger, the outcome of a transaction may be in a later
one, perhaps one that is not there yet. So each table has a key, of what never changes for it (bucket, ledger, options), and a state, a
digest of the topic's present ledgers, which matters only to tables that are not final.
"""

import os
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload
from uuid import uuid4

from cachetools import LRUCache

from ledgerfs import __version__
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.ledgers.row_dependencies import TopicState
from ledgerfs.scan.options import require_of_files
from ledgerfs.storage.fork_lock import ForkLock

if TYPE_CHECKING:
    from ledgerfs.scan.scan import Scan

_TOPICS = 16
_RENDERER = 3
"""Raise this when the same ledger is to make another table, so that older files are not used any more."""


class LedgerSource(Protocol):
    """What tables need of a bucket."""

    @property
    def identity(self) -> str | None:
        """Names it among all buckets; None if it has no such name (`Bucket.identity`)."""
        ...

    @property
    def dialect(self) -> str:
        """In which dialects it is read: in others, topics may have other ledgers."""
        ...

    @property
    def catalog(self) -> Catalog:
        """Its present ledgers."""
        ...

    def reader(self, ref: LedgerRef) -> LedgerReader:
        """Return the reader of a ledger."""
        ...


class LedgerTables:
    """The tables of one bucket's ledgers.

    Parameters
    ----------
    source
        The bucket.
    scan_options
        Options of `Topic.scan`, except ``on_corrupt``: a damaged ledger must not look whole.

    """

    def __init__(self, source: LedgerSource, scan_options: Mapping[str, Any]) -> None:
        require_of_files(scan_options)
        self._source = source
        self._scan_options = scan_options
        self._catalog: Catalog | None = None
        self._topics: LRUCache[str | None, _Topic] = LRUCache(_TOPICS)
        self._lock = ForkLock()

    def key(self, ref: LedgerRef, kind: str) -> str:
        """Return the key of a ledger's table of one kind: 64 hexadecimal digits, from which no option can be read."""
        return _digest(self._fingerprint, kind, ref.managed_ledger, *(stat for _, stat in ref.objects)).hex()

    def state(self, ref: LedgerRef) -> bytes:
        """Return a digest of the topic's present ledgers."""
        return self._topic_of(ref).state

    def scan(self, ref: LedgerRef) -> "Scan":
        """Return a scan of this ledger's rows of the topic; a further copy takes the place of the one that is read."""
        # These import pyarrow and numba, which listing and copying do not need.
        from ledgerfs.ledgers.ledger_times import LedgerTimes
        from ledgerfs.scan.scan import make_scan
        from ledgerfs.scan.topic_entries import Reach

        refs = list(self._topic_of(ref).refs)
        number = bisect_left(refs, ref.ledger_id, key=lambda one: one.ledger_id)
        is_there = number < len(refs) and refs[number].ledger_id == ref.ledger_id
        refs[number : number + is_there] = [ref]
        scan = make_scan(ref.topic, _Readers(self._source, refs), **self._scan_options)
        limits = LedgerTimes.of_refs(refs) if scan.times.has_limits else None
        return replace(scan, part=Reach.of(range(number, number + 1)), limits=limits)

    def _topic_of(self, ref: LedgerRef) -> "_Topic":
        catalog = self._source.catalog
        with self._lock:
            if self._catalog is not catalog:
                self._catalog = catalog
                self._topics.clear()
            topic = self._topics.get(ref.managed_ledger)
            if topic is None:
                topic = self._topics[ref.managed_ledger] = _Topic.of(catalog, ref.managed_ledger)
            return topic

    @cached_property
    def _fingerprint(self) -> bytes:
        options = dict(self._scan_options)
        keys = options.pop("private_keys", None) or {}
        secrets = sorted((name, _content(source)) for name, source in keys.items())
        # A bucket without an identity shares its files with no other one.
        identity = self._source.identity or uuid4().hex
        return _digest(__version__, _RENDERER, identity, self._source.dialect, sorted(options.items()), secrets)


@dataclass(frozen=True, slots=True)
class _Topic:
    """The ledgers that a topic is read from, and a digest of them."""

    refs: tuple[LedgerRef, ...]
    state: bytes

    @classmethod
    def of(cls, catalog: Catalog, managed_ledger: str | None) -> "_Topic":
        refs = tuple(ref for ref in catalog.refs_of(managed_ledger) if ref.copy == 0)
        return cls(refs, _digest(TopicState(refs).whole))


class _Readers(Sequence[LedgerReader]):
    """The readers of a topic's ledgers, each made on demand: few of thousands are used."""

    def __init__(self, source: LedgerSource, refs: Sequence[LedgerRef]) -> None:
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
    """Return the bytes of a private key's file, of which only a digest is kept; a key itself is returned as it is."""
    if not isinstance(source, os.PathLike):
        return source
    try:
        return Path(source).read_bytes()
    except OSError:
        # Decrypting with the key will raise.
        return source


def _digest(*values: object) -> bytes:
    return sha256(repr(values).encode()).digest()

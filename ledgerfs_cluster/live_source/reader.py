"""Read one ledger of a live cluster: from bookies or from its bucket, and from the other place once it is gone from the first.

Offloads, deletions and trims continue meanwhile. A read begins at the place in the topic's list as last read. If that fails, the list is
read again: an old list never proves that a ledger is gone, or an entry lost.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import Cuts, LedgerReader, OnDamage, Origin, Stream
from ledgerfs.errors import (
    CorruptLedgerError,
    CorruptMetadataError,
    EntryRangeError,
    LedgerfsError,
    NotFoundError,
    StaleObjectError,
)
from ledgerfs.formats.ledger_metadata import LedgerMetadata, LedgerState
from ledgerfs.layouts.described import describe_metadata, describe_ref
from ledgerfs_cluster.cluster_ledgers import entries_between_cuts
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.live_source.access import ClusterAccess
from ledgerfs_cluster.live_source.hot_ledger import HotLedger
from ledgerfs_cluster.live_source.rows import IN_BUCKET, cut_bytes
from ledgerfs_cluster.live_source.stream import stream_live

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
    from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import OffloadContext

_T = TypeVar("_T")

BOOKKEEPER, BUCKET = "BookKeeper", "bucket"

OnFailure = Callable[[str, LedgerfsError], None]
"""Called with a place where a ledger should be but cannot be read, and the error."""

_MOVED = (NotFoundError, StaleObjectError)

_PAUSES_S = (0.2, 0.8)
"""Pauses before searching again for a ledger that is in no place, s."""


class LiveReader(LedgerReader):
    """`LedgerReader` of a ledger of a live cluster. Thread-safe, also after a fork: its cached state is only replaced as a whole."""

    __slots__ = ("_access", "_found", "ref")

    def __init__(self, access: ClusterAccess, ref: LedgerRef) -> None:
        self.ref = ref
        self._access = access
        self._found: _Found | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._access, self.ref))

    @property
    def is_remote(self) -> bool:
        """True."""
        return True

    @property
    def stream(self) -> Stream:
        """The stream for all ledgers of a live cluster."""
        return stream_live

    def cuts(self) -> Cuts:
        """Return split points, a MiB apart, or 64 MiB in a bucket."""
        size = cut_bytes(is_in_bucket=self.ref.objects[0][0] == IN_BUCKET)
        between = entries_between_cuts(self.ref.entries, self.ref.length, size)
        return np.arange(0, self.ref.entries, between, dtype=np.int64)

    def batches(self, first: int, last: int, on_damage: OnDamage | None = None) -> "Iterator[EntryBatch]":
        """Yield the entries in whole buffers; ``on_damage`` receives damaged and lost ones instead.

        Raises `EntryRangeError`, `StaleObjectError` (trimmed, or its topic deleted, since the listing), `CorruptLedgerError` (no bookie has
        a sound copy of an entry, or the object is damaged), `NotFoundError` (listed, but neither in BookKeeper nor in a bucket),
        `StoreUnreachableError`, `AccessDeniedError`, and the errors of the bucket.
        """
        if not 0 <= first <= last <= self.last_entry:
            raise EntryRangeError(
                f"no entries {first} to {last}: the ledger has entries 0 to {self.last_entry}", key=self.ref.key
            )
        return self.batches_from_anywhere(first, last) if on_damage is None else self._kept(first, last, on_damage)

    def batches_from_anywhere(
        self, first: int, last: int, on_damage: OnDamage | None = None, on_failure: OnFailure | None = None
    ) -> "Iterator[EntryBatch]":
        """Yield entries as `batches`; at the end, call ``on_failure`` for each place that failed while another one did not."""
        reported = None if on_damage is None else _Reported(on_damage, first)
        failed: _Failed = {}
        while first <= last:
            found = self._find(failed, may_skip=reported is not None)
            try:
                for batch in found.reader.batches(first, last, reported if found.source.skips_damage else None):
                    yield batch
                    first = batch.last_entry + 1
            except LedgerfsError as error:
                first = first if reported is None else max(first, reported.behind)
                self._found = None
                failed[found.source] = error
            else:
                break
        if on_failure is not None:
            for source, reason in failed.items():
                if source.place != found.source.place and not isinstance(reason, _MOVED):
                    on_failure(source.place, reason)

    def _kept(self, first: int, last: int, on_damage: OnDamage) -> "Iterator[EntryBatch]":
        """Yield the existing entries: a ledger that is no longer in any place counts as damaged to its end."""
        reported = _Reported(on_damage, first)
        try:
            for batch in self.batches_from_anywhere(first, last, reported):
                yield batch
                reported.behind = max(reported.behind, batch.last_entry + 1)
        except NotFoundError as error:
            reported(reported.behind, last, CorruptLedgerError(error.reason, key=error.key))

    def expect(self) -> None:
        """Locate the ledger for its first read, which raises the errors."""
        with suppress(LedgerfsError):
            found = self._find({})
            if isinstance(found.reader, HotLedger):
                found.reader.node()

    def reread(self) -> None:
        """Locate the ledger again, and drop cached parts of its object."""
        found = self._found
        if found is not None and not isinstance(found.reader, HotLedger):
            found.reader.reread()
        self._found = None

    def metadata(self) -> LedgerMetadata | None:
        """Return BookKeeper's metadata; raises as `batches`.

        For a ledger that was still open when the cluster was listed, the end is that of the listing, and the state is open.
        """
        found = self._asked(lambda hot: _metadata_of(hot.node()), lambda cold: cold.metadata())
        if found is None or (found.last_entry, found.length) == (self.last_entry, self.length):
            return found
        return replace(found, last_entry=self.last_entry, length=self.length, state=LedgerState.OPEN)

    def origin(self) -> Origin:
        """Return the blocks of the object; none from bookies."""
        return self._asked(lambda _: Origin(), lambda cold: cold.origin())

    def user_metadata(self) -> Mapping[str, str] | None:
        """Return the user metadata of the objects; None from bookies."""
        return self._asked(lambda _: None, lambda cold: cold.user_metadata())

    def describe(self) -> dict[str, Any]:
        """Return ledger metadata, and the ledger's place."""
        info = self._listed()
        metadata = self.metadata()
        cold = self._asked(lambda _: None, lambda cold: cold.describe())
        return {
            **describe_ref(self.ref),
            "where": BOOKKEEPER if cold is None else BUCKET,
            "offload": None if info.context is None else _described(info.context),
            "ledger_metadata": None if metadata is None else describe_metadata(metadata),
            # A bucket has both, bookies neither.
            "blocks": [] if cold is None else cold["blocks"],
            "objects": {} if cold is None else cold["objects"],
        }

    def _listed(self) -> LedgerInfo:
        return self._access.listed_ledger(self.ref.managed_ledger or "", self.ref.ledger_id)

    def _find(self, failed: "_Failed", *, may_skip: bool = False) -> "_Found":
        """Return a place to read the ledger from; raises as `batches` once every place has failed.

        With ``may_skip`` a damaged place is returned once more, as the last resort, but never because of an old record.
        """
        found = self._found
        if found is not None and found.source not in failed:
            return found
        known = None if failed else self._access.known_ledger(self.ref)
        if known is not None and (found := self._open_any(known, failed)) is not None:
            return found
        for pause_s in (0.0, *_PAUSES_S):
            time.sleep(pause_s)
            try:
                info = self._listed()
            except StaleObjectError:
                self._access.expire()
                raise
            found = self._open_any(info, failed) or (self._last_resort(info, failed) if may_skip else None)
            if found is not None:
                return found
            # A topic that is being deleted loses its ledgers before its list, and a broker may be writing the list.
            if not all(isinstance(error, _MOVED) for source, error in failed.items() if source.info == info):
                break
        raise _error_of(info, failed, self.ref.key)

    def _open_any(self, info: LedgerInfo, failed: "_Failed") -> "_Found | None":
        """Return the first place that has not failed, also for later reads; note one that fails now."""
        for place in _places_of(info, self._access.reading.read_from):
            source = _Source(place, info)
            if source not in failed:
                try:
                    found = self._found = self._open(source)
                except LedgerfsError as error:
                    failed[source] = error
                else:
                    return found
        return None

    def _last_resort(self, info: LedgerInfo, failed: "_Failed") -> "_Found | None":
        """Return the first place that failed with damaged entries, to read it without these; None if there is none."""
        for source, error in failed.items():
            resort = source._replace(skips_damage=True)
            if source.info == info and isinstance(error, CorruptLedgerError) and resort not in failed:
                return self._open(resort)
        return None

    def _open(self, source: "_Source") -> "_Found":
        info = source.info
        if source.place == BUCKET:
            # If the record has no entry count, use the listing's, from BookKeeper or from the index.
            reported = info if info.entries else replace(info, entries=self.ref.entries, size=self.ref.length)
            return _Found(source, self._access.offloaded.reader(self.ref.managed_ledger or "", reported))
        hot = HotLedger(self._access, self.ref.ledger_id, max(1, self.ref.length // max(1, self.ref.entries)))
        _require_agreed(info, hot.node(), self.ref.key)
        return _Found(source, hot)

    def _asked(self, of_hot: "Callable[[HotLedger], _T]", of_cold: "Callable[[LedgerReader], _T]") -> _T:
        """Return the result from the ledger's current place; if it fails, from the other one."""
        failed: _Failed = {}
        while True:
            found = self._find(failed)
            try:
                return of_hot(found.reader) if isinstance(found.reader, HotLedger) else of_cold(found.reader)
            except LedgerfsError as error:
                self._found = None
                failed[found.source] = error


class _Source(NamedTuple):
    """A place of a ledger by a record of its topic's list, and whether damaged entries are skipped there."""

    place: str
    info: LedgerInfo
    skips_damage: bool = False


class _Found(NamedTuple):
    """A source of a ledger, and its reader there."""

    source: _Source
    reader: HotLedger | LedgerReader


_Failed = dict[_Source, LedgerfsError]
"""Errors of the sources that were tried for a range of a ledger; a changed record makes a new source."""


def _places_of(info: LedgerInfo, read_from: str) -> tuple[str, ...]:
    """Return the possible places of a ledger, in the order of reads; ``read_from`` is that of `LiveReading`."""
    context = info.context
    if context is None or not context.is_complete:
        return (BOOKKEEPER,)
    if read_from == "bookkeeper" and not context.is_deleted_from_bookkeeper:
        return (BOOKKEEPER, BUCKET)
    # If a broker died right after it set the flag, BookKeeper's copy still exists.
    return (BUCKET, BOOKKEEPER)


def _error_of(info: LedgerInfo, failed: _Failed, key: str) -> LedgerfsError:
    """Return the error for a ledger that no place of its record has: that of the last resort, if there was one."""
    errors = {source: error for source, error in failed.items() if source.info == info}
    for source in sorted(errors, key=lambda one: not one.skips_damage):
        if not isinstance(errors[source], _MOVED):
            return errors[source]
    lost = "the topic lists this ledger, but it is neither in BookKeeper nor offloaded: its entries are lost"
    if info.is_offloaded:
        lost = (
            "the topic lists this ledger, but BookKeeper no longer has it, and the object "
            f"{errors[_Source(BUCKET, info)].key} does not exist: its entries are lost, "
            "unless the bucket was moved (set bucket_urls)"
        )
    made = NotFoundError(lost, key=key)
    made.__cause__ = next(iter(errors.values()))
    return made


class _Reported:
    """Reports damage once for each entry, even if reading the ledger starts again."""

    __slots__ = ("_on_damage", "behind")

    def __init__(self, on_damage: OnDamage, first: int) -> None:
        self._on_damage = on_damage
        self.behind = first

    def __call__(self, first: int, last: int, error: "CorruptLedgerError") -> None:
        self._on_damage(first, last, error)
        self.behind = last + 1


def _require_agreed(info: LedgerInfo, node: "LedgerNode", key: str) -> None:
    """Raise `CorruptMetadataError` if a topic lists another number of entries than a closed ledger has: some would silently be missing."""
    if info.entries and node.is_closed and info.entries != node.last_entry + 1:
        reason = f"the topic's ledger list has {info.entries:,} entries for it, but BookKeeper's metadata has {node.last_entry + 1:,}"
        raise CorruptMetadataError(reason, key=key)


def _metadata_of(node: "LedgerNode") -> LedgerMetadata:
    return replace(node.closed_at(node.last_entry, node.length), state=node.state)


def _described(context: "OffloadContext") -> dict[str, Any]:
    return {
        "uuid": context.uuid,
        "is_complete": context.is_complete,
        "is_deleted_from_bookkeeper": context.is_deleted_from_bookkeeper,
        "offloaded_ms": context.offloaded_ms,
        "driver": context.driver,
        "properties": dict(context.properties),
    }

"""Write one ledger: entries become blocks, blocks become parts of an upload, and the index is put last.

The bucket shows no such ledger before that: not while parts are sent, not when the data object is complete, and not after an error, when
everything is removed that the store allows to remove (``docs/formats/pulsar-blob.md``).
"""

import logging
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from ledgerfs.errors import (
    CorruptObjectError,
    LedgerfsError,
    ObjectExistsError,
    ObjectNotFoundError,
    RefusedLedgerError,
    StaleObjectError,
    UncertainWriteError,
    UnsupportedFormatError,
)
from ledgerfs.formats.pulsar_blob.block import BLOCK_HEADER_BYTES, BlockHeader, build_block_header, build_padding
from ledgerfs.formats.pulsar_blob.index import MAX_INDEX_BYTES, IndexedBlock, OffloadIndex, build_index, parse_index
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch
from ledgerfs.layouts.pulsar_blob.new_ledger import NewLedger, require_block_size
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

if TYPE_CHECKING:
    from ledgerfs.storage.object_writes import Upload

_log = logging.getLogger("ledgerfs.store")


@dataclass(frozen=True, slots=True)
class WrittenLedger:
    """A ledger that is in the bucket.

    Attributes
    ----------
    data, index
        Its objects, as the store has them.
    offload_index
        Of the index object.

    """

    ledger: NewLedger
    data: ObjectStat
    index: ObjectStat
    offload_index: OffloadIndex


@dataclass(frozen=True, slots=True)
class UnindexedLedger:
    """A whole data object, which is not a ledger until a process puts its index (`publish`). Pickles.

    Attributes
    ----------
    data
        The object, as the store has it.
    offload_index
        Of the index object to put.

    """

    ledger: NewLedger
    data: ObjectStat
    offload_index: OffloadIndex


@dataclass(slots=True)
class _Blocks:
    """The blocks of the ledger, and how far the last one is filled."""

    size: int
    table: list[IndexedBlock] = field(default_factory=list)
    offset: int = 0
    used: int = 0

    @property
    def room(self) -> int:
        """Free bytes of the present block; 0 before the first block."""
        return self.size - self.used if self.used else 0


class LedgerWriter:
    """Accepts the entries of one ledger in order, from id 0 on; `commit` makes them a ledger of the bucket.

    A context manager: an exception, or leaving without `commit` or `complete`, aborts. Holds up to four blocks in memory. For one thread.

    Raises
    ------
    RefusedLedgerError
        A block size that the store does not accept, an entry with another id than the next one, a too large entry, more blocks than the
        store accepts parts, or a ledger without entries. Sends no request before the first block is full.

    """

    __slots__ = (
        "_blocks",
        "_entries",
        "_is_open",
        "_length",
        "_most_parts",
        "_store",
        "_taken",
        "_upload",
        "ledger",
    )

    def __init__(self, store: RawStore, ledger: NewLedger) -> None:
        writes = store.writes
        require_block_size(ledger.block_size, writes.smallest_part)
        self._store = store
        self.ledger = ledger
        self._most_parts = writes.most_parts
        metadata = ledger.user_metadata_as("data")
        self._upload: Upload = writes.begin_upload(ledger.key.data_key, metadata, ledger.block_size)
        self._blocks = _Blocks(ledger.block_size)
        self._entries = 0
        self._taken = 0
        self._length = 0
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_open:
            self.abort()

    def add(self, batch: EntryBatch) -> None:
        """Add the next entries. Copies or sends them before it returns, so the caller may reuse their buffer."""
        self._require_open()
        if not len(batch):
            return
        if batch.first_entry != self._taken or batch.last_entry != self._taken + len(batch) - 1:
            raise RefusedLedgerError(
                f"found entries {batch.first_entry} to {batch.last_entry}, expected entry {self._taken}; a ledger has "
                "all entries in order, from 0 on",
                key=self.ledger.key.data_key,
            )
        self._taken += len(batch)
        try:
            if self.ledger.transform is None:
                self._add(batch)
            else:
                for made in self.ledger.transform(batch, self._entries):
                    self._add(made)
        except BaseException:
            # A ledger that lacks entries must never be committed.
            self.abort()
            raise

    def _add(self, entries: EntryBatch) -> None:
        self.ledger.require_fitting(entries)
        batch = entries.framed()
        start = int(batch.offsets[0]) - RECORD_HEADER_BYTES
        ends = batch.offsets + batch.lengths - start
        done = done_bytes = 0
        while done < len(batch):
            fitting = int(np.searchsorted(ends, done_bytes + self._blocks.room, side="right"))
            if fitting == done:
                self._begin_block(batch.first_entry + done)
                continue
            end = int(ends[fitting - 1])
            self._write(batch.buffer[start + done_bytes : start + end])
            done, done_bytes = fitting, end
        self._entries += len(batch)
        self._length += int(batch.lengths.sum())

    def seal(self) -> None:
        """End the last block, whose size is only now known, and send it; no entries can be added after that."""
        self._require_open()
        blocks = self._blocks
        if not self._entries:
            reason = "the ledger has no entries, and Pulsar does not offload empty ledgers"
            raise RefusedLedgerError(reason, key=self.ledger.key.data_key)
        if blocks.used:
            first = blocks.table[-1].first_entry
            self._upload.replace_front(build_block_header(BlockHeader(BLOCK_HEADER_BYTES, blocks.used, first)))
            self._upload.end_part()
            blocks.offset += blocks.used
            blocks.used = 0

    def commit(self, *, created_ms: int | None = None) -> WrittenLedger:
        """Complete the data object, then put the index. After an error there is no such ledger, except with `UncertainWriteError`.

        ``created_ms`` is the creation time of the ledger, ms since 1970 UTC, if it was unknown before.
        """
        return publish(self._store, self.complete(created_ms=created_ms))

    def complete(self, *, created_ms: int | None = None) -> UnindexedLedger:
        """Complete only the data object, which stays after the ``with`` block; otherwise as `commit`."""
        self.seal()
        known = self.ledger.metadata
        created_ms = known.created_ms if created_ms is None else created_ms
        metadata = replace(known, length=self._length, last_entry=self._entries - 1, created_ms=created_ms)
        index = OffloadIndex(self._blocks.offset, BLOCK_HEADER_BYTES, metadata, tuple(self._blocks.table))
        try:
            data = self._upload.complete()
        except BaseException:
            self.abort()
            raise
        self._is_open = False
        return UnindexedLedger(self.ledger, data, index)

    def abort(self) -> None:
        """Remove everything from the bucket."""
        self._is_open = False
        self._upload.abort()

    def _require_open(self) -> None:
        if not self._is_open:
            raise ValueError("the ledger is written already, or given up")

    def _begin_block(self, first_entry: int) -> None:
        """End the present block with padding, and begin the next one with the header of a full block."""
        blocks = self._blocks
        if blocks.used:
            self._upload.write(build_padding(blocks.room))
            self._upload.end_part()
            blocks.offset += blocks.size
        if len(blocks.table) == self._most_parts:
            raise RefusedLedgerError(
                f"the ledger needs more than {self._most_parts} blocks of {blocks.size} bytes, the limit of this store; use larger blocks",
                key=self.ledger.key.data_key,
            )
        blocks.table.append(IndexedBlock(first_entry, len(blocks.table) + 1, blocks.offset))
        blocks.used = 0
        self._write(build_block_header(BlockHeader(BLOCK_HEADER_BYTES, blocks.size, first_entry)))

    def _write(self, data: bytes | memoryview) -> None:
        self._upload.write(data)
        self._blocks.used += len(data)


def as_stored(store: RawStore, ledger: NewLedger) -> WrittenLedger | None:
    """Return the ledger of this name as the store has it now, of any writer, or None; raises the errors of the store.

    None unless both objects exist and agree by the index: its entries are not read.
    """
    key = ledger.key
    try:
        index, data = store.head(key.index_key).stat, store.head(key.data_key).stat
        if index.size > MAX_INDEX_BYTES:
            return None
        content = store.read(ReadRequest(index.key, 0, index.size, index.version, is_kept=False))
    except ObjectNotFoundError:
        return None
    try:
        reported = parse_index(content, key=index.key)
    except (CorruptObjectError, UnsupportedFormatError):
        return None
    agrees = reported.is_plausible and reported.data_length == data.size
    return WrittenLedger(ledger, data, index, reported) if agrees else None


def publish(store: RawStore, made: UnindexedLedger) -> WrittenLedger:
    """Put the index of a complete data object; on an error, remove the data object unless another writer has put an index."""
    ledger, data, key = made.ledger, made.data, made.ledger.key
    try:
        _require_same(store, data)
        written = store.writes.put(key.index_key, build_index(made.offload_index), ledger.user_metadata_as("index"))
    except (UncertainWriteError, ObjectExistsError, StaleObjectError):
        # Another writer's index may refer to the data object.
        raise
    except BaseException:
        _remove_data(store, key.index_key, data)
        raise
    try:
        _require_same(store, data)
    except StaleObjectError:
        _remove_index(store, written)
        raise
    except LedgerfsError as error:
        raise _uncertain(key.data_key, error) from error
    return WrittenLedger(ledger, data, written, made.offload_index)


def _require_same(store: RawStore, data: ObjectStat) -> None:
    """Raise `StaleObjectError` when another writer has replaced or removed the data object meanwhile."""
    try:
        found = store.head(data.key).stat
    except ObjectNotFoundError:
        found = None
    if found is None or found.size != data.size or found.version != data.version:
        reason = "another writer replaced or removed the data object before its index was written"
        raise StaleObjectError(reason, key=data.key)


def _remove_index(store: RawStore, written: ObjectStat) -> None:
    """Remove an index whose data object was replaced, unless the index was replaced as well."""
    try:
        _require_same(store, written)
        store.writes.delete(written.key)
    except StaleObjectError:
        return
    except LedgerfsError as error:
        raise _uncertain(written.key, error) from error


def _uncertain(key: str, error: LedgerfsError) -> UncertainWriteError:
    reason = f"the index was written, but the store does not answer any more; check the ledger with `ledgerfs verify`: {error.reason}"
    return UncertainWriteError(reason, key=key)


def _remove_data(store: RawStore, index_key: str, data: ObjectStat) -> None:
    """Remove a data object without an index; it stays if it has one, or if the store does not answer."""
    try:
        try:
            store.head(index_key)
        except ObjectNotFoundError:
            store.writes.delete(data.key)
    except LedgerfsError as error:
        _log.warning("%s is left without an index; `ledgerfs repair` removes it: %s", data.key, error)

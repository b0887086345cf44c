"""Read a data object without its index: block after block, record after record, to its last byte.

Each block's header contains its length, and entry ids are consecutive, so the object itself contains all that its index did
(``docs/formats/pulsar-blob.md``). Nothing is skipped: a byte that Pulsar would not have written stops the walk.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ledgerfs.cache.object_window import ObjectWindow, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.errors import CorruptLedgerError, CorruptMetadataError
from ledgerfs.formats.ledger_metadata import LedgerMetadata, parse_ledger_metadata
from ledgerfs.formats.pulsar_blob.block import (
    BLOCK_HEADER_BYTES,
    MIN_HEADER_BYTES,
    BlockHeader,
    first_wrong_padding,
    parse_block_header,
)
from ledgerfs.formats.pulsar_blob.index import IndexedBlock, OffloadIndex, build_index, parse_index
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch, ScanStop, scan_records
from ledgerfs.layouts.pulsar_blob.new_ledger import LARGEST_BLOCK_SIZE, SMALLEST_BLOCK_SIZE, made_up_metadata, of_topic
from ledgerfs.layouts.pulsar_blob.record_walk import STRETCH
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

_PIECE = 1 << 20


@dataclass(slots=True)
class DataWalk:
    """The walk over one data object: consume `batches`, then read the attributes.

    Attributes
    ----------
    entries, length
        Entries found, and their bytes.
    blocks
        The blocks as an index would list them.
    block_size, last_size
        Bytes of its first and of its last block.
    is_cut_off
        Whether the last block has no entry: an offload leaves this if the next entry does not fit a block.

    """

    store: ObjectStore
    stat: ObjectStat
    entries: int = 0
    length: int = 0
    blocks: list[IndexedBlock] = field(default_factory=list)
    block_size: int = 0
    last_size: int = 0
    is_cut_off: bool = False

    def run(self) -> "DataWalk":
        """Walk to the end, and return this object; raises as `batches`."""
        for _ in self.batches():
            pass
        return self

    def batches(self) -> Iterator[EntryBatch]:
        """Yield all entries; raises `CorruptLedgerError` with the offset of the first byte that Pulsar would not have written."""
        stat = self.stat
        plan = (ReadRequest(stat.key, *part, stat.version, False) for part in cut_parts(0, stat.size, is_known=True))
        with open_parts(self.store, plan, is_known=True) as parts:
            window = ObjectWindow(parts, stat.key, 0)
            while window.position < stat.size:
                yield from self._block(window)

    def _block(self, window: ObjectWindow) -> Iterator[EntryBatch]:
        start, first = window.position, self.entries
        header = self._header(window)
        end = start + header.block_length
        self.blocks.append(IndexedBlock(first, len(self.blocks) + 1, start))
        self.block_size = self.block_size or header.block_length
        self.last_size = header.block_length
        window.consume(BLOCK_HEADER_BYTES)
        yield from self._records(window, end)
        self.is_cut_off = self.entries == first
        if end == self.stat.size and window.position < end and not self.is_cut_off:
            raise self._damage(
                "padding after the last entry of the last block, which Pulsar never writes: blocks are missing", window
            )
        if end < self.stat.size and (self.is_cut_off or header.block_length != self.block_size):
            raise self._damage("only the last block may be without entries, or shorter than the others", window, start)
        self._pass_padding(window, end)

    def _header(self, window: ObjectWindow) -> BlockHeader:
        start = window.position
        if not window.fill(BLOCK_HEADER_BYTES):
            raise self._damage("the object ends within a block's header", window)
        front = window.buffer[:BLOCK_HEADER_BYTES]
        header = parse_block_header(front[:MIN_HEADER_BYTES], key=self.stat.key, offset=start)
        if header.header_length != BLOCK_HEADER_BYTES or bytes(front[MIN_HEADER_BYTES:]).strip(b"\0"):
            raise self._damage("a block header does not have 128 bytes with zero padding", window)
        if header.first_entry != self.entries:
            raise self._damage(f"a block begins with entry {header.first_entry}, expected {self.entries}", window)
        if header.block_length > (self.block_size or LARGEST_BLOCK_SIZE):
            raise self._damage(f"a block has {header.block_length} bytes, more than the first block", window)
        if start + header.block_length > self.stat.size:
            missing = start + header.block_length - self.stat.size
            raise self._damage(
                f"the object ends {missing} bytes before the end of its last block", window, self.stat.size
            )
        return header

    def _records(self, window: ObjectWindow, end: int) -> Iterator[EntryBatch]:
        """Yield a block's entries, up to its padding or its end."""
        needed = RECORD_HEADER_BYTES
        while (room := end - window.position) >= RECORD_HEADER_BYTES:
            if needed > room:
                raise self._damage(f"entry {self.entries} does not fit its block, which ends at byte {end}", window)
            window.fill(needed)
            scan = scan_records(window.buffer[: min(room, max(needed, STRETCH))], 0, self.entries, self.stat.size)
            if len(scan.batch):
                self._check(scan.batch, window.position)
                self.entries += len(scan.batch)
                self.length += int(scan.batch.lengths.sum())
                yield scan.batch
            window.consume(scan.position)
            if scan.stop == ScanStop.NEGATIVE_LENGTH:
                return
            if scan.stop == ScanStop.WRONG_ID:
                raise self._damage(f"found entry {scan.found}, expected entry {self.entries}", window)
            needed = RECORD_HEADER_BYTES + (scan.found or 0)

    def _check(self, batch: EntryBatch, position: int) -> None:
        wrong = np.flatnonzero(check_entries(batch).states >= EntryState.MISMATCH)
        if wrong.size:
            i = int(wrong[0])
            reason = f"entry {batch.first_entry + i} is damaged: its checksum or frame is wrong"
            raise CorruptLedgerError(reason, key=self.stat.key, offset=position + int(batch.offsets[i]))

    def _pass_padding(self, window: ObjectWindow, end: int) -> None:
        # The pattern has a period of 4, and so have the pieces.
        while (rest := end - window.position) > 0:
            size = min(rest, _PIECE)
            window.fill(size)
            wrong = first_wrong_padding(window.buffer[:size])
            if wrong is not None:
                raise self._damage("these bytes are neither an entry nor padding", window, window.position + wrong)
            window.consume(size)

    def _damage(self, reason: str, window: ObjectWindow, offset: int | None = None) -> CorruptLedgerError:
        return CorruptLedgerError(reason, key=self.stat.key, offset=window.position if offset is None else offset)


_PARTS = re.compile(r'"?[0-9a-f]{32}-([0-9]{1,5})"?\Z', re.ASCII)
_METADATA_AT = 32


def why_not_whole(walk: DataWalk) -> str | None:
    """Return why an object that was walked to its end may lack entries of its ledger; None if it proves to have all of them.

    The last block of a ledger is as short as its records, and after a full block another one begins. So an object that ends with a full
    block may be truncated there, unless its ETag shows that it was uploaded in exactly that many parts.
    """
    if walk.is_cut_off:
        return (
            f"it ends with a block without entries: the entries from {walk.entries} on did not fit a block and were never written; "
            "offload the ledger again with larger blocks while BookKeeper still has it"
        )
    if walk.last_size < (walk.block_size if len(walk.blocks) > 1 else SMALLEST_BLOCK_SIZE):
        return None
    is_round = walk.last_size % 1024 == 0 or walk.last_size % 1000 == 0
    if (len(walk.blocks) == 1 and not is_round) or parts_of(walk.stat) == len(walk.blocks):
        return None
    return "its last block is full to the last byte, so it is unknown whether more blocks followed"


def parts_of(stat: ObjectStat) -> int | None:
    """Return the number of parts of an object's upload, by its ETag; Pulsar sends one block as one part."""
    match = _PARTS.match(stat.version)
    return None if match is None else int(match[1])


def rebuilt_index(walk: DataWalk, managed_ledger: str, reported: LedgerMetadata | None = None) -> bytes:
    """Return the index object of a data object that was walked to its end, with BookKeeper's metadata if an old index still has it."""
    metadata = of_topic(made_up_metadata(managed_ledger) if reported is None else reported, managed_ledger)
    metadata = replace(metadata, length=walk.length, last_entry=walk.entries - 1)
    content = build_index(OffloadIndex(walk.stat.size, BLOCK_HEADER_BYTES, metadata, tuple(walk.blocks)))
    parse_index(content, key=walk.stat.key)
    return content


def metadata_left_in(damaged: bytes) -> LedgerMetadata | None:
    """Return the ledger metadata of an index that cannot be parsed as a whole; None if that is damaged as well."""
    length = int.from_bytes(damaged[28:_METADATA_AT], "big")
    if not 0 < length <= len(damaged) - _METADATA_AT:
        return None
    try:
        return parse_ledger_metadata(damaged[_METADATA_AT : _METADATA_AT + length])
    except CorruptMetadataError:
        return None

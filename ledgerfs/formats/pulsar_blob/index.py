"""The V1 index object: positions of a ledger's blocks, and its metadata (``docs/formats/pulsar-blob.md``)."""

import struct
from dataclasses import dataclass
from itertools import pairwise

from ledgerfs.errors import CorruptIndexError, UnsupportedFormatError
from ledgerfs.formats.ledger_metadata import LedgerMetadata, build_ledger_metadata, parse_ledger_metadata
from ledgerfs.formats.pulsar_blob.block import MIN_HEADER_BYTES

MAX_INDEX_BYTES = 8 << 20
"""Larger than any index: 50,000 blocks (Azure's limit of parts) take 1 MB. A larger one is not read at all."""

MAGIC = 0xDE47DE47
_STREAMING_MAGIC = 0x3D1FB0BC
_HEADER = struct.Struct(">IiqqiI")
_BLOCK = struct.Struct(">qiq")
HEADER_BYTES = _HEADER.size
BLOCK_BYTES = _BLOCK.size


@dataclass(frozen=True, slots=True)
class IndexedBlock:
    """One block in the index: its first entry, the number of the upload's part, the byte offset of its header in the data object."""

    first_entry: int
    part: int
    offset: int


@dataclass(frozen=True, slots=True)
class OffloadIndex:
    """A parsed index object.

    Attributes
    ----------
    data_length
        Bytes of the data object, blocks only; the object itself is longer where Pulsar left out entries.
    header_length
        Bytes of each block's header.
    metadata
        BookKeeper's metadata of the ledger.
    blocks
        Ascending by first entry and offset; never empty.
    oddity
        Reason why the index object's own length is wrong (readers ignore it); None in every index that Pulsar wrote.

    """

    data_length: int
    header_length: int
    metadata: LedgerMetadata
    blocks: tuple[IndexedBlock, ...]
    oddity: str | None = None

    @property
    def padding(self) -> int:
        """Bytes of padding in all blocks, by subtraction; negative when the data object cannot hold what the metadata claims."""
        return self.data_length - self.header_length * len(self.blocks) - self.metadata.records_size

    @property
    def is_plausible(self) -> bool:
        """Whether a data object of ``data_length`` bytes can hold every entry. This finds truncated offloads without reading data."""
        last = self.blocks[-1].offset
        return (self.padding == 0 if last == 0 else self.padding >= 0) and last + self.header_length <= self.data_length


def parse_index(data: bytes, *, key: str | None = None) -> OffloadIndex:
    """Parse a whole index object.

    Allocates no more than the size of ``data``. Raises `CorruptIndexError` (magic, lengths, counts, order of the blocks),
    `CorruptMetadataError` (the embedded metadata) and `UnsupportedFormatError` (PIP-76 streaming index), each with key and offset.
    The index of an offload that Pulsar truncated, and reported as successful, parses, but is not `OffloadIndex.is_plausible`.
    """
    magic, declared_length, data_length, header_length, count, metadata_length = _header_fields(data, key)
    if magic != MAGIC:
        raise CorruptIndexError(f"wrong index magic {magic:#010x}, expected {MAGIC:#010x}", key=key, offset=0)
    if data_length < 0:
        raise CorruptIndexError(f"negative data object length {data_length}", key=key, offset=8)
    if not MIN_HEADER_BYTES <= header_length <= data_length:
        raise CorruptIndexError(f"impossible block header length {header_length}", key=key, offset=16)
    if count < 1:
        raise CorruptIndexError(f"{count} blocks; a ledger has at least one", key=key, offset=24)
    blocks_at = _HEADER.size + metadata_length
    if blocks_at + count * _BLOCK.size > len(data):
        raise CorruptIndexError(
            f"the header has {metadata_length} bytes of metadata and {count} blocks, but the object has only {len(data)} bytes",
            key=key,
            offset=24,
        )
    metadata = parse_ledger_metadata(data[_HEADER.size : blocks_at], key=key, offset=_HEADER.size)
    table = memoryview(data)[blocks_at : blocks_at + count * _BLOCK.size]
    blocks = tuple(IndexedBlock(*row) for row in _BLOCK.iter_unpack(table))
    _check_blocks(blocks, metadata, data_length, key, blocks_at)
    used = blocks_at + len(table)
    oddity = None
    if not declared_length == used == len(data):
        oddity = f"the index has the length {declared_length} in its header; the object has {len(data)} bytes, of which {used} are used"
    return OffloadIndex(data_length, header_length, metadata, blocks, oddity)


def build_index(index: OffloadIndex) -> bytes:
    """Serialise as Pulsar does."""
    metadata = build_ledger_metadata(index.metadata)
    table = b"".join(_BLOCK.pack(block.first_entry, block.part, block.offset) for block in index.blocks)
    length = _HEADER.size + len(metadata) + len(table)
    header = _HEADER.pack(MAGIC, length, index.data_length, index.header_length, len(index.blocks), len(metadata))
    return header + metadata + table


def _header_fields(data: bytes, key: str | None) -> tuple[int, int, int, int, int, int]:
    if len(data) >= 4 and int.from_bytes(data[:4], "big") == _STREAMING_MAGIC:
        raise UnsupportedFormatError(
            "this is a PIP-76 streaming index (V2), which ledgerfs does not read", key=key, offset=0
        )
    if len(data) < _HEADER.size:
        raise CorruptIndexError(
            f"index is truncated: {len(data)} of {_HEADER.size} header bytes", key=key, offset=len(data)
        )
    fields: tuple[int, int, int, int, int, int] = _HEADER.unpack_from(data)
    return fields


def _check_blocks(
    blocks: tuple[IndexedBlock, ...], metadata: LedgerMetadata, data_length: int, key: str | None, blocks_at: int
) -> None:
    """Raise unless the blocks start at entry 0 and byte 0 and ascend within the ledger and the data object."""
    first, last = blocks[0], blocks[-1]
    if first.first_entry != 0 or first.offset != 0:
        raise CorruptIndexError(
            f"first block starts at entry {first.first_entry}, byte {first.offset}, not at 0", key=key, offset=blocks_at
        )
    for row, (before, block) in enumerate(pairwise(blocks), 1):
        if block.first_entry <= before.first_entry or block.offset <= before.offset:
            at = blocks_at + row * _BLOCK.size
            raise CorruptIndexError(f"block {row} does not come after block {row - 1}", key=key, offset=at)
    if last.first_entry > metadata.last_entry or last.offset > data_length:
        raise CorruptIndexError(
            f"last block starts at entry {last.first_entry}, byte {last.offset}; the ledger ends at entry "
            f"{metadata.last_entry}, byte {data_length}",
            key=key,
            offset=blocks_at + (len(blocks) - 1) * _BLOCK.size,
        )

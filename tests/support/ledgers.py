"""Made-up offloaded ledgers, of any block size: the objects that Pulsar would have written for given entries."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY, Ensemble, LedgerMetadata
from ledgerfs.formats.pulsar_blob.block import BLOCK_HEADER_BYTES, BlockHeader, build_block_header, build_padding
from ledgerfs.formats.pulsar_blob.index import IndexedBlock, OffloadIndex, build_index

CREATED_MS = 1_700_000_000_000
NAME = "public/default/persistent/orders"
BOOKIES = ("127.0.0.1:3181",)


@dataclass(frozen=True, slots=True)
class Offload:
    """The two objects of one ledger."""

    ledger_id: int
    uuid: str
    data: bytes
    index: bytes
    records: bytes

    @property
    def objects(self) -> dict[str, bytes]:
        key = f"{self.uuid}-ledger-{self.ledger_id}"
        return {key: self.data, f"{key}-index": self.index}


def record(entry_id: int, entry: bytes) -> bytes:
    return struct.pack(">iq", len(entry), entry_id) + entry


def ledger_metadata(
    entries: Sequence[bytes],
    name: str | None,
    created_ms: int | None,
    *,
    last_entry: int | None = None,
    bookies: tuple[str, ...] = BOOKIES,
) -> LedgerMetadata:
    """Return what BookKeeper would know of a closed ledger with these entries, or of one that ends with ``last_entry``."""
    return LedgerMetadata(
        length=sum(map(len, entries)),
        last_entry=len(entries) - 1 if last_entry is None else last_entry,
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        state=3,
        digest_type=3,
        created_ms=created_ms,
        ensembles=(Ensemble(0, bookies),),
        custom=() if name is None else ((MANAGED_LEDGER_KEY, name.encode()), ("application", b"pulsar")),
    )


def offload(
    entries: Sequence[bytes],
    ledger_id: int = 1,
    *,
    block_size: int = 1 << 20,
    name: str | None = NAME,
    uuid: int | str = 1,
    created_ms: int | None = CREATED_MS,
    bookies: tuple[str, ...] = BOOKIES,
) -> Offload:
    """Write ``entries`` as Pulsar does: blocks of ``block_size`` bytes, padded, but for the last, which is cut to measure.

    Without ``bookies`` it is as ledgerfs itself makes ledgers of rows.
    """
    blocks: list[IndexedBlock] = []
    data = bytearray()
    entry = 0
    while entry < len(entries):
        start, first, size = len(data), entry, BLOCK_HEADER_BYTES
        while entry < len(entries) and size + 12 + len(entries[entry]) <= block_size:
            size += 12 + len(entries[entry])
            entry += 1
        assert entry > first, "an entry does not fit a block"
        length = size if entry == len(entries) else block_size
        data += build_block_header(BlockHeader(BLOCK_HEADER_BYTES, length, first))
        data += b"".join(record(i, entries[i]) for i in range(first, entry))
        data += build_padding(length - size)
        blocks.append(IndexedBlock(first, len(blocks) + 1, start))
    metadata = ledger_metadata(entries, name, created_ms, bookies=bookies)
    index = build_index(OffloadIndex(len(data), BLOCK_HEADER_BYTES, metadata, tuple(blocks)))
    records = b"".join(record(i, entry) for i, entry in enumerate(entries))
    text = str(UUID(int=uuid)) if isinstance(uuid, int) else uuid
    return Offload(ledger_id, text, bytes(data), index, records)


def records_of(ledger: Any, start: int, end: int) -> bytes:
    """Return bytes of the ``.entries`` file of a ledger."""
    return ledger.records().read_ranges([(start, end)])[0]


def put_in_folder(folder: Path, *offloads: Offload) -> str:
    """Write the objects of ledgers into a folder, and return its URL."""
    for made in offloads:
        for key, data in made.objects.items():
            (folder / key).write_bytes(data)
    return f"file://{folder}"

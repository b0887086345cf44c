"""Buckets of MapFiles: made-up ledgers as Pulsar's filesystem offloader writes them, in a folder, on S3, or in memory."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from ledgerfs.formats.ledger_metadata import build_ledger_metadata
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, NAME, ledger_metadata, record
from tests.support.mapfiles import MapFileWriter, ledger_records

LONG_AGO = CREATED_MS / 1000 + 86_400


@dataclass(frozen=True, slots=True)
class MadeMapFile:
    """One ledger, as it lies in a bucket."""

    ledger_id: int
    uuid: str
    name: str
    entries: tuple[bytes, ...]
    data: bytes
    index: bytes

    @property
    def folder(self) -> str:
        return f"{self.name}/{self.ledger_id}-{self.uuid}"

    @property
    def objects(self) -> dict[str, bytes]:
        return {f"{self.folder}/data": self.data, f"{self.folder}/index": self.index}

    @property
    def records(self) -> bytes:
        return b"".join(record(i, entry) for i, entry in enumerate(self.entries))


def messages(ledger_id: int, count: int, size: int = 0) -> list[bytes]:
    """Return entries of one message each, of other bytes for every ledger and, with a size, of bytes that do not compress."""
    return [
        frame(
            metadata(sequence_id=i, publish_time_ms=CREATED_MS + 1000 * ledger_id + i),
            b"%d:%d:" % (ledger_id, i) + os.urandom(size),
        )
        for i in range(count)
    ]


def mapfile(
    entries: Sequence[bytes],
    ledger_id: int = 1,
    *,
    uuid: int | None = None,
    name: str = NAME,
    reported: str | None = "",
    writer: MapFileWriter | None = None,
    last_entry: int | None = None,
    created_ms: int = CREATED_MS,
) -> MadeMapFile:
    """Write entries as a MapFile, whose metadata says that it is of ``told`` (None for nobody), and ends with ``last_entry``."""
    known = ledger_metadata(entries, name if reported == "" else reported, created_ms, last_entry=last_entry)
    records = ledger_records(build_ledger_metadata(known), entries)
    data, index = (writer or MapFileWriter()).files(records)
    return MadeMapFile(ledger_id, str(UUID(int=ledger_id if uuid is None else uuid)), name, tuple(entries), data, index)


def put_mapfiles(root: Path, *made: MadeMapFile, base: str = "", at: float | None = LONG_AGO) -> str:
    """Write ledgers below a folder, as if long ago, and return the folder's URL."""
    for one in made:
        for key, data in one.objects.items():
            put_file(root / base / key, data, at)
    return f"file://{root}"


def put_file(path: Path, data: bytes, at: float | None = LONG_AGO) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if at is not None:
        os.utime(path, (at, at))

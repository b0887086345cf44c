"""Ledgers to write, and what may come of writing them: a whole ledger or none, and nothing left over."""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.pulsar_blob.block import BLOCK_HEADER_BYTES
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.layouts.pulsar_blob.writer import WrittenLedger
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.verification import Severity, verify
from ledgerfs.writing.sources import RecordFile
from ledgerfs.writing.write import Wanted, write_ledger
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, NAME, record
from tests.support.s3 import S3Server

TOPIC = "public/default/orders"
BLOCK = 5 << 20
UUID = "00000000-0000-4000-8000-000000000001"


def big_entries(blocks: int = 3, *, seed: int = 1, block_size: int = BLOCK) -> list[bytes]:
    """Return entries that fill so many blocks, two to a block, the last of them half full."""
    source = random.Random(seed)
    room = (block_size - BLOCK_HEADER_BYTES) // 2 - RECORD_HEADER_BYTES - 200
    # Repeated, since random bytes take their time.
    piece = source.randbytes(1 << 16)
    sizes = [room] * (2 * blocks - 1)
    return [
        frame(
            metadata(sequence_id=i, publish_time_ms=CREATED_MS + i),
            struct.pack(">I", i) + (piece * (size // len(piece) + 1))[: size - 4],
        )
        for i, size in enumerate(sizes)
    ]


def records(entries: list[bytes]) -> bytes:
    """Return a file of records."""
    return b"".join(record(i, entry) for i, entry in enumerate(entries))


def wanted(ledger_id: int = 1, uuid: str | None = UUID, block_size: int = BLOCK) -> Wanted:
    return Wanted(NAME, ledger_id, uuid, block_size)


def write(bucket: Bucket, data: bytes, **options: Any) -> WrittenLedger:
    """Write a ledger from the bytes of a file of records."""
    return write_ledger(bucket, wanted(**options), RecordFile.of("records", data))


def when_listed(
    patch: pytest.MonkeyPatch,
    act: Callable[[], object],
    *,
    at: int = 0,
    by: Callable[[Bucket], bool] = lambda _: True,
    is_before: bool = False,
) -> None:
    """Have somebody else act when a writer has listed the bucket so many times, or (``is_before``) is about to.

    Parameters
    ----------
    at : int
        The listing, counted from 1; 0 is each.
    by : callable
        Whether listings of this bucket count.
    """
    listed, counted = Bucket.list_to_write, [0]

    def list_to_write(bucket: Bucket, *arguments: Any) -> Any:
        counted[0] += by(bucket)
        is_now = by(bucket) and at in {0, counted[0]}
        if is_now and is_before:
            act()
        catalog = listed(bucket, *arguments)
        if is_now and not is_before:
            act()
        return catalog

    patch.setattr(Bucket, "list_to_write", list_to_write)


@dataclass
class Place:
    """A bucket as somebody sees it whom no fault touches."""

    url: str
    options: dict[str, Any] | None = None
    s3: S3Server | None = None

    @property
    def name(self) -> str:
        return self.url.partition("://")[2]

    @cached_property
    def clean(self) -> Bucket:
        return open_bucket(self.url, self.options)

    def objects(self) -> set[str]:
        """Return the keys of all objects."""
        return {stat.key for page in self.clean.raw_store.list_pages() for stat in page}

    def uploads(self) -> list[str]:
        """Return the keys of all unfinished uploads."""
        return [upload.key for upload in self.clean.raw_store.writes.unfinished_uploads()]

    def parts(self) -> int:
        """Return how many parts unfinished uploads hold."""
        assert self.s3 is not None
        return sum(
            len(self.s3.client.list_parts(Bucket=self.name, Key=key, UploadId=token).get("Parts", ()))
            for key, token in self._unfinished()
        )

    def _unfinished(self) -> Iterator[tuple[str, str]]:
        assert self.s3 is not None
        for upload in self.s3.client.list_multipart_uploads(Bucket=self.name).get("Uploads", ()):
            yield upload["Key"], upload["UploadId"]

    def ledgers(self) -> list[bytes]:
        """Return the records of every ledger that the catalog shows, copies and all, each of which verify calls whole."""
        self.clean.refresh()
        catalog = self.clean.catalog
        refs = [catalog.ref(row) for row in range(len(catalog.ledgers))]
        assert not fragments_of(catalog).bad_indexes
        assert not catalog.lost.size
        assert all(ref.is_sound for ref in refs)
        if refs:
            report = verify(self.clean)
            keys = {key for ref in refs for key in (ref.object("data").key, ref.object("index").key)}
            wrong = [one for one in report.findings if one.severity is not Severity.REMARK and one.key in keys]
            assert not wrong, wrong
        return [
            b"".join(
                bytes(batch.buffer[int(batch.offsets[0]) - 12 : int(batch.offsets[-1] + batch.lengths[-1])])
                for batch in self.clean.uncached_reader(ref).batches(0, ref.last_entry)
            )
            for ref in refs
        ]

    def contents(self) -> dict[str, bytes]:
        """Return all objects."""
        store = self.clean.raw_store
        stats = [stat for page in store.list_pages() for stat in page]
        return {stat.key: store.read(ReadRequest(stat.key, 0, stat.size)) for stat in stats}

    def clear(self) -> None:
        """Remove all."""
        writes = self.clean.raw_store.writes
        for upload in list(writes.unfinished_uploads()):
            writes.end_unfinished(upload)
        for key in self.objects():
            writes.delete(key)


def folder_place(folder: Path) -> Place:
    folder.mkdir(exist_ok=True)
    return Place(f"file://{folder}")


def s3_place(s3: S3Server, bucket: str) -> Place:
    return Place(f"s3://{bucket}", s3.options, s3)

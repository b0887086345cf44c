"""A sample bucket in a folder, which tests open with the layout only, and change like other clients."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from ledgerfs.cache.block_cache import BlockCache
from ledgerfs.cache.bucket_store import BucketStore
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.layout import Layout, LedgerCheck, Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.listing import list_bucket
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.testing.layouts.sample import KnownLedger, SampleBucket

OpenLayout = Callable[[KeepingStore], Layout]
"""A function that returns the layout over one bucket."""

_LONG_AGO = 1_700_000_000
_FEW = 5
_LARGER = 60
_times = itertools.count(_LONG_AGO, 10)


class FarFolder(LocalStore):
    """A folder that acts as a remote store, so that readers read ahead, merge requests, and cache bytes."""

    __slots__ = ()

    is_remote = True

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._root,))

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        """Read at once."""
        future: Future[Buffer] = Future()
        try:
            future.set_result(self.read(request))
        except LedgerfsError as error:
            future.set_exception(error)
        return future


class OpenedBucket:
    """A folder with objects, and a layout over it."""

    def __init__(self, folder: Path, open_layout: OpenLayout, *, is_far: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.raw = FarFolder(str(folder)) if is_far else LocalStore(str(folder))
        self.store = BucketStore(self.raw, cache=BlockCache(64 << 20))
        self.layout = open_layout(self.store)

    def put(self, objects: Mapping[str, bytes | None]) -> None:
        """Create, replace or, for None, remove objects; each file is new, with another time long ago."""
        at = next(_times)
        for key, data in objects.items():
            path = self.folder / key
            if data is None:
                path.unlink(missing_ok=True)
                for parent in path.parents[: len(Path(key).parents) - 1]:
                    with suppress(OSError):
                        parent.rmdir()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            other = self.folder.with_name(f"{self.folder.name}-next")
            other.write_bytes(data)
            # A file that is years old cannot be an upload in progress.
            os.utime(other, (at, at))
            other.replace(path)

    def catalog(self, previous: Catalog | None = None, progress: Progress | None = None) -> Catalog:
        """List the bucket."""
        return list_bucket(self.store, [self.layout], previous, progress)

    def reader(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader of one ledger."""
        return self.layout.open_ledger(ref)

    def readers(self) -> dict[tuple[str | None, int], LedgerReader]:
        """List the bucket, and return a reader of each ledger by `KnownLedger.name`."""
        return {(ref.managed_ledger, ref.ledger_id): self.reader(ref) for ref in self.catalog().refs()}

    def check(self, ref: LedgerRef, digest: blake2b | None = None) -> tuple[LedgerCheck, int]:
        """Read a ledger in full; return the result, and the number of bytes in progress reports."""
        reported: list[int] = []
        found = self.layout.check_ledger(self.reader(ref), reported.append, digest)
        return found, sum(reported)

    def findings(self) -> list[Finding]:
        """Return all findings about the bucket, from its listing to every byte."""
        catalog = self.catalog()
        found = list(self.layout.check_catalog(catalog, self.reader))
        for ref in catalog.refs():
            found += self.check(ref)[0].findings
        return found

    def damage(self) -> list[Finding]:
        """Return the findings that are damage."""
        return [one for one in self.findings() if one.severity is Severity.DAMAGE]

    def keys(self) -> dict[tuple[str | None, int], list[str]]:
        """Return the objects of each ledger by `KnownLedger.name`, the data object first."""
        refs = self.catalog().refs()
        return {(ref.managed_ledger, ref.ledger_id): [stat.key for _, stat in ref.objects] for ref in refs}


def entries_of(reader: LedgerReader, first: int, last: int) -> list[tuple[int, bytes]]:
    """Return entries with their ids, read in whole buffers."""
    return [(entry, bytes(data)) for batch in reader.batches(first, last) for entry, data in batch]


def all_of(reader: LedgerReader) -> list[tuple[int, bytes]]:
    """Return every entry with its id."""
    return entries_of(reader, reader.first_entry, reader.last_entry)


def ranges_of(first: int, last: int, cuts: Iterable[int] = ()) -> Iterator[tuple[int, int]]:
    """Yield the existing ranges among: all, ends, middle, around each split point."""
    middle = (first + last) // 2
    wanted = [(first, last), (first, first), (last, last), (first, middle), (middle, last), (middle - 1, middle + 1)]
    wanted += [one for cut in cuts for one in ((cut, cut), (cut - 1, cut), (cut, cut + 3), (cut, last))]
    yield from dict.fromkeys(one for one in wanted if first <= one[0] <= one[1] <= last)


def record_of(entry: int, data: bytes) -> bytes:
    """Return an entry as a record of an ``.entries`` file."""
    return len(data).to_bytes(4, "big") + entry.to_bytes(8, "big") + data


def smallest(sample: SampleBucket, count: int) -> list[KnownLedger]:
    """Return the ledgers with the fewest bytes."""
    return sorted(sample.ledgers, key=lambda ledger: sum(map(len, ledger.entries)))[:count]


def few_of(sample: SampleBucket, bucket: OpenedBucket) -> SampleBucket:
    """Return the small ledgers of a sample that is in ``bucket``, one larger ledger, and the ledgers to be damaged."""
    damaged = {damage.ledger for damage in sample.damages}
    kept = [*smallest(sample, _FEW - 1), *smallest(sample, _LARGER)[-1:]]
    kept += [ledger for ledger in sample.ledgers if ledger.name in damaged and ledger not in kept]
    keys = bucket.keys()
    objects = {key: sample.objects[key] for ledger in kept for key in keys[ledger.name]}
    return replace(sample, objects=objects, ledgers=kept)

"""Whether files are what Hadoop's checksums beside them say, where there are such: nothing else covers headers and metadata."""

from collections.abc import Iterator

from ledgerfs.cache.object_window import ObjectWindow, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import AccessDeniedError, CorruptObjectError, ObjectNotFoundError
from ledgerfs.formats.mapfile.chunk_checksums import (
    ChunkChecksums,
    checksum_key,
    parse_chunk_checksums,
    size_of_checksums,
)
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

_LOOKED_AT = 1 << 20
_MOST_NAMED = 20


def check_chunks(store: ObjectStore, ref: LedgerRef) -> Iterator[Finding]:
    """Yield where the objects of a ledger differ from their checksums; of one without, nothing is said. Raises what reading them does."""
    whose = ref.ledger_id, ref.topic
    for _, stat in ref.objects:
        try:
            checksums = _checksums_of(store, stat)
        except CorruptObjectError as error:
            message = f"{error.reason}: it is not used"
            yield Finding(Severity.REMARK, "odd-checksum-file", message, checksum_key(stat.key), None, *whose)
            continue
        except AccessDeniedError as error:
            yield Finding(Severity.UNCHECKED, "unreadable-object", error.reason, checksum_key(stat.key), None, *whose)
            continue
        if checksums is not None:
            yield from _wrong(store, ref, stat, checksums)


def _checksums_of(store: ObjectStore, stat: ObjectStat) -> ChunkChecksums | None:
    """Return the checksums of an object; None where there are none."""
    key = checksum_key(stat.key)
    try:
        found = store.head(key).stat
        if found.size > size_of_checksums(stat.size, 1):
            raise CorruptObjectError(f"{found.size} bytes of checksums for {stat.size} bytes", key=key)
        data = store.read(ReadRequest(key, 0, found.size, found.version, False))
    except ObjectNotFoundError:
        return None
    return parse_chunk_checksums(data, file_size=stat.size, key=key)


def _wrong(store: ObjectStore, ref: LedgerRef, stat: ObjectStat, checksums: ChunkChecksums) -> Iterator[Finding]:
    """Yield the places that differ, chunks that stand side by side as one."""
    size, runs = checksums.chunk_bytes, 0
    for first, behind in _runs(_wrong_chunks(store, stat, checksums)):
        runs += 1
        if runs <= _MOST_NAMED:
            end = min(behind * size, stat.size)
            message = (
                f"bytes {first * size} to {end - 1} are not those of Hadoop's checksums in {checksum_key(stat.key)}"
            )
            yield Finding(Severity.DAMAGE, "chunk-mismatch", message, stat.key, first * size, ref.ledger_id, ref.topic)
    if runs > _MOST_NAMED:
        message = f"{runs} places in all are not those of Hadoop's checksums; the first {_MOST_NAMED} are named"
        yield Finding(Severity.DAMAGE, "chunk-mismatch", message, stat.key, None, ref.ledger_id, ref.topic)


def _wrong_chunks(store: ObjectStore, stat: ObjectStat, checksums: ChunkChecksums) -> Iterator[int]:
    plan = (ReadRequest(stat.key, *part, stat.version, False) for part in cut_parts(0, stat.size, is_known=True))
    size = checksums.chunk_bytes
    with open_parts(store, plan) as parts:
        window = ObjectWindow(parts, stat.key, 0)
        while window.position < stat.size:
            is_filled = window.fill(max(size, _LOOKED_AT))
            whole = len(window.buffer) // size * size if is_filled else len(window.buffer)
            yield from checksums.wrong_chunks(window.buffer[:whole], window.position // size)
            window.consume(whole)


def _runs(chunks: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Yield numbers that follow by one as (first, behind the last)."""
    first = behind = -1
    for chunk in chunks:
        if chunk != behind:
            if behind >= 0:
                yield first, behind
            first = chunk
        behind = chunk + 1
    if behind >= 0:
        yield first, behind

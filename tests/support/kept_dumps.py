"""Dumps beside a bucket, made of files of dumps."""

from hashlib import sha256
from io import BytesIO
from pathlib import Path

from ledgerfs.clusters.dump_deltas import write_delta
from ledgerfs.clusters.dump_file import DumpWriter, dump_lines
from ledgerfs.clusters.kept_dump_names import DIGITS, KeptDump, kept_dump_key, parse_kept_dump
from ledgerfs.storage.objects import ObjectStat


def keep_as_delta(bucket: Path, dump: Path, cluster: str = "c", taken_ms: int = 1) -> Path:
    """Put a dump into a bucket as what changed since one without its second half, which is put there, too; return the delta's path."""
    with dump.open("rb") as file:
        lines = list(dump_lines(file, str(dump)))
    older = [*lines[: len(lines) // 2], *lines[-2:]]
    full, delta = BytesIO(), BytesIO()
    writer = DumpWriter(full)
    for line in older:
        writer.write_line(line)
    writer.flush()
    base = _put(bucket, full.getvalue(), cluster, taken_ms, None)
    writer = DumpWriter(delta)
    write_delta(older, lambda: lines, base.key, writer)
    writer.flush()
    return bucket / _put(bucket, delta.getvalue(), cluster, taken_ms + 1, base).key


def _put(bucket: Path, data: bytes, cluster: str, taken_ms: int, base: KeptDump | None) -> KeptDump:
    key = kept_dump_key(cluster, taken_ms, sha256(data).hexdigest()[:DIGITS], base)
    path = bucket / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    made = parse_kept_dump(ObjectStat(key, len(data), 1, ""))
    assert made is not None
    return made

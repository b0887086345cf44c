"""Decoding entries to Arrow tables, against `np.copyto`, a loop over protobuf classes, and the codec libraries alone.

All figures are the best of several runs, subject and baseline in turn; one thread works unless a line says otherwise, and every CRC32C is
verified. The entries are in memory for all but the last two figures, in stretches of up to 2 MiB, as `LedgerReader.batches` gives them.
"""

import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import lz4.block
import numpy as np
import pyarrow as pa
import zstandard

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.crc import crc32c
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.records import EntryBatch, scan_records
from ledgerfs.layouts.pulsar_blob.record_walk import STRETCH
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS, schema_of
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord, MessageMetadataRecord
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.part_reading import TopicPart
from ledgerfs.scan.scan import Scan, make_scan
from tests.support.ledgers import offload, record

if TYPE_CHECKING:
    from ledgerfs.catalog.reader import LedgerReader, Span, Stream

TOPIC = "persistent://public/default/orders"
_WINDOW = STRETCH
_BATCH_BYTES = 128 << 10
"""Java's producer closes a batch at this size, or at 1,000 messages."""

_BATCH_MESSAGES = 1000
_PUBLISHED_MS = 1_700_000_000_000
_FEW_COLUMNS = ("publish_time", "key")


def payloads(size: int) -> list[bytes]:
    """Return some JSON events of ``size`` bytes, which compress as such do."""
    rnd = random.Random(size)
    return [_event(rnd, size) for _ in range(4000)]


def _event(rnd: random.Random, size: int) -> bytes:
    items: list[dict[str, object]] = []
    event = {"id": f"{rnd.getrandbits(48):012x}", "at": _PUBLISHED_MS + rnd.randrange(10**7), "items": items}
    while len(text := json.dumps(event, separators=(",", ":"))) < size:
        name = rnd.choice(("apple", "bread", "cheese", "dates", "eggs", "flour"))
        items.append({"sku": rnd.randrange(10**6), "name": name, "price": rnd.randrange(10**4) / 100, "count": 1})
    return text.encode()[:size]


def _framed(metadata: MessageMetadataRecord, payload: bytes) -> bytes:
    head = metadata.SerializeToString()
    body = struct.pack(">I", len(head)) + head + payload
    return b"\x0e\x01" + struct.pack(">I", int(crc32c(np.frombuffer(body, np.uint8), 0, len(body)))) + body


def _compressed(codec: Compression, data: bytes) -> bytes:
    if codec == Compression.LZ4:
        return cast("bytes", lz4.block.compress(data, store_size=False))
    return zstandard.ZstdCompressor().compress(data) if codec == Compression.ZSTD else data


def entries(size: int, *, batched: bool, codec: Compression = Compression.NONE) -> Iterator[bytes]:
    """Yield entries of messages of ``size`` bytes without end, each with a key."""
    pool = payloads(size)
    in_batch = min(_BATCH_MESSAGES, _BATCH_BYTES // size) if batched else 1
    sequence = 0
    while True:
        metadata = MessageMetadataRecord(
            producer_name=b"standalone-0-17", sequence_id=sequence, publish_time_ms=_PUBLISHED_MS + sequence // 100
        )
        if batched:
            metadata.messages_in_batch = in_batch
            plain = b"".join(_of_batch(i, pool[i % len(pool)]) for i in range(sequence, sequence + in_batch))
        else:
            metadata.key = _key(sequence)
            plain = pool[sequence % len(pool)]
        if codec != Compression.NONE:
            metadata.compression = codec
            metadata.uncompressed_size = len(plain)
        yield _framed(metadata, _compressed(codec, plain))
        sequence += in_batch


def _key(sequence: int) -> bytes:
    return b"customer-%d" % (sequence * 7919 % 5000)


def _of_batch(sequence: int, payload: bytes) -> bytes:
    head = BatchedMetadataRecord(
        key=_key(sequence), payload_size=len(payload), sequence_id=sequence
    ).SerializeToString()
    return struct.pack(">I", len(head)) + head + payload


@dataclass(slots=True)
class InMemory:
    """A ledger whose windows are in memory: what `Scan` asks of a `LedgerReader`.

    It gives its windows several times over, so that a scan takes as long as scans do, without gigabytes of memory.
    """

    windows: list[memoryview]
    firsts: list[int]
    last_entry: int
    entry_bytes: int
    rounds: int = 1
    first_entry: int = 0

    @property
    def ref(self) -> SimpleNamespace:
        """The little of a catalog's row that a scan looks at."""
        return SimpleNamespace(ledger_id=1, created_ms=None)

    @classmethod
    def of(cls, source: Iterator[bytes], size: int, rounds: int = 4) -> "InMemory":
        """Fill windows with about ``size`` bytes of entries, which are to be given ``rounds`` times."""
        made = cls([], [], -1, 0)
        window: list[bytes] = []
        filled = 0
        while made.entry_bytes < size:
            entry = next(source)
            if not window or filled + 12 + len(entry) > _WINDOW:
                made._close(window)
                window, filled = [], 0
                made.firsts.append(made.last_entry + 1)
            made.last_entry += 1
            made.entry_bytes += len(entry)
            window.append(record(made.last_entry, entry))
            filled += len(window[-1])
        made._close(window)
        made.rounds, made.entry_bytes = rounds, made.entry_bytes * rounds
        return made

    def _close(self, window: list[bytes]) -> None:
        if window:
            self.windows.append(memoryview(b"".join(window)))

    @property
    def stream(self) -> "Stream":
        """What reads it: one ledger after the other, nothing ahead."""
        return _stream

    def batches(self, first: int, last: int, *_: object) -> Iterator[EntryBatch]:
        """Yield all entries, found anew."""
        assert (first, last) == (self.first_entry, self.last_entry)
        for window, entry in [*zip(self.windows, self.firsts, strict=True)] * self.rounds:
            yield scan_records(window, 0, entry, last - entry + 1).batch

    def scan(self, columns: Sequence[str] | None = None) -> Scan:
        """Return a scan as `Topic.scan` does."""
        part = TopicPart(TOPIC, [cast("LedgerReader", self)])
        return make_scan(TOPIC, [part], ScanOptions(columns=columns, threads=1))


def _stream(spans: "Sequence[Span]") -> Iterator[tuple[int, EntryBatch]]:
    for number, span in enumerate(spans):
        for batch in span.ledger.batches(span.first, span.last, span.on_damage):
            yield number, batch


def count(scan: Scan) -> int:
    """Stream a scan, keep nothing, return its rows."""
    return sum(batch.num_rows for batch in scan)


def copy(ledger: InMemory, target: "np.ndarray[tuple[int], np.dtype[np.uint8]]") -> None:
    """Copy the bytes of all windows to memory that is there already."""
    for _ in range(ledger.rounds):
        at = 0
        for window in ledger.windows:
            np.copyto(target[at : at + len(window)], np.frombuffer(window, np.uint8))
            at += len(window)


def by_protobuf_classes(ledger: InMemory) -> int:
    """Decode uncompressed batches to the default columns as one does without this package; checks no CRC."""
    schema = schema_of(None)
    rows = 0
    for batch in ledger.batches(0, ledger.last_entry):
        found: list[tuple[object, ...]] = []
        for entry_id, entry in batch:
            (size,) = struct.unpack_from(">I", entry, 6)
            meta = MessageMetadataRecord.FromString(bytes(entry[10 : 10 + size]))
            at = 10 + size
            for index in range(meta.messages_in_batch):
                (size,) = struct.unpack_from(">I", entry, at)
                one = BatchedMetadataRecord.FromString(bytes(entry[at + 4 : at + 4 + size]))
                at += 4 + size + one.payload_size
                found.append(
                    (
                        *(TOPIC, 1, entry_id, index, meta.publish_time_ms * 1000, one.event_time_ms or None),
                        one.key.decode() if one.HasField("key") and not one.key_is_base64 else None,
                        one.key if one.key_is_base64 else None,
                        one.ordering_key if one.HasField("ordering_key") else None,
                        None if one.value_is_null else bytes(entry[at - one.payload_size : at]),
                        [(pair.key.decode(), pair.value.decode()) for pair in one.property],
                        *(meta.producer_name.decode(), one.sequence_id),
                        meta.schema_version if meta.HasField("schema_version") else None,
                        *(None, None, None, None),
                    )
                )
        columns = [pa.array(column, field.type) for column, field in zip(zip(*found, strict=True), schema, strict=True)]
        rows += pa.RecordBatch.from_arrays(columns, schema=schema).num_rows
    return rows


def by_codec_library(ledger: InMemory, codec: Compression) -> Callable[[], None]:
    """Return a function that decompresses the payloads of a ledger and does nothing else."""
    blocks: list[tuple[memoryview, int]] = []
    for batch in ledger.batches(0, ledger.last_entry):
        for _, entry in batch:
            (size,) = struct.unpack_from(">I", entry, 6)
            metadata = MessageMetadataRecord.FromString(bytes(entry[10 : 10 + size]))
            blocks.append((entry[10 + size :], metadata.uncompressed_size))

    def run() -> None:
        if codec == Compression.LZ4:
            for block, size in blocks:
                lz4.block.decompress(block, uncompressed_size=size)
        else:
            decompressor = zstandard.ZstdDecompressor()
            for block, size in blocks:
                decompressor.decompress(block, max_output_size=size)

    return run


def best(runs: int, *works: Callable[[], object]) -> list[float]:
    """Return the seconds of each work's best run; the works take turns."""
    times = [float("inf")] * len(works)
    for _ in range(runs):
        for i, work in enumerate(works):
            start = time.perf_counter()
            work()
            times[i] = min(times[i], time.perf_counter() - start)
    return times


def print_calls(figure: str, ledger: InMemory) -> None:
    """Print how many functions of Python a scan calls for each MiB."""
    calls = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counted)
    try:
        count(ledger.scan())
    finally:
        sys.setprofile(None)
    say(f"{figure}: Python calls a MiB", f"{calls / (ledger.entry_bytes / 2**20):.0f}", "30")


def say(figure: str, value: str, goal: str) -> None:
    print(f"{figure:<46} {value:<62} goal: {goal}", flush=True)


def one_an_entry(runs: int, size: int) -> None:
    """Print the figures of 1 KiB and 100 B messages that stand alone."""
    large = InMemory.of(entries(1024, batched=False), size)
    target = np.zeros(sum(map(len, large.windows)), np.uint8)
    count(large.scan(_FEW_COLUMNS))
    decode, few, plain = best(
        runs,
        lambda: count(large.scan()),
        lambda: count(large.scan(_FEW_COLUMNS)),
        lambda: copy(large, target),
    )
    rate, memory = (large.entry_bytes / seconds / 1e9 for seconds in (decode, plain))
    say(
        "1 KiB, one an entry",
        f"{rate:.2f} GB/s; copyto {memory:.2f} GB/s, ratio {plain / decode:.2f}",
        "2 GB/s, ratio 0.2",
    )
    print_calls("1 KiB, one an entry", large)
    say("1 KiB, one an entry: publish_time, key", f"{decode / few:.2f} x all columns", "1.5 x")
    small = InMemory.of(entries(100, batched=False), size // 2)
    rows = count(small.scan(_FEW_COLUMNS))
    decode, few = best(runs, lambda: count(small.scan()), lambda: count(small.scan(_FEW_COLUMNS)))
    say("100 B, one an entry", f"{rows / decode / 1e6:.2f} M msg/s", "5 M msg/s")
    say("100 B, one an entry: publish_time, key", f"{decode / few:.2f} x all columns", "1.5 x")


def in_batches(runs: int, size: int) -> None:
    """Print the figure of 100 B messages in batches."""
    ledger = InMemory.of(entries(100, batched=True), size // 2)
    rows = count(ledger.scan())
    (decode,) = best(runs, lambda: count(ledger.scan()))
    print_calls("100 B, in batches", ledger)
    few = InMemory.of(entries(100, batched=True), size // 16, rounds=1)
    ours, theirs = best(3, lambda: count(few.scan()), lambda: by_protobuf_classes(few))
    say(
        "100 B, in batches of 1,000",
        f"{rows / decode / 1e6:.2f} M msg/s; {theirs / ours:.1f} x a loop over protobuf classes",
        "15 M msg/s, 15 x",
    )


def compressed(runs: int, size: int) -> None:
    """Print the figures of LZ4 and ZSTD."""
    for codec in (Compression.LZ4, Compression.ZSTD):
        alone = InMemory.of(entries(1024, batched=False, codec=codec), size // 8)
        rows = count(alone.scan())
        decode, library = best(runs, lambda a=alone: count(a.scan()), by_codec_library(alone, codec))  # type: ignore[misc]
        say(
            f"1 KiB {codec.name}, one an entry",
            f"{rows / decode / 1e6:.2f} M msg/s; the library alone, in a Python loop: {rows / library / 1e6:.2f}",
            "1 M msg/s",
        )
        batched = InMemory.of(entries(1024, batched=True, codec=codec), size // 4)
        rows = count(batched.scan())
        decode, library = best(runs, lambda b=batched: count(b.scan()), by_codec_library(batched, codec))  # type: ignore[misc]
        share = f"{library / decode * 100:.0f} % of the library's {rows / library / 1e6:.2f} M msg/s"
        say(f"1 KiB {codec.name}, in batches", share, "70 %")


def make_bucket(folder: str, size: int) -> None:
    """Write a topic of two ledgers of 1 KiB messages in batches."""
    source = entries(1024, batched=True)
    for ledger_id in (1, 2):
        made = offload(list(islice(source, size // 2 // _BATCH_BYTES)), ledger_id, block_size=64 << 20, uuid=ledger_id)
        for key, data in made.objects.items():
            Path(folder, key).write_bytes(data)


def whole_path(runs: int, size: int) -> None:
    """Print the figures of a bucket in a local folder."""
    folder = tempfile.mkdtemp(prefix="ledgerfs-bench-")
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            pool.submit(make_bucket, folder, size).result()
        url = f"file://{folder}"
        length = sum(ledger.length for ledger in open_bucket(url).topic(TOPIC).ledgers)
        table, stream = best(
            runs,
            lambda: open_bucket(url).topic(TOPIC).scan().to_arrow(),
            lambda: count(open_bucket(url).topic(TOPIC).scan()),
        )
        cores = len(os.sched_getaffinity(0))
        rates = f"{length / table / 1e9:.2f} GB/s; as a stream {length / stream / 1e9:.2f} GB/s"
        say(f"1 KiB in batches, local bucket, {cores} cores", rates, "1 GB/s")
        command = [sys.executable, "-m", "benchmarks.decode", "--stream", url]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        say(f"memory of a streaming scan of {length >> 20} MiB", result.stdout.strip(), "512 MiB")
    finally:
        shutil.rmtree(folder)


def stream(url: str) -> None:
    """Scan in this fresh process, and print rows and the peak of its memory."""
    rows = count(open_bucket(url).topic(TOPIC).scan())
    # Not ru_maxrss, which begins with the peak of the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(f"{int(status['VmHWM'].split()[0]) >> 10} MiB peak, {rows:,} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=64, help="of entries in memory")
    parser.add_argument("--bucket-megabytes", type=int, default=512)
    parser.add_argument("--only", nargs="*", choices=("alone", "batches", "compressed", "bucket"))
    parser.add_argument("--stream", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stream:
        stream(given.stream)
        return
    print(f"{len(DEFAULT_COLUMNS)} columns unless they are named; CRC32C verified")
    parts = {
        "alone": partial(one_an_entry, given.runs, given.megabytes << 20),
        "batches": partial(in_batches, given.runs, given.megabytes << 20),
        "compressed": partial(compressed, given.runs, given.megabytes << 20),
        "bucket": partial(whole_path, given.runs, given.bucket_megabytes << 20),
    }
    for name in given.only or parts:
        parts[name]()


if __name__ == "__main__":
    main()

"""Scans of local buckets to Arrow, against `np.copyto` of the same bytes, and against the libraries of codecs.

Buckets are in memory (``/dev/shm``), so that no disk is measured; every CRC32C is verified. The best of several runs is printed, subject
and baseline in turn. One thread works unless a row says otherwise.
"""

import argparse
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import lz4.block
import numpy as np
import pyarrow as pa
import zstandard

from benchmarks import orders
from benchmarks.measuring import MIB, Rows, best_seconds, chosen, measured_afresh
from benchmarks.messages import TOPIC, entries, messages_in_entry
from ledgerfs import Topic
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.decompression import Compression
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord
from tests.support.ledgers import offload

_BLOCK = 64 * MIB
_POOL = 8 * MIB
"""Bytes of messages that are made; the same ones are written again and again."""


@contextmanager
def made_topic(
    size: int, message_bytes: int, *, batched: bool, codec: Compression = Compression.NONE
) -> Iterator[tuple[Topic, str]]:
    """Write two ledgers of ``size`` bytes of messages together, before compression; yields topic and bucket."""
    entry_bytes = message_bytes * messages_in_entry(message_bytes, batched=batched)
    pool = list(islice(entries(message_bytes, batched=batched, codec=codec), _POOL // entry_bytes))
    made = list(islice(cycle(pool), size // 2 // entry_bytes))
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-", dir="/dev/shm") as folder:
        for ledger_id in (1, 2):
            for key, data in offload(made, ledger_id, block_size=_BLOCK, uuid=ledger_id).objects.items():
                Path(folder, key).write_bytes(data)
        yield open_bucket(folder).topic(TOPIC), folder


def bytes_of(topic: Topic) -> int:
    """Return the bytes of all entries."""
    return sum(ledger.length for ledger in topic.ledgers)


def count(topic: Topic, columns: list[str] | None = None, threads: int = 1) -> int:
    """Stream a topic, keep nothing, return its rows."""
    return sum(batch.num_rows for batch in topic.scan(columns, threads=threads))


def copy(size: int) -> Callable[[], None]:
    """Return a copy of as many bytes from memory to memory: the baseline."""
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    return lambda: np.copyto(target, source)


def python_calls(topic: Topic) -> int:
    """Return the number of Python functions that a scan calls, in all threads that it starts."""
    calls = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    threading.setprofile(counted)
    sys.setprofile(counted)
    try:
        count(topic)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


def by_codec_library(topic: Topic, codec: Compression) -> Callable[[], None]:
    """Return a loop that decompresses the payloads of a topic and does nothing else."""
    blocks: list[tuple[bytes, int]] = []
    for ledger in topic.ledgers:
        for _, entry in ledger.read(0, ledger.last_entry):
            (size,) = struct.unpack_from(">I", entry, 6)
            metadata = MessageMetadataRecord.FromString(bytes(entry[10 : 10 + size]))
            blocks.append((bytes(entry[10 + size :]), metadata.uncompressed_size))

    def work() -> None:
        decompressor = zstandard.ZstdDecompressor()
        for block, size in blocks:
            if codec == Compression.LZ4:
                lz4.block.decompress(block, uncompressed_size=size)
            else:
                decompressor.decompress(block, max_output_size=size)

    return work


def show_plain(runs: int, size: int, rows: Rows) -> None:
    """Print messages that are not compressed."""
    calls = []
    for what, message_bytes, batched in (
        ("1 KiB messages, in batches", 1024, True),
        ("1 KiB messages, one an entry", 1024, False),
        ("100 B messages, in batches", 100, True),
        ("100 B messages, one an entry", 100, False),
    ):
        with made_topic(size if message_bytes > 100 else size // 2, message_bytes, batched=batched) as (topic, _):
            number, length = count(topic), bytes_of(topic)
            few_columns = ["publish_time", "key"]
            count(topic, few_columns)
            decode, few, memory = best_seconds(
                runs, partial(count, topic), partial(count, topic, few_columns), copy(length)
            )
            rates = f"{length / decode / 1e9:.2f} GB/s, {number / decode / 1e6:.2f} M messages/s"
            rows.add(what, f"{memory / decode:.3f} x copyto ({rates}; copyto {length / memory / 1e9:.1f} GB/s)")
            calls.append(f"{python_calls(topic) / (length / MIB):.0f} ({what})")
        if what == "1 KiB messages, one an entry":
            rows.add("only `publish_time` and `key`, against all columns", f"{decode / few:.2f} x")
    rows.add("calls of Python functions a MiB", ", ".join(calls))


def show_compressed(runs: int, size: int, rows: Rows) -> None:
    """Print LZ4 and ZSTD against a loop over the library."""
    for what, codec, batched in (
        ("1 KiB LZ4, in batches", Compression.LZ4, True),
        ("1 KiB LZ4, one an entry", Compression.LZ4, False),
        ("1 KiB ZSTD, in batches", Compression.ZSTD, True),
        ("1 KiB ZSTD, one an entry", Compression.ZSTD, False),
    ):
        with made_topic(size // 2, 1024, batched=batched, codec=codec) as (topic, _):
            number = count(topic)
            decode, library = best_seconds(runs, partial(count, topic), by_codec_library(topic, codec))
        rates = f"{number / decode / 1e6:.2f} M messages/s against {number / library / 1e6:.2f}"
        rows.add(what, f"{library / decode * 100:.0f} % of the library alone ({rates})")


def show_threads(runs: int, size: int, rows: Rows) -> None:
    """Print a scan by one thread and by two."""
    with made_topic(2 * size, 1024, batched=True) as (topic, url):
        length = bytes_of(topic)
        table, one, two, memory = best_seconds(
            runs, lambda: topic.scan().to_arrow(), partial(count, topic), partial(count, topic, threads=2), copy(length)
        )
        rates = f"{length / table / 1e9:.2f} GB/s, {memory / table:.3f} x copyto"
        rows.add("1 KiB messages in batches to one Arrow table, 2 cores", rates)
        rates = f"{length / two / 1e9:.2f} GB/s against {length / one / 1e9:.2f}"
        rows.add("the same as a stream, two threads against one", f"{one / two:.2f} x ({rates})")
        peak = measured_afresh(partial(_streamed, url)).peak_memory
        rows.add("memory of that stream", f"{peak // MIB} MiB for {length // MIB} MiB")


def _streamed(url: str) -> Callable[[], int]:
    return lambda: count(open_bucket(url).topic(TOPIC), threads=2)


def show_typed(runs: int, number: int, rows: Rows) -> None:
    """Print typed scans of topics against scans of their bytes, in seconds of the processor."""
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-", dir="/dev/shm") as made:
        folder, some = Path(made), orders.table(number)
        numbers = pa.table({"value": pa.array(np.arange(number))})
        topics = {
            "typed scan of Avro orders, against the scan of bytes": orders.make_topic(folder / "avro", some, "avro"),
            "typed scan of JSON orders, against the scan of bytes": orders.make_topic(folder / "json", some, "json"),
            "typed scan of INT64, against the scan of bytes": orders.make_topic(folder / "int64", numbers, "int64"),
        }
        for what, topic in topics.items():
            works = [partial(_read, topic.scan(values="typed")), partial(_read, topic.scan(values="bytes"))]
            typed, plain = best_seconds(runs, *works, clock=time.process_time)
            rows.add(what, f"{plain / typed:.2f} x ({number / typed / 1e6:.1f} M rows/s)")


def _read(scan: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in scan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=256, help="of messages in most topics")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of typed values")
    sections = ("plain", "compressed", "threads", "typed")
    parser.add_argument("--only", nargs="*", choices=sections, metavar="|".join(sections))
    given = parser.parse_args()
    rows, size = Rows("decode"), given.megabytes * MIB
    works = {
        "plain": partial(show_plain, given.runs, size, rows),
        "compressed": partial(show_compressed, given.runs, size, rows),
        "threads": partial(show_threads, given.runs, size, rows),
        "typed": partial(show_typed, given.runs, given.rows, rows),
    }
    chosen(given.only, rows, works)


if __name__ == "__main__":
    main()

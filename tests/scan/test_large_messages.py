"""Messages that are larger than what a broker stores, or than what a reader was told to take: read, or refused with the reason."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest
import zstandard

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import CorruptMessageError, MessageTooLargeError
from ledgerfs.messages.decode import chunks
from ledgerfs.messages.decode.chunks import Incomplete
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.topic_entries import Reach
from tests.support.children import started
from tests.support.each import for_each
from tests.support.entries import LZ4, SNAPPY, ZLIB, ZSTD, compress, frame, framed, metadata
from tests.support.invoked import run
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.scans import part_of

TOPIC = "persistent://public/default/orders"
CODECS = (LZ4, ZLIB, ZSTD, SNAPPY)
MIB = 1 << 20
HANG_S = 300
"""Whatever takes longer never ends."""


def url_of(folder: Path, *ledgers: list[bytes]) -> str:
    block = 128 + max(12 + len(entry) for ledger in ledgers for entry in ledger) + MIB
    made = [offload(one, i, uuid=i, block_size=block, created_ms=CREATED_MS) for i, one in enumerate(ledgers, 1)]
    folder.mkdir(parents=True, exist_ok=True)
    return put_in_folder(folder, *made)


def topic_of(folder: Path, *ledgers: list[bytes]) -> Topic:
    return open_bucket(url_of(folder, *ledgers)).topic(TOPIC)


def small(i: int = 0) -> bytes:
    return frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i), b"value %d" % i)


def packed(
    codec: int, plain: bytes, stored: bytes | None = None, *, size: int | None = None, **fields: object
) -> bytes:
    claim = len(plain) if size is None else size
    meta = metadata(compression=codec, uncompressed_size=claim, publish_time_ms=CREATED_MS, **fields)
    return frame(meta, compress(codec, plain) if stored is None else stored)


def text(size: int) -> bytes:
    """Return text that compresses well."""
    return (b"".join(b"order %d, " % i for i in range(5000)) * (size // 40_000 + 1))[:size]


# Above 5 MiB plain, as Pulsar's reader returns them.


@pytest.mark.parametrize("codec", CODECS)
def test_a_message_above_what_a_broker_stores_is_read(tmp_path, codec):
    plain = text(12 * MIB)
    topic = topic_of(tmp_path, [small(0), packed(codec, plain), small(1)])
    assert topic.scan(["value"]).to_arrow()["value"].to_pylist() == [b"value 0", plain, b"value 1"]
    assert topic.count() == 3
    assert topic.message("1:1").value == plain


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_above_what_a_broker_stores_is_read(tmp_path, codec):
    values = [b"%d;" % i + text(3 * MIB) for i in range(5)]
    plain = b"".join(framed(BatchedMetadataRecord(key=b"k%d" % i), value) for i, value in enumerate(values))
    topic = topic_of(tmp_path, [small(0), packed(codec, plain, messages_in_batch=5), small(1)])
    table = topic.scan(["key", "batch_index", "value"]).to_arrow()
    assert table["value"].to_pylist() == [b"value 0", *values, b"value 1"]
    assert table["key"].to_pylist() == [None, *(f"k{i}" for i in range(5)), None]
    assert topic.scan(["batch_index"]).to_arrow()["batch_index"].to_pylist() == [None, 0, 1, 2, 3, 4, None]
    assert topic.count() == 7


def test_zstd_of_any_frames_is_read(tmp_path):
    """One without its size, one of a window as large as the message, and two frames in one payload."""
    plain = text(9 * MIB)
    long_window = zstandard.ZstdCompressionParameters(window_log=27)
    forms = [
        zstandard.ZstdCompressor(write_content_size=False).compress(plain),
        zstandard.ZstdCompressor(level=22).compress(plain),
        zstandard.ZstdCompressor(compression_params=long_window).compress(plain),
        compress(ZSTD, plain[:MIB]) + compress(ZSTD, plain[MIB:]),
    ]
    topic = topic_of(tmp_path, [packed(ZSTD, plain, stored) for stored in forms])
    assert topic.scan(["value"]).to_arrow()["value"].to_pylist() == [plain] * 4


# Claims that are lies.


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_claim_that_is_not_borne_out_is_damage(tmp_path_factory, codec):
    for_each("by", [-1, 1, 30 * MIB])(require_damage)(tmp_path_factory=tmp_path_factory, codec=codec)


def require_damage(tmp_path_factory, codec, by):
    plain = text(6 * MIB)
    topic = topic_of(tmp_path_factory.mktemp("case"), [small(0), packed(codec, plain, size=len(plain) + by), small(1)])
    with pytest.raises(CorruptMessageError, match=r"entry 1:1"):
        topic.scan(["value"]).to_arrow()
    scan = topic.scan(["entry_id", "value"], on_corrupt="skip")
    report = ScanReport()
    assert scan.to_arrow(report)["entry_id"].to_pylist() == [0, 2]
    assert [one.first_entry for one in report.skipped] == [1]


MEASURED = """
import json
import os
import resource
import sys
import traceback
from ledgerfs import open_bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs.vfs.tree import tree_of

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10

def measure(url, limit):
    topic = open_bucket(url).topic("persistent://public/default/orders")
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    topic.scan(["value"], end_time="2010-01-02").to_arrow()
    before = peak()
    try:
        rows = [len(value) for batch in topic.scan(["value"]) for value in batch["value"].to_pylist()]
        print("rows", rows, end=" ")
    except LedgerfsError as error:
        print(type(error).__name__, error, end=" ")
    print("within" if peak() - before < limit else f"took {(peak() - before) >> 20} MiB")

for line in sys.stdin:
    child = os.fork()
    if not child:
        status = 1
        try:
            measure(*json.loads(line))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    print("ended with", os.waitpid(child, 0)[1], flush=True)
"""


class Measurer:
    """A process without a past that scans in forked children: the memory of each is that of its scan."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __call__(self, url: str, limit: int) -> str:
        """Scan; return what became of it, and whether it took less than ``limit`` bytes more than to begin with."""
        assert self._process.stdin is not None
        hang = threading.Timer(HANG_S, self._process.kill)
        hang.start()
        try:
            print(json.dumps([url, limit]), file=self._process.stdin, flush=True)
            *said, end = self._lines()
        finally:
            hang.cancel()
        assert end == "ended with 0", (said, end)
        return "\n".join(said)

    def _lines(self) -> Iterator[str]:
        """Yield what the child prints, up to how it ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line.strip()
            if line.startswith("ended with"):
                return


@pytest.fixture(scope="module")
def measured() -> Iterator[Measurer]:
    command = [sys.executable, "-c", MEASURED]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Measurer(process)
        assert process.stdin is not None
        process.stdin.close()


def zeros_of_zstd(size: int) -> bytes:
    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    piece = bytes(64 * MIB)
    return b"".join([compressor.compress(piece[: min(len(piece), size - at)]) for at in range(0, size, len(piece))]) + (
        compressor.flush()
    )


def test_a_bomb_takes_no_memory_whether_it_bears_out_its_claim_or_not(tmp_path, measured):
    """3 GiB, and less than a column holds but more than the ceiling: refused by their claims. 1 GiB that is none: damage."""
    three = zeros_of_zstd(3 << 30)
    assert len(three) < MIB
    lie = zeros_of_zstd(900 * MIB)
    for number, (stored, size, expected) in enumerate(
        [
            (
                three,
                3 << 30,
                "MessageTooLargeError entry 1:1: the message has 3221225472 bytes, more than the 2147483647",
            ),
            (three, 1500 * MIB, "pass max_message_bytes=1572864000 "),
            (lie[:-9], 900 * MIB, "CorruptMessageError entry 1:1"),
            (lie, 1000 * MIB, "CorruptMessageError entry 1:1"),
            (
                compress(ZSTD, b"abc"),
                3 << 30,
                "CorruptMessageError entry 1:1: its uncompressed size is 3221225472 bytes, but ",
            ),
        ]
    ):
        url = url_of(tmp_path / str(number), [small(0), packed(ZSTD, b"", stored, size=size)])
        reported = measured(url, 128 * MIB)
        assert expected in reported
        assert reported.endswith(" within")


@for_each("codec", [LZ4, ZLIB, SNAPPY])
def test_lies_of_other_codecs_take_no_memory(tmp_path, codec, measured):
    """Each claims as much as a payload of that length could hold."""
    plain = os.urandom(MIB) + bytes(MIB)
    most = {LZ4: 200 * MIB, ZLIB: 900 * MIB, SNAPPY: 22 * MIB}[codec]
    url = url_of(tmp_path / str(codec), [small(0), packed(codec, plain, size=most)])
    reported = measured(url, 128 * MIB)
    assert "CorruptMessageError entry 1:1" in reported
    assert reported.endswith(" within")


def test_large_messages_of_one_window_come_one_by_one(tmp_path, measured):
    """Twenty of 60 MiB each: 1.2 GiB, in a process that is given less than a fifth of that."""
    size = 60 * MIB
    url = url_of(tmp_path, [packed(ZSTD, b"", zeros_of_zstd(size), size=size)] * 20)
    assert measured(url, 6 * size) == f"rows {[size] * 20} within"


# The ceiling.


def test_what_is_above_the_ceiling_is_no_damage_and_names_the_option(tmp_path):
    plain = text(7 * MIB)
    topic = topic_of(tmp_path, [small(0), packed(ZSTD, plain), small(1)])
    limit = len(plain) - 1
    with pytest.raises(MessageTooLargeError, match=f"entry 1:1: .*pass max_message_bytes={len(plain)} ") as caught:
        topic.scan(max_message_bytes=limit).to_arrow()
    assert caught.value.errno == errno.EMSGSIZE
    with pytest.raises(MessageTooLargeError, match="entry 1:1"):
        topic.message("1:1", max_message_bytes=limit)
    assert topic.scan(max_message_bytes=len(plain)).to_arrow().num_rows == 3
    # What no column needs is not opened, and not refused.
    assert topic.scan(["publish_time"], max_message_bytes=limit).to_arrow().num_rows == topic.count() == 3
    scan = topic.scan(["entry_id", "value"], max_message_bytes=limit, on_corrupt="skip")
    report = ScanReport()
    assert scan.to_arrow(report)["entry_id"].to_pylist() == [0, 2]
    (skipped,) = report.skipped
    assert f"max_message_bytes={len(plain)}" in skipped.reason


def test_commands_end_with_2_above_the_ceiling_and_with_1_where_it_is_left_out(tmp_path):
    url = url_of(tmp_path / "bucket", [small(0), packed(ZSTD, text(7 * MIB)), small(1)])
    given = ("--max-message-bytes", str(6 * MIB))
    for command in (("head", url, TOPIC), ("export", url, TOPIC, str(tmp_path / "out"))):
        reported = run(*command, *given, code=2).stderr.decode()
        assert "entry 1:1: the message has 7340032 bytes" in reported
        assert "max_message_bytes=7340032" in reported
    reported = run("export", url, TOPIC, str(tmp_path / "rest"), *given, "--on-corrupt", "skip", code=1).stderr.decode()
    assert "left out 1:1: the message has 7340032 bytes" in reported
    run("export", url, TOPIC, str(tmp_path / "all"))


# Chunked messages.


def parts_of(stored: bytes, size: int, identity: bytes = b"a", **fields: object) -> list[bytes]:
    pieces = [stored[at : at + size] for at in range(0, len(stored), size)]
    return [
        frame(
            metadata(
                chunked_id=identity,
                chunk=i,
                chunks=len(pieces),
                chunked_size=len(stored),
                publish_time_ms=CREATED_MS,
                **fields,
            ),
            piece,
        )
        for i, piece in enumerate(pieces)
    ]


@pytest.mark.long
def test_a_chunked_message_of_more_than_256_mib_is_read(tmp_path):
    plain = bytes(range(256)) * (1 << 20) + b"the end"
    topic = topic_of(tmp_path, [small(0), *parts_of(plain, 5 * MIB), small(1)])
    scan = topic.scan(["value"])
    report = ScanReport()
    first, large, last = scan.to_arrow(report)["value"]
    assert large.as_buffer().equals(pyarrow.py_buffer(plain))
    assert (first.as_py(), last.as_py()) == (b"value 0", b"value 1")
    assert report.incomplete == []
    with pytest.raises(MessageTooLargeError, match=f"begins at 1:1 has {len(plain)} bytes"):
        topic.scan(["value"], max_message_bytes=256 << 20).to_arrow()


def test_a_chunked_message_that_is_compressed_is_read_up_to_the_ceiling(tmp_path):
    plain = text(40 * MIB)
    parts = parts_of(compress(ZSTD, plain), 900, compression=ZSTD, uncompressed_size=len(plain))
    assert len(parts) > 2
    topic = topic_of(tmp_path, parts[:1], [*parts[1:], small()])
    assert topic.scan(["value"]).to_arrow()["value"].to_pylist() == [plain, b"value 0"]
    with pytest.raises(MessageTooLargeError, match=f"max_message_bytes={len(plain)} "):
        topic.scan(max_message_bytes=20 * MIB).to_arrow()


def test_messages_that_wait_beyond_the_bound_are_too_large_never_incomplete(tmp_path, monkeypatch):
    """Four messages of 300 bytes whose parts alternate; 1,000 bytes may wait."""
    monkeypatch.setattr(chunks, "LEAST_WAITING_BYTES", 1000)
    messages = [parts_of(bytes([i]) * 300, 100, b"%d" % i) for i in range(4)]
    alternating = [part for parts in zip(*messages, strict=True) for part in parts]
    topic = topic_of(tmp_path, [*alternating, *parts_of(b"lost", 2, b"lost")[:1]])
    with pytest.raises(
        MessageTooLargeError, match=r"entry 1:8: .* bytes of incomplete chunked messages are in memory.* 1:0"
    ):
        topic.scan(max_message_bytes=400).to_arrow()
    scan = topic.scan(["entry_id", "value"], max_message_bytes=400, on_corrupt="skip")
    report = ScanReport()
    rows = scan.to_arrow(report)["entry_id"].to_pylist()
    assert sorted(rows + [one.first_entry for one in report.skipped]) == [8, 9, 10, 11]
    assert report.skipped
    assert report.incomplete == [Incomplete(1, 12, 1, 2)]
    needed = int(report.skipped[0].reason.partition("max_message_bytes=")[2].split()[0])
    assert topic.scan(max_message_bytes=needed).to_arrow().num_rows == 4


def test_a_part_of_a_topic_refuses_what_began_before_it(tmp_path):
    plain = bytes(3000)
    first, *rest = parts_of(plain, 1000)
    topic = topic_of(tmp_path, [small(0), first], [*rest, small(1)])
    second = part_of(topic.scan(["entry_id", "value"], max_message_bytes=2999), Reach.of(range(1, 2)))
    with pytest.raises(MessageTooLargeError, match="entry 2:1: the chunked message that begins at 1:1 has 3000 bytes"):
        second.to_arrow()
    whole = part_of(topic.scan(["entry_id", "value"]), Reach.of(range(1, 2)))
    assert whole.to_arrow()["value"].to_pylist() == [plain, b"value 1"]
    with pytest.raises(MessageTooLargeError, match="begins at 1:1 has 3000 bytes"):
        topic.message("2:0", max_message_bytes=2999)


def test_many_joined_messages_of_one_window_come_in_pieces(tmp_path, measured):
    """Their last parts are contiguous; only their waiting parts are in memory, and the one message that is joined."""
    size = 40 * MIB
    messages = [parts_of(bytes([i]) * size + b"end", 4 * MIB, b"%d" % i) for i in range(8)]
    url = url_of(tmp_path, [part for one in messages for part in one[:-1]], [one[-1] for one in messages])
    # 570 to 730 MiB were measured, as reads and the collector come, and 1,020 to 1,050 if all are joined at once.
    assert measured(url, 21 * size) == f"rows {[size + 3] * 8} within"

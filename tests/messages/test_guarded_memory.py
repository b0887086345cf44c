"""Hostile entries between pages that nobody may touch: a byte read outside an entry, or written outside a buffer, kills the process.

Each entry lies in a slot of its own that may only be read, either right after a forbidden page or right before one; and so end all tables
and buffers that the decoder makes. The work is done in a process of its own (`tests.support.noted_cases`).
"""

import ctypes
import faulthandler
import mmap
import os
import random
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgerfs.errors import DecompressionError, LedgerfsError
from ledgerfs.formats.decompression import decompress
from ledgerfs.formats.records import EntryBatch, scan_records
from ledgerfs.messages.codecs import native_decompression
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.payloads import Decrypt, Workspace
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.messages.kernels import arrays
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord, MessageMetadataRecord
from ledgerfs.messages.text.json_lines import json_lines
from tests.messages.test_fuzz_entries import decrypt_with, golden_entries, mutated
from tests.support.entries import TOPIC, compress, frame, framed, metadata, varint
from tests.support.ledgers import record
from tests.support.noted_cases import Note, counts_of

CASES = 700
"""Of each seed."""
SEEDS, NATIVE = (1, 2, 3), (1, 2)
"""The last one is tried without the native codecs."""
PAGE = mmap.PAGESIZE
FORBIDDEN = 16 * PAGE
READ, WRITE = 1, 2
LIMIT = 1 << 20

_C = ctypes.CDLL(None, use_errno=True)
_C.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Slots:
    """Pieces of memory, each with forbidden pages before and after it; a piece touches those at one of its ends."""

    def __init__(self, sizes: Sequence[int], *, at_end: bool = True) -> None:
        pages = [-(-size // PAGE) * PAGE for size in sizes]
        stops = FORBIDDEN + np.cumsum([0, *pages])[1:] + FORBIDDEN * np.arange(len(sizes))
        self.map = mmap.mmap(-1, FORBIDDEN + sum(pages) + FORBIDDEN * len(sizes))
        self.address = np.frombuffer(self.map, np.uint8).ctypes.data
        self.spans = [(int(stop) - size, size) for stop, size in zip(stops, pages, strict=True)]
        self.starts = [
            start + room - size if at_end else start for (start, room), size in zip(self.spans, sizes, strict=True)
        ]
        self.protect(READ | WRITE)

    def protect(self, rights: int) -> None:
        """Give rights to the pieces, and none to what is between them."""
        self._set(0, len(self.map), 0)
        for start, room in self.spans:
            self._set(start, room, rights)

    def open(self) -> None:
        """Let all of it be read."""
        self._set(0, len(self.map), READ)

    def _set(self, start: int, size: int, rights: int) -> None:
        if size and _C.mprotect(self.address + start, size, rights):
            raise OSError(ctypes.get_errno(), "mprotect")


def placed(pieces: Sequence[bytes], *, at_end: bool) -> Slots:
    slots = Slots([len(piece) for piece in pieces], at_end=at_end)
    for start, piece in zip(slots.starts, pieces, strict=True):
        slots.map[start : start + len(piece)] = piece
    slots.protect(READ)
    return slots


def guarded_empty(size: int, dtype: Any) -> np.ndarray:
    kind = np.dtype(dtype)
    slots = Slots([int(size) * kind.itemsize])
    return np.frombuffer(slots.map, kind, size, slots.starts[0])


def guarded_table(columns: int, rows: int) -> np.ndarray:
    slots = Slots([8 * rows] * columns)
    stride = slots.starts[1] - slots.starts[0]
    return np.ndarray((columns, rows), np.int64, slots.map, slots.starts[0], (stride, 8))


@contextmanager
def guarded_outputs() -> Iterator[list[Slots]]:
    """Let the decoder write between forbidden pages only; what is added to the list yielded may be read while pieces are joined."""
    inputs: list[Slots] = []
    joined = Workspace.bytes

    def guarded_bytes(work: Workspace) -> np.ndarray:
        if len(work._pieces) == 1:
            return joined(work)
        for slots in inputs:
            slots.open()
        data = joined(work).tobytes()
        for slots in inputs:
            slots.protect(READ)
        copy = placed([data], at_end=True)
        return np.frombuffer(memoryview(copy.map).toreadonly(), np.uint8, len(data), copy.starts[0])

    with pytest.MonkeyPatch.context() as patch:
        for name, guarded in (("empty", guarded_empty), ("empty_table", guarded_table)):
            original = getattr(arrays, name)
            for module in [module for key, module in sys.modules.items() if key.startswith("ledgerfs.messages")]:
                if getattr(module, name, None) is original:
                    patch.setattr(module, name, guarded)
        patch.setattr(Workspace, "bytes", guarded_bytes)
        yield inputs


NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    100,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**62,
    2**63 - 1,
    -1,
    -2,
    -(2**31),
    -(2**63) + 1,
    -(2**63),
)
FIELDS_OF_NUMBERS = (2, 3, 8, 9, 11, 11, 11, 12, 17, 19, 20, 22, 23, 25, 27, 28, 29, 30, 31, 31)
FIELDS_OF_BYTES = (1, 4, 4, 5, 6, 13, 15, 16, 18, 26, 31, 31)
FIELDS_OF_BATCHED = (1, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10)


def claims(dice: random.Random, numbers: Sequence[int], places: Sequence[int]) -> bytes:
    """Return some fields that are well formed, and say what they should not."""
    made = b""
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        if dice.random() < 0.6:
            made += varint(8 * dice.choice(numbers)) + varint(dice.choice(NUMBERS))
        else:
            text = dice.choice((b"", b"", b"\x00", b"abc", b"\xff" * 9, b"\x0a\x01k\x12\x01v", b"\x03\x05\x03"))
            made += varint(8 * dice.choice(places) + 2) + varint(len(text)) + text
    return made


def lying(entry: bytes, dice: random.Random) -> bytes:
    """Return an entry with other claims after its metadata, and its payload changed and compressed again."""
    at = 6 + int.from_bytes(entry[2:6], "big") if entry[:2] == b"\x0e\x02" else 0
    at += 6 if entry[at : at + 2] == b"\x0e\x01" else 0
    end = at + 4 + int.from_bytes(entry[at : at + 4], "big")
    head, payload = entry[at + 4 : end], entry[end:]
    meta = MessageMetadataRecord.FromString(head)
    try:
        plain = decompress(meta.compression, memoryview(payload), meta.uncompressed_size, LIMIT)
    except DecompressionError:
        plain = payload
    return packed(head, mutated(plain, dice) if dice.random() < 0.6 else plain, dice)


def made_up(dice: random.Random) -> bytes:
    """Return a batch of messages that lie about themselves."""
    count = dice.choice((0, 1, 1, 2, 5, 60))
    plain = b""
    for _ in range(count):
        payload = b"x" * dice.choice((0, 0, 1, 7, 8, 9, 300))
        single = BatchedMetadataRecord(key=b"k" * dice.choice((0, 1, 9)), payload_size=len(payload))
        said = single.SerializeToString() + claims(dice, FIELDS_OF_BATCHED, FIELDS_OF_BATCHED)
        plain += framed(said if dice.random() < 0.2 else single.SerializeToString(), payload)
    kept = [dice.choice((0, 1, 5, -1, 2**31 - 1)) for _ in range(dice.choice((0, 0, count)))]
    batch = dice.choice((count, count, count + 1, -5, 0))
    return packed(metadata(messages_in_batch=batch, kept_index=kept).SerializeToString(), plain, dice)


def packed(head: bytes, plain: bytes, dice: random.Random) -> bytes:
    codec = dice.choice((0, 0, 1, 1, 2, 3, 3, 4))
    size = dice.choice((*[len(plain)] * 12, len(plain) + 1, len(plain) - 1, 0, LIMIT, *NUMBERS))
    head += b"\x40" + varint(codec) + b"\x48" + varint(size) if codec else b"\x40\x00"
    stored = compress(codec, plain, finish=dice.random() < 0.5)
    head += claims(dice, FIELDS_OF_NUMBERS, FIELDS_OF_BYTES)
    return frame(head, mutated(stored, dice) if dice.random() < 0.2 else stored, checksum=dice.random() < 0.5)


def cut(entry: bytes, dice: random.Random) -> bytes:
    return entry[: dice.randrange(len(entry) + 1)]


MUTATIONS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "as it is": lambda entry, dice: entry,
    "mutated": mutated,
    "cut": cut,
    "lying": lying,
    "lying and cut": lambda entry, dice: cut(lying(entry, dice), dice),
    "lying and mutated": lambda entry, dice: mutated(lying(entry, dice), dice),
    "made up": lambda entry, dice: made_up(dice),
}
SPECIAL: list[list[bytes]] = [[], [b""], [b"", b"", b""], [struct.pack(">I", 0)], [b"\x0e\x02"], [b"\x0e\x01"]]


def case_of(entries: dict[str, list[bytes]], seed: int, number: int) -> tuple[list[str], list[bytes], random.Random]:
    """Return what was done to each entry, and the entries, of one case of a seed."""
    dice = random.Random(f"{seed} {number}")
    if number < len(SPECIAL):
        return ["special"], SPECIAL[number], dice
    names = sorted(entries)
    kinds = dice.choices(list(MUTATIONS), k=dice.choice((1, 1, 2, 5)))
    return kinds, [MUTATIONS[kind](dice.choice(entries[dice.choice(names)]), dice) for kind in kinds], dice


def options_of(dice: random.Random) -> dict[str, Any]:
    few = dice.sample(MESSAGE_SCHEMA.names, dice.randint(1, 4))
    return {
        "columns": dice.choice(((), few, few, MESSAGE_SCHEMA.names, MESSAGE_SCHEMA.names)),
        "check_checksums": dice.random() < 0.3,
        "on_corrupt": "skip",
        "on_encrypted": dice.choice(("null", "skip")),
        "include_markers": dice.random() < 0.5,
        "max_message_bytes": LIMIT,
    }


def decoded(batch: EntryBatch, options: dict[str, Any], decrypt: Any) -> int:
    """Decode as a scan does, and return the number of rows; our error is an answer, too."""
    decoder = TopicDecoder(TOPIC, DecodeOptions(**options), decrypt)
    rows = 0
    try:
        entries, keep = decoder.walk(batch, 1)
        for portion in decoder.portions(entries, keep):
            table = decoder.decode(batch, 1, entries, portion)
            table.validate(full=True)
            json_lines(table)
            rows += table.num_rows
    except LedgerfsError:
        pass
    return rows


def scan_guarded(entries: list[bytes], dice: random.Random, *, at_end: bool) -> None:
    """Look for records in what is cut anywhere."""
    stored = b"".join(record(i, entry) for i, entry in enumerate(entries))
    slots = placed([stored[: dice.randrange(len(stored) + 1)]], at_end=at_end)
    size = len(stored) if not stored else len(slots.map) - FORBIDDEN - slots.starts[0]
    scan_records(memoryview(slots.map).toreadonly()[slots.starts[0] : slots.starts[0] + size], 0, 0, 1000)


def trespass_is_fatal(touch: Callable[[], object]) -> bool:
    process = os.fork()
    if process == 0:
        faulthandler.disable()
        touch()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGSEGV


def check_guards() -> None:
    """See that the pages are forbidden indeed: nothing that follows could fail otherwise."""
    left, right = (placed([b"abc"], at_end=at_end) for at_end in (False, True))
    assert (left.map[left.starts[0]], right.map[right.starts[0] + 2]) == (ord("a"), ord("c"))
    out, table = guarded_empty(5, np.int64), guarded_table(3, 7)
    out[:], table[:] = 1, 2
    trespasses = {
        "before": lambda: left.map[left.starts[0] - 1],
        "behind": lambda: right.map[right.starts[0] + 3],
        "written": lambda: ctypes.memset(left.address + left.starts[0], 0, 1),
        "output": lambda: ctypes.memset(out.ctypes.data + 40, 0, 1),
        "column": lambda: ctypes.memset(table[1].ctypes.data + 56, 0, 1),
    }
    assert [name for name, touch in trespasses.items() if not trespass_is_fatal(touch)] == []


def work(golden: Path, note: Note) -> None:
    """Try the cases of all seeds."""
    check_guards()
    entries, key = golden_entries(golden), decrypt_with(golden)
    counts = {"tried": 0}
    for seed in SEEDS:
        if seed not in NATIVE:
            native_decompression._lz4 = native_decompression._zstd = lambda: None
        counts[f"rows of {seed}"] = rows_of_cases(entries, key, seed, note)
        counts["tried"] += CASES
    note.write(counts)


def rows_of_cases(entries: dict[str, list[bytes]], key: Decrypt, seed: int, note: Note) -> int:
    """Try the cases of a seed, each of which is noted; return how many rows were decoded."""
    rows = 0
    with guarded_outputs() as inputs:
        for number in range(CASES):
            kinds, some, dice = case_of(entries, seed, number)
            options, at_end, decrypt = options_of(dice), dice.random() < 0.7, dice.choice((None, key))
            about = {"seed": seed, "case": number, "mutations": kinds, "at_end": at_end, "options": options}
            note.write({**about, "entries": [entry.hex() for entry in some]})
            slots = placed(some, at_end=at_end)
            inputs[:] = [slots]
            offsets, lengths = (np.array(numbers, np.int64) for numbers in (slots.starts, [len(e) for e in some]))
            rows += decoded(EntryBatch(0, memoryview(slots.map).toreadonly(), offsets, lengths), options, decrypt)
            scan_guarded(some, dice, at_end=at_end)
    return rows


@pytest.mark.long
def test_nothing_is_read_outside_an_entry_or_written_outside_a_buffer(golden, tmp_path):
    counts = counts_of("tests.messages.test_guarded_memory", golden, folder=tmp_path)
    assert counts["tried"] == CASES * len(SEEDS)
    assert all(counts[f"rows of {seed}"] > CASES for seed in SEEDS), counts


if __name__ == "__main__":
    work(Path(sys.argv[1]), Note(Path(sys.argv[2])))

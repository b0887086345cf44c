"""Transforms of hostile entries, between pages that nobody may touch: an answer that reads as before, or our error.

The machinery is that of `test_guarded_memory`: the work is done in a process of its own (`tests.support.noted_cases`).
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.codecs import native_decompression
from ledgerfs.messages.transforms.unbatch import Unbatch
from tests.messages.test_fuzz_entries import golden_entries
from tests.messages.test_guarded_memory import LIMIT, NATIVE, SEEDS, case_of, check_guards, guarded_outputs, placed
from tests.support.noted_cases import Note, counts_of
from tests.support.transforms import rows_of

CASES = 500
"""Of each seed."""


def unsigned(entry: bytes) -> bytes:
    """Return an entry without its checksum, which would tell of every change."""
    at = 6 + int.from_bytes(entry[2:6], "big") if entry[:2] == b"\x0e\x02" else 0
    return entry[:at] + entry[at + 6 :] if entry[at : at + 2] == b"\x0e\x01" else entry


def made_of(transform: Unbatch, batch: EntryBatch) -> list[bytes] | None:
    try:
        return [bytes(entry) for made in transform(batch, 0) for _, entry in made]
    except LedgerfsError:
        return None


def rows_or_none(entries: list[bytes]) -> list[dict[str, Any]] | None:
    try:
        return rows_of(entries, max_message_bytes=LIMIT)
    except LedgerfsError:
        return None


def work(golden: Path, note: Note) -> None:
    """Try the cases of all seeds."""
    check_guards()
    entries = golden_entries(golden)
    counts = {}
    for seed in SEEDS:
        if seed not in NATIVE:
            native_decompression._lz4 = native_decompression._zstd = lambda: None
        counts[f"made of {seed}"], counts[f"compared of {seed}"] = try_cases(entries, seed, note)
    note.write(counts)


def try_cases(entries: dict[str, list[bytes]], seed: int, note: Note) -> tuple[int, int]:
    """Try the cases of a seed, each of which is noted; return how many were transformed, and how many of these a reader reads."""
    made_count = compared = 0
    for number in range(CASES):
        kinds, some, dice = case_of(entries, seed + 100, number)
        some = [unsigned(entry) for entry in some]
        transform, at_end = Unbatch(dice.choice(list(Compression)), LIMIT), dice.random() < 0.7
        about = {"seed": seed, "case": number, "mutations": kinds, "at_end": at_end, "transform": repr(transform)}
        note.write({**about, "entries": [entry.hex() for entry in some]})
        with guarded_outputs() as inputs:
            slots = placed(some, at_end=at_end)
            inputs[:] = [slots]
            offsets, lengths = (np.array(numbers, np.int64) for numbers in (slots.starts, [len(one) for one in some]))
            made = made_of(transform, EntryBatch(0, memoryview(slots.map).toreadonly(), offsets, lengths))
        before = rows_or_none(some)
        made_count += made is not None
        assert made is not None or before is None, "refused what a reader reads"
        if made is not None and before is not None:
            assert rows_or_none(made) == before
            compared += bool(before)
    return made_count, compared


@pytest.mark.long
def test_hostile_entries_become_what_reads_the_same_or_our_error(golden, tmp_path):
    counts = counts_of("tests.messages.test_transforms_fuzz", golden, folder=tmp_path)
    for seed in SEEDS:
        assert counts[f"made of {seed}"] > CASES // 10, counts
        assert counts[f"compared of {seed}"] > CASES // 20, counts


if __name__ == "__main__":
    work(Path(sys.argv[1]), Note(Path(sys.argv[2])))

"""Transforms of hostile entries, between pages that nobody may touch: an answer that reads as before, or our error.

The machinery is that of `test_guarded_memory`: the work is done in a process of its own, which notes each case before it tries it.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.codecs import native_compression, native_decompression
from ledgerfs.messages.transforms.entry_transform import EntryTransform
from ledgerfs.messages.transforms.recompress import Recompress
from ledgerfs.messages.transforms.unbatch import Unbatch
from tests.messages.test_fuzz_entries import golden_entries
from tests.messages.test_guarded_memory import LIMIT, case_of, check_guards, counts_of, guarded_outputs, placed
from tests.support.transforms import rows_of

CASES = 500


def unsigned(entry: bytes) -> bytes:
    """Return an entry without its checksum, which would tell of every change."""
    at = 6 + int.from_bytes(entry[2:6], "big") if entry[:2] == b"\x0e\x02" else 0
    return entry[:at] + entry[at + 6 :] if entry[at : at + 2] == b"\x0e\x01" else entry


def transform_of(dice: random.Random) -> EntryTransform:
    kind = dice.choice((Recompress, Unbatch, Unbatch))
    return kind(dice.choice(list(Compression)), LIMIT)


def made_of(transform: EntryTransform, batch: EntryBatch) -> list[bytes] | None:
    try:
        return [bytes(entry) for made in transform(batch, 0) for _, entry in made]
    except LedgerfsError:
        return None


def rows_or_none(entries: list[bytes]) -> list[dict[str, Any]] | None:
    try:
        return rows_of(entries, max_message_bytes=LIMIT)
    except LedgerfsError:
        return None


def work(golden: Path, seed: int, note: Path) -> None:
    """Try the cases of a seed; leave a note of the one at work."""
    check_guards()
    entries = golden_entries(golden)
    if seed % 3 == 0:
        native_decompression._lz4 = native_decompression._zstd = lambda: None
        native_compression._lz4 = native_compression._zstd = lambda: None
    made_count = compared = 0
    for number in range(CASES):
        kinds, some, dice = case_of(entries, seed + 100, number)
        some = [unsigned(entry) for entry in some]
        transform, at_end = transform_of(dice), dice.random() < 0.7
        about = {"case": number, "mutations": kinds, "at_end": at_end, "transform": repr(transform)}
        note.write_text(json.dumps({**about, "entries": [entry.hex() for entry in some]}))
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
    note.write_text(json.dumps({"made": made_count, "compared": compared}))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hostile_entries_become_what_reads_the_same_or_our_error(golden, tmp_path, seed):
    """Seeds that 3 divides are tried without the native codecs."""
    counts = counts_of("tests.messages.test_transforms_fuzz", golden, seed, note=tmp_path / "case.json")
    assert counts["made"] > CASES // 10, counts
    assert counts["compared"] > CASES // 20, counts


if __name__ == "__main__":
    work(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))

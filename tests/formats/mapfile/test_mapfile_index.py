import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

from ledgerfs.errors import CorruptIndexError, LedgerfsError, UnsupportedFormatError
from ledgerfs.formats.mapfile.header import Codec, RecordCompression
from ledgerfs.formats.mapfile.index import parse_index
from tests.support.each import for_each
from tests.support.mapfiles import LONG, SYNC, MapFileWriter, header, ledger_records, vint

RECORDS = ledger_records(b"metadata", [b"%d" % i * 20 for i in range(1000)])
SIZE = 10**6


def index_of(*entries, end=b"", lengths=None):
    """An index of one block for each list of ``(key, position)``."""
    out = header(MapFileWriter(), LONG)
    for block in entries:
        out += b"\xff" * 4 + SYNC + vint(len(block))
        for part in (
            b"\x08" * len(block),
            b"".join(struct.pack(">q", key) for key, _ in block),
            b"\x08" * len(block) if lengths is None else lengths,
            b"".join(struct.pack(">q", position) for _, position in block),
        ):
            stored = zlib.compress(part)
            out += vint(len(stored)) + stored
    return out + end


@for_each("codec", Codec)
@for_each("compression", RecordCompression)
def test_index_is_what_hadoop_writes(compression, codec):
    data, index = MapFileWriter(compression, codec, block_bytes=3000).files(RECORDS)
    parsed = parse_index(memoryview(index), data_size=len(data))
    assert len(parsed) == parsed.keys.size == parsed.positions.size > 3
    assert parsed.keys.dtype == parsed.positions.dtype == np.int64
    assert parsed.keys[0] == -1
    if compression is RecordCompression.BLOCK:
        assert (np.diff(parsed.keys) >= 128).all()
    else:
        assert parsed.keys.tolist() == list(range(-1, 1000, 128))


def test_entries_of_several_blocks_follow_each_other():
    parsed = parse_index(index_of([(-1, 138), (127, 900)], [(300, 5000)]), data_size=SIZE)
    assert parsed.keys.tolist() == [-1, 127, 300]
    assert parsed.positions.tolist() == [138, 900, 5000]


def test_an_index_that_was_never_closed_has_no_entries():
    parsed = parse_index(index_of(), data_size=0)
    assert (len(parsed), parsed.keys.dtype) == (0, np.int64)


@for_each(
    ("entries", "says"),
    [
        ([[(-1, 138), (-1, 900)]], "key -1 of index entry 1 is not greater than -1"),
        ([[(-1, 138)], [(300, 900)], [(200, 5000)]], "key 200 of index entry 2 is not greater than 300"),
        ([[(-1, 138), (127, 138)]], "position 138 of index entry 1"),
        ([[(-1, 138), (127, 100)]], "position 100 of index entry 1"),
        ([[(-1, 138), (127, SIZE)]], f"to {SIZE}, in data of {SIZE} bytes"),
        ([[(-1, 138), (127, 2**63 - 1)]], "in data of"),
        ([[(-1, -1)]], "positions from -1"),
        ([[(-2, 138)]], "keys from -2"),
        ([[(-(2**63), 138), (2**63 - 1, 200)]], "keys from -"),
    ],
)
def test_entries_that_do_not_ascend_or_leave_the_data_are_reported(entries, says):
    with pytest.raises(CorruptIndexError, match=says) as caught:
        parse_index(index_of(*entries), data_size=SIZE, key="index")
    assert caught.value.key == "index"


def test_positions_are_of_eight_bytes():
    with pytest.raises(CorruptIndexError, match="positions that do not have 8 bytes") as caught:
        parse_index(index_of([(-1, 138)], lengths=b"\x07"), data_size=SIZE, key="index")
    assert caught.value.offset > 137


@pytest.mark.parametrize("kind", [RecordCompression.NONE, RecordCompression.RECORD])
def test_an_index_that_is_not_in_blocks_is_refused(kind):
    with pytest.raises(UnsupportedFormatError, match=f"compression {kind.name}, expected BLOCK"):
        parse_index(header(MapFileWriter(kind), LONG), data_size=SIZE)


def test_an_index_cut_anywhere_or_with_more_at_its_end_is_reported():
    index = index_of([(-1, 138), (127, 900)])
    for size in {*range(len(index))} - {len(index_of())}:
        with pytest.raises(CorruptIndexError, match="truncated"):
            parse_index(index[:size], data_size=SIZE)
    with pytest.raises(CorruptIndexError, match="expected the start of a block") as caught:
        parse_index(index + b"more", data_size=SIZE, key="index")
    assert (caught.value.key, caught.value.offset) == ("index", len(index))


@for_each("bit", range(8))
def test_an_index_with_any_byte_flipped_is_reported_or_the_same(bit):
    index = index_of([(-1, 138), (127, 900)], [(300, 5000)])
    expected = parse_index(index, data_size=SIZE)
    same = 0
    for at in range(len(index)):
        damaged = bytearray(index)
        damaged[at] ^= 1 << bit
        try:
            parsed = parse_index(bytes(damaged), data_size=SIZE)
        except LedgerfsError:
            continue
        assert parsed.keys.tolist() == expected.keys.tolist()
        assert parsed.positions.tolist() == expected.positions.tolist()
        same += 1
    assert same < len(index) / 10


def test_catalogs_need_no_numba():
    names = ("names", "header", "first_record", "index")
    lines = [f"import ledgerfs.formats.mapfile.{name}" for name in names]
    program = "\n".join([*lines, "import sys", "print('numba' in sys.modules)"])
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )

"""Files of every compression that a writer as Hadoop's makes: whole, in windows, cut, and damaged."""

import random
import struct
import tracemalloc
import zlib
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptLedgerError, LedgerfsError, UnsupportedFormatError
from ledgerfs.formats.mapfile import compressed_values
from ledgerfs.formats.mapfile.blocks import block_keys, find_block, find_sync
from ledgerfs.formats.mapfile.first_record import read_metadata_value
from ledgerfs.formats.mapfile.header import Codec, RecordCompression, parse_header
from ledgerfs.formats.mapfile.index import parse_index
from ledgerfs.formats.mapfile.walk import read_records
from tests.support.each import for_each
from tests.support.mapfiles import SYNC, MapFileWriter, each_of, ledger_records, read_all, vint, window_of

NONE, RECORD, BLOCK = RecordCompression
KINDS = [NONE, RECORD, BLOCK]
METADATA = b"the metadata of the ledger"
MARKER = b"\xff" * 4 + SYNC
ENTRIES = [b"zero", b"", b"two " * 30, MARKER, b"x" + MARKER * 2, b"\xff" * 40, b"\0" * 400, b"last"]

quick = settings(deadline=None, max_examples=70)
compressions = st.sampled_from([(NONE, Codec.DEFAULT), *((kind, codec) for kind in KINDS[1:] for codec in Codec)])
values = st.one_of(st.binary(max_size=40), st.just(MARKER), st.just(b"\xff\xff\xff\xff"), st.just(b"\0" * 3000))
ledgers = st.lists(values, max_size=60).map(lambda entries: ledger_records(METADATA, entries))


@st.composite
def writers(draw):
    compression, codec = draw(compressions)
    return MapFileWriter(
        compression,
        codec,
        sync_interval=draw(st.sampled_from([0, 20, 100, 2000, 102_400])),
        block_bytes=draw(st.sampled_from([1, 12, 100, 4000, 1_000_000])),
        index_interval=draw(st.sampled_from([1, 2, 7, 128])),
        sync=draw(st.one_of(st.just(SYNC), st.binary(min_size=16, max_size=16))),
        metadata=draw(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=200)), max_size=2)),
        level=draw(st.sampled_from([0, 1, 6, 9])),
    )


def small(kind, **changes):
    """A file of several blocks or markers."""
    return MapFileWriter(kind, sync_interval=100, block_bytes=100, **changes)


def header_of(data):
    return parse_header(window_of(data, 0, len(data)))


def slow_records(data, size):
    """Return the records of a file that is not in blocks, after a header of ``size`` bytes, or None if it is damaged."""
    sync, is_compressed, at, found = data[size - 16 : size], header_of(data).codec is not None, size, []
    while at < len(data):
        (length,) = struct.unpack_from(">i", data.ljust(at + 4, b"\0"), at)
        if length == -1:
            if data[at + 4 : at + 20] != sync:
                return None
            at += 20
            continue
        stored = data[at + 16 : at + 8 + length]
        if length < 12 or len(stored) != length - 8 or data[at + 4 : at + 8] != b"\0\0\0\x08":
            return None
        try:
            value = zlib.decompress(stored) if is_compressed else stored
        except zlib.error:
            return None
        if len(value) < 4 or struct.unpack(">i", value[:4])[0] != len(value) - 4:
            return None
        found.append((struct.unpack_from(">q", data, at + 8)[0], value[4:]))
        at += 8 + length
    return found


def outcome(data):
    """Return what is read, or the error, which names the file and an offset in it."""
    try:
        return read_all(data)
    except LedgerfsError as error:
        reported = error
    assert reported.key == "data"
    assert reported.offset is not None
    assert 0 <= reported.offset <= len(data)
    return reported


def answer(data):
    """Return what is read, or None where that is refused."""
    found = outcome(data)
    return None if isinstance(found, LedgerfsError) else found


@pytest.fixture(autouse=True, scope="module")
def _compiled():
    """Import and compile what reads before memory is measured, whichever test is the first."""
    for kind in KINDS:
        for codec in Codec:
            read_all(MapFileWriter(kind, codec).data(ledger_records(METADATA, ENTRIES)))
            answer(MapFileWriter(kind, codec).data(ledger_records(METADATA, ENTRIES))[:-1])


@contextmanager
def memory_below(most):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@quick
@given(writers(), ledgers, st.sampled_from([None, 1, 30, 1000]))
def test_every_kind_of_file_round_trips(writer, records, window_bytes):
    data = writer.data(records)
    header = header_of(data)
    assert header.compression is writer.compression
    assert header.codec is (None if writer.compression is NONE else writer.codec)
    assert header.sync == writer.sync
    assert read_all(data, window_bytes=window_bytes) == records


@quick
@given(writers(), ledgers, st.integers(1, 300))
def test_metadata_is_read_from_the_first_bytes(writer, records, size):
    data = writer.data(records)
    while True:
        window = window_of(data, 0, min(size, len(data)))
        header = parse_header(window)
        found = min(size + 64, len(data)) if header is None else read_metadata_value(window, header)
        if isinstance(found, bytes):
            break
        assert size < found <= len(data)
        size = found
    assert found == METADATA


@quick
@given(writers(), ledgers)
def test_every_position_of_the_index_leads_to_its_key(writer, records):
    data, index = writer.files(records)
    parsed = parse_index(index, data_size=len(data))
    assert parsed.keys[0] == -1
    assert parsed.positions[0] == header_of(data).size
    for key, position in zip(parsed.keys.tolist(), parsed.positions.tolist(), strict=True):
        found = read_all(data, start=position)
        assert found == records[len(records) - len(found) :]
        assert (key, records[key + 1][1]) in found
        if writer.compression is not BLOCK:
            assert found[0][0] == key


@for_each("kind", [NONE, RECORD])
@for_each("count", [0, 1, 2, 8, 9, 100])
def test_no_more_records_are_read_than_asked_for(kind, count):
    records = ledger_records(METADATA, ENTRIES)
    data = small(kind).data(records)
    window = window_of(data, 0, len(data))
    header = parse_header(window)
    step = read_records(window, header.size, header, count=count)
    assert ([] if step.records is None else each_of(step.records)) == records[:count]
    assert read_all(data, start=step.position) == records[count:]


@pytest.mark.parametrize("kind", KINDS)
def test_markers_in_values_do_not_stop_a_walk_and_the_files_own_are_found(kind):
    records = ledger_records(METADATA, ENTRIES * 4)
    data = small(kind, level=0).data(records)
    assert data.count(MARKER) > 12
    assert read_all(data) == records
    header = header_of(data)
    assert find_sync(memoryview(data), SYNC, len(data)) is None
    assert find_sync(memoryview(data), b"another's marker", 0) is None
    first = find_sync(memoryview(data), SYNC, header.size)
    found = read_all(data, start=first)
    assert found == records[len(records) - len(found) :]
    assert found
    assert find_sync(memoryview(data), SYNC, first) == first
    assert find_sync(memoryview(data), SYNC, first + 1) > first


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_anywhere_gives_the_records_before_or_is_cut_short(kind):
    records = ledger_records(METADATA, ENTRIES)
    data = small(kind).data(records)
    size = header_of(data).size
    whole = 0
    for cut in range(len(data)):
        found = outcome(data[:cut])
        if isinstance(found, LedgerfsError):
            assert isinstance(found, CorruptLedgerError)
            assert "truncated" in str(found)
        else:
            assert found == records[: len(found)]
            assert cut >= size
            whole += 1
    assert 2 < whole < len(data) / 10


@pytest.mark.long
@for_each("bit", [0, 3, 7])
@for_each("kind", KINDS)
def test_a_file_with_any_byte_flipped_gives_the_same_values_or_our_error(kind, bit):
    records = ledger_records(METADATA, ENTRIES)
    data = small(kind, metadata=[("a", "b")]).data(records)
    header = header_of(data)
    refused = 0
    with memory_below(1 << 30):
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            found = answer(bytes(damaged))
            assert tracemalloc.get_traced_memory()[1] - before < 1 << 20, at
            refused += found is None
            if at >= header.size and kind is not BLOCK:
                assert found == slow_records(bytes(damaged), header.size), at
            if found is not None and kind is not NONE:
                # A key of a record that is compressed by itself is not, and has no checksum either.
                assert [value for _, value in found] == [value for _, value in records], at
                assert kind is RECORD or found == records, at
    # What is not refused are keys and values where nothing is checked, the header's metadata, and bits of deflate that say nothing.
    assert refused > len(data) * {NONE: 0.2, RECORD: 0.6, BLOCK: 0.9}[kind]


@quick
@given(writers(), ledgers, st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=4)), max_size=3))
def test_damaged_files_are_read_like_the_slow_reference_reads_them(writer, records, patches):
    data = bytearray(writer.data(records))
    size = header_of(bytes(data)).size
    for where, patch in patches:
        at = size + int(where * (len(data) - size))
        data[at : at + len(patch)] = patch
    damaged, found = bytes(data), answer(bytes(data))
    if writer.compression is BLOCK:
        assert found is None or found == records[: len(found)]
    elif writer.codec is not Codec.GZIP:
        assert found == slow_records(damaged, size)


@for_each("kind", [NONE, RECORD])
@for_each(
    ("at", "number", "says"),
    [
        (0, 2**31 - 1, "truncated"),
        (0, 2**20, "truncated"),
        (0, 11, "length of 11"),
        (0, 0, "length of 0"),
        (0, -2, "length of -2"),
        (0, -(2**31), "length of -2147483648"),
        (0, -1, "marker"),
        (4, 7, "key of 7"),
        (4, -1, "key of -1"),
        (4, 2**31 - 1, "key of 2147483647"),
    ],
)
def test_lying_lengths_of_records_are_reported_with_their_offset(kind, at, number, says):
    records = ledger_records(METADATA, ENTRIES)
    data = bytearray(MapFileWriter(kind).data(records))
    second = len(MapFileWriter(kind).data(records[:1]))
    struct.pack_into(">i", data, second + at, number)
    window = window_of(bytes(data), 0, len(data))
    header = parse_header(window)
    step = read_records(window, header.size, header)
    assert each_of(step.records) == records[:1]
    with pytest.raises(CorruptLedgerError, match=says) as caught:
        read_records(window, step.position, header)
    assert caught.value.offset == second


@for_each(("length", "says"), [(3, "3 bytes"), (5, "5 bytes"), (-1, "-1 bytes"), (2**31 - 1, "2147483647")])
def test_lying_lengths_of_values_are_reported(length, says):
    data = bytearray(MapFileWriter(NONE).data([(-1, b"four")]))
    struct.pack_into(">i", data, len(data) - 8, length)
    with pytest.raises(CorruptLedgerError, match=says):
        read_all(bytes(data))
    value = struct.pack(">i", length) + b"four"
    data = MapFileWriter(RECORD).data([])
    stored = zlib.compress(value)
    with pytest.raises(CorruptLedgerError, match="the length field of"):
        read_all(data + struct.pack(">iiq", 8 + len(stored), 8, 0) + stored)
    with pytest.raises(CorruptLedgerError, match="the length field of"):
        read_all(block(1, lengths=vint(8), values=value))


def block(
    records,
    *,
    key_lengths=None,
    keys=None,
    lengths=None,
    values=None,
    stored=None,
    sizes=(None, None, None, None),
    end=b"",
):
    """A file of one block that lies as told."""
    parts = [
        b"\x08" * records if key_lengths is None else key_lengths,
        bytes(8 * records) if keys is None else keys,
        b"\x04" * records if lengths is None else lengths,
        bytes(4 * records) if values is None else values,
    ]
    streams = [zlib.compress(part) for part in parts]
    for number, stream in (stored or {}).items():
        streams[number] = stream
    claims = [len(stream) if size is None else size for stream, size in zip(streams, sizes, strict=True)]
    body = b"".join(vint(size) + stream for size, stream in zip(claims, streams, strict=True))
    return MapFileWriter().data([]) + MARKER + vint(records) + body + end


def test_the_block_that_does_not_lie_is_read():
    assert read_all(block(3)) == [(0, b"")] * 3


@for_each(
    ("data", "says"),
    [
        (block(0), "impossible number of records: 0"),
        (block(1, sizes=(None, None, None, 2**31 - 1)), "truncated"),
        (block(1, sizes=(2**31 - 1, None, None, None)), "truncated"),
        (block(1, sizes=(2**31, None, None, None)), "size of the key lengths of a block is impossible: 2147483648"),
        (block(1, sizes=(None, -1, None, None)), "size of the keys of a block is impossible: -1"),
        (block(1, sizes=(None, None, -(2**63), None)), "size of the value lengths of a block is impossible"),
        (block(2, key_lengths=b"\x08"), "1 bytes or more, expected 2"),
        (block(2, key_lengths=b"\x08" * 3), "3 bytes or more, expected 2"),
        (block(2, key_lengths=b"\x08\x07"), "keys that do not have 8 bytes"),
        (block(2, keys=bytes(15)), "15 bytes or more, expected 16"),
        (block(2, keys=bytes(17)), "17 bytes or more, expected 16"),
        (block(2, lengths=b"\x04"), "1 bytes or more, expected 2 to 10"),
        (block(2, lengths=b"\x04" * 3), "invalid lengths of values"),
        (block(2, lengths=b"\x04\x03"), "invalid lengths of values"),
        (block(2, lengths=b"\x04\xff"), "invalid lengths of values"),
        (block(2, lengths=b"\x04" + vint(300)[:-1]), "invalid lengths of values"),
        (block(2, lengths=b"\x04" + vint(-300)), "invalid lengths of values"),
        (block(2, lengths=b"\x04\x88" + bytes(8)), "a block has invalid lengths of values|or more, expected"),
        (block(2, lengths=b"\x04\x05"), "8 bytes or more, expected 9"),
        (block(2, values=bytes(9)), "9 bytes or more, expected 8"),
        (block(2, lengths=b"\x05\x04", values=bytes(9)), "value 0 of the block"),
        (block(2, lengths=b"\x04\x05", values=bytes(9)), "value 1 of the block"),
        (block(1, lengths=vint(2**31 - 1)), "cannot contain 2147483647"),
        (block(1, stored={3: b"no stream"}), "broken zlib data"),
        (block(1, stored={3: b""}), "cannot contain 4"),
        (block(1, stored={3: zlib.compress(bytes(4)) + b"more"}), "4 bytes follow after the end"),
        (block(1, stored={3: zlib.compress(bytes(4))[:-1]}), "or more, expected"),
        (block(1, end=b"more"), "expected the start of a block"),
        (block(1, end=MARKER[:10]), "truncated"),
        (block(1, end=MARKER), "truncated"),
        (block(1, end=MARKER[:4] + SYNC[::-1]), "marker of the block"),
        (block(1, end=MARKER + vint(2**31)), "number of records of a block is impossible: 2147483648"),
    ],
)
def test_lying_blocks_are_reported(data, says):
    with memory_below(1 << 20), pytest.raises(CorruptLedgerError, match=says) as caught:
        read_all(data)
    assert caught.value.key == "data"
    assert caught.value.offset >= header_of(data).size


def test_more_records_than_their_stream_can_bear_out_are_refused_at_once():
    lie = block(1).replace(MARKER + vint(1), MARKER + vint(2**31 - 1))
    with pytest.raises(CorruptLedgerError, match="impossible number of records: 2147483647"):
        read_all(lie)


@pytest.mark.parametrize("kind", KINDS)
def test_values_above_the_limit_are_refused_without_being_made(kind):
    data = MapFileWriter(kind).data([(-1, b"small"), (0, bytes(64 << 20))])
    with memory_below(8 << 20), pytest.raises(UnsupportedFormatError, match="limit of 1000000"):
        read_all(data, window_bytes=100 << 10, limit=1_000_000)


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_zeros_are_read_up_to_the_limit(kind):
    records = [(-1, b"small"), (0, bytes(8 << 20)), (1, b"small")]
    assert read_all(MapFileWriter(kind).data(records), window_bytes=10_000, limit=9 << 20) == records


def test_a_block_larger_than_the_limit_is_not_waited_for():
    noise = random.Random(1).randbytes(300_000)
    data = MapFileWriter(BLOCK).data([(-1, noise)])
    with pytest.raises(UnsupportedFormatError, match="limit of 1000"):
        read_all(data, window_bytes=1000, limit=1000)


@pytest.mark.parametrize("kind", KINDS)
def test_another_marker_than_the_headers_is_refused(kind):
    data = small(kind).data(ledger_records(METADATA, ENTRIES))
    header = header_of(data)
    at = data.index(SYNC, header.size)
    with pytest.raises(CorruptLedgerError, match="marker"):
        read_all(data[:at] + SYNC[::-1] + data[at + 16 :])


@pytest.mark.parametrize("kind", [NONE, RECORD])
def test_a_marker_at_the_end_is_no_record(kind):
    records = ledger_records(METADATA, ENTRIES)
    assert read_all(MapFileWriter(kind).data(records) + MARKER) == records


def test_keys_of_a_block_are_read_without_its_values():
    records = ledger_records(METADATA, ENTRIES)
    data = bytearray(MapFileWriter().data(records))
    window = window_of(bytes(data), 0, len(data))
    header = parse_header(window)
    found = find_block(window, header.size, header.sync)
    assert (found.start, found.end, found.records) == (header.size, len(data), len(records))
    data[found.values.start :] = bytes(found.values.end - found.values.start)
    keys = block_keys(window_of(bytes(data), 0, len(data)), found, header.codec)
    assert keys.tolist() == [key for key, _ in records]
    assert keys.dtype == np.int64
    with pytest.raises(CorruptLedgerError, match="broken zlib data"):
        read_all(bytes(data))


@for_each("kind", KINDS)
@for_each("key", [0, -2, 1, 2**63 - 1, -(2**63)])
def test_first_record_has_to_be_the_metadata(kind, key):
    data = MapFileWriter(kind, sync_interval=0).data([(key, b"no metadata")])
    window = window_of(data, 0, len(data))
    assert read_all(data) == [(key, b"no metadata")]
    with pytest.raises(CorruptLedgerError, match=f"key {key}, expected the metadata's key -1"):
        read_metadata_value(window, parse_header(window))


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_first_records_are_reported_or_give_other_metadata(kind):
    """Checksums are at the ends of streams, which are not looked at; but every number that counts is."""
    records = ledger_records(METADATA, ENTRIES)
    data = small(kind).data(records)
    size = header_of(data).size
    for at in range(size, size + 150):
        for bit in (0, 4, 7):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            window = window_of(bytes(damaged), 0, len(damaged))
            with suppress(CorruptLedgerError):
                found = read_metadata_value(window, parse_header(window))
                assert isinstance(found, bytes)
                assert len(found) <= len(data) * 1032


@quick
@given(st.lists(values, min_size=1, max_size=30), st.sampled_from(Codec), st.integers(0, 5000), st.integers(0, 200))
def test_values_are_inflated_alike_without_the_c_functions(entries, codec, room, damaged):
    writer = MapFileWriter(RECORD, codec)
    streams = [writer.compress(struct.pack(">i", len(entry)) + entry) for entry in entries]
    buffer = bytearray(b"".join(streams))
    if damaged < len(buffer):
        buffer[damaged] ^= 255
    ends = np.cumsum([len(stream) for stream in streams])
    sizes = np.array([len(stream) for stream in streams])
    given_ = (memoryview(buffer), ends - sizes, sizes, codec, room)
    assert compressed_values._zlib() is not None
    quick_, slow = compressed_values.inflate_values(*given_), compressed_values._inflate_in_python(*given_)
    assert bytes(quick_.buffer) == bytes(slow.buffer)
    assert quick_.starts.tolist() == slow.starts.tolist()
    assert quick_.sizes.tolist() == slow.sizes.tolist()
    full = compressed_values.InflateStop.FULL
    # A stream may be found to be broken, or to go on, where there is no more room.
    assert quick_.stop == slow.stop or full in {quick_.stop, slow.stop}

import hashlib
import struct

import google_crc32c
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.pulsar_blob.block import BlockHeader, build_block_header
from ledgerfs.formats.records import EntryBatch, scan_records
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from tests.support.each import for_each
from tests.support.ledgers import record

MESSAGE = struct.pack(">I", 5) + b"\x0a\x03abc" + b"payload"
BROKER_METADATA = bytes.fromhex("08FBD8B7F5AE30 1007")
# Pulsar's own test ledger: producer standalone-9-0, sequence 0, published 1632298359277, a batch of one.
PUBLISHED_MESSAGE = (
    struct.pack(">I", 33)
    + b"\x0a\x0estandalone-9-0"
    + bytes.fromhex("1000 18EDB3C1E4C02F 5801 820100 C00100")
    + struct.pack(">I", 4)
    + bytes.fromhex("180E 4000")
    + b"hello-reader-1"
)
PUBLISHED_ENTRY = bytes.fromhex("0E01 2F8EFFBC") + PUBLISHED_MESSAGE


def with_checksum(message, flip=0):
    return b"\x0e\x01" + struct.pack(">I", google_crc32c.value(message) ^ flip) + message


def with_broker_metadata(rest, metadata=BROKER_METADATA):
    return b"\x0e\x02" + struct.pack(">i", len(metadata)) + metadata + rest


def check(*entries):
    data = b"".join(record(i, entry) for i, entry in enumerate(entries))
    return check_entries(scan_records(memoryview(data), 0, 0, len(entries)).batch)


def state_of(entry):
    [state] = check(entry).states
    return EntryState(state)


def slow_check(entry):
    """Return state, stored and computed checksum, from slices that cannot leave ``entry``."""
    if entry[:2] == b"\x0e\x02":
        size = struct.unpack(">i", entry[2:6])[0] if len(entry) >= 6 else -1
        if not 0 <= size <= len(entry) - 6:
            return EntryState.BROKEN_FRAME, None, None
        entry = entry[6 + size :]
    if entry[:2] != b"\x0e\x01":
        return EntryState.NO_CHECKSUM, None, None
    if len(entry) < 6:
        return EntryState.BROKEN_FRAME, None, None
    stored, computed = int.from_bytes(entry[2:6], "big"), google_crc32c.value(entry[6:])
    return EntryState.VALID if stored == computed else EntryState.MISMATCH, stored, computed


def assert_like_slow_check(result, entries):
    assert len(result.states) == len(entries)
    for i, entry in enumerate(entries):
        state, stored, computed = slow_check(entry)
        assert EntryState(result.states[i]) == state
        if stored is not None:
            assert (int(result.stored[i]), int(result.computed[i])) == (stored, computed)


def test_published_ledger_is_rebuilt_byte_for_byte():
    ledger = build_block_header(BlockHeader(128, 205, 0)) + record(0, PUBLISHED_ENTRY)
    assert len(ledger) == 205
    assert hashlib.sha256(ledger).hexdigest() == "9321e877765ded1cf9cecf7d00979dcb30bb216edc2f850ac983ea4cf4b35c6a"


def test_published_entry_is_valid():
    assert len(PUBLISHED_ENTRY) == 65
    result = check(PUBLISHED_ENTRY)
    assert result.states.tolist() == [EntryState.VALID]
    assert result.stored.tolist() == result.computed.tolist() == [0x2F8EFFBC]


@for_each(
    ("entry", "state"),
    [
        (with_checksum(MESSAGE), EntryState.VALID),
        (with_broker_metadata(with_checksum(MESSAGE)), EntryState.VALID),
        (with_broker_metadata(with_checksum(MESSAGE), b""), EntryState.VALID),
        (with_checksum(b""), EntryState.VALID),
        (with_checksum(b"\x0e\x01" + MESSAGE), EntryState.VALID),
        (MESSAGE, EntryState.NO_CHECKSUM),
        (with_broker_metadata(MESSAGE), EntryState.NO_CHECKSUM),
        (with_broker_metadata(b""), EntryState.NO_CHECKSUM),
        (with_broker_metadata(with_broker_metadata(with_checksum(MESSAGE))), EntryState.NO_CHECKSUM),
        (b"", EntryState.NO_CHECKSUM),
        (b"\x0e", EntryState.NO_CHECKSUM),
        (b"\x0e\x03" + MESSAGE, EntryState.NO_CHECKSUM),
        (b"\x01\x0e" + MESSAGE, EntryState.NO_CHECKSUM),
        (with_checksum(MESSAGE, flip=1), EntryState.MISMATCH),
        (with_checksum(MESSAGE, flip=1 << 31), EntryState.MISMATCH),
        (with_broker_metadata(with_checksum(MESSAGE, flip=1)), EntryState.MISMATCH),
        (with_checksum(MESSAGE) + b"\0", EntryState.MISMATCH),
        (b"\x0e\x01", EntryState.BROKEN_FRAME),
        (b"\x0e\x01\0\0\0", EntryState.BROKEN_FRAME),
        (b"\x0e\x02", EntryState.BROKEN_FRAME),
        (b"\x0e\x02\0\0\0", EntryState.BROKEN_FRAME),
        (b"\x0e\x02\0\0\0\x01", EntryState.BROKEN_FRAME),
        (with_broker_metadata(b"\x0e\x01\0\0\0"), EntryState.BROKEN_FRAME),
    ],
)
def test_every_frame_has_its_state(entry, state):
    assert state_of(entry) == state
    assert slow_check(entry)[0] == state


def test_entry_cut_anywhere_is_judged_by_its_own_bytes():
    whole = with_broker_metadata(with_checksum(MESSAGE))
    sizes = range(len(whole) + 1)
    lengths = np.array(sizes, np.int64)
    result = check_entries(EntryBatch(0, memoryview(whole), np.zeros_like(lengths), lengths))
    assert_like_slow_check(result, [whole[:size] for size in sizes])
    assert result.states[-1] == EntryState.VALID
    assert set(result.states.tolist()) == set(EntryState)


def test_slice_of_a_batch_is_checked_alone():
    entries = [MESSAGE, with_checksum(MESSAGE), b"\x0e\x02"]
    data = b"".join(record(i, entry) for i, entry in enumerate(entries, 5))
    batch = scan_records(memoryview(data), 0, 5, 3).batch
    assert check_entries(batch.slice(6, 7)).states.tolist() == [EntryState.VALID, EntryState.BROKEN_FRAME]


def test_empty_batch_has_no_states():
    assert check().states.size == 0


@settings(deadline=None, max_examples=120)
@given(
    st.lists(
        st.lists(
            st.one_of(
                st.sampled_from(
                    [b"\x0e\x01", b"\x0e\x02", b"\0\0\0\0", b"\0\0\0\x01", b"\0\0\0\x06", b"\xff\xff\xff\xfa"]
                ),
                st.binary(max_size=9),
                st.binary(max_size=20).map(with_checksum),
            ),
            max_size=5,
        ).map(b"".join),
        max_size=6,
    )
)
def test_any_entries_are_checked_like_the_slow_reference(entries):
    assert_like_slow_check(check(*entries), entries)

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import EntryRangeError
from ledgerfs_cluster.errors import CorruptReplyError
from ledgerfs_cluster.formats.bookkeeper.replies import (
    MAX_REPLY_BYTES,
    Operation,
    ReplyCode,
    batch_entries,
    scan_replies,
)
from ledgerfs_cluster.formats.bookkeeper.requests import NEWEST, batch_request, read_requests
from tests.support.each import for_each

MAX_INT64 = 2**63 - 1
READ, BATCH = 2 << 24 | 2 << 16, 2 << 24 | 7 << 16

quick = settings(deadline=None, max_examples=80)
int64 = st.integers(-(2**63), MAX_INT64)
ids = st.integers(0, MAX_INT64)
bodies = st.lists(st.binary(max_size=60), max_size=4)


def single(code, ledger, entry, stored=b""):
    body = struct.pack(">Iiqq", READ, code, ledger, entry) + stored
    return struct.pack(">i", len(body)) + body


def batch(code, ledger, first, request_id, entries=()):
    body = struct.pack(">Iiqqq", BATCH, code, ledger, first, request_id)
    body += b"".join(struct.pack(">i", len(one)) + one for one in entries)
    return struct.pack(">i", len(body)) + body


@st.composite
def replies(draw):
    """Return (bytes of a reply, its columns, its body's entries)."""
    ledger, entry, request_id = draw(ids), draw(st.integers(-1, MAX_INT64)), draw(int64)
    code = draw(st.sampled_from([0, 0, 0, *map(int, ReplyCode), 9999, -7]))
    entries = draw(bodies)
    if draw(st.booleans()):
        return batch(code, ledger, entry, request_id, entries), (7, code, ledger, entry, request_id), entries
    return single(code, ledger, entry, b"".join(entries)), (2, code, ledger, entry, -1), [b"".join(entries)]


def scan(data, start=0, end=None):
    return scan_replies(memoryview(data), start, len(data) if end is None else end, key="bookie:3181")


def refused(data, **places):
    with pytest.raises(CorruptReplyError) as caught:
        scan(data, **places)
    assert caught.value.key == "bookie:3181"
    return caught.value


@pytest.mark.parametrize("entries", [[], [0], [5, 3, 2**63 - 1, NEWEST]])
def test_requests_of_single_entries_have_the_bytes_of_the_protocol(entries):
    expected = b"".join(struct.pack(">iIqq", 20, READ, 77, entry) for entry in entries)
    assert read_requests(77, np.array(entries, np.int64)) == expected


@quick
@given(ids, st.lists(st.integers(-1, MAX_INT64), max_size=20))
def test_no_request_has_a_flag_or_a_key(ledger, entries):
    sent = read_requests(ledger, np.array(entries, np.int64)) + batch_request(ledger, 0, -1, 2**31 - 1, MAX_INT64)
    at = 0
    while at < len(sent):
        size, header = struct.unpack_from(">iI", sent, at)
        assert (header, size) in {(READ, 20), (BATCH, 40)}
        at += 4 + size
    assert at == len(sent)


def test_a_request_of_a_batch_has_the_bytes_of_the_protocol():
    expected = struct.pack(">iIqqqiq", 40, BATCH, 77, 5, 123, 100, 1 << 20)
    assert batch_request(77, 5, 123, 100, 1 << 20) == expected
    assert len(expected) == 44


def test_ids_that_no_entry_has_are_not_asked_for():
    with pytest.raises(EntryRangeError, match="ledger 7: -2 is not a valid entry id"):
        read_requests(7, np.array([4, -2, 8]))


@for_each(("first", "entries", "size"), [(-1, 1, 1), (0, 0, 1), (0, 1, 0), (0, 2**31, 1), (0, 1, 2**63)])
def test_batches_of_nothing_are_not_asked_for(first, entries, size):
    with pytest.raises(EntryRangeError, match="ledger 7"):
        batch_request(7, first, 0, entries, size)


@quick
@given(st.lists(replies(), max_size=6), st.binary(max_size=9), st.binary(max_size=9))
def test_any_replies_are_found(made, before, after):
    sent = b"".join(one for one, _, _ in made)
    data = before + sent + after
    found = scan(data, len(before), len(before) + len(sent))
    columns = (found.operations, found.codes, found.ledgers, found.entries, found.request_ids)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [row for _, row, _ in made]
    assert (len(found), found.position, found.missing) == (len(made), len(before) + len(sent), 4)
    for row, (_, reported, entries) in enumerate(made):
        start, size = int(found.starts[row]), int(found.sizes[row])
        if reported[1] != ReplyCode.OK:
            assert size == 0
        elif reported[0] == Operation.READ:
            assert [data[start : start + size]] == entries
        else:
            places = batch_entries(memoryview(data), start, size, key="bookie:3181")
            assert [data[at : at + n] for at, n in zip(*(p.tolist() for p in places), strict=True)] == entries


@quick
@given(st.lists(replies(), min_size=1, max_size=4), st.data())
def test_replies_that_are_cut_anywhere_are_found_with_the_rest(made, data):
    """What is missing is enough to get on, and never reaches into the reply after the next."""
    sent = b"".join(one for one, _, _ in made)
    end = data.draw(st.integers(0, len(sent)))
    ends = np.cumsum([len(one) for one, _, _ in made]).tolist()
    found = scan(sent, 0, end)
    whole = [one for one in ends if one <= end]
    assert (len(found), found.position) == (len(whole), whole[-1] if whole else 0)
    assert found.missing >= 1
    left = end - found.position
    if end < len(sent):
        next_end = ends[len(whole)]
        assert found.missing == (next_end - end if left >= 4 else 4 - left)
    again = scan(sent, found.position, len(sent))
    assert len(again) == len(made) - len(whole)


@for_each("size", [-1, 0, 23, MAX_REPLY_BYTES + 1, 2**31 - 1, -(2**31)])
def test_sizes_that_no_reply_has_are_refused_at_once(size):
    error = refused(single(0, 1, 1, b"abc") + struct.pack(">i", size))
    assert (error.offset, error.reason) == (31, f"the reply has an impossible size of {size} bytes")


def test_the_largest_reply_is_waited_for():
    head = struct.pack(">iIiqq", MAX_REPLY_BYTES, READ, 0, 1, 1)
    assert scan(head).missing == MAX_REPLY_BYTES - 24


@for_each("header", [0, 1 << 24 | 2 << 16, 3 << 24 | 2 << 16, 2 << 24 | 1 << 16, 2 << 24 | 3 << 16, 0x48545450])
def test_headers_of_nothing_that_was_asked_for_are_refused_at_once(header):
    """Among them an answer to an add, a demand of authentication, and text of another server."""
    error = refused(single(0, 1, 1) + struct.pack(">iI", 24, header))
    assert error.offset == 28
    assert f"{header:#010x}" in error.reason


@for_each("size", range(24, 32))
def test_a_batch_without_its_request_is_refused(size):
    frame = struct.pack(">iIiqqq", size, BATCH, 0, 1, 1, 1)[: 4 + size]
    assert refused(frame).reason == f"a batch reply of {size} bytes is too short for its request id"


def test_a_batch_that_failed_may_lack_the_id_of_its_request():
    found = scan(struct.pack(">iIiqq", 24, BATCH, ReplyCode.NO_ENTRY, 1, 5) + single(0, 1, 2, b"x"))
    assert (found.request_ids.tolist(), found.codes.tolist(), found.sizes.tolist()) == ([-1, -1], [2, 0], [0, 1])


@for_each("sizes", [(1 << 30,), (-1,), (2, -1), (2, 3), (2**31 - 1, 2), (-(2**31),)])
def test_entries_that_reach_out_of_their_batch_are_refused(sizes):
    listed = b"".join(struct.pack(">i", size) + b"ab" for size in sizes)
    with pytest.raises(CorruptReplyError, match=r"bookie:3181 at byte \d+: .* extends beyond the end of the reply"):
        batch_entries(memoryview(listed + bytes(100)), 0, len(listed), key="bookie:3181")


@pytest.mark.parametrize("rest", [1, 2, 3])
def test_a_batch_that_ends_inside_a_size_is_refused(rest):
    listed = struct.pack(">i", 2) + b"ab" + bytes(rest)
    with pytest.raises(CorruptReplyError) as caught:
        batch_entries(memoryview(listed + bytes(9)), 0, len(listed), key="bookie:3181")
    assert caught.value.offset == 6


@for_each(("start", "end"), [(-1, 5), (3, 2), (0, 11), (11, 11), (-2, -1)])
def test_places_out_of_the_buffer_are_refused(start, end):
    with pytest.raises(IndexError):
        scan(bytes(10), start, end)
    with pytest.raises(IndexError):
        batch_entries(memoryview(bytes(10)), start, end - start, key="bookie:3181")


@quick
@given(st.binary(max_size=200), st.sampled_from([b"", struct.pack(">iI", 24, READ), struct.pack(">iI", 50, BATCH)]))
def test_any_bytes_are_replies_or_refused(data, head):
    data = head + data
    refusal = None
    try:
        found = scan(data)
    except CorruptReplyError as error:
        refusal = error
    if refusal is None:
        assert 0 <= found.position <= len(data)
        assert found.missing >= 1
        assert ((found.starts >= 28) & (found.starts + found.sizes <= found.position)).all()
    else:
        assert 0 <= refusal.offset <= len(data)


@quick
@given(st.binary(max_size=100), st.integers(0, 9))
def test_any_list_of_a_batch_is_filled_or_refused(data, start):
    start = min(start, len(data))
    refusal = None
    try:
        starts, sizes = batch_entries(memoryview(data), start, len(data) - start, key="bookie:3181")
    except CorruptReplyError as error:
        refusal = error
    if refusal is None:
        assert int(sizes.sum()) + 4 * sizes.size == len(data) - start
        assert (starts >= start + 4).all()
    else:
        assert start <= refusal.offset <= len(data)

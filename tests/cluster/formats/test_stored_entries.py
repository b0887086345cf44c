import hashlib
import hmac
import struct
import zlib
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerState, ledger_path, parse_ledger_node
from ledgerfs_cluster.formats.bookkeeper.replies import batch_entries
from ledgerfs_cluster.formats.bookkeeper.stored_entries import Digest, Fault, build_stored_entry, check_entries
from tests.support.each import for_each

PASSWORDS = [b"", b"secret"]
DIGESTS = [Digest(kind, password) for kind in DigestType for password in PASSWORDS]
IDS = [f"{one.kind.name}-{'password' if one.password else 'none'}" for one in DIGESTS]
CHECKED = [(one, name) for one, name in zip(DIGESTS, IDS, strict=True) if one.kind != DigestType.DUMMY]
MAX_INT64 = 2**63 - 1

quick = settings(deadline=None, max_examples=50)
int64 = st.integers(-(2**63), MAX_INT64)
ids = st.integers(0, MAX_INT64)


def check(stored, ledger_id, expected, digest, *, before=b"", between=b""):
    """Check stored entries that lie in one buffer with other bytes around them."""
    buffer, starts = bytearray(before), []
    for one in stored:
        starts.append(len(buffer))
        buffer += one + between
    sizes = [len(one) for one in stored]
    checked = check_entries(
        memoryview(buffer),
        *(np.array(a, np.int64) for a in (starts, sizes)),
        ledger_id,
        np.array(expected, np.int64),
        digest,
    )
    return checked, [
        bytes(buffer[at : at + size]) for at, size in zip(checked.starts.tolist(), checked.sizes.tolist(), strict=True)
    ]


def digest_by_hand(stored, digest):
    """The digest of an entry, by other libraries than ours."""
    head, payload = stored[:32], stored[32 + digest.bytes :]
    return {
        DigestType.CRC32C: lambda: struct.pack(">I", google_crc32c.extend(google_crc32c.value(head), payload)),
        DigestType.CRC32: lambda: struct.pack(">Q", zlib.crc32(head + payload)),
        DigestType.HMAC: lambda: hmac.digest(hashlib.sha1(b"mac" + digest.password).digest(), head + payload, "sha1"),
        DigestType.DUMMY: lambda: b"",
    }[digest.kind]()


@quick
@given(
    ledger_id=ids,
    rows=st.lists(st.tuples(ids, int64, int64, st.binary(max_size=100), st.integers(1, 12)), max_size=8),
    before=st.binary(max_size=9),
    between=st.binary(max_size=9),
)
@for_each("digest", DIGESTS)
def test_any_entries_round_trip(digest, ledger_id, rows, before, between):
    payloads = [payload * repeats for *_, payload, repeats in rows]
    stored = [
        build_stored_entry(ledger_id, entry, confirmed, so_far, payload, digest)
        for (entry, confirmed, so_far, *_), payload in zip(rows, payloads, strict=True)
    ]
    checked, found = check(stored, ledger_id, [row[0] for row in rows], digest, before=before, between=between)
    assert found == payloads
    assert checked.are_sound
    assert checked.ids.tolist() == [row[0] for row in rows]
    assert checked.last_confirmed.tolist() == [row[1] for row in rows]
    assert checked.lengths_so_far.tolist() == [row[2] for row in rows]


@for_each("digest", DIGESTS)
@for_each("payload", [b"", b"x", bytes(range(256)) * 5])
def test_the_digest_is_that_of_other_libraries(digest, payload):
    stored = build_stored_entry(7, 3, 2, 900, payload, digest)
    assert stored[:32] == struct.pack(">qqqq", 7, 3, 2, 900)
    assert stored[32 : 32 + digest.bytes] == digest_by_hand(stored, digest)
    assert stored[32 + digest.bytes :] == payload


@for_each("digest", [one for one, _ in CHECKED])
@quick
@given(data=st.data())
def test_every_flipped_bit_is_found(digest, data):
    stored = [build_stored_entry(7, entry, entry - 1, 10 * entry, b"payload %d" % entry, digest) for entry in range(3)]
    row = data.draw(st.integers(0, 2))
    bit = data.draw(st.integers(0, 8 * len(stored[row]) - 1))
    broken = bytearray(stored[row])
    broken[bit // 8] ^= 1 << bit % 8
    stored[row] = bytes(broken)
    checked, _ = check(stored, 7, range(3), digest)
    fault = Fault.OTHER_ENTRY if bit < 128 else Fault.DIGEST
    assert checked.wrong.tolist() == [fault if i == row else Fault.NONE for i in range(3)]
    assert not checked.are_sound


def test_without_a_digest_only_the_ids_are_checked():
    digest = Digest(DigestType.DUMMY)
    stored = build_stored_entry(7, 0, -1, 1, b"a", digest)[:-1] + b"b"
    checked, found = check([stored], 7, [0], digest)
    assert (found, checked.are_sound) == ([b"b"], True)


def test_another_password_is_another_digest():
    stored = build_stored_entry(7, 0, -1, 1, b"a", Digest(DigestType.HMAC, b"one"))
    assert check([stored], 7, [0], Digest(DigestType.HMAC, b"other"))[0].wrong.tolist() == [Fault.DIGEST]


@for_each("digest", DIGESTS)
def test_entries_of_another_ledger_and_other_entries_are_reported(digest):
    stored = [
        build_stored_entry(ledger, entry, -1, 1, b"a", digest) for ledger, entry in [(7, 0), (8, 1), (7, 3), (7, -5)]
    ]
    checked, _ = check(stored, 7, [0, 1, 2, -5], digest)
    assert checked.wrong.tolist()[:3] == [Fault.NONE, Fault.OTHER_ENTRY, Fault.OTHER_ENTRY]
    assert checked.ids.tolist() == [0, 1, 3, -5]


@for_each("digest", DIGESTS)
def test_the_newest_entry_may_have_any_id_that_is_one(digest):
    stored = [build_stored_entry(7, entry, -1, 1, b"a", digest) for entry in (0, 41, -1, -2)]
    checked, _ = check([*stored, build_stored_entry(8, 4, -1, 1, b"a", digest)], 7, [-1] * 5, digest)
    assert checked.ids.tolist() == [0, 41, -1, -2, 4]
    wrong = Fault.OTHER_ENTRY
    # An id of -1 equals what was asked for, so it takes more than a comparison to see that no entry has it.
    assert checked.wrong.tolist() == [0, 0, wrong, wrong, wrong]


@for_each("digest", DIGESTS)
def test_entries_without_room_for_a_digest_are_too_short(digest):
    whole = build_stored_entry(7, 0, -1, 0, b"", digest)
    stored = [whole[:size] for size in range(len(whole) + 1)]
    checked, found = check(stored, 7, [0] * len(stored), digest, between=b"more")
    assert checked.wrong.tolist() == [Fault.TOO_SHORT] * len(whole) + [Fault.NONE]
    assert found == [b""] * len(stored)


@quick
@given(
    data=st.binary(max_size=120),
    places=st.lists(st.tuples(int64 | st.integers(0, 99), int64 | st.integers(0, 99)), max_size=6),
)
@for_each("digest", DIGESTS)
def test_any_bytes_at_any_places_are_reported_apart(digest, data, places):
    starts, sizes = (np.array([place[k] for place in places], np.int64) for k in (0, 1))
    checked = check_entries(memoryview(data), starts, sizes, 7, np.zeros(len(places), np.int64), digest)
    for row, (start, size) in enumerate(places):
        is_inside = start >= 0 and 32 + digest.bytes <= size and start + size <= len(data)
        assert (checked.wrong[row] == Fault.TOO_SHORT) == (not is_inside)
        if is_inside:
            assert (checked.starts[row], checked.sizes[row]) == (start + 32 + digest.bytes, size - 32 - digest.bytes)


def test_a_password_is_not_shown():
    assert "secret" not in repr(Digest(DigestType.HMAC, b"secret"))


@pytest.mark.parametrize("ledger_id", [3, 26, 43, 44, 54])
def test_golden_entries_of_a_bookie_are_sound(golden_entries: Path, ledger_id):
    """What a real bookie stored, by what its ledger's node says: digests, order, lengths up to each entry."""
    path = ledger_path(ledger_id)
    node = parse_ledger_node((golden_entries / path[1:]).read_bytes(), ledger_id, key=path)
    stored = (golden_entries / f"entries-of-{ledger_id}").read_bytes()
    starts, sizes = batch_entries(memoryview(stored), 0, len(stored), key="bookie")
    checked = check_entries(memoryview(stored), starts, sizes, ledger_id, np.arange(starts.size), node.digest)
    assert checked.are_sound
    assert checked.lengths_so_far.tolist() == np.cumsum(checked.sizes).tolist()
    assert checked.last_confirmed[0] == -1
    assert (checked.last_confirmed < checked.ids).all()
    if node.state == LedgerState.CLOSED:
        assert (starts.size, checked.sizes.sum()) == (node.last_entry + 1, node.length)
    else:
        assert starts.size > 0
    changed = bytearray(stored)
    changed[-1] ^= 1
    again = check_entries(memoryview(changed), starts, sizes, ledger_id, np.arange(starts.size), node.digest)
    assert np.flatnonzero(again.wrong).tolist() == [starts.size - 1]

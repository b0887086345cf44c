"""The bookies that tests read from answer as BookKeeper's do, and forgive no write."""

import struct
from collections.abc import Iterator

import numpy as np
import pytest

from ledgerfs_cluster.formats.bookkeeper.requests import batch_request, read_requests
from tests.cluster.support.bookies import (
    BAD_REQUEST,
    BATCH,
    LARGEST_BATCH,
    NEWEST,
    NO_ENTRY,
    NO_LEDGER,
    OK,
    READ,
    BookieServer,
)

LEDGER = 7
Reply = tuple[int, int, int, bytes]
"""Operation, code, id of the entry, and what comes behind it."""


def stored(entry_id: int, size: int = 10) -> bytes:
    return struct.pack(">qqqq", LEDGER, entry_id, entry_id - 1, (entry_id + 1) * size) + b"%d:" % entry_id + b"x" * size


def single(entry_id: int, ledger_id: int = LEDGER, flags: int = 0) -> bytes:
    return struct.pack(">Iqq", 2 << 24 | READ << 16 | flags, ledger_id, entry_id)


@pytest.fixture
def bookie() -> Iterator[BookieServer]:
    with BookieServer() as made:
        for entry_id in range(10):
            made.add(LEDGER, entry_id, stored(entry_id))
        yield made


def asked(bookie: BookieServer, packet: bytes) -> Reply:
    reply = bookie.reply_to(packet)
    size, header, code, _, entry_id = struct.unpack_from(">iIIqq", reply)
    assert (size, header >> 24) == (len(reply) - 4, 2)
    return header >> 16 & 0xFF, code, entry_id, reply[28:]


def listed(
    bookie: BookieServer, first: int, most: int, most_bytes: int, ledger_id: int = LEDGER
) -> tuple[int, list[int]]:
    """Return the code of the reply to a batch, and the ids of its entries."""
    packet = struct.pack(">Iqqqiq", 2 << 24 | BATCH << 16, ledger_id, first, 99, most, most_bytes)
    operation, code, entry_id, rest = asked(bookie, packet)
    assert (operation, entry_id, struct.unpack_from(">q", rest)) == (BATCH, first, (99,))
    found, position = [], 8
    while position < len(rest):
        size = int.from_bytes(rest[position : position + 4])
        found.append(int.from_bytes(rest[position + 12 : position + 20]))
        position += 4 + size
    return code, found


def test_single_entries_and_the_newest_one(bookie: BookieServer) -> None:
    assert single(4) == read_requests(LEDGER, np.array([4]))[4:]
    assert asked(bookie, single(4)) == (READ, OK, 4, stored(4))
    assert asked(bookie, single(10))[1] == NO_ENTRY
    assert [asked(bookie, single(one, LEDGER + 1))[1] for one in (0, NEWEST)] == [NO_LEDGER] * 2
    # It comes under the id that was asked for.
    assert asked(bookie, single(NEWEST)) == (READ, OK, NEWEST, stored(9))
    bookie.remove_entry(LEDGER, 9)
    assert asked(bookie, single(NEWEST)) == (READ, OK, NEWEST, stored(8))


def test_a_batch_ends_with_its_count_its_bytes_or_the_first_entry_that_lacks(bookie: BookieServer) -> None:
    assert bookie.reply_to(batch_request(LEDGER, 1, 99, 3, 1 << 20)[4:])
    bookie.remove_entry(LEDGER, 6)
    frame = len(stored(0)) + 4
    assert listed(bookie, 1, 3, 1 << 20) == (OK, [1, 2, 3])
    assert listed(bookie, 1, 100, 1 << 20) == (OK, [1, 2, 3, 4, 5])
    assert listed(bookie, 0, 100, 36 + 2 * frame) == (OK, [0, 1])
    assert [listed(bookie, 0, 100, most) for most in (36 + 2 * frame - 1, 1)] == [(OK, [0])] * 2
    assert listed(bookie, 4, 0, 1 << 20) == (OK, [4, 5])
    assert listed(bookie, 10, 5, 1 << 20) == (NO_ENTRY, [])
    assert listed(bookie, 0, 5, 1 << 20, LEDGER + 1) == (NO_LEDGER, [])
    for entry_id in range(4):
        bookie.add(LEDGER, entry_id, stored(entry_id, LARGEST_BATCH * 2 // 5))
    assert listed(bookie, 0, 100, 1 << 40) == (OK, [0, 1])


NO_PLAIN_READS = {
    single(0, flags=1) + b"k" * 20: "read with the flag of fencing",
    single(0, flags=1): "read with the flag of fencing",
    single(0, flags=4): "read with flags 4",
    struct.pack(">I", 2 << 24 | 1 << 16) + b"k" * 20 + stored(10)[:36]: "add",
    struct.pack(">Iqq", 2 << 24 | 3 << 16, 0, 0): "auth",
    struct.pack(">Iqq", 2 << 24 | 5 << 16, 0, 0): "write LAC",
    struct.pack(">I", 0x0A060803): "packet of V3",
}


def test_what_is_no_plain_read_is_noted_and_changes_nothing(bookie: BookieServer) -> None:
    for packet, kind in NO_PLAIN_READS.items():
        bookie.not_reads.clear()
        bookie.requests.clear()
        if "V3" in kind:
            with pytest.raises(ConnectionError):
                bookie.reply_to(packet)
        else:
            assert asked(bookie, packet)[1] == BAD_REQUEST, kind
        assert [one.partition(":")[0] for one in bookie.not_reads] == [kind]
        assert bookie.requests[kind] == 1
        assert len(bookie.entries(LEDGER)) == 10

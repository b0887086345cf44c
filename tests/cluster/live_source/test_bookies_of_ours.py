"""The bookies that tests read from answer as BookKeeper's do, and forgive no write."""

import struct
from collections.abc import Iterator

import pytest

from tests.cluster.support.bookies import (
    BAD_REQUEST,
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

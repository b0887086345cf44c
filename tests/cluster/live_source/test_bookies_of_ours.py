"""The bookies that tests read from answer as BookKeeper's do, fail as they are told, and forgive no write."""

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple, Self

import pytest

from tests.cluster.support.bookies import BATCH, NEWEST, READ, BookieServer

LEDGER = 7
OK, NO_LEDGER, NO_ENTRY, BAD_REQUEST, UNAUTHORISED, TOO_MANY = 0, 1, 2, 100, 102, 106


class Reply(NamedTuple):
    operation: int
    code: int
    ledger_id: int
    entry_id: int
    rest: bytes


def stored(entry_id: int, size: int = 10) -> bytes:
    return struct.pack(">qqqq", LEDGER, entry_id, entry_id - 1, (entry_id + 1) * size) + b"%d:" % entry_id + b"x" * size


def single(entry_id: int, ledger_id: int = LEDGER, flags: int = 0) -> bytes:
    return struct.pack(">iIqq", 20, 2 << 24 | READ << 16 | flags, ledger_id, entry_id)


def batch(first: int, most_entries: int, most_bytes: int, ledger_id: int = LEDGER) -> bytes:
    header = 2 << 24 | BATCH << 16
    return struct.pack(">iIqqqiq", 40, header, ledger_id, first, 99, most_entries, most_bytes)


class Client:
    """A connection to a bookie."""

    def __init__(self, address: str, timeout_s: float = 300) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()

    def reply(self) -> Reply:
        size = self._file.read(4)
        if len(size) < 4:
            raise ConnectionError("closed")
        packet = self._file.read(int.from_bytes(size))
        header, code, ledger_id, entry_id = struct.unpack_from(">IIqq", packet)
        assert header >> 24 == 2
        return Reply(header >> 16 & 0xFF, code, ledger_id, entry_id, packet[24:])

    def ask(self, *requests: bytes) -> list[Reply]:
        self.socket.sendall(b"".join(requests))
        return [self.reply() for _ in requests]


def listed(reply: Reply) -> list[bytes]:
    """Return the entries of a batch."""
    assert struct.unpack_from(">q", reply.rest) == (99,)
    found, position = [], 8
    while position < len(reply.rest):
        size = int.from_bytes(reply.rest[position : position + 4])
        found.append(reply.rest[position + 4 : position + 4 + size])
        position += 4 + size
    return found


@pytest.fixture
def bookie() -> Iterator[BookieServer]:
    with BookieServer() as made:
        for entry_id in range(10):
            made.add(LEDGER, entry_id, stored(entry_id))
        yield made


@pytest.fixture
def client(bookie: BookieServer) -> Iterator[Client]:
    with Client(bookie.address) as made:
        yield made


def test_what_is_not_there_is_told_from_what_nobody_knows(client: Client) -> None:
    assert [one.code for one in client.ask(single(10), single(0, LEDGER + 1), single(NEWEST, LEDGER + 1))] == [
        NO_ENTRY,
        NO_LEDGER,
        NO_LEDGER,
    ]


def test_the_newest_entry_comes_under_the_id_that_was_asked_for(bookie: BookieServer, client: Client) -> None:
    assert client.ask(single(NEWEST)) == [Reply(READ, OK, LEDGER, NEWEST, stored(9))]
    bookie.add(LEDGER, 12, stored(12))
    assert client.ask(single(NEWEST)) == [Reply(READ, OK, LEDGER, NEWEST, stored(12))]
    bookie.remove_entry(LEDGER, 12)
    assert client.ask(single(NEWEST)) == [Reply(READ, OK, LEDGER, NEWEST, stored(9))]
    bookie.add_ledger(LEDGER + 1)
    assert client.ask(single(NEWEST, LEDGER + 1))[0].code == NO_ENTRY


def test_a_batch_ends_with_its_count_its_bytes_or_the_first_entry_that_lacks(
    bookie: BookieServer, client: Client
) -> None:
    bookie.remove_entry(LEDGER, 6)
    frame = len(stored(0)) + 4
    replies = client.ask(
        batch(1, 3, 1 << 20),
        batch(1, 100, 1 << 20),
        batch(0, 100, 36 + 2 * frame),
        batch(0, 100, 36 + 2 * frame - 1),
        batch(0, 100, 1),
        batch(4, 0, 1 << 20),
    )
    assert [one[:4] for one in replies] == [(BATCH, OK, LEDGER, first) for first in (1, 1, 0, 0, 0, 4)]
    assert [[int.from_bytes(entry[8:16]) for entry in listed(one)] for one in replies] == [
        [1, 2, 3],
        [1, 2, 3, 4, 5],
        [0, 1],
        [0],
        [0],
        [4, 5],
    ]
    assert listed(replies[0])[0] == stored(1)


def test_a_batch_that_finds_nothing_keeps_its_request_id(client: Client) -> None:
    replies = client.ask(batch(10, 5, 1 << 20), batch(0, 5, 1 << 20, LEDGER + 1))
    assert [(one.operation, one.code, listed(one)) for one in replies] == [
        (BATCH, NO_ENTRY, []),
        (BATCH, NO_LEDGER, []),
    ]


def test_no_batch_is_larger_than_a_bookie_makes_them(bookie: BookieServer, client: Client) -> None:
    for entry_id in range(4):
        bookie.add(LEDGER, entry_id, stored(entry_id, 2 << 20))
    assert len(listed(client.ask(batch(0, 100, 1 << 40))[0])) == 2


NO_PLAIN_READS = {
    struct.pack(">i", 40) + single(0, flags=1)[4:] + b"k" * 20: "read with the flag of fencing",
    single(0, flags=1): "read with the flag of fencing",
    single(0, flags=4): "read with flags 4",
    struct.pack(">iI", 60, 2 << 24 | 1 << 16) + b"k" * 20 + stored(10)[:36]: "add",
    struct.pack(">iIqq", 20, 2 << 24 | 3 << 16, 0, 0): "auth",
    struct.pack(">iIqq", 20, 2 << 24 | 5 << 16, 0, 0): "write LAC",
    struct.pack(">iI", 4, 0x0A060803): "packet of V3",
}


def test_what_is_no_plain_read_is_noted_and_changes_nothing(bookie: BookieServer) -> None:
    for packet, kind in NO_PLAIN_READS.items():
        bookie.not_reads.clear()
        bookie.requests.clear()
        with Client(bookie.address) as client:
            client.socket.sendall(packet)
            if "V3" in kind:
                with pytest.raises(ConnectionError):
                    client.reply()
            else:
                assert client.reply().code == BAD_REQUEST, kind
        assert [one.partition(":")[0] for one in bookie.not_reads] == [kind]
        assert bookie.requests[kind] == 1
        assert len(bookie.entries(LEDGER)) == 10

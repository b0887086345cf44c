"""Frames of brokers: whatever the bytes are, what is found is what protobuf finds, or an error, and nothing else is read."""

import struct
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import CorruptReplyError
from ledgerfs.formats.broker_protocol import commands
from ledgerfs.formats.broker_protocol.commands import EARLIEST, Command, framed, parse_command, position_of
from ledgerfs.formats.broker_protocol.frames import FrameScan, FrameStop, command_at, scan_frames
from ledgerfs.formats.broker_protocol.proto.commands_pb2 import CommandRecord
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.messages.proto.message_metadata_pb2 import BrokerMetadataRecord
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.reader_broker import message_frame

KEY = "pulsar://here:6650"
LARGEST = 1 << 20
Result = TypeVar("Result")
IDS = st.integers(-1, 2**63 - 1)
ENTRIES = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda messages, payload, checksum, front: frame(
            metadata(messages_in_batch=messages),
            payload,
            checksum=checksum,
            broker=BrokerMetadataRecord(last_index=7) if front else None,
        ),
        st.integers(1, 2**31 - 1),
        st.binary(max_size=60),
        st.booleans(),
        st.booleans(),
    ),
)
MESSAGES = st.tuples(st.integers(0, 2**63 - 1), IDS, IDS, ENTRIES)


def scan(data: bytes, start: int = 0, end: int | None = None) -> FrameScan:
    return scan_frames(memoryview(data), start, len(data) if end is None else end, largest=LARGEST, key=KEY)


def rows_of(found: FrameScan) -> list[tuple[int, int, int, bytes]]:
    sent = found.found
    ids = zip(sent.consumers.tolist(), sent.ledgers.tolist(), sent.entries.tolist(), strict=True)
    return [(*one, sent.bytes_of(row)) for row, one in enumerate(ids)]


def outcome(act: Callable[[], Result]) -> Result | CorruptReplyError:
    """Return what comes of it, or the error, which names the broker."""
    try:
        return act()
    except CorruptReplyError as error:
        return named(error)


def named(error: CorruptReplyError) -> CorruptReplyError:
    assert error.key == KEY
    return error


@given(st.lists(MESSAGES, max_size=6), st.integers(0, 400), st.binary(max_size=9))
def test_entries_are_found_up_to_the_first_frame_that_is_not_all_there(
    messages: list[tuple[int, int, int, bytes]], cut: int, before: bytes
) -> None:
    frames = [message_frame(*one) for one in messages]
    data = before + b"".join(frames)
    end = max(len(before), len(data) - cut)
    found = scan(data, len(before), end)
    assert rows_of(found) == messages[: len(found.found)]
    assert found.position == len(before) + sum(map(len, frames[: len(found.found)]))
    assert found.stop is FrameStop.MORE_BYTES
    assert found.size > 0
    # As many as are whole, and never told to wait for more than the next one has.
    rest = frames[len(found.found) :]
    assert not rest or end - found.position < len(rest[0])
    assert not rest or found.size <= len(rest[0]) - (end - found.position)


@given(st.integers(1, 2**31 - 1), st.booleans(), st.booleans())
def test_permits_are_counted_as_brokers_do(messages: int, front: bool, checksum: bool) -> None:
    broker = BrokerMetadataRecord(last_index=7) if front else None
    entry = frame(metadata(messages_in_batch=messages), b"x", broker=broker, checksum=checksum)
    assert scan(message_frame(1, 2, 3, entry)).found.messages.tolist() == [messages]
    single = frame(metadata(), b"x", broker=broker, checksum=checksum)
    assert scan(message_frame(1, 2, 3, single)).found.messages.tolist() == [1]


@given(st.lists(st.one_of(st.binary(max_size=40), MESSAGES.map(lambda one: message_frame(*one))), max_size=5))
def test_of_any_bytes_something_is_made_or_an_error(parts: list[bytes]) -> None:
    data = b"".join(parts)
    found = outcome(lambda: scan(data))
    if isinstance(found, CorruptReplyError):
        assert 0 <= (found.offset or 0) <= len(data)
        return
    assert 0 <= found.position <= len(data)
    sent = found.found
    assert all(0 <= start <= start + size <= len(data) for start, size in zip(sent.offsets, sent.lengths, strict=True))
    if found.stop is FrameStop.OTHER_COMMAND:
        assert found.position + found.size <= len(data)
        command = command_at(memoryview(data), found.position)
        parsed = outcome(lambda: parse_command(command, key=KEY))
        assert isinstance(parsed, CorruptReplyError) or parsed == CommandRecord.FromString(command)


@given(st.binary(max_size=80), st.binary(max_size=20))
def test_a_command_is_one_of_an_entry_if_protobuf_says_so(command: bytes, entry: bytes) -> None:
    data = struct.pack(">II", 4 + len(command) + len(entry), len(command)) + command + entry
    found = scan(data)
    if len(found.found):
        parsed = parse_command(command, key=KEY)
        assert parsed.type == Command.MESSAGE
        assert found.found.bytes_of(0) == entry
    else:
        assert (found.stop, found.position) == (FrameStop.OTHER_COMMAND, 0)


@for_each("size", [0, 3, LARGEST + 1, 2**31, 2**32 - 1])
def test_a_frame_of_a_size_that_none_has_is_refused_at_once(size: int) -> None:
    good = message_frame(1, 2, 3, b"entry")
    with pytest.raises(CorruptReplyError, match=f"a frame of {size} bytes") as caught:
        scan(good + struct.pack(">I", size))
    assert caught.value.offset == len(good)


def test_the_largest_frame_is_waited_for() -> None:
    found = scan(struct.pack(">II", LARGEST, 10))
    assert (found.stop, found.size) == (FrameStop.MORE_BYTES, LARGEST - 4)


def test_a_command_that_reaches_out_of_its_frame_is_refused_before_the_rest_is_there() -> None:
    with pytest.raises(CorruptReplyError, match="reaches out"):
        scan(struct.pack(">II", 1000, 997))


def test_more_entries_than_one_scan_returns_are_found_by_the_next() -> None:
    one = message_frame(1, 2, 3, b"")
    data = one * 70_000
    first = scan(data)
    assert first.stop is FrameStop.MORE_ROWS
    second = scan(data, first.position)
    assert len(first.found) + len(second.found) == 70_000


@for_each(
    "command",
    [
        b"\x08\x09",  # a message without anything
        b"\x08\x0d",  # a success without anything
        b"\xff",
        b"\x08",
    ],
)
def test_a_command_that_lacks_what_it_is_about_is_refused(command: bytes) -> None:
    with pytest.raises(CorruptReplyError):
        parse_command(command, key=KEY)


@for_each("command", [b"\x08\x1f", b"\x08\xe7\x07", b"", b"\x10\x01"])
def test_commands_that_are_not_known_are_no_error(command: bytes) -> None:
    parse_command(command, key=KEY)


@given(IDS, IDS)
def test_positions_come_as_they_were_sent(ledger: int, entry: int) -> None:
    sent = commands.subscribe("t", "s", 1, 2, Position(ledger, entry))
    wanted = parse_command(sent[8:], key=KEY).subscribe
    assert position_of(wanted.start) == (ledger, entry)


def test_a_subscription_leaves_nothing_behind_and_makes_no_topic() -> None:
    wanted = parse_command(commands.subscribe("t", "s", 1, 2, EARLIEST)[8:], key=KEY).subscribe
    assert (wanted.kind, wanted.is_durable, wanted.read_compacted, wanted.creates_topic) == (0, False, False, False)
    assert all(wanted.HasField(name) for name in ("kind", "is_durable", "read_compacted", "creates_topic"))
    assert (wanted.initial_position, position_of(wanted.start)) == (1, EARLIEST)


def test_who_asks_is_told_as_brokers_want_it() -> None:
    def told(data: bytes) -> tuple[str, bytes, str]:
        connect = parse_command(data[8:], key=KEY).connect
        return connect.login_method, connect.login, connect.proxied_to

    assert told(commands.connect()) == ("", b"", "")
    assert told(commands.connect("abc", has_certificate=True)) == ("token", b"abc", "")
    assert told(commands.connect(has_certificate=True, proxied_to="[::1]:6650")) == ("tls", b"", "[::1]:6650")


def test_types_are_numbers_of_their_fields() -> None:
    names = {field.number: field.name for field in CommandRecord.DESCRIPTOR.fields}
    assert {one.value: one.name.lower() for one in Command} == {
        number: name for number, name in names.items() if number > 1
    }


def test_a_frame_has_the_sizes_in_front() -> None:
    data = framed(CommandRecord(type=Command.PONG))
    assert data == struct.pack(">II", 6, 2) + b"\x08\x13"

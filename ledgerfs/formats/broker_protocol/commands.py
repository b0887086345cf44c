"""Commands of a reader as frames, and what a broker answers.

A frame is ``uint32 size | uint32 size of the command | command``; in that of an entry the entry follows (`frames`).
"""

import struct
from enum import IntEnum

from google.protobuf.message import DecodeError

from ledgerfs.errors import CorruptReplyError
from ledgerfs.formats.broker_protocol.proto.commands_pb2 import CommandRecord, PositionRecord
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position

PROTOCOL_VERSION = 19
"""What is said of the client: it knows redirects and proxies, and does not ask for the broker's own metadata in front of entries."""

MOST_PERMITS = 2**31 - 1
_CLIENT = "ledgerfs"
_EARLIEST = 1
_SIZES = struct.Struct(">II")
_SIGN = 1 << 63


class Command(IntEnum):
    """Types of commands; each is the number of its field, too."""

    CONNECT = 2
    CONNECTED = 3
    SUBSCRIBE = 4
    MESSAGE = 9
    FLOW = 11
    SUCCESS = 13
    ERROR = 14
    CLOSE_CONSUMER = 16
    PING = 18
    PONG = 19
    LOOKUP = 23
    LOOKUP_ANSWER = 24
    LAST_POSITION = 29
    LAST_POSITION_ANSWER = 30
    LOGIN_CHALLENGE = 36


class LookupAnswer(IntEnum):
    """What a broker answers to the question who has a topic."""

    REDIRECT = 0
    CONNECT = 1
    FAILED = 2


class ServerError(IntEnum):
    """Why a broker refuses; those that are told apart here."""

    UNKNOWN = 0
    METADATA = 1
    PERSISTENCE = 2
    AUTHENTICATION = 3
    AUTHORIZATION = 4
    CONSUMER_BUSY = 5
    NOT_READY = 6
    TOPIC_NOT_FOUND = 11
    SUBSCRIPTION_NOT_FOUND = 12
    TOO_MANY_REQUESTS = 14
    INVALID_TOPIC_NAME = 17
    CONSUMER_ASSIGN = 19


EARLIEST = Position(-1, -1)
"""Before the first entry that there is."""


def framed(command: CommandRecord) -> bytes:
    """Return a command as it is sent."""
    data = command.SerializeToString()
    return _SIZES.pack(4 + len(data), len(data)) + data


def connect(token: str | None = None, *, has_certificate: bool = False, proxied_to: str | None = None) -> bytes:
    """Return the first command of a connection.

    Parameters
    ----------
    token
        Who asks; None for nobody, or whoever the certificate is of.
    has_certificate
        Whether it is the certificate that tells who asks, where there is no token.
    proxied_to
        ``host:port`` of the broker that a proxy is to connect with; None for whoever is connected.

    """
    command = CommandRecord(type=Command.CONNECT)
    command.connect.client_version = _CLIENT
    command.connect.protocol_version = PROTOCOL_VERSION
    if token is not None:
        command.connect.login_method = "token"
        command.connect.login = token.encode()
    elif has_certificate:
        command.connect.login_method = "tls"
        command.connect.login = b""
    if proxied_to is not None:
        command.connect.proxied_to = proxied_to
    return framed(command)


def look_up(topic: str, request_id: int, *, is_authoritative: bool) -> bytes:
    """Return the question which broker has a topic; ``is_authoritative`` is what a broker said that led here."""
    command = CommandRecord(type=Command.LOOKUP)
    command.lookup.topic = topic
    command.lookup.request_id = request_id
    command.lookup.is_authoritative = is_authoritative
    return framed(command)


def subscribe(topic: str, subscription: str, consumer_id: int, request_id: int, start: Position) -> bytes:
    """Return the command that begins reading: alone, with nothing kept of it, and from an entry on, which is sent as the first one.

    A topic that does not exist is not made by it.
    """
    command = CommandRecord(type=Command.SUBSCRIBE)
    wanted = command.subscribe
    wanted.topic, wanted.subscription, wanted.kind = topic, subscription, 0
    wanted.consumer_id, wanted.request_id = consumer_id, request_id
    wanted.is_durable, wanted.read_compacted, wanted.creates_topic = False, False, False
    wanted.initial_position = _EARLIEST
    wanted.start.CopyFrom(_recorded(start))
    return framed(command)


def flow(consumer_id: int, permits: int) -> bytes:
    """Return the permission to send so many messages more, at most `MOST_PERMITS`."""
    command = CommandRecord(type=Command.FLOW)
    command.flow.consumer_id, command.flow.permits = consumer_id, permits
    return framed(command)


def last_position(consumer_id: int, request_id: int) -> bytes:
    """Return the question where a topic's last message is."""
    command = CommandRecord(type=Command.LAST_POSITION)
    command.last_position.consumer_id, command.last_position.request_id = consumer_id, request_id
    return framed(command)


def close_consumer(consumer_id: int, request_id: int) -> bytes:
    """Return the command that ends reading."""
    command = CommandRecord(type=Command.CLOSE_CONSUMER)
    command.close_consumer.consumer_id, command.close_consumer.request_id = consumer_id, request_id
    return framed(command)


def pong() -> bytes:
    """Return the answer to the question whether anybody is there."""
    command = CommandRecord(type=Command.PONG)
    command.pong.SetInParent()
    return framed(command)


def parse_command(data: bytes, *, key: str) -> CommandRecord:
    """Return the command of a frame; ``key`` names the broker. Raises `CorruptReplyError` for what is none, or lacks what it is about."""
    try:
        command = CommandRecord.FromString(data)
    except DecodeError as error:
        raise CorruptReplyError("a frame has no command in it", key=key) from error
    field = CommandRecord.DESCRIPTOR.fields_by_number.get(command.type)
    if field is not None and field.number > 1 and not command.HasField(field.name):
        raise CorruptReplyError(f"a command of type {command.type} has nothing in it", key=key)
    return command


def position_of(record: PositionRecord) -> Position:
    """Return a position as brokers mean it: numbers from 2⁶³ on are negative."""
    return Position(_signed(record.ledger_id), _signed(record.entry_id))


def _recorded(position: Position) -> PositionRecord:
    return PositionRecord(ledger_id=position.ledger_id % (2 * _SIGN), entry_id=position.entry_id % (2 * _SIGN))


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value >= _SIGN else value

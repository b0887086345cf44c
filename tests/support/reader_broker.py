"""A broker on loopback that serves entries in Pulsar's binary protocol, as a real one does, and fails on demand."""

import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from ledgerfs.formats.broker_protocol.commands import Command, LookupAnswer, framed, position_of
from ledgerfs.formats.broker_protocol.proto.commands_pb2 import CommandRecord, PositionRecord
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord

Entry = tuple[int, int, bytes]
"""Ledger, id, and the bytes that are stored."""


@dataclass
class ReaderBroker:
    """The broker; all of it may be changed while it runs.

    Attributes
    ----------
    topics
        {topic: its entries in order}.
    hidden
        Positions that are not sent, as those of markers.
    spoil
        What is sent instead of an entry: none, another one, several.
    last
        What it tells as the last position of each topic; None for what a broker of 4.0 tells.
    token, certificate_wanted
        Who is let in.
    leads
        What it answers to look-ups, one after the other, called with the question; itself afterwards.
    closes_after
        After how many entries connections are closed, one after the other; those after them are not.
    unloads_after
        After how many entries the topic is unloaded, as a broker tells its consumers, one time after the other.
    silent_after
        How many entries of a subscription are sent before nothing comes any more.
    stuck
        Entries at which no subscription gets any further, as where a broker cannot read a ledger.
    refusals
        (command, error) that are answered once each.
    instead
        Bytes that are sent instead of the answer to a subscription.
    largest_message
        What it says at the beginning.
    pings
        Whether it asks before each answer if anybody is there, and sends commands of types that nobody knows.
    connects
        What connections began with.
    subscribed
        Where subscriptions began.
    asked
        Commands, by type.
    most_ahead
        How many messages were ever permitted and not sent.

    """

    topics: dict[str, list[Entry]]
    hidden: set[tuple[int, int]] = field(default_factory=set)
    spoil: Callable[[Entry], Iterable[Entry]] | None = None
    last: Position | None = None
    token: str | None = None
    leads: list[Callable[[CommandRecord], dict[str, object]]] = field(default_factory=list)
    closes_after: list[int] = field(default_factory=list)
    unloads_after: list[int] = field(default_factory=list)
    silent_after: int | None = None
    stuck: set[tuple[int, int]] = field(default_factory=set)
    refusals: list[tuple[Command, int]] = field(default_factory=list)
    instead: bytes | None = None
    largest_message: int = 5 << 20
    pings: bool = False
    connects: list[CommandRecord] = field(default_factory=list)
    subscribed: list[Position] = field(default_factory=list)
    asked: Counter[int] = field(default_factory=Counter)
    most_ahead: int = 0
    scheme: str = "pulsar"
    port: int = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


@contextmanager
def serving_entries(
    topics: dict[str, list[Entry]], tls: ssl.SSLContext | None = None, **options: object
) -> Iterator[ReaderBroker]:
    """Serve topics until the end of a block."""
    broker = ReaderBroker(topics, **options)  # type: ignore[arg-type]
    listener = socket.create_server(("127.0.0.1", 0))
    broker.port = listener.getsockname()[1]
    broker.scheme = "pulsar" if tls is None else "pulsar+ssl"
    taken: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connected, _ = listener.accept()
                taken.append(connected)
                thread = threading.Thread(target=_serve, args=(broker, connected, tls), daemon=True)
                threads.append(thread)
                thread.start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield broker
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for connected in taken:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def message_frame(consumer: int, ledger: int, entry: int, data: bytes) -> bytes:
    """Return the frame of an entry."""
    command = CommandRecord(type=Command.MESSAGE)
    command.message.consumer_id = consumer
    command.message.position.CopyFrom(PositionRecord(ledger_id=ledger % 2**64, entry_id=entry % 2**64))
    head = command.SerializeToString()
    return struct.pack(">II", 4 + len(head) + len(data), len(head)) + head + data


def _serve(broker: ReaderBroker, connected: socket.socket, tls: ssl.SSLContext | None) -> None:
    with (
        suppress(OSError, EOFError),
        connected if tls is None else tls.wrap_socket(connected, server_side=True) as stream,
    ):
        _Connection(broker, stream).serve()
    connected.close()


@dataclass
class _Consumer:
    entries: list[Entry]
    permits: int = 0
    sent: int = 0


class _Connection:
    """One connection, in its thread."""

    def __init__(self, broker: ReaderBroker, stream: socket.socket) -> None:
        self._broker = broker
        self._stream = stream
        self._topic: dict[int, str] = {}
        self._consumers: dict[int, _Consumer] = {}
        self._left = None

    def serve(self) -> None:
        while True:
            (size,) = struct.unpack(">I", self._exactly(4))
            data = self._exactly(size)
            command = CommandRecord.FromString(data[4:])
            self._broker.asked[command.type] += 1
            self._answer(command)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._stream.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def _answer(self, command: CommandRecord) -> None:
        if self._broker.pings and command.type != Command.PONG:
            ping = CommandRecord(type=Command.PING)
            ping.ping.SetInParent()
            self._stream.sendall(
                framed(ping) + struct.pack(">II", 6, 2) + b"\x08\x1f" + struct.pack(">II", 7, 3) + b"\x08\x88\x27"
            )
        for i, (kind, error) in enumerate(self._broker.refusals):
            if kind == command.type:
                del self._broker.refusals[i]
                self._refuse(command, error)
                return
        match command.type:
            case Command.CONNECT:
                self._connect(command)
            case Command.LOOKUP:
                self._look_up(command)
            case Command.SUBSCRIBE:
                self._subscribe(command)
            case Command.LAST_POSITION:
                self._tell_last(command)
            case Command.FLOW:
                self._flow(command)
            case Command.CLOSE_CONSUMER:
                self._consumers.pop(command.close_consumer.consumer_id, None)
                self._succeed(command.close_consumer.request_id)

    def _connect(self, command: CommandRecord) -> None:
        self._broker.connects.append(command)
        wanted = self._broker.token
        if wanted is not None and (command.connect.login_method, command.connect.login) != ("token", wanted.encode()):
            self._refuse(command, 3)
            raise EOFError
        answer = CommandRecord(type=Command.CONNECTED)
        answer.connected.server_version = b"ours"
        answer.connected.largest_message = self._broker.largest_message
        self._stream.sendall(framed(answer))

    def _look_up(self, command: CommandRecord) -> None:
        told = {"answer": LookupAnswer.CONNECT, "url": self._broker.url.encode(), "url_of_tls": b""}
        if self._broker.scheme == "pulsar+ssl":
            told = {"answer": LookupAnswer.CONNECT, "url_of_tls": self._broker.url.encode()}
        if self._broker.leads:
            told = self._broker.leads.pop(0)(command)
        answer = CommandRecord(type=Command.LOOKUP_ANSWER)
        for name, value in told.items():
            setattr(answer.lookup_answer, name, value)
        answer.lookup_answer.request_id = command.lookup.request_id
        self._stream.sendall(framed(answer))

    def _subscribe(self, command: CommandRecord) -> None:
        wanted = command.subscribe
        if self._broker.instead is not None:
            self._stream.sendall(self._broker.instead)
            return
        if wanted.topic not in self._broker.topics:
            self._refuse(command, 11)
            return
        start = position_of(wanted.start)
        self._broker.subscribed.append(start)
        left = [
            one for one in self._broker.topics[wanted.topic] if one[:2] >= start and one[:2] not in self._broker.hidden
        ]
        self._consumers[wanted.consumer_id] = _Consumer(left)
        self._topic[wanted.consumer_id] = wanted.topic
        self._succeed(wanted.request_id)

    def _tell_last(self, command: CommandRecord) -> None:
        entries = self._broker.topics[self._topic[command.last_position.consumer_id]]
        sent = [one[:2] for one in entries if one[:2] not in self._broker.hidden]
        ledger, entry = (sent[-1] if sent else (-1, -1)) if self._broker.last is None else self._broker.last
        answer = CommandRecord(type=Command.LAST_POSITION_ANSWER)
        answer.last_position_answer.request_id = command.last_position.request_id
        answer.last_position_answer.position.CopyFrom(PositionRecord(ledger_id=ledger % 2**64, entry_id=entry % 2**64))
        self._stream.sendall(framed(answer))

    def _flow(self, command: CommandRecord) -> None:
        number = command.flow.consumer_id
        consumer = self._consumers[number]
        consumer.permits += command.flow.permits
        self._broker.most_ahead = max(self._broker.most_ahead, consumer.permits)
        if self._left is None and self._broker.closes_after:
            self._left = self._broker.closes_after.pop(0)
        while consumer.permits > 0 and consumer.sent < len(consumer.entries):
            if consumer.sent == self._broker.silent_after:
                return
            if self._broker.unloads_after and consumer.sent == self._broker.unloads_after[0]:
                self._unload(number)
                return
            one = consumer.entries[consumer.sent]
            if one[:2] in self._broker.stuck:
                return
            consumer.sent += 1
            for ledger, entry, data in [one] if self._broker.spoil is None else self._broker.spoil(one):
                if self._left == 0:
                    raise EOFError
                frame = message_frame(number, ledger, entry, data)
                if self._left is not None:
                    self._left -= 1
                    if self._left == 0:
                        # In the middle of an entry.
                        self._stream.sendall(frame[: len(frame) // 2])
                        raise EOFError
                self._stream.sendall(frame)
                consumer.permits -= messages_of(data)

    def _unload(self, consumer: int) -> None:
        del self._broker.unloads_after[0]
        closed = CommandRecord(type=Command.CLOSE_CONSUMER)
        closed.close_consumer.consumer_id = consumer
        closed.close_consumer.request_id = 2**64 - 1
        self._stream.sendall(framed(closed))

    def _succeed(self, request_id: int) -> None:
        answer = CommandRecord(type=Command.SUCCESS)
        answer.success.request_id = request_id
        self._stream.sendall(framed(answer))

    def _refuse(self, command: CommandRecord, error: int) -> None:
        answer = CommandRecord(type=Command.ERROR)
        field_name = CommandRecord.DESCRIPTOR.fields_by_number[command.type].name
        answer.error.request_id = getattr(getattr(command, field_name), "request_id", 2**64 - 1)
        answer.error.error, answer.error.message = error, f"refused \n{error}".encode()
        self._stream.sendall(framed(answer))


def messages_of(entry: bytes) -> int:
    """Return by how many permits an entry counts."""
    if entry[:2] == b"\x0e\x02":
        entry = entry[6 + int.from_bytes(entry[2:6], "big") :]
    if entry[:2] == b"\x0e\x01":
        entry = entry[6:]
    try:
        metadata = MessageMetadataRecord.FromString(entry[4 : 4 + int.from_bytes(entry[:4], "big")])
    except DecodeError:
        return 1
    return max(1, metadata.messages_in_batch)

"""Reading a topic through a broker that fails in every way: every entry once, or an error of ours."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    AuthenticationError,
    BrokerRefusalError,
    CorruptReplyError,
    InvalidNameError,
    InvalidOptionError,
    LedgerfsError,
    NotFoundError,
    StoreTimeoutError,
    StoreUnreachableError,
)
from ledgerfs.formats.broker_protocol.commands import EARLIEST, Command, LookupAnswer
from ledgerfs.formats.broker_protocol.proto.commands_pb2 import CommandRecord
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.storage.admin_api.access import tls_context
from ledgerfs.storage.broker_protocol import reading as reading_module
from ledgerfs.storage.broker_protocol.reading import EntryReading, read_each, read_entries
from ledgerfs.storage.broker_protocol.service import BrokerAddress, BrokerService, parse_addresses
from ledgerfs.storage.retries import Tries
from tests.support.admin_api import make_certificates
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.reader_broker import Entry, ReaderBroker, message_frame, serving_entries
from tests.support.tries import without_pauses

TOPIC = "persistent://public/default/orders"
ENTRIES: list[Entry] = [
    (ledger, entry, frame(metadata(sequence_id=entry), b"%d:%d" % (ledger, entry) * 50))
    for ledger in (3, 7, 8)
    for entry in range(40)
]
PLACES = [one[:2] for one in ENTRIES]


def service_of(broker: ReaderBroker, **options: object) -> BrokerService:
    """Return a service that looks for the end after 20 ms without an entry; a broker that is slow has sent entries before its answer."""
    return BrokerService.at(broker.url, silence_s=0.02, patience_s=0.09, **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = without_pauses(monkeypatch)
    monkeypatch.setattr(reading_module, "time", SimpleNamespace(sleep=clock.sleep))
    answers_within(monkeypatch, 240)


def answers_within(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Wait so long for each answer of a broker."""
    monkeypatch.setattr(reading_module, "store_timeout", lambda: 4 * seconds)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often was looked for the end in vain since the last entry came, at each look."""
    found: list[int] = []
    is_enough = BrokerService.is_enough

    def noted(service: BrokerService, looks: int, *, is_due: bool) -> bool:
        found.append(looks)
        return is_enough(service, looks, is_due=is_due)

    monkeypatch.setattr(BrokerService, "is_enough", noted)
    return found


def taken(reading: EntryReading) -> list[Entry]:
    return [
        (int(block.ledgers[row]), int(block.entries[row]), block.bytes_of(row))
        for block in reading
        for row in range(len(block))
    ]


def test_every_entry_comes_once_with_its_bytes() -> None:
    with serving_entries({TOPIC: ENTRIES}) as broker:
        reading = read_entries(service_of(broker), TOPIC)
        assert taken(reading) == ENTRIES
    assert (reading.end, reading.last, reading.is_silent) == ((8, 39), (8, 39), False)
    assert broker.subscribed == [EARLIEST]


def test_reading_begins_with_the_entry_that_is_asked_for() -> None:
    with serving_entries({TOPIC: ENTRIES}) as broker:
        assert taken(read_entries(service_of(broker), TOPIC, Position(7, 5))) == ENTRIES[45:]
        assert taken(read_entries(service_of(broker), TOPIC, Position(4, 0))) == ENTRIES[40:]


@for_each("closes", [[1], [2], [50], [1, 1, 2, 3], [120], [119, 1]])
def test_reading_goes_on_where_it_was_when_connections_break(closes: list[int]) -> None:
    with serving_entries({TOPIC: ENTRIES}, closes_after=[*closes]) as broker:
        assert taken(read_entries(service_of(broker), TOPIC)) == ENTRIES
    assert len(broker.connects) == len(closes) + 1


def test_whoever_reads_may_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks long after something came is tried again for as long as any other."""
    now = [0.0]
    monkeypatch.setattr(reading_module, "Tries", lambda **options: Tries(clock=lambda: now[0], **options))
    with serving_entries({TOPIC: ENTRIES}, closes_after=[50, 1, 1]) as broker:
        reading = read_entries(service_of(broker), TOPIC)
        first = next(reading)
        now[0] += 1000
        assert len(first) + len(taken(reading)) == len(ENTRIES)
    assert len(broker.connects) == 4


def test_entries_without_an_answer_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_within(monkeypatch, 600)
    monkeypatch.setattr("ledgerfs.storage.broker_protocol.connection._MOST_KEPT", 3)
    flood = b"".join(message_frame(1, 1, entry, bytes(200_000)) for entry in range(40))
    began = time.monotonic()
    with (
        serving_entries({TOPIC: ENTRIES}, instead=flood) as broker,
        pytest.raises(StoreTimeoutError, match="many entries"),
    ):
        list(read_entries(service_of(broker), TOPIC))
    # An answer is waited for ten minutes, by each of several tries.
    assert len(broker.connects) > 3
    assert time.monotonic() - began < 600


@for_each("unloads", [[0], [1], [50], [3, 3, 0]])
def test_reading_goes_on_when_a_topic_is_unloaded(unloads: list[int]) -> None:
    with serving_entries({TOPIC: ENTRIES}, unloads_after=[*unloads]) as broker:
        assert taken(read_entries(service_of(broker), TOPIC)) == ENTRIES
    assert len(broker.connects) == len(unloads) + 1


def test_a_broker_that_breaks_each_connection_after_an_old_entry_is_given_up() -> None:
    """Only what is new counts as a beginning from which on it is tried for as long again."""
    old = (3, 0, b"old")
    broken = pytest.raises(StoreUnreachableError)
    with serving_entries({TOPIC: ENTRIES}, spoil=lambda _: [old], closes_after=[4] * 1000) as broker, broken:
        list(read_entries(service_of(broker), TOPIC))
    assert len(broker.connects) < 20


def test_an_entry_behind_the_end_that_the_broker_tells_is_waited_for() -> None:
    """Brokers tell the last entry that compaction left."""
    with serving_entries({TOPIC: ENTRIES}, last=Position(7, 2)) as broker:
        reading = EntryReading(service_of(broker), TOPIC, until=Position(8, 39))
        assert taken(reading) == ENTRIES
        assert not reading.is_silent
        beyond = EntryReading(service_of(broker), TOPIC, until=Position(8, 40))
        assert taken(beyond) == ENTRIES
        assert not beyond.is_silent


def test_an_entry_that_the_broker_sends_twice_comes_twice() -> None:
    with serving_entries({TOPIC: ENTRIES}, spoil=lambda one: [one, one] if one[1] == 5 else [one]) as broker:
        assert len(taken(read_entries(service_of(broker), TOPIC))) == len(ENTRIES) + 3


def test_a_broker_that_asks_whether_anybody_is_there_is_answered() -> None:
    with serving_entries({TOPIC: ENTRIES}, pings=True) as broker:
        assert taken(read_entries(service_of(broker), TOPIC)) == ENTRIES
        assert broker.asked[Command.PONG] > 0


def test_permits_are_handed_out_as_messages_come_and_never_run_out() -> None:
    entries = [(1, entry, frame(metadata(messages_in_batch=100_000), b"x")) for entry in range(100)]
    with serving_entries({TOPIC: entries}) as broker:
        assert taken(read_entries(service_of(broker), TOPIC)) == entries
    assert broker.asked[Command.FLOW] > 5
    assert broker.most_ahead < 2**22


def test_an_end_that_is_never_sent_is_found_by_silence(looks: list[int]) -> None:
    """As with brokers that tell the last entry, be it a marker or not."""
    with serving_entries({TOPIC: ENTRIES}, hidden={(8, 38), (8, 39)}, last=Position(8, 39)) as broker:
        reading = read_entries(service_of(broker), TOPIC)
        assert taken(reading) == ENTRIES[:-2]
    assert reading.is_silent
    assert looks[-1] == 3


def test_hidden_entries_at_the_end_are_not_waited_for_if_the_broker_knows_of_them() -> None:
    with serving_entries({TOPIC: ENTRIES}, hidden={(8, 38), (8, 39)}) as broker:
        reading = read_entries(service_of(broker), TOPIC)
        assert taken(reading) == ENTRIES[:-2]
    assert not reading.is_silent


def test_what_has_to_come_is_waited_for_longer(looks: list[int]) -> None:
    """Brokers try again after some time what they could not read."""
    stuck = {(7, 3)}
    with serving_entries({TOPIC: ENTRIES}, stuck=stuck, last=Position(9, 0)) as broker:
        given_up = EntryReading(service_of(broker), TOPIC)
        assert taken(given_up) == ENTRIES[:43]
        assert looks[-1] == 3
        patient = EntryReading(service_of(broker), TOPIC, until=Position(8, 39))
        assert taken(patient) == ENTRIES[:43]
        assert looks[-1] == 5
        assert (given_up.is_silent, patient.is_silent) == (True, True)
    with serving_entries({TOPIC: ENTRIES}, stuck=stuck, last=Position(7, 2)) as broker:
        told_the_end = EntryReading(service_of(broker), TOPIC, until=Position(8, 39))
        assert taken(told_the_end) == ENTRIES[:43]
        assert looks[-1] == 3
        assert not told_the_end.is_silent


def test_a_broker_that_stops_sending_is_not_waited_for_without_end() -> None:
    with serving_entries({TOPIC: ENTRIES}, silent_after=50) as broker:
        reading = read_entries(service_of(broker), TOPIC)
        assert taken(reading) == ENTRIES[:50]
    assert reading.is_silent


def test_an_empty_topic_is_no_silence() -> None:
    with serving_entries({TOPIC: []}) as broker:
        reading = read_entries(service_of(broker), TOPIC)
        assert taken(reading) == []
    assert not reading.is_silent


def test_what_is_appended_later_is_not_waited_for() -> None:
    """A producer that goes on would keep a reader for ever."""
    entries = list(ENTRIES)
    with serving_entries({TOPIC: entries}) as broker:
        reading = read_entries(service_of(broker), TOPIC)
        first = next(reading)
        entries += [(9, entry, b"later") for entry in range(10)]
        assert len(first) + len(taken(reading)) == len(ENTRIES)


def test_a_reading_can_be_ended_early() -> None:
    with serving_entries({TOPIC: ENTRIES}) as broker:
        reading = read_entries(service_of(broker), TOPIC)
        next(reading)
        reading.close()
        assert list(reading) == []


def test_each_of_some_positions() -> None:
    wanted = [Position(3, 0), Position(7, 39), Position(8, 1), Position(8, 39)]
    with serving_entries({TOPIC: ENTRIES}, hidden={(7, 39)}, closes_after=[1]) as broker:
        found = list(read_each(service_of(broker), TOPIC, wanted))
    assert [position for position, _ in found] == wanted
    places = [sent and (sent.ledgers.tolist(), sent.entries.tolist()) for _, sent in found]
    assert places == [([3], [0]), ([8], [0]), ([8], [1]), ([8], [39])]


def test_of_a_position_after_the_end_nothing_comes() -> None:
    with serving_entries({TOPIC: ENTRIES}) as broker:
        assert list(read_each(service_of(broker), TOPIC, [Position(9, 0)])) == [(Position(9, 0), None)]


@for_each(
    ("error", "kind"),
    [
        (3, AuthenticationError),
        (4, AccessDeniedError),
        (11, NotFoundError),
        (12, NotFoundError),
        (17, InvalidNameError),
        (22, BrokerRefusalError),
        (999, BrokerRefusalError),
    ],
)
@for_each("command", [Command.CONNECT, Command.LOOKUP, Command.SUBSCRIBE, Command.LAST_POSITION])
def test_a_refusal_that_holds_is_raised_at_once(command: Command, error: int, kind: type[LedgerfsError]) -> None:
    with serving_entries({TOPIC: ENTRIES}, refusals=[(command, error)]) as broker:
        with pytest.raises(kind, match=f"refused {error}") as caught:
            list(read_entries(service_of(broker), TOPIC))
        assert type(caught.value) is kind
        assert broker.url in str(caught.value)
        assert broker.asked[command] == 1


@for_each("error", [0, 1, 2, 5, 6, 14, 19])
@for_each("command", [Command.CONNECT, Command.LOOKUP, Command.SUBSCRIBE, Command.LAST_POSITION])
def test_after_a_refusal_that_may_pass_it_is_tried_again(command: Command, error: int) -> None:
    with serving_entries({TOPIC: ENTRIES}, refusals=[(command, error)]) as broker:
        assert taken(read_entries(service_of(broker), TOPIC)) == ENTRIES


def test_a_refusal_that_does_not_pass_is_given_up() -> None:
    refusals = [(Command.SUBSCRIBE, 6)] * 1000
    told = pytest.raises(StoreUnreachableError, match=r"refused 6; tried \d+ times")
    with serving_entries({TOPIC: ENTRIES}, refusals=refusals) as broker, told:
        list(read_entries(service_of(broker), TOPIC))


def test_a_topic_that_the_broker_does_not_have() -> None:
    with serving_entries({}) as broker, pytest.raises(NotFoundError, match="no such topic"):
        list(read_entries(service_of(broker), TOPIC))


# Who has the topic.


def leading(target: Callable[[], str], **told: object) -> Callable[[CommandRecord], dict[str, object]]:
    return lambda _: {"answer": LookupAnswer.REDIRECT, "url": target().encode(), **told}


def test_look_ups_lead_from_broker_to_broker() -> None:
    with serving_entries({TOPIC: ENTRIES}) as owner, serving_entries({}) as second, serving_entries({}) as first:
        seen: list[bool] = []

        def lead(command: CommandRecord) -> dict[str, object]:
            seen.append(command.lookup.is_authoritative)
            return {"answer": LookupAnswer.CONNECT, "url": owner.url.encode()}

        first.leads.append(leading(lambda: second.url, is_authoritative=True))
        second.leads.append(lead)
        assert taken(read_entries(service_of(first), TOPIC)) == ENTRIES
        assert seen == [True]
        assert (first.asked[Command.SUBSCRIBE], second.asked[Command.SUBSCRIBE]) == (0, 0)
        assert owner.asked[Command.LOOKUP] == 0


def test_brokers_that_lead_in_a_circle_are_given_up() -> None:
    with serving_entries({}) as one:
        one.leads += [leading(lambda: one.url)] * 1000
        with pytest.raises(BrokerRefusalError, match="more than 20 times"):
            list(read_entries(service_of(one), TOPIC))


def test_a_proxy_is_told_with_whom_to_connect() -> None:
    with serving_entries({TOPIC: ENTRIES}) as proxy:
        proxy.leads.append(
            lambda _: {"answer": LookupAnswer.CONNECT, "url": b"pulsar://[::1]:6650", "through_service": True}
        )
        assert taken(read_entries(service_of(proxy), TOPIC)) == ENTRIES
    assert [one.connect.proxied_to for one in proxy.connects] == ["", "[::1]:6650"]


@for_each("url", [b"", b"http://127.0.0.1:8080", b"pulsar://", b"\xff\xfe", b"pulsar://a:b"])
def test_a_broker_that_leads_nowhere(url: bytes) -> None:
    with serving_entries({}) as broker:
        broker.leads.append(lambda _: {"answer": LookupAnswer.REDIRECT, "url": url})
        with pytest.raises(BrokerRefusalError, match="leads"):
            list(read_entries(service_of(broker), TOPIC))


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    with nobody_listens() as taken_port, serving_entries({TOPIC: ENTRIES}) as broker:
        port = taken_port.getsockname()[1]
        service = BrokerService.at(f"pulsar://127.0.0.1:{port},127.0.0.1:{broker.port}")
        assert taken(read_entries(service, TOPIC)) == ENTRIES


def nobody_listens() -> socket.socket:
    """Take a port where connections are refused."""
    taken_port = socket.socket()
    taken_port.bind(("127.0.0.1", 0))
    return taken_port


def test_no_broker_at_all() -> None:
    with nobody_listens() as taken_port, pytest.raises(StoreUnreachableError, match="cannot be reached"):
        list(read_entries(BrokerService.at(f"pulsar://127.0.0.1:{taken_port.getsockname()[1]}"), TOPIC))


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_within(monkeypatch, 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        service = BrokerService.at(f"pulsar://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(StoreTimeoutError, match="did not answer"):
            list(read_entries(service, TOPIC))


# Who asks.


def test_a_token_is_shown_to_every_broker_and_to_nobody_else() -> None:
    with serving_entries({TOPIC: ENTRIES}, token="secret") as owner, serving_entries({}, token="secret") as first:
        first.leads.append(leading(lambda: owner.url))
        service = service_of(first, token="secret")
        assert taken(read_entries(service, TOPIC)) == ENTRIES
        assert "secret" not in repr(service)
        with pytest.raises(AuthenticationError) as caught:
            list(read_entries(service_of(first, token="other"), TOPIC))
        assert "other" not in str(caught.value)


def test_tls_with_certificates(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    with serving_entries({TOPIC: ENTRIES}, made.server_context(asks_for_client=True)) as broker:
        service = service_of(broker, tls=tls_context(made.ca, made.client), has_certificate=True)
        assert taken(read_entries(service, TOPIC)) == ENTRIES
        assert {one.connect.login_method for one in broker.connects} == {"tls"}


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    with serving_entries({TOPIC: ENTRIES}, made.server_context()) as broker:
        with pytest.raises(StoreUnreachableError, match="certificate is not trusted"):
            list(read_entries(service_of(broker), TOPIC))
        assert broker.connects == []


@for_each("told", [{"url": b"pulsar://127.0.0.1:1"}, {"url_of_tls": b"pulsar://127.0.0.1:1"}])
def test_nobody_is_asked_without_tls_after_tls(tmp_path: Path, told: dict[str, bytes]) -> None:
    made = make_certificates(tmp_path)
    with serving_entries({TOPIC: ENTRIES}, made.server_context()) as broker:
        broker.leads.append(lambda _: {"answer": LookupAnswer.CONNECT, **told})
        with pytest.raises(BrokerRefusalError, match="TLS"):
            list(read_entries(service_of(broker, tls=tls_context(made.ca)), TOPIC))


def test_a_plain_answer_to_tls_and_tls_to_a_plain_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers_within(monkeypatch, 0.1)
    made = make_certificates(tmp_path)
    with serving_entries({TOPIC: ENTRIES}) as plain, pytest.raises(StoreUnreachableError):
        list(read_entries(BrokerService.at(f"pulsar+ssl://127.0.0.1:{plain.port}", tls=tls_context(made.ca)), TOPIC))
    with serving_entries({TOPIC: ENTRIES}, made.server_context()) as secured, pytest.raises(LedgerfsError):
        list(read_entries(BrokerService.at(f"pulsar://127.0.0.1:{secured.port}"), TOPIC))


# What is no answer.


@for_each(
    "instead",
    [
        struct.pack(">II", 2**31, 10),
        struct.pack(">II", 2, 0),
        struct.pack(">II", 10, 2000),
        struct.pack(">II", 6, 2) + b"\xff\xff",
        struct.pack(">II", 6, 2) + b"\x08\x0d",
        struct.pack(">II", 6, 2) + b"\x08\x09",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_what_is_not_the_protocol_is_an_error_and_not_waited_for(instead: bytes) -> None:
    with serving_entries({TOPIC: ENTRIES}, instead=instead) as broker:
        with pytest.raises(CorruptReplyError) as caught:
            list(read_entries(service_of(broker), TOPIC))
        assert broker.url in str(caught.value)
        assert len(broker.connects) == 1


def test_a_login_in_several_steps_is_not_supported() -> None:
    challenge = struct.pack(">II", 9, 5) + b"\x08\x24\xa2\x02\x00"
    with (
        serving_entries({TOPIC: ENTRIES}, instead=challenge) as broker,
        pytest.raises(AuthenticationError, match="several steps"),
    ):
        list(read_entries(service_of(broker), TOPIC))


def test_a_broker_whose_messages_may_be_larger_says_so() -> None:
    large = [(1, 0, frame(metadata(), bytes(22 << 20))), (1, 1, frame(metadata(), b"x"))]
    with (
        serving_entries({TOPIC: large}) as broker,
        pytest.raises(CorruptReplyError, match="no broker, or its messages"),
    ):
        list(read_entries(service_of(broker), TOPIC))
    with serving_entries({TOPIC: large}, largest_message=24 << 20) as broker:
        assert taken(read_entries(service_of(broker), TOPIC)) == large


def test_what_claims_to_be_large_takes_no_more_memory_than_what_came() -> None:
    """A size may be a lie: no buffer is made of it."""
    claimed = struct.pack(">II", 20 << 20, 10)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connected, _ = listener.accept()
            with connected:
                connected.sendall(claimed)
                connected.recv(100)

        thread = threading.Thread(target=serve)
        thread.start()
        from ledgerfs.storage.broker_protocol import connection

        made: list[int] = []
        buffer = connection._buffer
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "_buffer", lambda size: made.append(size) or buffer(size))
            address = BrokerAddress("127.0.0.1", listener.getsockname()[1], has_tls=False)
            with pytest.raises(OSError):
                connection.BrokerConnection(BrokerService((address,)), address, seconds=0.3)
        thread.join()
    assert max(made) <= 1 << 20


def test_a_broker_that_sends_the_same_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerfs.storage.broker_protocol.reading._MOST_REPEATED", 1000)
    told = pytest.raises(CorruptReplyError, match="again and again")
    with serving_entries({TOPIC: ENTRIES}, spoil=lambda one: [one] * 5000, last=Position(9, 0)) as broker, told:
        list(read_entries(service_of(broker), TOPIC))


# Addresses.


@for_each(
    ("url", "told"),
    [
        ("pulsar://host", ["pulsar://host:6650"]),
        ("pulsar+ssl://host/", ["pulsar+ssl://host:6651"]),
        (
            "pulsar://a:1,b,[::1]:3,[::1]",
            ["pulsar://a:1", "pulsar://b:6650", "pulsar://[::1]:3", "pulsar://[::1]:6650"],
        ),
    ],
)
def test_addresses(url: str, told: list[str]) -> None:
    assert [str(one) for one in parse_addresses(url)] == told


@for_each(
    "url",
    [
        "",
        "host:6650",
        "http://host:8080",
        "pulsar://",
        "pulsar://a,,b",
        "pulsar://a:x",
        "pulsar://a:0",
        "pulsar://a:70000",
        "pulsar://user@host",
        "pulsar://a/b",
        "pulsar://a?b",
        "pulsar://a b",
        "pulsar://[::1",
        "pulsar://ä",
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidOptionError):
        parse_addresses(url)

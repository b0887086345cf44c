"""Nodes of a ZooKeeper: each that is asked for has its answer once, in order, whatever becomes of connections, sessions and processes."""

import builtins
import contextlib
import dataclasses
import gc
import pickle
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect

from ledgerfs.errors import (
    AccessDeniedError,
    InvalidNameError,
    InvalidOptionError,
    LedgerfsError,
    ObjectNotFoundError,
    StoreError,
    StoreTimeoutError,
    StoreUnreachableError,
    UnusableUrlError,
    WrongBodyError,
)
from ledgerfs_cluster.token_bucket import Bandwidth
from ledgerfs_cluster.zookeeper import client
from ledgerfs_cluster.zookeeper.client import Client
from ledgerfs_cluster.zookeeper.node import (
    GET_CHILDREN,
    GET_DATA,
    SYNC,
    AskOne,
    Node,
    children_at,
    many_results,
    node_at,
    one_result,
)
from ledgerfs_cluster.zookeeper.nodes import Nodes
from ledgerfs_cluster.zookeeper.session import Answer, Session
from tests.cluster.support.interrupts import interrupt_in
from tests.cluster.support.sessions import PATIENT_S, kazoo_threads
from tests.cluster.support.zookeeper import CLOSE, MULTI_READ, PING, ZooKeeperServer
from tests.cluster.support.zookeeper import GET_DATA as DATA
from tests.support.admin_api import Certificates, make_certificates
from tests.support.children import status_in_child
from tests.support.each import for_each
from tests.support.waiting import wait_until

FEW = 200


def fill(server: ZooKeeperServer, count: int = FEW) -> list[str]:
    """Make nodes below /l, each with data of its own, and return their paths."""
    paths = [f"/l/n{i:05d}" for i in range(count)]
    for i, path in enumerate(paths):
        server.set(path, data_of(i))
    return paths


def data_of(number: int) -> bytes:
    return b"%d:" % number + b"x" * (number % 300)


def data(results: Iterator[Node | LedgerfsError]) -> list[bytes]:
    found = []
    for one in results:
        assert isinstance(one, Node), one
        found.append(one.data)
    return found


@pytest.fixture
def server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as made:
        yield made
        assert made.not_reads == []


@pytest.fixture
def failing_zookeeper(server: ZooKeeperServer) -> ZooKeeperServer:
    """A server whose clients have to wait, or to come again."""
    return server


@pytest.fixture
def nodes(server: ZooKeeperServer) -> Iterator[Nodes]:
    made = Nodes(server.address, timeout_s=PATIENT_S)
    yield made
    made.close()


def set_time_out(nodes: Nodes, seconds: float) -> None:
    """Give so much time to requests, and to sessions that begin, from now on."""
    nodes._client._settings = dataclasses.replace(nodes._client._settings, timeout_s=seconds)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of each wait for an answer that did not come, and of each pause, as they were meant: a busy machine takes longer."""
    found: list[float] = []
    wait = Answer.wait

    def noted(answer: Answer, seconds: float) -> bool:
        came = wait(answer, seconds)
        if not came:
            found.append(seconds)
        return came

    def sleep(seconds: float) -> None:
        found.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr(Answer, "wait", noted)
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    return found


def give_up_only(monkeypatch: pytest.MonkeyPatch, is_time: Callable[[Session], object]) -> None:
    """Have requests wait for their answers for as long as sessions are not in some state, and with the time-out from then on."""
    bound = Client._bound
    monkeypatch.setattr(Client, "_bound", lambda one, session: bound(one, session) if is_time(session) else PATIENT_S)


def test_a_node_with_its_times_and_children(server: ZooKeeperServer, nodes: Nodes) -> None:
    began_ms = time.time_ns() // 1_000_000
    server.set("/a/b/数 %2F", b"")
    server.set("/a/b", b"one", created_ms=1_700_000_000_123)
    server.set("/a/b", b"two")
    found = nodes.get("/a/b")
    assert (found.path, found.data, found.created_ms, found.version, found.children) == (
        *("/a/b", b"two", 1_700_000_000_123),
        *(2, 1),
    )
    assert began_ms <= found.changed_ms <= time.time_ns() // 1_000_000
    assert nodes.children("/a/b") == ["数 %2F"]


def test_many_in_order_with_errors_in_their_places(server: ZooKeeperServer, nodes: Nodes) -> None:
    paths = fill(server)
    server.no_auth(paths[70])
    asked = [*paths[:100], "/no", *paths[100:], paths[0]]
    found = list(nodes.get_many(asked))
    assert [one.path if isinstance(one, Node) else one.key for one in found] == asked
    assert {i for i, one in enumerate(found) if isinstance(one, LedgerfsError)} == {70, 100}
    assert isinstance(found[70], AccessDeniedError)
    assert isinstance(found[100], ObjectNotFoundError)


def test_children_of_many(server: ZooKeeperServer, nodes: Nodes) -> None:
    paths = fill(server)
    found = list(nodes.children_many(["/l", "/", "/no", *paths]))
    assert found[0] == sorted(path.removeprefix("/l/") for path in paths) == nodes.children("/l")
    assert found[1] == ["l"]
    assert isinstance(found[2], ObjectNotFoundError)
    assert found[3:] == [[]] * len(paths)


def test_ten_thousand_nodes_with_few_packets(server: ZooKeeperServer, nodes: Nodes) -> None:
    paths = fill(server, 10_000)
    assert data(nodes.get_many(paths)) == [data_of(i) for i in range(10_000)]
    assert server.requests[MULTI_READ] < 700
    assert server.requests[DATA] == 0
    assert set(server.asked.values()) == {1}


def test_large_nodes_come_with_few_in_a_packet(server: ZooKeeperServer, nodes: Nodes) -> None:
    for i in range(60):
        server.set(f"/big/{i}", bytes([i]) * 1_000_000)
    found = data(nodes.get_many(f"/big/{i}" for i in range(60)))
    assert all(one == bytes([i]) * 1_000_000 for i, one in enumerate(found))
    # Eight packets of eight are under way before the first answer; 2 MiB have one or two of these nodes.
    assert server.requests[MULTI_READ] + server.requests[DATA] >= 8
    small = fill(server, 1000)
    assert data(nodes.get_many(small)) == [data_of(i) for i in range(1000)]


def test_a_server_before_3_6_is_refused(server: ZooKeeperServer, nodes: Nodes) -> None:
    server.knows_multi_read = False
    paths = fill(server)
    assert nodes.get(paths[0]).data == data_of(0)
    with pytest.raises(StoreError, match=r"ZooKeeper 3\.6"):
        list(nodes.get_many(paths))


def test_a_folder_is_below_all_paths(server: ZooKeeperServer) -> None:
    paths = fill(server)
    nodes = Nodes(f"{server.address}/l", timeout_s=PATIENT_S)
    below = [path.removeprefix("/l") for path in paths]
    assert [one.path for one in nodes.get_many(below) if isinstance(one, Node)] == below
    assert len(nodes.children("/")) == FEW
    with pytest.raises(ObjectNotFoundError, match=r"^/l: "):
        nodes.get("/l")
    nodes.close()


@for_each("how", [0, 1, 3, 9, "expired", "away"])
def test_what_breaks_in_the_middle(failing_zookeeper: ZooKeeperServer, nodes: Nodes, how: int | str) -> None:
    """A connection after so many answers, the session, or the server for a while."""
    server = failing_zookeeper
    paths = fill(server, 600)
    before = server.connections_made
    results = nodes.get_many(paths)
    found = [next(results)]
    back = threading.Timer(0.3, server.listen)
    if how == "expired":
        server.expire_sessions()
    elif how == "away":
        server.refuse()
        back.start()
    else:
        server.drop_after = int(how)
    found += results
    assert data(iter(found)) == [data_of(i) for i in range(600)]
    assert server.connections_made > before + 1
    if how == "away":
        back.join()
    # The next case opens a session of its own.
    nodes.close()


@pytest.mark.parametrize("how", ["expired", "closed", "forked"])
def test_no_session_shows_what_is_older_than_what_the_one_before_has_shown(
    failing_zookeeper: ZooKeeperServer, how: str
) -> None:
    server, path = failing_zookeeper, "/list"
    server.set(path, b"old")
    nodes = Nodes(server.address, timeout_s=PATIENT_S)
    server.fall_behind()
    server.set(path, b"new")
    assert nodes.get(path).data == b"old"
    nodes.catch_up()
    assert nodes.get(path).data == b"new"
    set_time_out(nodes, 0.3)

    def refused() -> None:
        with pytest.raises(StoreUnreachableError, match="no ZooKeeper server answered"):
            nodes.get(path)

    if how == "expired":
        server.expire_sessions()
        refused()
    elif how == "closed":
        nodes.close()
        refused()
        with pytest.raises(StoreUnreachableError, match="data is older than data that was read before"):
            nodes.get(path)
    else:
        assert status_in_child(refused) == 0
    server.keep_up()
    set_time_out(nodes, PATIENT_S)
    assert nodes.get(path).data == b"new"
    nodes.close()


def test_nobody_listens(failing_zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is given up once, also that for several nodes."""
    opened: list[Session] = []

    def session(*arguments: Any) -> Session:
        opened.append(Session(*arguments))
        return opened[-1]

    monkeypatch.setattr(client, "Session", session)
    give_up_only(monkeypatch, lambda session: session.trouble)
    failing_zookeeper.refuse()
    nodes = Nodes(f"{failing_zookeeper.address},localhost:1", timeout_s=0.3)
    for ask in (lambda: nodes.get("/x"), lambda: list(nodes.get_many(["/x", "/y"])), lambda: nodes.children("/x")):
        opened.clear()
        with pytest.raises(StoreUnreachableError, match=rf"^/x: .*{failing_zookeeper.address},localhost:1.*refused"):
            ask()
        assert len(opened) == 1
    failing_zookeeper.listen()
    failing_zookeeper.set("/x", b"back")
    set_time_out(nodes, PATIENT_S)
    assert nodes.get("/x").data == b"back"
    nodes.close()


def test_a_server_that_never_answers(failing_zookeeper: ZooKeeperServer, waits: list[float]) -> None:
    failing_zookeeper.hangs = True
    nodes = Nodes(failing_zookeeper.address, timeout_s=0.5)
    with pytest.raises(StoreUnreachableError, match=re.escape(failing_zookeeper.address)):
        nodes.get("/")
    assert sum(waits) <= 0.51
    nodes.close()


def test_a_server_that_falls_silent(failing_zookeeper: ZooKeeperServer, nodes: Nodes, waits: list[float]) -> None:
    """It may be restarting, and is waited for twice as long as one that never answered."""
    paths = fill(failing_zookeeper)
    results = nodes.get_many(paths)
    next(results)
    failing_zookeeper.hangs = True
    set_time_out(nodes, 0.5)
    waits.clear()
    with pytest.raises(StoreTimeoutError, match=re.escape(failing_zookeeper.address)):
        list(results)
    assert sum(waits) <= 1.01
    failing_zookeeper.hangs = False
    set_time_out(nodes, PATIENT_S)
    assert nodes.get(paths[0]).data == data_of(0)


def test_one_server_of_three_is_enough(failing_zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each server has a third of the time, for being connected and for its first answer: a silent one leaves time for the others."""
    seconds: list[float] = []
    connect, invoke = SequentialThreadingHandler.create_connection, ConnectionHandler._invoke

    def noted_connect(handler: Any, *place: Any, timeout: float, **options: Any) -> Any:
        seconds.append(timeout)
        return connect(handler, *place, timeout=timeout, **options)

    def noted_invoke(handler: Any, timeout: float, request: Any, *more: Any) -> Any:
        if isinstance(request, Connect):
            seconds.append(timeout)
        return invoke(handler, timeout, request, *more)

    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", noted_connect)
    monkeypatch.setattr(ConnectionHandler, "_invoke", noted_invoke)
    # On a busy machine the one that answers may take more than a third of this, and is tried again.
    monkeypatch.setattr(Client, "_bound", lambda one, session: PATIENT_S)
    failing_zookeeper.set("/x", b"here")
    with ZooKeeperServer() as silent, ZooKeeperServer() as away:
        silent.hangs = True
        away.refuse()
        nodes = Nodes(f"{silent.address},{away.address},{failing_zookeeper.address}", timeout_s=1.2)
        for _ in range(3):
            assert nodes.get("/x").data == b"here"
            nodes.close()
    assert 0 < max(seconds) <= 0.4


LIES: dict[str, Callable[[bytes], bytes]] = {
    "nothing like a packet": lambda body: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "two gigabytes": lambda body: struct.pack("!i", (1 << 31) - 1) + body,
    "a negative length": lambda body: struct.pack("!i", -5) + body,
    "an empty packet": lambda body: struct.pack("!i", 0),
    "another request's answer": lambda body: struct.pack("!ii", len(body), 77) + body[4:],
    "an unknown error": lambda body: struct.pack("!i", 16) + body[:12] + struct.pack("!i", -9999),
    "a long value": lambda body: struct.pack("!i", len(body)) + body[:16] + struct.pack("!i", 1 << 30) + body[20:],
    "a value of a negative length": lambda body: struct.pack("!i", len(body)) + body[:16] + b"\xff\0\0\0" + body[20:],
    "half of it": lambda body: struct.pack("!i", len(body) // 2) + body[: len(body) // 2],
    "more than it": lambda body: struct.pack("!i", len(body) + 3) + body + b"abc",
}


def side_by_side(test: Callable[[str], object]) -> None:
    """Run a test with each lie in a thread of its own, since each waits for most of the time; the error of one that fails names the lie."""
    with ThreadPoolExecutor(len(LIES)) as pool:
        running = {lie: pool.submit(test, lie) for lie in LIES}
    for lie, one in running.items():
        error = one.exception()
        if error is not None:
            error.add_note(f"lie: {lie}")
            raise error


def test_a_server_that_lies_about_nodes(failing_zookeeper: ZooKeeperServer) -> None:
    def ask(lie: str) -> None:
        with ZooKeeperServer() as server:
            paths = fill(server, 5)
            server.instead = dict.fromkeys((DATA, GET_CHILDREN, MULTI_READ), LIES[lie])
            nodes = Nodes(server.address, timeout_s=0.5)
            for ask in (
                lambda: nodes.get("/l"),
                lambda: nodes.children("/l"),
                lambda: list(nodes.get_many(["/l", *paths])),
            ):
                with pytest.raises(StoreError, match=r"^/l: ") as raised:
                    ask()
                assert isinstance(raised.value, StoreUnreachableError | WrongBodyError) or lie == "an unknown error"
            server.instead = {}
            set_time_out(nodes, PATIENT_S)
            assert nodes.get("/l/n00003").data == data_of(3)
            nodes.close()
            assert server.not_reads == []

    side_by_side(ask)


def test_a_server_that_lies_to_everybody(failing_zookeeper: ZooKeeperServer) -> None:
    def ask(lie: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def answer() -> None:
                while True:
                    try:
                        connection, _ = listener.accept()
                    except OSError:
                        return
                    with connection, contextlib.suppress(ConnectionError):
                        connection.recv(100)
                        connection.sendall(LIES[lie](b"\0" * 40))

            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            nodes = Nodes(address, timeout_s=0.5)
            with pytest.raises(StoreUnreachableError, match=re.escape(address)):
                nodes.get("/l")
            nodes.close()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(300)

    side_by_side(ask)


def test_ctrl_c_is_not_taken_for_a_closed_connection(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """kazoo catches whatever comes while it wakes the thread of its connection, Ctrl-C too."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    nodes.children("/")
    session = nodes._client.session("/")
    with monkeypatch.context() as patch:
        patch.setattr(session._client._connection, "_write_sock", SimpleNamespace(send=interrupted))
        with pytest.raises(KeyboardInterrupt):
            session.ask(AskOne(SYNC, "/"))


def test_a_bound_on_nodes_a_second(server: ZooKeeperServer) -> None:
    paths = fill(server, 120)
    nodes = Nodes(server.address, timeout_s=PATIENT_S, most_per_second=200)
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    nodes._client.pace = Bandwidth(200, lambda: now[0], sleep)
    nodes.get("/l")
    assert data(nodes.get_many(paths)) == [data_of(i) for i in range(120)]
    # The last packet waits for those before it.
    assert 100 / 200 <= now[0] - 100 <= 121 / 200
    nodes.close()


def test_threads_share_a_session(server: ZooKeeperServer, nodes: Nodes) -> None:
    paths = fill(server, 400)

    def read(start: int) -> list[bytes]:
        return data(nodes.get_many(paths[start:] + paths[:start]))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, range(0, 400, 50)))
    whole = [data_of(i) for i in range(400)]
    assert found == [whole[start:] + whole[:start] for start in range(0, 400, 50)]
    assert server.connections_made == 1


def test_a_fork_in_the_middle(server: ZooKeeperServer, nodes: Nodes) -> None:
    paths = fill(server, 600)
    whole = [data_of(i) for i in range(600)]
    results = nodes.get_many(paths)
    first = data(iter([next(results)]))

    def child() -> None:
        assert first + data(results) == whole
        assert data(nodes.get_many(paths)) == whole
        nodes.close()

    assert status_in_child(child) == 0
    assert first + data(results) == whole
    assert nodes.get(paths[7]).data == data_of(7)
    # The child's session is its own, and its end is not that of the parent's.
    assert server.connections_made == 2


def test_a_child_that_reads_nothing_leaves_the_session_alone(server: ZooKeeperServer) -> None:
    paths = fill(server)
    holder = [Nodes(server.address, timeout_s=PATIENT_S)]
    holder[0].get(paths[0])

    def child() -> None:
        holder.clear()
        gc.collect()

    assert status_in_child(child) == 0
    assert holder[0].get(paths[1]).data == data_of(1)
    assert (server.connections_made, server.requests[CLOSE]) == (1, 0)
    holder[0].close()


def test_nodes_in_a_pickle_open_a_session_of_their_own(server: ZooKeeperServer, nodes: Nodes) -> None:
    paths = fill(server)
    assert nodes.get(paths[0]).data == data_of(0)
    copy = pickle.loads(pickle.dumps(nodes))
    assert data(copy.get_many(paths)) == [data_of(i) for i in range(FEW)]
    copy.close()
    assert nodes.get(paths[0]).data == data_of(0)
    assert server.connections_made == 2


def test_a_login_is_sent_and_never_shown(
    server: ZooKeeperServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(1)
    server.set("/x", b"")
    nodes = Nodes(server.address, timeout_s=PATIENT_S, username="reader", password="s3cr3t")
    copy = pickle.loads(pickle.dumps(nodes))
    for one in (nodes, copy):
        one.get("/x")
        assert "s3cr3t" not in f"{one!r} {one} {one.settings!r} {one._client!r}"
        one.close()
    assert server.logins == [("digest", b"reader:s3cr3t")] * 2
    server.refuse()
    nodes = Nodes(server.address, timeout_s=0.3, username="reader", password="s3cr3t")
    with pytest.raises(StoreUnreachableError) as raised:
        nodes.get("/x")
    assert "s3cr3t" not in str(raised.value) + caplog.text
    assert capfd.readouterr() == ("", "")


def test_the_session_ends_with_the_last_use(server: ZooKeeperServer) -> None:
    nodes = Nodes(server.address, timeout_s=PATIENT_S)
    nodes.get("/")
    del nodes
    gc.collect()
    wait_until(lambda: server.requests[CLOSE] == 1, 300)


def test_no_file_or_thread_is_left(server: ZooKeeperServer) -> None:
    others = kazoo_threads()
    nodes = Nodes(server.address, timeout_s=PATIENT_S)
    nodes.get("/")
    nodes.close()
    wait_until(lambda: not kazoo_threads(others), 300)
    before = open_files()
    for _ in range(5):
        nodes.get("/")
        nodes.close()
    wait_until(lambda: open_files() <= before and not kazoo_threads(others), 300)
    nodes.get("/")
    assert len(kazoo_threads(others)) == 3
    nodes.close()


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_ctrl_c_ends_the_wait(failing_zookeeper: ZooKeeperServer) -> None:
    failing_zookeeper.hangs = True
    nodes = Nodes(failing_zookeeper.address, timeout_s=1200)
    began = time.monotonic()
    thread = threading.Thread(target=interrupt_in, args=[Answer.wait.__code__])
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        nodes.get("/")
    assert time.monotonic() - began < 600
    thread.join()
    nodes.close()


@for_each("path", ["", "l", "relative/path", "/\udcff", "/" + "x" * 300_000])
def test_what_is_no_path(server: ZooKeeperServer, nodes: Nodes, path: str) -> None:
    with pytest.raises(InvalidNameError):
        nodes.get(path)
    with pytest.raises(InvalidNameError):
        list(nodes.get_many(["/", path]))
    assert nodes.get("/").path == "/"


@for_each("servers", ["", "/folder", "host:port", "host:1,:2", "user:secret@host:2181"])
def test_what_names_no_servers(servers: str) -> None:
    with pytest.raises(UnusableUrlError) as raised:
        Nodes(servers)
    assert "secret" not in str(raised.value)


def test_options_that_cannot_be() -> None:
    for options in ({"timeout_s": 0}, {"most_per_second": -1}, {"timeout_s": float("nan")}, {"username": "a:b"}):
        with pytest.raises(InvalidOptionError):
            Nodes("localhost:1", **options)


def test_kazoo_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without_kazoo(name: str, *others: object) -> object:
        if name.startswith(("kazoo", "ledgerfs_cluster.zookeeper.client")):
            raise ModuleNotFoundError("No module named 'kazoo'", name="kazoo")
        return plain(name, *others)

    monkeypatch.setattr(builtins, "__import__", without_kazoo)
    with pytest.raises(UnusableUrlError, match=r"pip install '.\[cluster\]'"):
        Nodes("localhost:2181")


@given(st.binary(max_size=300), st.integers(0, 20))
def test_replies_of_any_bytes_are_read_or_refused(packet: bytes, at: int) -> None:
    for parse, opcode in ((node_at, GET_DATA), (children_at, GET_CHILDREN)):
        one = one_result((packet, at), "/p", parse)
        assert isinstance(one, Node | list | WrongBodyError)
        with contextlib.suppress(WrongBodyError):
            assert len(many_results((packet, at), opcode, ["/p", "/q"], parse)) == 2


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Of a server at 127.0.0.1."""
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure_server(certificates: Certificates) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tls=certificates.server_context()) as made:
        yield made


def test_over_tls(secure_server: ZooKeeperServer, certificates: Certificates) -> None:
    paths = fill(secure_server)
    nodes = Nodes(secure_server.address, timeout_s=PATIENT_S, use_ssl=True, ca=str(certificates.ca))
    assert data(nodes.get_many(paths)) == [data_of(i) for i in range(FEW)]
    nodes.close()


def test_answers_that_tls_decrypts_together_are_all_read_at_once(
    secure_server: ZooKeeperServer, certificates: Certificates
) -> None:
    paths = fill(secure_server, 3)
    held: list[bytes] = []

    def together(body: bytes) -> bytes:
        held.append(struct.pack("!i", len(body)) + body)
        return b"".join(held) if len(held) == 3 else b""

    secure_server.instead[DATA] = together
    nodes = Nodes(secure_server.address, timeout_s=900, use_ssl=True, ca=str(certificates.ca))
    with ThreadPoolExecutor(3) as pool:
        assert [one.data for one in pool.map(nodes.get, paths)] == [data_of(i) for i in range(3)]
    # What is left unread is read with the answer to the next ping, minutes later.
    assert (secure_server.requests[PING], secure_server.connections_made) == (0, 1)
    nodes.close()


@for_each("is_known", [False, True])
def test_a_certificate_of_nobody_known_or_of_another_host_is_refused(
    failing_zookeeper: ZooKeeperServer,
    secure_server: ZooKeeperServer,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_known: bool,
) -> None:
    port = secure_server.address.partition(":")[2]
    address, ca = (f"localhost:{port}", str(certificates.ca)) if is_known else (secure_server.address, None)
    with monkeypatch.context() as patch:
        give_up_only(patch, lambda session: "certificate" in session.trouble.lower())
        nodes = Nodes(address, timeout_s=0.3, use_ssl=True, ca=ca)
        with pytest.raises(StoreUnreachableError, match=r"(?i)certificate"):
            nodes.get("/")
        nodes.close()
    nodes = Nodes(address, timeout_s=PATIENT_S, use_ssl=True, ca=ca, verify_certs=is_known, check_hostname=not is_known)
    assert nodes.get("/").path == "/"
    nodes.close()

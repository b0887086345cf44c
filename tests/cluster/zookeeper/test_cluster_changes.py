"""Changes of a cluster's metadata: all or nothing, by one process at a time, and each once, whatever becomes of answers and sessions."""

import contextlib
import dataclasses
import gc
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    BucketNotFoundError,
    InvalidNameError,
    InvalidOptionError,
    LedgerfsError,
    ObjectNotFoundError,
    StoreUnreachableError,
    UnsupportedWriteError,
)
from ledgerfs_cluster.errors import ChangedMeanwhileError, LockHeldError, LockLostError
from ledgerfs_cluster.zookeeper.changes import (
    LOCK_PATH,
    MARKS_PATH,
    ClusterLock,
    DropNode,
    LockHolder,
    MakeNode,
    RequireNode,
    SetNode,
)
from ledgerfs_cluster.zookeeper.node import Commit
from ledgerfs_cluster.zookeeper.nodes import Nodes
from ledgerfs_cluster.zookeeper.session import Answer
from tests.cluster.support.interrupts import interrupt_in
from tests.cluster.support.sessions import PATIENT_S, kazoo_threads
from tests.cluster.support.zookeeper import MULTI, SYNC, WriteFault, ZooKeeperServer
from tests.support.children import status_in_child
from tests.support.each import for_each
from tests.support.waiting import wait_until

LIST = "/managed-ledgers/public/default/persistent/orders"
ATTEMPT = "/ledgerfs/lifecycle/attempts/7"
HOLDER = b'{"host":"one","pid":7}'
LOST = [WriteFault.LOST_BEFORE, WriteFault.LOST_AFTER, WriteFault.LATE]


@pytest.fixture
def server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as made:
        made.takes_writes = True
        made.set(LIST, b"list")
        yield made
        assert made.not_reads == []


@pytest.fixture
def nodes(server: ZooKeeperServer) -> Iterator[Nodes]:
    made = Nodes(server.address, timeout_s=PATIENT_S)
    yield made
    made.close()


@pytest.fixture
def lock(nodes: Nodes) -> Iterator[ClusterLock]:
    with ClusterLock.take(nodes.settings, HOLDER) as made:
        yield made


def of_users(server: ZooKeeperServer) -> dict[str, bytes]:
    """Return all nodes but those of the lock and folders."""
    return {path: data for path, data in server.nodes.items() if data and not path.startswith((LOCK_PATH, MARKS_PATH))}


def mark(server: ZooKeeperServer) -> str:
    (path,) = (path for path in server.nodes if path.startswith(f"{MARKS_PATH}/"))
    return path


def give_up_soon(lock: ClusterLock) -> None:
    """Have commits, from the next one on, wait less than a second for servers."""
    lock._client._settings = dataclasses.replace(lock._client._settings, timeout_s=0.2)


@pytest.fixture
def begun(lock: ClusterLock) -> None:
    lock.commit([MakeNode(ATTEMPT, b"begun")])


def test_all_of_a_commit_is_done(server: ZooKeeperServer, lock: ClusterLock) -> None:
    lock.commit([MakeNode(ATTEMPT, b"begun")])
    lock.commit(
        [SetNode(LIST, b"longer", 0), DropNode(ATTEMPT, 0), MakeNode("/new", b"one"), RequireNode("/ledgerfs", 0)]
    )
    assert of_users(server) == {LIST: b"longer", "/new": b"one"}
    assert server.versions[LIST] == 1
    lock.commit([SetNode(LIST, b"longest", 1), DropNode("/new", 0)])
    assert of_users(server) == {LIST: b"longest"}


@for_each(
    ("operation", "path", "found"),
    [
        (SetNode(LIST, b"x", 1), LIST, "other version"),
        (SetNode("/gone", b"x", 0), "/gone", "gone"),
        (DropNode(LIST, 4), LIST, "other version"),
        (DropNode("/gone", 0), "/gone", "gone"),
        (DropNode("/managed-ledgers/public", 0), "/managed-ledgers/public", "not empty"),
        (RequireNode(LIST, 1), LIST, "other version"),
        (RequireNode("/gone", 1), "/gone", "gone"),
        (MakeNode(LIST, b"x"), LIST, "there already"),
    ],
)
@pytest.mark.usefixtures("begun")
def test_nothing_of_a_commit_is_done_that_one_node_refuses(
    server: ZooKeeperServer, lock: ClusterLock, operation: SetNode, path: str, found: str
) -> None:
    before = server.nodes, server.versions
    for operations in ([operation, MakeNode("/new", b"")], [DropNode(ATTEMPT, 0), MakeNode("/new", b""), operation]):
        with pytest.raises(ChangedMeanwhileError, match="nothing was changed") as raised:
            lock.commit(operations)
        assert (raised.value.key, raised.value.found) == (path, found)
        assert raised.value.exit_code == 3
        assert (server.nodes, server.versions) == before
    lock.commit([RequireNode(LIST, 0), RequireNode(ATTEMPT, 0)])


@pytest.mark.parametrize("fault", [WriteFault.NONE, WriteFault.LOST_BEFORE])
def test_a_node_that_was_made_anew_is_not_the_one_that_was_read(
    server: ZooKeeperServer, lock: ClusterLock, nodes: Nodes, fault: WriteFault
) -> None:
    """Versions of a node that was deleted begin at 0 again, and may come as far; a commit may be sent several times, too."""
    server.set(LIST, b"a broker's")
    read = nodes.get(LIST)
    server.write_faults.append(fault)
    lock.commit([SetNode.of(read, b"ours")])
    read = nodes.get(LIST)
    server.delete(LIST)
    for _ in range(read.version + 1):
        server.set(LIST, b"another topic's")
    assert server.versions[LIST] == read.version
    with pytest.raises(ChangedMeanwhileError) as raised:
        lock.commit([MakeNode(ATTEMPT, b""), SetNode.of(read, b"ours")])
    assert (raised.value.key, raised.value.found) == (LIST, "other version")
    assert (server.nodes[LIST], ATTEMPT in server.nodes) == (b"another topic's", False)
    server.delete(LIST)
    with pytest.raises(ChangedMeanwhileError) as raised:
        lock.commit([SetNode.of(read, b"ours")])
    assert (raised.value.found, lock.is_lost) == ("gone", False)


def test_nodes_are_read_as_they_are_now_and_one_sync_is_enough_for_many(
    server: ZooKeeperServer, lock: ClusterLock
) -> None:
    paths = [f"/many/{number:03d}" for number in range(300)]
    server.fall_behind()
    for path in paths:
        server.set(path, path.encode())
    before = server.requests[SYNC]
    newest = lock.newest()
    assert newest.children("/many") == [path.rpartition("/")[2] for path in paths]
    found = list(newest.get_many([*paths, "/none"]))
    assert [one.data for one in found[:-1] if not isinstance(one, LedgerfsError)] == [path.encode() for path in paths]
    assert isinstance(found[-1], ObjectNotFoundError)
    assert found[-1].key == "/none"
    assert newest.get(LIST).data == b"list"
    with pytest.raises(ObjectNotFoundError):
        newest.get("/none")
    assert server.requests[SYNC] == before + 1
    server.set(LIST, b"newer")
    server.drop_connections()
    assert newest.get(LIST).data == b"list"
    assert lock.newest().get(LIST).data == b"newer"
    lock.release()
    with pytest.raises(StoreUnreachableError):
        lock.newest()


def test_a_node_of_others_is_named(server: ZooKeeperServer, lock: ClusterLock) -> None:
    server.no_auth(LIST)
    with pytest.raises(AccessDeniedError, match=rf"^{LIST}: .*Nothing was changed"):
        lock.commit([MakeNode("/new", b""), SetNode(LIST, b"x", 0)])
    assert "/new" not in server.nodes
    lock.commit([MakeNode("/new", b"")])


def test_what_is_missing_above_is_made_once(server: ZooKeeperServer, lock: ClusterLock) -> None:
    before = len(server.writes)
    lock.commit([MakeNode("/a/b/c/one", b"1"), MakeNode("/a/b/c/one/below", b"2"), MakeNode("/a/b/d", b"3")])
    assert len(server.writes) - before == 2
    lock.commit([MakeNode("/a/b/c/two", b"4")])
    assert len(server.writes) - before == 3
    assert {path: server.nodes[path] for path in server.nodes if path.startswith("/a/")} == {
        "/a/b": b"",
        "/a/b/c": b"",
        "/a/b/c/one": b"1",
        "/a/b/c/one/below": b"2",
        "/a/b/d": b"3",
        "/a/b/c/two": b"4",
    }


def test_a_folder_that_was_deleted_is_made_again(server: ZooKeeperServer, lock: ClusterLock) -> None:
    lock.commit([MakeNode("/a/b/one", b"1")])
    server.delete("/a")
    lock.commit([MakeNode("/a/b/two", b"2")])
    assert server.nodes["/a/b/two"] == b"2"


def test_a_folder_that_another_makes_meanwhile(server: ZooKeeperServer, lock: ClusterLock) -> None:
    server.at_write = lambda: server.set("/a/b", b"theirs")
    lock.commit([MakeNode("/a/b/one", b"1")])
    assert (server.nodes["/a/b"], server.nodes["/a/b/one"]) == (b"theirs", b"1")


def test_paths_are_below_the_folder_of_the_servers(server: ZooKeeperServer) -> None:
    server.set("/pulsar/x", b"1")
    nodes = Nodes(f"{server.address}/pulsar", timeout_s=PATIENT_S)
    with ClusterLock.take(nodes.settings, HOLDER) as lock:
        lock.commit([SetNode("/x", b"2", 0), MakeNode("/f/y", b"3"), RequireNode("/ledgerfs", 0)])
        assert ClusterLock.holder_of(nodes) is not None
    found = {path: data for path, data in server.nodes.items() if data and path != LIST}
    assert found == {"/pulsar/x": b"2", "/pulsar/f/y": b"3"}
    nodes.close()


def test_a_folder_of_the_servers_is_never_made(server: ZooKeeperServer) -> None:
    nodes = Nodes(f"{server.address}/no/such", timeout_s=PATIENT_S)
    with pytest.raises(BucketNotFoundError):
        ClusterLock.take(nodes.settings, HOLDER)
    assert server.writes == []


def test_one_lock_at_a_time(server: ZooKeeperServer, nodes: Nodes) -> None:
    assert ClusterLock.holder_of(nodes) is None
    began_ms = time.time_ns() // 1_000_000
    first = ClusterLock.take(nodes.settings, HOLDER)
    with pytest.raises(LockHeldError, match=r"held since 20.* by \{\"host\":\"one\",\"pid\":7\}") as raised:
        ClusterLock.take(nodes.settings, b"second")
    assert (raised.value.holder, raised.value.key, raised.value.exit_code) == (HOLDER, LOCK_PATH, 3)
    held = ClusterLock.holder_of(nodes)
    assert held is not None
    assert held == LockHolder(HOLDER, held.since_ms)
    assert began_ms <= held.since_ms <= time.time_ns() // 1_000_000
    first.release()
    assert ClusterLock.holder_of(nodes) is None
    with ClusterLock.take(nodes.settings, b"second") as second:
        second.commit([SetNode(LIST, b"second's", 0)])
        first.release()
        with pytest.raises(LockLostError):
            first.commit([SetNode(LIST, b"first's", 1)])
    assert server.nodes[LIST] == b"second's"


def test_of_many_who_want_it_at_once_one_has_it(server: ZooKeeperServer, nodes: Nodes) -> None:
    def take(number: int) -> ClusterLock | None:
        try:
            return ClusterLock.take(nodes.settings, b"%d" % number)
        except LockHeldError:
            return None

    with ThreadPoolExecutor(6) as pool:
        (taken,) = (one for one in pool.map(take, range(6)) if one)
    taken.commit([])
    taken.release()


@pytest.mark.parametrize("how", ["deleted", "deleted with all", "taken by another", "changed"])
def test_a_lock_that_an_operator_took_away(server: ZooKeeperServer, nodes: Nodes, how: str) -> None:
    """Versions begin at 0 again with the next holder: that both have made so many commits does not bring the first one back."""
    lock = ClusterLock.take(nodes.settings, HOLDER)
    lock.commit([])
    other = None
    if how == "changed":
        server.set(LOCK_PATH, b"mine")
    else:
        server.delete("/ledgerfs" if how == "deleted with all" else LOCK_PATH)
    if how == "taken by another":
        other = ClusterLock.take(nodes.settings, b"other")
        other.commit([])
    before = server.nodes
    with pytest.raises(LockLostError, match="lock of this process") as raised:
        lock.commit([SetNode(LIST, b"x", 0)])
    assert not raised.value.is_uncertain
    assert raised.value.exit_code == 3
    assert lock.is_lost
    assert server.nodes[LIST] == b"list"
    with pytest.raises(LockLostError):
        lock.commit([SetNode(LIST, b"x", 0)])
    lock.release()
    if other is not None:
        assert server.nodes == before
        other.commit([SetNode(LIST, b"other's", 0)])
        other.release()


def test_the_session_ends_between_two_commits(server: ZooKeeperServer, nodes: Nodes) -> None:
    lock = ClusterLock.take(nodes.settings, HOLDER)
    lock.commit([SetNode(LIST, b"first", 0)])
    server.expire_sessions()
    with pytest.raises(LockLostError) as raised:
        lock.commit([SetNode(LIST, b"second", 1)])
    assert server.nodes[LIST] == b"first"
    writes = len(server.writes)
    for _ in range(3):
        with pytest.raises(LockLostError) as raised:
            lock.commit([SetNode(LIST, b"third", 1)])
        assert not raised.value.is_uncertain
    assert len(server.writes) == writes
    with ClusterLock.take(nodes.settings, HOLDER) as next_one:
        next_one.commit([SetNode(LIST, b"fourth", 1)])
    lock.release()


def test_a_session_that_is_over_is_not_renewed(server: ZooKeeperServer, nodes: Nodes) -> None:
    others = kazoo_threads()
    lock = ClusterLock.take(nodes.settings, HOLDER)
    server.expire_sessions()
    wait_until(lambda: lock.is_lost and not kazoo_threads(others), 300)
    made = server.connections_made
    with pytest.raises(LockLostError, match="session with ZooKeeper has ended"):
        lock.commit([])
    lock.release()
    assert not kazoo_threads(others)
    assert server.connections_made == made


@for_each("faults", [[one] for one in LOST] + [[one, other] for one in LOST for other in LOST])
def test_a_commit_whose_answer_is_lost_is_done_once(
    server: ZooKeeperServer, lock: ClusterLock, faults: list[WriteFault]
) -> None:
    version = server.versions[LIST]
    lock.commit([MakeNode(ATTEMPT, b"")])
    server.write_faults.extend(faults)
    lock.commit([SetNode(LIST, b"longer", version), DropNode(ATTEMPT, 0), MakeNode("/new", b"")])
    assert server.versions[LIST] == version + 1
    assert not server.write_faults or faults == [WriteFault.LOST_AFTER, *faults[1:]]
    server.write_faults.clear()
    lock.commit([SetNode(LIST, b"longest", version + 1), DropNode("/new", 0)])
    assert of_users(server) == {LIST: b"longest"}


@pytest.mark.parametrize("fault", LOST)
def test_a_refused_commit_whose_answer_is_lost_is_still_refused(
    server: ZooKeeperServer, nodes: Nodes, fault: WriteFault
) -> None:
    with ClusterLock.take(nodes.settings, HOLDER) as lock:
        server.write_faults.append(fault)
        with pytest.raises(ChangedMeanwhileError):
            lock.commit([SetNode(LIST, b"longer", 5)])
        lock.commit([SetNode(LIST, b"longer", 0)])
    assert server.versions[LIST] == 1


@pytest.mark.parametrize("fault", [WriteFault.EXPIRED_BEFORE, WriteFault.EXPIRED_AFTER])
def test_a_session_that_ends_during_a_commit_leaves_it_uncertain(
    server: ZooKeeperServer, nodes: Nodes, fault: WriteFault
) -> None:
    lock = ClusterLock.take(nodes.settings, HOLDER)
    server.write_faults.append(fault)
    with pytest.raises(LockLostError, match="unknown whether") as raised:
        lock.commit([SetNode(LIST, b"longer", 0)])
    assert raised.value.is_uncertain
    assert (server.nodes[LIST] == b"longer") == (fault is WriteFault.EXPIRED_AFTER)
    before = server.nodes
    with pytest.raises(LockLostError) as raised:
        lock.commit([SetNode(LIST, b"longest", 0)])
    assert not raised.value.is_uncertain
    assert server.nodes == before
    lock.release()


@pytest.mark.parametrize("fault", [WriteFault.LOST_BEFORE, WriteFault.LOST_AFTER])
def test_servers_that_stay_away_during_a_commit_leave_it_uncertain(
    server: ZooKeeperServer, nodes: Nodes, fault: WriteFault
) -> None:
    lock = ClusterLock.take(nodes.settings, HOLDER)
    server.write_faults.append(fault)

    def go_away() -> None:
        give_up_soon(lock)
        server.refuse()

    server.at_write = go_away
    with pytest.raises(LockLostError) as raised:
        lock.commit([SetNode(LIST, b"longer", 0)])
    assert raised.value.is_uncertain
    assert (server.nodes[LIST] == b"longer") == (fault is WriteFault.LOST_AFTER)
    server.at_write = None
    server.listen()
    lock.release()


def test_servers_that_are_away_before_a_commit_make_it_certain_that_it_was_not_done(
    server: ZooKeeperServer, nodes: Nodes
) -> None:
    others = kazoo_threads()
    lock = ClusterLock.take(nodes.settings, HOLDER)
    writes = len(server.writes)
    server.refuse()
    wait_until(lambda: not lock._client.session("/")._client.connected, 300)
    give_up_soon(lock)
    with pytest.raises(LockLostError) as raised:
        lock.commit([SetNode(LIST, b"longer", 0)])
    assert not raised.value.is_uncertain
    server.listen()
    lock.release()
    wait_until(lambda: not kazoo_threads(others), 300)
    assert len(server.writes) == writes
    assert server.nodes[LIST] == b"list"


def test_a_commit_goes_on_when_the_servers_come_again_in_time(server: ZooKeeperServer, lock: ClusterLock) -> None:
    server.refuse()
    timer = threading.Timer(0.2, server.listen)
    timer.start()
    lock.commit([SetNode(LIST, b"longer", 0)])
    assert server.versions[LIST] == 1
    timer.join()


def test_a_commit_that_breaks_each_connection_is_given_up_and_not_done(
    server: ZooKeeperServer, lock: ClusterLock
) -> None:
    # Each try is followed by one that makes sure that it will not be done.
    server.write_faults.extend([WriteFault.LOST_BEFORE, WriteFault.NONE] * 3)
    with pytest.raises(StoreUnreachableError, match=r"every try to commit failed.*nothing was changed"):
        lock.commit([SetNode(LIST, b"longer", 0)])
    assert not lock.is_lost
    lock.commit([SetNode(LIST, b"longest", 0)])


def test_an_answer_that_is_none_is_found_out_about(server: ZooKeeperServer, lock: ClusterLock) -> None:
    def garbled(body: bytes) -> bytes:
        del server.instead[MULTI]
        return (16).to_bytes(4, "big") + body[:16]

    server.instead[MULTI] = garbled
    lock.commit([SetNode(LIST, b"longer", 0)])
    assert server.versions[LIST] == 1
    lock.commit([SetNode(LIST, b"longest", 1)])


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_commit_that_kazoo_answers_and_keeps(server: ZooKeeperServer, nodes: Nodes, is_sent: bool) -> None:
    """kazoo tells an error if waking its thread fails, or is interrupted; the request is in its queue all the same."""

    class Waking:
        def __init__(self, plain: socket.socket) -> None:
            self.plain = plain
            self.failures = 0

        def send(self, data: bytes) -> int:
            if self.failures == 0 or is_sent:
                self.failures += 1
                if is_sent:
                    self.plain.send(data)
                    time.sleep(0.1)
                if self.failures == 1:
                    raise BlockingIOError
            return self.plain.send(data)

        def __getattr__(self, name: str) -> object:
            return getattr(self.plain, name)

    with ClusterLock.take(nodes.settings, HOLDER) as lock:
        connection = lock._client.session("/")._client._connection
        waking = connection._write_sock = Waking(connection._write_sock)
        lock.commit([SetNode(LIST, b"longer", 0)])
        assert waking.failures
        assert server.versions[LIST] == 1
        lock.commit([SetNode(LIST, b"longest", 1)])
        connection._write_sock = waking.plain


@pytest.mark.parametrize("faults", [[one] for one in LOST] + [[WriteFault.LOST_BEFORE, WriteFault.LOST_AFTER]])
def test_a_lock_whose_making_was_not_answered_is_ours_or_made_again(
    server: ZooKeeperServer, nodes: Nodes, faults: list[WriteFault]
) -> None:
    server.write_faults.extend(faults)
    with ClusterLock.take(nodes.settings, HOLDER) as lock:
        assert server.nodes[LOCK_PATH] == HOLDER
        lock.commit([SetNode(LIST, b"longer", 0)])
        with pytest.raises(LockHeldError):
            ClusterLock.take(nodes.settings, b"other")
    assert not any(path.startswith(f"{MARKS_PATH}/") or path == LOCK_PATH for path in server.nodes)


@pytest.mark.parametrize("fault", [WriteFault.EXPIRED_BEFORE, WriteFault.EXPIRED_AFTER])
def test_a_lock_whose_session_ends_while_it_is_made(server: ZooKeeperServer, nodes: Nodes, fault: WriteFault) -> None:
    server.write_faults.append(fault)
    with pytest.raises(StoreUnreachableError):
        ClusterLock.take(nodes.settings, HOLDER)
    with ClusterLock.take(nodes.settings, HOLDER):
        pass


def test_the_lock_of_a_process_that_crashed_is_named_until_its_session_ends(
    server: ZooKeeperServer, nodes: Nodes
) -> None:
    kept = []

    def crash() -> None:
        kept.append(ClusterLock.take(Nodes(server.address, timeout_s=PATIENT_S).settings, b"crashed"))

    assert status_in_child(crash) == 0
    with pytest.raises(LockHeldError, match="by crashed; stop that process, or wait"):
        ClusterLock.take(nodes.settings, HOLDER)
    server.expire_sessions()
    with ClusterLock.take(nodes.settings, HOLDER) as lock:
        lock.commit([])


def test_a_forked_child_writes_nothing(server: ZooKeeperServer, lock: ClusterLock) -> None:
    lock.commit([SetNode(LIST, b"first", 0)])
    before = len(server.writes)

    def child() -> None:
        assert lock.is_lost
        for _ in range(2):
            with pytest.raises(LockLostError, match="forked child"):
                lock.commit([SetNode(LIST, b"child's", 1)])
        lock.release()
        gc.collect()

    assert status_in_child(child) == 0
    assert len(server.writes) == before
    lock.commit([SetNode(LIST, b"second", 1)])


def test_threads_whose_connections_break(server: ZooKeeperServer, nodes: Nodes) -> None:
    faults = [WriteFault.NONE, WriteFault.LOST_AFTER, WriteFault.NONE, WriteFault.LATE, WriteFault.LOST_BEFORE] * 3

    def commit(number: int) -> None:
        lock.commit([MakeNode(f"/made/{number}", b"1")])

    with ClusterLock.take(nodes.settings, HOLDER) as lock:
        server.write_faults.extend(faults)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(commit, range(12)))
    assert sum(path.startswith("/made/") for path in server.nodes) == 12


def test_ctrl_c_during_a_commit_makes_it_the_last(server: ZooKeeperServer, nodes: Nodes) -> None:
    lock = ClusterLock.take(nodes.settings, HOLDER)
    was_interrupted = threading.Event()

    def interrupt() -> None:
        interrupt_in(Answer.wait.__code__)
        was_interrupted.wait(300)

    server.at_write = interrupt
    with contextlib.suppress(KeyboardInterrupt):
        lock.commit([SetNode(LIST, b"longer", 0)])
        pytest.fail("was not interrupted")
    assert lock.is_lost
    server.at_write = None
    was_interrupted.set()
    with pytest.raises(LockLostError) as raised:
        lock.commit([SetNode(LIST, b"longest", 0)])
    assert not raised.value.is_uncertain
    lock.release()


def test_a_lock_that_nobody_uses_any_more_is_given_back(server: ZooKeeperServer, nodes: Nodes) -> None:
    lock = ClusterLock.take(nodes.settings, HOLDER)
    del lock
    gc.collect()
    wait_until(lambda: LOCK_PATH not in server.nodes, 300)


def test_release_of_a_session_that_is_gone(
    server: ZooKeeperServer, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgerfs_cluster.zookeeper.client._END_S", 0.2)
    lock = ClusterLock.take(nodes.settings, HOLDER)
    server.expire_sessions()
    server.refuse()
    # Neither waits for servers that are not there.
    lock.release()
    lock.release()
    server.listen()


def test_a_login_and_one_that_is_refused(server: ZooKeeperServer) -> None:
    nodes = Nodes(server.address, timeout_s=PATIENT_S, username="writer", password="s3cr3t")
    with ClusterLock.take(nodes.settings, HOLDER) as lock:
        lock.commit([])
        assert server.logins == [("digest", b"writer:s3cr3t")]
    server.no_auth(LOCK_PATH)
    with pytest.raises(AccessDeniedError):
        ClusterLock.take(nodes.settings, HOLDER)


def test_what_is_no_change(server: ZooKeeperServer, lock: ClusterLock) -> None:
    for path in ("", "x", "/x/", "//x", "/x/../y", "/", "/\0", "/\udcff"):
        with pytest.raises(InvalidNameError):
            MakeNode(path, b"")
    for version in (-1, -7):
        for make in (DropNode, RequireNode, lambda path, version: SetNode(path, b"", version)):
            with pytest.raises(InvalidOptionError):
                make("/x", version)
    before = len(server.writes)
    for one in (DropNode(LOCK_PATH, 0), SetNode(mark(server), b"9", 0), MakeNode("/x", b"", is_ephemeral=True)):
        with pytest.raises(InvalidNameError):
            lock.commit([one])
    assert len(server.writes) == before


def test_more_than_a_server_takes_at_once_is_refused_before(server: ZooKeeperServer, lock: ClusterLock) -> None:
    before = len(server.writes)
    with pytest.raises(UnsupportedWriteError, match=rf"^{LIST}: the change has 1,\d\d\d,\d\d\d bytes"):
        lock.commit([MakeNode("/x", b"1"), SetNode(LIST, b"x" * (1 << 20), 0)])
    assert len(server.writes) == before
    lock.commit([SetNode(LIST, b"x" * 999_000, 0)])


def test_a_commit_that_is_withdrawn_is_never_sent() -> None:
    unsent, sent = Commit([(13, b"")]), Commit([(13, b"")])
    assert unsent.withdraw()
    with pytest.raises(ConnectionError):
        unsent.serialize()
    assert sent.serialize()
    assert not sent.withdraw()
    with pytest.raises(ConnectionError):
        sent.serialize()


def test_errors_travel_whole_between_processes() -> None:
    errors: list[LedgerfsError] = [
        LockHeldError.of(b"who", "held", "/lock"),
        LockLostError.of("over", "/lock", is_uncertain=True),
        ChangedMeanwhileError.of("gone", "/x"),
    ]
    for error in errors:
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))

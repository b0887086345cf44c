"""Commits, and what they are decided by, with three servers: followers that lag, leaders that die or are deposed, lost quorums.

One server is the whole truth, or gone. Of three, each may know less than the others, and answers all the same.
"""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from interop import machine
from interop.lock_turns import COUNT, ENTRIES, TIMEOUT_S, Client, Holder, Reader, Reported
from interop.processes import Processes
from interop.stages import stage
from interop.waiting import wait_until
from interop.zookeeper_ensemble import SERVERS, Ensemble, orders
from ledgerfs.errors import StoreUnreachableError
from ledgerfs_cluster.errors import ChangedMeanwhileError, LockHeldError
from ledgerfs_cluster.rules.topic_owners import owner_now
from ledgerfs_cluster.snapshot.bundles import NAMESPACES, Owner
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode, SetNode

TOPIC = "public/lagging/persistent/orders"
BUNDLE = f"{NAMESPACES}/public/lagging/0x00000000_0xffffffff"
NODE = "/interop/node"
LONG_S = 9.0
"""A session that does not end while a server is held."""
HOLDS_S = 0.5


@pytest.fixture(scope="module")
def ensemble(folder: Path, processes: Processes) -> Iterator[Ensemble]:
    """Three servers, all of them up before each test."""
    machine.require_commands()
    made = Ensemble(folder / "ensemble", processes)
    with stage("start three ZooKeepers"):
        made.folder.mkdir()
        made.start()
    yield made
    made.close()


@pytest.fixture
def clients(ensemble: Ensemble) -> Iterator[Callable[..., Client]]:
    """Makes clients, with servers in the order that is told, whose sessions live long."""
    made: list[Client] = []

    def client(*order: int) -> Client:
        made.append(Client(ensemble, order, LONG_S))
        return made[-1]

    yield client
    for one in made:
        one.close()
    ensemble.restart(*(one for one in SERVERS if not ensemble.is_up(one)))


@pytest.fixture
def raw(ensemble: Ensemble) -> Iterator[KazooClient]:
    """Somebody else's client, that of a broker say, at the leader."""
    made = KazooClient(ensemble.address(ensemble.leader()), timeout=10)
    made.start()
    yield made
    made.stop()
    made.close()


def taken(client: Client) -> ClusterLock:
    """Take the lock as soon as the one before has gone with its session."""
    found: list[ClusterLock] = []

    def take() -> bool:
        try:
            found.append(ClusterLock.take(client.nodes.settings, b"{}"))
        except LockHeldError:
            return False
        return True

    wait_until(take, "the lock")
    return found[0]


def made(raw: KazooClient, path: str, data: bytes) -> None:
    """Make a node, or set it."""
    raw.ensure_path(path)
    raw.set(path, data)


# Whatever happens, each commit is done once or not at all, and that is what is told.


def test_commits_in_turn_while_all_that_can_fail_does(ensemble: Ensemble, raw: KazooClient) -> None:
    made(raw, COUNT, b"0")
    raw.ensure_path(ENTRIES)
    chance, reported = random.Random(20), Reported()
    clients = [Client(ensemble, order) for order in (*orders(), *orders()[:2])]
    holders = [
        Holder(client, reported, random.Random(number), "abc"[number]) for number, client in enumerate(clients[:3])
    ]
    readers = [Reader(client, reported, random.Random(9)) for client in clients[3:]]
    try:
        for act in chance.sample(_ACTS, len(_ACTS)):
            act(ensemble, clients, reported, chance)
            require_going_on(reported, act.__name__)
    finally:
        for one in (*holders, *readers):
            one.stop()
        for client in clients:
            client.close()
    require_as_reported(ensemble, reported)


def require_going_on(reported: Reported, after: str) -> None:
    before = reported.newest
    wait_until(lambda: reported.wrong or reported.newest > before + 5, f"commits after {after}")
    assert reported.wrong == []


def require_as_reported(ensemble: Ensemble, reported: Reported) -> None:
    """Compare what was told with what there is, as each server has it."""
    assert reported.wrong == []
    assert reported.done, "nothing was done"
    for server in SERVERS:
        client = KazooClient(ensemble.address(server))
        client.start()
        client.sync("/")
        names = client.get_children(ENTRIES)
        there = {f"{ENTRIES}/{name}": int(client.get(f"{ENTRIES}/{name}")[0]) for name in names}
        count = int(client.get(COUNT)[0])
        client.stop()
        client.close()
        assert reported.done.items() <= there.items(), "told as done, and is not"
        assert not reported.not_done & there.keys(), "told as not done, and is"
        assert there.keys() <= reported.done.keys() | reported.uncertain
        # Each number once: none is lost, and none doubled.
        assert sorted(there.values()) == list(range(1, count + 1))
        # The commits of one turn are together: nobody commits once another has the lock.
        turns = [path.rpartition("/")[2].partition("-")[0] for path in sorted(there, key=lambda path: there[path])]
        assert len(set(turns)) == 1 + sum(one != other for one, other in pairwise(turns))


# What is done to the servers, and to the connections of clients, of which the first three are those of holders.

Act = Callable[[Ensemble, list[Client], Reported, random.Random], None]


def _connections_cut(_: Ensemble, clients: list[Client], __: Reported, chance: random.Random) -> None:
    for _number in range(100):
        chance.choice(clients).cut()
        time.sleep(chance.random() * 0.06)


def _clients_lost(_: Ensemble, clients: list[Client], __: Reported, ___: random.Random) -> None:
    with clients[0].lost(), clients[1].lost(), clients[2].lost(), clients[3].lost():
        time.sleep(1.5 * TIMEOUT_S)


def _server_of_all_stopped(ensemble: Ensemble, clients: list[Client], _: Reported, chance: random.Random) -> None:
    """Have all at one follower, which is stopped: what it was sent arrives when they have long moved on."""
    follower = chance.choice(ensemble.followers())
    for client in clients:
        client.lead_to(follower)
    time.sleep(0.5 * TIMEOUT_S)
    with ensemble.paused(follower):
        for client in clients:
            client.lead_back()
        time.sleep(1.2 * TIMEOUT_S)


def _server_of_all_behind(ensemble: Ensemble, clients: list[Client], _: Reported, chance: random.Random) -> None:
    """Have all at one follower, which hears nothing of its leader, but answers: too briefly for a session to end, and then longer."""
    follower = chance.choice(ensemble.followers())
    for seconds in (0.4 * TIMEOUT_S, 1.2 * TIMEOUT_S):
        for client in clients:
            client.lead_to(follower)
        time.sleep(0.3 * TIMEOUT_S)
        with ensemble.behind(follower):
            for client in clients:
                client.lead_back()
            time.sleep(seconds)


def _leader_stopped(ensemble: Ensemble, _: list[Client], __: Reported, ___: random.Random) -> None:
    with ensemble.paused(ensemble.leader()):
        time.sleep(0.6 * TIMEOUT_S)


def _leader_killed(ensemble: Ensemble, _: list[Client], __: Reported, ___: random.Random) -> None:
    leader = ensemble.leader()
    ensemble.kill(leader)
    time.sleep(0.5 * TIMEOUT_S)
    ensemble.restart(leader)


def _quorum_lost(ensemble: Ensemble, _: list[Client], __: Reported, chance: random.Random) -> None:
    killed = chance.sample(SERVERS, 2)
    ensemble.kill(*killed)
    time.sleep(TIMEOUT_S)
    ensemble.restart(*killed)


def _leader_deposed(ensemble: Ensemble, clients: list[Client], reported: Reported, _: random.Random) -> None:
    """Have a holder at a leader that others do not follow any more, for so long that its lock goes, and another one has it."""
    leader = ensemble.leader()
    reported.is_old_read = True
    for client in clients[:2]:
        client.lead_to(leader)
    time.sleep(0.3 * TIMEOUT_S)
    with ensemble.deposed(leader):
        time.sleep(2 * TIMEOUT_S)
    for client in clients:
        client.lead_back()
    ensemble.wait_until_whole()
    # What was asked for before is answered by now, or was given up.
    time.sleep(TIMEOUT_S)
    reported.is_old_read = False


_ACTS: list[Act] = [
    *(_connections_cut, _clients_lost, _server_of_all_stopped, _server_of_all_behind),
    *(_leader_stopped, _leader_killed, _quorum_lost, _leader_deposed),
]


# What a server tells that knows less than the others.


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """For what waits until a server goes on."""
    with ThreadPoolExecutor() as made:
        yield made


def is_waiting(future: "Future[Any]") -> bool:
    """Whether something has no result, for as long as a server is held here."""
    time.sleep(HOLDS_S)
    return not future.done()


def test_a_follower_that_lags_reports_that_no_broker_has_the_topic(
    ensemble: Ensemble, clients: Callable[..., Client], raw: KazooClient, threads: ThreadPoolExecutor
) -> None:
    follower, other = ensemble.followers()
    reading, holder, at_follower = clients(1, 2, 3), clients(3, 2, 1), clients(2, 1, 3)
    for client, server in ((reading, follower), (holder, other), (at_follower, follower)):
        client.lead_to(server)
    # Sessions are made by the leader.
    assert owner_now(reading.nodes, TOPIC) is owner_now(at_follower.nodes, TOPIC) is Owner.NONE
    lock = taken(holder)
    with ensemble.behind(follower):
        made(raw, BUNDLE, b"{}")
        assert owner_now(reading.nodes, TOPIC) is Owner.NONE
        assert owner_now(at_follower.nodes, TOPIC) is Owner.NONE
        assert owner_now(lock.newest(), TOPIC) is Owner.SOME
        caught_up = threads.submit(at_follower.nodes.catch_up)
        assert is_waiting(caught_up)
        assert owner_now(reading.nodes, TOPIC) is Owner.NONE
    caught_up.result()
    assert owner_now(at_follower.nodes, TOPIC) is Owner.SOME
    lock.release()
    raw.delete(BUNDLE)


def test_the_holder_of_the_lock_at_a_follower_that_lags_is_reported_nothing_old(
    ensemble: Ensemble, clients: Callable[..., Client], raw: KazooClient, threads: ThreadPoolExecutor
) -> None:
    follower, _ = ensemble.followers()
    holder, reading = clients(1, 2, 3), clients(1, 2, 3)
    made(raw, NODE, b"1")
    for client in (holder, reading):
        client.lead_to(follower)
    reading.nodes.catch_up()
    lock = taken(holder)
    with ensemble.behind(follower):
        raw.set(NODE, b"2")
        assert reading.nodes.get(NODE).data == b"1"
        found = threads.submit(lock.node, NODE)
        assert is_waiting(found)
    node = found.result()
    assert node is not None
    assert node.data == b"2"
    with ensemble.behind(follower):
        raw.set(NODE, b"3")
        newest = threads.submit(lambda: lock.newest().get(NODE).data)
        assert is_waiting(newest)
    assert newest.result() == b"3"
    lock.release()


@pytest.mark.parametrize("is_new_session", [False, True])
def test_a_server_that_knows_less_than_was_read_is_not_used(
    ensemble: Ensemble,
    clients: Callable[..., Client],
    raw: KazooClient,
    threads: ThreadPoolExecutor,
    is_new_session: bool,
) -> None:
    follower, other = ensemble.followers()
    reading, holder = clients(1, 2, 3), clients(2, 3, 1)
    made(raw, NODE, b"1")
    for client in (reading, holder):
        client.lead_to(other)
    lock = taken(holder)
    with ensemble.behind(follower):
        raw.set(NODE, b"2")
        reading.nodes.catch_up()
        assert reading.nodes.get(NODE).data == b"2"
        lock.commit([])
        before = ensemble.log(follower).count("Refusing session")
        if is_new_session:
            reading.nodes.close()
        for client in (reading, holder):
            client.lead_to(follower)
        read = threads.submit(reading.nodes.get, NODE)
        committed = threads.submit(lock.commit, [MakeNode(f"{NODE}/below{is_new_session}", b"")])
        wait_until(lambda: ensemble.log(follower).count("Refusing session") >= before + 4, "refusals")
        assert not read.done()
        assert not committed.done()
        for client in (reading, holder):
            client.lead_back()
        assert read.result().data == b"2"
        committed.result()
    lock.release()


def test_a_server_without_a_quorum_is_not_used(
    ensemble: Ensemble, clients: Callable[..., Client], raw: KazooClient
) -> None:
    reading, holder = clients(1, 2, 3), clients(2, 3, 1)
    made(raw, NODE, b"1")
    lock = taken(holder)
    reading.nodes.catch_up()
    assert reading.nodes.get(NODE).data == b"1"
    left, *killed = SERVERS
    ensemble.kill(*killed)
    wait_until(lambda: ensemble.mode(left) == "read-only", "a server that only reads")
    impatient = Client(ensemble, (1, 2, 3))
    before = ensemble.log(left).count("not-read-only client")
    with pytest.raises(StoreUnreachableError):
        impatient.nodes.get(NODE)
    assert ensemble.log(left).count("not-read-only client") > before
    ensemble.restart(*killed)
    assert impatient.nodes.get(NODE).data == b"1"
    impatient.close()
    assert reading.nodes.get(NODE).data == b"1"
    lock.commit([])
    lock.release()


def test_a_leader_that_does_not_know_that_it_is_deposed(
    ensemble: Ensemble, clients: Callable[..., Client], raw: KazooClient, threads: ThreadPoolExecutor
) -> None:
    """It answers a sync by itself, and wrongly; a commit it cannot do. So what is read behind a commit is right even then."""
    leader = ensemble.leader()
    reading, holder = clients(1, 2, 3), clients(2, 3, 1)
    made(raw, NODE, b"1")
    version = raw.get(NODE)[1].version
    for client in (reading, holder):
        client.lead_to(leader)
    reading.nodes.catch_up()
    lock = taken(holder)
    with ensemble.deposed(leader):
        others = KazooClient(ensemble.address(*(one for one in SERVERS if one != leader)))
        others.start()
        others.set(NODE, b"2")
        reading.nodes.catch_up()
        assert reading.nodes.get(NODE).data == b"1"
        node = lock.node(NODE)
        assert node is not None
        assert node.data == b"1"
        # By what the old leader tells; then nothing at all, and what is read behind it.
        decided = threads.submit(lock.commit, [SetNode(NODE, b"3", version)])
        assert is_waiting(decided)
        assert others.get(NODE)[0] == b"2"
        for client in (reading, holder):
            client.lead_back()
            client.cut()
    with pytest.raises(ChangedMeanwhileError):
        decided.result()
    lock.commit([])
    found = lock.newest().get(NODE)
    assert found.data == others.get(NODE)[0] == b"2"
    # Without a commit, one who came back to the old leader reads what is new once that one has noticed.
    ensemble.wait_until_whole()
    reading.nodes.catch_up()
    assert reading.nodes.get(NODE).data == b"2"
    others.stop()
    others.close()
    lock.release()

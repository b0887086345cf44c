"""What faults of a store become: the right bytes after a retry, or our error that names object and offset, in bounded time."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import fsspec
import pytest

from ledgerfs.errors import (
    AccessDeniedError,
    LedgerfsError,
    ObjectNotFoundError,
    StoreError,
    StoreUnreachableError,
)
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.traffic import Traffic
from tests.support.each import for_each
from tests.support.s3 import CREDENTIALS, Fault, FaultProxy, S3Server
from tests.support.tries import without_pauses
from tests.support.waiting import wait_until

BODY = bytes(range(256)) * 40
REFUSALS = ["429", "500", "502", "503", "504", "reset"]
HANGS = ["hang", "stall"]
WRONG_BODIES = ["short", "cut", "longer", "endless", "unranged", "shifted"]
Faulty = Callable[..., ObjectStore]


@pytest.fixture(scope="module")
def shared_proxy(s3: S3Server) -> Iterator[FaultProxy]:
    """One proxy for all tests: s3fs makes a client for each endpoint, which takes its time."""
    made = FaultProxy(s3.address).start()
    s3.make_bucket("faults", {})
    yield made
    made.stop()


@pytest.fixture
def proxy(shared_proxy: FaultProxy) -> FaultProxy:
    shared_proxy.faults = []
    shared_proxy.seen.clear()
    return shared_proxy


@pytest.fixture
def faulty(proxy: FaultProxy, s3: S3Server) -> Faulty:
    """Return a store over the object ``a`` with some faults, and with options of the filesystem; nothing was counted yet."""
    s3.client.put_object(Bucket="faults", Key="a", Body=BODY)
    made: dict[str, Any] = {}

    def make(*faults: Fault, **options: Any) -> ObjectStore:
        proxy.faults = list(faults)
        store = made.get(str(options))
        if store is None:
            store = made[str(options)] = open_store(fsspec.filesystem("s3", **proxy.options, **options), "faults")
        # Its client is made once a test, which takes longer than most requests.
        store.traffic = Traffic()
        return store

    return make


@pytest.fixture
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)


@for_each("kind", [*REFUSALS, *WRONG_BODIES])
@pytest.mark.usefixtures("_without_pauses")
def test_a_fault_that_passes_is_retried(kind: str, faulty: Faulty) -> None:
    store = faulty(Fault(kind, times=1))
    assert store.read(ReadRequest("a", 1000, 3000)) == BODY[1000:3000]
    stats = store.traffic.stats()
    assert (stats.requests, stats.retries, stats.bytes_asked) == (2, 1, 4000)


@for_each("kind", HANGS)
def test_a_request_that_hangs_is_given_up_and_sent_again(kind: str, faulty: Faulty) -> None:
    """On a busy machine a request that does not hang may be given up, too: more tries follow, for minutes."""
    store = faulty(fault := Fault(kind, times=1), config_kwargs={"read_timeout": 0.3})
    assert store.read(ReadRequest("a", 1000, 3000)) == BODY[1000:3000]
    stats = store.traffic.stats()
    assert fault.times == 0
    assert stats.retries >= 1
    assert (stats.requests, stats.bytes_asked) == (stats.retries + 1, 2000 * stats.requests)


@for_each("kind", [*REFUSALS, *WRONG_BODIES])
@pytest.mark.usefixtures("_without_pauses")
def test_a_fault_that_stays_is_our_error_in_bounded_time(kind: str, faulty: Faulty) -> None:
    store = faulty(Fault(kind))
    error = error_of_each_reader(store)
    assert store.traffic.stats().retries >= 4
    if kind == "unranged":
        assert "ignored the range" in error.reason


@for_each("kind", HANGS)
def test_a_store_that_always_hangs_is_our_error_in_bounded_time(
    kind: str, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two readers gives up several tries."""
    without_pauses(monkeypatch, patience_s=0.2)
    store = faulty(Fault(kind))
    error_of_each_reader(store)
    assert store.traffic.stats().retries >= 2


def error_of_each_reader(store: ObjectStore) -> StoreError:
    """Read one by one, and many, at once; return the error of the first, after a check of both."""
    with ThreadPoolExecutor(2) as threads:
        many = threads.submit(list, store.read_many([ReadRequest("a", 1000, 3000)]))
        with pytest.raises(StoreError, match=r"tried \d+ times") as caught:
            store.read(ReadRequest("a", 1000, 3000))
        (outcome,) = many.result()
    assert (caught.value.key, caught.value.offset) == ("a", 1000)
    assert isinstance(outcome, StoreError)
    assert (outcome.key, outcome.offset) == ("a", 1000)
    return caught.value


@for_each(("status", "error", "heads"), [("404", ObjectNotFoundError, 1), ("403", AccessDeniedError, 2)])
def test_refusals_are_reported_at_once(
    status: str, error: type[LedgerfsError], heads: int, faulty: Faulty, proxy: FaultProxy
) -> None:
    """An answer to HEAD has no body with a reason: a 403 may mean old credentials, so one more is sent with new ones."""
    store = faulty(Fault(status, matches=lambda method, path, headers: True))
    proxy.seen.clear()
    with pytest.raises(error) as caught:
        store.read(ReadRequest("a", 5, 10))
    assert (caught.value.key, caught.value.offset) == ("a", 5)
    with pytest.raises(error):
        store.head("a")
    assert [one.method for one in proxy.seen] == ["GET", *["HEAD"] * heads]


@pytest.mark.usefixtures("_without_pauses")
def test_listings_and_heads_are_retried(faulty: Faulty) -> None:
    store = faulty(Fault("503", times=2, matches=lambda method, path, headers: True))
    assert [stat.key for page in store.list_pages() for stat in page] == ["a"]
    assert store.traffic.stats().retries == 2
    store = faulty(Fault("500", times=2, matches=lambda method, path, headers: method == "HEAD"))
    assert store.head("a").stat.size == len(BODY)
    assert store.traffic.stats().retries == 2


def test_a_cancelled_read_gives_its_connection_back(faulty: Faulty, proxy: FaultProxy) -> None:
    """At the latest when the client's time-out is over, for which the proxy waits."""
    store = faulty(Fault("hang"), config_kwargs={"read_timeout": 0.5})
    hanging = [store.start(ReadRequest("a", i, i + 10)) for i in range(40)]
    wait_until(lambda: len(proxy.seen) >= len(hanging), 300)
    for one in hanging:
        assert one.cancel()
    wait_until(lambda: not proxy.is_busy, 300)
    proxy.faults = []
    assert bytes(store.start(ReadRequest("a", 3, 9)).result(timeout=300)) == BODY[3:9]
    with pytest.raises(CancelledError):
        hanging[0].result()


def test_a_cancelled_read_is_not_tried_again(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops at once, and not after the half hour for which it would try."""
    monkeypatch.setenv("LEDGERFS_STORE_TIMEOUT", "2400")
    store = faulty(Fault("503"))
    reading = store.start(ReadRequest("a", 3, 9))
    wait_until(lambda: store.traffic.stats().retries >= 1, 300)
    assert _tasks_of(store)
    assert reading.cancel()
    wait_until(lambda: not _tasks_of(store), 300)


def _tasks_of(store: Any) -> list[str]:
    """Return the reads that the event loop is busy with."""
    tasks = asyncio.all_tasks(store._handle.fs.loop)
    return [name for task in tasks if "_read" in (name := task.get_coro().__qualname__)]


# Stores that are not there, or show nothing.


def test_s3_without_credentials_says_so(s3: S3Server) -> None:
    store = open_store(fsspec.filesystem("s3", endpoint_url=s3.endpoint), "golden")
    with pytest.raises(AccessDeniedError, match="credentials"):
        list(store.list_pages())


def test_no_repr_shows_credentials(s3: S3Server, s3_bucket: str) -> None:
    store = open_store(fsspec.filesystem("s3", **s3.options), s3_bucket)
    assert CREDENTIALS["secret"] not in repr(store) + repr(store._handle) + store.url
    memory = open_store(fsspec.filesystem("memory"), "/x")
    assert "@" not in memory.url


def test_a_store_that_is_not_there_is_unreachable_soon(
    monkeypatch: pytest.MonkeyPatch, s3: S3Server, s3_bucket: str
) -> None:
    """A store that answered before may be restarting, and is tried for minutes; another one is tried for five seconds."""
    without_pauses(monkeypatch, bound_s=240)
    proxy = FaultProxy(s3.address).start()
    fs = fsspec.filesystem("s3", **proxy.options)
    known, unknown = open_store(fs, s3_bucket), open_store(fs, s3_bucket)
    list(known.list_pages())
    proxy.stop()
    for store in (known, unknown):
        with pytest.raises(StoreUnreachableError):
            list(store.list_pages())
    # Pauses of 0.1 to 0.8 s are the first four; all later ones have less than 5 s.
    assert 4 <= unknown.traffic.stats().requests <= 8
    assert known.traffic.stats().requests >= 36

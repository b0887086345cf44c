"""What faults of a store become: the right bytes after a retry, or our error that names object and offset, in bounded time."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor

import fsspec
import pytest

from ledgerfs.errors import AccessDeniedError, LedgerfsError, ObjectNotFoundError, StaleObjectError, StoreError
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.opening import open_store
from tests.support.s3 import Fault, FaultProxy, S3Server

BODY = bytes(range(256)) * 40
REFUSALS = ["429", "500", "502", "503", "504", "reset"]
HANGS = ["hang", "stall"]
WRONG_BODIES = ["short", "cut", "longer", "endless", "unranged", "shifted"]
Faulty = Callable[..., ObjectStore]


@pytest.fixture(scope="module")
def shared_proxy(s3: S3Server) -> Iterator[FaultProxy]:
    """One proxy for all tests: s3fs makes a client for each endpoint, which takes longer than some of the bounds here."""
    made = FaultProxy(s3.address).start()
    s3.make_bucket("faults", {})
    list(open_store(fsspec.filesystem("s3", **made.options), "faults").list_pages())
    yield made
    made.stop()


@pytest.fixture
def proxy(shared_proxy: FaultProxy) -> FaultProxy:
    shared_proxy.faults = []
    shared_proxy.seen.clear()
    return shared_proxy


@pytest.fixture
def faulty(proxy: FaultProxy, s3: S3Server) -> Faulty:
    """Make a store over the object ``a`` that fails as told."""
    s3.client.put_object(Bucket="faults", Key="a", Body=BODY)

    def make(*faults: Fault) -> ObjectStore:
        proxy.faults = list(faults)
        return open_store(fsspec.filesystem("s3", **proxy.options), "faults")

    return make


def whole_timeout(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setenv("LEDGERFS_STORE_TIMEOUT", str(seconds))


@pytest.mark.parametrize("kind", [*REFUSALS, *HANGS, *WRONG_BODIES])
def test_a_fault_that_passes_is_retried(kind: str, faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind in HANGS:
        # A quarter of it is waited for the one that hangs; the next is waited for as long.
        whole_timeout(monkeypatch, 12)
    store = faulty(Fault(kind, times=1))
    assert store.read(ReadRequest("a", 1000, 3000)) == BODY[1000:3000]
    stats = store.traffic.stats()
    assert (stats.requests, stats.retries, stats.bytes_asked) == (2, 1, 4000)


@pytest.mark.parametrize("kind", [*REFUSALS, *HANGS, *WRONG_BODIES])
def test_a_fault_that_stays_is_our_error_in_bounded_time(
    kind: str, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_timeout(monkeypatch, 2)
    store = faulty(Fault(kind))
    began = time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        many = threads.submit(list, store.read_many([ReadRequest("a", 1000, 3000)]))
        with pytest.raises(StoreError, match=r"tried \d+ times") as caught:
            store.read(ReadRequest("a", 1000, 3000))
        (outcome,) = many.result()
    assert time.monotonic() - began < 60
    assert (caught.value.key, caught.value.offset) == ("a", 1000)
    assert isinstance(outcome, StoreError)
    assert (outcome.key, outcome.offset) == ("a", 1000)
    # One that hangs is given a quarter of the time, by each of the two readers.
    assert store.traffic.stats().retries >= (2 if kind in HANGS else 4)
    if kind == "unranged":
        assert "ignored the range" in caught.value.reason


def test_a_store_that_refuses_quickly_is_asked_five_times_and_more(faulty: Faulty) -> None:
    store = faulty(Fault("503", times=4))
    assert store.read(ReadRequest("a", 0, 10)) == BODY[:10]
    assert store.traffic.stats().requests == 5


def test_a_range_that_is_ignored_is_not_even_read(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_timeout(monkeypatch, 0.5)
    for start, end in [(1, len(BODY)), (0, 100), (500, 600)]:
        store = faulty(Fault("unranged"))
        with pytest.raises(StoreError):
            store.read(ReadRequest("a", start, end))
        assert store.traffic.stats().bytes_received == 0


def test_a_body_that_comes_slowly_but_steadily_is_waited_for(faulty: Faulty) -> None:
    store = faulty(Fault("slow"))
    assert store.read(ReadRequest("a", 0, len(BODY))) == BODY
    assert store.traffic.stats().requests == 1


@pytest.mark.parametrize(("status", "error"), [("404", ObjectNotFoundError), ("403", AccessDeniedError)])
def test_refusals_are_told_at_once(status: str, error: type[LedgerfsError], faulty: Faulty, proxy: FaultProxy) -> None:
    store = faulty(Fault(status, matches=lambda method, path, headers: True))
    with pytest.raises(error) as caught:
        store.read(ReadRequest("a", 5, 10))
    assert (caught.value.key, caught.value.offset) == ("a", 5)
    with pytest.raises(error):
        store.head("a")
    assert [one.method for one in proxy.seen] == ["GET", "HEAD"]


def test_another_version_than_asked_is_never_used(faulty: Faulty, proxy: FaultProxy) -> None:
    store = faulty(Fault("replaced"))
    version = store.head("a").stat.version
    proxy.seen.clear()
    with pytest.raises(StaleObjectError) as caught:
        store.read(ReadRequest("a", 1000, 3000, version))
    assert (caught.value.key, caught.value.offset) == ("a", 1000)
    assert len(proxy.seen) == 1
    proxy.faults = []
    assert store.read(ReadRequest("a", 1000, 3000, version)) == BODY[1000:3000]


def test_an_object_that_shrank_is_told_at_once(faulty: Faulty, s3: S3Server) -> None:
    store = faulty()
    before = store.head("a").stat.version
    s3.client.put_object(Bucket="faults", Key="a", Body=BODY[:10])
    now = store.head("a").stat.version
    for start in (5, 5000):
        with pytest.raises(StaleObjectError):
            store.read(ReadRequest("a", start, 6000, before))
        for version in (now, ""):
            with pytest.raises(StoreError, match="it has 10 bytes") as caught:
                store.read(ReadRequest("a", start, 6000, version))
            assert (caught.value.key, caught.value.offset) == ("a", start)
    assert store.traffic.stats().retries == 0


def test_listings_and_heads_are_retried(faulty: Faulty) -> None:
    store = faulty(Fault("503", times=2, matches=lambda method, path, headers: True))
    assert [stat.key for page in store.list_pages() for stat in page] == ["a"]
    assert store.traffic.stats().retries == 2
    store = faulty(Fault("500", times=2, matches=lambda method, path, headers: method == "HEAD"))
    assert store.head("a").stat.size == len(BODY)
    assert store.traffic.stats().retries == 2


def test_a_cancelled_read_gives_its_connection_back(faulty: Faulty, proxy: FaultProxy) -> None:
    store = faulty(Fault("hang"))
    hanging = [store.start(ReadRequest("a", i, i + 10)) for i in range(64)]  # as many as there are connections
    while len(proxy.seen) < len(hanging):
        time.sleep(0.01)
    for one in hanging:
        assert one.cancel()
    proxy.faults = []
    assert store.start(ReadRequest("a", 3, 9)).result(timeout=60) == BODY[3:9]
    with pytest.raises(CancelledError):
        hanging[0].result()


def test_a_cancelled_read_is_not_tried_again(faulty: Faulty, proxy: FaultProxy) -> None:
    def tries() -> int:
        # What tests before this one have cancelled may be on its way still.
        return [one.range for one in proxy.seen].count("bytes=3-8")

    reading = faulty(Fault("503")).start(ReadRequest("a", 3, 9))
    while tries() < 2:
        time.sleep(0.01)
    assert reading.cancel()
    time.sleep(0.3)  # for one that is under way
    seen = tries()
    time.sleep(0.5)
    assert tries() == seen

"""Test reads: every method returns exactly the requested bytes, or raises a ledgerfs error with the object."""

import errno
import os
import pickle
import random
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StoreError
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.testing.stores.listed import version_of
from ledgerfs.testing.stores.place import StorePlace

BODY = bytes(range(256)) * 40
SIZE = len(BODY)
RANGES = ((0, SIZE), (0, 1), (100, 5000), (255, 257), (SIZE - 1, SIZE), (7, 7), (0, 0), (SIZE, SIZE))
BEHIND = ((SIZE - 10, SIZE + 10), (0, SIZE + 1), (SIZE, SIZE + 1), (SIZE + 5, SIZE + 9), (SIZE * 1000, SIZE * 1001))


class ReadingTests:
    """Tests of `read`, `start`, `send` and `read_many` for objects that do not change."""

    def test_any_range_is_exactly_its_bytes(self, place: StorePlace) -> None:
        place.put("a", BODY)
        version = version_of(place.store, "a")
        for start, end in RANGES:
            for request in (ReadRequest("a", start, end, version), ReadRequest("a", start, end)):
                assert place.store.read(request) == BODY[start:end], request
                assert bytes(place.store.start(request).result()) == BODY[start:end], request

    def test_objects_in_folders_are_read_by_their_keys(self, place: StorePlace) -> None:
        place.put("folder/of folders/a", BODY)
        place.put("folder/a", b"other")
        assert place.store.read(ReadRequest("folder/of folders/a", 3, 900)) == BODY[3:900]
        assert place.store.read(ReadRequest("folder/a", 0, 5)) == b"other"

    def test_a_range_past_the_end_is_an_error_and_no_short_body(self, place: StorePlace, tmp_path: Path) -> None:
        place.put("a", BODY)
        place.put("empty", b"")
        for key, start, end in (*(("a", *one) for one in BEHIND), ("empty", 0, 1)):
            request = ReadRequest(key, start, end)
            for error in errors_of(place.store, request, tmp_path / "out"):
                assert isinstance(error, StoreError), request
                assert (error.key, error.offset) == (key, start), request

    def test_what_is_missing_is_named_in_any_way_of_reading(self, place: StorePlace, tmp_path: Path) -> None:
        place.put("a", BODY)
        for key in ("missing", "no/such/folder", "aa"):
            for error in errors_of(place.store, ReadRequest(key, 5, 9), tmp_path / "out"):
                assert isinstance(error, ObjectNotFoundError)
                assert (error.key, error.offset) == (key, 5)

    def test_many_are_read_in_order_with_errors_in_their_places(self, place: StorePlace) -> None:
        place.put("a", BODY)
        requests = [ReadRequest("a", i, i + 3) for i in range(100)]
        requests[50] = ReadRequest("missing", 0, 3)
        requests[70] = ReadRequest("a", SIZE - 1, SIZE + 1)
        outcomes = list(place.store.read_many(iter(requests)))
        assert len(outcomes) == 100
        for i, outcome in enumerate(outcomes):
            if i in {50, 70}:
                assert isinstance(outcome, LedgerfsError), i
                assert outcome.key == requests[i].key
            else:
                assert outcome == BODY[i : i + 3], i
        assert list(place.store.read_many([])) == []

    def test_reading_many_can_be_left_and_never_looks_far_ahead(self, place: StorePlace) -> None:
        body = BODY * 100
        size = len(body) - 100
        place.put("a", body)
        taken = 0

        def endless() -> Iterator[ReadRequest]:
            nonlocal taken
            for taken in range(10_000):
                yield ReadRequest("a", taken % 100, taken % 100 + size)

        outcomes = iter(place.store.read_many(endless()))
        assert [next(outcomes) for _ in range(3)] == [body[i : i + size] for i in range(3)]
        del outcomes
        assert taken < 5000
        assert place.store.read(ReadRequest("a", 1, 9)) == body[1:9]

    def test_bytes_are_sent_to_any_descriptor(self, place: StorePlace, tmp_path: Path) -> None:
        place.put("a", BODY)
        request = ReadRequest("a", 10, 9000, version_of(place.store, "a"))
        for flags in (os.O_WRONLY, os.O_WRONLY | os.O_APPEND):
            target = tmp_path / "out"
            descriptor = os.open(target, flags | os.O_CREAT | os.O_TRUNC)
            place.store.send(request, descriptor)
            os.close(descriptor)
            assert target.read_bytes() == BODY[10:9000]

    def test_bytes_are_sent_to_a_pipe_that_takes_a_few_at_a_time(self, place: StorePlace) -> None:
        body = BODY * 50
        place.put("a", body)
        end, beginning = os.pipe()
        os.set_blocking(beginning, False)
        with ThreadPoolExecutor(1) as threads, os.fdopen(end, "rb") as pipe:
            received = threads.submit(pipe.read)
            place.store.send(ReadRequest("a", 1, len(body)), beginning)
            os.close(beginning)
            assert received.result() == body[1:]

    def test_an_error_of_the_descriptor_is_reported_as_it_is(self, place: StorePlace) -> None:
        place.put("a", BODY)
        end, beginning = os.pipe()
        os.close(end)
        with pytest.raises(OSError) as caught:  # noqa: PT011  (errno is checked below)
            place.store.send(ReadRequest("a", 0, SIZE), beginning)
        os.close(beginning)
        assert caught.value.errno == errno.EPIPE
        assert not isinstance(caught.value, LedgerfsError)

    def test_reads_begin_together(self, place: StorePlace) -> None:
        place.put("a", BODY)
        version = version_of(place.store, "a")
        begun = [place.store.start(ReadRequest("a", i, i + 100, version)) for i in range(40)]
        assert [bytes(one.result()) for one in reversed(begun)] == [BODY[i : i + 100] for i in reversed(range(40))]

    def test_a_read_that_is_cancelled_harms_no_other(self, place: StorePlace) -> None:
        place.put("a", BODY)
        begun = [place.store.start(ReadRequest("a", i, i + 2000)) for i in range(40)]
        for one in begun[::2]:
            one.cancel()
        for i, one in enumerate(begun):
            try:
                assert bytes(one.result()) == BODY[i : i + 2000]
            except CancelledError:
                assert i % 2 == 0, "it was cancelled, but the test did not cancel it"
        assert place.store.read(ReadRequest("a", 3, 9)) == BODY[3:9]

    def test_threads_share_a_store(self, place: StorePlace) -> None:
        for name in "abcd":
            place.put(name, name.encode() + BODY)
        wrong: list[object] = []

        def use(seed: int) -> None:
            chance = random.Random(seed)  # noqa: S311
            for _ in range(12):
                name, start = chance.choice("abcd"), chance.randrange(SIZE)
                end = chance.randrange(start, SIZE)
                got = place.store.read(ReadRequest(name, start, end))
                if got != (name.encode() + BODY)[start:end]:
                    wrong.append((name, start, end))
            if sorted(stat.key for page in place.store.list_pages() for stat in page) != list("abcd"):
                wrong.append("a listing")

        threads = [threading.Thread(target=use, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_a_pickle_is_the_same_store(self, place: StorePlace) -> None:
        place.put("a", BODY)
        again: ObjectStore = pickle.loads(pickle.dumps(place.store))
        assert (again.url, again.is_remote) == (place.store.url, place.store.is_remote)
        assert again.read(ReadRequest("a", 3, 9, version_of(place.store, "a"))) == BODY[3:9]
        assert again.traffic.stats().bytes_asked <= 6

    def test_a_forked_child_reads_on_its_own(self, place: StorePlace) -> None:
        place.put("a", BODY)
        assert bytes(place.store.start(ReadRequest("a", 0, 9)).result()) == BODY[:9]
        child = os.fork()
        if child == 0:
            os._exit(_is_readable(place.store))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert place.store.read(ReadRequest("a", 3, 9)) == BODY[3:9]

    def test_what_was_asked_of_the_store_is_counted(self, place: StorePlace) -> None:
        place.put("a", BODY)
        before = place.store.traffic.stats()
        place.store.read(ReadRequest("a", 10, 510))
        after = place.store.traffic.stats()
        assert after.requests > before.requests
        assert after.bytes_asked - before.bytes_asked == 500
        assert after.bytes_received - before.bytes_received == 500


def errors_of(store: ObjectStore, request: ReadRequest, file: Path) -> list[LedgerfsError]:
    """Return the error of each way of reading; it must be a ledgerfs error."""
    (many,) = store.read_many([request])
    assert isinstance(many, LedgerfsError), f"read_many yields bytes for {request}"
    with pytest.raises(LedgerfsError) as read:
        store.read(request)
    with pytest.raises(LedgerfsError) as started:
        store.start(request).result()
    with file.open("wb") as out, pytest.raises(LedgerfsError) as sent:
        store.send(request, out.fileno())
    return [many, read.value, started.value, sent.value]


def _is_readable(store: ObjectStore) -> int:
    """Read in each way, in a child process; return its exit code."""
    try:
        request = ReadRequest("a", 3, 9)
        got = [store.read(request), bytes(store.start(request).result()), *store.read_many([request])]
        return 0 if got == [BODY[3:9]] * 3 else 1
    except BaseException:  # noqa: BLE001  (a child of a test must always exit)
        return 2

"""The suite for stores fails, by the right test, for a store that breaks one promise, and for none that keeps them all."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.errors import ObjectNotFoundError
from ledgerfs.storage.folders import store as folder_store
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest
from ledgerfs.testing import FolderPlace, WritableStoreTests
from tests.support.each import for_each


class Broken:
    """A store that passes everything on to a folder, until something of it is replaced."""

    def __init__(self, store: LocalStore) -> None:
        self.real = store
        self.writes: Any = BrokenWrites(store.writes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.real, name)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.real,))


class BrokenWrites:
    def __init__(self, writes: Any) -> None:
        self.real = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class BrokenPlace:
    def __init__(self, folder: Path, kind: type[Broken]) -> None:
        self._place = FolderPlace(folder)
        self.store = kind(self._place.store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)


def broken(**methods: Any) -> type[Broken]:
    """Return a store with other methods; each gets the store, whose ``real`` is the sound one."""
    return type("OneBroken", (Broken,), methods)


def broken_writes(**methods: Any) -> type[Broken]:
    """Return a store whose ``writes`` has other methods; each gets the sound store."""

    def begin(self: Broken, store: LocalStore) -> None:
        Broken.__init__(self, store)
        for name, method in methods.items():
            setattr(self.writes, name, partial(method, store))

    return broken(__init__=begin)


def broken_uploads(kind: type[BrokenWrites]) -> type[Broken]:
    return broken_writes(
        begin_upload=lambda store, key, metadata, size: kind(store.writes.begin_upload(key, metadata, size))
    )


def padded(self: Any, request: ReadRequest) -> bytes:
    size = self.real.head(request.key).stat.size
    data = self.real.read(replace(request, start=min(request.start, size), end=min(request.end, size)))
    return bytes(data) + bytes(request.end - request.start - len(data))


def with_error_of_python(self: Any, request: ReadRequest) -> Any:
    try:
        return self.real.read(request)
    except ObjectNotFoundError as error:
        raise FileNotFoundError(error.key) from error


def with_error_of_no_object(self: Any, request: ReadRequest) -> Any:
    try:
        return self.real.read(request)
    except ObjectNotFoundError as error:
        raise ObjectNotFoundError(error.reason) from error


class CancelsItsNeighbour(Broken):
    last: Any = None

    def start(self, request: ReadRequest) -> Any:
        future: Future[Any] = Future()
        before, self.last = self.last, future

        class Pending:
            def result(self) -> Any:
                if not future.done():
                    future.set_result(bytes(store.real.start(request).result()))
                return future.result()

            def cancel(self) -> None:
                if before is not None:
                    before.cancel()

        store = self
        return Pending()


class KeepsItsListing(Broken):
    kept: Any = None

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        if self.kept is None:
            self.kept = list(self.real.list_pages(prefix))
        return iter(self.kept)


def listed_one_level(self: Any, folder: str) -> Iterator[list[ObjectStat]]:
    for page in self.real.list_folder(folder):
        yield [stat for stat in page if "/" not in stat.key.removeprefix(folder)]


def head_without_folders(self: Any, key: str) -> ObjectHead:
    head = self.real.head(key)
    return replace(head, stat=replace(head.stat, key=key.rpartition("/")[2]))


def head_of_other_version(self: Any, key: str) -> ObjectHead:
    head = self.real.head(key)
    return replace(head, stat=replace(head.stat, version=f'"{head.stat.version}"'))


def head_of_version_1(self: Any, key: str) -> ObjectHead:
    head = self.real.head(key)
    return replace(head, stat=replace(head.stat, version="1"))


def listed_as_version_1(self: Any, prefix: str = "") -> Iterator[list[ObjectStat]]:
    return ([replace(stat, version="1") for stat in page] for page in self.real.list_pages(prefix))


def put_over(store: LocalStore, key: str, data: bytes, metadata: Any) -> Any:
    store.writes.delete(key)
    return store.writes.put(key, data, metadata)


def put_blindly(store: LocalStore, key: str, data: bytes, metadata: Any) -> ObjectStat:
    Path(store.url.removeprefix("file://"), key).write_bytes(data)
    return store.head(key).stat


class LosesItsLastPart(BrokenWrites):
    """The bytes that no `end_part` followed."""

    part = b""

    def write(self, data: Any) -> None:
        self.part += bytes(data)

    def replace_front(self, data: bytes) -> None:
        self.part = data + self.part[len(data) :]

    def end_part(self) -> None:
        if len(self.part) >= 1000:
            self.real.write(self.part)
            self.real.end_part()
        self.part = b""


class KeepsABuffer(BrokenWrites):
    def __init__(self, real: Any) -> None:
        super().__init__(real)
        self.parts: list[Any] = []

    def write(self, data: Any) -> None:
        self.parts.append(data)

    def end_part(self) -> None:
        for one in self.parts:
            self.real.write(one)
        self.parts = []
        self.real.end_part()


class LeavesWhatIsAborted(BrokenWrites):
    def abort(self) -> None:
        """Say that it is done."""


def delete_by_prefix(store: LocalStore, key: str) -> None:
    for page in store.list_pages(key):
        for stat in page:
            store.writes.delete(stat.key)


def delete_what_is_there(store: LocalStore, key: str) -> None:
    store.head(key)
    store.writes.delete(key)


IGNORES_THE_VERSION = broken(read=lambda self, request: self.real.read(replace(request, version="")))
STOPS_AT_THE_FIRST_ERROR = broken(read_many=lambda self, requests: map(self.real.read, requests))
COUNTS_NOTHING = broken(traffic=property(lambda _: LocalStore("/").traffic))
WRITES_BLINDLY = broken_writes(put=put_blindly)

OF_READS = {
    "test_any_range_is_exactly_its_bytes": [broken(read=lambda self, request: self.real.read(request)[:-1])],
    "test_a_range_past_the_end_is_an_error_and_no_short_body": [broken(read=padded)],
    "test_a_replaced_object_is_stale_and_the_new_one_is_read": [
        IGNORES_THE_VERSION,
        broken(start=lambda self, request: self.real.start(replace(request, version=""))),
    ],
    "test_an_object_that_grew_or_shrank_is_stale": [IGNORES_THE_VERSION],
    "test_what_is_missing_is_named_in_any_way_of_reading": [
        broken(read=with_error_of_python),
        broken(read=with_error_of_no_object),
    ],
    "test_many_are_read_in_order_with_errors_in_their_places": [
        STOPS_AT_THE_FIRST_ERROR,
        broken(read_many=lambda self, requests: iter(list(self.real.read_many(requests))[::-1])),
    ],
    "test_one_that_changes_hides_no_other": [STOPS_AT_THE_FIRST_ERROR],
    "test_reading_many_can_be_left_and_never_looks_far_ahead": [
        broken(read_many=lambda self, requests: self.real.read_many(list(requests)))
    ],
    "test_a_read_that_is_cancelled_harms_no_other": [CancelsItsNeighbour],
}
OF_LISTINGS = {
    "test_one_level_is_listed_with_folders_as_one_object_each": [
        broken(list_pages=lambda self, prefix="": (page[:-1] for page in self.real.list_pages(prefix))),
        broken(list_pages=lambda self, prefix="": (page + page[:1] for page in self.real.list_pages(prefix))),
    ],
    "test_every_page_of_a_long_listing_comes": [
        broken(list_pages=lambda self, prefix="": iter([next(self.real.list_pages(prefix))]))
    ],
    "test_a_prefix_is_the_beginning_of_keys": [broken(list_pages=lambda self, prefix="": self.real.list_pages())],
    "test_a_listing_is_of_now": [KeepsItsListing],
    "test_a_folder_is_listed_with_those_below_it": [broken(list_folder=listed_one_level)],
    "test_head_reports_what_the_listing_reports": [
        broken(head=head_without_folders),
        broken(head=head_of_other_version),
    ],
    "test_a_version_stays_until_the_object_changes": [broken(head=head_of_version_1, list_pages=listed_as_version_1)],
    "test_a_pickle_is_the_same_store": [broken(__reduce__=lambda self: (Broken, (LocalStore("/"),)))],
    "test_what_was_asked_of_the_store_is_counted": [COUNTS_NOTHING],
    "test_what_is_sent_is_counted": [COUNTS_NOTHING],
}
OF_WRITES = {
    "test_an_object_is_never_written_over": [broken_writes(put=put_over), WRITES_BLINDLY],
    "test_of_many_who_put_at_once_one_wins": [WRITES_BLINDLY],
    "test_parts_become_one_object": [broken_uploads(LosesItsLastPart)],
    "test_what_was_written_belongs_to_the_writer_again": [broken_uploads(KeepsABuffer)],
    "test_what_is_aborted_leaves_nothing": [broken_uploads(LeavesWhatIsAborted)],
    "test_unfinished_uploads_are_reported_and_can_be_ended": [broken_writes(unfinished_uploads=lambda _: iter(()))],
    "test_what_is_deleted_is_gone": [
        broken_writes(delete=delete_by_prefix),
        broken_writes(delete=delete_what_is_there),
    ],
}


class FewObjects(WritableStoreTests):
    """The suite with a long listing of some pages of few objects."""

    many_objects = 25


@for_each(("test", "kinds"), (OF_READS | OF_LISTINGS | OF_WRITES).items())
def test_a_broken_promise_is_noticed(
    test: str, kinds: list[type[Broken]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test of the suite fails for each broken store, and only because of that."""
    monkeypatch.setattr(folder_store, "_PAGE", 10)
    method = getattr(FewObjects(), test)

    def run(kind: type[Broken], within: Path) -> None:
        within.mkdir(parents=True)
        arguments = {"tmp_path": within} if "tmp_path" in signature(method).parameters else {}
        method(BrokenPlace(within / "bucket", kind), **arguments)

    run(Broken, tmp_path / test / "sound")
    for number, kind in enumerate(kinds):
        try:
            run(kind, tmp_path / test / str(number))
        except (Exception, pytest.fail.Exception):  # noqa: BLE001  (whatever the suite fails with)
            continue
        pytest.fail(f"{test} does not notice broken store {number}")

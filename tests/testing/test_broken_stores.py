"""The suite for stores fails, by the right test, for a store that breaks one promise, and for none that keeps them all."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
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


class BrokenUpload(BrokenWrites):
    pass


class BrokenPlace:
    def __init__(self, folder: Path, kind: type[Broken]) -> None:
        self._place = FolderPlace(folder)
        self.store = kind(self._place.store)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)


class LosesTheLastByte(Broken):
    def read(self, request: ReadRequest) -> bytes:
        return self.real.read(request)[:-1]


class PadsWhatIsShort(Broken):
    def read(self, request: ReadRequest) -> bytes:
        size = self.real.head(request.key).stat.size
        data = self.real.read(replace(request, start=min(request.start, size), end=min(request.end, size)))
        return data + bytes(request.end - request.start - len(data))


class IgnoresTheVersion(Broken):
    def read(self, request: ReadRequest) -> bytes:
        return self.real.read(replace(request, version=""))


class StartsWithoutTheVersion(Broken):
    def start(self, request: ReadRequest) -> Any:
        return self.real.start(replace(request, version=""))


class SaysWhatPythonSays(Broken):
    def read(self, request: ReadRequest) -> bytes:
        try:
            return self.real.read(request)
        except ObjectNotFoundError as error:
            raise FileNotFoundError(error.key) from error


class NamesNoObject(Broken):
    def read(self, request: ReadRequest) -> bytes:
        try:
            return self.real.read(request)
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError(error.reason) from error


class StopsAtTheFirstError(Broken):
    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        return map(self.real.read, requests)


class ReadsAllAtOnce(Broken):
    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        return self.real.read_many(list(requests))


class AnswersOutOfOrder(Broken):
    def read_many(self, requests: Iterable[ReadRequest]) -> Iterator[bytes | LedgerfsError]:
        return iter(list(self.real.read_many(requests))[::-1])


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


class ListsOneTooFew(Broken):
    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        return (page[:-1] for page in self.real.list_pages(prefix))


class ListsOnePage(Broken):
    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        yield next(self.real.list_pages(prefix))


class ListsTwice(Broken):
    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        return (page + page[:1] for page in self.real.list_pages(prefix))


class IgnoresThePrefix(Broken):
    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        return self.real.list_pages()


class KeepsItsListing(Broken):
    kept: Any = None

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        if self.kept is None:
            self.kept = list(self.real.list_pages(prefix))
        return iter(self.kept)


class ListsOneLevelOfFolders(Broken):
    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        for page in self.real.list_folder(folder):
            yield [stat for stat in page if "/" not in stat.key.removeprefix(folder)]


class NamesWithoutFolders(Broken):
    def head(self, key: str) -> ObjectHead:
        head = self.real.head(key)
        return replace(head, stat=replace(head.stat, key=key.rpartition("/")[2]))


class TellsOtherVersions(Broken):
    def head(self, key: str) -> ObjectHead:
        head = self.real.head(key)
        return replace(head, stat=replace(head.stat, version=f'"{head.stat.version}"'))


class OneVersionForAll(Broken):
    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        return ([replace(stat, version="1") for stat in page] for page in self.real.list_pages(prefix))

    def head(self, key: str) -> ObjectHead:
        head = self.real.head(key)
        return replace(head, stat=replace(head.stat, version="1"))


class PicklesToAnotherPlace(Broken):
    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (LocalStore("/"),))


class CountsNothing(Broken):
    @property
    def traffic(self) -> Any:
        return LocalStore("/").traffic


class WritesOver(Broken):
    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)
        put = self.writes.put

        def put_over(key: str, data: bytes, metadata: Any) -> Any:
            store.writes.delete(key)
            return put(key, data, metadata)

        self.writes.put = put_over


class WritesBlindly(Broken):
    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)

        def put(key: str, data: bytes, metadata: Any) -> ObjectStat:
            Path(store.url.removeprefix("file://"), key).write_bytes(data)
            return store.head(key).stat

        self.writes.put = put


class Uploads(Broken):
    """Its uploads are of the class ``upload``."""

    upload: Callable[[Any], Any] = BrokenUpload

    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)
        begin, kind = self.writes.begin_upload, type(self).upload
        self.writes.begin_upload = lambda key, metadata, size: kind(begin(key, metadata, size))


class LosesItsLastPart(Uploads):
    class upload(BrokenUpload):  # noqa: N801
        """The bytes that no `end_part` followed."""

        def __init__(self, real: Any) -> None:
            super().__init__(real)
            self.part = b""

        def write(self, data: Any) -> None:
            self.part += bytes(data)

        def replace_front(self, data: bytes) -> None:
            self.part = data + self.part[len(data) :]

        def end_part(self) -> None:
            if len(self.part) >= 1000:
                self.real.write(self.part)
                self.real.end_part()
            self.part = b""


class KeepsABuffer(Uploads):
    class upload(BrokenUpload):  # noqa: N801
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


class LeavesWhatIsAborted(Uploads):
    class upload(BrokenUpload):  # noqa: N801
        def abort(self) -> None:
            """Say that it is done."""


class TellsNoUnfinished(Broken):
    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)
        self.writes.unfinished_uploads = lambda: iter(())


class DeletesByPrefix(Broken):
    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)
        delete = self.writes.delete

        def delete_all(key: str) -> None:
            for page in store.list_pages(key):
                for stat in page:
                    delete(stat.key)

        self.writes.delete = delete_all


class MindsWhatIsMissing(Broken):
    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)
        delete = self.writes.delete

        def delete_known(key: str) -> None:
            store.head(key)
            delete(key)

        self.writes.delete = delete_known


OF_READS = {
    "test_any_range_is_exactly_its_bytes": [LosesTheLastByte],
    "test_a_range_past_the_end_is_an_error_and_no_short_body": [PadsWhatIsShort],
    "test_a_replaced_object_is_stale_and_the_new_one_is_read": [IgnoresTheVersion, StartsWithoutTheVersion],
    "test_an_object_that_grew_or_shrank_is_stale": [IgnoresTheVersion],
    "test_what_is_missing_is_named_in_any_way_of_reading": [SaysWhatPythonSays, NamesNoObject],
    "test_many_are_read_in_order_with_errors_in_their_places": [StopsAtTheFirstError, AnswersOutOfOrder],
    "test_one_that_changes_hides_no_other": [StopsAtTheFirstError],
    "test_reading_many_can_be_left_and_never_looks_far_ahead": [ReadsAllAtOnce],
    "test_a_read_that_is_cancelled_harms_no_other": [CancelsItsNeighbour],
}
OF_LISTINGS = {
    "test_one_level_is_listed_with_folders_as_one_object_each": [ListsOneTooFew, ListsTwice],
    "test_every_page_of_a_long_listing_comes": [ListsOnePage],
    "test_a_prefix_is_the_beginning_of_keys": [IgnoresThePrefix],
    "test_a_listing_is_of_now": [KeepsItsListing],
    "test_a_folder_is_listed_with_those_below_it": [ListsOneLevelOfFolders],
    "test_head_tells_what_the_listing_tells": [NamesWithoutFolders, TellsOtherVersions],
    "test_a_version_stays_until_the_object_changes": [OneVersionForAll],
    "test_a_pickle_is_the_same_store": [PicklesToAnotherPlace],
    "test_what_was_asked_of_the_store_is_counted": [CountsNothing],
    "test_what_is_sent_is_counted": [CountsNothing],
}
OF_WRITES = {
    "test_an_object_is_never_written_over": [WritesOver, WritesBlindly],
    "test_of_many_who_put_at_once_one_wins": [WritesBlindly],
    "test_parts_become_one_object": [LosesItsLastPart],
    "test_what_was_written_belongs_to_the_writer_again": [KeepsABuffer],
    "test_what_is_aborted_leaves_nothing": [LeavesWhatIsAborted],
    "test_unfinished_uploads_are_told_and_can_be_ended": [TellsNoUnfinished],
    "test_what_is_deleted_is_gone": [DeletesByPrefix, MindsWhatIsMissing],
}


class FewObjects(WritableStoreTests):
    """The suite with a long listing of some pages of few objects."""

    many_objects = 25


@pytest.fixture
def _pages_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_store, "_PAGE", 10)


def require_noticed(test: str, kinds: list[type[Broken]], folder: Path) -> None:
    """Check that a test of the suite fails for each broken store, and only because of that."""
    method = getattr(FewObjects(), test)

    def run(kind: type[Broken], within: Path) -> None:
        within.mkdir(parents=True)
        arguments = {"tmp_path": within} if "tmp_path" in signature(method).parameters else {}
        method(BrokenPlace(within / "bucket", kind), **arguments)

    run(Broken, folder / test / "sound")
    for kind in kinds:
        try:
            run(kind, folder / test / kind.__name__)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001  (whatever the suite fails with)
            continue
        pytest.fail(f"{test} does not notice {kind.__name__}")


@for_each(("test", "kinds"), OF_READS.items())
def test_a_broken_promise_of_reading_is_noticed(test: str, kinds: list[type[Broken]], tmp_path: Path) -> None:
    require_noticed(test, kinds, tmp_path)


@pytest.mark.usefixtures("_pages_of_ten")
@for_each(("test", "kinds"), OF_LISTINGS.items())
def test_a_broken_promise_of_listing_is_noticed(test: str, kinds: list[type[Broken]], tmp_path: Path) -> None:
    require_noticed(test, kinds, tmp_path)


@for_each(("test", "kinds"), OF_WRITES.items())
def test_a_broken_promise_of_writing_is_noticed(test: str, kinds: list[type[Broken]], tmp_path: Path) -> None:
    require_noticed(test, kinds, tmp_path)


class TestPassesAllOn(WritableStoreTests):
    """What only passes everything on keeps all promises: no test is about anything else."""

    many_objects = 10

    @pytest.fixture
    def place(self, tmp_path: Path) -> Any:
        return BrokenPlace(tmp_path / "bucket", Broken)

"""Uploads by themselves, to S3, a folder, other filesystems, and files of the tree that are open for writing: what they hold and leave."""

import errno
import gc
import hashlib
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from ledgerfs import open_bucket
from ledgerfs.errors import (
    LedgerfsError,
    ObjectExistsError,
    ObjectNotFoundError,
    RefusedLedgerError,
    StoreError,
    UncertainWriteError,
)
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.layouts.pulsar_blob.writer import LedgerWriter
from ledgerfs.storage.objects import ObjectHead, ObjectStat, ReadRequest
from ledgerfs.storage.opening import open_store
from ledgerfs.storage.s3.requests import exists
from ledgerfs.storage.s3.upload import S3Upload
from ledgerfs.storage.s3.writes import S3Writes
from ledgerfs.storage.sent_requests import Asked
from ledgerfs.writing.record_stream import RecordStream
from tests.support.s3 import S3Server
from tests.support.stores import LateFileSystem
from tests.support.waiting import wait_until
from tests.support.writes import (
    BLOCK,
    TOPIC,
    UUID,
    Place,
    big_entries,
    folder_place,
    records,
    s3_place,
    wanted,
    write,
)

PART = 1 << 20


class StandIn:
    """An `S3Store` that keeps what it is sent, and answers parts when it is told to."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.requests: list[str] = []
        self.parts: dict[int, bytes] = {}
        self.objects: dict[str, tuple[bytes, str]] = {}
        self.waiting = 0
        self.encrypts = False
        self.failures: dict[str, LedgerfsError] = {}
        self._lock = threading.Lock()

    @property
    def writes(self) -> S3Writes:
        return S3Writes(self)

    def request(self, asked: Asked, operation: str, is_wanted: Any = None, **arguments: Any) -> dict[str, Any]:
        with self._lock:
            self.requests.append(operation)
        if operation == "upload_part":
            with self._lock:
                self.waiting += 1
            self.open.wait(300)
            with self._lock:
                self.waiting -= 1
            body = bytes(arguments["Body"]) if self.keeps else b""
            self.parts[arguments["PartNumber"]] = body
            return {"ETag": '"secret"' if self.encrypts else f'"{hashlib.md5(body).hexdigest()}"'}
        if operation == "create_multipart_upload":
            return {"UploadId": "token"}
        if operation == "complete_multipart_upload":
            data = b"".join(part for _, part in sorted(self.parts.items()))
            name = f'"{"secret" if self.encrypts else self._digest()}-{len(self.parts)}"'
            self.objects[asked.key] = (data, name)
            if operation in self.failures:
                raise self.failures[operation]
            return {"ETag": name}
        if operation == "put_object":
            self.objects[asked.key] = (arguments["Body"], "one")
        if operation == "delete_object":
            self.objects.pop(asked.key, None)
        if operation in self.failures:
            raise self.failures[operation]
        return {}

    keeps = True

    def _digest(self) -> str:
        digests = b"".join(hashlib.md5(part).digest() for _, part in sorted(self.parts.items()))
        return hashlib.md5(digests).hexdigest()

    def head(self, key: str) -> ObjectHead:
        if key not in self.objects:
            raise ObjectNotFoundError("no such object", key=key)
        data, name = self.objects[key]
        return ObjectHead(ObjectStat(key, len(data), 0, name), {})

    def read(self, request: ReadRequest) -> bytes:
        return self.objects[request.key][0][request.start : request.end]

    def relative(self, name: str) -> str:
        return name


def fill(upload: S3Upload, parts: int, last: int = PART) -> None:
    piece = bytes(PART)
    for number in range(parts):
        upload.write(piece[: last if number == parts - 1 else PART])
        upload.end_part()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_no_more_than_four_parts_are_in_memory() -> None:
    """Three are on their way to a store that never answers, and the fourth is full; nothing more is taken."""
    store = StandIn()
    store.keeps = False
    store.open.clear()
    upload = S3Upload(store, "a", {}, PART)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        writer = in_thread(lambda: fill(upload, 20))
        wait_until(lambda: store.waiting == 3, 300)
        # It would go on at once, if it did.
        writer.join(0.3)
        assert writer.is_alive()
        assert store.waiting == 3
        store.open.set()
        writer.join(300)
        assert not writer.is_alive()
        wait_until(lambda: len(store.parts) == 20, 300)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    upload.abort()
    # One more is what the test writes from.
    assert peak < 5 * PART + (PART >> 2)


def test_a_writer_holds_no_more_than_four_blocks() -> None:
    store = StandIn()
    store.keeps = False
    # What is compiled and looked through is not what this is about.
    write(open_bucket("memory://warm-up"), records(big_entries(1)))
    batches = list(RecordStream("records", 1 << 30).feed(records(big_entries(12))))
    writer = LedgerWriter(store, wanted().new_ledger())
    tracemalloc.start()
    try:
        for batch in batches:
            writer.add(batch)
        peak = tracemalloc.get_traced_memory()[1]
        writer.seal()
        wait_until(lambda: len(store.parts) == 12, 300)
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        writer.abort()
    assert peak < 4 * BLOCK + (BLOCK >> 2)
    # As many files of a transaction may wait for their end.
    assert left < BLOCK >> 2


def test_what_is_aborted_sends_no_more_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerfs.storage.s3.upload._PATIENCE_SECONDS", 0.05)
    store = StandIn()
    store.open.clear()
    upload = S3Upload(store, "a", {}, PART)
    fill(upload, 3)
    wait_until(lambda: store.waiting == 3, 300)
    upload.abort()
    assert store.requests.count("abort_multipart_upload") == 1
    store.open.set()
    # Each that comes late may have brought the upload back.
    wait_until(lambda: store.requests.count("abort_multipart_upload") == 4, 300)
    assert store.requests.count("upload_part") == 3


def test_a_part_that_fails_is_reported_and_aborting_waits_for_the_others() -> None:
    store = StandIn()
    real = store.request

    def request(asked: Asked, operation: str, is_wanted: Any = None, **arguments: Any) -> dict[str, Any]:
        if operation == "upload_part" and arguments["PartNumber"] == 1:
            raise StoreError("out of order", key=asked.key)
        return real(asked, operation, **arguments)

    store.request = request  # type: ignore[method-assign]
    upload = S3Upload(store, "a", {}, PART)
    with pytest.raises(StoreError, match="out of order"):
        fill(upload, 8)
    upload.abort()
    assert store.requests[-1] == "abort_multipart_upload"
    assert store.objects == {}


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("encrypts", [False, True])
def test_an_object_is_known_by_its_parts_or_by_what_the_store_called_it(encrypts: bool, is_answered: bool) -> None:
    """A lost answer is settled by a look."""
    store = StandIn()
    store.encrypts = encrypts
    if not is_answered:
        store.failures["complete_multipart_upload"] = StoreError("no answer", key="a")
    upload = S3Upload(store, "a", {}, PART)
    fill(upload, 3, last=100)
    assert upload.complete().size == 2 * PART + 100
    upload.abort()
    # Without an answer the store may still hold the upload.
    assert ("abort_multipart_upload" in store.requests) != is_answered


def test_an_object_of_somebody_else_is_not_taken_for_ours_where_nothing_reports_them_apart() -> None:
    """Encrypted objects have ETags that tell nothing; of the same size and number of parts they look the same."""
    store = StandIn()
    store.encrypts = True
    store.failures["complete_multipart_upload"] = exists("a")
    upload = S3Upload(store, "a", {}, PART)
    fill(upload, 3)
    with pytest.raises(ObjectExistsError):
        upload.complete()


def test_a_put_that_cannot_be_checked_is_uncertain() -> None:
    store = StandIn()
    store.failures["put_object"] = StoreError("no answer", key="a")
    real = store.head

    def head(key: str) -> ObjectHead:
        if "put_object" in store.requests:
            raise StoreError("no answer", key=key)
        return real(key)

    store.head = head  # type: ignore[method-assign]
    with pytest.raises(UncertainWriteError):
        store.writes.put("a", b"index", {})


@pytest.fixture(params=["links", "no links"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, of a file system with links or without."""
    if request.param == "no links":

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr("ledgerfs.storage.folders.writes.os.link", refuse)
    return tmp_path


def local_upload(folder: Path, *parts: bytes) -> Any:
    upload = open_store(fsspec.filesystem("file"), str(folder)).writes.begin_upload("a", {}, 100)
    for part in parts:
        upload.write(part)
        upload.end_part()
    return upload


def test_a_file_with_the_same_bytes_counts_as_written(folder: Path) -> None:
    first = local_upload(folder, b"one", b"two").complete()
    again = local_upload(folder, b"onetwo").complete()
    assert again == first
    assert [one.name for one in folder.iterdir()] == ["a"]


@pytest.mark.parametrize("what", ["folder", "broken link", "pipe"])
def test_what_is_no_file_stays(what: str, folder: Path) -> None:
    if what == "folder":
        (folder / "a").mkdir()
    elif what == "pipe":
        os.mkfifo(folder / "a")
    else:
        (folder / "a").symlink_to("nowhere")
    upload = local_upload(folder, b"onetwo")
    with pytest.raises(ObjectExistsError):
        upload.complete()
    upload.abort()
    assert [one.name for one in folder.iterdir()] == ["a"]


@pytest.fixture(params=["memory", "late"])
def any_fs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A filesystem that is neither local nor S3, where a file shows when it is opened, or when it is closed."""
    kinds = ((LateFileSystem.__module__, "LateFileSystem"),)
    monkeypatch.setattr("ledgerfs.storage.generic.writes._WITH_METADATA", kinds)
    fs = LateFileSystem() if request.param == "late" else MemoryFileSystem()
    fs.store.clear()
    fs.makedirs("/uploads", exist_ok=True)
    yield fs
    fs.store.clear()


def test_an_object_that_cannot_be_checked_is_uncertain(any_fs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = type(any_fs).info

    def info(self: Any, path: str, **options: Any) -> Any:
        found = real(self, path, **options)
        if path.endswith("/a"):
            raise ConnectionError("no answer")
        return found

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(type(any_fs), "info", info)
    monkeypatch.setattr(type(any_fs), "rm_file", refuse)
    with pytest.raises(UncertainWriteError):
        open_store(any_fs, "/uploads").writes.put("a", b"index", {})


FILE = f"entries/{TOPIC}/1.entries"
OTHER_FILE = f"entries/{TOPIC}/2.entries"


@pytest.fixture(scope="module")
def data() -> bytes:
    """A ledger of two blocks: one is uploaded before the ledger ends."""
    return records(big_entries(2))


@pytest.fixture(scope="module", params=["file", "s3"])
def shared_place(request: pytest.FixtureRequest, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Place:
    if request.param == "file":
        return folder_place(tmp_path_factory.mktemp("uploads"))
    s3.make_bucket("uploads", {})
    return s3_place(s3, "uploads")


@pytest.fixture
def place(shared_place: Place) -> Place:
    shared_place.clear()
    return shared_place


@pytest.fixture
def fs(place: Place) -> LedgerFileSystem:
    protocol, _, root = place.url.partition("://")
    made = LedgerFileSystem(
        fo=root,
        target_protocol=protocol,
        target_options=place.options or {},
        write_options={"block_size": BLOCK},
        skip_instance_cache=True,
    )
    made.bucket.refresh()
    return made


def nothing_is_left(place: Place) -> bool:
    return place.objects() == set() and place.uploads() == []


def chained(place: Place) -> Any:
    """Open the file as a chained URL."""
    options = {"s3": place.options} if place.options else {}
    return fsspec.open(
        f"ledger://{FILE}::{place.url}", "wb", ledger={"write_options": {"block_size": BLOCK}}, **options
    )


def test_an_exception_drops_the_file(fs: LedgerFileSystem, place: Place, data: bytes) -> None:
    with pytest.raises(KeyError), fs.open(FILE, "wb") as file:  # noqa: PT012
        file.write(data)
        raise KeyError
    with pytest.raises(KeyboardInterrupt), chained(place) as file:  # noqa: PT012
        file.write(data)
        raise KeyboardInterrupt
    assert nothing_is_left(place)


def test_a_file_that_is_closed_because_of_an_exception_is_dropped(
    fs: LedgerFileSystem, place: Place, data: bytes
) -> None:
    file = fs.open(FILE, "wb")
    with pytest.raises(KeyError):  # noqa: PT012
        try:
            file.write(data)
            raise KeyError
        finally:
            file.close()
    assert nothing_is_left(place)
    with pytest.raises(ValueError, match="closed file"):
        file.write(data)


def test_a_file_may_be_written_while_an_exception_is_handled(fs: LedgerFileSystem, place: Place, data: bytes) -> None:
    try:
        raise KeyError
    except KeyError:
        with fs.open(FILE, "wb") as file:
            file.write(data)
    assert place.ledgers() == [data]


@pytest.mark.parametrize("wrong", ["gap", "cut", "nothing"])
def test_what_is_no_ledger_leaves_nothing_and_is_never_committed(
    wrong: str, fs: LedgerFileSystem, place: Place, data: bytes
) -> None:
    """Also when somebody catches the error, and closes the file all the same."""
    file = fs.open(FILE, "wb")
    tail = {"gap": records([b"x"]), "cut": b"\x00\x00", "nothing": b""}[wrong]
    with pytest.raises(RefusedLedgerError):  # noqa: PT012
        file.write(data if tail else b"")
        file.write(tail)
        file.close()
    file.close()
    file.commit()
    assert nothing_is_left(place)


def test_a_file_that_nobody_closed_is_dropped(fs: LedgerFileSystem, place: Place, data: bytes) -> None:
    for autocommit in (True, False):
        file = fs.open(FILE, "wb", autocommit=autocommit)
        file.write(data)
        if not autocommit:
            file.close()
            # fsspec keeps it for a transaction that may come.
            fs.transaction.files.clear()
        del file
        gc.collect()
        assert nothing_is_left(place)


@pytest.mark.long
def test_a_transaction_shows_all_of_it_at_its_end(
    fs: LedgerFileSystem, place: Place, data: bytes, tmp_path: Path
) -> None:
    (tmp_path / "records").write_bytes(data)
    fs.pipe(FILE, data)
    with fs.transaction:
        with fs.open(OTHER_FILE, "wb") as file:
            file.write(data)
        fs.put(str(tmp_path / "records"), f"entries/{TOPIC}/3.entries")
        fs.pipe(f"entries/{TOPIC}/4.entries", data)
        fs.cp_file(FILE, f"entries/{TOPIC}/5.entries")
        assert len(place.ledgers()) == 1
    assert place.ledgers() == [data] * 5
    assert place.uploads() == []
    assert len(fs.ls(f"entries/{TOPIC}")) == 5


@pytest.mark.parametrize("where", ["after", "within", "rollback"])
def test_a_transaction_that_fails_leaves_nothing(where: str, fs: LedgerFileSystem, place: Place, data: bytes) -> None:
    if where == "rollback":
        fs.start_transaction()
        fs.pipe(FILE, data)
        fs.transaction.complete(commit=False)
    else:
        with pytest.raises(KeyError), fs.transaction:  # noqa: PT012
            fs.pipe(FILE, data)
            with fs.open(OTHER_FILE, "wb") as file:
                file.write(data)
                if where == "within":
                    raise KeyError
            raise KeyError
    assert nothing_is_left(place)
    # The next write is none of the transaction.
    fs.pipe(FILE, data)
    assert place.ledgers() == [data]


def test_a_commit_that_fails_drops_the_rest_of_the_transaction(
    fs: LedgerFileSystem, place: Place, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ObjectExistsError), fs.transaction:  # noqa: PT012
        for number in (1, 2, 3):
            fs.pipe(f"entries/{TOPIC}/{number}.entries", data, uuid=UUID)
        # Of the second one.
        place.clean.raw_store.writes.put(f"{UUID}-ledger-2", b"other", {})
    assert place.ledgers() == [data]
    assert place.uploads() == []
    assert place.contents()[f"{UUID}-ledger-2"] == b"other"


def test_a_part_that_is_finished_while_the_folder_is_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(fsspec.filesystem("file"), str(tmp_path))
    uploads = [store.writes.begin_upload(key, {}, 1) for key in ("a", "b")]
    for one in uploads:
        one.write(b"x")
    assert sorted(one.key for one in store.writes.unfinished_uploads()) == ["a", "b"]
    scanned = os.scandir

    @contextmanager
    def then_complete(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with scanned(path) as entries:
            found = list(entries)
        uploads[0].complete()
        yield found

    monkeypatch.setattr("ledgerfs.storage.folders.writes.os.scandir", then_complete)
    assert [one.key for one in store.writes.unfinished_uploads()] == ["b"]

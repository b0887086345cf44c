"""What a mount does, without a kernel: numbers of errors, threads that crowd it, listings that take long, and files that are given up."""

import errno
import inspect
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ledgerfs.errors
import ledgerfs_cluster.errors
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.errors import (
    CorruptLedgerError,
    LedgerExistsError,
    LedgerfsError,
    MountError,
    NotFoundError,
    ObjectNotFoundError,
    ReadOnlyError,
    StaleObjectError,
    StoreError,
    StoreTimeoutError,
    UncertainWriteError,
    WrongBodyError,
)
from ledgerfs.fuse_mount import error_numbers, processes
from ledgerfs.fuse_mount.attributes import inode_of
from ledgerfs.fuse_mount.error_numbers import answering, errno_of
from ledgerfs.fuse_mount.incoming_file import IncomingFile
from ledgerfs.fuse_mount.operations import MountedBucket, MountOptions
from ledgerfs.fuse_mount.processes import has_failed, is_held, process_of
from ledgerfs.storage.folders.store import LocalStore
from ledgerfs.vfs.removal import remove_ledgers
from ledgerfs.vfs.tree import Tree
from tests.support.children import fork
from tests.support.ledgers import put_in_folder
from tests.support.matrix import TOPIC, make_ledger
from tests.support.remote import RemoteFolder
from tests.support.waiting import wait_until
from tests.support.writes import records

FILE = f"/entries/{TOPIC}/20.entries"
RECORDS = records([b"x" * 1012] * 30)
ME = threading.get_native_id()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "bucket"
    made.mkdir()
    put_in_folder(made, make_ledger(1), make_ledger(2))
    return made


@pytest.fixture
def mounted(folder: Path) -> Iterator[MountedBucket]:
    made = MountedBucket(open_bucket(f"file://{folder}"), MountOptions(is_writable=True, refresh_seconds=3600))
    yield made
    made.close()
    # A ledger is whole or nothing; nothing begun is left beside it.
    assert len(ledger_20(folder)) in {0, 2}


def ledger_20(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if "ledger-20" in path.name and not path.name.startswith(".")}


def content(mounted: MountedBucket, path: str) -> bytes:
    handle = mounted.open(path)
    try:
        return read(mounted, handle)
    finally:
        mounted.release(handle)


def read(mounted: MountedBucket, handle: int, size: int = 1 << 20, at: int = 0) -> bytes:
    buffer = bytearray(size)
    return bytes(buffer[: mounted.read_into(handle, at, memoryview(buffer))])


NUMBERS = {
    "AccessDeniedError": errno.EACCES, "AdminApiError": errno.EPROTO, "AmbiguousLedgerError": errno.EINVAL,
    "BrokerRefusalError": errno.EPROTO, "ArchivedObjectError": errno.EACCES, "ExpiredCredentialsError": errno.EACCES,
    "AuthenticationError": errno.EACCES, "BucketNotFoundError": errno.ENOENT, "InvalidSchemaError": errno.EINVAL,
    "SchemaConflictError": errno.EEXIST,
    "ChangedMeanwhileError": errno.ESTALE, "LockHeldError": errno.EBUSY, "LockLostError": errno.ENOLCK,
    "StoppedError": errno.ECANCELED, "UncertainRequestError": errno.EPROTO, "BrokerOffloadError": errno.EPROTO,
    "OffloadRunningError": errno.EBUSY,
    "ListFullError": errno.ENOTSUP,
    "CacheWriteError": errno.ENOSPC, "DecryptionError": errno.EACCES, "EncryptedMessageError": errno.EACCES,
    "EntryRangeError": errno.EINVAL, "InvalidNameError": errno.EINVAL, "InvalidOptionError": errno.EINVAL,
    "InvalidRowsError": errno.EINVAL, "IsADirectoryPathError": errno.EISDIR, "LedgerExistsError": errno.EEXIST,
    "KafkaEntryError": errno.ENOTSUP,
    "MessageTooLargeError": errno.EMSGSIZE, "MountFailedError": errno.EINVAL, "MountpointError": errno.EINVAL,
    "NameTooLongError": errno.ENAMETOOLONG, "NotADirectoryPathError": errno.ENOTDIR, "NotFoundError": errno.ENOENT,
    "ObjectExistsError": errno.EEXIST, "ObjectNotFoundError": errno.ENOENT, "ReadOnlyError": errno.EROFS,
    "PolicyChangedError": errno.EINVAL,
    "RefusedLedgerError": errno.EINVAL, "StaleObjectError": errno.ESTALE, "StoreTimeoutError": errno.ETIMEDOUT,
    "StoreUnreachableError": errno.ETIMEDOUT, "UnsupportedFormatError": errno.ENOTSUP,
    "UnsupportedWriteError": errno.ENOTSUP, "UnusableUrlError": errno.EINVAL,
}  # fmt: skip
"""All others are ``EIO``."""

OTHERS = {
    OSError(errno.ENOSPC, "full"): errno.ENOSPC, OSError("no number"): errno.EIO, FileNotFoundError("no number"): errno.EIO,
    PermissionError(errno.EACCES, "x"): errno.EACCES, TimeoutError("no number"): errno.EIO, OSError(errno.EHOSTUNREACH, "x"): errno.EIO,
    OSError(-5, "x"): errno.EIO, ValueError("x"): errno.EIO, KeyError("x"): errno.EIO, MemoryError(): errno.EIO,
    RecursionError(): errno.EIO,
}  # fmt: skip


def test_each_error_has_its_number() -> None:
    ours = {
        name: one
        for errors in (ledgerfs.errors, ledgerfs_cluster.errors)
        for name, one in inspect.getmembers(errors, inspect.isclass)
        if issubclass(one, LedgerfsError)
    }
    assert set(NUMBERS) <= set(ours)
    for name, kind in ours.items():
        assert errno_of(kind("why", key="k", offset=3)) == NUMBERS.get(name, errno.EIO), name
    for error, number in OTHERS.items():
        assert errno_of(error) == number, error


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (StoreError("no luck", key="key", offset=7), ["ERROR read '/a' 1: key at byte 7: no luck"]),
        (ObjectNotFoundError("gone", key="key", offset=7), ["ERROR read '/a' 1: key at byte 7: gone"]),
        (NotFoundError("no such file", key="a"), []),
        (ReadOnlyError("no", key="a"), []),
        (ValueError("what"), ["ERROR read '/a' 1: a bug in ledgerfs"] * 3),
    ],
)
def test_each_error_is_said_once(error: Exception, lines: list[str], caplog: pytest.LogCaptureFixture) -> None:
    error_numbers._said.clear()

    class Callbacks:
        @answering
        def read(self, path: str, size: int) -> None:
            raise error

    for _ in range(3):
        with pytest.raises(MountError) as reported:
            Callbacks().read("/a", 1)
        assert reported.value.errno == errno_of(error)
    shown = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert [f"{record.levelname} {record.message}" for record in shown] == lines
    assert all(bool(record.exc_info) == isinstance(error, ValueError) for record in shown)


def test_a_failing_store_is_said_once_as_long_as_the_kernel_may_ask_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    error_numbers._said.clear()
    now = 1000.0
    monkeypatch.setattr(error_numbers, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setenv("LEDGERFS_STORE_TIMEOUT", "60")

    @answering
    def read(error: Exception) -> None:
        raise error

    said = 0
    for seconds, error, is_said in (
        (0, WrongBodyError("short", key="a"), True),
        (55, StoreTimeoutError("silent", key="a", offset=5), False),
        (55, StoreTimeoutError("silent", key="b"), True),
        (55, CorruptLedgerError("wrong", key="a"), True),
        (55, UncertainWriteError("not known", key="a"), True),
        (75, WrongBodyError("short", key="a"), True),
    ):
        now = 1000.0 + seconds
        with pytest.raises(MountError):
            read(error)
        said += is_said
        assert len(caplog.records) == said, error


def test_inodes_stay_and_are_no_others() -> None:
    paths = [f"entries/tenant/space/topic-{i % 100}/{i}.entries" for i in range(20_000)]
    assert len({inode_of(path) for path in paths}) == len(paths)
    assert all(2 <= inode_of(path) < 1 << 63 for path in ["", "\udcff", *paths[:100]])


def test_threads_that_crowd_it_leave_nothing_open(mounted: MountedBucket, folder: Path) -> None:
    wanted = {number: make_ledger(number).records for number in (1, 2)}
    files = [
        f"/{view}/{TOPIC}/{number}.{suffix}"
        for view, suffix in (("entries", "entries"), ("info", "json"), ("jsonl", "jsonl"))
        for number in (1, 2)
    ]
    sizes = {file: len(content(mounted, file)) for file in files}
    descriptors = len(list(Path("/proc/self/fd").iterdir()))

    def crowd(number: int) -> None:
        source = random.Random(number)
        handles: list[int] = []
        for _ in range(300):
            kind = source.randrange(7)
            file = source.choice(files)
            if kind == 0 and len(handles) < 20:
                handles.append(mounted.open(f"/entries/{TOPIC}/1.entries"))
            elif kind == 1 and handles:
                mounted.release(handles.pop(source.randrange(len(handles))))
            elif kind == 2 and handles:
                at = source.randrange(len(wanted[1]))
                assert read(mounted, source.choice(handles), 5000, at) == wanted[1][at : at + 5000]
            elif kind == 3:
                assert mounted.attributes(file).size == sizes[file]
            elif kind == 4:
                assert len(list(mounted.entries(source.choice(["", "/entries", f"/jsonl/{TOPIC}"])))) in range(1, 6)
            elif kind == 5 and source.random() < 0.1:
                mounted.refresh()
            elif kind == 6 and source.random() < 0.2:
                assert len(content(mounted, file)) == sizes[file]
                with pytest.raises(NotFoundError):
                    mounted.open("/entries/nothing")
        for handle in handles:
            mounted.release(handle)

    def write(number: int) -> None:
        for _ in range(10):
            path = f"/entries/{TOPIC}/{100 + number}.entries"
            mounted.make_directory(f"/entries/t{number}")
            handle = mounted.create(path, threading.get_native_id())
            for at in range(0, len(RECORDS), 10_000):
                mounted.write(handle, RECORDS[at : at + 10_000], at, threading.get_native_id())
            mounted.flush(handle, threading.get_native_id())
            mounted.release(handle)
            assert content(mounted, path) == RECORDS
            mounted.remove(path)
            mounted.remove_directory(f"/entries/t{number}")

    threads = threading.active_count()
    with ThreadPoolExecutor(12) as pool:
        reads = [pool.submit(crowd, number) for number in range(10)]
        writes = [pool.submit(write, number) for number in range(2)]
        for one in [*reads, *writes]:
            one.result()
    assert mounted.open_handles == 0
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 8
    assert threading.active_count() <= threads + 8
    assert len(list(folder.iterdir())) == 4


class SlowFolder(RemoteFolder):
    """A store whose listing begins when it is allowed to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.may_list = threading.Event()
        self.may_list.set()
        self.listings = 0

    def list_pages(self, prefix: str = "") -> Any:
        self.listings += 1
        assert self.may_list.wait(600)
        return super().list_pages(prefix)


def make_old(mounted: MountedBucket) -> None:
    """Have the listing be too old, as it is after the time of `MountOptions.refresh_seconds`."""
    with mounted._refreshing:  # one that has just been made notes its time first
        mounted._listed -= 2 * mounted.options.refresh_seconds


def test_nobody_waits_for_a_listing(folder: Path) -> None:
    store = SlowFolder(folder)
    mounted = MountedBucket(Bucket(store), MountOptions(is_writable=True, refresh_seconds=3600))
    assert content(mounted, f"/entries/{TOPIC}/1.entries")
    assert mounted.totals()[0] == 2
    handle = mounted.open(f"/entries/{TOPIC}/2.entries")
    put_in_folder(folder, make_ledger(3))
    store.may_list.clear()
    listings = store.listings
    make_old(mounted)
    mounted.attributes("/")
    wait_until(lambda: store.listings > listings, 300)
    try:
        with ThreadPoolExecutor(1) as pool:

            def use() -> None:
                assert [name for name, _ in mounted.entries(f"/entries/{TOPIC}")] == ["1.entries", "2.entries"]
                assert mounted.attributes(f"/entries/{TOPIC}/1.entries").size == len(make_ledger(1).records)
                assert content(mounted, f"/entries/{TOPIC}/1.entries") == make_ledger(1).records
                assert read(mounted, handle, 10, 5) == make_ledger(2).records[5:15]
                assert mounted.extended_attributes(f"/entries/{TOPIC}/1.entries")
                assert mounted.totals()[0] == 2
                mounted.release(handle)

            pool.submit(use).result(timeout=300)
        assert store.listings == listings + 1
    finally:
        store.may_list.set()
    wait_until(lambda: len(list(mounted.entries(f"/entries/{TOPIC}"))) == 3, 300)


def test_a_listing_that_fails_changes_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SlowFolder(folder)
    mounted = MountedBucket(Bucket(store), MountOptions(refresh_seconds=3600))
    for error in (StoreError("no luck", key="bucket"), ValueError("a defect")):

        def fail(error: Exception = error) -> Any:
            raise error

        store.list_pages = fail  # type: ignore[method-assign]
        make_old(mounted)
        caplog.clear()
        mounted.attributes("/")
        wait_until(lambda: "could not be listed" in caplog.text, 300)
        assert [name for name, _ in mounted.entries(f"/entries/{TOPIC}")] == ["1.entries", "2.entries"]
        assert content(mounted, f"/entries/{TOPIC}/1.entries") == make_ledger(1).records
    del store.list_pages
    put_in_folder(folder, make_ledger(3))
    make_old(mounted)
    wait_until(lambda: len(list(mounted.entries(f"/entries/{TOPIC}"))) == 3, 300)


def test_a_refresh_that_gets_no_thread_is_made_up_for(
    mounted: MountedBucket, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    put_in_folder(folder, make_ledger(3))
    make_old(mounted)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert len(list(mounted.entries(f"/entries/{TOPIC}"))) == 2
        mounted.refresh_in_background()
    assert caplog.text.count("so the previous listing is shown: can't start new thread") == 2
    make_old(mounted)
    wait_until(lambda: len(list(mounted.entries(f"/entries/{TOPIC}"))) == 3, 300)


def write_all(mounted: MountedBucket, data: bytes, path: str = FILE) -> int:
    handle = mounted.create(path, ME)
    mounted.write(handle, data, 0, ME)
    return handle


def test_what_is_written_is_there_once_it_is_closed(mounted: MountedBucket, folder: Path) -> None:
    handle = write_all(mounted, RECORDS[:1024])
    assert ledger_20(folder) == set()
    assert [name for name, _ in mounted.entries(f"/entries/{TOPIC}")] == ["1.entries", "2.entries"]
    mounted.write(handle, RECORDS[1024:], 1024, ME)
    shown = mounted.attributes(FILE)
    mounted.flush(handle, ME)
    assert len(ledger_20(folder)) == 2
    after = mounted.attributes(FILE)
    time.sleep(0.01)
    # Nothing changes any more, so make and rsync are right about it.
    assert mounted.attributes(FILE) == after
    assert (after.inode, after.size) == (shown.inode, len(RECORDS))
    with pytest.raises(OSError, match="complete"):
        mounted.write(handle, RECORDS, len(RECORDS), ME)
    mounted.flush(handle, ME)
    mounted.release(handle)
    assert content(mounted, FILE) == RECORDS
    with pytest.raises(LedgerExistsError):
        mounted.create(f"/entries/{TOPIC}/20.entries", ME)
    mounted.remove(FILE)
    assert ledger_20(folder) == set()
    mounted.release(write_all(mounted, RECORDS))
    assert content(mounted, FILE) == RECORDS


def test_bytes_elsewhere_are_refused_and_leave_nothing(mounted: MountedBucket, folder: Path) -> None:
    spoilers: list[Callable[[int], object]] = [
        lambda handle: mounted.write(handle, RECORDS, 1 << 20, ME),
        lambda handle: mounted.write(handle, RECORDS, len(RECORDS), ME),
        lambda _: mounted.resize(FILE, 1 << 20),
    ]
    for spoil in spoilers:
        handle = write_all(mounted, RECORDS)
        with pytest.raises(OSError, match=r"from start to end|found entry 0"):
            spoil(handle)
        with pytest.raises(OSError):
            mounted.sync(handle)
        mounted.release(handle)
        assert ledger_20(folder) == set()
    mounted.release(write_all(mounted, RECORDS))
    assert content(mounted, FILE) == RECORDS


def test_who_opens_while_a_listing_replaces_another_gets_the_new_one(
    mounted: MountedBucket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And makes nobody's newer one stale."""
    path, really = f"/entries/{TOPIC}/1.entries", Tree.open
    others: list[int] = []

    def open_slowly(tree: Tree, at: str) -> FileReader:
        opened = really(tree, at)
        if tree is before and not others:
            for key in make_ledger(1).objects:
                (folder / key).unlink()
            put_in_folder(folder, make_ledger(1, entries=12))
            mounted.refresh()
            others.append(mounted.open(path))
        return opened

    before = mounted.tree()
    monkeypatch.setattr(Tree, "open", open_slowly)
    for handle in (mounted.open(path), *others):
        assert read(mounted, handle) == make_ledger(1, entries=12).records
        assert not mounted.read_file(handle).is_uncached
        mounted.release(handle)
    assert len(others) == 1


def test_an_estimate_never_ends_a_reader(mounted: MountedBucket, folder: Path) -> None:
    path = f"/jsonl/{TOPIC}/1.jsonl"
    before = mounted.attributes(path)
    assert before.is_estimate
    assert before.size == len(make_ledger(1).data)
    listed = dict(mounted.entries(f"/jsonl/{TOPIC}"))["1.jsonl"]
    assert listed == before
    old = mounted.open(path)
    whole = read(mounted, old)
    assert mounted.attributes(path) == replace(before, size=len(whole), is_estimate=False)
    # Another version, which was never rendered: its size is not known.
    put_in_folder(folder, make_ledger(1, entries=12))
    mounted.refresh()
    assert mounted.attributes(path).size == len(whole)
    assert read(mounted, old) == whole
    new = mounted.open(path)
    assert 0 < len(read(mounted, new)) == mounted.attributes(path).size < len(whole)
    with pytest.raises(StaleObjectError):
        read(mounted, old)
    for handle in (old, new):
        mounted.release(handle)
    handle = mounted.open(path)
    opened = mounted.read_file(handle)
    mounted.reads.forgotten(opened)
    assert mounted.reads.is_cached(opened)
    mounted.release(handle)
    assert mounted.reads.show(path.strip("/"), before, lambda: True) == before
    assert not mounted.reads.is_cached(opened), "the next opening has the kernel drop the estimate"


def is_shown(mounted: MountedBucket, path: str) -> bool:
    directory, _, name = path.rpartition("/")
    return name in [one for one, _ in mounted.entries(directory)]


def test_what_was_written_here_and_is_removed_by_others_is_not_shown_any_more(
    mounted: MountedBucket, folder: Path
) -> None:
    mounted.release(write_all(mounted, RECORDS))
    assert is_shown(mounted, FILE)
    remove_ledgers(open_bucket(f"file://{folder}"), [FILE.strip("/")])
    mounted.refresh()
    assert not is_shown(mounted, FILE)
    for look in (mounted.attributes, mounted.open, mounted.remove):
        with pytest.raises(NotFoundError):
            look(FILE)
    mounted.release(write_all(mounted, RECORDS))
    assert content(mounted, FILE) == RECORDS


@pytest.mark.parametrize("is_listed", [False, True])
def test_whoever_reads_what_was_written_here_and_is_gone_has_the_bucket_listed(
    mounted: MountedBucket, folder: Path, is_listed: bool
) -> None:
    mounted.release(write_all(mounted, RECORDS))
    for name in ledger_20(folder):
        (folder / name).unlink()
    if is_listed:
        # As another file that is written does.
        mounted._bucket.refresh()
    with pytest.raises(NotFoundError):
        content(mounted, FILE)
    time.sleep(1.1)
    with pytest.raises(NotFoundError):
        mounted.attributes(FILE)
    assert not is_shown(mounted, FILE)


def test_removing_what_was_written_here_and_is_gone_ends_it(mounted: MountedBucket, folder: Path) -> None:
    mounted.release(write_all(mounted, RECORDS))
    for name in ledger_20(folder):
        (folder / name).unlink()
    with pytest.raises(NotFoundError):
        mounted.remove(FILE)
    assert not is_shown(mounted, FILE)


def test_what_was_written_here_is_shown_while_the_store_does_not_list_it_yet(
    mounted: MountedBucket, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mounted.release(write_all(mounted, RECORDS))
    pages = LocalStore.list_pages
    monkeypatch.setattr(
        LocalStore,
        "list_pages",
        lambda *args: ([one for one in page if "ledger-20" not in one.key] for page in pages(*args)),
    )
    mounted.refresh()
    assert [topic.ledgers for topic in open_bucket(f"file://{folder}").topics()] == [2]
    assert is_shown(mounted, FILE)
    assert mounted.attributes(FILE).size == len(RECORDS)
    with monkeypatch.context() as failing:
        failing.setattr(IncomingFile, "is_gone", _fail)
        mounted.refresh()
    assert "could not check whether it was deleted: no answer" in caplog.text
    assert is_shown(mounted, FILE)
    for name in ledger_20(folder):
        (folder / name).unlink()
    mounted.refresh()
    assert not is_shown(mounted, FILE)


def _fail(_: object) -> bool:
    raise StoreError("no answer")


def test_what_proc_reports_of_a_process(tmp_path: Path) -> None:
    """Of one that goes on, one that is not there, and of what it and its children have open."""
    assert process_of(ME) == os.getpid()
    reported: list[int] = []
    thread = threading.Thread(target=lambda: reported.append(process_of(threading.get_native_id())))
    thread.start()
    thread.join()
    assert reported == [os.getpid()]
    assert process_of(1 << 30) == 1 << 30
    assert not has_failed(ME)
    assert not has_failed(1 << 30)
    path = tmp_path / "file"
    with path.open("wb") as file:
        inode = os.fstat(file.fileno()).st_ino
        assert is_held([os.getpid()], inode)
        assert not is_held([os.getpid()], inode + 1)
        children = []
        for is_inherited in (False, True):
            os.set_inheritable(file.fileno(), is_inherited)
            children.append(fork())
            if children[-1] == 0:
                signal.pause()
                os._exit(0)
        file.close()
        # The first would close it as soon as it became another program; it counts once it has written.
        assert is_held([os.getpid()], inode)
        os.kill(children[1], 9)
        os.waitpid(children[1], 0)
        assert not is_held([os.getpid()], inode)
        assert is_held([children[0]], inode)
        os.kill(children[0], 9)
        os.waitpid(children[0], 0)
    assert not is_held([os.getpid(), 1 << 30], inode)
    with path.open("rb") as file:
        assert not is_held([os.getpid()], inode)


@pytest.mark.parametrize("looks", [1, 3])
def test_a_child_that_is_about_to_let_go_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """As in the moment of ``execve`` in which the kernel has cleared the flags and not yet closed the file."""
    with (tmp_path / "file").open("wb") as file:
        inode = os.fstat(file.fileno()).st_ino
        os.set_inheritable(file.fileno(), True)
        child = fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == looks:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    with monkeypatch.context() as patch:
        patch.setattr(processes, "time", SimpleNamespace(sleep=sleep))
        assert not is_held([os.getpid()], inode)
    assert len(slept) == looks

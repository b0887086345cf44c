"""Ranges on disk: bounded, shared, and never served wrong, whatever happened to the folder."""

import errno
import hashlib
import logging
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from ledgerfs.cache import disk_ranges, disk_sweep
from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.cache.disk_ranges import DiskRanges
from ledgerfs.cache.part_file import part_file
from ledgerfs.cache.sealed_file import BLOCK, SealedWriter
from ledgerfs.errors import StoreError
from ledgerfs.storage.objects import ObjectStat, ReadRequest
from tests.support.children import is_stopped, status_in_child
from tests.support.waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

HANGING = 300
"""Seconds after which something hangs."""

BOUND = 1 << 30
DAY = 86400
CONTENT = random.Random(5).randbytes(8 << 20)


def bytes_of(key: str, start: int, end: int) -> bytes:
    """Return what an object holds: something else at each place of each object."""
    at = int.from_bytes(hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:2], "big")
    return CONTENT[at + start : at + end]


class Store:
    """The store behind the ranges: counts what it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def read(self, request: ReadRequest) -> bytes:
        self.asked += 1
        return bytes_of(request.key, request.start, request.end)

    def start(self, request: ReadRequest) -> "Future[bytes]":
        future: Future[bytes] = Future()
        future.set_result(self.read(request))
        return future


class Ranges:
    """The ranges of one process, over a store of its own."""

    def __init__(self, folder: Path, bound: int = BOUND) -> None:
        self.store = Store()
        self.disk = DiskRanges(self.store, DiskFiles(CacheFolder(folder, bound)), "bucket")  # type: ignore[arg-type]

    def read(self, key: str, start: int, end: int) -> bool:
        """Read a range, wait until it is written, and return whether it came from the disk; the bytes are right."""
        before = self.store.asked
        data = self.disk.start(ReadRequest(key, start, end, "v")).result(HANGING)
        assert bytes(data) == bytes_of(key, start, end), (key, start, end)
        wait_until(lambda: not self.disk._queued, HANGING)
        return self.store.asked == before

    def forget(self, key: str) -> None:
        self.disk.forget(ObjectStat(key, 0, 0, "v"))


def path_of(folder: Path, key: str, start: int, end: int) -> Path:
    identity = "\n".join(("bucket", key, "v"))
    return folder / f"{hashlib.sha256(identity.encode(errors='surrogatepass')).hexdigest()}.{start}-{end}"


def files(folder: Path) -> list[Path]:
    found = list(folder.iterdir()) if folder.exists() else []
    return sorted(path for path in found if disk_sweep.NAME.match(path.name))


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(".part")]


def held(folder: Path) -> int:
    """Return the bytes in a folder, also while others write to it."""
    total = 0
    for path in list(folder.iterdir()) if folder.exists() else []:
        if path.name != "written":
            try:
                total += -(-path.stat().st_size // 4096) * 4096
            except FileNotFoundError:
                continue
    return total


def age(path: Path, seconds: float) -> None:
    """Make a file look as if it was used so long ago."""
    used = time.time_ns() - int(seconds * 10**9)
    os.utime(path, ns=(used, used))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def never_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_ranges, "_PAUSE_SECONDS", 0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Return a function that mounts a file system of some bytes."""
    mounted = []

    def mount(size: int) -> Path:
        path = tmp_path / "disk"
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "ledgerfs-test", str(path)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("file systems can be mounted by root only")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "-l", path], check=True)


# Each range is fetched once


def test_the_next_process_reads_from_disk_what_one_has_fetched(folder: Path) -> None:
    first = Ranges(folder)
    assert not first.read("a", 0, 1000)
    assert Ranges(folder).read("a", 0, 1000)
    assert not Ranges(folder).read("a", 0, 999)
    assert not Ranges(folder).read("b", 0, 1000)
    assert first.read("b", 0, 1000)
    for odd in ("ü", "\udcff", "a\nb", "../x", "a" * 5000):
        assert not first.read(odd, 3, 70_000)
        assert Ranges(folder).read(odd, 3, 70_000), odd
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))


def test_a_range_that_cannot_be_fetched_is_not_kept(folder: Path) -> None:
    ranges = Ranges(folder)
    failed: Future[bytes] = Future()
    failed.set_exception(StoreError("no"))
    with mock.patch.object(ranges.store, "start", return_value=failed), pytest.raises(StoreError, match="no"):
        ranges.disk.start(ReadRequest("a", 0, 10, "v")).result()
    assert files(folder) == []


def test_what_is_forgotten_is_fetched_again_in_every_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = Ranges(folder)
    for key in "ab":
        ranges.read(key, 0, 100)
    Ranges(folder).forget("a")
    assert [ranges.read("b", 0, 100), ranges.read("a", 0, 100)] == [True, False]

    def forget_and_finish(writer: SealedWriter, *arguments: object) -> object:
        ranges.forget("c")
        return finish(writer, *arguments)  # type: ignore[arg-type]

    finish = SealedWriter.finish
    with monkeypatch.context() as patched:
        patched.setattr(SealedWriter, "finish", forget_and_finish)
        ranges.read("c", 0, 100)
    assert not path_of(folder, "c", 0, 100).exists()


class Model(RuleBasedStateMachine):
    """Two processes on one folder: what one has read, the other finds, unless it was forgotten or damaged."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(os.environ["LEDGERFS_TEST_FOLDER"]) / str(time.monotonic_ns())
        self.instances = [Ranges(self.folder) for _ in range(2)]
        self.there: set[tuple[str, int, int]] = set()

    keys = st.sampled_from("ab")
    which = st.integers(0, 1)
    ranges = st.sampled_from([(0, 1), (0, 100), (50, 150), (100, 2 * BLOCK), (7, 7 + BLOCK)])

    @rule(which=which, key=keys, place=ranges)
    def read(self, which: int, key: str, place: tuple[int, int]) -> None:
        assert self.instances[which].read(key, *place) == ((key, *place) in self.there)
        self.there.add((key, *place))

    @rule(which=which, key=keys)
    def forget(self, which: int, key: str) -> None:
        self.instances[which].forget(key)
        self.there = {one for one in self.there if one[0] != key}

    @rule(choice=st.integers(0, 1 << 30), place=st.integers(0, 1 << 30))
    def flip(self, choice: int, place: int) -> None:
        if self.there:
            damaged = sorted(self.there)[choice % len(self.there)]
            path = path_of(self.folder, *damaged)
            data = bytearray(path.read_bytes())
            data[place % len(data)] ^= 1 << choice % 8
            path.write_bytes(data)
            self.there.remove(damaged)

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.long
def test_it_behaves_as_a_set_of_ranges_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERFS_TEST_FOLDER", str(tmp_path))
    case = Model.TestCase
    case.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
    case().runTest()  # type: ignore[no-untyped-call]


# What is damaged is not served


def test_anything_else_in_the_place_of_a_range_is_noticed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Cut, longer, of another place or object, with blocks that changed places, zeros that a crash leaves, never ours."""
    start, end = 500, 500 + 2 * BLOCK + 100
    Ranges(folder).read("a", start, end)
    path = path_of(folder, "a", start, end)
    whole = path.read_bytes()
    others = [whole[:size] for size in (0, 1, BLOCK, end - start, len(whole) - 100, len(whole) - 1)]
    others += [whole + b"\0", whole * 2, random.Random(1).randbytes(len(whole)), bytes(len(whole))]
    others.append(whole[BLOCK : 2 * BLOCK] + whole[:BLOCK] + whole[2 * BLOCK :])
    others += [whole[:torn].ljust(len(whole), b"\0") for torn in (4096, BLOCK + 4096, end - start)]
    for at in (*range(0, end - start, 7919), *range(end - start, len(whole))):
        others.append(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
    for number, data in enumerate(others):
        path.write_bytes(data)
        assert not Ranges(folder).read("a", start, end), number
        assert Ranges(folder).read("a", start, end), number
    for place in (("a", start + 1, end + 1), ("a", start, end - 1), ("b", start, end)):
        path_of(folder, *place).write_bytes(whole)
        assert not Ranges(folder).read(*place), place
    assert "is damaged" in caplog.text


def plant_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def plant_pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def plant_folder(path: Path, secret: Path) -> None:
    path.mkdir()


def test_what_is_planted_is_not_followed_and_does_not_hang(tmp_path: Path, never_pause: None) -> None:
    for plant in (plant_link, plant_pipe, plant_folder):
        folder = tmp_path / plant.__name__
        Ranges(folder).read("a", 0, 100)
        path = path_of(folder, "a", 0, 100)
        secret = tmp_path / f"secret of {plant.__name__}"
        path.rename(secret)
        sealed = secret.read_bytes()
        plant(path, secret)
        assert not Ranges(folder).read("a", 0, 100)
        plant(path_of(folder, "b", 0, 100).with_suffix(".0-100.part"), secret)
        assert not Ranges(folder).read("b", 0, 100)
        disk_sweep.sweep(folder, 0)
        assert secret.read_bytes() == sealed, plant


def test_a_process_without_descriptors_removes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = Ranges(folder)
    ranges.read("a", 0, 1000)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", mock.Mock(side_effect=OSError(errno.EMFILE, "too many")))
        assert not ranges.read("a", 0, 1000)
    assert ranges.read("a", 0, 1000)


def descriptors_in(folder: Path) -> list[str]:
    """Return what descriptors of this process are on a folder and what is in it; threads of other tests have their own."""
    places = (os.path.realpath(one) for one in Path("/proc/self/fd").iterdir())
    return [path for path in places if path == str(folder) or path.startswith(f"{folder}/")]


def test_descriptors_are_closed(folder: Path, never_pause: None) -> None:
    ranges = Ranges(folder)
    for _ in range(2):
        ranges.read("a", 0, 100)
        path_of(folder, "a", 0, 100).write_bytes(b"torn")
    with mock.patch.object(SealedWriter, "finish", side_effect=OSError(errno.EIO, "broken")):
        ranges.read("b", 0, 100)
    disk_sweep.sweep(folder, 1)
    wait_until(lambda: descriptors_in(folder) == [], HANGING)


# Many at once, and some of them killed


def hammer(folder: Path, bound: int, seed: int) -> None:
    """Read at random until enough came from the disk, all of it right."""
    ranges, chance, found, began = Ranges(folder, bound), random.Random(seed), 0, time.monotonic()
    while found < 300:
        assert time.monotonic() < began + 2 * HANGING, f"only {found} ranges were found"
        start = chance.randrange(30) * 40_000
        found += ranges.read(str(chance.randrange(2)), start, start + chance.choice((100, 39_000)))
        if chance.random() < 0.01:
            ranges.forget(str(chance.randrange(2)))


def hammer_in_process(folder: Path, bound: int, seed: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda thread: hammer(folder, bound, seed + thread), range(2)))


def held_by_stopped(processes: list[multiprocessing.context.SpawnProcess], folder: Path) -> int:
    """Return the bytes in a folder while the processes that write to it stand still: others would be counted twice, or not."""
    pids = [process.pid for process in processes if process.pid is not None]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for pid in pids:
            wait_until(lambda pid=pid: is_stopped(pid), HANGING)  # type: ignore[misc]
        return held(folder)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_processes_and_threads_that_share_a_small_folder_read_what_was_put(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    bound, number = 600_000, 3
    processes = [context.Process(target=hammer_in_process, args=(folder, bound, n * 10)) for n in range(number)]
    for process in processes:
        process.start()
    most = 0
    while running := [process for process in processes if process.is_alive()]:
        most = max(most, held_by_stopped(running, folder))
        time.sleep(0.02)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * number
    # Sweeps leave 90 %, 10 % may be written until the next, and each process may have a range under way in its writer and its readers.
    assert bound // 2 < most <= bound + number * 5 * 40_960
    disk_sweep.sweep(folder, bound)
    assert held(folder) <= 0.9 * bound
    assert parts(folder) == []


def test_what_a_killed_writer_left_is_not_served_and_taken_over_or_swept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(SealedWriter, "finish", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        for key in "ab":
            assert status_in_child(lambda key=key: Ranges(folder).read(key, 0, 1000), HANGING) == -signal.SIGKILL  # type: ignore[misc]
    assert len(parts(folder)) == 2
    assert not Ranges(folder).read("a", 0, 1000)
    assert Ranges(folder).read("a", 0, 1000)
    disk_sweep.sweep(folder, BOUND)
    assert parts(folder) == []


def test_nobody_waits_for_one_who_writes_the_same(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    ranges = Ranges(folder)
    path = folder / f"{path_of(folder, 'a', 0, 100).name}.part"
    with part_file(path):
        assert not ranges.read("a", 0, 100)
        disk_sweep.sweep(folder, BOUND)
        assert path.exists()
    assert not ranges.read("a", 0, 100)
    assert ranges.read("a", 0, 100)


def test_a_forked_child_goes_on_by_itself(folder: Path) -> None:
    ranges = Ranges(folder)
    ranges.read("a", 0, 100)
    taken, stop = threading.Event(), threading.Event()

    def use() -> None:
        with ranges.disk._lock:
            ranges.disk._queued = disk_ranges._QUEUE
            taken.set()
            stop.wait()
        ranges.disk._queued = 0

    busy = threading.Thread(target=use)
    busy.start()
    taken.wait()

    def child() -> None:
        # The parent's queue is full, and stays so; this process has one of its own.
        with mock.patch.object(os, "getpid", return_value=os.getpid()):
            assert bytes(ranges.disk.start(ReadRequest("a", 0, 100, "v")).result(HANGING)) == bytes_of("a", 0, 100)
        ranges.disk.start(ReadRequest("c", 0, 100, "v")).result(HANGING)
        wait_until(path_of(folder, "c", 0, 100).exists, HANGING)

    try:
        assert status_in_child(child, HANGING) == 0
    finally:
        stop.set()
        busy.join()
    assert ranges.read("c", 0, 100)


# The bound


def test_what_is_too_large_for_the_folder_is_not_kept(folder: Path) -> None:
    for bound, size, is_kept in ((400_000, 100_001, False), (400_000, 100_000, True), (0, 1, False)):
        where = folder / f"{bound} {size}"
        Ranges(where, bound).read("a", 0, size)
        assert path_of(where, "a", 0, size).exists() == is_kept, (bound, size)


def test_what_was_not_used_for_longest_is_removed_first(folder: Path) -> None:
    ranges = Ranges(folder)
    for at, key in enumerate("abcde"):
        ranges.read(key, 0, 40_000)
        age(path_of(folder, key, 0, 40_000), 3600 - at)
    assert ranges.read("a", 0, 40_000)
    disk_sweep.sweep(folder, 4 * 45_056)
    assert [path_of(folder, key, 0, 40_000).exists() for key in "abcde"] == [True, False, False, True, True]


def test_a_use_is_recorded_and_leaves_the_time_of_writing(folder: Path) -> None:
    ranges = Ranges(folder)
    ranges.read("a", 0, 100)
    path = path_of(folder, "a", 0, 100)
    for seconds in (120, -120):
        used = time.time_ns() - seconds * 10**9
        os.utime(path, ns=(used, 12345))
        assert ranges.read("a", 0, 100)
        assert path.stat().st_mtime_ns == 12345, seconds
        assert 0 <= time.time_ns() - path.stat().st_atime_ns < 60 * 10**9, seconds


def test_idle_ranges_are_removed_though_there_is_room(folder: Path) -> None:
    ranges = Ranges(folder)
    for key, days in (("a", 29), ("b", 31), ("c", 20000)):
        ranges.read(key, 0, 100)
        age(path_of(folder, key, 0, 100), days * DAY)
    for hours, key in ((1, "d"), (25, "e")):
        age(folder / "written", hours * 3600)
        ranges.read(key, 0, 100)
        is_swept = hours > 24
        found = [path_of(folder, key, 0, 100).exists() for key in "abc"]
        assert found == ([True, False, False] if is_swept else [True] * 3), hours


def test_a_killed_sweep_is_made_up_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ranges(folder).read("a", 0, 40_000)
    with monkeypatch.context() as patched:
        patched.setattr(disk_sweep, "_files", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        assert status_in_child(lambda: disk_sweep.sweep(folder, 100_000), HANGING) == -signal.SIGKILL
    assert (folder / "written").stat().st_size == 10
    Ranges(folder, 100_000).read("b", 0, 100)
    assert (folder / "written").stat().st_size == 0
    assert parts(folder) == []


def test_files_of_others_are_left_alone(folder: Path) -> None:
    Ranges(folder).read("a", 0, 100)
    names = ["notes.txt", "x.part", f"{'a' * 63}.0-100", f"{'a' * 64}.0_5", f"{'a' * 64}"]
    for name in names:
        (folder / name).write_text("mine")
    disk_sweep.sweep(folder, 0)
    assert [name for name in names if not (folder / name).exists()] == []
    assert files(folder) == []


# Disks that fail


def test_a_full_disk_is_reported_once_and_left_in_peace_for_a_while(
    small_disk: Callable[[int], Path], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = small_disk(2 << 20)
    ranges = Ranges(disk / "cache")
    ranges.read("a", 0, 100)
    with pytest.raises(OSError, match="No space"):
        (disk / "filler").write_bytes(bytes(2 << 20))
    for start in range(1000, 50_000, 1000):
        ranges.read("a", start, start + 100)
    assert warnings_of(caplog) == [f"byte ranges cannot be cached in {disk}/cache: No space left on device"]
    assert parts(disk / "cache") == []
    (disk / "filler").unlink()
    ranges.read("a", 1000, 1100)
    assert not ranges.read("a", 1000, 1100)
    ranges.disk._paused_until = time.monotonic()
    ranges.read("a", 1000, 1100)
    assert ranges.read("a", 1000, 1100)


def test_a_disk_that_is_smaller_than_the_bound_is_not_filled(
    small_disk: Callable[[int], Path], never_pause: None
) -> None:
    disk = small_disk(4 << 20)
    ranges = Ranges(disk / "cache")
    for start in range(0, 7_000_000, 50_000):
        ranges.read("a", start, start + 50_000)
        found = os.statvfs(disk)
        assert found.f_bavail * found.f_frsize >= (4 << 20) // 20
    assert ranges.read("a", 6_950_000, 7_000_000)
    assert held(disk / "cache") > 3 << 20


def test_files_that_may_not_be_so_large_are_not_kept(folder: Path, never_pause: None) -> None:
    def child() -> None:
        ranges = Ranges(folder)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        ranges.read("a", 0, 100_000)
        assert parts(folder) == files(folder) == []
        ranges.read("a", 0, 1000)
        assert ranges.read("a", 0, 1000)

    assert status_in_child(child, HANGING) == 0


def test_a_folder_that_is_read_only_is_read(
    small_disk: Callable[[int], Path], never_pause: None, caplog: pytest.LogCaptureFixture
) -> None:
    disk = small_disk(4 << 20)
    for key in "ab":
        Ranges(disk / "cache").read(key, 0, 1000)
    age(path_of(disk / "cache", "a", 0, 1000), 3600)
    age(disk / "cache" / "written", 3 * DAY)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    ranges = Ranges(disk / "cache")
    for _ in range(3):
        assert ranges.read("a", 0, 1000)
        assert not ranges.read("c", 0, 1000)
        ranges.forget("b")
    assert warnings_of(caplog) == [f"byte ranges cannot be cached in {disk}/cache: Read-only file system"]


def test_a_folder_that_is_deleted_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = Ranges(folder)
    for _ in range(3):
        assert not ranges.read("a", 0, 1000)
        assert ranges.read("a", 0, 1000)
        shutil.rmtree(folder)
        ranges.forget("a")
    finish = SealedWriter.finish

    def finish_and_remove(writer: SealedWriter, *arguments: object) -> object:
        shutil.rmtree(folder)
        return finish(writer, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(SealedWriter, "finish", finish_and_remove)
        assert not ranges.read("a", 0, 1000)
    assert not ranges.read("a", 0, 1000)
    assert ranges.read("a", 0, 1000)


@pytest.mark.parametrize("year", [1970, 2100])
def test_a_clock_that_jumps_spoils_nothing(year: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = (year - 1970) * 365 * DAY * 10**9
    ranges = Ranges(folder)
    ranges.read("a", 0, 1000)
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: shown)
        patched.setattr(time, "time", lambda: shown / 1e9)
        for key in "ba":
            ranges.read(key, 0, 1000)
        # What was used in the future of a clock that was set back is not idle.
        assert path_of(folder, "a", 0, 1000).exists()
    disk_sweep.sweep(folder, BOUND)
    for key in "ab":
        ranges.read(key, 0, 1000)
        assert ranges.read(key, 0, 1000)

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
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ledgerfs.cache import disk_ranges, disk_sweep, range_piece
from ledgerfs.cache.disk_budget import DiskBudget
from ledgerfs.cache.disk_ranges import DEFAULT_DISK_BYTES, DiskRanges
from ledgerfs.cache.part_file import part_file
from ledgerfs.cache.range_piece import BLOCK
from ledgerfs.errors import InvalidOptionError
from tests.support.children import is_stopped, status_in_child
from tests.support.waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

HANGING = 300
"""Seconds after which something hangs."""

BUDGET = 1 << 30
DAY = 86400
CONTENT = random.Random(5).randbytes(8 << 20)


def bytes_of(identity, start, end):
    """Return what an object holds: something else at each place of each object."""
    at = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:2], "big")
    return CONTENT[at + start : at + end]


def put(ranges, identity, start, end):
    ranges.put(identity, start, bytes_of(identity, start, end))


def within(folder):
    try:
        return list(folder.iterdir())
    except FileNotFoundError:  # another process has just removed it
        return []


def all_files(folder):
    """Return whatever is in the folders of objects, also while others write and remove it."""
    kinds = (path for path in within(folder) if len(path.name) == 2)
    return sorted(path for kind in kinds for one in within(kind) for path in within(one))


def files(folder):
    """Return the pieces on disk."""
    return [path for path in all_files(folder) if not path.name.endswith(".part")]


def parts(folder):
    return [path for path in all_files(folder) if path.name.endswith(".part")]


def held(folder):
    total = 0
    for path in all_files(folder):
        try:
            total += -(-path.stat().st_size // 4096) * 4096
        except FileNotFoundError:
            continue
    return total


def wait_for_sweeps():
    for thread in threading.enumerate():
        if thread.name == "ledgerfs-sweep":
            thread.join(HANGING)


def in_time(function, *arguments):
    """Return what a function returns that must not hang."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments)), daemon=True)
    thread.start()
    thread.join(HANGING)
    assert results, "it hangs, or failed"
    return results[0]


@pytest.fixture(autouse=True)
def _no_sweep_outlives_its_test():
    yield
    wait_for_sweeps()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


class Clock:
    """Takes the place of ``time`` in a module: it stands still until the test turns it on."""

    def __init__(self):
        self.passed = 0.0
        self._began = time.monotonic()
        self._began_ns = time.time_ns()

    def monotonic(self):
        return self._began + self.passed

    def time_ns(self):
        return self._began_ns + int(self.passed * 10**9)


@pytest.fixture
def clock(monkeypatch):
    """The clock of `DiskRanges`."""
    made = Clock()
    monkeypatch.setattr(disk_ranges, "time", made)
    return made


@pytest.fixture
def always_look(monkeypatch):
    monkeypatch.setattr(disk_ranges, "_LOOK_SECONDS", 0)


@pytest.fixture
def never_pause(monkeypatch):
    monkeypatch.setattr(disk_ranges, "_PAUSE_SECONDS", 0)


@pytest.fixture
def small_disk(tmp_path):
    """Return a function that mounts a file system of some bytes, and one that makes it read-only."""
    mounted = []

    def mount(size):
        path = tmp_path / "disk"
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "ledgerfs-test", path]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("file systems can be mounted by root only")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "-l", path], check=True)


# What is put is found


def test_only_what_is_not_there_yet_is_written(folder):
    ranges = DiskRanges(folder, BUDGET)
    put(ranges, "a", 1000, 2000)
    for start, end in ((1000, 2000), (1200, 1300), (500, 1500), (1500, 2500), (500, 2500)):
        put(ranges, "a", start, end)
    assert [path.name for path in files(folder)] == ["1000-2000", "2000-2500", "500-1000"]
    assert ranges.read("a", 500, 2500) == bytes_of("a", 500, 2500)


def test_a_larger_range_takes_the_place_of_those_in_it(folder):
    ranges = DiskRanges(folder, BUDGET)
    for start in (100, 300, 500):
        put(ranges, "a", start, start + 100)
    put(ranges, "a", 0, 550)
    assert [path.name for path in files(folder)] == ["0-500", "500-600"]
    assert ranges.read("a", 0, 600) == bytes_of("a", 0, 600)


def test_what_another_process_puts_is_seen_a_second_later(folder, clock):
    ranges = DiskRanges(folder, BUDGET)
    assert ranges.find("a", 0, 100) == []
    put(DiskRanges(folder, BUDGET), "a", 0, 100)
    assert ranges.find("a", 0, 100) == []
    clock.passed = 0.9
    assert ranges.find("a", 0, 100) == []
    clock.passed = 1.1
    assert ranges.find("a", 0, 100) == [(0, 100)]


def test_what_is_forgotten_is_gone_in_every_process(folder):
    ranges, other = DiskRanges(folder, BUDGET), DiskRanges(folder, BUDGET)
    for identity in ("a", "b"):
        put(ranges, identity, 0, 100)
        assert other.read(identity, 0, 100) == bytes_of(identity, 0, 100)
    ranges.forget("a")
    ranges.forget("never seen")
    assert ranges.find("a", 0, 100) == []
    assert other.read("a", 0, 100) is None
    assert other.find("a", 0, 100) == []
    assert ranges.read("b", 0, 100) == other.read("b", 0, 100) == bytes_of("b", 0, 100)
    assert len(list(folder.glob("??/*"))) == 1


def test_what_is_forgotten_while_it_is_written_is_not_kept(folder, monkeypatch):
    ranges = DiskRanges(folder, BUDGET)
    write = range_piece.write_piece

    calls = []

    def write_and_forget(*arguments):
        write(*arguments)
        if not calls:
            DiskRanges(folder, BUDGET).forget("a")
        calls.append(1)

    monkeypatch.setattr(disk_ranges, "write_piece", write_and_forget)
    put(ranges, "a", 0, 100)
    assert calls == [1]
    assert ranges.find("a", 0, 100) == []
    assert files(folder) == parts(folder) == []


def test_what_another_thread_puts_meanwhile_is_not_lost(folder, monkeypatch, always_look):
    ranges = DiskRanges(folder, BUDGET)
    look = disk_ranges._pieces

    def look_and_put(path):
        found = look(path)
        monkeypatch.setattr(disk_ranges, "_pieces", look)
        put(ranges, "a", 0, 100)
        return found

    monkeypatch.setattr(disk_ranges, "_pieces", look_and_put)
    assert ranges.find("a", 0, 100) == [(0, 100)]
    monkeypatch.setattr(disk_ranges, "_LOOK_SECONDS", 60)
    assert ranges.find("a", 0, 100) == [(0, 100)]


def test_two_threads_that_put_the_same_one_after_the_other_keep_it(folder, monkeypatch):
    ranges = DiskRanges(folder, BUDGET)
    make = disk_ranges._make_folder

    def put_first(path):
        monkeypatch.setattr(disk_ranges, "_make_folder", make)
        put(ranges, "a", 0, 100)
        assert ranges.find("a", 0, 100) == [(0, 100)]

    monkeypatch.setattr(disk_ranges, "_make_folder", put_first)
    put(ranges, "a", 0, 100)
    assert ranges.read("a", 0, 100) == bytes_of("a", 0, 100)


def test_any_name_is_an_identity(folder):
    ranges = DiskRanges(folder, BUDGET)
    names = ["", "../../etc/passwd", "a/b", "\0", "\udcff", "ü" * 1000]
    for at, name in enumerate(names):
        ranges.put(name, 0, bytes([at]) * 10)
    assert [ranges.read(name, 0, 10) for name in names] == [bytes([at]) * 10 for at in range(len(names))]
    assert len(files(folder)) == len(names)


def test_a_small_part_of_a_large_range_costs_little(folder, monkeypatch):
    put(DiskRanges(folder, BUDGET), "a", 0, 4 << 20)
    ranges = DiskRanges(folder, BUDGET)
    counted = []
    pread = os.pread

    def count(*arguments):
        counted.append(arguments[1])
        return pread(*arguments)

    monkeypatch.setattr(os, "pread", count)
    assert ranges.read("a", 3 * BLOCK - 10, 3 * BLOCK + 10) == bytes_of("a", 3 * BLOCK - 10, 3 * BLOCK + 10)
    assert 0 < sum(counted) <= 2 * BLOCK + 400


def test_nobody_else_may_look(folder):
    umask = os.umask(0)
    try:
        put(DiskRanges(folder, BUDGET), "a", 0, 100)
    finally:
        os.umask(umask)
    modes = {path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")] if path.is_dir()}
    assert modes == {0o700}
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_folder_or_file_of_somebody_else_is_not_used(folder, always_look, never_pause, caplog):
    ranges = DiskRanges(folder, BUDGET)
    put(ranges, "a", 0, 100)
    os.chown(files(folder)[0], 12345, 12345)
    assert ranges.read("a", 0, 100) is None
    put(ranges, "a", 0, 100)
    os.chown(files(folder)[0].parent, 12345, 12345)
    assert ranges.find("a", 0, 100) == []
    os.chown(folder, 12345, 12345)
    put(ranges, "b", 0, 100)
    assert ranges.find("b", 0, 100) == []
    assert "belongs to another user" in caplog.text


def test_the_environment_may_say_the_bound(folder, monkeypatch):
    def bound():
        return DiskRanges(folder)._budget._budget

    monkeypatch.delenv("LEDGERFS_DISK_CACHE_BYTES", raising=False)
    assert bound() == DEFAULT_DISK_BYTES
    monkeypatch.setenv("LEDGERFS_DISK_CACHE_BYTES", "12345")
    assert bound() == 12345
    monkeypatch.setenv("LEDGERFS_DISK_CACHE_BYTES", "10G")
    with pytest.raises(InvalidOptionError, match="LEDGERFS_DISK_CACHE_BYTES=10G"):
        bound()


class Model(RuleBasedStateMachine):
    """Two processes' worth of instances on one folder, against sets of what was put."""

    def __init__(self):
        super().__init__()
        self.folder = Path(os.environ["LEDGERFS_TEST_FOLDER"]) / str(time.monotonic_ns())
        self.patches = [mock.patch.object(range_piece, "BLOCK", 16), mock.patch.object(disk_ranges, "_LOOK_SECONDS", 0)]
        for patch in self.patches:
            patch.start()
        self.instances = [DiskRanges(self.folder, BUDGET) for _ in range(2)]
        self.there = {"a": set(), "b": set()}
        self.unsure = {"a": set(), "b": set()}

    objects = st.sampled_from("ab")
    which = st.integers(0, 1)
    places = st.integers(0, 200)
    sizes = st.integers(1, 80)

    @rule(which=which, identity=objects, start=places, size=sizes)
    def put(self, which, identity, start, size):
        put(self.instances[which], identity, start, start + size)
        self.there[identity] |= set(range(start, start + size)) - self.unsure[identity]

    @rule(which=which, identity=objects)
    def forget(self, which, identity):
        self.instances[which].forget(identity)
        self.there[identity].clear()
        self.unsure[identity].clear()

    @rule(which=which, identity=objects, start=places, size=sizes)
    def read(self, which, identity, start, size):
        data = self.instances[which].read(identity, start, start + size)
        wanted = set(range(start, start + size))
        if data is None:
            assert not wanted <= self.there[identity]
        else:
            assert data == bytes_of(identity, start, start + size)
            assert wanted <= self.there[identity] | self.unsure[identity]

    @rule(choice=st.integers(0, 1 << 30), place=st.integers(0, 1 << 30))
    def flip(self, choice, place):
        found = files(self.folder)
        if found:
            path = found[choice % len(found)]
            data = bytearray(path.read_bytes())
            data[place % len(data)] ^= 1 << choice % 8
            path.write_bytes(data)
            for identity in "ab":
                if path.parent.name == hashlib.sha256(identity.encode()).hexdigest():
                    damaged = set(range(*map(int, path.name.split("-"))))
                    self.there[identity] -= damaged
                    self.unsure[identity] |= damaged

    @invariant()
    def what_is_there_is_found(self):
        for ranges in self.instances:
            for identity in "ab":
                found = ranges.find(identity, 0, 1000)
                assert found == sorted(found)
                listed = [at for start, end in found for at in range(start, end)]
                assert len(listed) == len(set(listed))
                assert self.there[identity] <= set(listed) <= self.there[identity] | self.unsure[identity]

    def teardown(self):
        for patch in self.patches:
            patch.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.long
def test_it_behaves_as_sets_of_bytes_would(tmp_path, monkeypatch):
    monkeypatch.setenv("LEDGERFS_TEST_FOLDER", str(tmp_path))
    case = Model.TestCase
    case.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
    case().runTest()


# What is damaged is not served

SIZE = 3 * BLOCK + 100
HEAD = 56 + 4 * 4 + 4


@pytest.fixture(scope="module")
def whole_piece(tmp_path_factory):
    """The bytes of a file of `SIZE` bytes of object a from 500 on."""
    folder = tmp_path_factory.mktemp("whole")
    put(DiskRanges(folder, BUDGET), "a", 500, 500 + SIZE)
    data = files(folder)[0].read_bytes()
    assert len(data) == HEAD + SIZE
    return data


def place(folder, data, identity="a", name=f"500-{500 + SIZE}"):
    """Put a file where a piece would be."""
    digest = hashlib.sha256(identity.encode()).hexdigest()
    path = folder / digest[:2] / digest / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def is_dropped(folder, path, start=500, end=500 + SIZE, identity="a"):
    """Whether a file is found, but not served, and gone afterwards."""
    ranges = DiskRanges(folder, BUDGET)
    is_found = ranges.find(identity, start, end) == [(start, end)]
    is_served = ranges.read(identity, start, end) is not None
    is_forgotten = ranges.find(identity, start, end) == []
    return is_found and not is_served and is_forgotten and not path.exists()


def test_any_flipped_byte_is_noticed(whole_piece, folder, caplog):
    sampled = [*range(HEAD + 2), *range(HEAD, len(whole_piece), 4999), len(whole_piece) - 1]
    sampled += [HEAD + block * BLOCK + at for block in (1, 2, 3) for at in (-1, 0)]
    for at in sampled:
        data = bytearray(whole_piece)
        data[at] ^= 1 << at % 8
        assert is_dropped(folder, place(folder, data)), at
    assert "is damaged" in caplog.text
    assert DiskRanges(folder, BUDGET).read("a", 500, 500 + SIZE) is None
    place(folder, whole_piece)
    assert DiskRanges(folder, BUDGET).read("a", 500, 500 + SIZE) == bytes_of("a", 500, 500 + SIZE)


def test_a_flipped_byte_does_not_spoil_the_other_blocks(whole_piece, folder):
    data = bytearray(whole_piece)
    data[HEAD + BLOCK] ^= 1
    path = place(folder, data)
    ranges = DiskRanges(folder, BUDGET)
    for start, end in ((500, 500 + BLOCK), (500 + 2 * BLOCK, 500 + SIZE)):
        assert ranges.read("a", start, end) == bytes_of("a", start, end)
    assert path.exists()
    assert ranges.read("a", 500 + 2 * BLOCK - 1, 500 + 2 * BLOCK) is None
    assert not path.exists()


def test_anything_else_in_the_place_of_a_piece_is_noticed(whole_piece, folder):
    """Cut, longer, of another place or object, with blocks that changed places, zeros that a crash leaves, never ours."""
    sampled = [0, 1, HEAD - 1, HEAD, HEAD + 1, HEAD + BLOCK, len(whole_piece) - 100, len(whole_piece) - 1]
    others = [whole_piece[:size] for size in sampled + list(range(100, len(whole_piece), 7919))]
    others += [
        whole_piece + b"\0",
        whole_piece * 2,
        random.Random(1).randbytes(HEAD + SIZE),
        random.Random(2).randbytes(10),
    ]
    first, second = (whole_piece[HEAD + at * BLOCK : HEAD + (at + 1) * BLOCK] for at in (0, 1))
    others.append(whole_piece[:HEAD] + second + first + whole_piece[HEAD + 2 * BLOCK :])
    others += [
        whole_piece[:torn].ljust(len(whole_piece), b"\0") for torn in (0, HEAD, HEAD + 4096, HEAD + BLOCK + 4096)
    ]
    for number, data in enumerate(others):
        assert is_dropped(folder, place(folder, data)), number
    assert is_dropped(folder, place(folder, whole_piece, name=f"501-{501 + SIZE}"), 501, 501 + SIZE)
    assert is_dropped(folder, place(folder, whole_piece, name=f"500-{499 + SIZE}"), 500, 499 + SIZE)
    assert is_dropped(folder, place(folder, whole_piece, "b"), identity="b")


def plant_link(path, secret):
    path.symlink_to(secret)


def plant_pipe(path, secret):
    os.mkfifo(path)


def plant_folder(path, secret):
    path.mkdir()


def test_what_is_planted_is_not_followed_and_does_not_hang(whole_piece, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(whole_piece)
    for number, (plant, is_known) in enumerate(product((plant_link, plant_pipe, plant_folder), (False, True))):
        folder = tmp_path / str(number)
        path = place(folder, whole_piece)
        ranges = DiskRanges(folder, BUDGET)
        if is_known:
            assert ranges.find("a", 500, 501) == [(500, 501)]
        path.unlink()
        plant(path, secret)
        assert in_time(ranges.read, "a", 500, 501) is None, plant
        in_time(put, ranges, "a", 500, 500 + SIZE)
        in_time(disk_sweep.sweep, folder, BUDGET)
        assert secret.read_bytes() == whole_piece, plant
        if plant is not plant_folder:
            assert DiskRanges(folder, BUDGET).read("a", 500, 600) == bytes_of("a", 500, 600), plant


def test_a_part_that_is_planted_is_not_written_to(tmp_path, never_pause):
    secret = tmp_path / "secret"
    secret.write_bytes(b"mine")
    for plant in (plant_link, plant_pipe):
        folder = tmp_path / plant.__name__
        path = place(folder, b"", name="0-100.part")
        path.unlink()
        plant(path, secret)
        ranges = DiskRanges(folder, BUDGET)
        in_time(put, ranges, "a", 0, 100)
        in_time(disk_sweep.sweep, folder, BUDGET)
        assert secret.read_bytes() == b"mine", plant
        assert parts(folder) == [], plant
        put(ranges, "a", 0, 100)
        assert ranges.read("a", 0, 100) == bytes_of("a", 0, 100), plant


def test_a_file_that_goes_while_it_is_read_is_read_to_its_end(folder, monkeypatch):
    ranges = DiskRanges(folder, BUDGET)
    put(ranges, "a", 0, 1000)
    read = range_piece.read_piece

    def remove_and_read(*arguments):
        files(folder)[0].unlink()
        return read(*arguments)

    monkeypatch.setattr(disk_ranges, "read_piece", remove_and_read)
    assert ranges.read("a", 0, 1000) == bytes_of("a", 0, 1000)
    assert ranges.read("a", 0, 1000) is None
    assert ranges.find("a", 0, 1000) == []


def test_a_process_without_descriptors_removes_nothing(folder, monkeypatch):
    ranges = DiskRanges(folder, BUDGET)
    put(ranges, "a", 0, 1000)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", mock.Mock(side_effect=OSError(errno.EMFILE, "too many")))
        assert ranges.read("a", 0, 1000) is None
    assert DiskRanges(folder, BUDGET).read("a", 0, 1000) == bytes_of("a", 0, 1000)


def descriptors_in(folder):
    """Return what descriptors of this process are on a folder and what is in it; threads of other tests have their own."""
    places = (os.path.realpath(one) for one in Path("/proc/self/fd").iterdir())
    return [path for path in places if path == str(folder) or path.startswith(f"{folder}/")]


def test_descriptors_are_closed(folder, whole_piece, always_look, never_pause):
    ranges = DiskRanges(folder, BUDGET)
    put(ranges, "a", 0, 100)
    ranges.read("a", 0, 100)
    is_dropped(folder, place(folder, whole_piece[:-1]))
    with mock.patch.object(disk_ranges, "write_piece", side_effect=OSError(errno.EIO, "broken")):
        put(ranges, "b", 0, 100)
    DiskBudget(folder, 1).sweep()
    assert descriptors_in(folder) == []


# Many at once, and some of them killed


ENOUGH = 1_000_000
"""Bytes that each thread reads before it stops."""


def hammer(ranges, seed, enough=ENOUGH, longest=40_000, after_each=lambda: None):
    """Put and read at random until so many bytes were read, all of them right."""
    chance = random.Random(seed)
    read, began = 0, time.monotonic()
    while read < enough:
        assert time.monotonic() < began + 2 * HANGING, f"only {read} bytes were read"
        identity = str(chance.randrange(6))
        start = chance.randrange(100_000)
        end = start + chance.randrange(1, longest)
        for first, last in ranges.find(identity, start, end):
            data = ranges.read(identity, first, last)
            if data is not None:
                assert data == bytes_of(identity, first, last)
                read += len(data)
        put(ranges, identity, start, end)
        if chance.random() < 0.01:
            ranges.forget(identity)
        after_each()


def hammer_in_process(folder, budget, seed):
    ranges = DiskRanges(folder, budget)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda thread: hammer(ranges, seed + thread), range(2)))


def held_by_stopped(processes, folder):
    """Return the bytes in a folder while the processes that write to it stand still: others would be counted twice, or not."""
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        for process in processes:
            wait_until(lambda pid=process.pid: is_stopped(pid), HANGING)
        return held(folder)
    finally:
        for process in processes:
            os.kill(process.pid, signal.SIGCONT)


def test_processes_and_threads_that_share_a_small_folder_read_what_was_put(folder):
    context = multiprocessing.get_context("spawn")
    budget, number = 600_000, 4
    processes = [context.Process(target=hammer_in_process, args=(folder, budget, n * 10)) for n in range(number)]
    for process in processes:
        process.start()
    most = 0
    while running := [process for process in processes if process.is_alive()]:
        most = max(most, held_by_stopped(running, folder))
        time.sleep(0.02)
    most = max(most, held(folder))
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * number
    # Each thread may be one piece beyond.
    assert budget // 2 < most <= budget + number * 2 * 40_960
    DiskBudget(folder, budget).sweep()
    assert held(folder) <= 0.9 * budget
    assert parts(folder) == []


def test_what_a_killed_writer_left_is_not_served_and_taken_over_or_swept(folder, monkeypatch):
    def write_half(descriptor, digest, start, data):
        os.write(descriptor, bytes(data)[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patched:
        patched.setattr(disk_ranges, "write_piece", write_half)
        for identity in ("a", "b"):
            assert (
                status_in_child(lambda name=identity: put(DiskRanges(folder, BUDGET), name, 0, 1000), HANGING)
                == -signal.SIGKILL
            )
    assert len(parts(folder)) == 2
    ranges = DiskRanges(folder, BUDGET)
    assert ranges.find("a", 0, 1000) == ranges.find("b", 0, 1000) == []
    put(ranges, "a", 0, 1000)
    assert ranges.read("a", 0, 1000) == bytes_of("a", 0, 1000)
    assert len(parts(folder)) == 1
    DiskBudget(folder, BUDGET).sweep()
    assert parts(folder) == []
    assert len(list(folder.glob("??/*"))) == 1


def put_and_sweep(ranges, folder):
    put(ranges, "a", 0, 100)
    DiskBudget(folder, BUDGET).sweep()


def test_nobody_waits_for_one_who_writes_the_same(folder):
    ranges = DiskRanges(folder, BUDGET)
    path = place(folder, b"", name="0-100.part")
    with part_file(path):
        in_time(put_and_sweep, ranges, folder)
        assert path.exists()
        put(ranges, "a", 200, 300)
    assert ranges.find("a", 0, 1000) == [(200, 300)]


def test_a_sweep_that_takes_a_folder_away_does_not_hinder_who_writes_to_it(folder, monkeypatch):
    write = disk_ranges._write_file
    calls = []

    def sweep_and_write(path, *arguments):
        calls.append(path)
        if len(calls) == 1:
            disk_sweep.sweep(folder, BUDGET)
            assert not path.exists()
        return write(path, *arguments)

    monkeypatch.setattr(disk_ranges, "_write_file", sweep_and_write)
    ranges = DiskRanges(folder, BUDGET)
    put(ranges, "a", 0, 100)
    assert len(calls) == 2
    assert ranges.read("a", 0, 100) == bytes_of("a", 0, 100)


def test_a_forked_child_goes_on_by_itself(folder):
    ranges = DiskRanges(folder, 400_000)
    put(ranges, "a", 0, 100)
    taken, stop = threading.Event(), threading.Event()

    def use():
        with ranges._lock, ranges._budget._lock:
            ranges._budget._sweeper = os.getpid()
            taken.set()
            stop.wait()
        ranges._budget._sweeper = 0

    busy = threading.Thread(target=use)
    busy.start()
    taken.wait()

    def child():
        assert ranges.read("a", 0, 100) == bytes_of("a", 0, 100)
        for start in range(0, 1_000_000, 40_000):
            put(ranges, "b", start, start + 40_000)
            wait_for_sweeps()
        assert 200_000 < held(folder) <= 400_000
        put(ranges, "c", 0, 100)
        assert ranges.read("c", 0, 100) == bytes_of("c", 0, 100)

    try:
        assert status_in_child(child, HANGING) == 0
    finally:
        stop.set()
        busy.join()
    assert ranges.read("c", 0, 100) == bytes_of("c", 0, 100)


# The bound


def age(path, seconds):
    """Make a file look as if it was used so long ago."""
    used = time.time_ns() - int(seconds * 10**9)
    os.utime(path, ns=(used, used))


def path_of(folder, identity, start, end):
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return folder / digest[:2] / digest / f"{start}-{end}"


def test_the_bound_is_kept_even_when_nobody_can_sweep(folder):
    ranges = DiskRanges(folder, 2_000_000)
    put(ranges, "a", 0, 100)
    with part_file(folder / "sweep.part"):
        for start in range(0, 4_000_000, 50_000):
            put(ranges, "b", start, start + 50_000)
        wait_for_sweeps()
        assert 150_000 < held(folder) <= 2_000_000 // 10 + 53_248
    for start in range(0, 8_000_000 - 70_000, 50_000):
        put(ranges, "c", start, start + 50_000)
        wait_for_sweeps()
    assert 1_500_000 < held(folder) <= 2_000_000
    newest = [start for start, _ in ranges.find("c", 0, 1 << 30)]
    assert newest == sorted(newest)
    assert newest[-1] == 7_900_000
    assert len(newest) > 25
    assert not path_of(folder, "a", 0, 100).exists()


def test_what_is_too_large_for_the_folder_is_not_kept(folder):
    ranges = DiskRanges(folder, 400_000)
    put(ranges, "a", 0, 300_000)
    assert ranges.find("a", 0, 300_000) == []
    put(ranges, "a", 0, 50_000)
    assert ranges.find("a", 0, 300_000) == [(0, 50_000)]
    nothing = DiskRanges(folder / "none", 0)
    put(nothing, "a", 0, 1)
    assert nothing.find("a", 0, 1) == []


def test_what_was_not_used_for_longest_goes_first(folder):
    ranges = DiskRanges(folder, BUDGET)
    for at, identity in enumerate("abcde"):
        put(ranges, identity, 0, 40_000)
        age(path_of(folder, identity, 0, 40_000), 3600 - at)
    # A use counts, though only of a part, and only once a minute.
    assert ranges.read("a", 10, 20) == bytes_of("a", 10, 20)
    DiskBudget(folder, 4 * 45_000).sweep()
    assert [path_of(folder, identity, 0, 40_000).exists() for identity in "abcde"] == [True, False, False, True, True]
    assert len(list(folder.glob("??/*"))) == 3
    assert ranges.read("b", 0, 40_000) is None


def test_a_use_is_noted_once_a_minute(folder, monkeypatch, clock):
    ranges = DiskRanges(folder, BUDGET)
    put(ranges, "a", 0, 100)
    path = path_of(folder, "a", 0, 100)
    # The kernel notes reads as well, on some mounts, so the file is not read here.
    monkeypatch.setattr(disk_ranges, "read_piece", lambda *_: b"x")
    for seconds, is_noted in ((0, False), (30, False), (59, False), (61, True), (90, True), (-1, True), (-90, True)):
        used = clock.time_ns() - seconds * 10**9
        os.utime(path, ns=(used, 12345))
        assert ranges.read("a", 0, 1) == b"x"
        assert path.stat().st_mtime_ns == 12345, seconds
        assert path.stat().st_atime_ns == (clock.time_ns() if is_noted else used), seconds


def test_idle_pieces_go_though_there_is_room_and_nobody_writes(folder):
    ranges = DiskRanges(folder, BUDGET)
    for identity, days in (("a", 29), ("b", 31), ("c", 20000)):
        put(ranges, identity, 0, 100)
        age(path_of(folder, identity, 0, 100), days * DAY)
    for seconds, is_swept in ((3600, False), (25 * 3600, True), (-25 * 3600, True)):
        age(folder / "written", seconds)
        before = (folder / "written").stat().st_atime_ns
        DiskRanges(folder, BUDGET).find("d", 0, 100)
        wait_for_sweeps()
        assert ((folder / "written").stat().st_atime_ns != before) == is_swept, seconds
    assert [path_of(folder, identity, 0, 100).exists() for identity in "abc"] == [True, False, False]


def test_a_killed_sweep_is_made_up_for(folder, monkeypatch):
    put(DiskRanges(folder, BUDGET), "a", 0, 40_000)
    with monkeypatch.context() as patched:
        patched.setattr(disk_sweep, "_pieces", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        assert status_in_child(DiskBudget(folder, 100_000).sweep, HANGING) == -signal.SIGKILL
    assert (folder / "written").stat().st_size == 10
    DiskRanges(folder, 100_000).find("a", 0, 100)
    wait_for_sweeps()
    assert (folder / "written").stat().st_size == 0
    assert len(files(folder)) == 1


def test_what_is_written_during_a_sweep_counts_for_the_next(folder, monkeypatch):
    ranges = DiskRanges(folder, BUDGET)
    put(ranges, "a", 0, 40_000)
    pieces = disk_sweep._pieces

    def put_meanwhile(*arguments):
        yield from list(pieces(*arguments))
        put(ranges, "b", 0, 10_000)

    monkeypatch.setattr(disk_sweep, "_pieces", put_meanwhile)
    DiskBudget(folder, BUDGET).sweep()
    assert (folder / "written").stat().st_size == 3


def test_files_of_others_are_left_alone(folder):
    put(DiskRanges(folder, BUDGET), "a", 0, 100)
    names = [
        "notes.txt",
        "ab/notes",
        f"ab/{'c' * 64}/notes",
        f"ab/{'c' * 64}/0-x",
        f"ab/{'c' * 64}/5-5",
        "xyz/0-100",
        "ab/short/0-100",
    ]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    DiskBudget(folder, 0).sweep()
    assert [name for name in names if not (folder / name).exists()] == []
    assert not path_of(folder, "a", 0, 100).exists()


# Disks that fail


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_full_disk_is_told_once_and_left_in_peace_for_a_while(small_disk, caplog, clock):
    disk = small_disk(2 << 20)
    ranges = DiskRanges(disk / "cache", BUDGET)
    put(ranges, "a", 0, 100)
    with pytest.raises(OSError, match="No space"):
        (disk / "filler").write_bytes(bytes(2 << 20))
    for start in range(1000, 100_000, 1000):
        put(ranges, "a", start, start + 100)
    wait_for_sweeps()
    assert warnings_of(caplog) == [f"byte ranges cannot be kept in {disk}/cache: No space left on device"]
    assert parts(disk / "cache") == []
    (disk / "filler").unlink()
    clock.passed = 9
    put(ranges, "a", 1000, 1100)
    assert ranges.find("a", 1000, 2000) == []
    clock.passed = 11
    put(ranges, "a", 1000, 1100)
    assert ranges.read("a", 1000, 1100) == bytes_of("a", 1000, 1100)


def test_a_disk_that_is_smaller_than_the_bound_is_not_filled(small_disk, never_pause):
    disk = small_disk(4 << 20)
    ranges = DiskRanges(disk / "cache", BUDGET)
    least = 1 << 40
    for start in range(0, 8_000_000, 50_000):
        put(ranges, "a", start, start + 50_000)
        wait_for_sweeps()
        found = os.statvfs(disk)
        least = min(least, found.f_bavail * found.f_frsize)
    assert 4 << 20 > least >= (4 << 20) // 20
    assert ranges.find("a", 7_950_000, 8_000_000) == [(7_950_000, 8_000_000)]
    assert ranges.read("a", 7_950_000, 8_000_000) == bytes_of("a", 7_950_000, 8_000_000)
    assert held(disk / "cache") > 3 << 20


def test_a_quota_makes_room_as_a_full_disk_does(folder, never_pause):
    ranges = DiskRanges(folder, BUDGET)
    for at, identity in enumerate("abcdefgh"):
        put(ranges, identity, 0, 40_000)
        age(path_of(folder, identity, 0, 40_000), 3600 - at)
    with mock.patch.object(disk_ranges, "write_piece", side_effect=OSError(errno.EDQUOT, "quota")):
        put(ranges, "x", 0, 40_000)
    wait_for_sweeps()
    assert [path_of(folder, identity, 0, 40_000).exists() for identity in "abcdefgh"] == [False] + [True] * 7


def test_files_that_may_not_be_so_large_are_not_kept(folder, never_pause):
    def child():
        ranges = DiskRanges(folder, BUDGET)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        put(ranges, "a", 0, 100_000)
        assert parts(folder) == files(folder) == []
        put(ranges, "a", 0, 1000)
        assert ranges.read("a", 0, 1000) == bytes_of("a", 0, 1000)

    assert status_in_child(child, HANGING) == 0


def test_a_folder_that_is_read_only_is_read(small_disk, never_pause, always_look, caplog):
    disk = small_disk(4 << 20)
    for identity in "abc":
        put(DiskRanges(disk / "cache", BUDGET), identity, 0, 1000)
    damaged = path_of(disk / "cache", "b", 0, 1000)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    age(path_of(disk / "cache", "a", 0, 1000), 3600)
    age(disk / "cache" / "written", 3 * DAY)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    ranges = DiskRanges(disk / "cache", BUDGET)
    for _ in range(3):
        assert ranges.read("a", 0, 1000) == bytes_of("a", 0, 1000)
        assert ranges.read("b", 0, 1000) is None
        put(ranges, "a", 2000, 3000)
        ranges.forget("c")
    assert ranges.find("a", 0, 3000) == [(0, 1000)]
    assert len(warnings_of(caplog)) == 2
    assert f"byte ranges cannot be kept in {disk}/cache: Read-only file system" in warnings_of(caplog)


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path, never_pause, caplog):
    (tmp_path / "file").write_bytes(b"mine")
    ranges = DiskRanges(tmp_path / "file" / "cache", BUDGET)
    for _ in range(3):
        put(ranges, "a", 0, 100)
        assert ranges.find("a", 0, 100) == []
        assert ranges.read("a", 0, 100) is None
        ranges.forget("a")
    assert warnings_of(caplog) == [f"byte ranges cannot be kept in {tmp_path}/file/cache: Not a directory"]
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_folder_that_goes_is_made_again(folder):
    ranges = DiskRanges(folder, BUDGET)
    for _ in range(3):
        put(ranges, "a", 0, 1000)
        put(ranges, "b", 0, 1000)
        assert ranges.read("a", 0, 1000) == bytes_of("a", 0, 1000)
        shutil.rmtree(folder)
        assert ranges.read("a", 0, 1000) is None
        put(ranges, "c", 0, 1000)
        assert ranges.read("c", 0, 1000) == bytes_of("c", 0, 1000)
        shutil.rmtree(folder)
        for identity in "abc":
            ranges.forget(identity)


def test_a_folder_that_goes_during_a_write_hurts_nobody(tmp_path, monkeypatch, caplog):
    write = range_piece.write_piece
    for name in ("folder", "object"):
        folder = tmp_path / name
        removed = folder if name == "folder" else path_of(folder, "a", 0, 0).parent

        def write_and_remove(*arguments, removed=removed):
            write(*arguments)
            shutil.rmtree(removed)

        ranges = DiskRanges(folder, BUDGET)
        with monkeypatch.context() as patched:
            patched.setattr(disk_ranges, "write_piece", write_and_remove)
            put(ranges, "a", 0, 1000)
        assert ranges.find("a", 0, 1000) == [], name
        put(ranges, "a", 0, 1000)
        assert ranges.read("a", 0, 1000) == bytes_of("a", 0, 1000), name
        assert warnings_of(caplog) == [], name


@pytest.mark.parametrize("year", [1970, 2000, 2100])
def test_a_clock_that_jumps_spoils_nothing(year, folder, monkeypatch):
    shown = (year - 1970) * 365 * DAY * 10**9
    ranges = DiskRanges(folder, BUDGET)
    put(ranges, "a", 0, 1000)
    # One that began before the jump takes what is new for old; it is fetched again.
    wait_for_sweeps()
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: shown)
        patched.setattr(time, "time", lambda: shown / 1e9)
        put(ranges, "b", 0, 1000)
        for identity in "ab":
            data = ranges.read(identity, 0, 1000)
            assert data == bytes_of(identity, 0, 1000) or (data is None and year == 2100)
        wait_for_sweeps()
        DiskBudget(folder, BUDGET).sweep()
        # What was used in the future of a clock that went back is not idle.
        assert path_of(folder, "a", 0, 1000).exists() or year == 2100
    # What was used in the past of a clock that went forward may be, and go.
    DiskBudget(folder, BUDGET).sweep()
    ranges = DiskRanges(folder, BUDGET)
    for identity in "ab":
        put(ranges, identity, 0, 1000)
        assert ranges.read(identity, 0, 1000) == bytes_of(identity, 0, 1000)


def test_what_was_used_in_the_future_ages_from_now_on(folder):
    ranges = DiskRanges(folder, BUDGET)
    for identity, seconds in (("a", -900 * DAY), ("b", 3600), ("c", 1800)):
        put(ranges, identity, 0, 40_000)
        age(path_of(folder, identity, 0, 40_000), seconds)
    began = time.time_ns()
    DiskBudget(folder, 100_000).sweep()
    assert [path_of(folder, identity, 0, 40_000).exists() for identity in "abc"] == [True, False, True]
    assert began <= path_of(folder, "a", 0, 40_000).stat().st_atime_ns <= time.time_ns()

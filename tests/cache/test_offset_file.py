"""Learned offsets from one process to the next: merged, bounded, never of another version, never torn."""

import fcntl
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from ledgerfs.cache import kept_file, offset_file
from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.kept_file import KeptFile, write_array
from ledgerfs.cache.learned_offsets import STEP, LearnedOffsets
from ledgerfs.cache.offset_file import OffsetFile
from ledgerfs.cache.offset_table import GROUP, ObjectDigests, OffsetTable
from tests.support.children import fork, status_in_child

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

HANGING = 300
"""Seconds after which something hangs."""

KEY, OTHER = b"a key that is long" * 5, b"another"
VERSION = b"etag"


def file_of(folder):
    return OffsetFile(CacheFolder(folder), "bucket")


def path_in(folder):
    (path,) = folder.glob("*.offsets")
    return path


def known(offsets):
    return [tuple(row) for row in offsets.to_array().tolist()]


def leave(folder, pairs=((1, STEP), (7, 3 * STEP)), key=KEY, version=VERSION):
    """Do what a process does that learns and ends."""
    file = file_of(folder)
    offsets = file.offsets_of(key, version)
    for pair in pairs:
        offsets.learn(*pair)
    file.save()
    return file, offsets


def found(folder, key=KEY, version=VERSION):
    return known(file_of(folder).offsets_of(key, version))


def wait_for(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_what_was_learned_is_there_for_the_next_process(tmp_path):
    leave(tmp_path)
    leave(tmp_path, [(5, 0)], OTHER)
    assert found(tmp_path) == [(1, STEP), (7, 3 * STEP)]
    assert found(tmp_path, OTHER) == [(5, 0)]
    assert found(tmp_path, b"third") == []


def test_one_object_has_the_same_offsets_for_all_who_ask(tmp_path):
    file = file_of(tmp_path)
    assert file.offsets_of(KEY, VERSION) is file.offsets_of(KEY, VERSION)
    assert file.offsets_of(KEY, VERSION) is not file.offsets_of(KEY, b"other")


def test_another_version_is_ignored_and_dropped(tmp_path):
    leave(tmp_path)
    size = path_in(tmp_path).stat().st_size
    assert found(tmp_path, version=b"new") == []
    leave(tmp_path, [(2, 0), (3, STEP)], version=b"new")
    assert found(tmp_path) == []
    assert found(tmp_path, version=b"new") == [(2, 0), (3, STEP)]
    assert path_in(tmp_path).stat().st_size == size


def test_what_turned_out_wrong_goes_from_the_file_too(tmp_path):
    for learns in (False, True):
        folder = tmp_path / str(learns)
        leave(folder)
        leave(folder, [(5, 0)], OTHER)
        file = file_of(folder)
        offsets = file.offsets_of(KEY, VERSION)
        assert offsets.clear()
        if learns:
            offsets.learn(2, 7 * STEP)
        file.save()
        assert found(folder) == [(2, 7 * STEP)] * learns
        assert found(folder, OTHER) == [(5, 0)], learns
        offsets.learn(9, 20 * STEP)
        leave(folder, [(4, 12 * STEP)])
        file.save()
        assert found(folder) == [*[(2, 7 * STEP)] * learns, (4, 12 * STEP), (9, 20 * STEP)], "merged again as ever"


def test_what_two_processes_learn_is_merged(tmp_path):
    first, second = file_of(tmp_path), file_of(tmp_path)
    first.offsets_of(KEY, VERSION).learn(1, STEP)
    second.offsets_of(KEY, VERSION).learn(9, 5 * STEP)
    second.offsets_of(KEY, VERSION).learn(2, STEP + 5)
    second.offsets_of(OTHER, VERSION).learn(3, 0)
    first.save()
    second.save()
    assert found(tmp_path) == [(1, STEP), (9, 5 * STEP)]
    assert found(tmp_path, OTHER) == [(3, 0)]
    first.offsets_of(KEY, VERSION).learn(20, 9 * STEP)
    first.save()
    assert found(tmp_path) == [(1, STEP), (9, 5 * STEP), (20, 9 * STEP)]


def test_many_processes_at_once_lose_nothing(tmp_path):
    ready, go = os.pipe()
    children = []
    for number in range(4):
        children.append(fork())
        if children[-1] == 0:
            status = 1
            try:
                os.close(go)
                os.read(ready, 1)
                learn_and_save(tmp_path, number)
                status = 0
            finally:
                os._exit(status)
    # All begin when the last end of the pipe is closed.
    os.close(go)
    os.close(ready)
    assert [wait_for(child) for child in children] == [0] * 4
    for number in range(4):
        assert found(tmp_path, b"%d" % number, b"v") == [(i, i << 20) for i in range(20)]
    shared = sorted((1000 * i + number, (i * 8 + number) << 20) for i in range(20) for number in range(4))
    assert found(tmp_path, b"shared", b"v") == shared


def learn_and_save(folder, number):
    """Save now and then, in vain where another process does so, and in the end however long that takes."""
    file = file_of(folder)
    for i in range(20):
        file.offsets_of(b"shared", b"v").learn(1000 * i + number, (i * 8 + number) << 20)
        file.offsets_of(b"%d" % number, b"v").learn(i, i << 20)
        file.save()
    file._state.save(HANGING)


def test_the_end_of_a_process_saves(tmp_path):
    code = """
import sys
from pathlib import Path
from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.offset_file import OffsetFile
from tests.support.children import fork, status_in_child
file = OffsetFile(CacheFolder(Path(sys.argv[1])), "bucket")
file.offsets_of(b"k", b"v").learn(1, 2)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=HANGING)
    assert found(tmp_path, b"k", b"v") == [(1, 2)]


def test_the_end_of_the_file_saves(tmp_path):
    file = file_of(tmp_path)
    file.offsets_of(KEY, VERSION).learn(1, 2)
    del file
    assert found(tmp_path) == [(1, 2)]


def test_nothing_is_written_before_it_is_due(tmp_path, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(offset_file, "time", SimpleNamespace(monotonic=lambda: now))
    file = file_of(tmp_path)
    file.offsets_of(KEY, VERSION).learn(1, 2)
    now += offset_file.SAVE_SECONDS - 1
    file.save_if_due()
    assert list(tmp_path.iterdir()) == []
    now += 2
    file.save_if_due()
    assert found(tmp_path) == [(1, 2)]
    path_in(tmp_path).unlink()
    file.offsets_of(KEY, VERSION).learn(5, STEP)
    file.save_if_due()
    assert list(tmp_path.iterdir()) == []


def test_who_learned_nothing_writes_nothing(tmp_path):
    leave(tmp_path)
    before = path_in(tmp_path).stat()
    file = file_of(tmp_path)
    file.offsets_of(KEY, VERSION).learn(1, STEP)
    file.save()
    assert path_in(tmp_path).stat().st_ino == before.st_ino


def test_a_forked_child_saves_only_what_it_learned_itself(tmp_path):
    file = file_of(tmp_path)
    offsets = file.offsets_of(KEY, VERSION)
    offsets.learn(1, STEP)
    other = file.offsets_of(OTHER, VERSION)

    def learn():
        file.save()
        assert not list(tmp_path.iterdir())
        other.learn(3, 0)
        file.save()

    assert status_in_child(learn) == 0
    assert (found(tmp_path), found(tmp_path, OTHER)) == ([], [(3, 0)])
    file.save()
    assert (found(tmp_path), found(tmp_path, OTHER)) == ([(1, STEP)], [(3, 0)])


def test_the_bound_holds_and_what_was_learned_last_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(offset_file, "MAX_BYTES", 3 * (GROUP.itemsize + 32))
    for key in (b"1", b"2", b"3", b"4"):
        leave(tmp_path, key=key)
    assert [len(found(tmp_path, key)) for key in (b"1", b"2", b"3", b"4")] == [0, 2, 2, 2]
    leave(tmp_path, [(9, 9 * STEP)], b"2")
    assert [len(found(tmp_path, key)) for key in (b"1", b"2", b"3", b"4")] == [0, 3, 0, 2]
    assert path_in(tmp_path).stat().st_size < 3 * (GROUP.itemsize + 32) + 100


def test_many_objects_take_bounded_memory_and_are_all_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(offset_file, "_HANDED_OUT", 10)
    file = file_of(tmp_path)
    for number in range(100):
        file.offsets_of(b"%d" % number, VERSION).learn(number, 0)
        assert len(file._state._handed_out) <= 21
    file.save()
    assert all(found(tmp_path, b"%d" % number) == [(number, 0)] for number in range(100))


def path_name(folder):
    return KeptFile(CacheFolder(folder), "offsets", "bucket", None).path.name


def test_a_torn_file_is_dropped_wherever_it_was_torn(tmp_path):
    leave(tmp_path)
    whole = path_in(tmp_path).read_bytes()
    for size in range(len(whole)):
        (tmp_path / path_name(tmp_path)).write_bytes(whole[:size])
        assert found(tmp_path) == [], size
        assert not list(tmp_path.iterdir()), size


def test_a_file_of_another_layout_or_bucket_is_dropped_quietly(tmp_path, caplog, monkeypatch):
    for change in ("layout", "bucket"):
        if change == "layout":
            with monkeypatch.context() as patch:
                patch.setattr(offset_file, "_LAYOUT", (1, GROUP.descr))
                leave(tmp_path)
        else:
            other = OffsetFile(CacheFolder(tmp_path), "foreign")
            other.offsets_of(KEY, VERSION).learn(1, 2)
            other.save()
            path_in(tmp_path).rename(tmp_path / path_name(tmp_path))
        with caplog.at_level(logging.INFO, "ledgerfs.cache"):
            assert found(tmp_path) == []
        assert not list(tmp_path.iterdir())
    assert caplog.text.count("another version of ledgerfs") == 2
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_a_sealed_file_whose_counts_lie_is_dropped(tmp_path):
    for groups, pairs in ((0, 1), (1, 3), (2, 2), (2**61, 2**61)):

        def write(sink, groups=groups, pairs=pairs):
            sink.write(offset_file._HEADER.pack(groups, pairs))
            write_array(sink, np.array([(1, 2, 2)], GROUP))
            write_array(sink, np.zeros((2, 2), np.int64))

        assert KeptFile(CacheFolder(tmp_path), "offsets", "bucket", offset_file._LAYOUT).save(write)
        assert found(tmp_path) == [], (groups, pairs)
        assert not list(tmp_path.iterdir()), (groups, pairs)


def test_a_file_of_another_user_is_not_trusted(tmp_path, monkeypatch, caplog):
    leave(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert found(tmp_path) == []
    assert "another user" in caplog.text


class Clock:
    """Takes the place of ``time``, and does something in each pause."""

    def __init__(self, in_pause=lambda: None):
        self.slept = 0.0
        self._in_pause = in_pause
        self.time, self.time_ns = time.time, time.time_ns

    def monotonic(self):
        return 1000.0 + self.slept

    def sleep(self, seconds):
        self.slept += seconds
        self._in_pause()


def test_a_process_that_is_killed_while_it_writes_leaves_what_was_there(tmp_path, monkeypatch):
    leave(tmp_path)
    begun, begins = os.pipe()
    child = fork()
    if child == 0:

        def hang(sink):
            sink.write(bytes(5000))
            os.write(begins, b"x")
            signal.pause()

        KeptFile(CacheFolder(tmp_path), "offsets", "bucket", offset_file._LAYOUT).save(hang)
        os._exit(1)
    os.read(begun, 1)
    assert found(tmp_path) == [(1, STEP), (7, 3 * STEP)]
    clock = Clock()
    monkeypatch.setattr(kept_file, "time", clock)
    busy, _ = leave(tmp_path, [(3, 0)], OTHER)
    assert clock.slept == 0, "another process writes: nobody waits for it"
    os.kill(child, signal.SIGKILL)
    wait_for(child)
    busy.save()
    assert found(tmp_path, OTHER) == [(3, 0)]
    assert found(tmp_path) == [(1, STEP), (7, 3 * STEP)]
    assert [path.suffix for path in tmp_path.iterdir()] == [".offsets"]


def test_the_end_waits_a_moment_for_another_process(tmp_path, monkeypatch):
    for pauses, is_saved in ((3, True), (1000, False)):
        file = file_of(tmp_path)
        file.offsets_of(KEY, VERSION).learn(1, 2)
        part = tmp_path / f"{path_name(tmp_path)}.part"
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        left = iter(range(pauses))

        def release(descriptor=descriptor, left=left):
            if next(left, None) is None:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

        clock = Clock(release)
        with monkeypatch.context() as patched:
            patched.setattr(kept_file, "time", clock)
            del file
        os.close(descriptor)
        assert found(tmp_path) == [(1, 2)] * is_saved
        assert 0 < clock.slept < 2 * offset_file._LAST_PATIENCE
        (tmp_path / (path_name(tmp_path) if is_saved else part.name)).unlink()


def test_a_full_disk_costs_nothing_but_what_was_learned(tmp_path):
    leave(tmp_path)

    def learn():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        _, offsets = leave(tmp_path, [(i, i * STEP) for i in range(100)], OTHER)
        assert len(offsets) == 100

    assert status_in_child(learn) == 0
    assert found(tmp_path) == [(1, STEP), (7, 3 * STEP)]
    assert [path.suffix for path in tmp_path.iterdir()] == [".offsets"]


def test_a_folder_that_cannot_be_made_is_a_line_in_the_log(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.INFO, "ledgerfs.cache"):
        _, offsets = leave(tmp_path / "file" / "catalogs")
    assert known(offsets) == [(1, STEP), (7, 3 * STEP)]
    assert "cannot be written" in caplog.text


def test_idle_files_and_dead_parts_go_and_what_is_not_ours_stays(tmp_path):
    old = time.time() - kept_file.IDLE_SECONDS - 60
    for name in (f"{'a' * 64}.catalog", f"{'b' * 64}.offsets", "notes.txt", f"{'c' * 64}.catalog.part"):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (old, old))
    (tmp_path / f"{'d' * 64}.catalog").write_bytes(b"x")
    leave(tmp_path)
    assert sorted(path.name[0] + path.suffix for path in tmp_path.iterdir()) == sorted(
        ["d.catalog", "n.txt", path_name(tmp_path)[0] + ".offsets"]
    )


def test_opening_a_file_counts_as_use(tmp_path):
    leave(tmp_path)
    old = time.time() - kept_file.IDLE_SECONDS - 60
    os.utime(path_in(tmp_path), (old, old))
    assert found(tmp_path)
    other = OffsetFile(CacheFolder(tmp_path), "other")
    other.offsets_of(KEY, VERSION).learn(1, 2)
    other.save()
    assert found(tmp_path) == [(1, STEP), (7, 3 * STEP)]


def test_a_table_agrees_with_a_dictionary():
    rng = np.random.default_rng(1)
    table, truth = OffsetTable.empty(), {}
    for _ in range(60):
        learned = {}
        for key in rng.choice(20, 3, replace=False).tolist():
            origin = ObjectDigests(key * 2**59, int(rng.integers(0, 2)))
            offsets = LearnedOffsets()
            item = int(rng.integers(0, 40))
            offsets.learn(item, item * STEP)
            learned[origin] = offsets
            truth = {o: items for o, items in truth.items() if o.key != origin.key or o == origin}
            truth[origin] = truth.get(origin, set()) | {item}
        table = table.merged(learned, 1 << 20)
        for key in range(20):
            for version in (0, 1):
                origin = ObjectDigests(key * 2**59, version)
                items = sorted(truth.get(origin, ()))
                assert known(table.offsets_of(origin)) == [(item, item * STEP) for item in items]
    assert len(table.groups) == len({origin.key for origin in truth})

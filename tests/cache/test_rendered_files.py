"""Files that are made once, however many want them, and never served torn."""

import logging
import multiprocessing
import os
import resource
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.cache.disk_sweep import sweep
from ledgerfs.cache.rendered_files import RenderedFiles
from ledgerfs.errors import CacheWriteError, StaleObjectError
from tests.support.children import fork, status_in_child

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

HANGING = 300
"""Seconds after which something hangs."""

KEY, OTHER, THIRD = ("a" * 64, "b" * 64, "c" * 64)
NOW, LATER = b"n" * 32, b"l" * 32
CONTENT = bytes(range(256)) * 40


def files_of(folder, max_bytes=1 << 30):
    return RenderedFiles(DiskFiles(CacheFolder(folder, max_bytes)))


def render(content=CONTENT, *, is_final=True, calls=None):
    """Return a renderer, which counts its calls in the list."""

    def write(sink):
        if calls is not None:
            calls.append(1)
        for start in range(0, len(content), 1000):
            sink.write(content[start : start + 1000])
        return is_final

    return write


def content_of(file):
    return file.read(0, file.size)


def names(folder):
    return sorted(path.name[0] + path.name[64:] for path in folder.iterdir() if path.name != "written")


def path_of(folder, key=KEY):
    return folder / f"{key}.file"


def wait_for(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_a_file_is_made_once_and_found_again(tmp_path):
    calls = []
    files = files_of(tmp_path)
    assert files.size(KEY) is None
    file = files.open(KEY, render(calls=calls))
    assert files.size(KEY) == file.size == len(CONTENT)
    assert file.read(1000, 3000) == CONTENT[1000:3000]
    del file
    for again in (files, files_of(tmp_path)):
        assert content_of(again.open(KEY, render(b"other", calls=calls))) == CONTENT
        assert again.size(KEY) == len(CONTENT)
    assert calls == [1]
    assert content_of(files.open(OTHER, render(b"", calls=calls))) == b""
    assert names(tmp_path) == ["a.file", "b.file"]


def test_many_threads_with_many_instances_make_it_once(tmp_path):
    calls = []
    together = threading.Barrier(16)
    instances = [files_of(tmp_path) for _ in range(4)]

    def open_it(number):
        together.wait(HANGING)
        return content_of(instances[number % 4].open(KEY, render(calls=calls)))

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(open_it, range(16))) == {CONTENT}
    assert calls == [1]
    assert names(tmp_path) == ["a.file"]


def open_in_process(folder, log, together):
    def write(sink):
        with log.open("a") as lines:
            lines.write("made\n")
        return render()(sink)

    together.wait(HANGING)
    os._exit(0 if content_of(files_of(folder).open(KEY, write)) == CONTENT else 1)


def make_in_processes(context, tmp_path, number):
    """Have so many processes open a file at once."""
    together = context.Barrier(number)
    folder, log = tmp_path / "cache", tmp_path / "log"
    processes = [context.Process(target=open_in_process, args=(folder, log, together)) for _ in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * number
    assert log.read_text() == "made\n"


def test_many_forked_processes_make_it_once(tmp_path):
    make_in_processes(multiprocessing.get_context("fork"), tmp_path, 5)


def test_an_error_reaches_the_caller_and_leaves_nothing(tmp_path):
    def fail(sink):
        sink.write(CONTENT)
        raise ValueError("no")

    files = files_of(tmp_path)
    with pytest.raises(ValueError, match="no"):
        files.open(KEY, fail)
    assert names(tmp_path) == []
    assert content_of(files.open(KEY, render())) == CONTENT


def hanging_child(folder, *, forks=False):
    """Return a process that hangs while it makes the file, and one that it forked then."""
    begun, begins = os.pipe()
    child = fork()
    if child == 0:

        def hang(sink):
            sink.write(CONTENT[:5000])
            if forks:
                threading.Thread(target=fork_and_tell).start()
            else:
                os.write(begins, bytes(4))
            threading.Event().wait(2 * HANGING)

        def fork_and_tell():
            # Another thread, as a pool of processes would: the lock is held by this process meanwhile.
            grandchild = fork()
            if grandchild == 0:
                signal.pause()
            os.write(begins, grandchild.to_bytes(4, "big"))

        files_of(folder).open(KEY, hang)
        os._exit(1)
    os.close(begins)
    grandchild = int.from_bytes(os.read(begun, 4), "big")
    os.close(begun)
    return child, grandchild


def test_a_killed_process_leaves_nothing_that_is_served(tmp_path):
    child, _ = hanging_child(tmp_path)
    assert names(tmp_path) == ["a.file.part"]
    os.kill(child, signal.SIGKILL)
    wait_for(child)
    assert names(tmp_path) == ["a.file.part"]
    files = files_of(tmp_path)
    assert files.size(KEY) is None
    assert content_of(files.open(KEY, render())) == CONTENT
    assert names(tmp_path) == ["a.file"]


def test_a_sweep_removes_what_a_killed_process_left_and_nothing_of_a_living_one(tmp_path):
    (tmp_path / f"{THIRD}.file.part").write_bytes(b"dead")
    child, _ = hanging_child(tmp_path)
    try:
        sweep(tmp_path, 1 << 30)
        assert names(tmp_path) == ["a.file.part"]
    finally:
        os.kill(child, signal.SIGKILL)
        wait_for(child)
    sweep(tmp_path, 1 << 30)
    assert names(tmp_path) == []


def test_those_who_wait_for_a_process_go_on_when_it_is_killed(tmp_path):
    for forks in (False, True):
        folder = tmp_path / str(forks)
        child, grandchild = hanging_child(folder, forks=forks)
        calls = []
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(files_of(folder).open, KEY, render(calls=calls))
            os.kill(child, signal.SIGKILL)
            wait_for(child)
            try:
                assert content_of(waiting.result(HANGING)) == CONTENT, forks
            finally:
                if grandchild:
                    os.kill(grandchild, signal.SIGKILL)
        assert calls == [1], forks


def test_a_flipped_byte_is_never_served(tmp_path, caplog):
    for at in (0, 5000, len(CONTENT) - 1, len(CONTENT), len(CONTENT) + 20, -1):
        files_of(tmp_path).open(KEY, render())
        data = bytearray(path_of(tmp_path).read_bytes())
        data[at] ^= 1
        path_of(tmp_path).write_bytes(data)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "ledgerfs.cache"):
            assert content_of(files_of(tmp_path).open(KEY, render())) == CONTENT, at
        assert "is damaged" in caplog.text, at
        assert content_of(files_of(tmp_path).open(KEY, render(b"never"))) == CONTENT, at


def test_a_file_that_is_cut_while_it_is_open_is_an_error(tmp_path):
    file = files_of(tmp_path).open(KEY, render())
    os.truncate(path_of(tmp_path), 100)
    with pytest.raises(StaleObjectError, match="open it again"):
        file.read(0, 200)
    assert file.read(0, 100) == CONTENT[:100]


def test_a_full_disk_is_our_error_and_leaves_nothing(tmp_path):
    def fill():
        files = files_of(tmp_path)
        files.open(OTHER, render(b"small"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        with pytest.raises(CacheWriteError, match=f"{tmp_path}.*cache_dir="):
            files.open(KEY, render())
        assert files.open(OTHER, render(b"")).size == 5

    assert status_in_child(fill) == 0
    assert names(tmp_path) == ["b.file"]


def test_a_full_disk_is_reported_whatever_others_made_of_it(tmp_path):
    def swallow(sink):
        try:
            render()(sink)
        except OSError as error:
            raise RuntimeError("a library failed") from error
        return True

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        with pytest.raises(CacheWriteError):
            files_of(tmp_path).open(KEY, swallow)

    assert status_in_child(fill) == 0
    assert names(tmp_path) == []


def test_open_files_are_read_to_their_end_after_they_went(tmp_path):
    files = files_of(tmp_path, 16_000)
    first = files.open(KEY, render())
    second = files.open(OTHER, render(CONTENT[::-1]))
    assert names(tmp_path) == ["b.file"]
    assert content_of(first) == CONTENT
    assert content_of(second) == CONTENT[::-1]
    assert files.size(KEY) == len(CONTENT)


def test_a_file_beyond_the_bound_is_served_while_it_is_open_and_costs_the_others_nothing(tmp_path):
    calls = []
    files = files_of(tmp_path, 5000)
    files.open(OTHER, render(b"small"))
    file = files.open(KEY, render(calls=calls))
    again = files.open(KEY, render(calls=calls))
    assert content_of(file) == content_of(again) == CONTENT
    assert calls == [1]
    assert files.size(KEY) == len(CONTENT)
    assert names(tmp_path) == ["b.file"]
    del file, again
    assert files.size(KEY) is None
    files.open(KEY, render(calls=calls))
    assert calls == [1, 1]


def test_what_is_not_final_is_served_in_its_own_state_only(tmp_path):
    calls = []
    for files in (files_of(tmp_path), files_of(tmp_path)):
        assert content_of(files.open(KEY, render(b"so far", is_final=False, calls=calls), NOW)) == b"so far"
        assert (files.size(KEY, NOW), files.size(KEY, LATER)) == (6, None)
    assert calls == [1]
    held = files.open(KEY, render(b"never"), NOW)
    assert content_of(files.open(KEY, render(b"in the end", calls=calls), LATER)) == b"in the end"
    assert calls == [1, 1]
    assert content_of(held) == b"so far"
    for state in (NOW, LATER):
        assert content_of(files_of(tmp_path).open(KEY, render(b"never"), state)) == b"in the end"
    assert names(tmp_path) == ["a.file"]


def test_a_folder_that_goes_during_a_rendering_is_our_error(tmp_path):
    folder = tmp_path / "cache"

    def remove(sink):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        return render()(sink)

    with pytest.raises(CacheWriteError, match="No such file"):
        files_of(folder).open(KEY, remove)


def descriptors_of(folder: Path) -> list[str]:
    """Return what descriptors of this process are on files in a folder; threads of other tests may close their own meanwhile."""
    places = (os.path.realpath(one) for one in Path("/proc/self/fd").iterdir())
    return [place for place in places if place.startswith(f"{folder}/")]


def test_descriptors_are_closed_with_the_last_holder(tmp_path):
    files = files_of(tmp_path)
    held = [files.open(key, render()) for key in (KEY, OTHER, KEY, KEY)]
    assert len(descriptors_of(tmp_path)) == 2
    held.clear()
    assert descriptors_of(tmp_path) == []
    path_of(tmp_path).write_bytes(b"torn")
    files.open(KEY, render())
    assert descriptors_of(tmp_path) == []


def test_an_open_file_is_read_after_a_fork(tmp_path):
    files = files_of(tmp_path)
    file = files.open(KEY, render())

    def read():
        assert content_of(file) == content_of(files.open(KEY, render(b""))) == CONTENT
        assert content_of(files.open(OTHER, render(b"of the child"))) == b"of the child"

    assert status_in_child(read) == 0
    assert content_of(file) == CONTENT
    assert content_of(files.open(OTHER, render(b"never"))) == b"of the child"

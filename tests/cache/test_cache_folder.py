"""Where cached files lie: what the user said, and what is done where that does not work."""

import logging
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.cache.cache_folder import CacheFolder, cache_folder
from ledgerfs.errors import CacheWriteError, InvalidOptionError


def test_the_option_comes_before_the_environment_and_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", "/mine")
    assert cache_folder("rendered", str(tmp_path)).path == tmp_path / "rendered"
    assert cache_folder("rendered").path == Path("/mine/rendered")
    monkeypatch.delenv("LEDGERFS_CACHE_DIR")
    assert cache_folder("rendered").path == Path("/xdg/ledgerfs/rendered")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder("rendered").path == Path("/home/somebody/.cache/ledgerfs/rendered")
    monkeypatch.chdir(tmp_path)
    assert cache_folder("rendered", "here").path == tmp_path / "here" / "rendered"


def test_nothing_is_made_before_it_is_needed_and_then_only_for_the_owner(tmp_path):
    folder = cache_folder("rendered", str(tmp_path / "new" / "folder"))
    assert list(tmp_path.iterdir()) == []
    made = folder.make()
    assert made == tmp_path / "new" / "folder" / "rendered"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert list(made.iterdir()) == []
    assert folder.make() == made


def test_a_folder_that_was_removed_is_made_again(tmp_path):
    folder = CacheFolder(tmp_path / "cache")
    shutil.rmtree(folder.make())
    assert folder.make().is_dir()


@pytest.fixture
def no_folder(tmp_path):
    """A path at which no user can make a folder."""
    (tmp_path / "file").write_text("mine")
    return tmp_path / "file"


def test_where_no_folder_can_be_a_temporary_one_serves_and_that_is_said(no_folder, caplog):
    with caplog.at_level(logging.WARNING, "ledgerfs.cache"):
        folder = CacheFolder(no_folder / "rendered")
        made = folder.make()
        assert folder.make() == folder.path == made
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    (record,) = caplog.records
    assert str(no_folder) in record.message
    assert str(made) in record.message
    assert no_folder.read_text() == "mine"


def test_a_user_without_a_home_has_a_temporary_folder(monkeypatch):
    monkeypatch.delenv("LEDGERFS_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "~nobody-of-this-name")
    monkeypatch.setattr(Path, "expanduser", lambda _: (_ for _ in ()).throw(RuntimeError("no home")))
    folder = cache_folder("rendered")
    assert folder.make().is_dir()
    assert folder.path.is_absolute()


def test_without_any_folder_the_error_says_what_to_do(no_folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(no_folder))
    with pytest.raises(CacheWriteError, match=r"cache_dir= or \$LEDGERFS_CACHE_DIR") as caught:
        CacheFolder(no_folder / "rendered").make()
    assert caught.value.errno is not None


def test_a_temporary_folder_goes_with_its_process_and_not_with_a_forked_child(no_folder):
    code = """
import os, sys
from pathlib import Path
from ledgerfs.cache.cache_folder import CacheFolder
made = CacheFolder(Path(sys.argv[1])).make()
if os.fork() == 0:
    sys.exit()
os.wait()
print(made, made.is_dir())
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(no_folder / "x")], capture_output=True, text=True, check=True
    )
    made, was_there = done.stdout.split()
    assert was_there == "True"
    assert not Path(made).exists()


def test_the_bound_is_given_or_from_the_environment(tmp_path, monkeypatch):
    assert CacheFolder(tmp_path, 7).max_bytes == 7
    for text, bound in (("1000", 1000), ("0", 0), ("", 10 << 30)):
        monkeypatch.setenv("LEDGERFS_DISK_CACHE_BYTES", text)
        assert CacheFolder(tmp_path).max_bytes == bound


@pytest.mark.parametrize("text", ["10GiB", "-1", "1e9"])
def test_a_bound_that_is_no_number_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.setenv("LEDGERFS_DISK_CACHE_BYTES", text)
    with pytest.raises(InvalidOptionError, match=f"LEDGERFS_DISK_CACHE_BYTES={text}"):
        open_bucket(str(tmp_path))

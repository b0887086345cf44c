"""A cache folder that others can reach: what they planted there is neither served, nor followed, nor written through, nor deleted."""

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.cache.cache_folder import CacheFolder, cache_folder
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.cache.kept_file import KeptFile
from ledgerfs.cache.rendered_files import RenderedFiles
from ledgerfs.vfs.tree import tree_of
from ledgerfs.vfs.views.rendered import RenderedView

KEY = "ab" * 32
OTHERS_UID = 54321


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make a file or folder another user's: truly where this user may do so, and else in what the kernel says of it."""
    foreign: set[tuple[int, int]] = set()

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, OTHERS_UID, -1)
            return
        found = path.stat()
        foreign.add((found.st_dev, found.st_ino))

    plain = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        found = plain(descriptor)
        if (found.st_dev, found.st_ino) not in foreign:
            return found
        return os.stat_result([*found[:4], OTHERS_UID, *found[5:]])

    monkeypatch.setattr(os, "fstat", fstat)
    return give


def render(content: bytes) -> Callable[[object], bool]:
    def write(sink: object) -> bool:
        sink.write(content)  # type: ignore[attr-defined]
        return True

    return write


def rendered_files(folder: Path) -> RenderedFiles:
    return RenderedFiles(DiskFiles(CacheFolder(folder)))


def rendered(folder: Path, content: bytes = b"true") -> bytes:
    file = rendered_files(folder).open(KEY, render(content))
    return file.read(0, file.size)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def forged(tmp_path: Path) -> Path:
    """A folder with a sealed file of the right name and wrong content."""
    assert rendered(tmp_path / "forged", b"forged") == b"forged"
    return tmp_path / "forged"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"written"}


def test_a_rendered_file_in_a_linked_folder_is_not_served(
    forged: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").symlink_to(forged)
    files = rendered_files(tmp_path / "cache")
    assert files.size(KEY) is None
    made = files.open(KEY, render(b"true"))
    assert made.read(0, made.size) == b"true"
    assert names(forged) == {f"{KEY}.file"}
    assert rendered(forged, b"never asked for") == b"forged"
    (said, instead) = warnings_of(caplog)
    assert f"{tmp_path}/cache: a symbolic link, which is not followed" in said
    assert f"{tmp_path}/cache" in instead


def test_a_folder_that_others_may_write_to_is_not_used(forged: Path, caplog: pytest.LogCaptureFixture) -> None:
    for mode in (0o777, 0o770, 0o1777):
        caplog.clear()
        forged.chmod(mode)
        assert rendered(forged) == b"true", oct(mode)
        assert names(forged) == {f"{KEY}.file"}
        assert "other users may write to it" in warnings_of(caplog)[0], oct(mode)


def test_a_rendered_file_of_another_user_is_not_served(
    forged: Path, give_away: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    give_away(forged / f"{KEY}.file")
    assert rendered_files(forged).size(KEY) is None
    assert rendered(forged) == b"true"
    assert any("belongs to another user" in one for one in warnings_of(caplog))


@pytest.mark.parametrize("suffix", ["file", "file.part"])
def test_a_link_in_the_place_of_a_rendered_file_is_neither_served_nor_followed(
    suffix: str, forged: Path, tmp_path: Path
) -> None:
    folder = CacheFolder(tmp_path / "cache").make()
    target = forged / f"{KEY}.file"
    before = target.read_bytes()
    (folder / f"{KEY}.{suffix}").symlink_to(target)
    if suffix == "file":
        assert rendered(folder) == b"true"
    else:
        with pytest.raises(OSError, match=f"{KEY}.file.part.*a symbolic link, which is not followed"):
            rendered(folder)
    assert target.read_bytes() == before


def test_a_hard_link_in_the_place_of_a_part_is_not_emptied(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path / "cache").make()
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    victim.chmod(0o600)
    (folder / f"{KEY}.file.part").hardlink_to(victim)
    with pytest.raises(OSError, match="has other hard links"):
        rendered(folder)
    assert victim.read_bytes() == b"mine"


def kept(folder: Path) -> KeptFile:
    return KeptFile(DiskFiles(CacheFolder(folder)), "catalog", "bucket", 1)


def save(folder: Path, content: bytes) -> bool:
    return kept(folder).save(lambda sink: sink.write(content) and None)


def load(folder: Path) -> bytes | None:
    return kept(folder).load(lambda descriptor, size: os.pread(descriptor, size, 0))


@pytest.mark.parametrize("how", ["linked folder", "foreign folder", "open folder", "linked file", "foreign file"])
def test_kept_files_that_somebody_may_have_planted_are_not_believed(
    how: str, tmp_path: Path, give_away: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    there, folder = tmp_path / "there", tmp_path / "folder"
    assert save(there, b"forged")
    (file,) = there.glob("*.catalog")
    if how == "linked folder":
        folder.symlink_to(there)
    elif how == "linked file":
        CacheFolder(folder).make()
        (folder / file.name).symlink_to(file)
    else:
        folder = there
        if how == "open folder":
            folder.chmod(0o777)
        else:
            give_away(folder if "folder" in how else file)
    before = file.read_bytes()
    assert load(folder) is None
    assert file.read_bytes() == before
    (warning,) = warnings_of(caplog)
    assert str(folder) in warning
    assert save(folder, b"true") == ("file" in how)
    assert file.read_bytes() == before or how == "foreign file"
    assert load(folder) == (b"true" if "file" in how else None)


def test_in_a_shared_folder_each_user_has_one_of_their_own(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    folder = cache_folder("rendered", str(shared))
    made = folder.make()
    assert made == shared / f"rendered-{os.geteuid()}"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert cache_folder("rendered", str(tmp_path / "mine")).path == tmp_path / "mine" / "rendered"


def test_what_we_make_is_not_shared_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        cache_folder("rendered", str(tmp_path / "cache")).make()
    finally:
        os.umask(before)
    assert cache_folder("rendered", str(tmp_path / "cache")).path == tmp_path / "cache" / "rendered"


def test_a_planted_table_is_not_served_by_the_tree(
    tmp_path: Path, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shared cache folder in which somebody else was first, with a file that is sealed as ours are."""
    url = f"file://{golden}/bucket"
    bucket = open_bucket(url)
    view = tree_of(bucket)._views["jsonl"]
    assert isinstance(view, RenderedView)
    ref = bucket.topic("public/golden/plain").ledgers[0].ref
    shared, evil = tmp_path / "shared", tmp_path / "evil"
    rendered_files(evil).open(view.tables.key(ref, "jsonl"), render(b'{"forged":true}\n'))
    shared.mkdir()
    (shared / "files").symlink_to(evil)
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", str(shared))
    opened = tree_of(open_bucket(url)).open(f"jsonl/public/golden/plain/{ref.ledger_id}.jsonl")
    said = opened.read(0, opened.size)
    assert b"forged" not in said
    assert b'"publish_time"' in said

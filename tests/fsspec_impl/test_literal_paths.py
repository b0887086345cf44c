"""A path that is there as it is written is that path, whatever else it would match as a pattern: a topic may be called ``orders*``."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ledgerfs.errors import MissingLedgerError, NotFoundError
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.ledgers import Offload, offload, put_in_folder

TOPICS = {"orders": 1, "orders-eu": 2, "orders*": 3, "orders%5B1%5D": 4, "orders%3F": 5, "orders1": 6, "other": 7}
"""Ledgers by the directories of their topics; Java's URLEncoder leaves a ``*`` as it is."""

ENTRIES = "entries/public/default"
PATHS = {name: f"{ENTRIES}/{name}/{ledger_id}.entries" for name, ledger_id in TOPICS.items()}


@cache
def ledgers() -> dict[str, Offload]:
    return {
        name: offload([name.encode()] * 3, ledger_id, uuid=ledger_id, name=f"public/default/persistent/{name}")
        for name, ledger_id in TOPICS.items()
    }


def made_in(folder: Path) -> LedgerFileSystem:
    folder.mkdir()
    put_in_folder(folder, *ledgers().values())
    return LedgerFileSystem(fo=str(folder), target_protocol="file")


@pytest.fixture
def fs(tmp_path: Path) -> LedgerFileSystem:
    return made_in(tmp_path / "bucket")


def left(fs: LedgerFileSystem) -> set[str]:
    """Return the topics that are there for somebody who looks for the first time."""
    fs.invalidate_cache()
    return {path.split("/")[3] for path in fs.find(ENTRIES)}


def contents(name: str) -> bytes:
    return ledgers()[name].records


REMOVALS: list[Callable[[LedgerFileSystem], None]] = [
    lambda fs: fs.rm(f"{ENTRIES}/orders*", recursive=True),
    lambda fs: fs.rm(f"ledger://{ENTRIES}/orders*/", recursive=True),
    lambda fs: fs.rm([f"{ENTRIES}/orders*"], recursive=True),
    lambda fs: fs.rm(f"{ENTRIES}/orders*", recursive=True, maxdepth=1),
    lambda fs: fs.rm(f"{ENTRIES}/orders*/3.entries"),
    lambda fs: fs.rm([f"{ENTRIES}/orders*/3.entries"]),
    lambda fs: fs.rm(f"{ENTRIES}/orders*/*.entries"),
    lambda fs: fs.rm(f"{ENTRIES}/orders*/?.entries", recursive=True),
    lambda fs: fs.rm_file(f"{ENTRIES}/orders*/3.entries"),
    lambda fs: fs.rm(fs.find(f"{ENTRIES}/orders*")),
    lambda fs: fs.delete(f"{ENTRIES}/orders*", recursive=True),
]


def test_removing_a_topic_as_it_is_listed_removes_no_other(tmp_path: Path) -> None:
    for number, remove in enumerate(REMOVALS):
        fs = made_in(tmp_path / str(number))
        assert f"{ENTRIES}/orders*" in fs.ls(ENTRIES, detail=False)
        remove(fs)
        assert left(fs) == TOPICS.keys() - {"orders*"}, f"way {number}"


def test_a_ledger_that_somebody_else_removed_is_no_pattern_for_those_of_other_topics(fs: LedgerFileSystem) -> None:
    put_in_folder(
        Path(fs.bucket.store.url.removeprefix("file://")),
        *(
            offload([b"x"], 60, uuid=60 + i, name=f"public/default/persistent/{name}")
            for i, name in enumerate(("orders", "orders-eu"))
        ),
    )
    fs.invalidate_cache()
    for call in (fs.rm, fs.cat, fs.expand_path):
        with pytest.raises(FileNotFoundError):
            call(f"{ENTRIES}/orders*/60.entries")
    assert left(fs) == TOPICS.keys()


def test_every_topic_is_read_by_the_paths_that_are_listed(fs: LedgerFileSystem, tmp_path: Path) -> None:
    for number, name in enumerate(TOPICS):
        folder = tmp_path / str(number)
        folder.mkdir()
        read_topic(fs, name, folder)


def read_topic(fs: LedgerFileSystem, name: str, folder: Path) -> None:
    path, directory = PATHS[name], f"{ENTRIES}/{name}"
    assert fs.cat(path) == contents(name)
    assert fs.cat([path]) == {path: contents(name)}
    assert fs.cat(directory, recursive=True, on_error="omit") == {path: contents(name)}
    assert fs.cat_ranges([path], 0, None) == [contents(name)]
    assert fs.expand_path(path) == [path]
    assert fs.expand_path(directory) == [directory]
    assert fs.expand_path(directory, recursive=True) == [directory, path]
    assert fs.expand_path(directory, recursive=True, maxdepth=1) == [directory, path]
    assert fs.find(directory) == [path]
    assert fs.du(directory) == len(contents(name))
    assert [one for _, _, files in fs.walk(directory) for one in files] == [path.rpartition("/")[2]]
    with fsspec.open(f"ledger://{path}::{fs.bucket.store.url}") as opened:
        assert opened.read() == contents(name)
    assert fs.exists(path)
    assert fs.isdir(directory)
    assert fs.get_mapper(directory)[path.rpartition("/")[2]] == contents(name)
    file = path.rpartition("/")[2]

    fs.get(path, str(folder / "one"))
    assert (folder / "one").read_bytes() == contents(name)
    fs.get(directory, str(folder / "new"), recursive=True)
    assert files_in(folder / "new") == {file: contents(name)}
    fs.get(directory, str(folder / "new"), recursive=True)
    assert files_in(folder / "new") == {file: contents(name), f"{name}/{file}": contents(name)}
    fs.get([path], str(folder / "list"))
    assert files_in(folder / "list") == {file: contents(name)}


def test_a_copy_of_a_topic_is_all_of_it_or_an_error(fs: LedgerFileSystem) -> None:
    folder = Path(fs.bucket.store.url.removeprefix("file://"))
    put_in_folder(folder, offload([b"x"], 50, uuid=50))
    fs.invalidate_cache()
    assert fs.exists(f"{ENTRIES}/orders/50.entries")
    next(folder.glob("*-ledger-50")).unlink()
    paths = fs.ls(f"{ENTRIES}/orders", detail=False)
    places = [f"{ENTRIES}/copies/{1000 + number}.entries" for number in range(len(paths))]
    with pytest.raises(MissingLedgerError):
        fs.copy(paths, places)


def test_local_files_are_put_by_the_paths_that_are_listed(fs: LedgerFileSystem, tmp_path: Path) -> None:
    for one, ledger_id in TOPICS.items():
        (tmp_path / "local" / one).mkdir(parents=True)
        (tmp_path / "local" / one / f"{100 + ledger_id}.entries").write_bytes(contents(one))
    before = set(fs.find(ENTRIES))
    for name, ledger_id in TOPICS.items():
        source, path = str(tmp_path / "local" / name), f"{ENTRIES}/put/{100 + ledger_id}.entries"
        fs.put(source, f"{ENTRIES}/put", recursive=True)
        assert set(fs.find(ENTRIES)) - before == {path}, name
        assert fs.cat_file(path) == contents(name)
        fs.rm(path)
        fs.put(f"{source}/{100 + ledger_id}.entries", path)
        assert set(fs.find(ENTRIES)) - before == {path}, name
        fs.rm(path)
        fs.put(f"{source}/*.entries", f"{ENTRIES}/put/")
        assert set(fs.find(ENTRIES)) - before == {path}, name
        fs.rm(path)


def test_what_is_there_under_no_such_name_is_a_pattern(fs: LedgerFileSystem, tmp_path: Path) -> None:
    some = [f"{ENTRIES}/{name}" for name in ("orders", "orders*", "orders-eu", "orders1")]
    assert fs.expand_path(f"{ENTRIES}/o*s*") == sorted([*some, f"{ENTRIES}/orders%3F", f"{ENTRIES}/orders%5B1%5D"])
    assert fs.expand_path(f"{ENTRIES}/orders[1]") == [f"{ENTRIES}/orders1"]
    assert fs.cat(f"{ENTRIES}/orders?/*") == {PATHS[name]: contents(name) for name in ("orders*", "orders1")}
    assert fs.expand_path([f"{ENTRIES}/orders*", f"{ENTRIES}/oth*"]) == [f"{ENTRIES}/orders*", f"{ENTRIES}/other"]
    assert fs.expand_path(f"{ENTRIES}/ot*", recursive=True) == [f"{ENTRIES}/other", PATHS["other"]]
    assert fs.expand_path(f"{ENTRIES}/ot*", recursive=True, maxdepth=1) == [f"{ENTRIES}/other"]
    fs.get(f"{ENTRIES}/o*r/*.entries", str(tmp_path))
    assert (tmp_path / "7.entries").read_bytes() == contents("other")
    fs.rm(f"{ENTRIES}/ot*", recursive=True)
    assert left(fs) == TOPICS.keys() - {"other"}
    with pytest.raises(FileNotFoundError):
        fs.expand_path(f"{ENTRIES}/nothing*")
    with pytest.raises(ValueError, match="maxdepth"):
        fs.expand_path(f"{ENTRIES}/orders", maxdepth=0)
    with pytest.raises(NotFoundError):
        fs.expand_path("nothing/*/x")


def files_in(folder: Path) -> dict[str, Any]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

"""Folders of a shared bucket: all ledgers are found, and foreign trees cost a few requests, however large they are."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.dialects.mapfile.folders import MapFileListing
from ledgerfs.ledgers.folder_search import MOST_DEAD_ENDS, FolderSearch
from ledgerfs.storage.objects import ObjectStat

UUID = "0f7c3cb1-8e0a-4b57-9a2a-3b1c5d7e9f10"
NAMESPACE = "public/default"
LEDGER = f"{NAMESPACE}/persistent/orders/1-{UUID}"
PAGE = 5


class Listed:
    """A store of keys, with pages as S3 has them; denied folders are those that may not be listed."""

    def __init__(self, keys: Iterable[str], denied: Iterable[str] = ()) -> None:
        self.keys, self.denied = sorted(keys), set(denied)
        self.requests = 0

    def list_folder(self, folder: str) -> Iterator[list[ObjectStat]]:
        return self._pages(folder, [key for key in self.keys if key.startswith(folder)])

    def list_level(self, folder: str) -> Iterator[list[ObjectStat]]:
        below = (key.removeprefix(folder) for key in self.keys if key.startswith(folder))
        names = dict.fromkeys(name.partition("/")[0] + ("/" if "/" in name else "") for name in below)
        return self._pages(folder, [folder + name for name in names])

    def _pages(self, folder: str, keys: list[str]) -> Iterator[list[ObjectStat]]:
        for low in range(0, max(1, len(keys)), PAGE):
            self.requests += 1
            if folder in self.denied:
                yield [ObjectStat(folder, 0, 0, "", "access denied")]
                return
            yield [ObjectStat(key, 1, 1, "1") for key in keys[low : low + PAGE]]


def searched(store: Listed, top: str) -> tuple[list[ObjectStat], list[str]]:
    made: Any = store
    search = FolderSearch(made, MapFileListing().levels_of_layout)
    return [stat for page in search.pages(top) for stat in page], search.given_up


def keys_of(stats: Iterable[ObjectStat]) -> set[str]:
    return {stat.key for stat in stats}


def refused(store: Listed, top: str) -> list[str]:
    return [stat.key for stat in searched(store, top)[0] if stat.refused]


@pytest.mark.parametrize(
    ("keys", "most"),
    [
        # One folder with many files.
        ([f"foreign/part-{number:06}" for number in range(10_000)], 2),
        # Hive partitions.
        ([f"foreign/table/date={date}/hour={hour}/part" for date in range(100) for hour in range(24)], 13),
        # Hashes.
        ([f"foreign/{one:02x}/{two:02x}/{one}{two}" for one in range(100) for two in range(100)], 11),
        # Each folder has more files than a page.
        ([f"foreign/{one}/part-{number}" for one in range(500) for number in range(20)], 18),
    ],
)
def test_a_foreign_tree_costs_a_few_requests(keys: list[str], most: int) -> None:
    store = Listed(keys)
    stats, given_up = searched(store, "foreign/")
    assert store.requests <= most
    assert given_up
    assert all(stat.key.startswith("foreign/") for stat in stats)


def test_a_small_foreign_folder_is_searched_as_a_whole() -> None:
    store = Listed(["foreign/a", "foreign/b/c", "foreign/b/d/e"])
    assert searched(store, "foreign/") == ([ObjectStat(key, 1, 1, "1") for key in store.keys], [])


def test_a_tenant_is_one_listing() -> None:
    """However many namespaces it has, and whatever else is in it."""
    keys = [f"public/{number:03}/persistent/orders/1-{UUID}/data" for number in range(200)]
    store = Listed([*keys, *(f"public/aside/{number}" for number in range(20)), "public/notes/a"])
    stats, given_up = searched(store, "public/")
    assert keys_of(stats) == set(store.keys)
    assert (len(stats), given_up) == (len(store.keys), [])
    assert store.requests <= 4 + len(store.keys) / PAGE


def test_a_base_is_searched_beside_foreign_folders() -> None:
    """Each folder beside a layout is searched, since others may have one."""
    foreign = [f"base/zone{one}/{two}/part" for one in range(3) for two in range(100)]
    first, last = f"base/a/{LEDGER}/data", f"base/zz/{LEDGER}/data"
    stats, given_up = searched(Listed([*foreign, first, last]), "base/")
    assert {first, last} <= keys_of(stats)
    assert given_up == ["base/zone0/", "base/zone1/", "base/zone2/"]


def test_a_denied_folder_that_may_have_ledgers_is_refused() -> None:
    ledger = f"{LEDGER}/data"
    assert refused(Listed([ledger], ["public/"]), "public/") == ["public/"]
    assert refused(Listed([ledger], ["public/default/"]), "public/") == ["public/default/"]
    other = "public/other/persistent/orders/x"
    assert refused(Listed([ledger, other, "public/a"], ["public/default/"]), "public/") == []  # as its listing has it
    assert refused(Listed([f"base/{ledger}", "base/x/y"], ["base/x/"]), "base/") == ["base/x/"]


def test_a_denied_folder_beside_files_of_a_foreign_folder_is_foreign() -> None:
    store = Listed(["lake/table/_log/1", "lake/table/part-1", "lake/table/part-2"], ["lake/table/_log/"])
    stats, _ = searched(store, "lake/")
    assert "lake/table/_log/" in keys_of(stats)
    assert refused(store, "lake/") == []
    # With a ledger anywhere in it the same folder may have others.
    store.keys = sorted([*store.keys, f"lake/{LEDGER}/data"])
    assert refused(store, "lake/") == ["lake/table/_log/"]


NAMES = st.sampled_from(["a", "b", "persistent", f"1-{UUID}", "data", "index", "public", ".data.crc"])
TREES = st.lists(st.lists(NAMES, min_size=2, max_size=7).map("/".join), min_size=1, max_size=MOST_DEAD_ENDS)


@given(keys=TREES)
def test_all_ledgers_are_found_as_in_a_whole_listing(keys: list[str]) -> None:
    is_folder = {key for key in keys for other in keys if other.startswith(f"{key}/")}
    store = Listed(set(keys) - is_folder)
    found, whole = MapFileListing(), MapFileListing()
    for top in {f"{key.partition('/')[0]}/" for key in store.keys}:
        stats, given_up = searched(store, top)
        assert not given_up
        assert len(stats) == len(keys_of(stats))
        found.take(stats)
        whole.take([stat for page in store.list_folder(top) for stat in page])
    assert sorted(found.folders(), key=repr) == sorted(whole.folders(), key=repr)

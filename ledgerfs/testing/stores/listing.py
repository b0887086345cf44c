"""Test listings: each current object once, of one level or all levels."""

import time
from typing import ClassVar

import pytest

from ledgerfs.errors import BucketNotFoundError, ObjectNotFoundError
from ledgerfs.testing.stores.listed import in_folder, listed
from ledgerfs.testing.stores.place import StorePlace

ODD_NAMES = (
    "a b",
    "a%20b",
    "a+b",
    "é",
    "日本",
    "a?b",
    "a#b",
    "a&b=c",
    "it's",
    'say "so"',
    "~",
    "a;b",
    "a,b",
    "[a]*",
    "a:b",
    ".a",
    "-",
)
DAY_MS = 86_400_000


class ListingTests:
    """Tests of `list_pages`, `list_folder` and `head`."""

    odd_names: ClassVar[tuple[str, ...]] = ODD_NAMES
    """Unusual names of objects that the store supports."""
    many_objects: ClassVar[int] = 1100
    """More objects than one page of a listing contains, if the store has pages."""
    reports_times: ClassVar[bool] = True
    """Whether the store reports when an object was modified."""

    def test_an_empty_bucket_has_no_objects(self, place: StorePlace) -> None:
        assert listed(place.store) == {}

    def test_one_level_is_listed_with_folders_as_one_object_each(self, place: StorePlace) -> None:
        for key, data in {"a": b"12345", "b": b"", "folder/c": b"c", "folder/d/e": b"e", "folder2/f": b""}.items():
            place.put(key, data)
        found = listed(place.store)
        assert {key: stat.size for key, stat in found.items()} == {"a": 5, "b": 0, "folder/": 0, "folder2/": 0}
        assert {stat.key for stat in found.values()} == set(found)
        assert {found[key].version for key in ("folder/", "folder2/")} == {""}

    def test_a_prefix_is_the_beginning_of_keys(self, place: StorePlace) -> None:
        for key in ("a", "ab", "abc", "b", "folder/abc"):
            place.put(key, b"1")
        assert sorted(listed(place.store, "ab")) == ["ab", "abc"]
        assert sorted(listed(place.store, "fol")) == ["folder/"]
        assert listed(place.store, "c") == {}

    def test_a_folder_is_listed_with_those_below_it(self, place: StorePlace) -> None:
        inside = {"folder/c": b"c", "folder/d/e": b"ee", "folder/d/f/g": b"", "folder/d f/h": b"h"}
        for key, data in {**inside, "folder2/i": b"i", "a": b"a"}.items():
            place.put(key, data)
        found = in_folder(place.store, "folder/")
        assert {key: stat.size for key, stat in found.items()} == {key: len(data) for key, data in inside.items()}
        assert sorted(in_folder(place.store, "folder/d/")) == ["folder/d/e", "folder/d/f/g"]
        for key, stat in found.items():
            assert place.store.head(key).stat.version == stat.version, key

    def test_a_folder_that_is_not_there_has_no_objects(self, place: StorePlace) -> None:
        place.put("a", b"1")
        assert in_folder(place.store, "folder/") == {}

    def test_odd_names_are_listed_and_read_as_they_are(self, place: StorePlace) -> None:
        for name in self.odd_names:
            place.put(name, name.encode())
            place.put(f"folder {name}/{name}", b"1")
        found = listed(place.store)
        assert {key for key in found if not key.endswith("/")} == set(self.odd_names)
        assert {key for key in found if key.endswith("/")} == {f"folder {name}/" for name in self.odd_names}
        for name in self.odd_names:
            assert place.store.head(name).stat.version == found[name].version, name
            assert sorted(in_folder(place.store, f"folder {name}/")) == [f"folder {name}/{name}"]

    def test_every_page_of_a_long_listing_comes(self, place: StorePlace) -> None:
        keys = {f"{number:06}" for number in range(self.many_objects)}
        for key in keys:
            place.put(key, b"")
        assert set(listed(place.store)) == keys
        place.remove("000007")
        assert set(listed(place.store)) == keys - {"000007"}

    def test_a_listing_is_of_now(self, place: StorePlace) -> None:
        place.put("a", b"1")
        assert sorted(listed(place.store)) == ["a"]
        place.put("b", b"22")
        place.remove("a")
        assert {key: stat.size for key, stat in listed(place.store).items()} == {"b": 2}
        place.put("b", b"333")
        assert listed(place.store)["b"].size == 3

    def test_head_reports_what_the_listing_reports(self, place: StorePlace) -> None:
        place.put("a", b"12345")
        place.put("folder/b", b"1")
        stat = place.store.head("a").stat
        assert (stat.key, stat.size) == ("a", 5)
        assert stat.version == listed(place.store)["a"].version
        assert place.store.head("folder/b").stat.key == "folder/b"

    def test_times_are_milliseconds_utc(self, place: StorePlace) -> None:
        place.put("a", b"1")
        reported = listed(place.store)["a"].modified_ms
        assert abs(reported - time.time() * 1000) < DAY_MS if self.reports_times else reported == 0

    def test_a_version_stays_until_the_object_changes(self, place: StorePlace) -> None:
        place.put("a", b"old bytes")
        before = listed(place.store)["a"].version
        assert listed(place.store)["a"].version == before
        place.put("a", b"new bytes")
        after = listed(place.store)["a"].version
        assert after != before or not before
        assert place.store.head("a").stat.version == after

    def test_head_of_what_is_missing_names_it(self, place: StorePlace) -> None:
        for key in ("missing", "no/such/folder"):
            with pytest.raises(ObjectNotFoundError) as caught:
                place.store.head(key)
            assert caught.value.key == key

    def test_a_bucket_that_is_not_there_is_named(self, place: StorePlace) -> None:
        store = place.nowhere()
        with pytest.raises(BucketNotFoundError) as caught:
            list(store.list_pages())
        assert caught.value.key == store.url

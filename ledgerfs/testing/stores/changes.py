"""Test objects that other clients replace and delete: a read by version never returns bytes of another version."""

from pathlib import Path
from typing import ClassVar

import pytest

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError, StaleObjectError
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.testing.stores.listed import listed, version_of
from ledgerfs.testing.stores.place import StorePlace
from ledgerfs.testing.stores.reading import errors_of


class ChangesTests:
    """Tests of changing objects."""

    reads_by_version: ClassVar[bool] = True
    """Whether a read by version fails for another version; otherwise it fails only if that version is too short."""

    def test_a_replaced_object_is_stale_and_the_new_one_is_read(self, place: StorePlace, tmp_path: Path) -> None:
        place.put("a", b"old bytes")
        before = version_of(place.store, "a")
        place.put("a", b"new bytes" if self.reads_by_version else b"new")
        for error in errors_of(place.store, ReadRequest("a", 2, 9, before), tmp_path / "out"):
            assert isinstance(error, StaleObjectError)
            assert (error.key, error.offset) == ("a", 2)
        after = version_of(place.store, "a")
        assert place.store.read(ReadRequest("a", 0, 3, after)) == b"new"

    def test_an_object_that_grew_or_shrank_is_stale(self, place: StorePlace) -> None:
        for other in (b"", b"shorter", b"a longer body" * 100):
            place.put("a", b"some bytes")
            before = version_of(place.store, "a")
            place.put("a", other)
            if self.reads_by_version or len(other) < 10:
                with pytest.raises(StaleObjectError):
                    place.store.read(ReadRequest("a", 0, 10, before))

    def test_a_deleted_object_is_missing_and_comes_back_as_another_one(self, place: StorePlace) -> None:
        place.put("a", b"old bytes")
        before = version_of(place.store, "a")
        place.remove("a")
        assert listed(place.store) == {}
        for request in (ReadRequest("a", 0, 9, before), ReadRequest("a", 0, 9)):
            with pytest.raises(ObjectNotFoundError) as caught:
                place.store.read(request)
            assert caught.value.key == "a"
        place.put("a", b"new bytes")
        assert place.store.read(ReadRequest("a", 0, 9)) == b"new bytes"
        if self.reads_by_version:
            with pytest.raises(StaleObjectError):
                place.store.read(ReadRequest("a", 0, 9, before))

    def test_one_that_changes_hides_no_other(self, place: StorePlace) -> None:
        for name in "abc":
            place.put(name, b"old bytes")
        versions = {key: stat.version for key, stat in listed(place.store).items()}
        place.put("a", b"1")
        place.remove("b")
        outcomes = list(place.store.read_many([ReadRequest(name, 0, 9, versions[name]) for name in "abc"]))
        assert [type(one) for one in outcomes] == [StaleObjectError, ObjectNotFoundError, bytes]
        assert [one.key for one in outcomes if isinstance(one, LedgerfsError)] == ["a", "b"]

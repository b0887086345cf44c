"""The suites to inherit in tests of a store."""

import pytest

from ledgerfs.testing.stores.changes import ChangesTests
from ledgerfs.testing.stores.listing import ListingTests
from ledgerfs.testing.stores.place import StorePlace, WritablePlace
from ledgerfs.testing.stores.reading import ReadingTests
from ledgerfs.testing.stores.writing import WritingTests


class StoreTests(ListingTests, ReadingTests, ChangesTests):
    """Tests of every promise of `ledgerfs.storage.object_store.ObjectStore`.

    Inherit it in a class whose name begins with ``Test``, define the fixture `place`, and set class attributes for unsupported features.

    Attributes
    ----------
    reads_by_version
        Whether a read by version fails for another version of the object; otherwise it fails only if that version is too short.
    tells_times
        Whether listings report when objects were modified.
    odd_names
        Unusual names of objects that the store supports.
    many_objects
        A number of objects that exceeds one page of a listing.

    """

    @pytest.fixture
    def place(self) -> StorePlace:
        """Return an empty bucket with a store to test, new for each test."""
        raise NotImplementedError("a suite of a store has to give the fixture `place`")


class WritableStoreTests(StoreTests, WritingTests):
    """`StoreTests`, and tests of every promise of `ledgerfs.storage.object_writes`.

    Attributes
    ----------
    shows_half_written
        Whether an object may be visible before its upload is complete.
    creates_at_once
        Whether the store lets exactly one of several writers win that create an object at the same time.
    tells_unfinished
        Whether the store lists unfinished uploads.

    """

    @pytest.fixture
    def place(self) -> WritablePlace:
        """Return an empty bucket with a store to test, new for each test."""
        raise NotImplementedError("a suite of a store has to give the fixture `place`")

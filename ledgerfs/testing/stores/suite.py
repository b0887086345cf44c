"""The suites that a test of a store inherits."""

import pytest

from ledgerfs.testing.stores.changes import ChangesTests
from ledgerfs.testing.stores.listing import ListingTests
from ledgerfs.testing.stores.place import StorePlace, WritablePlace
from ledgerfs.testing.stores.reading import ReadingTests
from ledgerfs.testing.stores.writing import WritingTests


class StoreTests(ListingTests, ReadingTests, ChangesTests):
    """Every promise of `ledgerfs.storage.object_store.ObjectStore`.

    Inherit it in a class whose name begins with ``Test``, give it the fixture `place`, and say by class attributes what the store cannot.

    Attributes
    ----------
    reads_by_version
        Whether a read that names a version is refused for an object of another one. Without that, one that became too short is.
    tells_times
        Whether listings tell when objects were modified.
    odd_names
        Names of objects that the store can have.
    many_objects
        How many objects are more than one page of a listing.

    """

    @pytest.fixture
    def place(self) -> StorePlace:
        """Return an empty bucket with a store to test, new for each test."""
        raise NotImplementedError("a suite of a store has to give the fixture `place`")


class WritableStoreTests(StoreTests, WritingTests):
    """The same, and every promise of `ledgerfs.storage.object_writes`.

    Attributes
    ----------
    shows_half_written
        Whether an object may show before its upload is complete.
    creates_at_once
        Whether the store itself lets one of several writers win who create an object at the same moment.
    tells_unfinished
        Whether uploads that nobody ended are listed.

    """

    @pytest.fixture
    def place(self) -> WritablePlace:
        """Return an empty bucket with a store to test, new for each test."""
        raise NotImplementedError("a suite of a store has to give the fixture `place`")

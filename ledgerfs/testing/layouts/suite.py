"""The suite to inherit in tests of a layout."""

from pathlib import Path

import pytest

from ledgerfs.catalog.layout import Layout
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.testing.layouts.cataloguing import CataloguingTests
from ledgerfs.testing.layouts.damaging import DamagingTests
from ledgerfs.testing.layouts.entries import EntriesTests
from ledgerfs.testing.layouts.opened import OpenedBucket, few_of
from ledgerfs.testing.layouts.sample import SampleBucket


class LayoutTests(CataloguingTests, EntriesTests, DamagingTests):
    """Tests of every promise of `ledgerfs.catalog.layout.Layout` and `ledgerfs.catalog.reader.LedgerReader`.

    Inherit it in a class whose name begins with ``Test``, and define `open_layout` and the fixture `sample`. Tests run with the bucket as
    a local folder, and as a folder that acts as a remote store.

    Attributes
    ----------
    truncations
        Number of offsets at which to truncate each object of a ledger.
    damaged_ledgers
        Number of ledgers, the smallest ones, to damage in all ways.

    """

    @staticmethod
    def open_layout(store: KeepingStore) -> Layout:
        """Return the layout over one bucket."""
        raise NotImplementedError("a suite of a layout has to give the method `open_layout`")

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls) -> SampleBucket:
        """Return a sound bucket with known ledgers, which no test changes."""
        raise NotImplementedError("a suite of a layout has to give the fixture `sample`")

    @pytest.fixture(scope="class", params=["near", "far"])
    @classmethod
    def whole(
        cls, request: pytest.FixtureRequest, sample: SampleBucket, tmp_path_factory: pytest.TempPathFactory
    ) -> OpenedBucket:
        """Return the sample in a folder, for tests that change nothing."""
        folder = tmp_path_factory.mktemp("whole") / "bucket"
        made = OpenedBucket(folder, cls.open_layout, is_far=request.param == "far")
        made.put(sample.objects)
        return made

    @pytest.fixture(scope="class")
    @classmethod
    def few(cls, sample: SampleBucket, tmp_path_factory: pytest.TempPathFactory) -> SampleBucket:
        """Return some ledgers of the sample, for tests that change objects."""
        made = OpenedBucket(tmp_path_factory.mktemp("few") / "bucket", cls.open_layout)
        made.put(sample.objects)
        return few_of(sample, made)

    @pytest.fixture
    def bucket(self, tmp_path: Path) -> OpenedBucket:
        """Return an empty bucket for one test."""
        return OpenedBucket(tmp_path / "bucket", self.open_layout)

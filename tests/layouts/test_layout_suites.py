"""Our layouts keep every promise that `ledgerfs.testing` tests, on the golden buckets."""

from pathlib import Path

import pytest

from ledgerfs.catalog.layout import Layout
from ledgerfs.layouts.object_source import open_layouts
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.testing import LayoutTests, SampleBucket
from tests.support.golden_samples import blob_sample, mapfile_sample


class TestPulsarBlob(LayoutTests):
    @staticmethod
    def open_layout(store: KeepingStore) -> Layout:
        return open_layouts(store, "pulsar_blob")[0]

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls, golden: Path) -> SampleBucket:
        return blob_sample(golden)


class TestMapFile(LayoutTests):
    @staticmethod
    def open_layout(store: KeepingStore) -> Layout:
        return open_layouts(store, "mapfile")[0]

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls, golden_mapfiles: Path) -> SampleBucket:
        return mapfile_sample(golden_mapfiles)

"""Our dialects keep every promise that `ledgerfs.testing` tests, on the golden buckets."""

from pathlib import Path

import pytest

from ledgerfs.dialects.object_source import open_dialects
from ledgerfs.ledgers.dialect import Dialect
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.testing import DialectTests, SampleBucket
from tests.support.golden_samples import blob_sample, mapfile_sample


class TestPulsarBlob(DialectTests):
    @staticmethod
    def open_dialect(store: KeepingStore) -> Dialect:
        return open_dialects(store, "pulsar_blob")[0]

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls, golden: Path) -> SampleBucket:
        return blob_sample(golden)


class TestMapFile(DialectTests):
    @staticmethod
    def open_dialect(store: KeepingStore) -> Dialect:
        return open_dialects(store, "mapfile")[0]

    @pytest.fixture(scope="class")
    @classmethod
    def sample(cls, golden_mapfiles: Path) -> SampleBucket:
        return mapfile_sample(golden_mapfiles)

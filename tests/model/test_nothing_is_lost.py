"""Several writers, readers, deletions, late ledgers, exports and offloads: not one row is lost, doubled or wrong where all went well."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import NothingIsLost, StoreRefuses, TwoBuckets, ValuesAreTrue
from tests.model.places import Folder, Place, S3Bucket
from tests.model.schema_acts import numbers_reported
from tests.model.searching import searching
from tests.model.writing import one_after_another
from tests.support.s3 import S3Server


@pytest.fixture(autouse=True)
def _one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one_after_another(monkeypatch)
    numbers_reported(monkeypatch)


class _InFolders(TwoBuckets):
    """Buckets in folders, whose ledgers have several blocks."""

    block_size = 300

    def new_place(self, number: int) -> Place:
        path = self.folder / f"bucket-{number}"
        path.mkdir()
        return Folder(path)


class InFolders(_InFolders, NothingIsLost):
    """All of it."""


class RefusedInFolders(_InFolders, StoreRefuses):
    """With a store that refuses."""


class SchemasInFolders(_InFolders, ValuesAreTrue):
    """With schemas."""


@pytest.mark.long
def test_in_folders() -> None:
    run_state_machine_as_test(InFolders, settings=searching(20, 25))


@pytest.mark.long
def test_with_a_store_that_refuses() -> None:
    run_state_machine_as_test(RefusedInFolders, settings=searching(10, 12))


@pytest.mark.long
def test_schemas_in_folders() -> None:
    run_state_machine_as_test(SchemasInFolders, settings=searching(15, 20))


@pytest.mark.long
def test_on_s3(s3: S3Server) -> None:
    class OnS3(NothingIsLost):
        """Buckets on a real server."""

        def new_place(self, number: int) -> Place:
            return S3Bucket.new(s3)

    run_state_machine_as_test(OnS3, settings=searching(6, 20))

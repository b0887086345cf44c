"""Several writers, readers, deletions, late ledgers, exports and offloads: not one row is lost, doubled or wrong where all went well."""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import NothingIsLost
from tests.model.places import Folder, Place, S3Bucket
from tests.model.writing import one_after_another
from tests.support.s3 import S3Server

EXAMPLES = int(os.environ.get("LEDGERFS_MODEL_EXAMPLES", "0"))
"""How many random examples to run of each; 0 for few, which are the same in every run."""


def searching(examples: int, steps: int) -> settings:
    return settings(
        max_examples=EXAMPLES or examples,
        stateful_step_count=steps,
        derandomize=not EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


@pytest.fixture(autouse=True)
def _one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one_after_another(monkeypatch)


class InFolders(NothingIsLost):
    """Buckets in folders, whose ledgers have several blocks."""

    block_size = 300

    def new_place(self, number: int) -> Place:
        path = self.folder / f"bucket-{number}"
        path.mkdir()
        return Folder(path)


def test_in_folders() -> None:
    run_state_machine_as_test(InFolders, settings=searching(80, 25))


def test_on_s3(s3: S3Server) -> None:
    class OnS3(NothingIsLost):
        """Buckets on a real server."""

        def new_place(self, number: int) -> Place:
            return S3Bucket.new(s3)

    run_state_machine_as_test(OnS3, settings=searching(15, 20))

"""Google's and Azure's stores keep every promise that S3's does, reads by version included, on servers that speak as theirs."""

import logging
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import pytest

from ledgerfs.errors import LedgerfsError, StaleObjectError
from ledgerfs.storage.generic.store import FsspecStore
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.opening import open_store
from ledgerfs.testing import FilesystemPlace, WritableStoreTests
from ledgerfs.testing.stores.listed import version_of
from ledgerfs.testing.stores.place import WritablePlace
from tests.support.children import is_true_in_child
from tests.support.clouds import azure, google

BODY = b"0123456789" * 100


@pytest.fixture(scope="module")
def google_options() -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise gcsfs asks over gRPC, which the server does not speak, of what kind a bucket is; that is decided at its import.
        patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        pytest.importorskip("gcsfs", reason="gcsfs is missing: pip install 'ledgerfs[gcs]'")
        with google() as options:
            yield options


@pytest.fixture(scope="module")
def azure_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    pytest.importorskip("adlfs", reason="adlfs is missing: pip install 'ledgerfs[azure]'")
    with azure(tmp_path_factory.mktemp("azurite")) as options:
        yield options


class CloudPlace(FilesystemPlace):
    """A folder in a bucket of its own."""

    def __init__(self, fs: Any) -> None:
        self.bucket = f"test-{uuid.uuid4()}"
        fs.mkdir(self.bucket)
        super().__init__(fs, f"{self.bucket}/some/prefix")

    def nowhere(self) -> Any:
        return open_store(self._fs, f"nowhere-{uuid.uuid4()}")


class CloudTests(WritableStoreTests):
    """What fsspec's interface leaves open: it cannot create an object only if it does not exist."""

    many_objects = 25
    creates_at_once = False
    reports_unfinished = False


@pytest.mark.process
class TestGoogle(CloudTests):
    @pytest.fixture
    def place(self, google_options: dict[str, Any]) -> CloudPlace:
        return CloudPlace(fsspec.filesystem("gs", **google_options))


@pytest.mark.process
class TestAzure(CloudTests):
    def test_of_many_who_put_at_once_one_wins(self, place: WritablePlace) -> None:
        """Here all may fail, since adlfs's writers of one object share its parts; but who wins, wins."""

        def put(data: bytes) -> bytes | None:
            try:
                place.store.writes.put("a", data, {})
            except LedgerfsError:
                return None
            return data

        for _ in range(5):
            with ThreadPoolExecutor(6) as pool:
                won = {data for data in pool.map(put, [b"%d" % number for number in range(6)]) if data}
            assert not won or place.objects()["a"] in won
            place.store.writes.delete("a")

    @pytest.fixture
    def place(self, azure_options: dict[str, Any]) -> CloudPlace:
        return CloudPlace(fsspec.filesystem("abfs", **azure_options))


@pytest.fixture(params=["google", "azure"])
def place(request: pytest.FixtureRequest) -> CloudPlace:
    options = request.getfixturevalue(f"{request.param}_options")
    return CloudPlace(fsspec.filesystem({"google": "gs", "azure": "abfs"}[request.param], **options))


@pytest.mark.process
def test_bytes_come_through_obstore_and_in_a_child_through_fsspec(
    place: CloudPlace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ledgerfs.store")
    place.put("a", BODY)
    store = place.store
    assert isinstance(store, FsspecStore)
    read_by_fsspec = FsspecStore._cat_by_fsspec
    refused = pytest.fail.Exception("fsspec reads")

    def refuse(*_: object) -> bytes:
        raise refused

    monkeypatch.setattr(FsspecStore, "_cat_by_fsspec", refuse)
    request = ReadRequest("a", 3, 900, version_of(store, "a"))
    assert store.read(request) == BODY[3:900]
    assert "through" not in caplog.text

    def read_in_child() -> bool:
        monkeypatch.setattr(FsspecStore, "_cat_by_fsspec", read_by_fsspec)
        return store.read(request) == BODY[3:900]

    assert is_true_in_child(read_in_child)
    assert store.read(request) == BODY[3:900]


def test_an_object_of_the_same_size_is_another_version(place: CloudPlace) -> None:
    place.put("a", BODY)
    version = version_of(place.store, "a")
    place.put("a", BODY)
    with pytest.raises(StaleObjectError):
        place.store.read(ReadRequest("a", 3, 900, version))

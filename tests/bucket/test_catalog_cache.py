"""A catalog that any process loaded spares the next one the indexes, and is never served torn, foreign, or older than allowed."""

import json
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket import catalog_file
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.catalog_file import CatalogFile
from ledgerfs.bucket.opening import shared_bucket
from ledgerfs.cache import kept_file
from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layouts_known import OF_BUCKETS
from ledgerfs.errors import InvalidOptionError
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.layouts.pulsar_blob import layout as pulsar_blob_layout
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.storage.store_identity import identity_of
from ledgerfs.verification import verify
from tests.support.children import is_true_in_child
from tests.support.ledgers import Offload, offload, put_in_folder
from tests.support.s3 import FaultProxy, S3Server

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

HOUR = 3600.0
ALL = OF_BUCKETS


class WatchedStore:
    """Passes everything on, and remembers how often it was listed and which indexes were read."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.listings = 0
        self.indexes: list[str] = []

    def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
        self.listings += 1
        return self.store.list_pages(prefix)

    def read_many(self, requests: Any, *rest: Any, **options: Any) -> Any:
        kept = list(requests)
        self.indexes += [request.key.rpartition("-ledger-")[2] for request in kept]
        return self.store.read_many(kept, *rest, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@pytest.fixture
def bucket_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bucket"
    folder.mkdir()
    put_in_folder(folder, *(made(i) for i in range(1, 6)))
    return folder


@pytest.fixture
def catalogs() -> Path:
    return Path(os.environ["LEDGERFS_CACHE_DIR"]) / "files"


def made(ledger_id: int, entries: tuple[bytes, ...] = (b"x",)) -> Offload:
    return offload(entries, ledger_id, uuid=ledger_id, name=f"public/default/persistent/topic-{ledger_id % 2}")


def opened(folder: Path, max_age: float | None = None) -> tuple[Bucket, WatchedStore]:
    """Open the bucket as another process would."""
    fs, root = fsspec.core.url_to_fs(f"file://{folder}")
    store = WatchedStore(open_bucket(f"file://{folder}").store)
    return Bucket(store, catalog_max_age=max_age, identity=identity_of(fs, root)), store


def cost(folder: Path, max_age: float | None = None) -> tuple[int, list[str]]:
    """Return what opening costs: listings, and the indexes that are read."""
    bucket, store = opened(folder, max_age)
    bucket.load_catalog()
    return store.listings, sorted(store.indexes)


def ids(bucket: Bucket) -> list[int]:
    return sorted(ref.ledger_id for ref in bucket.catalog.refs())


def same(one: Catalog, other: Catalog) -> bool:
    tables = ("ledgers", "lost", "gaps", "_starts", "_by_id")
    is_same = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in tables)
    orphans = (fragments_of(catalog).orphans for catalog in (one, other))
    return (one.names, one.places) == (other.names, other.places) and is_same and np.array_equal(*orphans)


def test_on_s3_the_second_opening_is_one_listing_and_one_get_a_new_ledger(
    proxy: FaultProxy, s3: S3Server, s3_bucket: str
) -> None:
    def put(one: Offload) -> None:
        for key, data in one.objects.items():
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)

    def requests() -> list[str]:
        proxy.seen.clear()
        open_bucket(f"s3://{s3_bucket}", proxy.options).topics()
        return sorted("list" if "list-type" in one.path else one.path.rpartition("-ledger-")[2] for one in proxy.seen)

    for i in (1, 2, 3):
        put(made(i))
    assert requests() == ["1-index", "2-index", "3-index", "list"]
    assert requests() == ["list"]
    put(made(4))
    put(made(2, (b"replaced", b"twice")))
    assert requests() == ["2-index", "4-index", "list"]


@pytest.mark.parametrize(("most", "gets"), [(None, 1), (1, 2)])
def test_an_index_of_a_new_ledger_is_read_once(
    most: int | None, gets: int, proxy: FaultProxy, s3: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except where a listing has more new ledgers than are likely to be read next."""
    if most is not None:
        monkeypatch.setattr(pulsar_blob_layout, "_MOST_KEPT", most)
    for number in (1, 2):
        for key, data in made(number).objects.items():
            s3.client.put_object(Bucket=s3_bucket, Key=key, Body=data)
    bucket = open_bucket(f"s3://{s3_bucket}", proxy.options)
    assert [bytes(data) for ledger_id in (1, 2) for _, data in bucket.ledger(ledger_id).read(0, 0)] == [b"x"] * 2
    read = [one.path for one in proxy.seen if one.method == "GET" and one.path.endswith("-index")]
    assert [read.count(path) for path in sorted(set(read))] == [gets] * 2


def test_a_kept_catalog_is_the_same_catalog(bucket_folder: Path) -> None:
    put_in_folder(bucket_folder, offload([b"x"], 7, uuid=7, name=None), offload([b"x"], 8, uuid=8), made(10))
    (bucket_folder / f"{made(10).uuid}-ledger-10").unlink()
    (bucket_folder / f"{made(4).uuid}-ledger-4-index").unlink()
    (bucket_folder / "notes-ü-\udcff.txt").write_bytes(b"")
    first = opened(bucket_folder)[0].catalog
    second, store = opened(bucket_folder, HOUR)
    assert same(second.catalog, first)
    assert (store.listings, store.indexes) == (0, [])
    assert second.catalog.others == first.others
    assert second.catalog.others.counts
    assert second.topics() == opened(bucket_folder)[0].topics()
    assert [second.catalog.lost["ledger_id"].tolist(), fragments_of(second.catalog).orphans["ledger_id"].tolist()] == [
        [10],
        [4],
    ]


def test_bad_indexes_are_read_and_reported_each_time(bucket_folder: Path) -> None:
    (bucket_folder / f"{made(2).uuid}-ledger-2-index").write_bytes(b"nonsense")
    for max_age, reads in ((None, 5), (None, 1), (HOUR, 1), (float("inf"), 1)):
        bucket, store = opened(bucket_folder, max_age)
        assert [bad.key.ledger_id for bad in fragments_of(bucket.catalog).bad_indexes] == [2]
        assert (store.listings, len(store.indexes)) == (1, reads)
        assert "2-index" in store.indexes
    put_in_folder(bucket_folder, made(2))
    assert cost(bucket_folder, HOUR) == (1, ["2-index"])
    assert cost(bucket_folder, HOUR) == (0, [])


def test_a_young_listing_is_used_without_a_request(bucket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cost(bucket_folder)
    assert cost(bucket_folder, HOUR) == (0, [])
    listed = time.time()
    for later, listings in ((HOUR / 2, 0), (HOUR + 60, 1)):
        monkeypatch.setattr(time, "time", lambda later=later: listed + later)
        assert cost(bucket_folder, HOUR) == (listings, [])
    assert cost(bucket_folder, HOUR) == (0, []), "it was listed again, and that is kept"
    assert cost(bucket_folder) == (1, [])


def test_a_listing_from_the_future_counts_as_old(bucket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 10 * HOUR)
    cost(bucket_folder)
    monkeypatch.setattr(time, "time", lambda: now)
    assert cost(bucket_folder, HOUR) == (1, [])
    assert cost(bucket_folder, HOUR) == (0, []), "and the next one is kept, although it is older"


def test_refresh_expiry_and_verify_always_list(bucket_folder: Path) -> None:
    cost(bucket_folder)
    for act in (Bucket.refresh, lambda one: (one.expire(), one.load_catalog()), lambda one: verify(one, quick=True)):
        bucket, store = opened(bucket_folder, HOUR)
        bucket.load_catalog()
        assert store.listings == 0
        act(bucket)
        assert store.listings == 1
        bucket.load_catalog()
        assert store.listings == 1
    fresh, store = opened(bucket_folder, HOUR)
    verify(fresh, quick=True)
    assert store.listings == 1
    verify(fresh, quick=True)
    assert store.listings == 2, "what it found a moment ago may have gone since"


def test_the_file_system_takes_the_option(bucket_folder: Path) -> None:
    options: dict[str, Any] = {"fo": str(bucket_folder), "target_protocol": "file", "skip_instance_cache": True}
    cost(bucket_folder)
    put_in_folder(bucket_folder, made(9))
    old = LedgerFileSystem(**options, catalog_max_age=HOUR)
    assert not old.exists("entries/public/default/topic-1/9.entries")
    assert LedgerFileSystem(**options).exists("entries/public/default/topic-1/9.entries")
    old.invalidate_cache()
    assert old.exists("entries/public/default/topic-1/9.entries")


def test_the_environment_sets_the_age(bucket_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cost(bucket_folder)
    monkeypatch.setenv("LEDGERFS_CATALOG_MAX_AGE", "3600.5")
    assert cost(bucket_folder) == (0, [])
    assert cost(bucket_folder, 0) == (1, [])
    for text in ("soon", "-1", "nan"):
        monkeypatch.setenv("LEDGERFS_CATALOG_MAX_AGE", text)
        with pytest.raises(InvalidOptionError, match=f"LEDGERFS_CATALOG_MAX_AGE={text}"):
            open_bucket(f"file://{bucket_folder}")
    with pytest.raises(InvalidOptionError, match="catalog_max_age=-3"):
        open_bucket(f"file://{bucket_folder}", catalog_max_age=-3)


def test_a_pickled_bucket_keeps_its_catalog_too(bucket_folder: Path) -> None:
    bucket = open_bucket(f"file://{bucket_folder}", catalog_max_age=HOUR)
    bucket.load_catalog()
    put_in_folder(bucket_folder, made(9))
    assert ids(pickle.loads(pickle.dumps(bucket))) == [1, 2, 3, 4, 5]


def identity(folder: Path) -> str:
    found = identity_of(*fsspec.core.url_to_fs(f"file://{folder}"))
    assert found is not None
    return found


@pytest.mark.parametrize("count", [-1, 1, 2**40])
def test_a_sealed_file_whose_counts_lie_is_dropped(count: int, bucket_folder: Path, catalogs: Path) -> None:
    catalog = opened(bucket_folder)[0].catalog
    file = CatalogFile(DiskFiles(CacheFolder(catalogs)), identity(bucket_folder), ALL)

    def write(sink: Any) -> None:
        rows = [catalog.ledgers.size + count, 0, 0]
        text = json.dumps([catalog.names, catalog.places, {}, rows, []]).encode()
        sink.write(catalog_file._HEADER.pack(0, len(text)))
        sink.write(text)
        kept_file.write_array(sink, catalog.ledgers)

    assert file._file.save(write)
    assert file.load() is None
    assert not list(catalogs.glob("*.catalog"))


def test_versions_decide_not_the_kept_rows(bucket_folder: Path) -> None:
    """A store without versions has all indexes read each time."""

    class Versionless(WatchedStore):
        def list_pages(self, prefix: str = "") -> Iterator[list[ObjectStat]]:
            for page in super().list_pages(prefix):
                yield [ObjectStat(stat.key, stat.size, stat.modified_ms, "") for stat in page]

    for _ in range(2):
        store = Versionless(open_bucket(f"file://{bucket_folder}").store)
        Bucket(store, identity=identity(bucket_folder)).load_catalog()
        assert len(store.indexes) == 5


def test_nothing_is_kept_of_memory(catalogs: Path) -> None:
    memory = fsspec.filesystem("memory")
    for key, data in made(1).objects.items():
        memory.pipe_file(f"/kept-nowhere/{key}", data)
    assert ids(open_bucket("memory://kept-nowhere")) == [1]
    assert ids(shared_bucket(memory, "/kept-nowhere")) == [1]
    assert ids(open_bucket("simplecache::memory://kept-nowhere")) == [1]
    assert not catalogs.exists()
    assert identity_of(fsspec.filesystem("dir", path="/kept-nowhere", fs=memory), "") is None


def test_buckets_are_reported_apart_by_endpoint_and_not_by_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    def reported(**options: Any) -> str | None:
        fs, root = fsspec.core.url_to_fs("s3://tier", **options, skip_instance_cache=True)
        return identity_of(fs, root)

    plain = reported(endpoint_url="http://a", key="k1", secret="s1")
    assert plain == reported(endpoint_url="http://a", key="k2", secret="s2", token="t")
    assert plain != reported(endpoint_url="http://b", key="k1", secret="s1")
    assert plain != reported(client_kwargs={"endpoint_url": "http://a"})
    assert "s1" not in str(plain)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://c")
    assert plain != reported(endpoint_url="http://a")
    assert reported(session=object()) is None


def test_a_kept_catalog_in_a_folder_that_became_read_only_is_used(
    bucket_folder: Path, catalogs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost(bucket_folder)
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY and str(path).startswith(str(catalogs)):
            raise OSError(30, "Read-only file system", str(path))
        return real(path, flags, *rest, **options)

    put_in_folder(bucket_folder, made(9))
    monkeypatch.setattr(os, "open", refuse)
    for _ in range(2):
        assert cost(bucket_folder) == (1, ["9-index"])


def test_a_forked_child_uses_and_writes_the_file(bucket_folder: Path) -> None:
    bucket = open_bucket(f"file://{bucket_folder}")
    assert ids(bucket) == [1, 2, 3, 4, 5]
    put_in_folder(bucket_folder, made(9))

    def work() -> bool:
        bucket.refresh()
        return ids(bucket) == [1, 2, 3, 4, 5, 9] and cost(bucket_folder) == (1, [])

    assert is_true_in_child(work)
    assert cost(bucket_folder) == (1, [])
    assert ids(bucket) == [1, 2, 3, 4, 5]

"""`LedgerFileSystem` as fsspec's users use it: chained URLs, options, files, and what others build on it."""

import io
import pickle
import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ledgerfs.errors import (
    BucketNotFoundError,
    LedgerfsError,
    NotFoundError,
    StoreUnreachableError,
    UnusableUrlError,
)
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import CREDENTIALS, S3Server
from tests.support.tries import without_pauses

PLAIN = "entries/public/golden/plain/26.entries"
BLOCKS = "entries/public/golden/blocks/42.entries"
VIEWS = ["arrow", "entries", "info", "jsonl", "parquet"]


@pytest.fixture
def fs(golden: Path) -> LedgerFileSystem:
    return fsspec.filesystem("ledger", fo=f"{golden}/bucket", target_protocol="file")


def test_the_protocol_is_found_as_installed() -> None:
    assert fsspec.get_filesystem_class("ledger") is LedgerFileSystem
    assert "ledger" in fsspec.available_protocols()


def test_a_chained_url_opens_on_disk_and_on_s3(golden_url: str, s3_golden: str, s3: S3Server) -> None:
    with (
        fsspec.open(f"ledger://{PLAIN}::{golden_url}") as local,
        fsspec.open(f"ledger://{PLAIN}::{s3_golden}", s3=s3.options) as remote,
    ):
        assert local.seek(1000) == remote.seek(1000) == 1000
        assert local.read(500) == remote.read(500)
        assert local.size == remote.size == 53792


def test_names_of_the_target_are_fsspecs_own(s3_golden: str, s3: S3Server, fs: LedgerFileSystem) -> None:
    remote = fsspec.filesystem("ledger", fo="golden", target_protocol="s3", target_options=s3.options)
    assert remote.find("entries") == fs.find("entries")
    assert remote.cat_file(BLOCKS) == fs.cat_file(BLOCKS)


def test_other_ways_to_name_the_bucket(golden_url: str, golden: Path) -> None:
    by_url = LedgerFileSystem(fo=golden_url)
    by_fs = LedgerFileSystem(fo=f"{golden}/bucket", fs=fsspec.filesystem("file"))
    assert by_url.ls("", detail=False) == by_fs.ls("", detail=False) == VIEWS
    with pytest.raises(UnusableUrlError, match="the bucket is missing"):
        LedgerFileSystem()


def test_lists_as_fsspec_does(fs: LedgerFileSystem) -> None:
    assert fs.ls("", detail=False) == VIEWS
    assert fs.ls("ledger://entries/public/golden/plain/", detail=False) == [
        f"entries/public/golden/plain/{i}.entries" for i in (26, 84, 123)
    ]
    (info,) = fs.ls(PLAIN)
    assert info == fs.info(PLAIN) == fs.info(f"/{PLAIN}")
    assert (info["name"], info["size"], info["type"], info["entries"]) == (PLAIN, 53792, "file", 200)
    assert fs.info("entries/public")["type"] == "directory"
    assert [fs.isdir(path) for path in ("", "entries/public", PLAIN, "entries/nobody")] == [True, True, False, False]
    assert [fs.isfile(path) for path in ("", "entries", PLAIN, "entries/nobody")] == [False, False, True, False]
    assert [fs.exists(path) for path in ("", "entries", PLAIN, "entries/nobody")] == [True, True, True, False]


def test_what_is_missing_has_an_errno(fs: LedgerFileSystem) -> None:
    for call in ("ls", "info", "open", "cat_file", "size", "modified"):
        with pytest.raises(FileNotFoundError) as caught:
            pytest.fail(f"{call}: {getattr(fs, call)('entries/public/golden/plain/1.entries')}")
        assert isinstance(caught.value, NotFoundError), call
        assert caught.value.errno == 2, call


def test_finds_globs_and_walks_every_file(fs: LedgerFileSystem) -> None:
    found = fs.find("entries")
    assert len(found) == 104
    assert found == sorted(found)
    assert fs.find(PLAIN) == [PLAIN]
    assert fs.find("entries/nobody") == []
    assert fs.find("entries", maxdepth=2) == []
    assert fs.glob("entries/public/*/plain/*.entries") == fs.find("entries/public/golden/plain")
    endings = {"arrow": "arrow", "entries": "entries", "info": "json", "jsonl": "jsonl", "parquet": "parquet"}
    assert fs.glob("**/26.*") == [f"{view}/public/golden/plain/26.{ending}" for view, ending in endings.items()]
    walked = [f"{root}/{name}" for root, _, names in fs.walk("entries") for name in names]
    assert sorted(walked) == found
    assert set(fs.find("entries/public", withdirs=True)) == {"entries/public", "entries/public/golden"} | {
        path for name in found for path in (name, name.rpartition("/")[0])
    }
    detailed = fs.find("entries/public/golden/plain", detail=True)
    assert {name: info["size"] for name, info in detailed.items()} == fs.du("entries/public/golden/plain", total=False)
    assert fs.du("entries/public/golden/plain") == sum(info["size"] for info in detailed.values())
    assert list(fs.walk("entries/nobody")) == []
    with pytest.raises(NotFoundError):
        list(fs.walk("entries/nobody", on_error="raise"))


def test_reads_as_a_file_does(fs: LedgerFileSystem) -> None:
    whole = fs.cat_file(BLOCKS)
    with fs.open(BLOCKS) as file:
        assert file.size == len(whole) == 11_727_381
        for at, count in [(0, 10), (5_075_360, 30), (10_306_600, 1_000_000), (len(whole) - 5, 100), (len(whole), 1)]:
            file.seek(at)
            assert file.read(count) == whole[at : at + count]
        file.seek(-7, io.SEEK_END)
        assert file.read() == whole[-7:]
        file.seek(100)
        buffer = bytearray(50)
        assert file.readinto(buffer) == 50
        assert bytes(buffer) == whole[100:150]
        assert file.tell() == 150


def test_cats_slices_like_python(fs: LedgerFileSystem) -> None:
    whole = fs.cat_file(PLAIN)
    for start, end in [(None, None), (5, 50), (-50, None), (-50, -10), (None, 10), (50, 5), (0, 10**9), (10**9, None)]:
        assert fs.cat_file(PLAIN, start=start, end=end) == whole[start:end]
    assert fs.head(PLAIN, 20) == whole[:20]
    assert fs.tail(PLAIN, 20) == whole[-20:]
    assert fs.cat([PLAIN, BLOCKS])[PLAIN] == whole


def test_cats_many_ranges_with_errors_in_their_places(fs: LedgerFileSystem) -> None:
    whole = fs.cat_file(BLOCKS)
    starts: list[Any] = [i * 50_000 for i in range(200)]
    found = fs.cat_ranges([BLOCKS] * 200, starts, [start + 77 for start in starts])
    assert found == [whole[start : start + 77] for start in starts]
    assert fs.cat_ranges([BLOCKS, PLAIN], 0, 5, max_gap=100) == [whole[:5], fs.cat_file(PLAIN, end=5)]
    first, second = fs.cat_ranges([PLAIN, "entries/nobody"], 0, 5)
    assert len(first) == 5
    assert isinstance(second, NotFoundError)
    with pytest.raises(NotFoundError):
        fs.cat_ranges([PLAIN, "entries/nobody"], 0, 5, on_error="raise")


def test_a_copy_that_fails_leaves_nothing(truncated_url: str, tmp_path: Path) -> None:
    fs = LedgerFileSystem(fo=truncated_url)
    with pytest.raises(LedgerfsError):
        fs.get_file("entries/public/loss/big-entry/201.entries", str(tmp_path / "201.entries"))
    assert list(tmp_path.iterdir()) == []


def test_times_and_keys_of_a_file(fs: LedgerFileSystem) -> None:
    assert fs.created(PLAIN).isoformat() == "2026-11-21T06:00:13.025000+00:00"
    assert fs.modified(PLAIN).tzinfo is not None
    assert fs.ukey(PLAIN) == fs.ukey(PLAIN) != fs.ukey(BLOCKS)
    assert fs.checksum(PLAIN) == fs.checksum(PLAIN)


def test_text_mode_and_documents(fs: LedgerFileSystem) -> None:
    with fs.open("info/public/golden/plain/26.json", "r") as file:
        assert file.readline() == "{\n"
        assert '"ledger_id": 26' in file.readline()


def test_new_ledgers_are_seen_after_a_refresh(tmp_path: Path) -> None:
    url = put_in_folder(tmp_path, offload([b"x"], 1, uuid=1))
    fs = LedgerFileSystem(fo=url)
    topic = "entries/public/default/orders"
    assert fs.ls(topic, detail=False) == [f"{topic}/1.entries"]
    put_in_folder(tmp_path, offload([b"y"], 2, uuid=2))
    assert fs.ls(topic, detail=False) == [f"{topic}/1.entries"]
    assert fs.ls(topic, detail=False, refresh=True) == [f"{topic}/1.entries", f"{topic}/2.entries"]
    put_in_folder(tmp_path, offload([b"z"], 3, uuid=3))
    fs.invalidate_cache()
    assert len(fs.ls(topic)) == 3


def test_pickles_filesystems_and_open_files(fs: LedgerFileSystem) -> None:
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file(PLAIN, 0, 10) == fs.cat_file(PLAIN, 0, 10)
    with fs.open(BLOCKS) as file:
        file.seek(5_000_000)
        copy = pickle.loads(pickle.dumps(file))
        assert copy.tell() == 5_000_000
        assert copy.read(200_000) == file.read(200_000)


def test_a_bucket_that_is_not_there_is_no_empty_directory(s3: S3Server) -> None:
    missing = fsspec.filesystem("ledger", fo="not-there", target_protocol="s3", target_options=s3.options)
    calls: list[Any] = [
        missing.ls,
        missing.exists,
        missing.isdir,
        missing.find,
        missing.info,
        lambda path: list(missing.walk(path)),
    ]
    for call in calls:
        with pytest.raises(BucketNotFoundError):
            call("entries")


def test_a_store_that_is_not_there_is_no_missing_file(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)
    # A port that nobody listens to, and nobody else can take.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        options = {**CREDENTIALS, "endpoint_url": endpoint, "config_kwargs": {"retries": {"max_attempts": 0}}}
        fs = fsspec.filesystem("ledger", fo="tier", target_protocol="s3", target_options=options)
        with pytest.raises(StoreUnreachableError):
            fs.exists("entries/public")


def test_instances_of_one_bucket_share_its_catalog(golden: Path) -> None:
    options: dict[str, Any] = {"fo": f"{golden}/bucket", "target_protocol": "file", "skip_instance_cache": True}
    assert fsspec.filesystem("ledger", **options).bucket is fsspec.filesystem("ledger", **options).bucket


def test_no_credentials_in_what_is_printed(s3_golden: str, s3: S3Server) -> None:
    fs = LedgerFileSystem(fo=s3_golden, target_options=s3.options)
    with fs.open(PLAIN) as file:
        printed = repr(fs) + str(fs) + repr(file) + repr(fs.bucket) + repr(fs.bucket.ledger(26)) + repr(fs.info(PLAIN))
    assert CREDENTIALS["secret"] not in printed
    assert CREDENTIALS["key"] not in printed


def test_a_file_of_ours_survives_a_path_that_is_not_there(fs: LedgerFileSystem, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for get in (fs.get, fs.get_file, fs.download):
        with pytest.raises(NotFoundError):
            get("entries/public/golden/typo/1.entries", str(mine))
        assert mine.read_text() == "mine"


@pytest.mark.long
def test_a_store_without_sizes_in_its_listing_is_asked_for_each(golden: Path, fs: LedgerFileSystem) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=f"{golden}/bucket")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.func.log_message = lambda *_: None  # type: ignore[method-assign, assignment]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        remote = LedgerFileSystem(fo=f"http://127.0.0.1:{server.server_port}/")
        assert len(remote.find("entries")) == 104
    finally:
        server.shutdown()
        server.server_close()


def test_paths_may_be_whole_urls(fs: LedgerFileSystem, golden_url: str) -> None:
    for url in (PLAIN, f"ledger://{PLAIN}", f"ledger://{PLAIN}::{golden_url}", f"/{PLAIN}"):
        assert fs.info(url)["name"] == PLAIN
    assert fs._strip_protocol("entries/tenant/a::b/topic") == "entries/tenant/a::b/topic"

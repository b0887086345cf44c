"""Writing through fsspec: every way to put a file, what is refused, and that what is there is seen at once."""

import contextlib
import errno
import gzip
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.callbacks import Callback

from ledgerfs import open_bucket
from ledgerfs.errors import (
    InvalidNameError,
    InvalidOptionError,
    IsADirectoryPathError,
    LedgerExistsError,
    LedgerfsError,
    NotFoundError,
    ReadOnlyError,
    RefusedLedgerError,
)
from ledgerfs.formats.pulsar_blob.index import parse_index
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.messages.transforms.unbatch import unbatch
from ledgerfs.verification.verify import verify
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import S3Server
from tests.support.s3_log import changes, requests_of

TOPIC = "entries/public/default/orders"
PATH = f"{TOPIC}/7.entries"
ENTRIES = [b"", b"one", b"two " * 500, b"x" * 3_000]
RECORDS = offload(ENTRIES).records


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "bucket"
    made.mkdir()
    return made


@pytest.fixture
def fs(folder: Path) -> LedgerFileSystem:
    return LedgerFileSystem(fo=str(folder), target_protocol="file")


@pytest.fixture
def s3_fs(s3: S3Server, s3_bucket: str) -> LedgerFileSystem:
    return LedgerFileSystem(fo=s3_bucket, target_protocol="s3", target_options=s3.options)


@pytest.fixture
def copied(golden: Path, folder: Path) -> LedgerFileSystem:
    """The golden topics ``blocks`` and ``batched-zstd``, in a folder that may be changed."""
    for key in golden_keys(golden, 42, 99, 37, 91, 130):
        shutil.copy(golden / "bucket" / key, folder)
    return LedgerFileSystem(fo=str(folder), target_protocol="file")


def golden_keys(golden: Path, *ids: int) -> list[str]:
    names = [path.name for path in (golden / "bucket").iterdir()]
    return [name for name in names for one in ids if name.removesuffix("-index").endswith(f"-ledger-{one}")]


def objects_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rows_of(fs: LedgerFileSystem, topic: str) -> list[dict[str, Any]]:
    table = open_bucket(fs.bucket.store.url).topic(topic).scan().to_arrow()
    without = {"topic", "ledger_id", "entry_id", "batch_index"}
    return table.select([name for name in table.column_names if name not in without]).to_pylist()


def open_whole(fs: LedgerFileSystem, file: Path, mode: str = "wb") -> None:
    with fs.open(PATH, mode) as out:
        assert out.write(file.read_bytes()) == file.stat().st_size


def open_in_chunks(fs: LedgerFileSystem, file: Path) -> None:
    data = file.read_bytes()
    with fs.open(PATH, "wb") as out:
        for start in range(0, len(data), 7):
            assert out.tell() == start
            out.write(bytearray(data[start : start + 7]))
        out.flush()


def open_without_with(fs: LedgerFileSystem, file: Path) -> None:
    out = fs.open(PATH, "wb")
    out.write(file.read_bytes())
    assert not fs.exists(PATH)
    out.close()
    out.close()


def open_chained(fs: LedgerFileSystem, file: Path) -> None:
    with fsspec.open(f"ledger://{PATH}::{fs.bucket.store.url}", "wb") as out, file.open("rb") as source:
        shutil.copyfileobj(source, out, 1000)


WAYS: dict[str, Callable[[LedgerFileSystem, Path], None]] = {
    "put": lambda fs, file: fs.put(str(file), PATH),
    "put_file": lambda fs, file: fs.put_file(str(file), f"/{PATH}"),
    "put into a topic": lambda fs, file: fs.put(str(file), f"ledger://{TOPIC}/"),
    "put a folder": lambda fs, file: fs.put(f"{file.parent}/", TOPIC, recursive=True),
    "upload": lambda fs, file: fs.upload(str(file), PATH),
    "pipe": lambda fs, file: fs.pipe(PATH, file.read_bytes()),
    "pipe many": lambda fs, file: fs.pipe({PATH: file.read_bytes()}),
    "pipe_file": lambda fs, file: fs.pipe_file(PATH, file.read_bytes()),
    "pipe memory": lambda fs, file: fs.pipe_file(PATH, memoryview(bytearray(file.read_bytes()))),
    "open": open_whole,
    "open exclusively": partial(open_whole, mode="xb"),
    "open in chunks": open_in_chunks,
    "open without with": open_without_with,
    "open chained": open_chained,
}


def test_every_way_to_write_makes_a_whole_ledger_that_is_seen_at_once(tmp_path: Path) -> None:
    source = tmp_path / "source" / "7.entries"
    source.parent.mkdir()
    source.write_bytes(RECORDS)
    for way, write in WAYS.items():
        folder = tmp_path / way
        folder.mkdir()
        fs = LedgerFileSystem(fo=str(folder), target_protocol="file")
        other = LedgerFileSystem(fo=str(folder), target_protocol="file", cache_dir=str(tmp_path / "cache"))
        assert other.find("entries") == fs.find("entries") == []
        assert not fs.exists(PATH)

        write(fs, source)

        if write is open_chained:
            fs.invalidate_cache()
        assert fs.exists(PATH), way
        assert fs.ls(TOPIC, detail=False) == [PATH], way
        assert fs.info(PATH)["size"] == len(RECORDS), way
        assert fs.info(PATH)["entries"] == len(ENTRIES), way
        assert fs.cat_file(PATH) == RECORDS, way
        assert fs.find("jsonl") == ["jsonl/public/default/orders/7.jsonl"], way
        assert other.find("entries") == [], way
        other.invalidate_cache()
        assert other.cat_file(PATH) == RECORDS, way

        (index,) = [data for name, data in objects_in(folder).items() if name.endswith("-index")]
        assert len(objects_in(folder)) == 2, way
        metadata = parse_index(index).metadata
        assert metadata.managed_ledger == "public/default/persistent/orders", way
        assert (metadata.length, metadata.last_entry) == (sum(map(len, ENTRIES)), 3), way


# Copies within a bucket


def test_a_copy_within_the_bucket_keeps_what_bookkeeper_knew(copied: LedgerFileSystem, folder: Path) -> None:
    source = "entries/public/golden/blocks/42.entries"
    target = "entries/public/other/bl%2Focks-partition-0/7.entries"
    with pytest.raises(InvalidNameError):
        copied.cp_file(source, target)
    target = "entries/public/other/blocks-partition-0/7.entries"
    copied.cp(source, target)
    assert copied.cat_file(target) == copied.cat_file(source)
    old, new = (copied.info(path)["uuid"] for path in (source, target))
    assert old != new
    objects = objects_in(folder)
    assert objects[f"{new}-ledger-7"] == objects[f"{old}-ledger-42"]
    was, made = parse_index(objects[f"{old}-ledger-42-index"]), parse_index(objects[f"{new}-ledger-7-index"])
    assert made.metadata.managed_ledger == "public/other/persistent/blocks-partition-0"
    assert (made.blocks, made.data_length) == (was.blocks, was.data_length)
    assert made.metadata.ensembles == was.metadata.ensembles
    assert made.metadata.created_ms == was.metadata.created_ms
    assert made.metadata.digest_type == was.metadata.digest_type
    assert not verify(copied.bucket).is_damaged


def test_a_copy_on_s3_keeps_user_metadata_but_whose_it_is(
    golden: Path, s3: S3Server, s3_golden: str, s3_fs: LedgerFileSystem, s3_bucket: str
) -> None:
    for key in golden_keys(golden, 26):
        s3.client.copy({"Bucket": "golden", "Key": key}, s3_bucket, key)
    s3_fs.cp_file("entries/public/golden/plain/26.entries", "entries/public/golden/copy/9.entries")
    uuid = s3_fs.info("entries/public/golden/copy/9.entries")["uuid"]
    for suffix, role in (("", "data"), ("-index", "index")):
        metadata = s3.client.head_object(Bucket=s3_bucket, Key=f"{uuid}-ledger-9{suffix}")["Metadata"]
        assert metadata["managedledgername"] == "public/golden/persistent/copy"
        assert metadata["pulsarclustername"] == "interop"
        assert metadata["s3managedledgeroffloadersoftwareversion"] == "4.0.7"
        assert metadata["role"] == role


def test_a_topic_is_not_copied_under_the_ids_that_it_has(copied: LedgerFileSystem) -> None:
    """Ids are unique in a bucket: `bucket.ledger(37)` would be of two topics."""
    source = "entries/public/golden/batched-zstd"
    for number, policy in enumerate(("fail", "skip", "new-copy")):
        target = f"entries/public/golden/copy-{policy}"
        with pytest.raises(LedgerExistsError, match=r"already has ledger (37|91|130)"):
            copied.cp(source, target, recursive=True, if_exists=policy)
        assert not copied.exists(target), policy
        paths = copied.ls(source, detail=False)
        copies = [f"{target}/{10 * number + one}.entries" for one in (1, 2, 3)]
        copied.cp(paths, copies, if_exists=policy)
        assert [copied.cat_file(path) for path in copies] == [copied.cat_file(path) for path in paths], policy


def test_of_many_files_none_is_written_if_one_is_no_ledgers(fs: LedgerFileSystem, folder: Path, tmp_path: Path) -> None:
    """As `get` copies them of a topic with further copies, and as somebody leaves them there."""
    for name in ("0@00000000-0000-0000-0000-000000000001.entries", "0.txt"):
        local = tmp_path / name
        local.mkdir()
        (local / "7.entries").write_bytes(RECORDS)
        (local / name).write_bytes(RECORDS)
        (local / f"9{name[1:]}").write_bytes(RECORDS)
        for path, place in (
            (str(local), TOPIC),
            (f"{local}/*", f"{TOPIC}/"),
            ([str(local / "7.entries"), str(local / name)], [PATH, f"{TOPIC}/{name}"]),
            ([str(local / "7.entries"), str(local / name)], f"{TOPIC}/"),
        ):
            with pytest.raises(InvalidNameError, match="not the name of a ledger's file"):
                fs.put(path, place, recursive=isinstance(path, str))
    assert objects_in(folder) == {}
    fs.put(str(tmp_path / "0.txt" / "0.txt"), PATH, recursive=True)
    with pytest.raises(InvalidNameError, match="not the name of a ledger's file"):
        fs.cp([PATH, PATH], [f"{TOPIC}/8.entries", f"{TOPIC}/x.entries"])
    assert fs.find("entries") == [PATH]


def test_what_cannot_be_copied(copied: LedgerFileSystem) -> None:
    source = "entries/public/golden/blocks/42.entries"
    with pytest.raises(InvalidNameError, match=r"only files below entries/"):
        copied.cp_file("jsonl/public/golden/blocks/42.jsonl", "entries/public/golden/other/1.entries")
    with pytest.raises(NotFoundError):
        copied.cp_file("entries/public/golden/blocks/43.entries", "entries/public/golden/other/1.entries")
    with pytest.raises(ReadOnlyError):
        copied.cp_file(source, "jsonl/public/golden/blocks/1.jsonl")
    with pytest.raises(ReadOnlyError):
        copied.cp_file("entries/public", "jsonl/public")
    with pytest.raises(LedgerExistsError):
        copied.cp_file(source, source)
    with pytest.raises(RefusedLedgerError, match="changes the ids of entries"):
        copied.cp_file(source, "entries/public/golden/other/42.entries", transform=unbatch(), if_exists="new-copy")
    assert len(copied.find("entries")) == 5


# Transforms


@pytest.mark.long
def test_transforms_on_the_way_change_no_message(copied: LedgerFileSystem, tmp_path: Path) -> None:
    name = "persistent://public/golden/batched-zstd"
    expected = rows_of(copied, name)
    assert len(expected) > 300
    for number, ledger_id in enumerate((37, 91, 130)):
        source = f"entries/public/golden/batched-zstd/{ledger_id}.entries"
        local = tmp_path / f"{ledger_id}.entries"
        local.write_bytes(copied.cat_file(source))
        copied.cp_file(source, f"entries/public/golden/split/{200 + number}.entries", transform=unbatch())
        copied.put(str(local), f"entries/public/golden/put/{300 + number}.entries", transform=unbatch("lz4"))
        with copied.open(f"entries/public/golden/zstd/{500 + number}.entries", "wb", transform=unbatch("zstd")) as out:
            out.write(local.read_bytes())
        copied.pipe_file(f"entries/public/golden/pipe/{600 + number}.entries", local.read_bytes(), transform=unbatch())
    for topic in ("split", "put", "zstd", "pipe"):
        assert rows_of(copied, f"persistent://public/golden/{topic}") == expected
    infos = [copied.info(f"entries/public/golden/{path}") for path in ("batched-zstd/37.entries", "split/200.entries")]
    assert infos[0]["entries"] < infos[1]["entries"]
    assert not verify(copied.bucket).is_damaged


def test_a_transform_of_damaged_entries_leaves_nothing(fs: LedgerFileSystem, folder: Path) -> None:
    with pytest.raises(LedgerfsError, match="entry"):
        fs.pipe_file(PATH, RECORDS, transform=unbatch("zstd"))
    assert objects_in(folder) == {}


# If there is such a ledger


@pytest.fixture
def taken(folder: Path) -> dict[str, bytes]:
    """A ledger 7 of another topic."""
    put_in_folder(folder, offload([b"other"], 7, name="public/default/persistent/other"))
    return objects_in(folder)


def write_each_way(fs: LedgerFileSystem, file: Path, **options: Any) -> list[Callable[[], Any]]:
    def open_it() -> None:
        with fs.open(PATH, "wb", **options) as out:
            out.write(RECORDS)

    return [
        lambda: fs.put(str(file), PATH, **options),
        lambda: fs.pipe_file(PATH, RECORDS, **options),
        lambda: fs.cp_file("entries/public/default/other/7.entries", PATH, **options),
        open_it,
    ]


def source_file(tmp_path: Path) -> Path:
    file = tmp_path / "7.entries"
    file.write_bytes(RECORDS)
    return file


def test_an_id_that_another_topic_has_is_refused(taken: dict[str, bytes], folder: Path, tmp_path: Path) -> None:
    file, fs = source_file(tmp_path), LedgerFileSystem(fo=str(folder), target_protocol="file")
    for options in ({}, {"if_exists": "fail"}, {"if_exists": "skip"}, {"if_exists": "new-copy"}):
        for write in write_each_way(fs, file, **options):
            with pytest.raises(
                LedgerExistsError, match="already has ledger 7 of persistent://public/default/other"
            ) as caught:
                write()
            assert caught.value.errno == errno.EEXIST, options
            assert isinstance(caught.value, FileExistsError)
        assert objects_in(folder) == taken, options


def test_a_ledger_that_is_there_is_skipped(folder: Path, tmp_path: Path) -> None:
    file, options, same = source_file(tmp_path), {"if_exists": "skip"}, offload(ENTRIES, 7, uuid=2)
    put_in_folder(folder, same)
    for defaults, chosen in ((None, options), (options, {})):
        fs = LedgerFileSystem(fo=str(folder), target_protocol="file", write_options=defaults)
        put, pipe, _copy, opened = write_each_way(fs, file, **chosen)
        put()
        pipe()
        # A file that is open cannot be skipped.
        with pytest.raises(LedgerExistsError):
            opened()
        assert objects_in(folder) == same.objects


def test_another_copy_of_an_id_that_is_there(fs: LedgerFileSystem, folder: Path, tmp_path: Path) -> None:
    file, options = source_file(tmp_path), {"if_exists": "new-copy"}
    other = offload([b"other"], 8, name="public/default/persistent/other", uuid=2)
    put_in_folder(folder, offload(ENTRIES, 7), other)
    put, pipe, _copy, opened = write_each_way(fs, file, **options)
    for write in (put, pipe, opened):
        write()
    names = fs.ls(TOPIC, detail=False)
    assert names[0] == PATH
    assert len(names) == 4
    assert all("/7@" in name for name in names[1:])
    assert [fs.info(name)["size"] for name in names] == [len(RECORDS)] * 4
    # What has other entries is no copy of them.
    with pytest.raises(LedgerExistsError, match="which is a different ledger"):
        fs.cp_file("entries/public/default/other/8.entries", PATH, **options)
    assert len(objects_in(folder)) == 10


def test_a_transaction_that_writes_an_id_twice_is_reported_so(tmp_path: Path) -> None:
    def write_twice(fs: LedgerFileSystem) -> None:
        with fs.transaction:
            fs.pipe_file(PATH, RECORDS)
            fs.pipe_file(PATH, offload([b"other"]).records)

    for policy in ("fail", "skip", "new-copy"):
        folder = tmp_path / policy
        folder.mkdir()
        fs = LedgerFileSystem(fo=str(folder), target_protocol="file", write_options={"if_exists": policy})
        with pytest.raises(LedgerExistsError, match=f"the same transaction already writes ledger 7 as {PATH}"):
            write_twice(fs)
        assert objects_in(folder) == {}, policy
        # One that failed is no other one.
        with fs.transaction:
            with pytest.raises(RefusedLedgerError):
                fs.pipe_file(PATH, RECORDS[:-1])
            fs.pipe_file(PATH, RECORDS)
        assert fs.cat_file(PATH) == RECORDS, policy


def test_a_call_overrides_the_option_of_all(folder: Path) -> None:
    put_in_folder(folder, offload(ENTRIES, 7))
    fs = LedgerFileSystem(fo=str(folder), target_protocol="file", write_options={"if_exists": "skip"})
    with pytest.raises(LedgerExistsError):
        fs.pipe_file(PATH, RECORDS, if_exists="fail")
    fs.pipe_file(PATH, RECORDS, if_exists="new-copy")
    assert len(objects_in(folder)) == 4
    fs.pipe_file(PATH, RECORDS)
    assert len(objects_in(folder)) == 4


def test_options_that_are_none_are_named(folder: Path) -> None:
    fs = LedgerFileSystem(fo=str(folder), target_protocol="file", write_options={"blocksize": 1000})
    with pytest.raises(InvalidOptionError, match="blocksize"):
        fs.pipe_file(PATH, RECORDS)
    fs = LedgerFileSystem(fo=str(folder), target_protocol="file", write_options={"if_exists": "replace"})
    with pytest.raises(InvalidOptionError, match="fail, skip, new-copy"):
        fs.pipe_file(PATH, RECORDS)
    assert objects_in(folder) == {}


def test_block_sizes_by_call_and_by_write_options(folder: Path) -> None:
    fs = LedgerFileSystem(fo=str(folder), target_protocol="file", write_options={"block_size": 3200})
    fs.pipe_file(PATH, RECORDS)
    fs.pipe_file(f"{TOPIC}/8.entries", RECORDS, block_size=4000)
    with fs.open(f"{TOPIC}/9.entries", "wb", block_size=10_000) as out:
        out.write(RECORDS)
    made = {offload(ENTRIES, block_size=size).data for size in (3200, 4000, 10_000)}
    assert len(made) == 3
    assert made == {data for name, data in objects_in(folder).items() if not name.endswith("-index")}


# What is refused, before a byte is sent

NO_TOPICS = [
    "entries/_other/a/1.entries", "entries/_unknown/1.entries", "entries/1.entries", "entries/a/b/1.entries",
    "entries/a/b/c/d/1.entries", "entries/a//c/1.entries", "entries/a/b/c d/1.entries", "entries/a/b/c%2fd/1.entries",
    "entries/a/b/../1.entries", "entries/a/b/\udcff/1.entries", "entries/a/%2Fy/c/1.entries",
    f"{TOPIC}/1", f"{TOPIC}/1.jsonl", f"{TOPIC}/x.entries", f"{TOPIC}/01.entries", f"{TOPIC}/-1.entries", f"{TOPIC}/\u0661.entries",
    f"{TOPIC}/9223372036854775808.entries", f"{TOPIC}/1.entries.entries", f"{TOPIC}/1.entries\n",
    f"{TOPIC}/1@00000000-0000-0000-0000-000000000001.entries",
]  # fmt: skip


def test_paths_that_name_no_ledger_of_a_topic_are_refused(fs: LedgerFileSystem, folder: Path) -> None:
    for path in NO_TOPICS:
        for call in (partial(fs.pipe_file, path, RECORDS), partial(fs.open, path, "wb")):
            with pytest.raises(InvalidNameError) as caught:
                pytest.fail(f"{path!r}: {call()}")
            assert caught.value.errno == errno.EINVAL, path
        assert objects_in(folder) == {}, path


def test_nothing_but_entries_is_written_to(fs: LedgerFileSystem, folder: Path, tmp_path: Path) -> None:
    file = str(source_file(tmp_path))
    for view in ("jsonl", "arrow", "parquet", "info", "nonsense", ""):
        path = f"{view}/public/default/orders/7.entries"
        calls: list[Callable[[], Any]] = [
            partial(fs.pipe_file, path, RECORDS),
            partial(fs.open, path, "wb"),
            partial(fs.put, file, path),
            partial(fs.put_file, file, path),
            partial(fs.mkdir, f"{view}/a"),
            partial(fs.makedirs, f"{view}/a/b"),
            partial(fs.rm_file, path),
            partial(fs.touch, path),
            partial(fs.rmdir, view),
        ]
        for call in calls:
            with pytest.raises(ReadOnlyError) as caught:
                pytest.fail(f"{call}: {call()}")
            assert caught.value.errno == errno.EROFS, call
        assert objects_in(folder) == {}, view


def test_directories_are_there_when_something_is_in_them(fs: LedgerFileSystem, folder: Path) -> None:
    fs.mkdir("entries/a")
    fs.mkdir(TOPIC)
    fs.makedirs(TOPIC, exist_ok=True)
    fs.makedirs("entries")
    assert objects_in(folder) == {}
    assert not fs.exists(TOPIC)
    with pytest.raises(IsADirectoryPathError):
        fs.open("entries", "wb")
    fs.pipe_file(PATH, RECORDS)
    assert fs.isdir(TOPIC)
    with pytest.raises(InvalidNameError):
        fs.pipe_file(TOPIC, RECORDS)


def test_what_is_not_offered_says_so_with_an_errno(copied: LedgerFileSystem, folder: Path) -> None:
    path = "entries/public/golden/blocks/42.entries"
    before = objects_in(folder)
    # Of a bucket that was listed before, it is known when a path is opened that it is taken.
    assert copied.exists(path)
    calls: list[tuple[int, Callable[[], Any]]] = [
        (errno.EROFS, lambda: copied.touch(path)),
        (errno.EROFS, lambda: copied.rmdir("entries/public")),
        (errno.ENOTSUP, lambda: copied.mv(path, PATH)),
        (errno.ENOTSUP, lambda: copied.move(path, PATH)),
        (errno.ENOTSUP, lambda: copied.rename(path, PATH)),
        (errno.EROFS, lambda: copied.open(path, "ab")),
        (errno.EROFS, lambda: copied.open(path, "r+b")),
        (errno.EEXIST, lambda: copied.open(path, "wb")),
        (errno.EEXIST, lambda: copied.open(path, "xb")),
    ]
    for number, call in calls:
        with pytest.raises(LedgerfsError) as caught:
            call()
        assert caught.value.errno == number
    assert objects_in(folder) == before


SPOILT = [
    (b"", "the ledger has no entries", 0),
    (RECORDS + RECORDS, "found entry 0, expected entry 4", len(RECORDS)),
    (gzip.compress(RECORDS), "expected entry 0", 0),
]


def test_files_that_are_no_records_are_refused_before_a_byte_is_sent(
    s3_fs: LedgerFileSystem, s3_bucket: str, tmp_path: Path
) -> None:
    file = tmp_path / "7.entries"
    for data, says, offset in SPOILT:
        file.write_bytes(data)
        with requests_of(s3_bucket) as seen:
            for write in (partial(s3_fs.put, str(file), PATH), partial(s3_fs.pipe_file, PATH, data)):
                with pytest.raises(RefusedLedgerError, match=says) as caught:
                    write()
                assert caught.value.offset == offset, says
        assert changes(seen) == [], says
        assert not s3_fs.exists(PATH), says


def test_a_file_that_is_open_is_for_writing_only(fs: LedgerFileSystem, folder: Path) -> None:
    with fs.open(PATH, "wb") as out:
        assert (out.writable(), out.readable(), out.seekable()) == (True, False, False)
        for call in (out.read, lambda: out.seek(0), lambda: out.truncate(0)):
            with pytest.raises((OSError, NotImplementedError)):
                call()
        out.write(RECORDS)
    with pytest.raises(ValueError, match="closed"):
        out.write(RECORDS)
    assert fs.cat_file(PATH) == RECORDS


def test_a_refused_line_that_somebody_overlooks_makes_no_half_of_a_ledger(fs: LedgerFileSystem, folder: Path) -> None:
    text = fs.open(PATH, "w", encoding="latin-1", newline="")
    text.write(RECORDS.decode("latin-1"))
    text.flush()
    with pytest.raises(RefusedLedgerError):
        print("and a line of text that is no record", file=text, flush=True)
    with contextlib.suppress(RefusedLedgerError, ValueError):
        text.close()
    assert objects_in(folder) == {}
    assert not fs.exists(PATH)


# Callbacks


def test_callbacks_get_the_size_and_all_bytes(fs: LedgerFileSystem, tmp_path: Path) -> None:
    file = tmp_path / "large.entries"
    file.write_bytes(offload([b"x" * 1_000_000] * 20, block_size=5 << 20).records)
    seen = Callback()
    fs.put_file(str(file), PATH, callback=seen)
    assert seen.size == seen.value == file.stat().st_size
    of_files = Callback()
    (tmp_path / "two").mkdir()
    for ledger_id in (8, 9):
        (tmp_path / "two" / f"{ledger_id}.entries").write_bytes(RECORDS)
    fs.put(f"{tmp_path}/two/", TOPIC, recursive=True, callback=of_files)
    assert of_files.size == of_files.value >= 2


# Removing


def test_what_is_removed_is_gone_at_once(copied: LedgerFileSystem, folder: Path, tmp_path: Path) -> None:
    other = LedgerFileSystem(fo=str(folder), target_protocol="file", cache_dir=str(tmp_path / "cache"))
    assert len(other.find("entries")) == 5
    copied.rm("entries/public/golden/blocks/42.entries")
    assert copied.ls("entries/public/golden/blocks", detail=False) == ["entries/public/golden/blocks/99.entries"]
    assert not copied.exists("entries/public/golden/blocks/42.entries")
    copied.rm_file("entries/public/golden/blocks/99.entries")
    assert not copied.exists("entries/public/golden/blocks")
    copied.rm("entries/public/golden/batched-zstd/1*.entries")
    copied.rm(["entries/public/golden/batched-zstd/37.entries"])
    assert [path.rpartition("/")[2] for path in copied.find("entries")] == ["91.entries"]
    copied.rm("entries/public", recursive=True)
    assert copied.find("entries") == []
    assert objects_in(folder) == {}
    other.invalidate_cache()
    assert other.find("entries") == []


def test_what_is_not_removed(copied: LedgerFileSystem, folder: Path) -> None:
    before = objects_in(folder)
    kept = "entries/public/golden/blocks/42.entries"
    for error, path in [
        (NotFoundError, "entries/public/golden/blocks/43.entries"),
        (FileNotFoundError, "entries/public/golden/nothing*"),
        (IsADirectoryPathError, "entries/public/golden/blocks"),
        (ReadOnlyError, "jsonl/public/golden/blocks/42.jsonl"),
    ]:
        with pytest.raises(error):
            copied.rm(path)
    with pytest.raises(ReadOnlyError):
        copied.rm("", recursive=True)
    with pytest.raises(ReadOnlyError):
        copied.rm([kept, "jsonl/public/golden/blocks/99.jsonl"])
    with pytest.raises(FileNotFoundError):
        copied.rm([kept, "entries/public/golden/blocks/43.entries"])
    assert objects_in(folder) == before


def test_copies_are_removed_by_their_names(folder: Path) -> None:
    made = [offload([b"%d" % uuid], 5, uuid=uuid) for uuid in (1, 2, 3)]
    put_in_folder(folder, *made)
    fs = LedgerFileSystem(fo=str(folder), target_protocol="file")
    first, second, third = fs.ls(TOPIC, detail=False)
    gone = fs.info(second)["uuid"]
    fs.rm(second)
    assert {name[:36] for name in objects_in(folder)} == {one.uuid for one in made} - {gone}
    assert fs.ls(TOPIC, detail=False) == [first, third]
    fs.rm(TOPIC, recursive=True)
    assert objects_in(folder) == {}


def test_an_id_is_free_again_when_its_ledger_is_removed(fs: LedgerFileSystem) -> None:
    for data in (RECORDS, offload([b"again"]).records):
        fs.pipe_file(PATH, data)
        assert fs.cat_file(PATH) == data
        with pytest.raises(LedgerExistsError):
            fs.pipe_file(PATH, data)
        fs.rm(PATH)
    assert not fs.exists(PATH)


def test_indexes_go_before_data(s3_fs: LedgerFileSystem, s3_bucket: str) -> None:
    for ledger_id in (1, 2):
        s3_fs.pipe_file(f"{TOPIC}/{ledger_id}.entries", RECORDS)
    with requests_of(s3_bucket) as seen:
        s3_fs.rm(TOPIC, recursive=True)
    deleted = [request.removeprefix("DELETE ").partition("?")[0] for request in changes(seen)]
    assert len(deleted) == 4
    assert deleted[0] == f"{deleted[1]}-index"
    assert deleted[2] == f"{deleted[3]}-index"


# Many in a row, and what others build on it


def test_a_write_costs_one_listing(s3_fs: LedgerFileSystem, s3_bucket: str) -> None:
    with requests_of(s3_bucket) as seen:
        for ledger_id in range(5):
            s3_fs.pipe_file(f"{TOPIC}/{ledger_id}.entries", RECORDS)
        with pytest.raises(LedgerExistsError):
            s3_fs.pipe_file(f"{TOPIC}/3.entries", RECORDS)
    assert len([request for request in seen if request.startswith("GET ?")]) == 6
    assert len(s3_fs.ls(TOPIC)) == 5


def test_pyarrow_writes_through_it(fs: LedgerFileSystem) -> None:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    with PyFileSystem(FSSpecHandler(fs)).open_output_stream(PATH) as out:
        out.write(pa.py_buffer(RECORDS))
    assert fs.cat_file(PATH) == RECORDS


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    fs = LedgerFileSystem(fo=str(tmp_path / "nowhere"), target_protocol="file")
    with pytest.raises(NotFoundError):
        fs.pipe_file(PATH, RECORDS)
    assert not (tmp_path / "nowhere").exists()

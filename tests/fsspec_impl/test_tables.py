"""The message table as files, in the libraries that users have for tables: on disk, and on S3."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import EncryptedMessageError
from ledgerfs.fsspec_impl import LedgerFileSystem
from tests.scan.test_scan_golden import ENCRYPTED, expected_of, wanted
from tests.support.children import is_true_in_child
from tests.support.s3 import S3Server

TOPIC = "public/golden/plain"
PLAIN = f"parquet/{TOPIC}"
ONE = f"{PLAIN}/26.parquet"
LINES = f"jsonl/{TOPIC}/26.jsonl"


@dataclass
class Place:
    """A bucket: what stands behind ``::`` in its URLs, the options that go with them, and its filesystem."""

    url: str
    options: dict[str, Any]
    fs: LedgerFileSystem

    def at(self, path: str) -> str:
        return f"ledger://{path}::{self.url}"


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, golden: Path, s3: S3Server, s3_golden: str, tmp_path: Path) -> Place:
    ours = {"cache_dir": str(tmp_path / "cache")}
    if request.param == "file":
        fs = fsspec.filesystem("ledger", fo=f"{golden}/bucket", target_protocol="file", **ours)
        return Place(f"file://{golden}/bucket", {"ledger": ours}, fs)
    fs = fsspec.filesystem("ledger", fo="golden", target_protocol="s3", target_options=s3.options, **ours)
    return Place(s3_golden, {"ledger": ours, "s3": s3.options}, fs)


@pytest.fixture
def whole(golden_url: str) -> pa.Table:
    return open_bucket(golden_url).topic(TOPIC).scan().to_arrow()


def in_order(table: pa.Table) -> pa.Table:
    """Sort as the topic does: libraries read files by their names."""
    return table.sort_by([("ledger_id", "ascending"), ("entry_id", "ascending")]).combine_chunks()


def test_pandas_reads_a_topic_and_a_ledger_by_url(place: Place, whole: pa.Table) -> None:
    frame = pd.read_parquet(place.at(PLAIN), storage_options=place.options)
    assert in_order(pa.Table.from_pandas(frame, whole.schema)) == in_order(whole)
    keys = pd.read_parquet(place.at(ONE), storage_options=place.options, columns=["key"])
    assert pa.array(keys["key"], pa.string(), from_pandas=True).to_pylist() == whole["key"].to_pylist()[:200]
    lines = pd.read_json(place.at(LINES), storage_options=place.options, lines=True)
    assert lines["sequence_id"].tolist() == whole["sequence_id"].to_pylist()[:200]
    arrow = pd.read_feather(place.at(f"arrow/{TOPIC}/26.arrow"), storage_options=place.options)
    assert arrow["entry_id"].tolist() == list(range(200))


def test_pyarrow_reads_a_topic_as_a_data_set(place: Place, whole: pa.Table) -> None:
    assert in_order(pq.read_table(PLAIN, filesystem=place.fs)) == in_order(whole)
    for view, kind in (("parquet", "parquet"), ("arrow", "arrow")):
        topic = ds.dataset(f"{view}/{TOPIC}", filesystem=place.fs, format=kind)
        assert topic.count_rows() == 600
        found = topic.to_table(columns=["key", "value"], filter=ds.field("ledger_id") == 84)
        assert found == whole.select(["key", "value"]).slice(200, 200)


def test_polars_reads_opened_files_and_data_sets(place: Place, whole: pa.Table) -> None:
    with place.fs.open(ONE) as file:
        assert pl.read_parquet(file)["entry_id"].to_list() == list(range(200))
    with place.fs.open(LINES) as file:
        assert pl.read_ndjson(file.read())["sequence_id"].to_list() == whole["sequence_id"].to_pylist()[:200]
    topic = pl.scan_pyarrow_dataset(ds.dataset(PLAIN, filesystem=place.fs))
    found = topic.filter(pl.col("ledger_id") == 84).select("key").collect()
    assert found["key"].to_list() == whole["key"].to_pylist()[200:400]


@pytest.fixture
def connection(place: Place) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.register_filesystem(place.fs)
        yield made


def test_duckdb_queries_files_of_a_registered_filesystem(
    connection: duckdb.DuckDBPyConnection, whole: pa.Table
) -> None:
    for source in (
        f"'ledger://{PLAIN}/*.parquet'",
        f"read_json('ledger://jsonl/{TOPIC}/*.jsonl')",
    ):
        rows = connection.sql(f"select ledger_id, entry_id from {source} order by all").fetchall()
        assert rows == [
            (row["ledger_id"], row["entry_id"]) for row in whole.select(["ledger_id", "entry_id"]).to_pylist()
        ]
    ((count,),) = connection.sql(f"select count(*) from 'ledger://{ONE}'").fetchall()
    assert count == 200


def test_duckdb_reads_a_file_that_is_larger_than_the_cache(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEDGERFS_DISK_CACHE_BYTES", "1000")
    fs = LedgerFileSystem(fo=place.url, target_options=place.options.get("s3"), cache_dir=str(tmp_path / "small"))
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        assert connection.sql(f"select count(*) from 'ledger://{PLAIN}/*.parquet'").fetchall() == [(600,)]
    assert list((tmp_path / "small" / "files").glob("*.file")) == []


def test_sizes_are_reported_without_rendering_only_where_they_are_known(place: Place) -> None:
    fs = place.fs
    assert [info["size"] for info in fs.ls(PLAIN)] == [None] * 3
    assert fs.info(ONE)["size"] is None
    assert fs.du("parquet") == 0
    assert set(fs.find(PLAIN, detail=True)) == {f"{PLAIN}/{ledger}.parquet" for ledger in (26, 84, 123)}
    size = fs.size(ONE)
    assert fs.info(ONE)["size"] == size == len(fs.cat_file(ONE)) == fs.du("parquet")
    assert fs.size(PLAIN) == 0
    assert fs.sizes([ONE, LINES]) == [size, fs.info(LINES)["size"]]
    assert fs.tail(ONE, 4) == fs.cat_file(ONE, start=-4) == b"PAR1"
    assert fs.cat_ranges([ONE] * 20, 0, 4) == [b"PAR1"] * 20


def test_a_topic_is_exported_by_get(place: Place, tmp_path: Path, whole: pa.Table) -> None:
    place.fs.get(PLAIN, f"{tmp_path}/out/", recursive=True)
    # With a slash at its end, `get` puts the topic's folder into an existing target, and its files into a new one, as `cp -r` does.
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")}
    assert files == {f"{ledger}.parquet": place.fs.cat_file(f"{PLAIN}/{ledger}.parquet") for ledger in (26, 84, 123)}
    assert not list((tmp_path / "out").rglob("*.part"))
    assert in_order(pq.read_table(tmp_path / "out")) == in_order(whole)


def test_scan_options_are_part_of_the_filesystem(golden: Path, golden_url: str, tmp_path: Path) -> None:
    key = (golden / "keys" / "private.pem").read_text()
    options: dict[str, Any] = {"fo": f"{golden}/bucket", "target_protocol": "file", "cache_dir": str(tmp_path)}
    plain = fsspec.filesystem("ledger", **options)
    with_key = fsspec.filesystem("ledger", **options, scan_options={"private_keys": {"golden.key": key}})
    assert plain.bucket is not with_key.bucket
    with pytest.raises(EncryptedMessageError, match="parquet/public/golden/encrypted/"):
        pq.read_table("parquet/public/golden/encrypted", filesystem=plain)
    table = pq.read_table("parquet/public/golden/encrypted", filesystem=pickle.loads(pickle.dumps(with_key)))
    values = sorted(line["value"] for line in wanted(expected_of(golden, ENCRYPTED, "expected-decrypted")))
    assert len(values) == table.num_rows > 0
    printed = repr(with_key) + str(with_key) + repr(with_key.bucket) + repr(with_key.open(f"jsonl/{TOPIC}/26.jsonl"))
    assert "PRIVATE KEY" not in printed
    url = f"ledger://jsonl/public/golden/encrypted/44.jsonl::{golden_url}"
    with fsspec.open(url, ledger={"scan_options": {"on_encrypted": "null"}, "cache_dir": str(tmp_path)}) as file:
        assert b'"value":null' in file.readline()


def test_open_files_travel_and_survive_a_fork(place: Place) -> None:
    with place.fs.open(LINES) as file:
        first = file.readline()
        copy = pickle.loads(pickle.dumps(file))
        assert copy.tell() == len(first)
        assert is_true_in_child(lambda: file.seek(0) == 0 and file.readline() == first)
        assert copy.read() == file.read()
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.read()


def test_a_closed_file_holds_no_descriptor(place: Place, tmp_path: Path) -> None:
    def held() -> list[str]:
        """Of the cache: connections come and go."""
        found = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        return [path for path in found if path.startswith(str(tmp_path)) and path.endswith(".file")]

    place.fs.cat_file(LINES)
    before = len(held())
    file = place.fs.open(LINES)
    assert len(held()) == before + 1
    file.close()
    assert len(held()) == before

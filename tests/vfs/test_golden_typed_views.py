"""Views of every typed golden topic through fsspec: each file is the scan's table of its ledger."""

import io
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerfs import Bucket
from ledgerfs.tables.table_files import write_table
from tests.support.each import for_each
from tests.support.typed_golden import TOPICS, WITHOUT_SCHEMA, assert_same_rows, bucket_with_schemas

TOP = "public/typed/"


@pytest.fixture(scope="module")
def typed(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    return bucket_with_schemas(golden_typed, tmp_path_factory.mktemp("typed") / "bucket")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def opened(typed: Bucket, cache: str) -> dict[str, Any]:
    """The tree with the values of each choice."""
    options = {values: {"values": values, "on_undecodable": "null"} for values in ("typed", "auto")}
    return {
        values: fsspec.filesystem(
            "ledger", fo=typed.store.url, cache_dir=cache, scan_options=one, skip_instance_cache=True
        )
        for values, one in options.items()
    }


@pytest.mark.long
@for_each("name", TOPICS)
def test_files_are_the_table_of_the_scan(typed: Bucket, opened: dict[str, Any], cache: str, name: str) -> None:
    values = "auto" if name in WITHOUT_SCHEMA else "typed"
    fs, folder = opened[values], TOP + quote_plus(name)
    said = typed.topic(TOP + name).scan(values=values, on_undecodable="null").to_table()
    tables = []
    for path in fs.find(f"parquet/{folder}"):
        with fs.open(path) as file:
            tables.append(pq.read_table(file))
    assert len(tables) == len(typed.topic(TOP + name).ledgers)
    assert_same_rows(pa.concat_tables(tables), said)
    paths = sorted(fs.find(f"jsonl/{folder}"), key=lambda path: int(Path(path).stem))
    lines = io.BytesIO()
    # What lines say of values is tested in tests/tables.
    write_table(said.to_batches(), said.schema, lines, "jsonl")
    assert b"".join(map(fs.cat, paths)) == lines.getvalue()
    # Each file that is rendered looks at all others.
    shutil.rmtree(f"{cache}/rendered")

"""Typed values through a mount, as the command and ``/etc/fstab`` ask for them."""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.invoked import run
from tests.support.typed_golden import bucket_with_schemas

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="no /dev/fuse"),
]

TOP = "public/typed/"


def test_options_of_the_tables_are_checked_when_a_bucket_is_mounted(golden_typed: Path, tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    for option, word in (
        ("values=avro", "bytes, typed, json, auto"),
        ("values=typed,on_undecodable=skip", "a file of the tree contains all"),
        ("values=typed,flatten=maybe", "expected one of true, yes, 1, false, no, 0"),
        ("values=typed,schema_version=abc", "'abc' is not a version number, latest, each, or a file"),
        ("values=json,schema_version=each", "ignores the schema versions of messages"),
        ("values=bytes,flatten", "flatten: applies to values as columns"),
        ("flatten=true", "flatten: applies to values as columns"),
        ("values=typed,schemaVersion=1", "did you mean schema_version?"),
        ("values=typed,columns=key", "columns is not an option for the tables of a mount"),
        ("transaction=all", "transactions is not an option for the tables of a mount"),
        ("write=true", "write accepts no value"),
        ("allow_other=1", "allow_other accepts no value"),
    ):
        options = [part for one in option.split(",") for part in ("-o", one)]
        done = run("mount", f"file://{golden_typed}/bucket", str(tmp_path / "mnt"), *options, code=2)
        assert word in done.stderr.decode(), option
    assert not (tmp_path / "mnt").is_mount()


def test_a_schema_of_ones_own_and_flags_with_a_value(golden_typed: Path, tmp_path: Path) -> None:
    bucket = bucket_with_schemas(golden_typed, tmp_path / "bucket")
    (tmp_path / "mnt").mkdir()
    mine = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "double"}]}
    (tmp_path / "mine.avsc").write_text(json.dumps(mine))
    options = ["values=typed", f"schema_version={tmp_path}/mine.avsc", "flatten=yes", "on_undecodable=null"]
    run("mount", bucket.store.url, str(tmp_path / "mnt"), *[part for one in options for part in ("-o", one)])
    try:
        (path, *_) = (tmp_path / "mnt/parquet" / TOP / "avro-evolved").iterdir()
        # Arrow's own threads may hold what they have opened a little longer than it takes to read.
        with path.open("rb") as file:
            names = pq.read_table(file).schema.names
        assert "id" in names
        assert "value" not in names
    finally:
        run("umount", str(tmp_path / "mnt"))

"""Files of the tree with typed values: through pandas and a mount, and never those that other schemas made."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import CorruptSchemaFileError
from ledgerfs.formats.schemas.saved_schema import FOLDER
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.vfs.tree import tree_of
from ledgerfs.vfs.views.ledger_tables import LedgerTables
from tests.support.typed_golden import bucket_with_schemas

TYPED = {"values": "typed", "on_undecodable": "null"}
EVOLVED = "public/typed/avro-evolved"


@pytest.fixture(scope="module")
def unchanged(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    """A bucket with the schemas of all topics, for tests that change nothing in it."""
    return bucket_with_schemas(golden_typed, tmp_path_factory.mktemp("typed") / "bucket")


@pytest.fixture
def typed(unchanged: Bucket, tmp_path: Path) -> Bucket:
    """A bucket of the test's own."""
    shutil.copytree(unchanged.store.url.removeprefix("file://"), tmp_path / "bucket")
    return open_bucket(f"file://{tmp_path}/bucket")


def opened(typed: Bucket, tmp_path: Path, **scan_options: Any) -> Bucket:
    return open_bucket(typed.store.url, cache_dir=str(tmp_path / "cache"), scan_options=scan_options)


def lines(bucket: Bucket, topic: str = EVOLVED) -> list[dict[str, Any]]:
    tree = tree_of(bucket)
    found = []
    for ledger in bucket.topic(topic).ledgers:
        file = tree.open(f"jsonl/{topic}/{ledger.ref.ledger_id}.jsonl")
        found += [json.loads(line) for line in file.read(0, file.size).splitlines()]
    return found


def test_a_newly_saved_schema_makes_other_files(typed: Bucket, tmp_path: Path) -> None:
    bucket = opened(typed, tmp_path, **TYPED)
    before = lines(bucket)
    assert lines(opened(typed, tmp_path, **TYPED)) == before
    newer = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "more", "type": "string", "default": "?"}],
    }
    version = SchemaVersion(3, SchemaInfo("AVRO", json.dumps(newer).encode()), 1_900_000_000_000)
    SavedSchemas(typed.raw_store).add(f"persistent://{EVOLVED}", [version])
    # A process whose catalog is older goes on with what it knew, and never gets the others' files.
    after = lines(opened(typed, tmp_path, **TYPED))
    assert {one["value"]["more"] for one in after if one["value"]} == {"?"}
    assert lines(bucket) == before
    bucket.refresh()
    assert lines(bucket) == after


def test_a_table_is_made_with_the_schemas_of_its_key(typed: Bucket, tmp_path: Path) -> None:
    """Even if the catalog, and with it the schemas, are read anew between the two."""
    bucket = opened(typed, tmp_path, **TYPED)
    tables = LedgerTables(bucket, bucket.scan_options)
    ref = bucket.topic(EVOLVED).ledgers[0].ref
    table = tables.table(ref, "jsonl")
    newer = SchemaVersion(
        3, SchemaInfo("AVRO", b'{"type": "record", "name": "Order", "fields": []}'), 1_900_000_000_000
    )
    SavedSchemas(typed.raw_store).add(f"persistent://{EVOLVED}", [newer])
    bucket.refresh()
    assert tables.table(ref, "jsonl").key != table.key
    assert table.scan().schema.field("value").type.num_fields > 0
    assert tables.table(ref, "jsonl").scan().schema.field("value").type.num_fields == 0


def test_schemas_are_read_once_for_the_topic_of_a_catalog(
    unchanged: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = SavedSchemas.versions
    monkeypatch.setattr(SavedSchemas, "versions", lambda self, topic: asked.append(topic) or real(self, topic))
    bucket = opened(unchanged, tmp_path, **TYPED)
    tree = tree_of(bucket)
    for _ in range(3):
        assert list(tree.children(f"parquet/{EVOLVED}"))
    lines(bucket)
    assert asked == [f"persistent://{EVOLVED}"]
    asked.clear()
    lines(opened(unchanged, tmp_path))
    list(tree_of(bucket).children(f"entries/{EVOLVED}"))
    assert asked == []


def test_a_damaged_schema_is_reported_when_a_file_is_opened_and_folders_are_listed(
    typed: Bucket, tmp_path: Path
) -> None:
    (path, *_) = [one for one in (tmp_path / "bucket" / FOLDER).rglob("*.json") if "avro-evolved" in str(one)]
    path.write_bytes(b"{")
    bucket = opened(typed, tmp_path, **TYPED)
    assert all(node.size is None for node in tree_of(bucket).children(f"jsonl/{EVOLVED}"))
    with pytest.raises(CorruptSchemaFileError):
        lines(bucket)

"""Files of the tree with values that are JSON: one type for all files of a topic, and another one when its ledgers are others."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import UndecodableValueError
from ledgerfs.scan import scan
from ledgerfs.vfs.tree import tree_of
from tests.support.json_topics import NAME, ledger, put
from tests.support.ledgers import put_in_folder

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = "public/default"
EVENTS = f"{FOLDER}/events"


def opened(url: str, tmp_path: Path, **options: Any) -> Bucket:
    return open_bucket(url, cache_dir=str(tmp_path / "cache"), scan_options={"values": "json", **options})


def tables(bucket: Bucket, topic: str = EVENTS) -> list[pa.Table]:
    tree = tree_of(bucket)
    files = [tree.open(node.path) for node in tree.children(f"parquet/{topic}")]
    return [pq.read_table(pa.BufferReader(file.read(0, file.size))) for file in files]


def fields(bucket: Bucket, topic: str = EVENTS) -> list[str]:
    types = {str(one.schema.field("value").type) for one in tables(bucket, topic)}
    assert len(types) == 1
    names: list[str] = tables(bucket, topic)[0].schema.field("value").type.names
    return names


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that are read for their types."""
    seen: list[str] = []
    real: Callable[..., Any] = scan.learned_values

    def read(shown: Any, topic: str, parts: Any, options: Any) -> Any:
        seen.extend(part.topic for part in parts)
        return real(shown, topic, parts, options)

    monkeypatch.setattr(scan, "learned_values", read)
    return seen


def test_a_later_ledger_with_new_fields_makes_all_files_anew(tmp_path: Path, passes: list[str]) -> None:
    url = put(tmp_path / "b", [{"a": 1}], [{"b": 2}])
    bucket = opened(url, tmp_path)
    assert fields(bucket) == ["a", "b"]
    assert len(passes) == 1
    put_in_folder(tmp_path / "b", ledger(3, {"c": "x"}), ledger(1, {"z": 1}, name=NAME.replace("events", "other")))
    # A process whose catalog is older goes on with what it knew, and never gets the others' files.
    assert fields(opened(url, tmp_path)) == ["a", "b", "c"]
    assert fields(bucket) == ["a", "b"]
    bucket.refresh()
    assert fields(bucket) == ["a", "b", "c"]
    assert [one.num_rows for one in tables(bucket)] == [1, 1, 1]
    seen = len(passes)
    put_in_folder(tmp_path / "b", ledger(2, {"z": 1}, name=NAME.replace("events", "other")))
    bucket.refresh()
    assert fields(bucket) == ["a", "b", "c"]
    assert len(passes) == seen  # another topic's ledger changes nothing
    for path in (tmp_path / "b").glob("*ledger-3*"):
        path.unlink()
    bucket.refresh()
    assert fields(bucket) == ["a", "b"]


def test_folders_are_listed_without_reading_topics(tmp_path: Path, passes: list[str]) -> None:
    url = put(tmp_path / "b", [{"a": 1}], [{"b": 2}])
    bucket = opened(url, tmp_path)
    tree = tree_of(bucket)
    assert [node.size for node in tree.children(f"jsonl/{EVENTS}")] == [None, None]
    assert passes == []
    tree.open(f"jsonl/{EVENTS}/1.jsonl")
    assert [node.size is None for node in tree.children(f"jsonl/{EVENTS}")] == [False, True]
    assert [json.loads(line)["value"] for line in _lines(tree, 2)] == [{"b": 2}]
    assert len(passes) == 1


def _lines(tree: Any, ledger_id: int) -> list[bytes]:
    file = tree.open(f"jsonl/{EVENTS}/{ledger_id}.jsonl")
    lines: list[bytes] = file.read(0, file.size).splitlines()
    return lines


def test_a_topic_is_read_once_for_all_who_open_its_files(tmp_path: Path, passes: list[str]) -> None:
    url = put(tmp_path / "b", *([{f"f{number}": number}] for number in range(1, 9)))
    tree = tree_of(opened(url, tmp_path))
    with ThreadPoolExecutor(8) as pool:
        files = list(pool.map(lambda number: tree.open(f"parquet/{EVENTS}/{number}.parquet"), range(1, 9)))
    types = {str(pq.read_schema(pa.BufferReader(file.read(0, file.size)))) for file in files}
    assert (len(types), len(passes)) == (1, 1)


def test_only_the_file_of_damage_is_an_error(tmp_path: Path) -> None:
    whole = ledger(2, {"b": "x" * 100})
    (tmp_path / "b").mkdir()
    url = put_in_folder(tmp_path / "b", ledger(1, {"a": 1}), whole, ledger(3, b"no json", {"c": 1}))
    (key,) = [key for key, data in whole.objects.items() if data == whole.data]
    (tmp_path / "b" / key).write_bytes(whole.data.replace(b"x" * 100, b"y" * 100))
    tree = tree_of(opened(url, tmp_path))
    assert [json.loads(line)["value"] for line in _lines(tree, 1)] == [{"a": 1}]
    with pytest.raises(OSError, match="entry 2:0: its CRC32C"):
        _lines(tree, 2)
    with pytest.raises(UndecodableValueError, match=r"message 3:0: it is not JSON"):
        _lines(tree, 3)
    nulls = tree_of(opened(url, tmp_path, on_undecodable="null"))
    assert [json.loads(line).get("value") for line in _lines(nulls, 3)] == [None, {"c": 1}]

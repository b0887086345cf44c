"""The views ``jsonl``, ``arrow`` and ``parquet``: what is in their files, and when they are rendered."""

import base64
import io
import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import (
    CorruptLedgerError,
    CorruptMessageError,
    EncryptedMessageError,
    InvalidOptionError,
    LedgerfsError,
    MissingLedgerError,
)
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS
from ledgerfs.tables import table_files
from ledgerfs.vfs.tree import tree_of
from ledgerfs.vfs.views import RENDERED_KINDS
from ledgerfs.vfs.views.info import InfoView
from tests.scan.test_scan_golden import ENCRYPTED
from tests.support.entries import frame, metadata
from tests.support.golden_rows import as_java_says, expected_of, wanted
from tests.support.ledgers import CREATED_MS, Offload, offload, put_in_folder

COMMIT = 21
ORDERS = "public/default/orders"


def message(number: int, text: bytes = b"value", **fields: object) -> bytes:
    return frame(metadata(sequence_id=number, publish_time_ms=CREATED_MS + number, **fields), text)


def in_transaction(number: int) -> bytes:
    return message(number, transaction_least=1, transaction_most=7)


def commit() -> bytes:
    return frame(metadata(marker_type=COMMIT, transaction_least=1, transaction_most=7))


def chunk(number: int) -> bytes:
    meta = metadata(chunked_id=b"a", chunks=2, chunk=number, sequence_id=50, publish_time_ms=CREATED_MS)
    return frame(meta, b"part %d " % number)


def content_of(bucket: Bucket, path: str) -> bytes:
    opened = tree_of(bucket).open(path)
    return opened.read(0, opened.size)


def rows_in(data: bytes, kind: str) -> list[dict[str, Any]]:
    """Return what a file holds in the words of the table."""
    if kind == "parquet":
        return pa.parquet.read_table(io.BytesIO(data)).to_pylist()
    if kind == "arrow":
        return pa.ipc.open_file(data).read_all().to_pylist()
    return [row_of_line(json.loads(line)) for line in data.splitlines()]


def row_of_line(line: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {**dict.fromkeys(DEFAULT_COLUMNS), "properties": {}, **line}
    row["value"] = None if row["value"] is None else row["value"].encode()
    for name in list(line):
        if name.endswith("_base64"):
            row[name.removesuffix("_base64")] = base64.b64decode(row.pop(name))
        elif name.endswith("_time"):
            row[name] = datetime.fromisoformat(line[name])
    row["properties"] = list(row["properties"].items())
    return row


def kept_in(cache: str) -> list[str]:
    return [path.name for path in Path(cache, "files").glob("*.file")]


def values_in(bucket: Bucket, path: str) -> list[str]:
    return [json.loads(line)["value"] for line in content_of(bucket, path).splitlines()]


def folders_of_topics(bucket: Bucket) -> dict[str, str]:
    """Return the folders of topics in each view."""
    nodes = (node for node in tree_of(bucket).walk("entries") if node.ref is not None)
    return {node.ref.topic: node.path.removeprefix("entries/").rpartition("/")[0] for node in nodes}


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds that were rendered since the test began."""
    seen: list[str] = []
    write = table_files.write_table

    def remember(batches: Any, schema: Any, sink: Any, kind: str) -> int:
        seen.append(kind)
        return write(batches, schema, sink, kind)

    monkeypatch.setattr(table_files, "write_table", remember)
    return seen


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


@pytest.fixture
def opened(tmp_path: Path, cache: str) -> Iterator[Callable[..., Bucket]]:
    """Write ledgers into a bucket, and open it anew, with a cache of the test's own."""
    folder = tmp_path / "bucket"
    folder.mkdir()

    def open_with(*ledgers: Offload, **options: Any) -> Bucket:
        return open_bucket(put_in_folder(folder, *ledgers), cache_dir=cache, scan_options=options)

    return open_with


# What is in them.


@pytest.mark.long
def test_every_golden_topic_is_there_row_by_row(golden_url: str, golden: Path, cache: str) -> None:
    bucket = open_bucket(golden_url, cache_dir=cache)
    folders = folders_of_topics(bucket)
    seen = 0
    for topic in bucket.topics():
        if topic.name == ENCRYPTED:
            continue
        rows = {}
        for view in RENDERED_KINDS:
            files = tree_of(bucket).children(f"{view}/{folders[topic.name]}")
            rows[view] = [row for file in files for row in rows_in(content_of(bucket, file.path), view)]
        assert [as_java_says(row) for row in rows["jsonl"]] == wanted(expected_of(golden, topic.name)), topic.name
        for view in RENDERED_KINDS:
            assert rows[view] == rows["jsonl"], (view, topic.name)
        seen += len(rows["jsonl"])
        # Each file that is rendered looks at all others.
        shutil.rmtree(f"{cache}/files")
    assert seen == 12_989 - 69


def test_kinds_of_table_files_are_the_views() -> None:
    assert {f".{kind}" for kind in RENDERED_KINDS} == {table_files.TABLE_KINDS[kind] for kind in RENDERED_KINDS}


def test_an_encrypted_ledger_is_an_error_that_names_the_file(golden_url: str, cache: str) -> None:
    bucket = open_bucket(golden_url, cache_dir=cache)
    for view in RENDERED_KINDS:
        path = f"{view}/public/golden/encrypted/44.{view}"
        with pytest.raises(EncryptedMessageError, match="entry 44:0: the message is encrypted") as caught:
            tree_of(bucket).open(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert pickle.loads(pickle.dumps(caught.value)).path == caught.value.path == path
        assert tree_of(bucket).node(path).size is None, view
        assert kept_in(cache) == [], view


def test_keys_and_choices_of_a_scan_serve_the_views_too(golden_url: str, golden: Path, cache: str) -> None:
    key = (golden / "keys" / "private.pem").read_text()
    path = "jsonl/public/golden/encrypted/44.jsonl"
    null = open_bucket(golden_url, cache_dir=cache, scan_options={"on_encrypted": "null"})
    assert set(values_in(null, path)) == {None}
    bucket = open_bucket(golden_url, cache_dir=cache, scan_options={"private_keys": {"golden.key": key}})
    files = tree_of(bucket).children("jsonl/public/golden/encrypted")
    rows = [as_java_says(row) for file in files for row in rows_in(content_of(bucket, file.path), "jsonl")]
    assert rows == wanted(expected_of(golden, ENCRYPTED, "expected-decrypted"))
    by_path = open_bucket(
        golden_url, cache_dir=cache, scan_options={"private_keys": {"golden.key": golden / "keys" / "private.pem"}}
    )
    assert content_of(by_path, path) == content_of(bucket, path)
    # Who has no key gets no file that was rendered with one.
    with pytest.raises(EncryptedMessageError):
        tree_of(open_bucket(golden_url, cache_dir=cache)).open(path)
    shown = repr(bucket) + repr(tree_of(bucket).open(path)) + " ".join(kept_in(cache))
    assert not [line for line in key.splitlines() if line in shown]


def test_a_file_that_leaves_out_damage_is_not_to_be_had(golden_url: str) -> None:
    with pytest.raises(InvalidOptionError, match="complete, or reading it fails"):
        open_bucket(golden_url, scan_options={"on_corrupt": "skip"})


def test_damage_is_an_error_and_nothing_is_kept(truncated_url: str, opened: Callable[..., Bucket], cache: str) -> None:
    bucket = open_bucket(truncated_url, cache_dir=cache)
    with pytest.raises(CorruptLedgerError, match=r"parquet/public/loss/big-entry/201\.parquet: .*-ledger-201 at byte"):
        tree_of(bucket).open("parquet/public/loss/big-entry/201.parquet")
    bucket = opened(offload([message(0), message(1)[:-1] + b"?"]))
    with pytest.raises(CorruptMessageError, match=f"jsonl/{ORDERS}/1.jsonl: entry 1:1: its CRC32C"):
        tree_of(bucket).open(f"jsonl/{ORDERS}/1.jsonl")
    assert kept_in(cache) == []


def test_a_copy_is_rendered_from_its_own_bytes(opened: Callable[..., Bucket]) -> None:
    bucket = opened(
        offload([message(0, b"before"), chunk(0)], 1, uuid=1),
        offload([message(1, b"one"), chunk(1)], 2, uuid=2),
        offload([message(1, b"two"), chunk(1)], 2, uuid=3),
    )
    listed = [node.path.rpartition("/")[2] for node in tree_of(bucket).children(f"jsonl/{ORDERS}")]
    assert listed == ["1.jsonl", "2.jsonl"], "a folder of tables has each message once"
    first, second = bucket.catalog.copies_of("public/default/persistent/orders", 2)
    texts = {f"{'0' * 8}-0000-0000-0000-{'0' * 11}{n}": text for n, text in ((2, "one"), (3, "two"))}
    for name, one in (("2.jsonl", first), (f"2@{second.uuid}.jsonl", second)):
        assert values_in(bucket, f"jsonl/{ORDERS}/{name}") == [texts[one.uuid], "part 0 part 1 "]


def test_copies_that_contradict_each_other_are_no_table(opened: Callable[..., Bucket]) -> None:
    bucket = opened(
        offload([message(0)], 1, uuid=1), offload([message(1)], 2, uuid=2), offload([message(1)] * 2, 2, uuid=3)
    )
    for kind in RENDERED_KINDS:
        one, other = tree_of(bucket).children(f"{kind}/{ORDERS}")
        assert (one.path, other.path) == (f"{kind}/{ORDERS}/1.{kind}", f"{kind}/{ORDERS}/2.{kind}")
        tree_of(bucket).open(one.path)
        with pytest.raises(MissingLedgerError, match="2"):
            tree_of(bucket).open(other.path)
    assert len(list(tree_of(bucket).children(f"entries/{ORDERS}"))) == 3


# When they are rendered.


def test_sizes_are_exact_once_a_file_was_rendered(opened: Callable[..., Bucket], renders: list[str]) -> None:
    bucket = opened(offload([message(0)], 1, uuid=1), offload([message(1)], 2, uuid=2))
    for kind in RENDERED_KINDS:
        path = f"{kind}/{ORDERS}/1.{kind}"
        assert tree_of(bucket).node(path).size is None
        size = tree_of(bucket).open(path).size
        again = opened()
        assert [node.size for node in tree_of(again).children(f"{kind}/{ORDERS}")] == [size, None]
        assert len(content_of(again, path)) == tree_of(again).node(path).size == size
    assert renders == list(RENDERED_KINDS)


def test_each_choice_has_a_file_of_its_own(opened: Callable[..., Bucket], renders: list[str]) -> None:
    opened(offload([message(0), in_transaction(1)]))
    path = f"jsonl/{ORDERS}/1.jsonl"
    for _ in range(2):
        assert len(values_in(opened(), path)) == 1
        assert len(values_in(opened(transactions="all"), path)) == 2
        assert content_of(opened(columns=["entry_id"]), path) == b'{"entry_id":0}\n'
    assert len(renders) == 3


def test_a_transaction_that_ends_in_a_later_ledger_appears_with_it(
    opened: Callable[..., Bucket], renders: list[str]
) -> None:
    path = f"jsonl/{ORDERS}/1.jsonl"
    bucket = opened(offload([message(0, b"a"), in_transaction(1)], 1, uuid=1))
    assert values_in(bucket, path) == values_in(opened(), path) == ["a"]
    assert renders == ["jsonl"]
    held = tree_of(bucket).open(path)
    opened(offload([message(2), commit()], 2, uuid=2))
    bucket.refresh()
    assert tree_of(bucket).node(path).size is None
    assert values_in(bucket, path) == values_in(opened(), path) == ["a", "value"]
    assert renders == ["jsonl"] * 2
    assert len(held.read(0, held.size).splitlines()) == 1
    # Now that its outcome is known, it does not matter what comes.
    bucket = opened(offload([message(3)], 3, uuid=3))
    assert values_in(bucket, path) == ["a", "value"]
    assert renders == ["jsonl"] * 2


def test_a_chunk_that_comes_later_makes_its_message_whole(opened: Callable[..., Bucket]) -> None:
    path = f"jsonl/{ORDERS}/2.jsonl"
    assert values_in(opened(offload([chunk(1), message(1, b"b")], 2, uuid=2)), path) == ["b"]
    bucket = opened(offload([chunk(0)], 1, uuid=1))
    assert values_in(bucket, path) == ["part 0 part 1 ", "b"]


def test_what_is_final_is_not_rendered_again_when_the_topic_grows(
    opened: Callable[..., Bucket], renders: list[str]
) -> None:
    path = f"parquet/{ORDERS}/1.parquet"
    content = content_of(opened(offload([message(0)], 1, uuid=1)), path)
    assert content_of(opened(offload([message(1)], 2, uuid=2)), path) == content
    assert renders == ["parquet"]


def test_another_version_of_the_object_is_another_file(opened: Callable[..., Bucket]) -> None:
    path = f"jsonl/{ORDERS}/1.jsonl"
    bucket = opened(offload([message(0, b"one")]))
    assert values_in(bucket, path) == ["one"]
    opened(offload([message(0, b"two")]))
    bucket.refresh()
    assert values_in(bucket, path) == ["two"]


# Who carries them.


def test_a_pickled_bucket_keeps_its_options(opened: Callable[..., Bucket], cache: str) -> None:
    bucket = pickle.loads(pickle.dumps(opened(offload([message(0), in_transaction(1)]), transactions="all")))
    assert len(values_in(bucket, f"jsonl/{ORDERS}/1.jsonl")) == 2
    assert len(kept_in(cache)) == 1


def test_an_open_file_sends_to_any_descriptor_and_survives_its_removal(
    golden_url: str, cache: str, tmp_path: Path
) -> None:
    opened = tree_of(open_bucket(golden_url, cache_dir=cache)).open("jsonl/public/golden/plain/26.jsonl")
    for path in Path(cache, "files").glob("*.file"):
        path.unlink()
    whole = opened.read(0, opened.size)
    for mode in ("wb", "ab"):
        with (tmp_path / "out").open(mode) as out:
            opened.send(0, opened.size, out.fileno())
    assert (tmp_path / "out").read_bytes() == whole * 2
    assert opened.read(opened.size - 3, opened.size) == whole[-3:]


def test_topics_that_hold_no_messages_say_so(opened: Callable[..., Bucket]) -> None:
    bucket = opened(offload([b"no message"], 1, uuid=1, name="cursors/x"), offload([b"x"], 2, uuid=2, name=None))
    for path in ("jsonl/_other/cursors%2Fx/1.jsonl", "jsonl/_unknown/2.jsonl"):
        with pytest.raises(LedgerfsError, match=path):
            tree_of(bucket).open(path)


def test_descriptions_are_kept_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerfs.vfs.views.info._KEPT_BYTES", 40_000)
    many_blocks = [offload([b"x" * 900] * 80, i, uuid=i, block_size=1100) for i in range(1, 6)]
    larger = offload([b"x" * 900] * 400, 9, uuid=9, block_size=1100)
    bucket = open_bucket(put_in_folder(tmp_path, *many_blocks, larger))
    view = InfoView()
    opened = {one: view.open(bucket.ledger(one)) for one in (1, 2, 3, 4, 5, 9)}
    assert opened[9].size > 40_000
    kept = [one for one in opened if view.size(bucket.ledger(one).ref) is not None]
    assert kept
    assert kept[-1] == 5
    assert sum(opened[one].size for one in kept) <= 40_000

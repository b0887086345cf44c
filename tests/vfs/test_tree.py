"""The tree of paths: what is where, and what is nowhere."""

import json
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import IsADirectoryPathError, NotADirectoryPathError, NotFoundError
from ledgerfs.vfs.tree import Tree, tree_of
from tests.support.ledgers import offload, put_in_folder

ORDERS = "entries/public/default/orders"


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return open_bucket(
        put_in_folder(
            tmp_path,
            offload([b"a"] * 3, 9, uuid=1),
            offload([b"b"] * 2, 10, uuid=2),
            offload([b"b"] * 2, 10, uuid=3),
            offload([b"c"], 11, uuid=4, name="t/cluster/ns/persistent/caf%C3%A9+au+lait"),
            offload([b"d"], 12, uuid=5, name="cursors/of something"),
            offload([b"e"], 13, uuid=6, name=None),
            offload([b"f"], 14, uuid=7, name="../../persistent/.."),
            offload([b"g"], 15, uuid=8, name="t/n/persistent/.."),
        )
    )


def names(tree: Tree, path: str) -> list[str]:
    return [node.path for node in tree.children(path)]


def test_each_level_lists_what_is_below_it(bucket: Bucket) -> None:
    tree = tree_of(bucket)
    assert names(tree, "") == ["arrow", "entries", "info", "jsonl", "parquet"]
    assert names(tree, "entries") == [
        "entries/%2E%2E",
        "entries/_other",
        "entries/_unknown",
        "entries/public",
        "entries/t",
    ]
    assert names(tree, "info/t") == ["info/t/cluster%2Fns", "info/t/n"]
    assert names(tree, "entries/t/cluster%2Fns/caf%C3%A9+au+lait") == [
        "entries/t/cluster%2Fns/caf%C3%A9+au+lait/11.entries"
    ]
    assert names(tree, "entries/_unknown") == ["entries/_unknown/13.entries"]


def test_names_that_are_no_topic_stay_inside_the_tree(bucket: Bucket) -> None:
    assert names(tree_of(bucket), "entries/_other") == ["entries/_other/cursors%2Fof%20something"]
    assert names(tree_of(bucket), "entries/%2E%2E") == ["entries/%2E%2E/%2E%2E"]
    assert all(part not in {"", ".", ".."} for node in tree_of(bucket).walk("") for part in node.path.split("/"))
    assert names(tree_of(bucket), "entries/t/n") == ["entries/t/n/%2E%2E"]


def test_copies_stand_beside_the_ledger_by_their_uuid(bucket: Bucket) -> None:
    first, copy = bucket.catalog.copies_of("public/default/persistent/orders", 10)
    assert names(tree_of(bucket), ORDERS) == [
        f"{ORDERS}/9.entries",
        f"{ORDERS}/10.entries",
        f"{ORDERS}/10@{copy.uuid}.entries",
    ]
    assert tree_of(bucket).node(f"{ORDERS}/10@{copy.uuid}.entries").ref == copy
    with pytest.raises(NotFoundError):
        tree_of(bucket).node(f"{ORDERS}/10@{first.uuid}.entries")


def test_a_node_is_found_at_the_path_that_a_listing_gave(bucket: Bucket) -> None:
    walked = list(tree_of(bucket).walk(""))
    assert len(walked) > 30
    assert all(tree_of(bucket).node(node.path) == node for node in walked)


def test_what_is_not_there_is_not_found(bucket: Bucket) -> None:
    for path in (
        "nothing",
        "entries/nobody",
        "entries/..",
        "entries/public/default/9.entries",
        "info/public/default/orders/9.entries",
        f"{ORDERS}/8.entries",
        f"{ORDERS}/9.json",
        f"{ORDERS}/9",
        f"{ORDERS}/09.entries",
        f"{ORDERS}/-9.entries",
        f"{ORDERS}/99999999999999999999.entries",
        f"{ORDERS}/9999999999999999999.entries",
        f"{ORDERS}/9.entries/x",
    ):
        with pytest.raises(NotFoundError) as caught:
            pytest.fail(f"{path}: {tree_of(bucket).node(path)}")
        assert caught.value.errno == 2, path


def test_files_and_directories_are_not_mixed_up(bucket: Bucket) -> None:
    with pytest.raises(IsADirectoryPathError):
        tree_of(bucket).open(ORDERS)
    with pytest.raises(NotADirectoryPathError):
        list(tree_of(bucket).children(f"{ORDERS}/9.entries"))


def test_sizes_are_exact_or_not_reported(bucket: Bucket) -> None:
    path = "info/public/default/orders/9.json"
    assert tree_of(bucket).node(f"{ORDERS}/9.entries").size == 3 * 13
    assert tree_of(bucket).node(path).size is None
    opened = tree_of(bucket).open(path)
    document = opened.read(0, opened.size)
    assert len(document) == opened.size == tree_of(bucket).node(path).size
    assert json.loads(document)["blocks"] == [{"first_entry": 0, "part": 1, "offset": 0, "length": 128 + 39}]

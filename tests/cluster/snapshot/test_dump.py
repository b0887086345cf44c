"""Dumps: what is in them, and files that are none."""

import contextlib
import json
import stat
import time
from io import BytesIO
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import CorruptObjectError, NotFoundError, ObjectExistsError
from ledgerfs_cluster.snapshot.answers import CursorAnswer, LastEnd, LedgerEndAnswer, SchemaAnswer
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader, DumpWriter, Record, read_dump
from ledgerfs_cluster.snapshot.surveying import survey_dump
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.living_clusters import dumped, same, surveyed
from tests.support.each import for_each


@pytest.fixture(name="cluster")
def _cluster(cluster: LiveCluster) -> LiveCluster:
    for name in ("a", "b"):
        first = cluster.write_ledger(f"public/default/{name}", messages(5))
        cluster.write_ledger(f"public/default/{name}", messages(3))
        cluster.offload(f"public/default/{name}", first)
        cluster.add_cursor(f"public/default/{name}", "s", (first, 3), stale=(first, 1))
    cluster.set_policies("public/default", retention_policies={"retentionTimeInMinutes": 1, "retentionSizeInMB": 2})
    cluster.set_bundles("public/default", "0x00000000", "0xffffffff")
    cluster.own_bundle("public/default", "0x00000000_0xffffffff")
    return cluster


def test_a_survey_of_a_dump_is_that_of_the_cluster(cluster: LiveCluster, tmp_path: Path) -> None:
    path, before_ms = tmp_path / "x.json.zst", time.time_ns() // 1_000_000
    dumped(cluster, path)
    after_ms = time.time_ns() // 1_000_000
    found = survey_dump(path, lambda *_: None)
    same(found, surveyed(cluster))
    assert found.topic_table["last_end"].tolist() == [LastEnd.OPEN] * 2
    assert not found.cursors["is_stale"].any()
    assert before_ms <= found.began_ms <= found.read_ms <= after_ms


def test_a_dump_is_json_that_only_its_owner_can_read(cluster: LiveCluster, tmp_path: Path) -> None:
    path = tmp_path / "x.json.zst"
    dumped(cluster, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("rb") as file:
        reported = json.load(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
    nodes = {key: value for key, value in reported.items() if key.startswith("/")}
    kept = ("/ledgers/00", "/managed-ledgers/public/", "/schemas/", "/namespace/", "/admin/policies/")
    inner = {path for path in cluster.nodes if path.startswith(kept)}
    inner -= {
        path for path in inner if path.startswith(("/ledgers/00", "/managed-ledgers")) and not cluster.nodes[path]
    }
    assert inner <= set(nodes)
    assert "/ledgers/INSTANCEID" in nodes
    assert {f"/ledgers/cookies/{one.address}" for one in cluster.bookies} <= set(nodes)


def test_a_file_that_is_there_is_never_overwritten(cluster: LiveCluster, tmp_path: Path) -> None:
    path = tmp_path / "x.json.zst"
    path.write_bytes(b"mine")
    with pytest.raises(ObjectExistsError):
        dumped(cluster, path)
    assert path.read_bytes() == b"mine"


@pytest.mark.parametrize("step", ["reading ledgers", "reading topics", "reading from bookies"])
def test_a_dump_that_is_interrupted_leaves_no_file(cluster: LiveCluster, tmp_path: Path, step: str) -> None:
    def progress(what: str, done: int, total: int | None) -> None:
        if what == step:
            raise KeyboardInterrupt

    folder = tmp_path / "dumps"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        dumped(cluster, folder / "x.json.zst", progress)
    assert not list(folder.iterdir())


RECORDS: list[Record] = [
    DumpHeader("pulsar+zk://zk:2181", "/ledgers", 1),
    Node("/ledgers/00/0000/L0001", b"\0\xff", 1, 2, 3, 0),
    Node('/managed-ledgers/t/n/persistent/"\u20ac\n', b"", 1, 2, 3, 4),
    LedgerEndAnswer(7, LastEnd.OPEN, 3, 4, None),
    LedgerEndAnswer(8, LastEnd.UNKNOWN, trouble="away"),
    CursorAnswer("/managed-ledgers/t/n/persistent/x/s", b"\1\2"),
    CursorAnswer("/managed-ledgers/t/n/persistent/x/t", None, "gone"),
    SchemaAnswer("public/default/€ b", 7, b"\0\1"),
    SchemaAnswer("public/default/x", 1 << 40, None, "gone"),
    DumpEnd(2, 9),
]


def stored(records: list[Record]) -> bytes:
    file = BytesIO()
    writer = DumpWriter(file)
    for record in records:
        writer.write(record)
        writer.flush()
    return file.getvalue()


def test_records_come_back(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(stored(RECORDS))
    assert list(read_dump(tmp_path / "x")) == RECORDS


def test_a_dump_that_is_not_finished_is_not_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for count in range(len(RECORDS)):
        path.write_bytes(stored(RECORDS[:count]))
        with pytest.raises(CorruptObjectError, match="the dump is incomplete"):
            list(read_dump(path))
    with pytest.raises(NotFoundError):
        list(read_dump(tmp_path / "none"))


@for_each(
    "text",
    [
        b"{}\n", b"[]\n", b'{"ledgerfs": 3\n', b'{"ledgerfs": {"format": "cluster-dump", "version": 2}\n', b'{"a": {}\n',
        b'{"/ledgers/LAYOUT": "Mg=="}\n', b"[" * 100_000 + b"\n",
    ],
)  # fmt: skip
def test_what_is_no_dump_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "x"
    for data in (text, zstandard.ZstdCompressor().compress(text)):
        path.write_bytes(data)
        with pytest.raises(CorruptObjectError, match=str(path)):
            list(read_dump(path))


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_damage_or_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, place: int, change: int
) -> None:
    data = bytearray(stored(RECORDS))
    data[place % len(data)] ^= change
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(data)
    with contextlib.suppress(CorruptObjectError):
        assert list(read_dump(path)) == RECORDS


def test_a_line_after_the_end_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(stored(RECORDS) + stored(RECORDS[1:2]))
    with pytest.raises(CorruptObjectError, match="after its end"):
        list(read_dump(path))


@for_each("name", ["created_ms", "changed_ms", "version", "children"])
def test_a_number_that_no_node_has_is_damage(tmp_path: Path, name: str) -> None:
    path = tmp_path / "dump"
    times = {"created_ms": 1, "changed_ms": 1, "version": 1, "children": 0, name: 1 << 70}
    lines = [
        '{"ledgerfs": {"format":"cluster-dump","version":1,"cluster":"c","ledgers_path":"/ledgers","began_ms":1}',
        ',"/ledgers/00/0000/L0001": ' + json.dumps({"data": "", **times}),
        ',"end": {"nodes":1,"ended_ms":2}',
        "}",
    ]
    path.write_bytes(zstandard.ZstdCompressor().compress("\n".join([*lines, ""]).encode()))
    with pytest.raises(CorruptObjectError, match="line 2 of the dump is invalid"):
        list(read_dump(path))


AT = ("reading ledgers", "reading topics", "reading schemas", "reading bookies")
"""Parts of a walk, at whose ends something happens."""


@pytest.mark.parametrize("at", AT)
def test_what_is_made_while_a_dump_is_is_in_it(cluster: LiveCluster, tmp_path: Path, at: str) -> None:
    """Every ledger that a list of the dump names has its node there, and a topic that was made meanwhile is there with its cursor."""
    made: list[int] = []

    def progress(what: str, done: int, total: int | None) -> None:
        if what == at and not made:
            made.append(cluster.roll_over("public/default/a"))
            made.append(cluster.write_ledger("public/default/late", messages(4)))
            cluster.add_cursor("public/default/late", "s", (made[1], 2), stale=(made[1], 1))

    path = tmp_path / "x.json.zst"
    dumped(cluster, path, progress)
    found = survey_dump(path, lambda *_: None)
    assert "public/default/persistent/late" in found.topics
    listed = set(found.listed["ledger_id"].tolist())
    assert made[1] in listed
    # A list that was read before keeps telling of before.
    assert (made[0] in listed) == (at == "reading ledgers")
    assert listed <= set(found.ledgers["ledger_id"].tolist())
    assert set(found.cursors["cursors_ledger"].tolist()) <= set(found.ledgers["ledger_id"].tolist())
    assert [found.cursor_names[one] for one in found.cursors["name"].tolist()] == ["s"] * 3
    assert not found.cursors["is_stale"].any()
    nodes = [record.path for record in read_dump(path) if isinstance(record, Node)]
    assert len(set(nodes)) == len(nodes)
    assert not found.damaged

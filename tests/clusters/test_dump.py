"""Dumps: what is in them, going on after a death, and files that are none."""

import contextlib
import json
import os
import re
import signal
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.clusters.answers import CursorAnswer, LastEnd, LedgerEndAnswer, SchemaAnswer
from ledgerfs.clusters.dump_file import DumpEnd, DumpHeader, DumpWriter, PartDone, Record, read_dump, read_partial
from ledgerfs.clusters.dumping import dump_cluster, partial_path
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.surveying import survey_dump
from ledgerfs.dialects.newest_entries import NewestEntries
from ledgerfs.errors import CorruptObjectError, InvalidOptionError, NotFoundError, ObjectExistsError
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.storage.zookeeper.node import Node
from tests.support.children import started
from tests.support.commands import LEDGERFS
from tests.support.each import for_each
from tests.support.invoked import run
from tests.support.live_clusters import LiveCluster, messages
from tests.support.living_clusters import living, surveyed
from tests.support.sessions import PATIENT_S
from tests.support.waiting import wait_until
from tests.support.zookeeper import MULTI_READ


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path / "cluster") as made:
        for name in ("a", "b"):
            first = made.write_ledger(f"public/default/{name}", messages(5))
            made.write_ledger(f"public/default/{name}", messages(3))
            made.offload(f"public/default/{name}", first)
            made.add_cursor(f"public/default/{name}", "s", (first, 3), stale=(first, 1))
        made.set_policies("public/default", retention_policies={"retentionTimeInMinutes": 1, "retentionSizeInMB": 2})
        made.set_bundles("public/default", "0x00000000", "0xffffffff")
        made.own_bundle("public/default", "0x00000000_0xffffffff")
        yield made
        assert made.not_reads() == []


def dumped(cluster: LiveCluster, path: Path) -> int:
    with living(cluster) as one:
        return dump_cluster(one, NewestEntries(one.reading), path, lambda *_: None).nodes_before


def same(one: Survey, other: Survey) -> None:
    for field in fields(Survey):
        if field.name in {"source", "read_ms", "began_ms"}:
            continue
        value, expected = getattr(one, field.name), getattr(other, field.name)
        if isinstance(value, np.ndarray):
            assert value.tolist() == expected.tolist(), field.name
        else:
            assert value == expected, field.name


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
    assert not partial_path(path).exists()
    with path.open("rb") as file:
        told = json.load(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
    nodes = {key: value for key, value in told.items() if key.startswith("/")}
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


class Interrupted(BaseException):
    pass


def interrupt_after(count: int):
    left = [count]

    def progress(what: str, done: int, total: int | None) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted

    return progress


@for_each("steps", range(1, 8))
def test_a_dump_goes_on_where_it_was_interrupted(cluster: LiveCluster, tmp_path: Path, steps: int) -> None:
    whole, path = tmp_path / "whole.json.zst", tmp_path / f"{steps}.json.zst"
    if not whole.exists():
        dumped(cluster, whole)
    with living(cluster) as one, pytest.raises(Interrupted):
        dump_cluster(one, NewestEntries(one.reading), path, interrupt_after(steps))
    assert not path.exists()
    assert partial_path(path).exists()
    cluster.zookeeper.asked.clear()
    before = dumped(cluster, path)
    assert before > 0
    same(survey_dump(path, lambda *_: None), survey_dump(whole, lambda *_: None))
    nodes = [record for record in read_dump(path) if isinstance(record, Node)]
    assert len({node.path for node in nodes}) == len(nodes)
    assert sum(isinstance(record, DumpHeader) for record in read_dump(path)) == 1


def test_a_dump_goes_on_after_its_process_was_killed(cluster: LiveCluster, tmp_path: Path) -> None:
    """What was written to the last whole frame counts; the rest, cut at any byte, is read again."""
    path, whole = tmp_path / "x.json.zst", tmp_path / "whole.json.zst"
    dumped(cluster, whole)
    records = list(read_dump(whole))
    stored = BytesIO()
    writer = DumpWriter(stored)
    for record in records[:4]:
        writer.write(record)
    writer.flush()
    kept = len(stored.getvalue())
    for record in records[4:9]:
        writer.write(record)
    writer.flush()
    for cut in (kept, kept + 1, kept + 7, len(stored.getvalue()) - 1):
        path.unlink(missing_ok=True)
        partial_path(path).write_bytes(stored.getvalue()[:cut])
        assert dumped(cluster, path) == 3
        same(survey_dump(path, lambda *_: None), survey_dump(whole, lambda *_: None))


@pytest.mark.process
@pytest.mark.parametrize("ends_by", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_is_ended_leaves_what_the_next_one_goes_on_with(
    cluster: LiveCluster, tmp_path: Path, ends_by: signal.Signals
) -> None:
    path, paths = tmp_path / "x.json.zst", [f"/ledgers/00/0001/L{number:04d}" for number in range(400)]
    for one in paths:
        cluster.zookeeper.set(one, b"BookieMetadataFormatVersion\t3\n" + os.urandom(9000))
    goes_on = threading.Event()

    def held_in_the_middle(body: bytes) -> bytes:
        if sum(cluster.zookeeper.asked[one] for one in paths) > 250:
            goes_on.wait(300)
        return struct.pack("!i", len(body)) + body

    cluster.zookeeper.instead[MULTI_READ] = held_in_the_middle
    options = ("cluster", "dump", cluster.url, str(path), "--no-bookies", "-o", f"timeout_s={PATIENT_S}")
    with started([LEDGERFS, *options], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        partial = partial_path(path)
        wait_until(
            lambda: process.poll() is not None or (partial.exists() and partial.stat().st_size > 500_000),
            300,
            lambda: "nothing was written",
        )
        assert process.poll() is None, process.stderr.read()
        process.send_signal(ends_by)
        told = process.communicate()[1].decode()
        if ends_by is signal.SIGINT:
            assert process.returncode == 130
            assert f"{partial}: what was read so far" in told
            assert "Traceback" not in told
    goes_on.set()
    assert not path.exists()
    done = run(*options).stderr.decode()
    assert re.search(r"[1-9][0-9]* of its nodes are of the run that began", done), done
    assert set(paths) <= {record.path for record in read_dump(path) if isinstance(record, Node)}


def test_only_one_process_writes_a_dump(cluster: LiveCluster, tmp_path: Path) -> None:
    path = tmp_path / "x.json.zst"
    found: list[str] = []

    def another(what: str, done: int, total: int | None) -> None:
        if not found:
            with pytest.raises(InvalidOptionError, match="another process") as caught:
                dumped(cluster, path)
            found.append(str(caught.value))

    with living(cluster) as one:
        dump_cluster(one, None, path, another)
    assert found
    assert path.exists()


def test_what_another_cluster_left_is_not_gone_on_with(cluster: LiveCluster, tmp_path: Path) -> None:
    path = tmp_path / "x.json.zst"
    with partial_path(path).open("wb") as file:
        writer = DumpWriter(file)
        writer.write(DumpHeader("pulsar+zk://elsewhere:2181", "/ledgers", 5))
        writer.flush()
    before = partial_path(path).read_bytes()
    with pytest.raises(InvalidOptionError, match="elsewhere"):
        dumped(cluster, path)
    assert partial_path(path).read_bytes() == before


RECORDS: list[Record] = [
    DumpHeader("pulsar+zk://zk:2181", "/ledgers", 1),
    Node("/ledgers/00/0000/L0001", b"\0\xff", 1, 2, 3, 0),
    PartDone("ledgers", 4),
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
    file = BytesIO(stored(RECORDS[:-1]) + stored(RECORDS)[-9:-4])
    assert list(read_partial(file, "x")) == RECORDS[:-1]
    assert file.tell() == len(stored(RECORDS[:-1]))


@for_each("share", [0.0, 0.5, 1.0])
def test_an_interruption_while_lines_are_written_leaves_none_twice(share: float) -> None:
    class File(BytesIO):
        is_interrupted = False

        def write(self, data) -> int:
            if self.is_interrupted:
                return super().write(data)
            self.is_interrupted = True
            super().write(data[: int(len(data) * share)])
            raise Interrupted

    file = File()
    writer = DumpWriter(file)
    writer.write(RECORDS[0])
    with pytest.raises(Interrupted):
        writer.flush()
    writer.write(RECORDS[1])
    writer.flush()
    file.seek(0)
    found = []
    try:
        found = list(read_partial(file, "x"))
    except CorruptObjectError:
        assert share == 0
    assert found == (RECORDS[:2] if share == 1 else [])


def test_a_dump_that_is_not_finished_is_not_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for count in range(len(RECORDS)):
        path.write_bytes(stored(RECORDS[:count]))
        with pytest.raises(CorruptObjectError, match="not finished"):
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
    with pytest.raises(CorruptObjectError, match="line 2 is none of a dump"):
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
    with living(cluster) as one:
        dump_cluster(one, NewestEntries(one.reading), path, progress)
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


def test_what_is_made_before_a_dump_goes_on_is_in_it_once(cluster: LiveCluster, tmp_path: Path) -> None:
    """A first run ends after the topics, a second one after what came meanwhile; the third one reads neither again."""
    path = tmp_path / "x.json.zst"

    def until(end: str):
        def progress(what: str, done: int, total: int | None) -> None:
            if what == end:
                raise Interrupted

        return progress

    for end in ("reading schemas", "asking bookies"):
        with living(cluster) as one, pytest.raises(Interrupted):
            dump_cluster(one, NewestEntries(one.reading), path, until(end))
        cluster.write_ledger(f"public/default/{end.split()[-1]}", messages(2))
    dumped(cluster, path)
    found = survey_dump(path, lambda *_: None)
    names = [name.rpartition("/")[2] for name in found.topics]
    assert sorted(names) == ["a", "b", "bookies", "schemas"]
    nodes = [record.path for record in read_dump(path) if isinstance(record, Node)]
    assert len(set(nodes)) == len(nodes)
    assert set(found.listed["ledger_id"].tolist()) <= set(found.ledgers["ledger_id"].tolist())


def test_ledgers_that_are_deleted_from_bookkeeper_are_not_asked_for(cluster: LiveCluster, tmp_path: Path) -> None:
    topic = "public/default/a"
    first = cluster.list_of(topic).ledgers[0].ledger_id
    cluster.delete_from_bookkeeper(first)
    dumped(cluster, tmp_path / "x")
    assert cluster.zookeeper.asked[ledger_path(first)] == 0

"""Records of the journal: what was built is read again, and nothing else is taken for a record."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError, InvalidOptionError, NotFoundError, RefusedLedgerError
from ledgerfs_cluster.offload.journal import (
    AGAIN_MS,
    ROOT,
    Journal,
    JournalRecord,
    RecordKind,
    mark,
    parse_record,
    parse_record_name,
    read_journal,
    undo,
)
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.live_clusters import LiveCluster
from tests.cluster.support.living_clusters import living
from tests.support.each import for_each

UUID = "00112233-4455-6677-8899-aabbccddeeff"
TIMES = (1_700_000_000_000, 1_700_003_600_000)
RECORD = JournalRecord(
    RecordKind.OBJECTS, 58, "public/default/persistent/orders", UUID, "s3://tier", "no list names it", 3, 1024, *TIMES
)
ORPHAN = replace(RECORD, kind=RecordKind.ORPHAN, uuid=None, bucket=None, managed_ledger=None)
ATTEMPT = JournalRecord.attempt("t/ns/persistent/x", 5, "s3://tier", 7, UUID)

records = st.builds(
    JournalRecord,
    st.sampled_from((RecordKind.OBJECTS, RecordKind.ATTEMPT)),
    st.integers(0, 2**63 - 1),
    st.sampled_from(("t/ns/persistent/x", "t/c/ns/persistent/x", "t/ns/persistent/a%2Fb")),
    st.just(UUID),
    st.just("s3://tier"),
    st.text(min_size=1, max_size=200),
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.just(0),
)


def node_of(data: bytes, path: str = RECORD.path, *, made_ms: int = 0) -> Node:
    return Node(path, data, made_ms, made_ms, 0, 0)


@given(records)
def test_what_was_built_is_read_again(record: JournalRecord) -> None:
    assert parse_record(node_of(record.build(), record.path)) == record
    assert parse_record_name(record.name) == (record.kind, record.ledger_id, record.uuid)


@for_each(
    ("name", "value"),
    [
        ("kind", "other"),
        ("kind", ["objects"]),
        ("ledger_id", -1),
        ("ledger_id", 58.5),
        ("ledger_id", 59),
        ("managed_ledger", ""),
        ("managed_ledger", 1),
        ("managed_ledger", "\ud800"),
        ("managed_ledger", "t/ns/persistent/\ud800"),
        ("managed_ledger", "t/../persistent/x"),
        ("managed_ledger", "t/ns/x"),
        ("uuid", "00112233"),
        ("uuid", UUID.upper()),
        ("uuid", None),
        ("bucket", {}),
        ("bucket", None),
        ("reason", ""),
        ("reason", "x" * 5000),
        ("ledger_version", -2),
        ("ledger_version", 2**31),
        ("size", "1"),
        ("noted_ms", None),
        ("noted_ms", True),
        ("noted_ms", float("inf")),
        ("due_ms", -1),
        ("due_ms", 2**63),
    ],
)
def test_what_is_not_a_record_is_refused(name: str, value: Any) -> None:
    reported = json.loads(RECORD.build()) | {name: value}
    with pytest.raises(CorruptMetadataError) as raised:
        parse_record(node_of(json.dumps(reported).encode()))
    assert raised.value.key == RECORD.path


@for_each("data", [b"", b"{", b"[]", b"\xff", b"[" * 60_000, b" " * 70_000, b"null", b'{"ledger_id": NaN}'])
def test_bytes_that_are_not_a_record_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptMetadataError):
        parse_record(node_of(data))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(CorruptMetadataError):
        parse_record(node_of(data))


@for_each(
    "record", [replace(RECORD, bucket=None), replace(ORPHAN, bucket="s3://tier"), replace(ATTEMPT, managed_ledger=None)]
)
def test_what_could_not_be_read_again_is_not_built(record: JournalRecord) -> None:
    with pytest.raises(InvalidOptionError, match="invalid journal record"):
        record.build()


@for_each(
    "name",
    [
        *("", "orphan", "orphan-", "other-1", "orphan-01", "orphan--1", "orphan-1-", f"objects-1-{UUID}x"),
        "orphan-9999999999999999999",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(CorruptMetadataError):
        parse_record_name(name)


def read(folder: Path, **records: bytes) -> Journal:
    with LiveCluster(folder) as cluster:
        for name, data in records.items():
            cluster.zookeeper.set(f"{ROOT}/{name}", data, created_ms=1)
        with living(cluster) as found:
            journal = read_journal(found.nodes)
        assert cluster.not_reads() == []
        return journal


def test_a_cluster_without_records_has_none(tmp_path: Path) -> None:
    assert read(tmp_path) == Journal()


def test_records_are_read_also_with_keys_of_a_later_version_and_what_is_damaged_is_named(tmp_path: Path) -> None:
    later = json.dumps(json.loads(ATTEMPT.build()) | {"of_a_later_version": [1]}).encode()
    found = read(tmp_path, **{ATTEMPT.name: later, ORPHAN.name: ORPHAN.build(), "orphan-9": ORPHAN.build(), "x": b""})
    assert (found.attempts, found.marked) == ((ATTEMPT,), (ORPHAN,))
    assert set(found.unreadable) == {f"{ROOT}/orphan-9", f"{ROOT}/x"}


def test_a_record_of_a_clock_that_was_behind_has_its_whole_grace() -> None:
    grace_ms, made_ms = RECORD.due_ms - RECORD.noted_ms, TIMES[0] + 5
    found = parse_record(node_of(RECORD.build(), made_ms=made_ms))
    assert found == replace(RECORD, noted_ms=made_ms, due_ms=made_ms + grace_ms)


def test_an_attempt_is_cleaned_again_after_its_record_was_set_by_whichever_clock() -> None:
    cleaned = replace(ATTEMPT, due_ms=8)
    now_ms = time.time_ns() // 1_000_000
    assert parse_record(node_of(cleaned.build(), ATTEMPT.path, made_ms=now_ms)).due_ms == now_ms + AGAIN_MS


@pytest.fixture(name="lock")
def _lock(tmp_path: Path) -> Iterator[ClusterLock]:
    with LiveCluster(tmp_path) as cluster:
        cluster.zookeeper.takes_writes = True
        with living(cluster) as found, ClusterLock.take(found.nodes.settings, b"{}") as lock:
            yield lock


def test_what_is_marked_is_taken_back_and_an_attempt_is_not(lock: ClusterLock) -> None:
    mark(lock, [ORPHAN, ATTEMPT])
    assert undo(lock, ORPHAN.name) is not None
    assert read_journal(lock.newest()).marked == ()
    with pytest.raises(NotFoundError):
        undo(lock, ORPHAN.name)
    with pytest.raises(RefusedLedgerError, match="only marks for deletion can be undone"):
        undo(lock, ATTEMPT.name)
    assert len(read_journal(lock.newest()).attempts) == 1

"""What a dump tells of settings, partitions and schemas; what is damaged is the trouble of its owner alone."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.stored_schema import StoredVersion
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster, DumpedSettings, read_dumped
from ledgerfs_cluster.recovery.report import TopicRecovery
from ledgerfs_cluster.recovery.settings.partitions import MOST_INFERRED, counts_in_new_cluster
from ledgerfs_cluster.recovery.settings.schema_plan import known_versions
from ledgerfs_cluster.snapshot.answers import CursorAnswer, SchemaAnswer, TopicPoliciesAnswer
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader, DumpWriter, Record, read_dump
from ledgerfs_cluster.zookeeper.node import Node
from tests.cluster.support.encoders import build_locator, build_stored_schema
from tests.support.each import for_each

NAME, TOPIC = "shop/eu/or+ders", "persistent://shop/eu/or ders-partition-2"


def node(path: str, value: Any) -> Node:
    return Node(path, value if isinstance(value, bytes) else json.dumps(value).encode(), 0, 0, 0, 0)


def test_one_pass_takes_what_is_about_settings(tmp_path: Path) -> None:
    answer = TopicPoliciesAnswer("shop/eu", {"shop/eu/persistent/a": {"message_ttl_in_seconds": 3}})
    schema = SchemaAnswer(NAME, 0, b"x")
    records: list[Record] = [
        DumpHeader("pulsar+zk://old:2181", "/ledgers", 1),
        node("/ledgers/LAYOUT", b"x"),
        node("/admin/policies/shop", {"adminRoles": ["boss"]}),
        node("/admin/policies/shop/eu", {"message_ttl_in_seconds": 5}),
        node("/admin/local-policies/shop/eu", {"bookieAffinityGroup": {}}),
        node("/admin/partitioned-topics/shop/eu/persistent/p", {"partitions": 4}),
        node("/schemas/shop", b""),
        node(f"/schemas/{NAME}", b"locator"),
        CursorAnswer("/managed-ledgers/x", None, "lost"),
        answer,
        schema,
        DumpEnd(7, 2),
    ]
    with (tmp_path / "dump").open("wb") as file:
        writer = DumpWriter(file)
        for record in records:
            writer.write(record)
        writer.flush()
    found = read_dumped(lambda: read_dump(tmp_path / "dump")).settings
    assert found.policies("shop") == {"adminRoles": ["boss"]}
    assert found.policies("shop/eu") == {"message_ttl_in_seconds": 5}
    assert found.local_policies("shop/eu") == {"bookieAffinityGroup": {}}
    assert found.partitions("shop/eu/persistent/p") == 4
    assert (found.topic_policies, found.locators, found.schemas) == (
        {"shop/eu": answer},
        {NAME: b"locator"},
        {NAME: [schema]},
    )
    assert "/ledgers/LAYOUT" not in found.nodes


def partitioned(**counts: Any) -> DumpedSettings:
    return DumpedSettings(
        {
            f"/admin/partitioned-topics/shop/eu/persistent/{name}": value
            if isinstance(value, bytes)
            else json.dumps({"partitions": value}).encode()
            for name, value in counts.items()
        }
    )


def counted(*names: str, settings: DumpedSettings | None = None) -> dict[str, int]:
    dump = DumpedCluster(0, {}, {}, {}, settings or DumpedSettings(), {})
    plans = [TopicRecovery(f"shop/eu/persistent/{name}", f"shop/eu/persistent/{name}") for name in names]
    found = counts_in_new_cluster(plans, dump)
    return {name.removeprefix("shop/eu/persistent/"): count for name, count in found.items()}


def test_partitions_are_as_many_as_the_dump_or_the_names_tell() -> None:
    assert counted("a", "p-partition-0", "p-partition-2") == {"p": 3}
    assert counted("a", "p-partition-0", settings=partitioned(p=8, q=2)) == {"p": 8}
    # Partitions were added since the dump.
    assert counted("p-partition-9", settings=partitioned(p=8)) == {"p": 10}
    assert counted("p", settings=partitioned(p=8)) == {}
    assert counted("p-partition-01", "p-partition-x") == {}


def test_a_number_beyond_all_reason_makes_no_partitions() -> None:
    assert counted(f"p-partition-{MOST_INFERRED}", "p-partition-1", f"q-partition-{2**31 - 1}") == {"p": 2}
    assert counted(f"p-partition-{MOST_INFERRED + 4}", settings=partitioned(p=MOST_INFERRED + 5)) == {
        "p": MOST_INFERRED + 5
    }


@for_each(
    "damaged",
    [
        b"{",
        b"[]",
        b'{"partitions": "3"}',
        b'{"partitions": true}',
        b'{"partitions": -1}',
        b'{"partitions": 4294967296}',
    ],
)
def test_a_damaged_count_is_none(damaged: bytes) -> None:
    settings = partitioned(p=damaged)
    with pytest.raises(CorruptMetadataError):
        settings.partitions("shop/eu/persistent/p")
    assert counted("p-partition-3", settings=settings) == {"p": 4}


A, B = SchemaInfo("AVRO", b'"long"', {"k": "v"}), SchemaInfo("JSON", b'"string"')


class Saved:
    """A place of saved schemas."""

    source = "here"

    def __init__(self, *versions: SchemaVersion) -> None:
        self._versions = versions

    def versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        return self._versions

    def version(self, topic: str, number: int) -> tuple[SchemaVersion, ...]:
        return tuple(one for one in self._versions if one.version == number)


def dumped(*schemas: SchemaInfo | None, lost: tuple[int, ...] = (), damaged: tuple[int, ...] = ()) -> DumpedSettings:
    """Return a dump of a topic with versions from 0 on, None for a deletion; bookies have some no more."""
    stored, answers = [], []
    for number, schema in enumerate(schemas):
        version = SchemaVersion(number, schema or SchemaInfo("NONE"), 100 + number, is_deletion=schema is None)
        payload = build_stored_schema(NAME, version, tuple(stored)) if number not in damaged else b"\xff"
        stored.append(
            StoredVersion(number, Position(7 + number, 0), hashlib.sha256(schema.data).digest() if schema else b"")
        )
        answers.append(
            SchemaAnswer(
                NAME, number, None if number in lost else payload, "no bookie has it" if number in lost else None
            )
        )
    return DumpedSettings(locators={NAME: build_locator(stored)}, schemas={NAME: answers})


def test_a_dump_has_all_versions_deletions_too() -> None:
    found = known_versions(TOPIC, dumped(A, None, B), [])
    assert [(one.version, one.schema, one.is_deletion, one.timestamp_ms) for one in found] == [
        (0, A, False, 100),
        (1, SchemaInfo("NONE"), True, 101),
        (2, B, False, 102),
    ]


def test_what_the_dump_lost_is_taken_from_what_was_saved_if_it_is_the_same() -> None:
    saved = Saved(SchemaVersion(0, A, 100), SchemaVersion(1, B, 101))
    found = known_versions(TOPIC, dumped(A, B, A, lost=(0, 1)), [saved])
    assert [(one.version, one.schema) for one in found[:3]] == [(0, A), (1, B), (2, A)]
    other = Saved(SchemaVersion(0, B, 20), SchemaVersion(0, SchemaInfo("NONE"), None, is_deletion=True))
    found = known_versions(TOPIC, dumped(A, B, lost=(0,)), [other])
    assert found[0].schema.unreadable == "no bookie has it"
    # It is as old as what is beside it, so nothing of a time before stands in for it.
    assert found[0].timestamp_ms == 101


def test_a_deletion_whose_entry_is_lost_is_one() -> None:
    found = known_versions(TOPIC, dumped(A, None, B, lost=(1,)), [])
    assert (found[1].is_deletion, found[1].schema, found[1].timestamp_ms) == (True, SchemaInfo("NONE"), 102)


def test_damaged_entries_are_lost_ones() -> None:
    found = known_versions(TOPIC, dumped(A, B, damaged=(1,)), [])
    assert "not a protobuf message" in found[1].schema.unreadable
    settings = dumped(A, B)
    found = known_versions(TOPIC, DumpedSettings(locators=settings.locators), [])
    assert {one.schema.unreadable for one in found} == {"the dump has no entry of it"}
    assert {one.timestamp_ms for one in found} == {None}


def test_a_damaged_locator_is_an_error() -> None:
    with pytest.raises(CorruptMetadataError):
        known_versions(TOPIC, DumpedSettings(locators={NAME: b"\xff"}), [])


def test_all_places_of_saved_schemas_are_asked() -> None:
    one, other = Saved(SchemaVersion(0, A, 1)), Saved(SchemaVersion(1, B, 2))
    assert [found.version for found in known_versions(TOPIC, DumpedSettings(), [one, other])] == [0, 1]

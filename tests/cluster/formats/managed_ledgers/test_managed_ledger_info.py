"""Lists of ledgers: those of real brokers, any that can be built, and those that nobody should have written."""

import dataclasses
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    OffloadContext,
    Position,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import (
    ROOT,
    cursor_of,
    cursor_path,
    is_above_managed_ledgers,
    managed_ledger_of,
    managed_ledger_path,
)
from ledgerfs_cluster.formats.proto.metadata_pb2 import ManagedLedgerRecord
from tests.cluster.support.golden_nodes import GoldenNodes
from tests.cluster.support.ledger_lists import infos
from tests.support.each import for_each

MAX_INT64 = 2**63 - 1
KEY = "/managed-ledgers/public/default/persistent/orders"


def parse(data: bytes) -> ManagedLedgerInfo:
    return parse_managed_ledger_info(data, key=KEY)


def record(*ids: int) -> bytes:
    return ManagedLedgerRecord(
        ledger=[ManagedLedgerRecord.Ledger(ledger_id=one, entries=1, size=2, timestamp=3) for one in ids]
    ).SerializeToString()


@pytest.fixture(params=["pulsar-s3", "pulsar-filesystem", "pulsar-typed", "bookie-dbledger"])
def nodes(request: pytest.FixtureRequest) -> GoldenNodes:
    folders = {"pulsar-s3": "golden", "pulsar-filesystem": "golden_mapfiles", "pulsar-typed": "golden_typed"}
    if request.param not in folders:
        return GoldenNodes.of_dbledger()
    folder: Path = request.getfixturevalue(folders[request.param])
    return GoldenNodes.of(folder)


def test_golden_lists_are_what_brokers_say_of_them(nodes: GoldenNodes) -> None:
    lists = {topic_of(name): data for path, data in nodes.nodes.items() if (name := managed_ledger_of(path))}
    assert len(nodes.stats) >= 16
    for topic, stats in nodes.stats.items():
        info = parse(lists[topic])
        reported = [(one["ledgerId"], one["entries"], one["size"], one["offloaded"]) for one in stats["ledgers"]]
        found = [(one.ledger_id, one.entries, one.size, one.is_offloaded) for one in info.ledgers]
        # The open ledger is another one since the broker was started again.
        assert found[:-1] == reported[:-1]
        assert found[-1][1:] == reported[-1][1:] == (0, 0, False)
        assert sum(one.entries for one in info.ledgers) == stats["numberOfEntries"]
        assert sum(one.size for one in info.ledgers) == stats["totalSize"]
        assert all(one.closed_ms > 1_700_000_000_000 for one in info.ledgers[:-1])
        assert info.ledgers[-1].closed_ms == 0


def test_golden_lists_are_built_again_to_the_byte(nodes: GoldenNodes) -> None:
    lists = [data for path, data in nodes.nodes.items() if managed_ledger_of(path)]
    assert len(lists) > 20
    assert [build_managed_ledger_info(parse(data)) for data in lists] == lists


def test_golden_contexts_name_the_objects_of_the_bucket(golden: Path) -> None:
    objects = {path.name for path in (golden / "bucket").iterdir()}
    contexts = 0
    for path, data in GoldenNodes.of(golden).nodes.items():
        if not managed_ledger_of(path):
            continue
        for ledger in parse(data).ledgers:
            if ledger.context is not None:
                assert f"{ledger.context.uuid}-ledger-{ledger.ledger_id}" in objects
                assert (ledger.context.driver, ledger.context.get("bucket")) == ("aws-s3", "tier")
                assert ledger.context.get("no such property") is None
                contexts += 1
    assert contexts > 50


def test_every_golden_node_has_its_place(nodes: GoldenNodes) -> None:
    """Each is a folder, a managed ledger, or a cursor of one; V1 names are among them."""
    paths = [path for path in nodes.nodes if path.startswith(f"{ROOT}/")]
    names = {name for path in paths if (name := managed_ledger_of(path))}
    cursors = [found for path in paths if (found := cursor_of(path))]
    for path in paths:
        assert [bool(managed_ledger_of(path)), bool(cursor_of(path)), is_above_managed_ledgers(path)].count(True) == 1
        data = nodes.nodes[path]
        assert bool(data) == (not is_above_managed_ledgers(path))
    assert any(len(name.split("/")) == 5 for name in names)
    assert cursors
    assert {name for name, _ in cursors} <= names


@settings(deadline=None, max_examples=80)
@given(infos)
def test_any_list_round_trips_sorted(info: ManagedLedgerInfo) -> None:
    ascending = tuple(sorted(info.ledgers, key=lambda one: one.ledger_id))
    assert parse(build_managed_ledger_info(info)) == dataclasses.replace(info, ledgers=ascending)


def test_fields_have_the_numbers_of_pulsar() -> None:
    context = bytes.fromhex("0801 10FEFFFFFFFFFFFFFFFF01 1801 2001 2807 320D 0A0173 1208 0A0462756B74 1200 3A00")
    ledger = (
        bytes.fromhex("0809 1002 1803 2004 2A") + bytes([len(context)]) + context + bytes.fromhex("3206 0A0161 120162")
    )
    data = bytes([0x0A, len(ledger)]) + ledger + bytes.fromhex("1204 0809 1001 1A06 0A0163 120164")
    assert parse(data) == ManagedLedgerInfo(
        (
            LedgerInfo(
                9,
                entries=2,
                size=3,
                closed_ms=4,
                context=OffloadContext(
                    uuid="00000000-0000-0001-ffff-fffffffffffe",
                    is_complete=True,
                    is_deleted_from_bookkeeper=True,
                    offloaded_ms=7,
                    driver="s",
                    properties=(("bukt", ""),),
                    segments=1,
                ),
                properties=(("a", "b"),),
            ),
        ),
        terminated=Position(9, 1),
        properties=(("c", "d"),),
    )


def test_an_empty_node_has_no_ledgers() -> None:
    assert parse(b"") == ManagedLedgerInfo(())


@for_each(
    ("ledgers", "reason"),
    [
        *(([{"ledger_id": 1, "entries": 1, "size": 1} | {field: -1}], "impossible ledger") for field in ("ledger_id", "entries", "size")),
        *(
            ([{"ledger_id": 1, "entries": entries, "size": size}], "impossible ledger")
            for entries, size in ((2**62, 2**62), (2**63 - 1, 1), (2**60, 0))
        ),
        ([{"entries": 1}], "id -1"),
        ([{"ledger_id": one, "entries": 1, "size": 2**62 - 20} for one in range(2)], "than a topic can have"),
        ([{"ledger_id": one} for one in (7, 3, 7)], "contains ledger 7 twice"),
    ],
)  # fmt: skip
def test_ledgers_that_no_topic_has_are_corrupt(ledgers: list[dict[str, int]], reason: str) -> None:
    listed = [ManagedLedgerRecord.Ledger(**one) for one in ledgers]
    with pytest.raises(CorruptMetadataError, match=reason) as caught:
        parse(ManagedLedgerRecord(ledger=listed).SerializeToString())
    assert caught.value.key == KEY


@for_each("data", ["1200", "12020801", "12021001", "120B 08FEFFFFFFFFFFFFFFFF01 1000"])
def test_a_termination_nowhere_is_corrupt(data: str) -> None:
    with pytest.raises(CorruptMetadataError):
        parse(bytes.fromhex(data))


def test_times_before_1970_are_unknown() -> None:
    ledger = ManagedLedgerRecord.Ledger(ledger_id=1, timestamp=-1)
    ledger.context.timestamp = -1
    found = parse(ManagedLedgerRecord(ledger=[ledger]).SerializeToString()).ledgers[0]
    assert found.closed_ms == 0
    assert found.context is not None
    assert found.context.offloaded_ms is None


def test_a_driver_that_is_no_message_is_corrupt() -> None:
    ledger = ManagedLedgerRecord.Ledger(ledger_id=1)
    ledger.context.driver = b"\xff"
    with pytest.raises(CorruptMetadataError, match="driver") as caught:
        parse(ManagedLedgerRecord(ledger=[ledger]).SerializeToString())
    assert caught.value.key == KEY


def test_text_that_is_not_utf8_is_kept_as_far_as_it_goes() -> None:
    assert parse(bytes.fromhex("1A07 0A02FF61 120162")).properties == (("\N{REPLACEMENT CHARACTER}a", "b"),)


def test_fields_of_later_versions_are_ignored() -> None:
    data = record(1, 2)
    assert parse(data + bytes.fromhex("A00601 AA0603616263")) == parse(data)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=120), infos, st.integers(0, 60), st.integers(0, 60))
def test_arbitrary_bytes_raise_nothing_else(data: bytes, info: ManagedLedgerInfo, at: int, end: int) -> None:
    valid = build_managed_ledger_info(info)
    for attempt in (data, valid + data, valid[:at] + data + valid[end:], b"\x47\x78" + data):
        refused = None
        try:
            found = parse(attempt)
        except CorruptMetadataError as error:
            refused = error
        if refused is None:
            ids = [one.ledger_id for one in found.ledgers]
            assert ids == sorted(set(ids))
            assert all(min(one.ledger_id, one.entries, one.size, one.closed_ms) >= 0 for one in found.ledgers)
        else:
            assert refused.key == KEY


def test_memory_is_in_proportion_to_the_node() -> None:
    """The smallest ledger takes two bytes; a megabyte of them, all without an id, is refused before they are all there."""
    data = b"\x0a\x00" * 500_000
    tracemalloc.start()
    try:
        with pytest.raises(CorruptMetadataError):
            parse(data)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 40 * len(data)


@for_each(
    ("path", "name"),
    [
        ("t/n/persistent/x", "t/n/persistent/x"),
        ("t/c/n/persistent/x", "t/c/n/persistent/x"),
        ("t/n/persistent/persistent", "t/n/persistent/persistent"),
        ("t/persistent/persistent/x", "t/persistent/persistent/x"),
        ("t/n/persistent/x/cursor", None),
        ("t/n/persistent", None),
        ("t/n", None),
        ("t/n/non-persistent/x", None),
        ("t//persistent/x", None),
        ("a/b/c/d/persistent/x", None),
    ],
)
def test_a_managed_ledger_is_known_by_its_path(path: str, name: str | None) -> None:
    assert managed_ledger_of(f"{ROOT}/{path}") == name
    assert managed_ledger_of(f"/elsewhere/{path}") is None
    assert name is None or managed_ledger_path(name) == f"{ROOT}/{path}"


@for_each(
    ("path", "is_folder"),
    [
        ("t", True),
        ("t/n", True),
        ("t/n/persistent", True),
        ("t/c/n", True),
        ("t/c/n/persistent", True),
        ("t/n/persistent/x", False),
        ("t/n/persistent/persistent", False),
        ("t/c/n/persistent/x", False),
        ("t/c/n/other", False),
        ("t/c/n/other/persistent", False),
    ],
)
def test_a_walk_goes_where_managed_ledgers_may_be(path: str, is_folder: bool) -> None:
    assert is_above_managed_ledgers(f"{ROOT}/{path}") == is_folder
    assert is_above_managed_ledgers(ROOT)
    assert not is_above_managed_ledgers("/ledgers")


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=8))
def test_a_cursor_has_any_name(name: str) -> None:
    assert cursor_of(cursor_path("t/n/persistent/x", name)) == ("t/n/persistent/x", name)

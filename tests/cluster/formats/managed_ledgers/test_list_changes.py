"""Lists of ledgers that are changed: the change, and nothing else of what brokers wrote."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError, LedgerfsError, NotFoundError, UnsupportedWriteError
from ledgerfs.formats.decompression import Compression
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    OffloadContext,
    build_managed_ledger_info,
    parse_managed_ledger_info,
    with_contexts,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.stored_values import compressed
from ledgerfs_cluster.formats.proto.metadata_pb2 import ManagedLedgerRecord
from tests.cluster.support.golden_nodes import GoldenNodes
from tests.cluster.support.ledger_lists import contexts, infos
from tests.support.each import for_each
from tests.support.entries import compress

MAX_INT64 = 2**63 - 1
KEY = "/managed-ledgers/public/default/persistent/orders"
CONTEXT = OffloadContext(
    "00000000-0000-0001-0000-000000000002",
    is_complete=True,
    is_deleted_from_bookkeeper=False,
    offloaded_ms=300,
    driver="s",
    properties=(("b", "t"),),
)
OF_CONTEXT = bytes.fromhex("0801 1002 1801 28AC02 320B 0A0173 1206 0A0162 120174")
"""What a broker writes for it."""

# Fields of no version that is known: a varint, a fixed64, bytes, a group with a group in it, a fixed32.
UNKNOWN = bytes.fromhex("A00601 A1060102030405060708 AA0603616263 AB06 B3060801B406 AC06 AD0601020304")

unknown = st.sampled_from([b"", UNKNOWN])


def part(number: int, data: bytes) -> bytes:
    assert len(data) < 128 * 128
    size = bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])
    return bytes([number << 3 | 2]) + size + data


def ledger(ledger_id: int, *parts: bytes) -> bytes:
    return part(1, b"".join([bytes([0x08, ledger_id]), *parts]))


COUNTS = bytes.fromhex("1002 1803 2004")
OLD_CONTEXT = OF_CONTEXT + UNKNOWN
PROPERTY = bytes.fromhex("3206 0A0161 120162")
NODE = b"".join(
    [
        ledger(12, UNKNOWN, COUNTS, part(5, OLD_CONTEXT), PROPERTY, UNKNOWN),
        UNKNOWN,
        ledger(10, COUNTS, PROPERTY, UNKNOWN),
        part(2, bytes.fromhex("080C 1001") + UNKNOWN),
        ledger(13),
        part(3, bytes.fromhex("0A0163 120164") + UNKNOWN),
        ledger(11, PROPERTY, part(5, OF_CONTEXT + bytes.fromhex("2000")), COUNTS),
        UNKNOWN,
    ]
)
"""A list with what no known broker writes in every place: unknown fields, and known ones in another order."""


def written_again(node: bytes, changes: Mapping[int, bytes]) -> bytes:
    """Return a node as protobuf writes it, with these contexts instead: known fields by number, then the bytes of unknown ones."""
    record = ManagedLedgerRecord.FromString(node)
    for one in record.ledger:
        if one.ledger_id in changes:
            one.context.Clear()
            one.context.MergeFromString(changes[one.ledger_id])
    return record.SerializeToString()


@for_each("codec", list(Compression))
def test_an_edit_that_changes_nothing_keeps_all_that_was_there(codec: Compression) -> None:
    found = with_contexts(compressed(NODE, codec, compress(codec, NODE)), {}, key=KEY)
    assert (found.plain, found.codec) == (written_again(NODE, {}), codec)
    assert found.plain.count(UNKNOWN) == NODE.count(UNKNOWN)
    assert sorted(found.plain) == sorted(NODE)


def test_a_context_that_is_replaced_has_nothing_of_the_old_one() -> None:
    found = with_contexts(NODE, {12: CONTEXT}, key=KEY)
    assert found.plain == written_again(NODE, {12: OF_CONTEXT})
    assert found.plain.count(UNKNOWN) == NODE.count(UNKNOWN) - 1


def test_a_first_context_stands_where_a_broker_has_it() -> None:
    before, after = ledger(10, COUNTS, PROPERTY, UNKNOWN), ledger(10, COUNTS, part(5, OF_CONTEXT), PROPERTY, UNKNOWN)
    assert with_contexts(NODE, {10: CONTEXT}, key=KEY).plain == written_again(NODE, {}).replace(before, after)


def test_a_context_in_two_parts_which_parsers_join() -> None:
    node = ledger(1, part(5, bytes.fromhex("1801")), part(5, bytes.fromhex("2805")), COUNTS) + ledger(2)
    replaced = with_contexts(node, {1: CONTEXT}, key=KEY).plain
    assert replaced == ledger(1, COUNTS, part(5, OF_CONTEXT)) + ledger(2)


@for_each(
    ("data", "ledger_id", "error"),
    [
        (NODE, 13, UnsupportedWriteError),
        *((data, one, NotFoundError) for data, one in ((NODE, 9), (NODE, 14), (NODE, -1), (b"", 1))),
        *((data, 1, CorruptMetadataError) for data in (b"\xff", b"\x47\x78", ledger(1) * 2, ledger(1)[:-1], NODE[:-1])),
    ],
)  # fmt: skip
def test_what_cannot_be_changed_is_refused(data: bytes, ledger_id: int, error: type[LedgerfsError]) -> None:
    """The ledger of the greatest id, wherever it stands, one that is not listed, and what is no list."""
    with pytest.raises(error) as raised:
        with_contexts(data, {ledger_id: CONTEXT}, key=KEY)
    assert raised.value.key == KEY


def test_golden_contexts_are_written_as_brokers_wrote_them(golden: Path) -> None:
    """A list without its contexts gets them, and is what it was, to the byte."""
    changed = 0
    for path, data in GoldenNodes.of(golden).nodes.items():
        if not managed_ledger_of(path):
            continue
        record = ManagedLedgerRecord.FromString(data)
        reported = {
            one.ledger_id: one.context for one in parse_managed_ledger_info(data, key=path).ledgers if one.context
        }
        for one in record.ledger:
            one.ClearField("context")
        assert with_contexts(record.SerializeToString(), reported, key=path).plain == data
        assert with_contexts(data, reported, key=path).plain == data
        changed += len(reported)
    assert changed > 50


def with_unknown(info: ManagedLedgerInfo, some: bytes, last: bytes) -> bytes:
    """Return the node with unknown fields at the end of each ledger, and of its own."""
    record = ManagedLedgerRecord.FromString(build_managed_ledger_info(info))
    for one in record.ledger:
        one.MergeFromString(some)
    return record.SerializeToString() + last


@settings(deadline=None, max_examples=120)
@given(infos.filter(lambda info: info.ledgers), unknown, unknown, st.data())
def test_any_list_has_the_change_and_all_else(
    info: ManagedLedgerInfo, some: bytes, last: bytes, data: st.DataObject
) -> None:
    node = with_unknown(info, some, last)
    newest = max(one.ledger_id for one in info.ledgers)
    chosen = {
        one.ledger_id: data.draw(contexts)
        for one in info.ledgers
        if one.ledger_id != newest and data.draw(st.booleans())
    }

    def replaced(one: LedgerInfo) -> LedgerInfo:
        return dataclasses.replace(one, context=chosen.get(one.ledger_id, one.context))

    ascending = sorted(info.ledgers, key=lambda one: one.ledger_id)
    found = with_contexts(node, chosen, key=KEY)
    expected = dataclasses.replace(info, ledgers=tuple(replaced(one) for one in ascending))
    assert parse_managed_ledger_info(found.plain, key=KEY) == expected
    assert found.plain.count(UNKNOWN) == node.count(UNKNOWN)
    # The old contexts come back, and the node is what it was.
    reported = {one.ledger_id: one.context for one in info.ledgers if one.ledger_id in chosen and one.context}
    if len(reported) == len(chosen):
        assert with_contexts(found.plain, reported, key=KEY).plain == node


@settings(deadline=None, max_examples=120)
@given(st.binary(max_size=80), st.integers(0, 80), st.integers(0, 80), st.sampled_from([10, 11, 12]))
def test_arbitrary_bytes_raise_nothing_else(data: bytes, at: int, end: int, one: int) -> None:
    for attempt in (data, NODE + data, NODE[:at] + data + NODE[end:]):
        try:
            found = with_contexts(attempt, {one: CONTEXT}, key=KEY)
        except LedgerfsError:
            continue
        before, after = (parse_managed_ledger_info(each, key=KEY) for each in (attempt, found.plain))
        assert [each.ledger_id for each in before.ledgers] == [each.ledger_id for each in after.ledgers]

"""Lines of the trash journal: what was built is read again, and nothing else is taken for a line."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError, InvalidOptionError
from ledgerfs.lifecycle.journal.trash_line import (
    TRASH,
    TrashKind,
    TrashLine,
    TrashState,
    build_trash_line,
    parse_trash_line,
    parse_trash_node_name,
)
from tests.support.each import for_each

UUID = "00112233-4455-6677-8899-aabbccddeeff"
LINE = TrashLine(
    TrashKind.TRIMMED,
    58,
    "public/default/persistent/orders",
    UUID,
    "s3://tier",
    "past retention of 1 h since 2 h",
    3,
    1024,
    1_700_000_000_000,
    1_700_003_600_000,
    TrashState.MARKED,
)

_LISTED = {TrashKind.TRIMMED, TrashKind.OFFLOADED}
lines = st.builds(
    TrashLine,
    st.sampled_from(TrashKind),
    st.integers(0, 2**63 - 1),
    st.none() | st.sampled_from(("t/ns/persistent/x", "t/c/ns/persistent/x", "t/ns/persistent/a%2Fb")),
    st.just(UUID),
    st.just("s3://tier"),
    st.text(min_size=1, max_size=200),
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.sampled_from(TrashState),
).filter(lambda line: line.state is not TrashState.UNLISTED or line.kind in _LISTED)


@given(lines)
def test_what_was_built_is_read_again(line: TrashLine) -> None:
    assert parse_trash_line(build_trash_line(line), key=line.path) == line
    assert parse_trash_node_name(line.node_name) == (line.kind, line.ledger_id, line.uuid)


def test_the_node_of_a_line_without_objects_has_no_uuid() -> None:
    line = replace(LINE, kind=TrashKind.ORPHAN, uuid=None, bucket=None, managed_ledger=None)
    assert line.path == f"{TRASH}/orphan-58"
    assert parse_trash_line(build_trash_line(line), key=line.path) == line
    assert parse_trash_node_name("orphan-58") == (TrashKind.ORPHAN, 58, None)


def test_keys_that_are_not_known_are_left_alone() -> None:
    told = json.loads(build_trash_line(LINE)) | {"of_a_later_version": [1]}
    assert parse_trash_line(json.dumps(told).encode(), key=LINE.path) == LINE


@for_each(
    ("name", "value"),
    [
        ("kind", "other"),
        ("kind", ["trimmed"]),
        ("ledger_id", -1),
        ("ledger_id", 2**63),
        ("ledger_id", True),
        ("ledger_id", 58.0),
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
        ("why", ""),
        ("why", "x" * 5000),
        ("version", -2),
        ("version", 2**31),
        ("size", "1"),
        ("marked_ms", None),
        ("due_ms", -1),
        ("state", "gone"),
    ],
)
def test_what_is_no_line_is_refused(name: str, value: Any) -> None:
    told = json.loads(build_trash_line(LINE)) | {name: value}
    with pytest.raises(CorruptMetadataError) as raised:
        parse_trash_line(json.dumps(told).encode(), key=LINE.path)
    assert raised.value.key == LINE.path


@for_each("data", [b"", b"{", b"[]", b"\xff", b"[" * 60_000, b" " * 70_000, b"null", b'{"ledger_id": NaN}'])
def test_bytes_that_are_no_line_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptMetadataError):
        parse_trash_line(data, key=LINE.path)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(CorruptMetadataError):
        parse_trash_line(data, key=LINE.path)


@for_each("kind", [TrashKind.ORPHAN, TrashKind.FLAGGED, TrashKind.OBJECTS])
def test_what_needs_no_list_is_never_unlisted(kind: TrashKind) -> None:
    """Written by hand it would have a ledger deleted that nobody looks for again."""
    line = replace(LINE, kind=kind, state=TrashState.UNLISTED)
    with pytest.raises(InvalidOptionError, match="as none of kind"):
        build_trash_line(line)


def test_objects_need_uuid_and_bucket() -> None:
    line = replace(LINE, kind=TrashKind.OBJECTS, bucket=None)
    with pytest.raises(InvalidOptionError, match="no uuid or no bucket"):
        build_trash_line(line)


@for_each(
    "name",
    [
        *("", "trimmed", "trimmed-", "other-1", "trimmed-01", "trimmed--1", "trimmed-1-", f"trimmed-1-{UUID}x"),
        "trimmed-9999999999999999999",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(CorruptMetadataError):
        parse_trash_node_name(name)

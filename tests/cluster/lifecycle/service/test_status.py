"""A status is read as it was written, and whatever else is in its node is named as damage."""

import json
from dataclasses import asdict

import pytest

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.lifecycle.service.events import Trouble
from ledgerfs_cluster.lifecycle.service.status import STATUS_PATH, Status, parse_status
from tests.support.each import for_each

WHOLE = Status(
    1_700_000_000_000, 1_700_000_060_000, 3, 4, 5000, 1_700_000_000_001, {"offloaded_ledgers": 2}, {"mark": 1},
    {"owned": 7}, [Trouble(1_700_000_000_002, "a trouble", 2)], 2,
)  # fmt: skip


def test_a_status_is_read_as_it_was_written() -> None:
    assert parse_status(json.dumps(asdict(WHOLE)).encode(), key=STATUS_PATH) == WHOLE


def test_names_of_a_later_version_are_left_out() -> None:
    data = json.dumps({**asdict(WHOLE), "later": [1]}).encode()
    assert parse_status(data, key=STATUS_PATH) == WHOLE


@for_each(
    "damage",
    [
        b"",
        b"null",
        b'"x"',
        b"5",
        b"[]",
        b"{}",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        {"passes": "many"},
        {"passes": True},
        {"backlog_bytes": -1},
        {"began_ms": 10**400},
        {"passed_ms": 1.5},
        {"failed_passes": -1},
        # No calendar has such a time.
        {"passed_ms": 1 << 47},
        {"troubles": [{"when_ms": 1 << 47, "text": "x", "times": 1}]},
        {"passes": 1e400},
        {"passes": float("nan")},
        {"troubles": 5},
        {"troubles": ["x"]},
        {"troubles": [{"when_ms": 1e400, "text": "x", "times": 1}]},
        {"troubles": [{"when_ms": 1, "text": None, "times": 1}]},
        {"done": 5},
        {"done": {"x": "y"}},
        {"refused": ["owned"]},
    ],
)
def test_what_is_no_status_is_named_as_damage(damage: bytes | dict[str, object]) -> None:
    data = damage if isinstance(damage, bytes) else json.dumps({**asdict(WHOLE), **damage}).encode()
    with pytest.raises(CorruptMetadataError, match=r"not a valid status of the lifecycle service|JSON") as raised:
        parse_status(data, key=STATUS_PATH)
    assert raised.value.key == STATUS_PATH

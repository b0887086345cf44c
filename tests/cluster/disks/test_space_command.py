"""``ledgerfs bookie space``: live and dead bytes of logs, and what a bookie would free."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ledgerfs_cluster.formats.bookkeeper.entry_log_header import EntryLogHeader, LedgersMap
from tests.cluster.support.bookie_disks import MadeLedger, make_disk, write_dump, write_log
from tests.cluster.support.encoders import build_ledgers_map, build_log_header
from tests.support.each import for_each
from tests.support.invoked import output, run

SIZE = 1000


def ledger(ledger_id: int, entries: int) -> MadeLedger:
    return MadeLedger(ledger_id, payloads=[bytes(SIZE)] * entries)


def ended(current: Path, number: int, parts: dict[int, int]) -> int:
    """Write a log that was ended, with so many entries of each ledger; return its size."""
    stored = [ledger(one, count).stored(entry) for one, count in parts.items() for entry in range(count)]
    path = write_log(current, number, stored)
    sizes = [sum(len(ledger(one, count).stored(entry)) + 4 for entry in range(count)) for one, count in parts.items()]
    at = path.stat().st_size
    table = LedgersMap(np.array(list(parts), np.int64), np.array(sizes, np.int64))
    with path.open("r+b") as file:
        file.seek(at)
        file.write(build_ledgers_map(table))
        file.seek(0)
        file.write(build_log_header(EntryLogHeader(1, at, len(parts)))[:20])
    return path.stat().st_size


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five logs: one of dead ledgers, one that is nearly dead, one half dead, one that lives, one that is written; ledger 4 is deleted."""
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", str(tmp_path / "cache"))
    current = make_disk(tmp_path / "disk")
    ended(current, 1, {4: 100})
    ended(current, 2, {2: 5, 4: 95})
    ended(current, 3, {2: 4, 3: 5, 1: 50, 4: 41})
    ended(current, 4, {1: 90, 4: 10})
    write_log(current, 5, [ledger(1, 3).stored(entry) for entry in range(3)])
    nodes = []
    for one in (1, 2, 3):
        node = replace(ledger(one, 1), managed_ledger="public/default/persistent/orders").zookeeper_node()
        nodes.append(node)
    write_dump(tmp_path / "dump", nodes)
    return tmp_path


def reported(disk: Path, *options: str) -> dict[str, object]:
    (found,) = json.loads(
        output("bookie", "space", str(disk / "disk"), "--metadata", str(disk / "dump"), "--json", *options)
    )
    return dict(found)


def test_what_a_collector_would_do(disk: Path) -> None:
    found = reported(disk)
    logs = found["logs"]
    assert isinstance(logs, list)
    live = {
        one["id"]: (one["fate"], [ledger["ledger_id"] for ledger in one["ledgers"] if ledger["is_live"]])
        for one in logs
    }
    assert live == {
        "1": ("deleted", []),
        "2": ("minor", [2]),
        "3": ("kept", [1, 2, 3]),
        "4": ("kept", [1]),
        "5": ("current", [1]),
    }
    sizes = {one["id"]: one["size"] for one in logs}
    entry = len(ledger(2, 1).stored(0)) + 4
    assert found["frees"] == {
        "deleted": sizes["1"],
        "minor": sizes["2"] - 5 * entry,
        "major": 0,
    }
    assert [(one["live_bytes"], one["dead_bytes"]) for one in logs] == [
        (live * entry, dead * entry) for live, dead in ((0, 100), (5, 95), (59, 41), (90, 10), (3, 0))
    ]


def test_bytes_by_topic(disk: Path) -> None:
    """Most bytes come first; of deleted ledgers the metadata does not tell the topic."""
    owners = reported(disk)["owners"]
    entry = len(ledger(2, 1).stored(0)) + 4
    assert [(one["is_live"], one["ledgers"], one["logs"], one["bytes"]) for one in owners] == [  # type: ignore[attr-defined]
        (False, 1, 4, (100 + 95 + 41 + 10) * entry),
        (True, 3, 4, (5 + 59 + 90 + 3) * entry),
    ]
    assert [one["owner"] for one in owners] == ["-", "persistent://public/default/orders"]  # type: ignore[attr-defined]


@for_each(
    ("minor", "major", "fates"),
    [
        (0.04, 0.05, ["deleted", "kept", "kept", "kept", "current"]),
        # A share at a threshold is not below it.
        (0.05, 0.59, ["deleted", "major", "kept", "kept", "current"]),
        (0.06, 0.6, ["deleted", "minor", "major", "kept", "current"]),
        (0.2, 0.91, ["deleted", "minor", "major", "major", "current"]),
        (0.2, 0, ["deleted", "minor", "kept", "kept", "current"]),
        (0, 0.2, ["deleted", "major", "kept", "kept", "current"]),
    ],
)
def test_thresholds(disk: Path, minor: float, major: float, fates: list[str]) -> None:
    logs = reported(disk, "--minor", str(minor), "--major", str(major))["logs"]
    assert [one["fate"] for one in logs] == fates  # type: ignore[attr-defined]


def test_thresholds_with_which_no_bookie_starts(disk: Path) -> None:
    done = run("bookie", "space", str(disk / "disk"), "--minor", "0.5", "--major", "0.5", code=2)
    assert b"--minor must be below --major" in done.stderr


def test_an_empty_newest_log_leaves_the_one_before_it_current(disk: Path) -> None:
    write_log(disk / "disk" / "current", 6, [])
    assert [one["fate"] for one in reported(disk)["logs"]][-2:] == ["current", "current"]  # type: ignore[attr-defined]


def test_without_metadata_nothing_is_dead(disk: Path) -> None:
    done = run("bookie", "space", str(disk / "disk"), "--json")
    (found,) = json.loads(done.stdout)
    assert {one["fate"] for one in found["logs"]} == {"kept", "current"}
    assert b"dead ledgers are unknown" in done.stderr


def test_a_log_with_damage_is_not_said_to_go(disk: Path) -> None:
    path = disk / "disk" / "current" / "1.log"
    data = bytearray(path.read_bytes())
    data[2000:2100] = b"\xff" * 100
    data[3000:3100] = b"\xff" * 100
    path.write_bytes(data)
    (first, *_) = reported(disk)["logs"]  # type: ignore[misc]
    assert (first["fate"], first["freed"]) == ("unreadable", 0)


def test_the_table(disk: Path) -> None:
    shown = output("bookie", "space", str(disk / "disk"), "--metadata", str(disk / "dump"))
    assert re.search(r"^2 .* 1/2 +minor ", shown, re.MULTILINE)
    assert re.search(r"^deleted ledgers +1 +4 ", shown, re.MULTILINE)
    assert "a minor compaction " in shown


def test_a_log_that_lacks_what_its_map_reports_is_damaged(disk: Path) -> None:
    """Its records are gone and look like padding: nothing else tells of them."""
    path = disk / "disk" / "current" / "4.log"
    data = bytearray(path.read_bytes())
    size = len(ledger(1, 1).stored(0)) + 4
    data[1024 + 2 * size : 1024 + 90 * size] = bytes(88 * size)
    path.write_bytes(data)
    (found,) = [one for one in reported(disk)["logs"] if one["id"] == "4"]  # type: ignore[attr-defined]
    assert (found["fate"], found["freed"]) == ("unreadable", 0)
    report = json.loads(output("verify", str(disk / "disk"), "--quick", "--json", code=1))
    (finding,) = [one for one in report["findings"] if one["kind"] == "unreadable-object"]
    assert f"the log has {90 * size:,} bytes of ledger 1, but only {2 * size:,} were found" in finding["message"]
    path.write_bytes(bytes(data[: 1024 + 2 * size]))
    report = json.loads(output("verify", str(disk / "disk"), "--quick", "--json", code=1))
    assert any("map" in one["message"] for one in report["findings"] if one["severity"] == "damage")

"""``ledgerfs bookie space``: what logs hold, what goes, and who holds the rest."""

import json
from pathlib import Path

import numpy as np
import pytest

from ledgerfs.formats.bookkeeper.entry_log_header import EntryLogHeader, LedgersMap, build_ledgers_map, build_log_header
from tests.support.bookie_disks import MadeLedger, make_disk, write_dump, write_log
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
        node = ledger(one, 1).zookeeper_node()
        nodes.append(node)
    write_dump(tmp_path / "dump", nodes)
    return tmp_path


def told(disk: Path, *options: str) -> dict[str, object]:
    (found,) = json.loads(
        output("bookie", "space", str(disk / "disk"), "--metadata", str(disk / "dump"), "--json", *options)
    )
    return dict(found)


def test_what_a_collector_would_do(disk: Path) -> None:
    found = told(disk)
    logs = found["logs"]
    assert isinstance(logs, list)
    fates = {one["id"]: (one["fate"], f"{one['live_ledgers']}/{one['ledgers']}") for one in logs}
    assert fates == {
        "1": ("deleted", "0/1"),
        "2": ("minor", "1/2"),
        "3": ("kept", "3/4"),
        "4": ("kept", "1/2"),
        "5": ("current", "1/1"),
    }
    sizes = {one["id"]: one["size"] for one in logs}
    entry = len(ledger(2, 1).stored(0)) + 4
    assert [(one["id"], one["freed"], one["rewritten"]) for one in found["run"]] == [  # type: ignore[attr-defined]
        ("1", sizes["1"], 0),
        ("2", sizes["1"] + sizes["2"] - 5 * entry, 5 * entry),
    ]
    assert found["run"][-1]["ends_s"] == pytest.approx(5 / 1000)  # type: ignore[index]
    sums = found["sums"]
    assert sums["deleted"] == {  # type: ignore[index]
        "logs": 1, "file_size": sizes["1"], "freed": sizes["1"], "rewritten": 0, "entries": 0, "seconds": 0,
    }  # fmt: skip
    assert (sums["minor"]["rewritten"], sums["minor"]["entries"]) == (5 * entry, 5)  # type: ignore[index]


def test_thresholds_and_the_rate_may_be_others(disk: Path) -> None:
    assert [one["fate"] for one in told(disk, "--major", "0.8")["logs"]][2] == "major"  # type: ignore[attr-defined, index]
    entry = len(ledger(2, 1).stored(0)) + 4
    run = told(disk, "--rate", "1KiB")["run"]
    assert run[-1]["ends_s"] == pytest.approx(5 * (entry - 4) / 1024)  # type: ignore[index]


def test_who_holds_scattered_logs_and_what_goes_without_them(disk: Path) -> None:
    """With less of the large ledger in a log that is half dead, two small ones hold it."""
    current = disk / "disk" / "current"
    ended(current, 3, {2: 4, 3: 5, 4: 91})
    holders = told(disk, "--minor", "0.01", "--major", "0.05")["holders"]
    assert [(one["ledgers"], one["logs"]) for one in holders] == [([2, 3], 2)]  # type: ignore[attr-defined]
    whole = sum((current / f"{number}.log").stat().st_size for number in (2, 3))
    assert holders[0]["freed_if_gone"] == whole  # type: ignore[index]


def test_without_metadata_nothing_is_dead(disk: Path) -> None:
    done = run("bookie", "space", str(disk / "disk"), "--json")
    (found,) = json.loads(done.stdout)
    assert {one["fate"] for one in found["logs"]} == {"kept", "current"}
    assert b"no ledger is known to be dead" in done.stderr


def test_a_log_with_damage_is_not_said_to_go(disk: Path) -> None:
    path = disk / "disk" / "current" / "1.log"
    data = bytearray(path.read_bytes())
    data[2000:2100] = b"\xff" * 100
    data[3000:3100] = b"\xff" * 100
    path.write_bytes(data)
    (first, *_) = told(disk)["logs"]  # type: ignore[misc]
    assert (first["fate"], first["freed"]) == ("kept", 0)
    assert "could not be read" in first["why"]


def test_the_table_has_bars(disk: Path) -> None:
    shown = output("bookie", "space", str(disk / "disk"), "--metadata", str(disk / "dump"))
    assert "█" in shown
    assert "a run with major compaction frees" in shown
    assert "logs 1, 2" in shown


def test_a_log_that_lacks_what_its_map_tells_is_damaged(disk: Path) -> None:
    """Its records are gone and look like padding: nothing else tells of them."""
    path = disk / "disk" / "current" / "4.log"
    data = bytearray(path.read_bytes())
    size = len(ledger(1, 1).stored(0)) + 4
    data[1024 + 2 * size : 1024 + 90 * size] = bytes(88 * size)
    path.write_bytes(data)
    (found,) = [one for one in told(disk)["logs"] if one["id"] == "4"]  # type: ignore[attr-defined]
    assert (found["fate"], found["freed"]) == ("kept", 0)
    report = json.loads(output("verify", str(disk / "disk"), "--quick", "--json", code=1))
    (finding,) = [one for one in report["findings"] if one["kind"] == "unreadable-object"]
    assert f"its map tells of {90 * size:,} bytes of ledger 1, and {2 * size:,} are found" in finding["message"]
    path.write_bytes(bytes(data[: 1024 + 2 * size]))
    report = json.loads(output("verify", str(disk / "disk"), "--quick", "--json", code=1))
    assert any("map" in one["message"] for one in report["findings"] if one["severity"] == "damage")

"""Where ledgers end that are not closed: by what entries confirm, by copies, by a recovery; and what disks that are away hide."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ledgerfs_cluster.disks.ends import LedgerEnd, end_of_open
from ledgerfs_cluster.disks.index import KeptTables, index_disks
from tests.cluster.support.bookie_disks import MadeLedger, make_disk, write_log

BOOKIES = ("b1:3181", "b2:3181", "b3:3181")
Ends = dict[str, LedgerEnd]


def ends(
    folder: Path,
    holders: Sequence[Sequence[int]],
    *,
    given: Sequence[int] = (0, 1, 2),
    ack: int = 2,
    confirmed: int | None = None,
) -> Ends:
    """Return each end of a ledger whose entry i is on the disks ``holders[i]``; the last ones carry what ``confirmed`` says."""
    ledger = MadeLedger(7, BOOKIES, 2, ack, payloads=[b"%d" % entry for entry in range(len(holders))])
    paths = []
    for number, name in enumerate(BOOKIES):
        current = make_disk(folder / f"disk{number}", name)
        own = [entry for entry, disks in enumerate(holders) if number in disks]
        known = {entry: entry - 1 if confirmed is None else min(entry - 1, confirmed) for entry in own}
        write_log(current, 0, [ledger.stored(entry, known[entry]) for entry in own])
        if number in given:
            paths.append(str(folder / f"disk{number}"))
    index = index_disks(paths, KeptTables(str(folder / "cache")))
    node = ledger.node(is_closed=False)
    return {end: end_of_open(index, node, end) for end in ("confirmed", "recovered")}


BOTH = [(entry % 3, (entry + 1) % 3) for entry in range(12)]


def test_the_newest_entry_is_confirmed_by_none(tmp_path: Path) -> None:
    found = ends(tmp_path, BOTH[:6])
    assert found["confirmed"] == LedgerEnd(4, 5, is_certain=True)
    assert found["recovered"] == LedgerEnd(5, 5, is_certain=True)


def test_an_entry_on_one_disk_of_two_is_recovered_though_nobody_acknowledged_it(tmp_path: Path) -> None:
    found = ends(tmp_path, [*BOTH[:4], (1,)])
    assert found["recovered"] == LedgerEnd(4, 4, is_certain=True)


def test_what_comes_behind_a_hole_does_not_count(tmp_path: Path) -> None:
    found = ends(tmp_path, [*BOTH[:4], (), BOTH[5]], confirmed=3)
    assert {end.last_entry for end in found.values()} == {3}
    assert {end.newest for end in found.values()} == {5}


@pytest.mark.parametrize("away", [0, 1, 2])
def test_one_disk_of_three_may_be_away_where_two_acknowledge(tmp_path: Path, away: int) -> None:
    found = ends(tmp_path, BOTH[:6], given=sorted({0, 1, 2} - {away}))
    assert found["confirmed"].is_certain
    assert found["confirmed"].last_entry >= 3
    assert found["recovered"] == LedgerEnd(5, 5, is_certain=True)


def test_nobody_knows_the_end_where_one_acknowledges_and_its_disk_is_away(tmp_path: Path) -> None:
    found = ends(tmp_path, BOTH[:7], given=(0, 1), ack=1)
    assert not any(end.is_certain for end in found.values())


def test_one_disk_alone_does_not_tell_the_end(tmp_path: Path) -> None:
    found = ends(tmp_path, BOTH[:6], given=(0,))
    assert not found["confirmed"].is_certain


def test_no_entry_at_all_is_an_empty_ledger(tmp_path: Path) -> None:
    assert set(ends(tmp_path, []).values()) == {LedgerEnd(-1, -1, is_certain=True)}


def test_a_damaged_newest_entry_confirms_nothing(tmp_path: Path) -> None:
    ledger = MadeLedger(7, BOOKIES[:1], payloads=[b"x"] * 4)
    current = make_disk(tmp_path / "disk", BOOKIES[0])
    broken = bytearray(ledger.stored(3))
    broken[-1] ^= 1
    write_log(current, 0, [*(ledger.stored(entry) for entry in range(3)), bytes(broken)])
    index = index_disks([str(tmp_path / "disk")], KeptTables(str(tmp_path / "cache")))
    end = end_of_open(index, ledger.node(is_closed=False), "confirmed")
    # What it would have told of those before it, nobody knows.
    assert end == LedgerEnd(1, 2, is_certain=False)
    recovered = end_of_open(index, ledger.node(is_closed=False), "recovered")
    assert recovered == LedgerEnd(2, 2, is_certain=False)

"""Ledgers that are read one after the other, the next one begun while one ends: nobody notices but by the time it takes."""

from collections.abc import Iterator, Sequence
from itertools import islice

import pytest

from ledgerfs.catalog.reader import Span
from ledgerfs.errors import CorruptLedgerError, StaleObjectError
from ledgerfs.scan.report import ScanReport
from ledgerfs_cluster.live_source.stream import stream_live
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.live_reads import opened, whole

pytestmark = pytest.mark.usefixtures("impatient")

SHAPES = pytest.mark.parametrize("ensemble", [2, 3], ids=["whole", "striped"])


def filled(cluster: LiveCluster, ensemble: int, ledgers: int = 6, entries: int = 300) -> list[int]:
    made = [cluster.write_ledger(TOPIC, messages(entries, size=1000), ensemble=ensemble) for _ in range(ledgers)]
    cluster.roll_over(TOPIC)
    return made


def spans_of(cluster: LiveCluster) -> list[Span]:
    ledgers = [one for one in opened(cluster).topic(TOPIC).ledgers if one.last_entry >= 0]
    return [Span(one, 0, one.last_entry) for one in ledgers]


def rows_of(spans: Sequence[Span], ledger_ids: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
    """Yield what a stream gives, entry by entry."""
    for number, batch in stream_live(spans):
        for entry, data in batch:
            yield ledger_ids[number], entry, bytes(data)


def entries_in(cluster: LiveCluster, ledger_ids: list[int]) -> list[tuple[int, int, bytes]]:
    return [row for row in cluster.entries_of(TOPIC) if row[0] in ledger_ids]


def damage(cluster: LiveCluster, ledger_id: int, entry: int) -> None:
    """Damage all copies of an entry."""
    copies = [one for one in cluster.bookies if entry in one.entries(ledger_id)]
    assert len(copies) == 2
    for one in copies:
        one.corrupt(ledger_id, entry)


@SHAPES
def test_every_entry_comes_once_and_in_order(cluster: LiveCluster, ensemble: int) -> None:
    made = filled(cluster, ensemble)
    cluster.offload(TOPIC, made[1])
    cluster.delete_from_bookkeeper(made[1])
    whole(cluster)
    found = list(rows_of([Span(one.ledger, 7, one.last - 5) for one in spans_of(cluster)], made))
    assert found == [row for row in cluster.entries_of(TOPIC) if 7 <= row[1] <= 294]
    assert len(found) == 6 * 288


@SHAPES
def test_what_is_wrong_with_the_next_ledger_is_reported_when_it_is_its_turn(
    cluster: LiveCluster, ensemble: int
) -> None:
    made = filled(cluster, ensemble)
    damage(cluster, made[2], 0)
    found: list[tuple[int, int, bytes]] = []
    with pytest.raises(CorruptLedgerError, match=f"ledger {made[2]}"):
        found.extend(rows_of(spans_of(cluster), made))
    assert found == entries_in(cluster, made[:2])


def test_damage_is_reported_in_the_order_of_entries(cluster: LiveCluster) -> None:
    made = filled(cluster, 2)
    for ledger, entry in ((made[0], 299), (made[1], 0), (made[2], 0), (made[2], 150)):
        damage(cluster, ledger, entry)
    scan = opened(cluster).topic(TOPIC).scan(["entry_id"], on_corrupt="skip")
    report = ScanReport()
    rows = sum(batch.num_rows for batch in scan.batches(report))
    assert [(one.ledger_id, one.first_entry) for one in report.skipped] == [
        (made[0], 299),
        (made[1], 0),
        (made[2], 0),
        (made[2], 150),
    ]
    assert rows == 6 * 300 - 4


@SHAPES
def test_a_reader_that_stops_leaves_nothing_behind(cluster: LiveCluster, ensemble: int) -> None:
    filled(cluster, ensemble)
    spans = spans_of(cluster)
    for _ in range(40):
        stream = stream_live(spans)
        assert len(list(islice(stream, 1))) == 1
        stream.close()  # type: ignore[attr-defined]
    assert sum(len(batch) for _, batch in stream_live(spans)) == 1800


def test_a_ledger_that_is_begun_and_then_trimmed_is_read_no_further(cluster: LiveCluster) -> None:
    """It may have come as far as its first window, which is right; what was not read is never left out in silence."""
    made = filled(cluster, 2, entries=2000)
    rows = rows_of(spans_of(cluster), made)
    found = list(islice(rows, 5999))
    cluster.trim(TOPIC, made[3])
    cluster.trim(TOPIC, made[4])
    with pytest.raises(StaleObjectError, match="trimmed"):
        found.extend(rows)
    expected = cluster.entries_of(TOPIC)
    assert len(found) >= 6000
    assert [row for row in found if row[0] not in made[3:5]] == [row for row in expected if row[0] in made[:3]]

"""Exports and views of a range of time in topics whose ledgers come in any order, under ids that need not be in the order of time.

Which ledgers can have rows of a range is told by when others of the topic were created; a later one may show that this told nothing.
"""

import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.export.export import export_topic
from ledgerfs.fsspec_impl import LedgerFileSystem
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.scan import Scan
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, Offload, offload, put_in_folder

NAME = "persistent://public/default/orders"
HOUR = 3_600_000
START = CREATED_MS + HOUR * 5 // 2


def ledger(ledger_id: int, created_ms: int, *times_ms: int) -> Offload:
    entries = [frame(metadata(publish_time_ms=time), b"%d" % time) for time in times_ms]
    return offload(entries, ledger_id, uuid=ledger_id, created_ms=created_ms)


EARLY = ledger(10, CREATED_MS, CREATED_MS + 1000, CREATED_MS + 3 * HOUR)
NEXT = ledger(20, CREATED_MS + 2 * HOUR, CREATED_MS + 2 * HOUR + 1)


def put(folder: Path, *ledgers: Offload) -> Topic:
    folder.mkdir(exist_ok=True)
    return open_bucket(put_in_folder(folder, *ledgers)).topic(NAME)


def exported(topic: Topic, folder: Path, **options: Any) -> list[str]:
    """Export, and return all rows of the folder."""
    export_topic(topic, folder, "jsonl", columns=["ledger_id", "value"], **options)
    return sorted(line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines())


def in_views(bucket: Path, cache: Path, **options: Any) -> list[str]:
    """Return all rows of the files of the topic in the tree."""
    scan = {"columns": ["ledger_id", "value"], **options}
    fs = LedgerFileSystem(bucket.as_uri(), "file", cache_dir=str(cache), scan_options=scan, skip_instance_cache=True)
    fs.invalidate_cache()
    paths = fs.ls("jsonl/public/default/orders", detail=False)
    return sorted(line for path in paths for line in fs.cat_file(path).decode().splitlines())


def test_a_scan_says_whether_others_left_out_a_ledger(tmp_path: Path) -> None:
    topic = put(tmp_path, EARLY, NEXT, ledger(30, CREATED_MS + 20 * HOUR, CREATED_MS + 20 * HOUR))
    scan = topic.scan(start_time=START)
    assert isinstance(scan, Scan)
    report = ScanReport()
    assert (scan.count(report), report.is_final, report.basis.first, report.basis.sources) == (
        1,
        False,
        0,
        (),
    )
    scan = topic.scan(end_time=START)
    # That its own creation is after the range, no other ledger changes.
    report = ScanReport()
    assert (scan.count(report), report.is_final) == (2, True)
    scan = topic.scan(start_time=CREATED_MS)
    report = ScanReport()
    assert (scan.count(report), report.is_final) == (4, True)


@dataclass(frozen=True)
class Made:
    """A ledger that is to come: its id, its creation, and the times of its messages, ms since 1970."""

    ledger_id: int
    created_ms: int
    times_ms: tuple[int, ...]

    def rows(self, start: int | None, end: int | None) -> list[str]:
        inside = [time for time in self.times_ms if (start is None or time >= start) and (end is None or time < end)]
        return [f'{{"ledger_id":{self.ledger_id},"value":"{time}"}}' for time in inside]


def of_clusters(seed: int, count: int) -> list[Made]:
    """Make the ledgers of a topic in the order in which they come: of each cluster ids and times ascend, those of two are in no order."""
    draw = random.Random(seed)
    ids = draw.sample(range(1, 60), 7)
    made = []
    for number in range(count):
        now = CREATED_MS + draw.randrange(10) * HOUR
        for ledger_id in sorted(ids[number::count]):
            created, now = now, now + draw.randrange(1, 4) * HOUR
            made.append(Made(ledger_id, created, tuple(sorted(draw.randrange(created, now) for _ in range(3)))))
    draw.shuffle(made)
    return made


@pytest.mark.long
@settings(deadline=None, max_examples=16)
@given(data=st.data())
def test_what_is_gone_on_with_after_each_ledger_that_comes_is_what_is_made_anew(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever its id and times: for exports, and for the files of the tree with a cache.

    Where the creations of two clusters' ledgers ascend by chance, they seem to limit each other's times, and what is made anew lacks rows.
    What was made when this was known to be wrong keeps them.
    """
    count = data.draw(st.integers(1, 2))
    ledgers = of_clusters(data.draw(st.integers(0, 2**32)), count)
    near = st.builds(
        int.__add__, st.sampled_from([time for one in ledgers for time in one.times_ms]), st.sampled_from((0, 1, -HOUR))
    )
    start, end = data.draw(st.one_of(st.none(), near)), data.draw(st.one_of(st.none(), near))
    if start is not None and end is not None and start >= end:
        end = start + 1
    options = {"start_time": start, "end_time": end, "clock_slack_ms": 0}
    folder = tmp_path_factory.mktemp("made")
    for number in range(len(ledgers)):
        come = ledgers[number]
        topic = put(folder / "bucket", ledger(come.ledger_id, come.created_ms, *come.times_ms))
        present = sorted(ledgers[: number + 1], key=lambda one: one.ledger_id)
        true = {row for one in present for row in one.rows(start, end)}
        fresh = set(exported(topic, folder / f"fresh-{number}", **options))
        gone_on = exported(topic, folder / "out", **options)
        seen = in_views(folder / "bucket", folder / "cache", **options)
        assert fresh <= set(gone_on) <= true
        assert fresh <= set(seen) <= true
        ascend = all(before.created_ms < after.created_ms for before, after in pairwise(present))
        if count == 1 or not ascend:
            assert sorted(fresh) == gone_on == seen == sorted(true)

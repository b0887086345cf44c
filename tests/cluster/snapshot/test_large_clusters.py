"""Surveys of clusters of a hundred thousand topics stay small and quick; here of a fiftieth, from a dump."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.support.large_clusters import LEDGER_BYTES, MARK, Shape, write_large_dump

ROOT = Path(__file__).parents[3]
SMALL = Shape(topics=20, ledgers=10, bookies=20, missing=20, orphans=5)
"""What is read first, so that what is loaded and compiled once is not counted."""
SHAPE = Shape(topics=2_000, ledgers=10, bookies=200, missing=200, orphans=250)

PROGRAM = """
import resource, sys, time
from pathlib import Path
from ledgerfs_cluster.snapshot.surveying import survey_dump
from ledgerfs_cluster.snapshot.policies import BrokerDefaults
from ledgerfs_cluster.rules import cursors
from ledgerfs_cluster.rules.loss import under_replicated
from ledgerfs_cluster.check.suspects import suspects_of
from tests.cluster.support.retained import retained

def all_of(path):
    survey = survey_dump(Path(path), lambda *_: None)
    defaults = BrokerDefaults()
    now = survey.read_ms
    yield sum(int(one.ledgers.sizes[list(one.trim.going)].sum()) for one in retained(survey, defaults).values())
    yield sum(one.held_size for one in cursors.cursors(survey, defaults, now))
    suspects = suspects_of(survey, [], now, 0)
    yield suspects.unnamed.rows.size
    yield len({one for found in under_replicated(survey, suspects.missing_bookies) for one in found.ledger_ids})

small, large = sys.argv[1:]
list(all_of(small))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(*all_of(large), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
@pytest.mark.process
def test_a_million_ledgers_would_take_few_bytes_each(tmp_path: Path) -> None:
    paths = [tmp_path / "small.json.zst", tmp_path / "large.json.zst"]
    for path, shape in zip(paths, (SMALL, SHAPE), strict=True):
        write_large_dump(path, shape)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, check=True, cwd=ROOT)
    trimmed, held, orphans, under_replicated, grown_kib = map(int, done.stdout.split())
    assert trimmed == SHAPE.topics * (MARK + 1) * LEDGER_BYTES
    assert held == SHAPE.topics * (MARK + 1) * LEDGER_BYTES
    assert orphans == SHAPE.orphans
    assert under_replicated == SHAPE.nodes_of_ledgers
    # A ledger has 200 bytes of columns, and the objects of a part at a time; a million would be within 1 GiB.
    assert grown_kib < SHAPE.nodes_of_ledgers

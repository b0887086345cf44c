"""What is noted in a cluster is read, and what is no note is named, never taken for one."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.reading import Journal, read_journal
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState, build_trash_line
from ledgerfs.offload.attempts import Attempt, NotedAttempt
from tests.support.live_clusters import LiveCluster
from tests.support.living_clusters import living

UUID = "00112233-4455-6677-8899-aabbccddeeff"
NOTE = {"managed_ledger": "t/ns/persistent/x", "ledger_id": 5, "uuid": UUID, "bucket": "s3://tier", "began_ms": 7}
LINE = TrashLine(TrashKind.ORPHAN, 9, None, None, None, "why", 0, 1, 2, 3, TrashState.MARKED)


def read(folder: Path, *, made_ms: int = 1, **notes: bytes) -> Journal:
    """Return what is read of a cluster with nodes, by paths with ``lifecycle`` left out."""
    with LiveCluster(folder) as cluster:
        for name, data in notes.items():
            cluster.zookeeper.set(f"/ledgerfs/lifecycle/{name}", data, created_ms=made_ms)
        with living(cluster) as found:
            journal = read_journal(found.nodes)
        assert cluster.not_reads() == []
        return journal


def test_a_cluster_without_notes_has_none(tmp_path: Path) -> None:
    assert read(tmp_path) == Journal((), (), {})


def test_lines_and_attempts_are_read_also_with_keys_of_a_later_version(tmp_path: Path) -> None:
    attempt = json.dumps({**NOTE, "cleaned_ms": 0, "later": {}}).encode()
    notes = {f"trash/{LINE.node_name}": build_trash_line(LINE), f"attempts/{UUID}-ledger-5": attempt}
    assert read(tmp_path, **notes) == Journal(
        (NotedLine(LINE, 0),), (NotedAttempt(Attempt("t/ns/persistent/x", 5, UUID, "s3://tier", 7), 0),), {}
    )


def test_a_line_of_a_clock_that_was_behind_has_its_whole_grace(tmp_path: Path) -> None:
    grace_ms, made_ms = LINE.due_ms - LINE.marked_ms, 1_700_000_000_000
    (found,) = read(tmp_path, made_ms=made_ms, **{f"trash/{LINE.node_name}": build_trash_line(LINE)}).lines
    assert found == replace(LINE, marked_ms=made_ms, due_ms=made_ms + grace_ms)


def test_a_first_look_by_a_clock_that_was_behind_is_as_late_as_its_note(tmp_path: Path) -> None:
    began_ms, attempt = time.time_ns() // 1_000_000, Attempt(**NOTE).cleaned(8)
    (found,) = read(tmp_path, **{f"attempts/{UUID}-ledger-5": attempt.build()}).attempts
    assert found == replace(attempt, cleaned_ms=found.cleaned_ms)
    assert found.cleaned_ms >= began_ms


def test_notes_that_are_none_are_named(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        *({"ledger_id": 6}, {"uuid": "x"}, {"began_ms": None}, {"bucket": ...}, {"began_ms": float("inf")})
    ]
    notes = {f"trash/orphan-{LINE.ledger_id - 1}": build_trash_line(LINE)}
    for number, change in enumerate(changes):
        uuid = f"{number:08x}{UUID[8:]}"
        told = {name: value for name, value in {**NOTE, "uuid": uuid, **change}.items() if value is not ...}
        notes[f"attempts/{uuid}-ledger-5"] = json.dumps(told).encode()
    found = read(tmp_path, **notes)
    assert set(found.unreadable) == {f"/ledgerfs/lifecycle/{name}" for name in notes}
    assert (found.lines, found.attempts) == ((), ())

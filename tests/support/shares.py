"""Which tests run in one process when several processes share them: those of a file, and those that need Spark in three.

Tests of a file share what is made for the file. Those that share a Spark session are in one process, and more than three that start
Spark at a time are more than a small machine has memory for. A process takes the next share when it is done with one: the longest come
first, so that no process is left with one of them at the end.
"""

import random
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

SECONDS = {"spark": 8.0, "mount": 1.5, "long": 5.0, "fault": 2.0, "process": 1.5}
"""What a test with such a mark takes about; one with several takes the most of them."""
OTHERS = 0.1
SESSIONS_OF_THEIR_OWN = ("test_daemon.py", "test_standalone_cluster.py", "test_spark_commands.py")


class Shares(LoadFileScheduling):
    """How xdist shares tests out."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # by numbers of tests
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file.endswith(SESSIONS_OF_THEIR_OWN):
            return "sessions of their own"
        return "tests/spark" if file.startswith("tests/spark/") else file


def in_order(items: list[pytest.Item], seed: str | None, *, longest_first: bool) -> None:
    """Sort the items in place: shuffled inside their files by a seed, and files by what their marks say they take."""
    if seed is not None:
        random.Random(seed).shuffle(items)
        items.sort(key=lambda item: str(item.path))
    if longest_first:
        seconds: dict[object, float] = {}
        for item in items:
            taken = max((SECONDS[mark.name] for mark in item.iter_markers() if mark.name in SECONDS), default=OTHERS)
            seconds[item.path] = seconds.get(item.path, 0.0) + taken
        items.sort(key=lambda item: -seconds[item.path])

"""Which tests run in one process when several processes share them: those of a file, and all that need Spark in two.

Tests of a file share what is made for the file. Those of ``tests/spark`` share a session, and more than two that start Spark at a time are
more than a small machine has memory for. A process takes the next share when it is done with one, in the order of the items, so what takes
long has to come first: `longest_first`.
"""

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.needs import FOLDERS

LONG = ("spark", "mount", "fault", "process", "long")


class Shares(LoadFileScheduling):
    """How xdist shares tests out."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file.startswith("tests/spark/"):
            return "tests/spark"
        return "others that start Spark" if FOLDERS.get(file) == "spark" else file


def longest_first(items: list[pytest.Item]) -> None:
    """Sort the items: files with tests that take long, as their marks tell, before others, and else as they were."""
    ranks: dict[object, int] = {}
    for item in items:
        rank = min((LONG.index(mark.name) for mark in item.iter_markers() if mark.name in LONG), default=len(LONG))
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: ranks[item.path])

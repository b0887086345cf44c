"""Nodes of ZooKeeper in the golden sets, and what the brokers said of the same topics beside them."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DBLEDGER = Path(__file__).parents[2] / "data" / "managed_ledgers" / "bookie-dbledger.json"


@dataclass(frozen=True, slots=True)
class GoldenNodes:
    """The nodes of one cluster by path, and ``internalStats`` by topic.

    A broker was started between the two, which gave each topic another open ledger.
    """

    nodes: dict[str, bytes]
    stats: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, folder: Path) -> "GoldenNodes":
        """Return those of an unpacked golden set."""
        stats = json.loads((folder / "stats.json").read_text())
        return cls(_decoded(json.loads((folder / "metadata.json").read_text())), {k: v for k, v in stats.items() if v})

    @classmethod
    def of_dbledger(cls) -> "GoldenNodes":
        """Return an excerpt of the set ``bookie-dbledger``."""
        excerpt = json.loads(_DBLEDGER.read_text())
        return cls(_decoded(excerpt["nodes"]), excerpt["stats"])


def _decoded(nodes: dict[str, str]) -> dict[str, bytes]:
    return {path: base64.b64decode(value) for path, value in nodes.items()}

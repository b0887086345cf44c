"""Writing a dump of a cluster: its nodes as they are read, with what bookies tell."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ledgerfs_cluster.formats.managed_ledgers.node_kinds import managed_ledger_at
from ledgerfs_cluster.snapshot.answers import Answer, BookieReads, SchemaAnswer
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader, DumpWriter, new_private_file
from ledgerfs_cluster.snapshot.questions import Questions
from ledgerfs_cluster.snapshot.survey_builder import SurveyBuilder
from ledgerfs_cluster.snapshot.surveying import Progress, take_all
from ledgerfs_cluster.snapshot.walk import PARTS, Walk
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster
from ledgerfs_cluster.zookeeper.node import Node


@dataclass(frozen=True, slots=True)
class Dumped:
    """A dump that was written: its nodes and bytes, and when it was begun, ms since 1970 UTC.

    ``troubles`` is how many questions to bookies have no answer; ``lost_schemas`` tells those of them that were about schemas.
    """

    nodes: int
    troubles: int
    lost_schemas: tuple[str, ...]
    size: int
    began_ms: int


def dump_cluster(cluster: LivingCluster, bookies: BookieReads | None, path: Path, progress: Progress) -> Dumped:
    """Write a dump to a file that only its owner can read; whatever ends this leaves none. Nothing is written to the cluster.

    Raises as `ledgerfs_cluster.snapshot.dump_file.new_private_file` and `ledgerfs_cluster.snapshot.surveying.survey_cluster`.
    """
    with new_private_file(path) as file:
        return _Dump(cluster, bookies, file, progress).run()


class _Dump:
    """One dump under way."""

    def __init__(self, cluster: LivingCluster, bookies: BookieReads | None, file: BinaryIO, progress: Progress) -> None:
        self._cluster = cluster
        self._bookies = bookies
        self._file = file
        self._progress = progress
        self._builder = SurveyBuilder(cluster.reading.ledgers_path)
        self._topics: set[str] = set()
        self._lost_schemas: list[str] = []
        self._nodes = self._troubles = 0
        self._writer = DumpWriter(file)

    def run(self) -> Dumped:
        """Read and write everything."""
        began_ms, nodes, path = _now(), self._cluster.nodes, self._cluster.reading.ledgers_path
        self._writer.write(DumpHeader(self._cluster.url, path, began_ms))
        walk = Walk(nodes, path)
        for part in PARTS:
            self._take_all(f"reading {part}", walk.part(part))
        # A list that is read after all ledgers may name one that was made in between; without its node nobody could read from bookies'
        # disks what was acknowledged in it.
        self._take_all("reading new topics", walk.new_topics(self._topics))
        self._take_all("reading new ledgers", walk.named_ledgers(self._builder.unread_ledgers()))
        questions = Questions(self._builder, nodes, self._bookies, path)
        self._take_all("asking bookies", questions.answers(), len(questions))
        self._take_all("asking for schemas", questions.schemas())
        self._writer.write(DumpEnd(self._nodes, _now()))
        self._writer.flush()
        return Dumped(self._nodes, self._troubles, tuple(self._lost_schemas), self._file.tell(), began_ms)

    def _take_all(self, what: str, some: Iterable[Node | Answer | SchemaAnswer], total: int | None = None) -> None:
        take_all(some, self._take, what, self._progress, total)

    def _take(self, record: Node | Answer | SchemaAnswer) -> None:
        self._writer.write(record)
        if isinstance(record, Node):
            self._nodes += 1
            if managed_ledger_at(record.path, record.data) is not None:
                self._topics.add(record.path)
            self._builder.take(record)
            return
        self._troubles += record.trouble is not None
        if not isinstance(record, SchemaAnswer):
            self._builder.answer(record)
        elif record.trouble is not None:
            self._lost_schemas.append(record.trouble)


def _now() -> int:
    return time.time_ns() // 1_000_000

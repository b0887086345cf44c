"""Writing a dump of a cluster: its nodes as they are read, with what bookies tell; begun again, it goes on where it ended."""

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ledgerfs.clusters.answers import Answer, BookieReads, SchemaAnswer
from ledgerfs.clusters.dump_file import DumpEnd, DumpHeader, DumpWriter, PartDone, Record, read_partial
from ledgerfs.clusters.questions import Questions
from ledgerfs.clusters.survey_builder import SurveyBuilder
from ledgerfs.clusters.surveying import Progress, take_all
from ledgerfs.clusters.walk import LEDGERS, PARTS, Walk
from ledgerfs.errors import InvalidOptionError, LedgerfsError, ObjectExistsError
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_id_at
from ledgerfs.formats.managed_ledgers.node_kinds import managed_ledger_at
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster
from ledgerfs.storage.zookeeper.node import Node

SUFFIX = ".partial"
"""What a dump's name ends with until it is finished."""


@dataclass(frozen=True, slots=True)
class Dumped:
    """A finished dump: its nodes, those that an earlier run had read, and when that began, ms since 1970 UTC; None for no such run.

    ``began_ms`` is when the dump was begun, by whichever run.
    ``troubles`` is how many questions to bookies have no answer; ``lost_schemas`` tells those of them that were about schemas.
    """

    path: Path
    nodes: int
    nodes_before: int
    began_before_ms: int | None
    troubles: int
    lost_schemas: tuple[str, ...]
    size: int
    began_ms: int


def partial_path(path: Path) -> Path:
    """Return where a dump is until it is finished."""
    return path.with_name(path.name + SUFFIX)


def dump_cluster(cluster: LivingCluster, bookies: BookieReads | None, path: Path, progress: Progress) -> Dumped:
    """Write a dump to a file that only its owner can read, since nodes have passwords; nothing is written to the cluster.

    Whatever ends this leaves what was read beside ``path``, and the next call goes on from there.

    Raises `ObjectExistsError` if there is such a file, `InvalidOptionError` if it cannot be written, or if what an earlier call left is of
    another cluster, and the errors of `ledgerfs.clusters.surveying.survey_cluster`.
    """
    if path.exists():
        raise ObjectExistsError("the file is there already", key=str(path))
    partial = partial_path(path)
    with _locked(partial) as file:
        dump = _Dump(cluster, bookies, file, progress)
        began_before = dump.begin(str(partial))
        nodes_before = dump.nodes
        try:
            dump.go_on()
        finally:
            dump.writer.flush()
        os.fsync(file.fileno())
        size = file.tell()
        os.rename(partial, path)  # noqa: PTH104  (over the lock of the same file)
    return Dumped(
        path, dump.nodes, nodes_before, began_before, dump.troubles, tuple(dump.lost_schemas), size, dump.began_ms
    )


class _Dump:
    """One dump under way."""

    def __init__(self, cluster: LivingCluster, bookies: BookieReads | None, file: BinaryIO, progress: Progress) -> None:
        self._cluster = cluster
        self._bookies = bookies
        self._file = file
        self._progress = progress
        self._builder = SurveyBuilder(cluster.reading.ledgers_path)
        self._done: set[str] = set()
        self._paths: set[str] = set()
        self._ids: set[int] = set()
        self._schemas: set[tuple[str, int]] = set()
        self._topics: set[str] = set()
        self.lost_schemas: list[str] = []
        self.began_ms = _now()
        self.nodes = 0
        self.troubles = 0
        self.writer = DumpWriter(file)

    def __contains__(self, path: object) -> bool:
        """Whether an earlier run has read a node."""
        ledger_id = ledger_id_at(str(path), self._cluster.reading.ledgers_path)
        return path in self._paths if ledger_id is None else ledger_id in self._ids

    def begin(self, name: str) -> int | None:
        """Take what an earlier run has written, and return when that began; begin the file if there is nothing."""
        began: int | None = None
        for record in read_partial(self._file, name):
            if isinstance(record, DumpHeader):
                self._require_same(record, name)
                began = self.began_ms = record.began_ms
            self._take_again(record)
        self._file.truncate()
        if began is None:
            self.writer.write(DumpHeader(self._cluster.url, self._cluster.reading.ledgers_path, self.began_ms))
            # A file that does not begin so would be nothing to go on with.
            self.writer.flush()
        return began

    def go_on(self) -> None:
        """Read and write what is lacking."""
        walk = Walk(self._cluster.nodes, self._cluster.reading.ledgers_path, self)
        for part in PARTS:
            if part in self._done:
                continue
            self._take_all(f"reading {part}", walk.part(part))
            self.writer.write(PartDone(part, _now()))
            if part == LEDGERS:
                self._ids.clear()
        self._read_what_came_meanwhile(walk)
        self._ask()
        self.writer.write(DumpEnd(self.nodes, _now()))

    def _read_what_came_meanwhile(self, walk: Walk) -> None:
        """Read the topics, and the ledgers that any node names, that were made after their part of the walk had passed them.

        A list that is read after all ledgers may name one of them that was made in between; without its node nobody could read from
        bookies' disks what was acknowledged in it.
        """
        self._take_all("reading new topics", walk.new_topics(self._topics))
        self._take_all("reading new ledgers", walk.named_ledgers(self._builder.unread_ledgers()))

    def _ask(self) -> None:
        questions = Questions(self._builder, self._cluster.nodes, self._bookies, self._cluster.reading.ledgers_path)
        self._take_all("asking bookies", questions.answers(), len(questions))
        self._take_all("asking for schemas", questions.schemas(frozenset(self._schemas)))

    def _take_all(self, what: str, some: Iterable[Node | Answer | SchemaAnswer], total: int | None = None) -> None:
        take_all(some, self._take, what, self._progress, total)

    def _take(self, record: Node | Answer | SchemaAnswer) -> None:
        self.writer.write(record)
        self._know(record)

    def _know(self, record: Node | Answer | SchemaAnswer) -> None:
        if isinstance(record, Node):
            self.nodes += 1
            if managed_ledger_at(record.path, record.data) is not None:
                self._topics.add(record.path)
            self._builder.take(record)
            return
        self.troubles += record.trouble is not None
        if not isinstance(record, SchemaAnswer):
            self._builder.answer(record)
        elif record.trouble is not None:
            self.lost_schemas.append(record.trouble)

    def _take_again(self, record: Record) -> None:
        if isinstance(record, PartDone):
            self._done.add(record.name)
        elif isinstance(record, Node | Answer | SchemaAnswer):
            if isinstance(record, SchemaAnswer):
                self._schemas.add((record.name, record.version))
            elif isinstance(record, Node):
                ledger_id = ledger_id_at(record.path, self._cluster.reading.ledgers_path)
                if ledger_id is None:
                    self._paths.add(record.path)
                else:
                    self._ids.add(ledger_id)
            self._know(record)

    def _require_same(self, header: DumpHeader, name: str) -> None:
        if (header.cluster, header.ledgers_path) != (self._cluster.url, self._cluster.reading.ledgers_path):
            reason = f"an unfinished dump of {header.cluster} is here; go on with that, or delete it"
            raise InvalidOptionError(reason, key=name)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading and writing, for one process; raises `InvalidOptionError`."""
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
    except OSError as error:
        raise InvalidOptionError(f"the dump cannot be written: {error.strerror}", key=str(path)) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InvalidOptionError("another process is writing this dump", key=str(path)) from error
        try:
            yield file
        except LedgerfsError:
            raise
        except OSError as error:
            raise InvalidOptionError(f"the dump cannot be written: {error.strerror}", key=str(path)) from error


def _now() -> int:
    return time.time_ns() // 1_000_000

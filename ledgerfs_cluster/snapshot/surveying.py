"""Read a cluster once, its nodes and then its bookies, into a snapshot, a second check, or a dump."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from ledgerfs.errors import AccessDeniedError, CorruptObjectError, LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_path, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.names import COMPACTION, cursor_of, managed_ledger_of
from ledgerfs_cluster.snapshot.answers import (
    Answer,
    BookieReads,
    CursorAnswer,
    EventLedgers,
    LastEnd,
    LedgerEndAnswer,
    SchemaAnswer,
    TopicPoliciesAnswer,
)
from ledgerfs_cluster.snapshot.dump_file import DumpEnd, DumpHeader, DumpWriter, new_private_file
from ledgerfs_cluster.snapshot.kept_dumps import read_dump_at
from ledgerfs_cluster.snapshot.policies import answer_of
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.survey_builder import EventPlaces, SurveyBuilder
from ledgerfs_cluster.snapshot.walk import BOOKIES, PARTS, SCHEMAS_PART, TOPICS, Walk
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster
from ledgerfs_cluster.zookeeper.node import Node

Progress = Callable[[str, int, int | None], None]
"""Called with a description of the work, the amount done, and the total if known."""

_EVERY = 256
"""Records after which progress is reported."""
_TOGETHER = 1024
"""Ledgers per request to bookies: their metadata is in memory meanwhile."""
_Record = Node | Answer | SchemaAnswer
_Key = TypeVar("_Key")
_Found = TypeVar("_Found")


def survey_cluster(
    cluster: LivingCluster,
    bookies: BookieReads | None,
    progress: Progress,
    parts: Sequence[str] = PARTS,
) -> Survey:
    """Read a cluster, or only some of its `PARTS`; read-only.

    Without ``bookies`` only ZooKeeper is read: ends of open ledgers are unknown, and cursors have the state in their nodes.

    Raises `BucketNotFoundError` if the servers have no ledgers, `AccessDeniedError` for a node without read permission, and
    `StoreUnreachableError`.
    """
    reading = _Reading(cluster, bookies, progress)
    reading.take_parts(parts)
    # Policies of topics cannot be read without schemas.
    reading.take_answers(with_policies=SCHEMAS_PART in parts)
    return reading.survey()


def look_again(
    cluster: LivingCluster,
    ledger_ids: Int64,
    bookies: BookieReads | None,
    progress: Progress,
) -> Survey:
    """Return a snapshot of some ledgers, and all topics, subscriptions, schemas, and bookies; without policies and bundle owners.

    In this order a ledger that is missing now was trimmed, or is lost if its list still contains it; and a ledger that exists now and has
    no owner afterwards is an orphan, since its creator had the time between the two checks to reference it.

    Raises as `survey_cluster`.
    """
    # A server that is behind could show the second check the same old state as the first one.
    cluster.nodes.catch_up()
    reading = _Reading(cluster, bookies, progress)
    reading.take("reading ledgers again", reading.walk.named_ledgers(ledger_ids.tolist()))
    reading.take_parts((TOPICS, SCHEMAS_PART, BOOKIES), " again")
    reading.take("reading from bookies again", reading.cursors(COMPACTION))
    return reading.survey()


@dataclass(frozen=True, slots=True)
class Dumped:
    """A written dump: its nodes and bytes, and its beginning, ms since 1970 UTC.

    ``troubles`` are the reasons of unanswered requests to bookies.
    """

    nodes: int
    troubles: list[str]
    size: int
    began_ms: int


def dump_cluster(cluster: LivingCluster, bookies: BookieReads | None, path: Path, progress: Progress) -> Dumped:
    """Write a dump to a file that only its owner can read; an error or Ctrl-C leaves no file. Reads only from the cluster.

    Raises as `ledgerfs_cluster.snapshot.dump_file.new_private_file` and `survey_cluster`.
    """
    topics: set[str] = set()
    troubles: list[str] = []
    nodes = 0

    def keep(record: _Record) -> None:
        nonlocal nodes
        writer.write(record)
        if not isinstance(record, Node):
            troubles.extend(filter(None, [record.trouble]))
            return
        nodes += 1
        if managed_ledger_of(record.path) is not None:
            topics.add(record.path)

    with new_private_file(path) as file:
        writer = DumpWriter(file)
        reading = _Reading(cluster, bookies, progress, keep)
        writer.write(DumpHeader(cluster.url, reading.path, reading.began_ms))
        reading.take_parts(PARTS)
        # A list that is read after all ledgers may contain one that was created in between; without its node, its acknowledged entries
        # could not be read from bookies' disks.
        reading.take("reading new topics", reading.walk.new_topics(topics))
        reading.take("reading new ledgers", reading.walk.named_ledgers(reading.builder.unread_ledgers()))
        reading.take_answers()
        reading.take("reading schemas", reading.schemas())
        writer.write(DumpEnd(nodes, _now()))
        writer.flush()
        return Dumped(nodes, troubles, file.tell(), reading.began_ms)


def survey_dump(place: Path | str, progress: Progress, storage_options: Mapping[str, Any] | None = None) -> Survey:
    """Read a dump, a file or one stored beside a bucket; raises as `ledgerfs_cluster.snapshot.kept_dumps.read_dump_at`."""
    builder, began_ms, ended_ms = SurveyBuilder(), 0, 0
    for done, record in enumerate(read_dump_at(str(place), storage_options)):
        if isinstance(record, DumpHeader):
            builder, began_ms = SurveyBuilder(record.ledgers_path), record.began_ms
        elif isinstance(record, DumpEnd):
            ended_ms = record.ended_ms
        else:
            builder.take(record)
        if done % (4 * _EVERY) == 0:
            progress("reading the dump", done, None)
    return builder.survey(str(place), ended_ms, began_ms)


class _Reading:
    """One cluster, read part by part, for a builder and for ``keep``. Ledger metadata are read again for requests to bookies.

    All methods that yield answers raise the errors of ZooKeeper; errors of bookies are answers with a ``trouble``.
    """

    def __init__(
        self,
        cluster: LivingCluster,
        bookies: BookieReads | None,
        progress: Progress,
        keep: Callable[[_Record], None] | None = None,
    ) -> None:
        self.path = cluster.reading.ledgers_path
        self.began_ms = _now()
        self.builder = SurveyBuilder(self.path)
        self.walk = Walk(cluster.nodes, self.path)
        self._cluster = cluster
        self._bookies = bookies
        self._progress = progress
        self._keep = keep

    def take(self, what: str, records: Iterable[_Record]) -> None:
        """Add records as they arrive, and report progress."""
        done = 0
        for done, record in enumerate(records, 1):
            if self._keep is not None:
                self._keep(record)
            self.builder.take(record)
            if done % _EVERY == 0:
                self._progress(what, done, None)
        self._progress(what, done, done)

    def take_parts(self, parts: Iterable[str], again: str = "") -> None:
        """Add the nodes of some parts."""
        for part in parts:
            self.take(f"reading {part}{again}", self.walk.part(part))

    def take_answers(self, *, with_policies: bool = True) -> None:
        """Add the answers of bookies: ends of topics, cursors, policies of topics."""
        # Cursor states come first: they reference the compacted ledgers of events.
        self.take(
            "reading from bookies", chain(self._ends(), self.cursors(), self._policies() if with_policies else ())
        )

    def survey(self) -> Survey:
        """Return the snapshot of everything that was added."""
        return self.builder.survey(self._cluster.url, _now(), self.began_ms)

    def _ends(self) -> Iterator[Answer]:
        bookies = self._bookies

        def ends(asked: list[tuple[int, LedgerNode]]) -> Iterator[LedgerEndAnswer | LedgerfsError | None]:
            still_open = [node for _, node in asked if not node.is_closed]
            reported = iter(bookies.ends(still_open) if bookies is not None and still_open else ())
            for ledger_id, node in asked:
                if node.is_closed:
                    yield LedgerEndAnswer(ledger_id, LastEnd.CLOSED, node.last_entry + 1, node.length)
                else:
                    end = next(reported, None)
                    yield LedgerEndAnswer(ledger_id, LastEnd.OPEN, *end) if isinstance(end, tuple) else end

        for ledger_id, found in self._found(((one, one) for one in self.builder.open_ledgers()), ends):
            if isinstance(found, ObjectNotFoundError):
                yield LedgerEndAnswer(ledger_id, LastEnd.GONE)
            elif isinstance(found, LedgerfsError):
                yield LedgerEndAnswer(ledger_id, LastEnd.UNKNOWN, trouble=str(found))
            elif found is not None:
                yield found

    def cursors(self, name: str | None = None) -> Iterator[Answer]:
        """Yield the answers about cursors, with one name or all."""
        bookies = self._bookies
        if bookies is None:
            return
        wanted = (
            one for one in self.builder.stale_cursors() if name is None or (cursor_of(one[0]) or ("", ""))[1] == name
        )
        for path, found in self._found(wanted, lambda asked: bookies.last_entries([node for _, node in asked])):
            if isinstance(found, LedgerfsError):
                yield CursorAnswer(path, None, f"{path}: its position may be out of date: {found}")
            else:
                yield CursorAnswer(path, found)

    def schemas(self) -> Iterator[SchemaAnswer]:
        """Yield BookKeeper's entry of each version of each schema."""
        bookies = self._bookies
        if bookies is None:
            return
        wanted = ((one, one.ledger_id) for one in self.builder.schema_places())
        for place, found in self._found(
            wanted, lambda asked: bookies.entries([(node, place.entry_id) for place, node in asked])
        ):
            if isinstance(found, LedgerfsError):
                reason = f"schema version {place.version} of {place.name}: {found}"
                yield SchemaAnswer(place.name, place.version, None, reason)
            else:
                yield SchemaAnswer(place.name, place.version, found)

    def _policies(self) -> Iterator[Answer]:
        """Yield the policies of each namespace's topics; complete or unknown."""
        if self._bookies is not None:
            for places in self.builder.event_places():
                yield self._policies_at(self._bookies, places)

    def _policies_at(self, bookies: BookieReads, places: EventPlaces) -> Answer:
        count = len(places.compacted)
        nodes = list(self._ledgers([*places.compacted, *places.ledger_ids]))
        trouble = places.trouble or next((str(one) for one in nodes if isinstance(one, LedgerfsError)), None)
        versions = [
            (place.version, node, place.entry_id)
            for place, node in zip(
                places.schemas, self._ledgers([one.ledger_id for one in places.schemas]), strict=True
            )
            if isinstance(node, LedgerNode)
        ]
        if trouble is None:
            there = [one for one in nodes if isinstance(one, LedgerNode)]
            found = bookies.last_events(EventLedgers(places.topic, there[:count], there[count:], versions))
            try:
                if not isinstance(found, LedgerfsError):
                    return answer_of(places.namespace, found)
            except CorruptObjectError as error:
                found = error
            trouble = str(found)
        return TopicPoliciesAnswer(places.namespace, {}, f"topic policies of namespace {places.namespace}: {trouble}")

    def _found(
        self,
        wanted: Iterable[tuple[_Key, int]],
        ask: Callable[[list[tuple[_Key, LedgerNode]]], Iterable[_Found | LedgerfsError]],
    ) -> Iterator[tuple[_Key, _Found | LedgerfsError]]:
        """Yield the bookies' answer for each key, or the reason if there is none; ``ask`` gets the keys whose ledgers exist."""
        rest = iter(wanted)
        while part := list(islice(rest, _TOGETHER)):
            asked: list[tuple[_Key, LedgerNode]] = []
            for (key, _), node in zip(part, self._ledgers([ledger_id for _, ledger_id in part]), strict=True):
                if isinstance(node, LedgerNode):
                    asked.append((key, node))
                else:
                    yield key, node
            if asked:
                yield from zip((key for key, _ in asked), ask(asked), strict=True)

    def _ledgers(self, ids: Sequence[int]) -> Iterator[LedgerNode | LedgerfsError]:
        """Yield the metadata of ledgers, or the error: missing, damaged, or not readable."""
        found = self._cluster.nodes.get_many(ledger_path(one, self.path) for one in ids)
        for ledger_id, node in zip(ids, found, strict=True):
            if isinstance(node, Node):
                try:
                    yield parse_ledger_node(node.data, ledger_id, key=node.path)
                except CorruptObjectError as error:
                    yield error
            elif isinstance(node, ObjectNotFoundError):
                yield ObjectNotFoundError(f"ledger {ledger_id} is not in BookKeeper", key=node.key)
            elif isinstance(node, AccessDeniedError):
                yield node
            else:
                raise node


def _now() -> int:
    return time.time_ns() // 1_000_000

"""What a survey has to ask bookies, since ZooKeeper does not know it: ends of topics, cursors, policies of topics, schemas."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from ledgerfs.errors import AccessDeniedError, CorruptObjectError, LedgerfsError, ObjectNotFoundError
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_path, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_of
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
from ledgerfs_cluster.snapshot.policies import answer_of
from ledgerfs_cluster.snapshot.survey_builder import EventPlaces, SchemaPlace, SurveyBuilder
from ledgerfs_cluster.zookeeper.nodes import Node, NodeReader

One = TypeVar("One")

_TOGETHER = 1024
"""Ledgers that are asked for at once: their metadata is in memory meanwhile."""


class Questions:
    """Asks what a builder does not know yet. The metadata of ledgers is read anew, since ledgers may have been closed meanwhile.

    Parameters
    ----------
    bookies
        None to ask ZooKeeper alone: ends of open ledgers stay unknown, and cursors as they are in their nodes.
    has_schemas
        Whether the builder was given schemas: without them nobody can read policies of topics, and they are not asked for.

    """

    __slots__ = ("_bookies", "_builder", "_has_schemas", "_ledgers_path", "_nodes")

    def __init__(
        self,
        builder: SurveyBuilder,
        nodes: NodeReader,
        bookies: BookieReads | None,
        ledgers_path: str = "/ledgers",
        *,
        has_schemas: bool = True,
    ) -> None:
        self._has_schemas = has_schemas
        self._builder = builder
        self._nodes = nodes
        self._bookies = bookies
        self._ledgers_path = ledgers_path

    def __len__(self) -> int:
        """How many answers are lacking."""
        if self._bookies is None:
            return len(self._builder.open_ledgers())
        cursors = sum(1 for _ in self._builder.stale_cursors())
        policies = len(self._builder.namespaces_to_read()) if self._has_schemas else 0
        return len(self._builder.open_ledgers()) + cursors + policies

    def answers(self) -> Iterator[Answer]:
        """Yield all answers; raises the errors of ZooKeeper, while those of bookies are answers with `trouble`."""
        for ledger_ids in _parts(self._builder.open_ledgers()):
            yield from self._ends(ledger_ids)
        yield from self.cursors()
        if self._bookies is not None:
            # Whether there is a compacted ledger of events is known of cursors' states only.
            for places in self._builder.event_places() if self._has_schemas else ():
                yield self._policies(self._bookies, places)

    def cursors(self, name: str | None = None) -> Iterator[Answer]:
        """Yield the answers about cursors alone, those of one name or all; raises as `answers`."""
        if self._bookies is None:
            return
        stale = self._builder.stale_cursors()
        wanted = [one for one in stale if name is None or (cursor_of(one[0]) or ("", ""))[1] == name]
        for cursors in _parts(wanted):
            yield from self._cursors(self._bookies, cursors)

    def schemas(self) -> Iterator[SchemaAnswer]:
        """Yield what BookKeeper has of each version of each schema; raises as `answers`."""
        if self._bookies is None:
            return
        for part in _parts(self._builder.schema_places()):
            yield from self._schemas(self._bookies, part)

    def _schemas(self, bookies: BookieReads, places: Sequence[SchemaPlace]) -> Iterator[SchemaAnswer]:
        asked: list[tuple[SchemaPlace, LedgerNode]] = []
        for place, node in zip(places, self._read(one.ledger_id for one in places), strict=True):
            if isinstance(node, LedgerNode):
                asked.append((place, node))
            else:
                yield _schema_trouble(place, node or f"ledger {place.ledger_id} is not in BookKeeper (any more)")
        entries = bookies.entries([(node, place.entry_id) for place, node in asked])
        for (place, _), entry in zip(asked, entries, strict=True):
            if isinstance(entry, LedgerfsError):
                yield _schema_trouble(place, str(entry))
            else:
                yield SchemaAnswer(place.name, place.version, entry)

    def _ends(self, ledger_ids: Sequence[int]) -> Iterator[Answer]:
        still_open: list[LedgerNode] = []
        for ledger_id, node in zip(ledger_ids, self._read(ledger_ids), strict=True):
            if node is None:
                yield LedgerEndAnswer(ledger_id, LastEnd.GONE)
            elif isinstance(node, str):
                yield LedgerEndAnswer(ledger_id, LastEnd.UNKNOWN, trouble=node)
            elif node.is_closed:
                yield LedgerEndAnswer(ledger_id, LastEnd.CLOSED, node.last_entry + 1, node.length)
            elif self._bookies is not None:
                still_open.append(node)
        if self._bookies is None or not still_open:
            return
        for node, end in zip(still_open, self._bookies.ends(still_open), strict=True):
            if isinstance(end, LedgerfsError):
                yield LedgerEndAnswer(node.ledger_id, LastEnd.UNKNOWN, trouble=str(end))
            else:
                yield LedgerEndAnswer(node.ledger_id, LastEnd.OPEN, *end)

    def _cursors(self, bookies: BookieReads, cursors: Sequence[tuple[str, int]]) -> Iterator[Answer]:
        asked: list[tuple[str, LedgerNode]] = []
        for (path, ledger_id), node in zip(cursors, self._read([one for _, one in cursors]), strict=True):
            if node is None:
                yield CursorAnswer(path, None, f"{path}: its ledger {ledger_id} is gone; its position may be old")
            elif isinstance(node, str):
                yield CursorAnswer(path, None, node)
            else:
                asked.append((path, node))
        for (path, _), entry in zip(asked, bookies.last_entries([node for _, node in asked]), strict=True):
            if isinstance(entry, LedgerfsError):
                yield CursorAnswer(path, None, f"{path}: its position may be old: {entry}")
            else:
                yield CursorAnswer(path, entry)

    def _policies(self, bookies: BookieReads, places: EventPlaces) -> Answer:
        """Ask for the policies of a namespace's topics; all of them are known, or none."""
        trouble, ids = places.trouble, [*places.compacted, *places.ledger_ids]
        told = dict(zip(ids, self._read(ids), strict=True))
        there = {one: node for one, node in told.items() if isinstance(node, LedgerNode)}
        for ledger_id in (one for one in ids if one not in there):
            trouble = trouble or str(told[ledger_id] or f"ledger {ledger_id} of its events is gone")
        versions = [
            (place.version, node, place.entry_id)
            for place, node in zip(places.schemas, self._read(one.ledger_id for one in places.schemas), strict=True)
            if isinstance(node, LedgerNode)
        ]
        if trouble is None:
            compacted, ledgers = ([there[one] for one in some] for some in (places.compacted, places.ledger_ids))
            found = bookies.last_events(EventLedgers(places.topic, compacted, ledgers, versions))
            try:
                if not isinstance(found, LedgerfsError):
                    return answer_of(places.namespace, found)
            except CorruptObjectError as error:
                found = error
            trouble = str(found)
        return TopicPoliciesAnswer(places.namespace, {}, f"policies of topics of {places.namespace}: {trouble}")

    def _read(self, ledger_ids: Iterable[int]) -> Iterator[LedgerNode | str | None]:
        """Yield the metadata of ledgers: None of one that is gone, and what is wrong with one that is damaged or may not be read."""
        ids = list(ledger_ids)
        paths = [ledger_path(one, self._ledgers_path) for one in ids]
        for ledger_id, node in zip(ids, self._nodes.get_many(paths), strict=True):
            if isinstance(node, ObjectNotFoundError):
                yield None
            elif isinstance(node, Node):
                try:
                    yield parse_ledger_node(node.data, ledger_id, key=node.path)
                except CorruptObjectError as error:
                    yield str(error)
            elif isinstance(node, AccessDeniedError):
                yield str(node)
            else:
                raise node


def _schema_trouble(place: SchemaPlace, reason: str) -> SchemaAnswer:
    return SchemaAnswer(place.name, place.version, None, f"schema version {place.version} of {place.name}: {reason}")


def _parts(many: Iterable[One]) -> Iterator[list[One]]:
    left = iter(many)
    while part := list(islice(left, _TOGETHER)):
        yield part

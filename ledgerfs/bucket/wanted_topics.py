"""Select topics of a bucket by name or by a pattern."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ledgerfs.bucket.near_topics import nearest_names
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.missing_ledgers import being_written_text
from ledgerfs.catalog.partitioned_names import partitions_of
from ledgerfs.errors import InvalidNameError, InvalidOptionError, NotFoundError
from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.topic_names import UNKNOWN_DIRECTORY, managed_ledger_of, topic_of


@dataclass(frozen=True, slots=True)
class NamedTopic:
    """A topic by its name: a managed ledger, or with ``is_partitioned`` all partitions of that name (`partitions_of`)."""

    managed_ledger: str | None
    is_partitioned: bool = False

    def managed_ledgers(self, catalog: Catalog) -> list[str | None]:
        """Return its managed ledger, or those of its partitions, by number."""
        if not self.is_partitioned or self.managed_ledger is None:
            return [self.managed_ledger]
        return [*partitions_of(catalog, self.managed_ledger)]

    def warned_of(self, catalog: Catalog) -> list[str | None]:
        """Return the same and the name itself, since a first ledger of exactly that name may be under way."""
        return list(dict.fromkeys([self.managed_ledger, *self.managed_ledgers(catalog)]))


def wanted_ledgers(catalog: Catalog, topics: Sequence[str] | str | None = None, pattern: str | None = None) -> Mask:
    """Return a mask of the catalog's rows that are ledgers of some topics, each ledger once.

    Parameters
    ----------
    catalog
        The bucket's.
    topics
        Names, or one name, as for `named_topic`; a partitioned topic's name selects all its partitions. None for all topics.
    pattern
        A regular expression that the whole name (``persistent://…``, or without that) must match; instead of ``topics``.

    Raises
    ------
    NotFoundError
        A topic without ledgers in the bucket; no topic matches.
    InvalidNameError
        An invalid name.
    InvalidOptionError
        Both are given; an empty list of names; an invalid regular expression.

    """
    is_wanted: Mask = catalog.ledgers["copy"] == 0
    if topics is None and pattern is None:
        return is_wanted
    names = wanted_names(catalog, topics, pattern)
    is_named = np.array([name in names for name in catalog.names], bool)
    is_wanted &= is_named[catalog.ledgers["name"]]
    return is_wanted


def wanted_names(
    catalog: Catalog, topics: Sequence[str] | str | None = None, pattern: str | None = None
) -> set[str | None]:
    """Return the managed ledgers of `wanted_ledgers`, including those whose ledgers are all missing or being written; raises as it."""
    if topics is None and pattern is None:
        return set(catalog.known_names)
    if topics is not None and pattern is not None:
        raise InvalidOptionError("pass either topics or a pattern of topic names, not both", key=pattern)
    if topics is None:
        return _matching(catalog, pattern or "")
    if not topics:
        raise InvalidOptionError(
            "the list of topics is empty; leave it out to select all topics", key=f"topics={topics!r}"
        )
    return _named(catalog, [topics] if isinstance(topics, str) else topics)


def named_topic(catalog: Catalog, name: str) -> NamedTopic:
    """Return the topic of this name: the one with ledgers of exactly that name, otherwise the partitioned one.

    The name may also be that of a managed ledger outside of all topics; a topic takes precedence. Raises `NotFoundError`, with the nearest
    names, the ledgers that are being written, and the number of those of unknown topic, and `InvalidNameError`.
    """
    if name == UNKNOWN_DIRECTORY and catalog.has(None):
        return NamedTopic(None)
    spellings = _spellings(name)
    for spelling in spellings:
        if catalog.has(spelling) and not catalog.is_without_entries(spelling):
            return NamedTopic(spelling)
    for spelling in spellings:
        if any(catalog.has(name) for name in partitions_of(catalog, spelling)):
            return NamedTopic(spelling, is_partitioned=True)
    # A live cluster may have an empty topic with a partitioned topic's name: its partitions hide nothing then.
    for spelling in spellings:
        if catalog.has(spelling):
            return NamedTopic(spelling)
    managed_ledger = managed_ledger_of(name)
    near = [topic_of(one) for one in nearest_names(managed_ledger, catalog.managed_ledgers)]
    *others, last = near or [""]
    meant = f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if near else ""
    may_be = [None, *(name for one in spellings for name in NamedTopic(one, is_partitioned=True).warned_of(catalog))]
    raise NotFoundError(
        f"no ledger of this topic in the bucket{_under_way(catalog, may_be)}{_unplaced(catalog)}{meant}",
        key=topic_of(managed_ledger),
    )


def _spellings(name: str) -> list[str]:
    """Return the managed ledgers that a name may refer to: the topic's, and the name itself."""
    try:
        return [managed_ledger_of(name), name]
    except InvalidNameError:
        return [name]


def _under_way(catalog: Catalog, names: Iterable[str | None]) -> str:
    """Return a text about ledgers of some managed ledgers that are being written; empty without any."""
    found = catalog.being_written(names)
    return f", but {being_written_text(found)}" if found else ""


def _unplaced(catalog: Catalog) -> str:
    """Return a text with the number of ledgers of unknown topic; empty without any."""
    count = len(catalog.unplaced())
    if not count:
        return ""
    some = "the topic of 1 ledger" if count == 1 else f"the topics of {count:,} ledgers"
    return f", but {some} cannot be determined (`ledgerfs verify` lists {'it' if count == 1 else 'them'})"


def _named(catalog: Catalog, topics: Sequence[str]) -> set[str | None]:
    return {name for topic in topics for name in named_topic(catalog, topic).warned_of(catalog)}


def _matching(catalog: Catalog, pattern: str) -> set[str | None]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise InvalidOptionError(f"invalid regular expression: {error}", key=pattern) from error
    found = {name for name in catalog.known_names if _matches(expression, name)}
    if not any(catalog.has(name) for name in found):
        raise NotFoundError(
            f"no topic name in the bucket matches this pattern{_under_way(catalog, found)}", key=pattern
        )
    return found


def _matches(expression: re.Pattern[str], managed_ledger: str | None) -> bool:
    topic = topic_of(managed_ledger)
    return bool(expression.fullmatch(topic) or expression.fullmatch(topic.removeprefix("persistent://")))

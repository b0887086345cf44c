"""Which topics of a bucket somebody means who names some, or a pattern of their names."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import InvalidOptionError, NotFoundError
from ledgerfs.formats.topic_names import managed_ledger_of, topic_of
from ledgerfs.ledgers.catalog import Catalog

Mask = npt.NDArray[np.bool_]


def wanted_ledgers(catalog: Catalog, topics: Sequence[str] | None = None, pattern: str | None = None) -> Mask:
    """Return which rows of the catalog are ledgers of some topics, each ledger once.

    Parameters
    ----------
    catalog
        The bucket's.
    topics
        Names; that of a partitioned topic means all its partitions. None for all topics.
    pattern
        A regular expression, which the whole name (``persistent://…``, or without that) has to match; instead of ``topics``.

    Raises
    ------
    NotFoundError
        A topic of which the bucket has no ledger; no topic matches.
    InvalidOptionError
        Both are given; a name that is none; no regular expression.

    """
    is_wanted: Mask = catalog.ledgers["copy"] == 0
    if topics is None and pattern is None:
        return is_wanted
    names = wanted_names(catalog, topics, pattern)
    is_named = np.array([name in names for name in catalog.names], bool)
    is_wanted &= is_named[catalog.ledgers["name"]]
    return is_wanted


def wanted_names(catalog: Catalog, topics: Sequence[str] | None = None, pattern: str | None = None) -> set[str | None]:
    """Return the managed ledgers that `wanted_ledgers` means, also those of which every ledger is missing; raises as that does."""
    if topics is None and pattern is None:
        return set(catalog.managed_ledgers)
    if topics is not None and pattern is not None:
        raise InvalidOptionError("either topics or a pattern of their names", key=pattern)
    return _named(catalog, topics) if topics is not None else _matching(catalog, pattern or "")


def _named(catalog: Catalog, topics: Sequence[str]) -> set[str | None]:
    found: set[str | None] = set()
    for topic in topics:
        names = {name for name in _spellings(topic) if catalog.has(name)} or _partitions_of(catalog, topic)
        if not names:
            raise NotFoundError("no ledger of this topic in the bucket", key=topic)
        found |= names
    return found


def _spellings(topic: str) -> list[str | None]:
    """Return the managed ledgers that a name may mean: a topic's, or one of that very name."""
    try:
        return [managed_ledger_of(topic)]
    except InvalidOptionError:
        return [None if topic == topic_of(None) else topic]


def _partitions_of(catalog: Catalog, topic: str) -> set[str | None]:
    stem = re.escape(topic_of(_spellings(topic)[0]))
    partition = re.compile(rf"{stem}-partition-[0-9]+")
    return {name for name in catalog.managed_ledgers if partition.fullmatch(topic_of(name))}


def _matching(catalog: Catalog, pattern: str) -> set[str | None]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise InvalidOptionError(f"no regular expression: {error}", key=pattern) from error
    found = set()
    for name in catalog.managed_ledgers:
        topic = topic_of(name)
        if expression.fullmatch(topic) or expression.fullmatch(topic.removeprefix("persistent://")):
            found.add(name)
    if not found:
        raise NotFoundError("no topic of the bucket has such a name", key=pattern)
    return found

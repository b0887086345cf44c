"""A DuckDB connection with the topics of a bucket as tables."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Self

import duckdb
import pyarrow as pa

from ledgerfs.errors import InvalidNameError, InvalidOptionError, NotFoundError
from ledgerfs.formats.topic_names import split_partition
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.scan_dataset import ScanDataset

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.bucket.topic import Topic
    from ledgerfs.scan.report import ScanReport
    from ledgerfs.scan.scan import Scan

_LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
"""Settings that refuse files, extensions and variables of the program to a statement."""

_PATTERN = frozenset("*?[")


def sql(
    bucket: "Bucket", topics: str | Sequence[str] = "*", options: ScanOptions | None = None
) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection on which topics are views, named ``tenant/namespace/topic``.

    A query reads only the columns that it names, and the ledgers and blocks that its conditions on ``publish_time``, ``ledger_id`` and
    ``entry_id`` allow. Each query reads the topic again, as of the call of this function. ``con.sql(query).limit(n)`` stops reading
    early; ``con.execute(query).fetchmany(n)`` does not.

    Parameters
    ----------
    bucket
        The bucket.
    topics
        Names or patterns (``public/default/*``) of topics. A pattern is a view of all its topics, too; a partitioned topic is one view.
    options
        Options of the scans; by default values are columns by the topics' schemas (``values="auto", flatten=True``).

    Raises
    ------
    NotFoundError
        No such topic; no topic matches a pattern.
    InvalidOptionError
        An invalid option.

    """
    if options is not None and options.limit is not None:
        raise InvalidOptionError("use the limit of a query", key=f"limit={options.limit}")
    tables = Tables(bucket, options)
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    known: set[str] = set()
    for name in [topics] if isinstance(topics, str) else topics:
        for view, found in tables.views(name).items():
            _require_new(view, known)
            known.add(view)
            connection.register(view, tables.dataset(found))
    return connection


def _require_new(name: str, known: set[str]) -> None:
    """Raise `InvalidOptionError` for a view that would replace one, since DuckDB ignores the case of names."""
    same = next((one for one in known if one != name and one.lower() == name.lower()), None)
    if same is not None:
        raise InvalidOptionError(f"its name differs from {same} only in case: query them separately", key=name)


@dataclass(slots=True)
class Tables:
    """Datasets of a bucket's topics for one connection, and the results of their reads.

    Attributes
    ----------
    reports
        Of all reads.
    failure
        The first error of a read.

    """

    bucket: "Bucket"
    options: ScanOptions | None = None
    reports: "list[ScanReport]" = field(default_factory=list)
    failure: Exception | None = None

    def views(self, name: str) -> "dict[str, list[Topic]]":
        """Return {name of a view: its topics}: of a topic, or of a pattern and of the topics that match it."""
        try:
            return {name: [self.bucket.topic(name)]}
        except (NotFoundError, InvalidNameError):
            if not _PATTERN & set(name):
                raise
        pattern = name.removeprefix("persistent://")
        found = {one: self.bucket.topic(one) for one in self._names() if fnmatchcase(one, pattern)}
        if not found:
            raise NotFoundError("no topic of the bucket matches", key=name)
        return {**{one: [topic] for one, topic in found.items()}, name: list(found.values())}

    def dataset(self, topics: "Sequence[Topic]") -> ScanDataset:
        """Return some topics as one table; if their schemas differ, their values are bytes."""
        return ScanDataset(partial(self._scans, topics), on_report=self.reports.append, on_failure=self._failed)

    def _scans(self, topics: "Sequence[Topic]") -> "list[Scan]":
        options = self.options or ScanOptions(values="auto", flatten=True)
        scans = [topic.scan(options=options) for topic in topics]
        if options.flatten and any(one.values is not None and "value" in one.schema.names for one in scans):
            # A field of this name, as key-value schemas have one, cannot be distinguished from the whole value.
            options = replace(options, flatten=False)
            scans = [topic.scan(options=options) for topic in topics]
        if any(scan.schema != scans[0].schema for scan in scans):
            scans = [topic.scan(options=options.with_bytes()) for topic in topics]
        return scans

    def _names(self) -> list[str]:
        """Return the names of topics, a partitioned one once."""
        found = set()
        for one in self.bucket.topics():
            whole, number = split_partition(one.name)
            # If a topic has exactly that name, its partitions are topics of their own.
            is_part = number is not None and self.bucket.topic(whole).is_partitioned
            found.add((whole if is_part else one.name).removeprefix("persistent://"))
        return sorted(found)

    def _failed(self, error: Exception) -> None:
        self.failure = self.failure or error


class SqlSession:
    """Statements over a bucket's topics, as a command runs them: without access to files, settings or extensions."""

    __slots__ = ("_connection", "_known", "tables")

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._connection = duckdb.connect(config=_LOCKED)
        self._connection.execute("set timezone = 'UTC'")
        self._connection.execute("set lock_configuration = true")
        self._known: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def split(self, text: str) -> list[str]:
        """Return the statements of a text, since `run` would drop the rows of all but the last."""
        try:
            return [one.query for one in duckdb.extract_statements(text)]
        except duckdb.Error as error:
            raise self.refused(error) from error

    def run(self, statement: str) -> duckdb.DuckDBPyRelation | None:
        """Return the rows of a statement, which are read when they are fetched; None if it has none.

        Raises `NotFoundError` for an unknown topic, `InvalidOptionError` with DuckDB's text for another error of the statement.
        """
        unknown = self._register(statement)
        try:
            return self._connection.sql(statement)
        except duckdb.CatalogException as error:
            raise unknown or self.refused(error) from error
        except duckdb.Error as error:
            raise self.refused(error) from error

    def refused(self, error: Exception) -> Exception:
        """Return the error of the read that failed; or ours with the text of DuckDB or Arrow; or the same error.

        Raises `KeyboardInterrupt` if the user interrupted the query.
        """
        failure, self.tables.failure = self.tables.failure, None
        if failure is None and re.search("query interrupted|KeyboardInterrupt", str(error), re.IGNORECASE):
            raise KeyboardInterrupt from error
        if failure is None and isinstance(error, duckdb.Error | pa.ArrowException):
            return InvalidOptionError(" ".join(str(error).split()), key="SQL")
        return failure or error

    def _register(self, statement: str) -> NotFoundError | None:
        """Make views of all quoted texts that are topics; return the error of one that looks like a topic and is not."""
        unknown = None
        for name in quoted_texts(statement):
            if name in self._known or name.count("/") < 2:
                continue
            try:
                topics = self.tables.views(name)[name]
            except NotFoundError as error:
                unknown = unknown or error
            except InvalidNameError:
                continue
            else:
                _require_new(name, self._known)
                self._connection.register(name, self.tables.dataset(topics))
                self._known.add(name)
        return unknown


def quoted_texts(statement: str) -> list[str]:
    """Return the texts in quotes, single or double, of a statement."""
    text = statement.encode()
    starts = [start for start, _ in duckdb.tokenize(statement)]
    found = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        token = text[start:end].decode(errors="replace").strip()
        if len(token) > 1 and token[0] in "'\"" and (last := token.rfind(token[0])):
            found.append(token[1:last].replace(token[0] * 2, token[0]))
    return found

"""The value format of a query, and the schemas that its tasks decode with.

The planner looks up schemas, since Spark requires the types before a row is read. Each task gets the schemas of its topics with its part,
some kilobytes, and sends no request for them. For documents without a schema the planner infers the type, which reads all data of the
query; tasks get it in the options of their scans.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.partitions import Reported
from ledgerfs.bucket.wanted_topics import wanted_ledgers, wanted_names
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.errors import InvalidOptionError, UnknownSchemaError
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.part_reading import TopicPart
from ledgerfs.scan.projection import Projection, asked_columns
from ledgerfs.spark.source.spark_types import SparkColumns
from ledgerfs.storage.ordered_map import ordered_map

if TYPE_CHECKING:
    from ledgerfs.scan.shown_values import ShownValues

Schemas = Mapping[str, TopicSchemas]
"""Schemas of topics, by `owner_of`, the name that the partitions of a topic share."""

_THREADS = 8
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class QueryValues:
    """The value format of a query.

    Attributes
    ----------
    schemas
        Schemas of its topics; empty if values are not decoded with schemas.
    shown
        The value format, the same for all topics; None for bytes.

    """

    schemas: Schemas = field(default_factory=dict)
    shown: "ShownValues | None" = None

    def columns(self, options: ScanOptions) -> SparkColumns:
        """Return the columns of a scan with Spark's types; raises `InvalidOptionError` for an unknown column."""
        return spark_columns(self.schema(options), options)

    def schema(self, options: ScanOptions) -> pa.Schema:
        """Return the Arrow schema of a scan."""
        return Projection.of(options, self.shown).schema

    def options_of_tasks(self, options: ScanOptions) -> ScanOptions:
        """Return scan options with the inferred type of values, so that tasks do not infer it again."""
        return options if self.shown is None else replace(options, **self.shown.source.learned_options)

    def of_part(self, part: Reported) -> dict[str, TopicSchemas]:
        """Return the schemas that a part of a plan needs."""
        names = dict.fromkeys(owner_of(run[0]) for run in part)
        return {name: self.schemas[name] for name in names if name in self.schemas}


def values_of(bucket: Bucket, managed_ledgers: Iterable[str | None], options: ScanOptions) -> QueryValues:
    """Return the value format of managed ledgers; requests their schemas from the store.

    To infer a type, reads all data of the scans.

    Raises
    ------
    LedgerfsError
        A scan failed that was read to infer the type.
    UnknownSchemaError
        A topic has no schema, and ``values="typed"``.
    InvalidOptionError
        An option is invalid; values of topics have different types, which one table cannot contain.
    InvalidSchemaError
        A schema is invalid.

    """
    if are_by_schemas(options):
        return with_topics(QueryValues(), bucket, managed_ledgers, options)
    return QueryValues(shown=_shown_alike(bucket, managed_ledgers, options))


def with_topics(
    known: QueryValues, bucket: Bucket, managed_ledgers: Iterable[str | None], options: ScanOptions
) -> QueryValues:
    """Return ``known`` with the other managed ledgers added; raises as `values_of`."""
    if not are_by_schemas(options):
        return known
    new = [name for name in dict.fromkeys(map(owner_of, managed_ledgers)) if name not in known.schemas]
    found = dict(zip(new, ordered_map(partial(_saved, bucket), new, _THREADS, "ledgerfs-schemas"), strict=True))
    first, *_ = [*known.schemas, *new, None]
    if first is None:
        raise UnknownSchemaError("the bucket has no topics, so the types of values are unknown", key=bucket.url)
    shown = known.shown if known.schemas else _shown(first, found[first], options)
    for name in new:
        _require_same(first, shown, name, _shown(name, found[name], options))
    return replace(known, schemas={**known.schemas, **found}, shown=shown)


def are_by_schemas(options: ScanOptions) -> bool:
    """Return whether a scan with these options decodes values with the schemas of their topics."""
    return options.values in {"typed", "auto"}


def topics_to_read(
    catalog: Catalog, topics: Sequence[str] | str | None = None, pattern: str | None = None
) -> list[str | None]:
    """Return the selected managed ledgers that have ledgers, or all selected if none has any; raises as `wanted_ledgers`."""
    wanted = wanted_ledgers(catalog, topics, pattern)
    rows = np.unique(catalog.ledgers["name"][wanted]).tolist()
    names = [catalog.names[row] for row in rows]
    return names or sorted(wanted_names(catalog, topics, pattern), key=lambda one: one or "")


def spark_columns(schema: pa.Schema, options: ScanOptions) -> SparkColumns:
    """Return the columns of a scan with Spark's types."""
    of_messages = [name for name in asked_columns(options) if name in MESSAGE_SCHEMA.names and name != "value"]
    return SparkColumns.of(schema, of_messages)


def owner_of(managed_ledger: str | None) -> str:
    """Return the name that the partitions of a topic share; empty for an unknown topic."""
    return split_partition(managed_ledger or "")[0]


def _saved(bucket: Bucket, name: str) -> TopicSchemas:
    return bucket.schemas_of(topic_of(name or None))


def _shown_alike(bucket: Bucket, managed_ledgers: Iterable[str | None], options: ScanOptions) -> "ShownValues | None":
    """Return the common value format of managed ledgers, for options that do not use their schemas."""
    # This imports numba, which the planning of bytes does not need.
    from ledgerfs.scan.scan import learned_values, shown_values

    shown = shown_values("", options)
    if shown is None or not shown.source.awaits_values:
        return shown
    catalog = bucket.catalog
    parts = [TopicPart.of(name, bucket.readers_of(name, catalog), catalog) for name in dict.fromkeys(managed_ledgers)]
    return learned_values(shown, "", parts, options)


def _shown(name: str, schemas: TopicSchemas, options: ScanOptions) -> "ShownValues | None":
    # This imports numba, which the planning of bytes does not need.
    from ledgerfs.scan.scan import shown_values

    return shown_values(topic_of(name or None), options, lambda: schemas)


def _require_same(first: str, shown: "ShownValues | None", name: str, other: "ShownValues | None") -> None:
    """Raise `InvalidOptionError` if the values of two topics have different types."""
    types = [None if one is None else one.type for one in (shown, other)]
    if types[0] == types[1]:
        return
    described = [
        f"{topic_of(one or None)}: {'bytes' if kind is None else str(kind)[:_SHOWN]}"
        for one, kind in zip((first, name), types, strict=True)
    ]
    reason = (
        f"the values of these topics have different types ({'; '.join(described)}), but a table has one type; read the topics one by one, "
        "or pass one schema for all of them (schemaVersion)"
    )
    raise InvalidOptionError(reason, key="values")

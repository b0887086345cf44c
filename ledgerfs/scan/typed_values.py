"""Values as columns: how a scan shows them, and what the schemas of its topic make of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ledgerfs.errors import InvalidOptionError, UnknownSchemaError
from ledgerfs.formats.schemas.schema_info import ANY_VERSION, SchemaInfo, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.key_values import KEY_COLUMNS
from ledgerfs.scan.options import OnUndecodable

NEEDED = ("ledger_id", "entry_id", "batch_index", "publish_time", "schema_version", "value")
"""Columns that are read to decode values, and to name those that cannot be."""


@dataclass(frozen=True, slots=True)
class TypedValues:
    """How a scan shows values.

    Attributes
    ----------
    schemas
        Those of the topic.
    wanted
        The schema that all values are read as; None for a struct with a field for each version, as it was written.
    type
        What values become.
    flatten
        Whether the fields of a struct are columns beside the others.

    """

    schemas: TopicSchemas
    wanted: SchemaInfo | None
    type: pa.DataType
    flatten: bool = False
    on_undecodable: OnUndecodable = "raise"

    @classmethod
    def of(
        cls,
        schemas: TopicSchemas,
        wanted: SchemaInfo | None,
        *,
        flatten: bool = False,
        on_undecodable: OnUndecodable = "raise",
    ) -> "TypedValues":
        """Return it with the type that the schemas make; raises `InvalidSchemaError`."""
        kind = (
            pa.struct([(name, decoder_of(one.schema).type) for name, one in fields_of_each(schemas)])
            if wanted is None
            else decoder_of(wanted).type
        )
        return cls(schemas, wanted, kind, flatten, on_undecodable)

    def are_needed(self, wanted: Sequence[str]) -> bool:
        """Whether values have to be decoded for some columns."""
        return "value" in wanted or self.on_undecodable == "skip"

    def columns_for(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that have to be read for those that are wanted."""
        are_pairs = any(one.schema.type == "KEY_VALUE" for one in self.schemas.versions)
        needed = (*NEEDED, *KEY_COLUMNS) if are_pairs else NEEDED
        return (*wanted, *(name for name in needed if name not in wanted))

    def schema_for(self, wanted: Sequence[str]) -> pa.Schema:
        """Return names and types of the columns."""
        fields: list[pa.Field] = []
        for name in wanted:
            fields += self._fields_of_value(wanted) if name == "value" else [MESSAGE_SCHEMA.field(name)]
        return pa.schema(fields)

    def _fields_of_value(self, wanted: Sequence[str]) -> list[pa.Field]:
        kind = self.type
        if not self.flatten or not pa.types.is_struct(kind):
            return [pa.field("value", kind)]
        taken = {name for name in wanted if name != "value"}
        fields = []
        for one in kind:
            name = one.name
            # A field may have the name that another one is given.
            while name in taken or (name != one.name and name in kind.names):
                name = f"value_{name}"
            fields.append(one.with_name(name))
        return fields


def fields_of_each(schemas: TopicSchemas) -> list[tuple[str, SchemaVersion]]:
    """Return the versions by the names of their fields: ``v0``, ``v0_2`` for the second schema that had the number, ``any``."""
    named: dict[str, SchemaVersion] = {}
    for one in schemas.versions:
        if not one.is_deletion:
            again = sum(other.version == one.version for other in named.values())
            name = "any" if one.version == ANY_VERSION else f"v{one.version}"
            named[name + (f"_{again + 1}" if again else "")] = one
    return list(named.items())


def typed_values(
    topic: str,
    schemas: TopicSchemas,
    *,
    values: str = "typed",
    schema_version: object = "latest",
    flatten: bool = False,
    on_undecodable: OnUndecodable = "raise",
) -> TypedValues | None:
    """Return how a scan shows values, from the arguments that users give; None for bytes.

    Raises `InvalidOptionError` for an invalid choice, and `UnknownSchemaError` if the topic has no schema that is known.
    """
    latest = schemas.latest
    if values == "auto" and latest is None:
        return None
    wanted: SchemaInfo | None
    match schema_version:
        case "latest" if latest is not None:
            wanted = latest.schema
        case "each" if latest is not None:
            wanted = None
        case int() if not isinstance(schema_version, bool) and schemas.numbered(schema_version):
            wanted = schemas.numbered(schema_version)[-1].schema
        case SchemaInfo():
            wanted = schema_version
        case dict():
            wanted = SchemaInfo(
                latest.schema.type if latest is not None else "AVRO", json.dumps(schema_version).encode()
            )
        case int() | "latest" | "each":
            raise _unknown(topic, schemas, schema_version)
        case _:
            reason = "expected the number of a version, 'latest', 'each', or a schema"
            raise InvalidOptionError(reason, key=f"schema_version={schema_version!r}")
    return TypedValues.of(schemas, wanted, flatten=flatten, on_undecodable=on_undecodable)


def _unknown(topic: str, schemas: TopicSchemas, version: object) -> UnknownSchemaError:
    known = sorted({one.version for one in schemas.versions if not one.is_deletion})
    if known:
        reason = f"no schema of version {version!r} is known; there are {', '.join(map(str, known))}"
    elif schemas.versions:
        reason = (
            "the cluster deleted all schemas of this topic before they were saved (ledgerfs schemas save): "
            "`ledgerfs schemas set` adds one"
        )
    else:
        reason = (
            "no schema of this topic is known: `ledgerfs schemas save` keeps them while the cluster lives, "
            "`ledgerfs schemas set` adds one"
        )
    return UnknownSchemaError(reason, key=topic)

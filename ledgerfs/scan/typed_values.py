"""Decode values as columns by the schemas of their topic."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import pyarrow as pa

from ledgerfs.errors import InvalidOptionError, InvalidSchemaError, UnknownSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.formats.schemas.schema_versions import TopicSchemas
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.key_values import KEY_COLUMNS
from ledgerfs.scan.options import NO_VERSION, OnUndecodable, ScanOptions
from ledgerfs.scan.shown_values import Decoding, ShownValues
from ledgerfs.scan.values_by_version import ValuesByVersion, fields_of_each

_NEEDED = ("publish_time", "schema_version", "value")


@dataclass(frozen=True, slots=True)
class TypedValues:
    """The schemas to decode values with. A `ValueSource`.

    Attributes
    ----------
    schemas
        Those of the topic.
    wanted
        The schema to read all values as; None for a struct with a field per version, as the values were written.
    type
        The type of the values.

    """

    schemas: TopicSchemas
    wanted: SchemaInfo | None
    type: pa.DataType

    @classmethod
    def of(cls, schemas: TopicSchemas, wanted: SchemaInfo | None) -> "TypedValues":
        """Return the source with the type from the schemas; raises `InvalidSchemaError`."""
        fields = fields_of_each(schemas) if wanted is None else []
        if wanted is None and not fields and schemas.latest is not None:
            raise InvalidSchemaError(schemas.latest.schema.unreadable)
        kind = (
            pa.struct([(name, decoder_of(one.schema).type) for name, one in fields])
            if wanted is None
            else decoder_of(wanted).type
        )
        return cls(schemas, wanted, kind)

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that values are decoded from."""
        are_pairs = any(one.schema.type == "KEY_VALUE" for one in self.schemas.versions)
        return (*_NEEDED, *KEY_COLUMNS) if are_pairs else _NEEDED

    @property
    def described(self) -> Mapping[str, Any]:
        """Digests of the schemas, as JSON values."""
        wanted = None if self.wanted is None else TopicSchemas((SchemaVersion(0, self.wanted),))
        return {
            "values": "typed",
            "schema_version": "each" if wanted is None else wanted.digest,
            "schemas": self.schemas.digest,
        }

    @property
    def learned_options(self) -> Mapping[str, Any]:
        """Empty."""
        return {}

    @property
    def awaits_values(self) -> bool:
        """False: the schemas contain the type."""
        return False

    def learned(
        self,
        batches: Iterable[pa.RecordBatch],  # noqa: ARG002  (schemas give the type)
        rows: int | None,  # noqa: ARG002
        on_undecodable: OnUndecodable,  # noqa: ARG002
    ) -> "TypedValues":
        """Return itself: the schemas contain the type."""
        return self

    def decoding(self) -> Decoding:
        """Begin an iteration over batches."""
        return ValuesByVersion(self.schemas, self.wanted, self.type)


def typed_values(topic: str, schemas: TopicSchemas, options: ScanOptions) -> ShownValues | None:
    """Return the value format of a scan with schemas; None for bytes.

    Raises `InvalidOptionError` for an invalid choice, `UnknownSchemaError` if no schema of the topic is known, and `InvalidSchemaError`,
    which names the topic unless the schema is the user's.
    """
    latest, schema_version = schemas.latest, options.schema_version
    if options.values == "auto" and latest is None:
        return None
    if isinstance(schema_version, Integral) and not isinstance(schema_version, bool):
        schema_version = int(schema_version)  # numpy has integers of its own
    wanted: SchemaInfo | None
    match schema_version:
        case "each" if latest is not None:
            wanted = None
        case int() | "latest" if not isinstance(schema_version, bool) and schemas.meant_by(schema_version) is not None:
            wanted = schemas.meant_by(schema_version)
        case SchemaInfo():
            wanted = schema_version
        case dict():
            # An Avro schema fits JSON values, too; a type of another kind would leave it unread.
            kind = "JSON" if latest is not None and latest.schema.type == "JSON" else "AVRO"
            wanted = SchemaInfo(kind, json.dumps(schema_version).encode())
        case int() | "latest" | "each":
            raise _unknown(topic, schemas, schema_version)
        case _:
            raise InvalidOptionError(NO_VERSION, key=f"schema_version={schema_version!r}")
    try:
        return ShownValues(TypedValues.of(schemas, wanted), options.flatten, options.on_undecodable)
    except InvalidSchemaError as error:
        of = topic if isinstance(schema_version, int | str) else "schema_version"
        raise InvalidSchemaError(error.reason, key=error.key or of) from error


def _unknown(topic: str, schemas: TopicSchemas, version: object) -> UnknownSchemaError:
    known = sorted({one.version for one in schemas.versions if not one.is_deletion})
    if known:
        reason = f"no schema of version {version!r} is known; there are {', '.join(map(str, known))}"
    elif schemas.are_of_cluster:
        deleted = "; its schemas were deleted" if schemas.versions else ""
        reason = f"the cluster has no schema of this topic{deleted}"
    elif schemas.versions:
        reason = (
            "the cluster deleted all schemas of this topic before they were saved (ledgerfs schemas save): "
            "set one by hand (ledgerfs schemas set)"
        )
    else:
        reason = (
            "no schema of this topic is known: save the schemas while the cluster is running (ledgerfs schemas save), "
            "or set one by hand (ledgerfs schemas set)"
        )
    return UnknownSchemaError(reason, key=topic)

"""Schemas of the two topics: values that each of them writes, as other libraries encode them, and who knows which number has which.

A value says which schema wrote it, and which row it is: one that is read by another schema is not the same value. All payloads are texts
of UTF-8, so that everything that shows bytes shows them.
"""

import io
import json
from dataclasses import dataclass, field
from typing import Any

import fastavro

from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from tests.model.bucket_model import Row, Written


class Undecodable(Exception):  # noqa: N818  (an outcome)
    """Bytes are no value of a schema."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A schema.

    Attributes
    ----------
    fields
        Of its values; none for one that is not a record.

    """

    name: str
    schema: SchemaInfo
    fields: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        return self.schema.type

    def value(self, text: str, number: int) -> Any:
        """Return the value of a row: of its text, or of its number alone."""
        if self.type == "INT64":
            # Each byte is less than 128.
            return sum((number >> 7 * digit & 127) << 8 * digit for digit in range(4))
        if self.type == "STRING":
            return text
        return {"who": text, **_OTHERS[self.name]}

    def encode(self, value: Any) -> bytes:
        match self.type:
            case "INT64":
                return int(value).to_bytes(8, "big")
            case "STRING":
                return str(value).encode()
            case "JSON":
                return json.dumps(value, separators=(",", ":")).encode()
        out = io.BytesIO()
        fastavro.schemaless_writer(out, json.loads(self.schema.data), value)
        return out.getvalue()

    def decode(self, data: bytes) -> Any:
        """Return the value that bytes are; raises `Undecodable`."""
        match self.type:
            case "INT64" if len(data) == 8:
                return int.from_bytes(data, "big")
            case "INT64":
                raise Undecodable
            case "STRING":
                return data.decode()
        try:
            if self.type == "JSON":
                found = json.loads(data)
                if not isinstance(found, dict):
                    raise Undecodable
                return {name: found.get(name) for name in self.fields}
            stream = io.BytesIO(data)
            value = fastavro.schemaless_reader(stream, json.loads(self.schema.data), None)
        except (ValueError, EOFError, IndexError, OverflowError, MemoryError) as error:
            raise Undecodable from error
        if stream.read(1):
            raise Undecodable
        return value

    def read_as(self, value: Any, wanted: "Shape") -> Any:
        """Return a value as another schema's; raises `Undecodable` where that cannot be."""
        if wanted in {EACH, self.shape}:
            return value
        if self.type != "AVRO" or wanted not in {one.shape for one in KINDS.values() if one.type == "AVRO"}:
            raise Undecodable
        return {name: value.get(name, "-") for name in wanted}

    @property
    def shape(self) -> "Shape":
        return self.fields or (self.type,)


Shape = tuple[str, ...]
"""What values are read as: names of fields, or a type."""
EACH: Shape = ("each",)


def _record(name: str, symbols: list[str], *more: dict[str, Any]) -> Kind:
    kind = {"type": "enum", "name": "Kind", "symbols": symbols}
    fields = [{"name": "who", "type": "string"}, {"name": "kind", "type": kind}, *more]
    data = json.dumps({"type": "record", "name": "Order", "fields": fields}).encode()
    return Kind(name, SchemaInfo("AVRO", data), tuple(one["name"] for one in fields))


def _document() -> Kind:
    fields = [{"name": name, "type": "string"} for name in ("who", "kind", "j")]
    data = json.dumps({"type": "record", "name": "Document", "fields": fields}).encode()
    return Kind("document", SchemaInfo("JSON", data), ("who", "kind", "j"))


KINDS = {
    one.name: one
    for one in (
        _record("first", ["FIRST", "LONGER", "LIKE_FIRST"]),
        # Both can be read as the other: the one has a field more, which has a default.
        _record("longer", ["LONGER", "LIKE_FIRST", "FIRST"], {"name": "note", "type": "string", "default": "-"}),
        # Bytes of the first one are a value of this one, too, which is another value.
        _record("like first", ["LIKE_FIRST", "FIRST", "LONGER"]),
        _document(),
        Kind("number", SchemaInfo("INT64")),
        Kind("text", SchemaInfo("STRING")),
    )
}
_OTHERS: dict[str, dict[str, str]] = {
    "first": {"kind": "FIRST"},
    "longer": {"kind": "LONGER", "note": "new"},
    "like first": {"kind": "LIKE_FIRST"},
    "document": {"kind": "DOCUMENT", "j": "j"},
}


def kind_of(schema: SchemaInfo) -> str:
    """Return the name of a schema."""
    (found,) = [one.name for one in KINDS.values() if (one.type, one.schema.data) == (schema.type, schema.data)]
    return found


def identity_of(row: Row) -> int:
    """Return the number of a row as `World.rows` makes it."""
    return int(row.value.split()[1].rstrip("."))


def typed(row: Row, written: Written) -> Row:
    """Return a row of bytes as one that was written by a schema."""
    kind = KINDS[written.kind]
    return Row(kind.encode(kind.value(row.value, identity_of(row))).decode(), row.time_ms, written)


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema, or the end of those before it, as a cluster took it; ms since 1970 UTC."""

    version: int
    kind: str
    time_ms: int
    is_deletion: bool = False

    @property
    def reported(self) -> SchemaVersion:
        """What the cluster says of it."""
        schema = SchemaInfo("NONE") if self.is_deletion else KINDS[self.kind].schema
        return SchemaVersion(self.version, schema, self.time_ms, self.is_deletion, "http://cluster:8080", 1)


@dataclass(slots=True)
class Registry:
    """The schemas of the topic in its clusters.

    Attributes
    ----------
    versions
        Those since the last forced deletion.
    ever
        All that ever were.

    """

    versions: list[Registered] = field(default_factory=list)
    ever: list[Registered] = field(default_factory=list)

    @property
    def visible(self) -> list[Registered]:
        """What clients are told: nothing before a deletion."""
        places = [place for place, one in enumerate(self.versions) if one.is_deletion]
        return self.versions[places[-1] if places else 0 :]

    @property
    def in_use(self) -> list[Registered]:
        """Those that producers can have."""
        return [one for one in self.visible if not one.is_deletion]

    def change(self, how: str, kind: str, time_ms: int) -> None:
        """Register a schema, or delete all, with or without force; or both, so that numbers begin again."""
        if how in {"force", "again"}:
            self.versions.clear()
        if how == "force":
            return
        if (how == "delete" and not self.in_use) or (self.in_use and self.in_use[-1].kind == kind and how != "delete"):
            return
        number = self.versions[-1].version + 1 if self.versions else 0
        time_ms = max([time_ms, *(one.time_ms + 1 for one in self.ever)])
        made = Registered(number, kind, time_ms, is_deletion=how == "delete")
        self.versions.append(made)
        self.ever.append(made)


@dataclass(slots=True)
class SavedModel:
    """The schemas that are saved in a bucket, after each change, the present ones last."""

    history: list[tuple[SchemaVersion, ...]] = field(default_factory=lambda: [()])

    @property
    def now(self) -> tuple[SchemaVersion, ...]:
        return self.history[-1]

    @property
    def moment(self) -> int:
        return len(self.history) - 1

    def add(self, schema: SchemaVersion) -> None:
        self.history.append((*self.now, schema))

"""Avro schemas (specification 1.11): JSON text to a tree of types whose names are resolved.

A tree is finite: where a named type contains itself, the inner place holds `Recursive`, and `AvroSchema.named` its definition.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from ledgerfs.errors import InvalidSchemaError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos",
        "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos",
    ),
    "string": ("uuid",),
    "bytes": ("decimal",),
    "fixed": ("decimal", "uuid", "duration"),
}  # fmt: skip
MOST_DECIMAL_DIGITS = 76
"""Digits of Arrow's largest decimal; one with more stays bytes."""
_LARGEST_FIXED = 1 << 30
MOST_TYPES = 1 << 15
"""Most types of a schema, a named one counted at each use: more than any real one has, few enough to make a column of each."""
_SYMBOLS_OF_A_TYPE = 64
"""Symbols of an enum that count as one more type."""
MOST_LEVELS = 64
"""Most levels of nested types: Arrow and readers of its arrays recurse through them."""
Json: TypeAlias = Any
"""A value that `json.loads` returns."""


class _NoDefault:
    """Marks a missing default, since null is a valid one."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type of the specification, at a type that it allows; precision and scale are of decimals."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts: one of `PRIMITIVES`."""

    name: str
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed number of bytes."""

    name: str
    size: int
    logical: Logical | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some symbols; a reader uses ``default`` for an unknown one."""

    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Array:
    """Items of one type."""

    items: "AvroType"


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one type, with text as keys."""

    values: "AvroType"


@dataclass(frozen=True, slots=True)
class Union:
    """One of some types."""

    branches: tuple["AvroType", ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; its default is as in the JSON text."""

    name: str
    type: "AvroType"
    default: Json = NO_DEFAULT
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """Fields, in their order."""

    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recursive:
    """A named type inside its own definition."""

    name: str


AvroType: TypeAlias = Primitive | Fixed | Enum | Array | Map | Union | Record | Recursive
Named: TypeAlias = Fixed | Enum | Record
_N = TypeVar("_N", Fixed, Enum, Record)


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A type, and the named types in it by full name."""

    root: AvroType
    named: Mapping[str, Named] = field(default_factory=dict)


def parse_avro_schema(text: str | bytes) -> AvroSchema:
    """Return the schema of a JSON text; raises `InvalidSchemaError` with the fault and its place."""
    try:
        parser = _Parser()
        root = parser.type_of(json.loads(text), "", "the schema")
        _require_reasonable(root)
    except RecursionError:
        raise InvalidSchemaError("the Avro schema is nested too deeply") from None
    except ValueError as error:  # of JSON or its encoding
        raise InvalidSchemaError(f"the Avro schema is not JSON: {error}") from None
    return AvroSchema(root, parser.named)


def short_name(full: str) -> str:
    """Return a name without its namespace."""
    return full.rpartition(".")[2]


@dataclass(slots=True)
class _Parser:
    named: dict[str, Named] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)

    def type_of(self, node: Json, namespace: str, place: str) -> AvroType:
        if isinstance(node, str):
            return self._by_name(node, namespace, place)
        if isinstance(node, list):
            branches = tuple(self.type_of(one, namespace, f"branch {i} of {place}") for i, one in enumerate(node))
            return self._union(branches, place)
        if not isinstance(node, dict) or "type" not in node:
            raise InvalidSchemaError(f"{place} is not an Avro type")
        return self._complex(node, namespace, place)

    def _complex(self, node: Mapping[str, Json], namespace: str, place: str) -> AvroType:
        match node["type"]:
            case "record" | "error":
                return self._record(node, namespace, place)
            case "enum":
                return self._enum(node, namespace, place)
            case "fixed":
                return self._fixed(node, namespace, place)
            case "array":
                return Array(self.type_of(_required(node, "items", place), namespace, f"items of {place}"))
            case "map":
                return Map(self.type_of(_required(node, "values", place), namespace, f"values of {place}"))
            case kind:
                return self._other(node, kind, namespace, place)

    def _other(self, node: Mapping[str, Json], kind: Json, namespace: str, place: str) -> AvroType:
        if isinstance(kind, str) and kind in PRIMITIVES:
            return Primitive(kind, _logical(node, kind))
        return self.type_of(kind, namespace, place)  # {"type": {"type": …}}, and {"type": "Name"}

    def _by_name(self, name: str, namespace: str, place: str) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        for full in _candidates(_as_name(name), namespace):
            if full in self._open:
                return Recursive(full)
            if full in self.named:
                return self.named[full]
        raise InvalidSchemaError(f"{place} has the type {name!r}, which is not defined before it")

    def _union(self, branches: tuple[AvroType, ...], place: str) -> Union:
        if not branches:
            raise InvalidSchemaError(f"{place} is an empty union")
        seen = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise InvalidSchemaError(f"{place} is a union inside a union")
            name = branch_name(branch)
            if name in seen:
                raise InvalidSchemaError(f"{place} is a union that has {name!r} twice")
            seen.add(name)
        return Union(branches)

    def _record(self, node: Mapping[str, Json], namespace: str, place: str) -> Record:
        name, aliases = self._name(node, namespace, place)
        inner = name.rpartition(".")[0]
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchemaError(f"the record {name!r} has no list of fields")
        self._open.add(name)
        made = tuple(self._field(one, inner, name) for one in fields)
        self._open.discard(name)
        seen: set[str] = set()
        for one in made:
            if one.name in seen:
                raise InvalidSchemaError(f"the record {name!r} has the field {one.name!r} twice")
            seen.add(one.name)
        return self._add(Record(name, made, aliases))

    def _field(self, node: Json, namespace: str, record: str) -> Field:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise InvalidSchemaError(f"a field of the record {record!r} has no name")
        _require_text(node["name"])
        name = _as_name(node["name"])
        place = f"the field {name!r} of {record!r}"
        kind = self.type_of(_required(node, "type", place), namespace, place)
        return Field(name, kind, node.get("default", NO_DEFAULT), tuple(map(_as_name, _texts(node.get("aliases")))))

    def _enum(self, node: Mapping[str, Json], namespace: str, place: str) -> Enum:
        name, aliases = self._name(node, namespace, place)
        symbols = tuple(_texts(node.get("symbols")))
        if not symbols or len(set(symbols)) < len(symbols) or len(symbols) != len(node["symbols"]):
            raise InvalidSchemaError(f"the enum {name!r} has no list of distinct symbols")
        for one in symbols:
            _require_text(one)
        default = node.get("default")
        return self._add(Enum(name, symbols, default if default in symbols else None, aliases))

    def _fixed(self, node: Mapping[str, Json], namespace: str, place: str) -> Fixed:
        name, aliases = self._name(node, namespace, place)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LARGEST_FIXED:
            raise InvalidSchemaError(f"the fixed type {name!r} has the invalid size {size!r}")
        return self._add(Fixed(name, size, _logical(node, "fixed"), aliases))

    def _add(self, made: _N) -> _N:
        if made.name in self.named:
            raise InvalidSchemaError(f"the type {made.name!r} is defined twice")
        self.named[made.name] = made
        return made

    def _name(self, node: Mapping[str, Json], namespace: str, place: str) -> tuple[str, tuple[str, ...]]:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidSchemaError(f"{place} is a {node['type']} without a name")
        space = node.get("namespace", namespace)
        full = _as_name(name if "." in name or not isinstance(space, str) or not space else f"{space}.{name}")
        _require_text(full)
        inner = full.rpartition(".")[0]
        others = map(_as_name, _texts(node.get("aliases")))
        aliases = (one if "." in one or not inner else f"{inner}.{one}" for one in others)
        return full, tuple(aliases)


def branch_name(branch: AvroType) -> str:
    """Return the name that distinguishes a branch of a union: that of its type, in full."""
    match branch:
        case Primitive() | Fixed() | Enum() | Record() | Recursive():
            return branch.name
        case Array():
            return "array"
        case Map():
            return "map"
        case Union():
            return "union"


def _as_name(name: str) -> str:
    """Return a name without NULs, since other libraries end names of Arrow's fields there."""
    return name.replace("\0", "\ufffd")


def _candidates(name: str, namespace: str) -> Iterator[str]:
    if "." not in name and namespace:
        yield f"{namespace}.{name}"
    yield name


def _required(node: Mapping[str, Json], key: str, place: str) -> Json:
    if key not in node:
        raise InvalidSchemaError(f"{place} has no {key!r}")
    return node[key]


def _require_text(name: str) -> None:
    """Refuse lone surrogates, which JSON allows and Arrow's names do not."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidSchemaError(f"the name {name!r} is not valid Unicode") from None


def _require_reasonable(root: AvroType) -> None:
    """Refuse a tree that is deeper, or has more types, than any real one: by names, a short text can define a tree of any size."""
    known: dict[int, tuple[int, int]] = {}

    def measured(kind: AvroType) -> tuple[int, int]:
        if id(kind) not in known:
            parts = [measured(one) for one in parts_of(kind)]
            own = 1 + len(kind.symbols) // _SYMBOLS_OF_A_TYPE if isinstance(kind, Enum) else 1
            known[id(kind)] = own + sum(one[0] for one in parts), 1 + max((one[1] for one in parts), default=0)
        return known[id(kind)]

    types, levels = measured(root)
    if types > MOST_TYPES:
        raise InvalidSchemaError(f"the Avro schema has more than {MOST_TYPES:,} types, including nested ones")
    if levels > MOST_LEVELS:
        raise InvalidSchemaError(f"the Avro schema is nested too deeply: {levels} levels, at most {MOST_LEVELS}")


def parts_of(kind: AvroType) -> tuple["AvroType", ...]:
    """Return the types that a type is made of."""
    match kind:
        case Record():
            return tuple(one.type for one in kind.fields)
        case Union():
            return kind.branches
        case Array():
            return (kind.items,)
        case Map():
            return (kind.values,)
        case _:
            return ()


def _texts(value: Json) -> Iterator[str]:
    yield from (one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _logical(node: Mapping[str, Json], kind: str) -> Logical | None:
    """Return the logical type; None for one that is unknown or not allowed there, which readers must ignore (specification)."""
    name = node.get("logicalType")
    if name not in _LOGICAL.get(kind, ()):
        return None
    size = node.get("size")
    if name != "decimal":
        return Logical(name) if size == {"uuid": 16, "duration": 12}.get(name, size) or kind != "fixed" else None
    precision, scale = node.get("precision"), node.get("scale", 0)
    if not (type(precision) is int and type(scale) is int):  # not a boolean
        return None
    is_known = 0 < precision <= MOST_DECIMAL_DIGITS and 0 <= scale <= precision
    return Logical(name, precision, scale) if is_known else None

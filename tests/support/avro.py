"""Avro schemas made by hypothesis, values of them as fastavro takes and returns them, and what these are in Arrow."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.support.entries import varint

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
Draw = Callable[[st.SearchStrategy[Any]], Any]
_SYMBOLS = st.lists(st.text("ABCDE", min_size=1, max_size=2), min_size=1, max_size=4, unique=True)


@dataclass(slots=True)
class _Maker:
    """Draws one schema: each named type once, later by its name, inside itself too."""

    draw: Draw
    done: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    count: int = 0
    with_names: bool = True
    """Whether types are used by their names, inside themselves too."""

    def name(self) -> str:
        self.count += 1
        return f"T{self.count}"

    def type_of(self, depth: int, *, is_branch: bool = False) -> Any:
        kinds = ["primitive", "primitive", "fixed", "enum", "decimal"]
        if depth:
            kinds += ["record", "record", "array", "map", "option"]
            kinds += [] if is_branch else ["union"]
        kinds += ["named"] if self.done and self.with_names else []
        kind = self.draw(st.sampled_from([one for one in kinds if not is_branch or one != "option"]))
        return getattr(self, f"_{kind}")(depth)

    def _primitive(self, _: int) -> Any:
        return self.draw(st.sampled_from(PRIMITIVES))

    def _fixed(self, _: int) -> Any:
        made = {"type": "fixed", "name": self.name(), "size": self.draw(st.integers(0, 20))}
        self.done.append(made["name"])
        return made

    def _enum(self, _: int) -> Any:
        made = {"type": "enum", "name": self.name(), "symbols": self.draw(_SYMBOLS)}
        self.done.append(made["name"])
        return made

    def _decimal(self, _: int) -> Any:
        precision = self.draw(st.integers(1, 76))
        scale = self.draw(st.integers(0, precision))
        return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}

    def _named(self, _: int) -> Any:
        return self.draw(st.sampled_from(self.done))

    def _record(self, depth: int) -> Any:
        name = self.name()
        self.open.append(name)
        names = self.draw(st.lists(st.text("abcdef", min_size=1, max_size=2), max_size=4, unique=True))
        fields = [{"name": one, "type": self.type_of(depth - 1)} for one in names]
        if self.with_names and self.draw(st.booleans()):
            around = self.draw(st.sampled_from(self.open))
            kind: Any = ["null", around] if self.draw(st.booleans()) else {"type": "array", "items": around}
            fields.append({"name": "self", "type": kind})
        self.open.remove(name)
        self.done.append(name)
        return {"type": "record", "name": name, "fields": fields}

    def _array(self, depth: int) -> Any:
        return {"type": "array", "items": self.type_of(depth - 1)}

    def _map(self, depth: int) -> Any:
        return {"type": "map", "values": self.type_of(depth - 1)}

    def _option(self, depth: int) -> Any:
        one = self.type_of(depth - 1, is_branch=True)
        return ["null"] if one == "null" else self.draw(st.permutations(["null", one]))

    def _union(self, depth: int) -> Any:
        found: dict[str, Any] = {}
        for _ in range(self.draw(st.integers(1, 4))):
            done = list(self.done)
            one = self.type_of(depth - 1, is_branch=True)
            if name_of(one) in found:
                self.done = done  # what is left out defines nothing
            else:
                found[name_of(one)] = one
        return list(found.values())


USED_AGAIN = {"type": "record", "name": "R", "fields": [
    {"name": "a", "type": {"type": "record", "name": "Outer", "fields": [
        {"name": "in", "type": {"type": "record", "name": "Inner", "fields": [{"name": "out", "type": ["null", "Outer"]}]}},
    ]}},
    {"name": "b", "type": "Inner"},
]}  # fmt: skip
"""A type that is inside the definition of another has its bytes, and so it has where it is used by its name outside of that."""


def name_of(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    return str(kind.get("name", kind["type"]))


@st.composite
def schemas(draw: Draw, *, with_names: bool = True) -> Any:
    """A schema as JSON; types are used by their names, too, unless there shall be none of that."""
    return _Maker(draw, with_names=with_names).type_of(3)


def named_types(schema: Any) -> dict[str, Any]:
    """Return the definitions inside a schema by name."""
    return {node["name"]: node for node, _ in _definitions(schema, ())}


def open_names(schema: Any) -> dict[str, tuple[str, ...]]:
    """Return of each named type the types inside whose definitions its own is, itself among them: what is a value's bytes in it."""
    return {node["name"]: (*around, node["name"]) for node, around in _definitions(schema, ())}


def _definitions(node: Any, around: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    if isinstance(node, list):
        for one in node:
            yield from _definitions(one, around)
    elif isinstance(node, dict):
        if "name" in node and "type" in node and node["type"] in ("record", "enum", "fixed"):
            yield node, around
            around = (*around, node["name"])
        for part in (node.get("items"), node.get("values"), *(one["type"] for one in node.get("fields", ()))):
            yield from _definitions(part, around)


@dataclass(frozen=True, slots=True)
class Model:
    """Values of a schema: a union's are (number of the branch, value), a record's and a map's dictionaries, a decimal's whole numbers."""

    schema: Any
    named: dict[str, Any]
    open: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, schema: Any) -> "Model":
        return cls(schema, named_types(schema), open_names(schema))

    def values(self) -> st.SearchStrategy[Any]:
        return st.composite(lambda draw: self._draw(draw, self.schema, 6))()

    def _draw(self, draw: Draw, kind: Any, depth: int) -> Any:
        kind = self.named.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, list):
            among = range(len(kind)) if depth > 0 or "null" not in kind else [kind.index("null")]
            number = draw(st.sampled_from(among))
            return number, self._draw(draw, kind[number], depth - 1)
        if isinstance(kind, str):
            return draw(_OF_PRIMITIVES[kind])
        if kind.get("logicalType") == "decimal":
            most = 10 ** kind["precision"] - 1
            return draw(st.integers(-most, most))
        match kind["type"]:
            case "fixed":
                return draw(st.binary(min_size=kind["size"], max_size=kind["size"]))
            case "enum":
                return draw(st.sampled_from(kind["symbols"]))
            case "array":
                return [self._draw(draw, kind["items"], depth - 1) for _ in range(self._count(draw, depth))]
            case "map":
                keys = draw(st.lists(st.text(max_size=3), max_size=self._count(draw, depth), unique=True))
                return {key: self._draw(draw, kind["values"], depth - 1) for key in keys}
            case "record":
                return {one["name"]: self._draw(draw, one["type"], depth - 1) for one in kind["fields"]}
            case other:
                return self._draw(draw, other, depth)

    def _count(self, draw: Draw, depth: int) -> int:
        return int(draw(st.integers(0, 3))) if depth > 0 else 0

    def encode(self, value: Any, kind: Any = None, *, blocks: bool = False) -> bytes:
        """Return the datum; with ``blocks``, lists in blocks of two with their sizes, as some writers make them."""
        kind = self.schema if kind is None else kind
        kind = self.named.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, list):
            return zigzag(value[0]) + self.encode(value[1], kind[value[0]], blocks=blocks)
        if isinstance(kind, str):
            return _encode_primitive(kind, value)
        if kind.get("logicalType") == "decimal":
            data = value.to_bytes(max(1, (value.bit_length() + 8) // 8), "big", signed=True)
            return zigzag(len(data)) + data
        match kind["type"]:
            case "fixed":
                return bytes(value)
            case "enum":
                return zigzag(kind["symbols"].index(value))
            case "array":
                return _items([self.encode(one, kind["items"], blocks=blocks) for one in value], blocks=blocks)
            case "map":
                pairs = (
                    _encode_primitive("string", key) + self.encode(one, kind["values"], blocks=blocks)
                    for key, one in value.items()
                )
                return _items(list(pairs), blocks=blocks)
            case "record":
                return b"".join(self.encode(value[one["name"]], one["type"], blocks=blocks) for one in kind["fields"])
            case other:
                return self.encode(value, other, blocks=blocks)

    def in_arrow(self, value: Any, kind: Any = None, around: tuple[str, ...] = (), *, blocks: bool = False) -> Any:
        """Return what ``to_pylist`` gives for it."""
        kind = self.schema if kind is None else kind
        if isinstance(kind, str) and kind in around:
            return self.encode(value, kind, blocks=blocks)
        kind = self.named.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, list):
            return self._branch_in_arrow(value, kind, around, blocks=blocks)
        if isinstance(kind, str):
            return value
        if kind.get("logicalType") == "decimal":
            return Decimal(f"{value}E-{kind['scale']}")
        match kind["type"]:
            case "array":
                return [self.in_arrow(one, kind["items"], around, blocks=blocks) for one in value]
            case "map":
                return [(key, self.in_arrow(one, kind["values"], around, blocks=blocks)) for key, one in value.items()]
            case "record":
                # A type is the same wherever it is used, as where it is defined.
                inner = self.open[kind["name"]]
                return {
                    one["name"]: self.in_arrow(value[one["name"]], one["type"], inner, blocks=blocks)
                    for one in kind["fields"]
                }
            case "fixed" | "enum":
                return value
            case other:
                return self.in_arrow(value, other, around, blocks=blocks)

    def _branch_in_arrow(self, value: Any, kind: list[Any], around: tuple[str, ...], *, blocks: bool) -> Any:
        number, chosen = value
        if kind[number] == "null":
            return None
        inner = self.in_arrow(chosen, kind[number], around, blocks=blocks)
        names = [name_of(one) for one in kind if one != "null"]
        if len(names) == 1:
            return inner
        return {name: inner if name == name_of(kind[number]) else None for name in names}


def zigzag(number: int) -> bytes:
    """Return a number as Avro writes it."""
    return varint((number << 1) ^ (number >> 63))


def _items(encoded: list[bytes], *, blocks: bool) -> bytes:
    if not blocks:
        return (zigzag(len(encoded)) + b"".join(encoded) if encoded else b"") + b"\0"
    cut = [encoded[at : at + 2] for at in range(0, len(encoded), 2)]
    return b"".join(zigzag(-len(one)) + zigzag(sum(map(len, one))) + b"".join(one) for one in cut) + b"\0"


def _encode_primitive(kind: str, value: Any) -> bytes:
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return zigzag(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "string":
            value = value.encode()
    return zigzag(len(value)) + value


_OF_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}

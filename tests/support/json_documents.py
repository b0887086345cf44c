"""JSON documents made by hypothesis, and a slow reader of them by an Avro schema, made with Python's `json`."""

import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.support.avro import Draw, named_types, open_names

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_WHOLE = re.compile(r"-?\d+")


class Number(str):
    """The text of a number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Given:
    """An object as its fields are written: perhaps with a name twice."""

    fields: tuple[tuple[str, Any], ...]


class ContradictionError(Exception):
    """A document is not what its schema says."""


def load(text: bytes) -> Any:
    """Return a document, its numbers as `Number`, its objects as `Given`, in which of equal names the last counts."""
    objects = {"object_pairs_hook": lambda pairs: Given(tuple({clean(name): one for name, one in pairs}.items()))}
    # Bytes it would take for other encodings, too.
    return json.loads(
        text.decode("utf-8-sig", "surrogatepass"),
        parse_int=Number,
        parse_float=Number,
        parse_constant=Number,
        **objects,
    )


# Reading.


@dataclass(frozen=True, slots=True)
class Part:
    """Text that is a part of a document: equal to what says the same."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and load(other.encode()) == self.value

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads documents of one schema."""

    named: dict[str, Any]
    open: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, schema: Any) -> Callable[[Any], Any]:
        reader = cls(named_types(schema), open_names(schema))
        return lambda value: reader.read(schema, value, ())

    def read(self, kind: Any, value: Any, around: tuple[str, ...]) -> Any:
        """Return what ``to_pylist`` gives; raises `ContradictionError`."""
        if value is None:
            return None
        if isinstance(kind, str) and kind in around:
            return Part(self._only(value, Given))
        kind = self.named.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, list):
            return self._choose(kind, value, around)
        if isinstance(kind, str):
            return _primitive(kind, value)
        if kind.get("logicalType") == "decimal":
            return _text(value)
        match kind["type"]:
            case "array":
                return [self.read(kind["items"], one, around) for one in self._only(value, list)]
            case "map":
                fields = self._only(value, Given).fields
                return [(key, self.read(kind["values"], one, around)) for key, one in fields]
            case "record":
                inner = self.open[kind["name"]]
                types = {one["name"]: one["type"] for one in kind["fields"]}
                fields = self._only(value, Given).fields
                last = dict(fields)
                return {name: self.read(one, last.get(name), inner) for name, one in types.items()}
            case "fixed":
                return _bytes(value, kind["size"])
            case "enum":
                return _text(value)
            case other:
                return self.read(other, value, around)

    def _only(self, value: Any, kind: type) -> Any:
        if not isinstance(value, kind):
            raise ContradictionError
        return value

    def _choose(self, kinds: list[Any], value: Any, around: tuple[str, ...]) -> Any:
        values = [one for one in kinds if one != "null"]
        if not values:
            raise ContradictionError
        if len(values) == 1:
            return self.read(values[0], value, around)
        given = _given(value)
        fitting = [one for one in values if given in self._written_as(one)]
        if not fitting and given not in ("object", "list"):
            fitting = [one for one in values if self._is_text(one)]
        if len(fitting) > 1 and all(one in _NUMBERS_IN_ORDER for one in fitting):
            exact = {"int": "int long double", "long": "long", "real": "double", "not finite": "double"}[given].split()
            fitting = ([one for one in fitting if one in exact] or sorted(fitting, key=_NUMBERS_IN_ORDER.index))[:1]
        if len(fitting) != 1:
            raise ContradictionError
        read = self.read(fitting[0], value, around)
        return {_name_of(one): read if one is fitting[0] else None for one in values}

    def _written_as(self, kind: Any) -> tuple[str, ...]:
        """Return what values of a type may be."""
        kind = self.named.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, dict) and kind.get("logicalType") == "decimal":
            return ("text", "not finite", "int", "long", "real")
        return _WRITTEN_AS[kind if isinstance(kind, str) else kind["type"]]

    def _is_text(self, kind: Any) -> bool:
        kind = self.named.get(kind, kind) if isinstance(kind, str) else kind
        return kind == "string" or (
            isinstance(kind, dict) and (kind["type"] == "enum" or kind.get("logicalType") == "decimal")
        )


_NUMBERS_IN_ORDER = ["double", "float", "long", "int"]
_WRITTEN_AS = {
    "boolean": ("boolean",),
    "int": ("int",),
    "long": ("int", "long"),
    "float": ("int", "long", "real", "not finite"),
    "double": ("int", "long", "real", "not finite"),
    "string": ("text", "not finite"),
    "bytes": ("text", "not finite"),
    "fixed": ("text", "not finite"),
    "enum": ("text", "not finite", "int"),
    "array": ("list",),
    "map": ("object",),
    "record": ("object",),
}


def _given(value: Any) -> str:
    """Return what a value is, without its type."""
    match value:
        case Number() if _WHOLE.fullmatch(value) and -(1 << 63) <= int(value) < 1 << 63:
            return "int" if -(1 << 31) <= int(value) < 1 << 31 else "long"
        case Number():
            return "real"
        case bool():
            return "boolean"
        case str():
            return "not finite" if value in _NOT_FINITE else "text"
        case _:
            return "list" if isinstance(value, list) else "object"


def _name_of(kind: Any) -> str:
    return kind if isinstance(kind, str) else kind.get("name", kind["type"])


def clean(text: str) -> str:
    """Return a text with U+FFFD for surrogates without partner."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def clean_name(text: str) -> str:
    """Return a name of a field, without NULs, too."""
    return clean(text).replace("\0", "\ufffd")


def _text(value: Any) -> str:
    if isinstance(value, list | Given):
        raise ContradictionError
    if isinstance(value, bool):
        return "true" if value else "false"
    return clean(value) if not isinstance(value, Number) else str(value)


def _bytes(value: Any, size: int | None = None) -> bytes:
    if not isinstance(value, str) or isinstance(value, Number):
        raise ContradictionError
    try:
        data = binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        raise ContradictionError from None
    if size not in (None, len(data)):
        raise ContradictionError
    return data


def _primitive(kind: str, value: Any) -> Any:
    is_text = isinstance(value, str) and not isinstance(value, Number)
    match kind:
        case "string":
            return _text(value)
        case "bytes":
            return _bytes(value)
        case "boolean" if isinstance(value, bool):
            return value
        case "int" | "long" if isinstance(value, Number) and _WHOLE.fullmatch(value):
            most = 1 << (31 if kind == "int" else 63)
            if -most <= int(value) < most:
                return int(value)
        case "float" | "double" if isinstance(value, Number) or (is_text and value in _NOT_FINITE):
            read = float(value) if kind == "double" else nearest_float(value)
            if abs(read) == float("inf") and value not in _NOT_FINITE:
                raise ContradictionError
            return repr(read)
    raise ContradictionError


def nearest_float(text: str) -> float:
    """Return the nearest number of 32 bits, of two that are as near the even one."""
    if text in _NOT_FINITE:
        return float(text)
    with np.errstate(over="ignore"):
        first = np.float32(float(text))
        among = [np.nextafter(first, np.float32(-np.inf)), first, np.nextafter(first, np.float32(np.inf))]
    distances = [abs(_exact(one) - Fraction(text)) for one in among]
    nearest = [one for one, distance in zip(among, distances, strict=True) if distance == min(distances)]
    even = [one for one in nearest if not one.view(np.int32) & 1]
    return float(
        np.copysign((nearest if len(nearest) == 1 else even)[0], np.float32(-1 if text.startswith("-") else 1))
    )


def _exact(number: np.float32) -> Fraction:
    """Return a number; for infinity what would follow the largest one."""
    return Fraction(float(number)) if np.isfinite(number) else Fraction(1 << 128) * (1 if number > 0 else -1)


# Making.

_NUMBERS = st.one_of(
    st.integers(-5, 300).map(str),
    st.integers(-(1 << 31) - 2, (1 << 31) + 2).map(str),
    st.sampled_from((-(1 << 63) - 1, -(1 << 63), (1 << 63) - 1, 1 << 63, 10**18, -(10**18), 10**19, 10**400)).map(str),
    st.integers().map(str),
    st.floats().map(json.dumps),
    st.floats(width=32).map(json.dumps),
    st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
).map(Number)
_TEXTS = st.one_of(
    st.text(max_size=12),
    st.text(st.characters(exclude_categories=()), max_size=4),
    st.text('"\\/\b\f\n\r\t\x00\x1fé\U0001f418\ud800\udc00', max_size=20),
    st.sampled_from(_NOT_FINITE),
    st.binary(max_size=8).map(lambda data: binascii.b2a_base64(data, newline=False).decode()),
)
_SCALARS = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS)
_NAMES = st.text("abcdef", min_size=1, max_size=2) | st.text(max_size=3)
ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(st.tuples(_NAMES, inner), max_size=3).map(lambda one: Given(tuple(one)))
    ),
    max_leaves=8,
)
"""Any value of JSON, objects as `Given`."""
_OF_PRIMITIVES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1).map(Number),
    "long": st.integers(-(1 << 63), (1 << 63) - 1).map(Number),
    "float": _NUMBERS,
    "double": _NUMBERS,
    "bytes": st.binary(max_size=12).map(lambda data: binascii.b2a_base64(data, newline=False).decode()),
    "string": _TEXTS,
}


@st.composite
def documents(draw: Draw, schema: Any) -> Any:
    """A value that mostly is of a schema."""
    named = named_types(schema)

    def make(kind: Any, depth: int) -> Any:
        chance = draw(st.integers(0, 40))
        if chance < 2 or depth == 0:
            return draw(ANYTHING) if chance == 0 else None
        kind = named.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, list):
            return make(draw(st.sampled_from(kind)), depth - 1)
        if isinstance(kind, str):
            return draw(_OF_PRIMITIVES[kind])
        match kind["type"]:
            case "fixed":
                data = draw(st.binary(min_size=kind["size"], max_size=kind["size"]))
                return binascii.b2a_base64(data, newline=False).decode()
            case "enum":
                return draw(st.sampled_from(kind["symbols"]))
            case "array":
                return [make(kind["items"], depth - 1) for _ in range(draw(st.integers(0, 3)))]
            case "map":
                names = draw(st.lists(_NAMES, max_size=3))
                return Given(tuple((name, make(kind["values"], depth - 1)) for name in names))
            case "record":
                return fields_of(kind, depth)
            case other:
                return make(other, depth)

    def fields_of(kind: Any, depth: int) -> Given:
        among = kind["fields"] if draw(st.booleans()) else draw(st.permutations(kind["fields"]))
        fields = []
        for one in among:
            for _ in range(draw(st.sampled_from((1, 1, 1, 1, 1, 1, 0, 2)))):
                fields.append((one["name"], make(one["type"], depth - 1)))
        if draw(st.integers(0, 5)) == 0:
            fields.insert(draw(st.integers(0, len(fields))), (draw(_NAMES), draw(ANYTHING)))
            fields += fields[:2]
        return Given(tuple(fields))

    return make(schema, 6)


@dataclass(frozen=True, slots=True)
class Style:
    """How a document is written."""

    blank: str
    escapes: str

    def write(self, value: Any) -> str:
        match value:
            case None:
                return "null"
            case bool():
                return "true" if value else "false"
            case Number():
                return str(value)
            case str():
                return self._text(value)
            case list():
                return self._around("[", [self.write(one) for one in value], "]")
            case Given():
                blank = self.blank
                pairs = (f"{self._text(name)}{blank}:{blank}{self.write(one)}" for name, one in value.fields)
                return self._around("{", list(pairs), "}")
        raise TypeError(value)

    def _around(self, begin: str, parts: list[str], end: str) -> str:
        blank = self.blank
        return begin + blank + f"{blank},{blank}".join(parts) + blank + end

    def _text(self, text: str) -> str:
        if self.escapes == "all" and text not in _NOT_FINITE:  # nobody escapes what may be a number
            units = text.encode("utf-16-be", "surrogatepass")
            codes = (units[k : k + 2].hex() for k in range(0, len(units), 2))
            return '"' + "".join(f"\\u{code}" for code in codes) + '"'
        is_whole = text == clean(text)
        return json.dumps(text, ensure_ascii=not (is_whole and self.escapes == "few"))

    def document(self, value: Any) -> bytes:
        return (self.blank + self.write(value) + self.blank).encode()


STYLES = st.builds(Style, st.sampled_from(("", "", " ", "\n\t \r")), st.sampled_from(("few", "few", "some", "all")))

"""Infer an Arrow type for JSON documents without a schema, batch by batch.

A tree of *shapes* collects the kinds of values of each field. Numbers are ``int64``, or ``double`` if any has a fraction; objects are
structs of all fields that any of them has; mixed kinds are text (see `JsonDecoder.of_type`), and so are fields without any value.
If any document is an object, other documents do not count.
"""

from dataclasses import dataclass, field
from enum import Flag, auto
from itertools import chain

import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.messages.kernels.arrays import spans
from ledgerfs.messages.values.json_parsing import BYTES_AT_ONCE, NOT_FINITE, Documents, Number, clean_name
from ledgerfs.messages.values.json_parts import given
from ledgerfs.messages.values.json_unions import Given
from ledgerfs.messages.values.value_decoder import reasons_before

MOST_SHAPES = 1 << 13
MOST_FIELDS = 1000
"""Most fields of an object; one with more is text."""
_MOST_LEVELS = 64
"""Levels of lists and objects that get types; deeper ones are text."""


class _Kind(Flag):
    """Kinds of values; null has none. An opaque value is kept as text."""

    BOOLEAN = auto()
    WHOLE = auto()
    REAL = auto()
    TEXT = auto()
    OBJECT = auto()
    LIST = auto()
    OPAQUE = auto()


_OF_GIVEN = {
    Given.OBJECT: _Kind.OBJECT,
    Given.LIST: _Kind.LIST,
    Given.TEXT: _Kind.TEXT,
    Given.NOT_FINITE: _Kind.TEXT,
    Given.BOOLEAN: _Kind.BOOLEAN,
    Given.INT: _Kind.WHOLE,
    Given.LONG: _Kind.WHOLE,
    Given.REAL: _Kind.REAL,
}
_OF_TYPES = {bool: _Kind.BOOLEAN, float: _Kind.REAL, str: _Kind.TEXT, dict: _Kind.OBJECT, list: _Kind.LIST}
_SCALARS = {
    _Kind.BOOLEAN: pa.bool_(),
    _Kind.WHOLE: pa.int64(),
    _Kind.REAL: pa.float64(),
    _Kind.WHOLE | _Kind.REAL: pa.float64(),
}


@dataclass(slots=True)
class _Shape:
    kinds: _Kind = field(default_factory=lambda: _Kind(0))
    fields: dict[str, "_Shape"] = field(default_factory=dict)
    item: "_Shape | None" = None

    @property
    def type(self) -> pa.DataType:
        if self.kinds == _Kind.LIST and self.item is not None:
            return pa.list_(self.item.type)
        if self.kinds == _Kind.OBJECT and self.fields:  # Parquet has no structs without fields
            return pa.struct([(name, one.type) for name, one in self.fields.items()])
        return _SCALARS.get(self.kinds, pa.string())


@dataclass(slots=True)
class JsonShapes:
    """The shapes of all documents so far. Not safe in threads."""

    _root: _Shape = field(default_factory=_Shape)
    _count: int = 1

    def look(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> Int64:
        """Add the documents ``data[starts[i] : ends[i]]``; return reasons as decoders do: documents that are not JSON do not count."""
        reasons = reasons_before(starts.size, valid)
        for first, last in spans(ends - starts, BYTES_AT_ONCE):
            rows = slice(first, last)
            documents = Documents.parsed(data, starts[rows], ends[rows], reasons[rows] == 0)
            self._look(self._root, documents.values, 0)
            reasons[rows] = documents.reasons
        return reasons

    @property
    def type(self) -> pa.DataType:
        """The type of all documents; text without any."""
        return self._root.type

    def _look(self, shape: _Shape, values: list[object], level: int) -> None:
        for kind in set(map(type, values)):
            shape.kinds |= _OF_TYPES.get(kind, _Kind(0))
            if kind in (int, Number):
                shape.kinds |= _kind_of_numbers({one for one in values if type(one) is kind})
        if shape is self._root and shape.kinds & _Kind.OBJECT:
            shape.kinds &= _Kind.OBJECT | _Kind.OPAQUE
        if level >= _MOST_LEVELS and shape.kinds & (_Kind.OBJECT | _Kind.LIST):
            shape.kinds |= _Kind.OPAQUE
        if shape.kinds == _Kind.OBJECT:
            self._look_at_fields(shape, [one for one in values if isinstance(one, dict)], level)
        elif shape.kinds == _Kind.LIST:
            items = list(chain.from_iterable(one for one in values if isinstance(one, list)))
            shape.item = shape.item or self._new()
            if shape.item is None:
                shape.kinds |= _Kind.OPAQUE
            else:
                self._look(shape.item, items, level + 1)

    def _look_at_fields(self, shape: _Shape, objects: list[dict[str, object]], level: int) -> None:
        for name in dict.fromkeys(chain.from_iterable(objects)):
            made = shape.fields.get(clean_name(name)) or (self._new() if len(shape.fields) < MOST_FIELDS else None)
            if made is None:
                shape.kinds |= _Kind.OPAQUE
                return
            shape.fields[clean_name(name)] = made
            self._look(made, [one[name] for one in objects if name in one], level + 1)

    def _new(self) -> _Shape | None:
        """Return a new shape, unless there are too many."""
        self._count += 1
        return _Shape() if self._count <= MOST_SHAPES else None


def _kind_of_numbers(numbers: set[object]) -> _Kind:
    kinds = _Kind(0)
    for one in numbers:
        kinds |= _OF_GIVEN[given(one)]
        if isinstance(one, Number) and one not in NOT_FINITE and abs(float(one)) == float("inf"):
            kinds |= _Kind.TEXT  # overflows a double
    return kinds

"""What JSON documents without a schema look like: an Arrow type for all of them, found out batch by batch.

A tree of *shapes* collects which kinds of values each field had. Numbers are ``int64``, with fractions among them ``double``; objects are
structs of all fields that any of them had; what is of different kinds is text (see `JsonDecoder.of_type`), and so is what was never there.
Where any document is an object, those that are none have no part in it.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.messages.values.json_shape_kernel import (
    BOOLEAN,
    CHILD,
    FIELDS,
    FLAGS,
    ITEM,
    KINDS,
    LIST,
    MOST_SHAPES,
    NAME_AT,
    NAME_SIZE,
    NONE,
    OBJECT,
    OPAQUE,
    REAL,
    SHAPE_WORDS,
    SIBLING,
    STACK,
    TEXT,
    WHOLE,
    field_of,
    item_of,
    look_at,
)
from ledgerfs.messages.values.row_spans import unwritable
from ledgerfs.messages.values.value_decoder import reasons_before

_FIRST_NAMES = 1 << 12
_SCALARS = {BOOLEAN: pa.bool_(), WHOLE: pa.int64(), REAL: pa.float64(), WHOLE | REAL: pa.float64(), TEXT: pa.string()}


def _no_shapes() -> Int64:
    shapes = np.full((MOST_SHAPES, SHAPE_WORDS), NONE, np.int64)
    shapes[:, [FLAGS, FIELDS]] = 0
    return shapes


@dataclass(slots=True)
class JsonShapes:
    """The shapes of all documents that were looked at. Not safe in threads: each has its own, and they are merged.

    Attributes
    ----------
    shapes
        Shapes, shape (`MOST_SHAPES`, 8); the first one is that of documents.
    names
        Names of fields, one after the other, and room for more.
    used
        How many shapes and bytes of names there are.

    """

    shapes: Int64 = field(default_factory=_no_shapes)
    names: Bytes = field(default_factory=lambda: np.zeros(_FIRST_NAMES, np.uint8))
    used: Int64 = field(default_factory=lambda: np.array([1, 0], np.int64))

    def look(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> Int64:
        """Look at the documents ``data[starts[i] : ends[i]]``; return reasons as decoders do: those that are no JSON have no part in it."""
        reasons = reasons_before(starts.size, valid)
        payloads, stack = unwritable(data), np.empty(STACK, np.int64)
        row = 0
        while row < starts.size:
            row = look_at(payloads, starts, ends, self.shapes, self.names, self.used, reasons, row, stack)
            if row < starts.size:
                self._make_room(int(ends[row] - starts[row]))
        return reasons

    @property
    def type(self) -> pa.DataType:
        """The type of all documents; text if there was none."""
        flags = int(self.shapes[0, FLAGS])
        if flags & OBJECT:
            flags &= OBJECT | OPAQUE
        return self._type_of(0, flags)

    def _type_of(self, shape: int, flags: int) -> pa.DataType:
        if flags & OPAQUE:
            return pa.string()
        if flags & KINDS == LIST:
            item = int(self.shapes[shape, ITEM])
            return pa.list_(self._type_of(item, int(self.shapes[item, FLAGS])) if item >= 0 else pa.string())
        if flags & KINDS == OBJECT:
            try:
                names = {one: self.name_of(one).decode() for one in self.fields_of(shape)}
            except UnicodeDecodeError:
                return pa.string()
            types = [pa.field(name, self._type_of(one, int(self.shapes[one, FLAGS]))) for one, name in names.items()]
            return pa.struct(types) if types else pa.string()  # Parquet has no structs without fields
        return _SCALARS.get(flags & KINDS, pa.string())

    def merge(self, other: "JsonShapes") -> None:
        """Add what another one has looked at."""
        self._merge(0, other, 0)

    def _merge(self, own: int, other: "JsonShapes", its: int) -> None:
        self.shapes[own, FLAGS] |= other.shapes[its, FLAGS]
        if other.shapes[its, ITEM] >= 0:
            self._merge_part(own, item_of(self.shapes, own, self.used), other, int(other.shapes[its, ITEM]))
        for one in other.fields_of(its):
            name = np.frombuffer(other.name_of(one), np.uint8)
            self._make_room(name.size)
            part = field_of(self.shapes, own, NONE, self.names, self.used, name, 0, name.size)
            self._merge_part(own, part, other, one)

    def _merge_part(self, own: int, part: int, other: "JsonShapes", its: int) -> None:
        if part < 0:
            self.shapes[own, FLAGS] |= OPAQUE
        else:
            self._merge(part, other, its)

    def _make_room(self, size: int) -> None:
        """Have room for names of so many bytes."""
        if self.names.size - self.used[1] < size:
            self.names = np.concatenate([self.names, np.zeros(self.names.size + size, np.uint8)])

    def fields_of(self, shape: int) -> list[int]:
        """Return the fields of an object."""
        found = []
        one = int(self.shapes[shape, CHILD])
        while one >= 0:
            found.append(one)
            one = int(self.shapes[one, SIBLING])
        return found

    def name_of(self, shape: int) -> bytes:
        """Return the name of a field."""
        at, size = self.shapes[shape, [NAME_AT, NAME_SIZE]].tolist()
        return self.names[at : at + size].tobytes()

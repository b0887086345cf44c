"""Columns of JSON values: check the values against a type, and make Arrow arrays of them.

Each type is a *part* that makes an array of a list of Python values, column by column. A value of another type fails its document:
it gets a reason, and the column is null there. A part that needs the digits of a number that orjson has rounded requests them: the document
is then parsed again, exactly.
"""

import binascii
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.messages.kernels.gather import bitmap, require_countable
from ledgerfs.messages.values.json_parsing import NOT_FINITE, Documents, Number, clean, clean_name, text_of
from ledgerfs.messages.values.json_unions import NONE_FITS, Given
from ledgerfs.messages.values.value_program import Reason

MOST_WORDS = 1 << 27
"""Most values in the lists of a document, with all columns of their items."""
_MOST_AT_ONCE = 4 * MOST_WORDS
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_NEGATIVE_ZERO = re.compile(rb"-0(?![.eE])")
_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_INT, _LONG = range(-(1 << 31), 1 << 31), range(-(1 << 63), 1 << 63)
_ROUNDED_TO_INFINITY = 2.0**128 - 2.0**103
"""The smallest number that overflows a float of 32 bits."""
_NONE = type(None)
Values: TypeAlias = list[Any]
"""Values of JSON as Python objects."""


@dataclass(slots=True)
class Run:
    """Results of one attempt to make columns: documents that fail, and those whose digits are needed."""

    documents: Documents
    failed: dict[int, int] = field(default_factory=dict)
    inexact: set[int] = field(default_factory=set)

    @property
    def is_done(self) -> bool:
        """Whether all columns are complete."""
        return not self.failed and not self.inexact

    def fail(self, row: int, reason: int) -> None:
        """Record the reason why a document fails; the first one counts."""
        self.failed.setdefault(row, reason)

    def need_digits(self, row: int) -> None:
        """Request that a document is parsed exactly."""
        self.inexact.add(row)

    def only(
        self,
        values: Values,
        rows: Int64,
        plain: set[type],
        reason: int,
        convert: Callable[[object], object] | None = None,
    ) -> Values:
        """Return values of ``plain`` types and None; converts others, which fail with ``reason`` where that returns None."""
        if plain.issuperset(map(type, values)):
            return values
        made = values.copy()
        for place, value in enumerate(values):
            if value is not None and type(value) not in plain:
                made[place] = convert(value) if convert is not None else None
                if made[place] is None:
                    self.fail(int(rows[place]), reason)
        return made


class Part(Protocol):
    """Makes arrays of a type. Safe in threads."""

    @property
    def type(self) -> pa.DataType:
        """The type of its arrays."""
        ...

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return an array of values, each from the document of its row; failed ones are null, and recorded in ``run``."""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """Booleans, or only null: as in Python."""

    type: pa.DataType
    reason: int

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return booleans or nulls."""
        plain = {_NONE, bool} if pa.types.is_boolean(self.type) else {_NONE}
        return pa.array(run.only(values, rows, plain, self.reason), self.type)


@dataclass(frozen=True, slots=True)
class Integer:
    """Whole numbers of a range, in any type of their width."""

    type: pa.DataType
    range: range
    reason: int

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return numbers."""
        values = run.only(values, rows, {_NONE, int}, self.reason, _whole)
        width = _INTEGERS[self.type.bit_width]
        try:
            array = pa.array(values, width)
        except (pa.ArrowInvalid, OverflowError):
            array = None
        if array is None or not self._has_all(array):
            array = pa.array(run.only(values, rows, {_NONE}, self.reason, self._in_range), width)
        return array.view(self.type)

    def _has_all(self, array: pa.Array) -> bool:
        least, most = (pc.min_max(array)[key].as_py() for key in ("min", "max"))
        return least is None or (least in self.range and most in self.range)

    def _in_range(self, value: object) -> object:
        return value if value in self.range else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, Number) and _WHOLE.fullmatch(value) else None


@dataclass(frozen=True, slots=True)
class Real:
    """Floats of 32 or 64 bits, each the nearest to the number in the document."""

    type: pa.DataType
    reason: int
    too_large: int

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return numbers."""
        if int in set(map(type, values)):
            # orjson reads -0 as 0.
            for row in {int(row) for one, row in zip(values, rows, strict=True) if type(one) is int and one == 0}:
                if _NEGATIVE_ZERO.search(run.documents.text(row)):
                    run.need_digits(row)
            values = [float(one) if type(one) is int else one for one in values]
        reals = run.only(values, rows, {_NONE, float}, self.reason, _real)
        array = pa.array(reals, pa.float64())
        if self.type == pa.float32():
            array = self._floats(values, array, rows, run)
        for place in np.flatnonzero(np.isinf(array.fill_null(0))).tolist():
            if values[place] not in NOT_FINITE:
                run.fail(int(rows[place]), self.too_large)
        return array

    def _floats(self, values: Values, array: pa.Array, rows: Int64, run: Run) -> pa.Array:
        """Return the nearest numbers of 32 bits; for one in the middle between two, all digits are needed."""
        wide = np.array(array.fill_null(0))
        with np.errstate(over="ignore"):
            floats = wide.astype(np.float32)
        for place in np.flatnonzero(_is_between(wide, floats)).tolist():
            text = values[place]
            if isinstance(text, Number):
                floats[place] = pa.scalar(str(text)).cast(pa.float32()).as_py()
            else:
                run.need_digits(int(rows[place]))
        return pa.array(floats, self.type, mask=np.array(array.is_null()))


def _real(value: object) -> float | None:
    is_real = isinstance(value, str) and (isinstance(value, Number) or value in NOT_FINITE)
    return float(value) if is_real else None  # type: ignore[arg-type]


def _is_between(wide: "npt.NDArray[np.float64]", floats: "npt.NDArray[np.float32]") -> Mask:
    """Whether a number is in the middle between two floats of 32 bits, so that rounded digits may decide."""
    near = floats.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        other = np.nextafter(floats, np.where(wide > near, np.inf, -np.inf).astype(np.float32)).astype(np.float64)
        is_between: Mask = (near != wide) & (wide - near == other - wide)
    is_between |= np.abs(wide) == _ROUNDED_TO_INFINITY
    return is_between


@dataclass(frozen=True, slots=True)
class Text:
    """Text; numbers and booleans become text as written.

    With ``has_parts`` objects and lists too, as JSON; with ``is_object`` objects only.
    """

    reason: int
    has_parts: bool = False
    is_object: bool = False
    type: pa.DataType = field(default_factory=pa.string)

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return texts."""
        if self.is_object:
            values = run.only(values, rows, {_NONE, dict}, self.reason)
        if {_NONE, str}.issuperset(map(type, values)):
            try:
                return _countable(pa.array(values, self.type))
            except UnicodeEncodeError:
                values = [clean(one) if isinstance(one, str) else one for one in values]
                return _countable(pa.array(values, self.type))
        made = values.copy()
        for place, value in enumerate(values):
            if value is not None:
                made[place] = self._text(value, int(rows[place]), run)
        return _countable(pa.array(made, self.type))

    def _text(self, value: object, row: int, run: Run) -> str | None:
        if type(value) is str:
            return clean(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list | dict) and not self.has_parts:
            run.fail(row, self.reason)
        elif row in run.documents.exact:
            return text_of(value)
        elif type(value) is int and value != 0:
            return str(value)
        else:
            run.need_digits(row)
        return None


@dataclass(frozen=True, slots=True)
class Base64:
    """Bytes, of variable or fixed size."""

    type: pa.DataType
    reason: int

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return bytes."""
        return pa.array(run.only(values, rows, {_NONE}, self.reason, self._bytes), self.type)

    def _bytes(self, value: object) -> bytes | None:
        if type(value) is not str:
            return None
        try:
            data = binascii.a2b_base64(value, strict_mode=True)
        except ValueError:
            return None
        is_of_size = not pa.types.is_fixed_size_binary(self.type) or len(data) == self.type.byte_width
        return data if is_of_size else None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of objects by its names; the first that an object has counts."""

    name: str
    part: Part
    aliases: tuple[str, ...] = ()

    def of(self, objects: Iterable[dict[str, object]]) -> Values:
        """Return its value in each object, None without one."""
        name = self.name
        if not self.aliases:
            return [one.get(name) for one in objects]
        names = (name, *self.aliases)
        return [next((one[name] for name in names if name in one), None) for one in objects]


@dataclass(frozen=True, slots=True)
class Record:
    """Objects with fields. Other fields are left out, or fail their document if there is a reason ``more``."""

    fields: tuple[Field, ...]
    reason: int
    more: int = 0
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", pa.struct([(one.name, one.part.type) for one in self.fields]))

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return structs."""
        values = run.only(values, rows, {_NONE, dict}, self.reason)
        objects = [one if isinstance(one, dict) else {} for one in values]
        names = {one.name for one in self.fields}
        if any("\ufffd" in one for one in names):
            objects = [{clean_name(name): value for name, value in one.items()} for one in objects]
        if self.more:
            for place, one in enumerate(objects):
                if not one.keys() <= names:
                    run.fail(int(rows[place]), self.more)
        arrays = [one.part.build(one.of(objects), rows, run) for one in self.fields]
        return pa.Array.from_buffers(self.type, len(values), [_validity(values)], children=arrays)


@dataclass(frozen=True, slots=True)
class Items:
    """Lists."""

    item: Part
    reason: int
    columns: int
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", pa.list_(self.item.type))

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return lists."""
        values = run.only(values, rows, {_NONE, list}, self.reason)
        values, counts = _limited(values, rows, self.columns, run)
        items = list(chain.from_iterable(one for one in values if one))
        array = self.item.build(items, np.repeat(rows, counts), run)
        return pa.Array.from_buffers(self.type, len(values), [_validity(values), _offsets(counts)], children=[array])


@dataclass(frozen=True, slots=True)
class Pairs:
    """Objects as maps."""

    value: Part
    reason: int
    columns: int
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", pa.map_(pa.string(), self.value.type))

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return maps."""
        values = run.only(values, rows, {_NONE, dict}, self.reason)
        values, counts = _limited(values, rows, self.columns, run)
        objects = [one for one in values if one]
        keys = pa.array(chain.from_iterable(objects), pa.string())
        items = list(chain.from_iterable(one.values() for one in objects))
        array = self.value.build(items, np.repeat(rows, counts), run)
        kind = pa.struct([self.type.key_field, self.type.item_field])
        pairs = pa.Array.from_buffers(kind, len(items), [None], children=[keys, array])
        return pa.Array.from_buffers(self.type, len(values), [_validity(values), _offsets(counts)], children=[pairs])


@dataclass(frozen=True, slots=True)
class Choice:
    """Values of a union, as structs with a field for each branch.

    Attributes
    ----------
    branches
        The branches that are not null, by their number in the union.
    fitting
        Index of the branch for a value of each `Given`, or a number below 0.
    none, several
        Reasons for values that match no branch, or several.

    """

    branches: dict[int, tuple[str, Part]]
    fitting: tuple[int, ...]
    none: int
    several: int
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", pa.struct([(name, part.type) for name, part in self.branches.values()]))

    def build(self, values: Values, rows: Int64, run: Run) -> pa.Array:
        """Return structs with one field that is not null."""
        numbers = [None if one is None else self.fitting[given(one)] for one in values]
        for place, number in enumerate(numbers):
            if number is not None and number < 0:
                run.fail(int(rows[place]), self.none if number == NONE_FITS else self.several)
        arrays = [
            part.build([one if of == number else None for one, of in zip(values, numbers, strict=True)], rows, run)
            for number, (_, part) in self.branches.items()
        ]
        return pa.Array.from_buffers(self.type, len(values), [_validity(values)], children=arrays)


def given(value: object) -> Given:
    """Classify a value, without its type."""
    match value:
        case bool():
            return Given.BOOLEAN
        case Number() if not _WHOLE.fullmatch(value):
            return Given.REAL
        case int() | Number():
            number = int(value)
            return Given.INT if number in _INT else Given.LONG if number in _LONG else Given.REAL
        case float():
            return Given.REAL
        case str():
            return Given.NOT_FINITE if value in NOT_FINITE else Given.TEXT
        case _:
            return Given.LIST if isinstance(value, list) else Given.OBJECT


def _validity(values: Values) -> pa.Buffer | None:
    return bitmap(np.array([one is not None for one in values], np.bool_)) if None in values else None


def _offsets(counts: Int64) -> pa.Buffer:
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    require_countable(int(offsets[-1]))
    return pa.py_buffer(offsets.astype(np.int32))


def _countable(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return an array; pyarrow makes several if there are more bytes than one can count."""
    if isinstance(array, pa.ChunkedArray):
        require_countable(array.nbytes)
    return array


def _limited(values: Values, rows: Int64, columns: int, run: Run) -> tuple[Values, Int64]:
    """Return lists or objects, and the number of items of each; a document with far too many items fails, and has none."""
    counts = np.array([len(one) if one else 0 for one in values], np.int64)
    if counts.sum() * columns > MOST_WORDS:
        of_rows = np.bincount(rows, weights=counts * columns)
        for row in np.flatnonzero(of_rows > MOST_WORDS).tolist():
            run.fail(row, Reason.TOO_LARGE)
        is_large = of_rows[rows] > MOST_WORDS
        values = [None if large else one for one, large in zip(values, is_large, strict=True)]
        counts[is_large] = 0
        if counts.sum() * columns > _MOST_AT_ONCE:
            raise CorruptObjectError("the columns of these values need too much memory for their size")
    return values, counts

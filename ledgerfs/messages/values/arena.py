"""The words that a kernel decodes, and their conversion to Arrow arrays."""

from dataclasses import dataclass
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.kernel import kernel
from ledgerfs.messages.kernels.arrays import empty
from ledgerfs.messages.kernels.gather import bitmap, gather_bytes, gather_text, masked, require_countable
from ledgerfs.messages.values.value_columns import (
    Choice,
    Column,
    Items,
    Leaf,
    Nothing,
    Nullable,
    Numbering,
    Pairs,
    Struct,
    Words,
    type_of,
)

_FIRST_ITEMS = 4
"""Items of a list for which there is room at first, on average."""
MOST_WORDS = 1 << 27
"""Words of an arena (1 GiB) at which it stops growing."""
NEXT, END, BEGIN = range(3)


@dataclass(slots=True)
class Arena:
    """Words of all nodes: those of one are at ``words[at[node, BEGIN] : at[node, NEXT]]``, with room up to ``at[node, END]``."""

    words: Int64
    at: Int64
    nodes: Numbering
    rows: int

    @classmethod
    def for_rows(cls, nodes: Numbering, rows: int) -> "Arena":
        """Return an arena with room for all rows outside lists, and for some items of each list."""
        sizes, are_inside = _sizes(nodes)
        room = sizes * np.where(are_inside, _FIRST_ITEMS * rows + 64, rows + 1)
        ends = np.cumsum(room)
        begins = ends - room
        # One extra word: a kernel cannot write to memory of no bytes.
        words = empty(int(room.sum()) + 1, np.int64)
        return cls(words, np.stack([begins, ends, begins], axis=1), nodes, rows)

    @property
    def is_full(self) -> bool:
        """Whether it has as much room as allowed."""
        return self.words.size >= MOST_WORDS

    def grow(self, node: int, row: int = 0) -> None:
        """Double the room of a node and of those of its level, which have its length, and enlarge nodes too small for all rows.

        ``row`` is how many rows are done; the growth so far predicts the room for the others.
        Raises `CorruptObjectError` if the arena is full.
        """
        if self.is_full:
            raise CorruptObjectError(f"the columns of these values need more than {8 * MOST_WORDS:,} bytes")
        room = self.at[:, END] - self.at[:, BEGIN]
        used = self.at[:, NEXT] - self.at[:, BEGIN]
        expected = used * (1.1 * self.rows / row) if row > 0 else used
        wanted = np.minimum(expected, 4 * room).astype(np.int64)
        sizes, levels = np.array(self.nodes.sizes), np.array(self.nodes.levels)
        are_beside = levels == levels[node]
        wanted[are_beside] = np.maximum(wanted, 2 * room[node] // sizes[node] * sizes)[are_beside]
        grown = np.flatnonzero(wanted > room)
        begins = self.words.size + np.cumsum(wanted[grown]) - wanted[grown]
        larger = empty(self.words.size + int(wanted[grown].sum()), np.int64)
        larger[: self.words.size] = self.words
        for one, begin in zip(grown.tolist(), begins.tolist(), strict=True):
            larger[begin : begin + used[one]] = self.words_of(one)
            self.at[one] = begin + used[one], begin + wanted[one], begin
        self.words = larger

    def words_of(self, node: int) -> Int64:
        """Return the words of a node."""
        words: Int64 = self.words[self.at[node, BEGIN] : self.at[node, NEXT]]
        return words


def words_of_row(nodes: Numbering) -> int:
    """Return the initial room for each row, in words."""
    sizes, are_inside = _sizes(nodes)
    return int((sizes * np.where(are_inside, _FIRST_ITEMS, 1)).sum())


def _sizes(nodes: Numbering) -> tuple[Int64, Mask]:
    return np.array(nodes.sizes, np.int64), np.array(nodes.levels, np.int64) >= 0


def build(arena: Arena, column: Column, data: Bytes, length: int, valid: Mask | None = None) -> pa.Array:
    """Return the array of a column, null where not ``valid``; places point into ``data``.

    Raises `CorruptObjectError` for more bytes or items than an array can count.
    """
    match column:
        case Leaf():
            return _leaf(column, arena.words_of(column.node), data, valid)
        case Nothing():
            return pa.nulls(length)
        case Nullable():
            words = arena.words_of(column.node)
            is_there = words == column.number if column.number else words != 0
            return build(arena, column.value, data, length, is_there if valid is None else is_there & valid)
        case Struct():
            arrays = [build(arena, one, data, length) for _, one in column.fields]
            return _struct(type_of(column), arrays, length, valid)
        case Items() | Pairs():
            return _list(arena, column, data, length, valid)
        case Choice():
            return _choice(arena, column, data, length, valid)


def _list(arena: Arena, column: Items | Pairs, data: Bytes, length: int, valid: Mask | None) -> pa.Array:
    offsets = _offsets(arena.words_of(column.node))
    items = int(offsets[-1])
    kind = type_of(column)
    if isinstance(column, Items):
        inner = build(arena, column.item, data, items)
    else:
        arrays = [build(arena, one, data, items) for one in (column.key, column.value)]
        if column.last_wins:
            offsets, arrays = _last_of_keys(offsets, arrays, column)
        inner = pa.StructArray.from_arrays(arrays, fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(kind, length, [bitmap(valid), pa.py_buffer(offsets)], children=[inner])


def _last_of_keys(
    offsets: npt.NDArray[np.int32], arrays: list[pa.Array], column: Pairs
) -> tuple[npt.NDArray[np.int32], list[pa.Array]]:
    if isinstance(column.value, Leaf) and column.value.words is Words.CLOSED_ENUM and arrays[1].null_count:
        offsets, arrays = _kept_items(np.array(arrays[1].is_valid()), offsets, arrays)
    return _kept_items(_are_last_of_keys(arrays[0], offsets), offsets, arrays)


def _choice(arena: Arena, column: Choice, data: Bytes, length: int, valid: Mask | None) -> pa.Array:
    chosen = arena.words_of(column.node)
    is_there = np.ones(length, np.bool_) if valid is None else valid.copy()
    arrays = []
    for number, branch in enumerate(column.branches):
        is_this = chosen == number
        if branch is None:
            is_there &= ~is_this
        else:
            arrays.append(build(arena, branch[1], data, length, is_this))
    return _struct(type_of(column), arrays, length, is_there)


def _struct(kind: pa.DataType, arrays: list[pa.Array], length: int, valid: Mask | None) -> pa.Array:
    return pa.Array.from_buffers(kind, length, [bitmap(valid)], children=arrays)


def _offsets(counts: Int64) -> npt.NDArray[np.int32]:
    offsets = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    require_countable(int(offsets[-1]))
    return offsets.astype(np.int32)


def _leaf(leaf: Leaf, words: Int64, data: Bytes, valid: Mask | None) -> pa.Array:
    if leaf.words.are_places:
        return _of_places(leaf, words[0::2], words[1::2], data, valid)
    match leaf.words:
        case Words.BOOLEAN:
            flags = np.packbits(words != 0, bitorder="little")
            return pa.Array.from_buffers(leaf.type, words.size, [bitmap(valid), pa.py_buffer(flags)])
        case Words.SYMBOL:
            numbers = pa.array(words, mask=None if valid is None else ~valid)
            return pa.array(leaf.symbols, pa.string()).take(numbers)
        case Words.OPEN_ENUM | Words.CLOSED_ENUM:
            return enum_names(words, leaf.numbers, leaf.symbols, valid, is_closed=leaf.words is Words.CLOSED_ENUM)
        case _:
            return masked(words.astype(f"i{leaf.type.bit_width // 8}"), valid, leaf.type)


def _of_places(leaf: Leaf, at: Int64, size: Int64, data: Bytes, valid: Mask | None) -> pa.Array:
    match leaf.words:
        case Words.TEXT:
            return gather_text(data, at, size, valid)
        case Words.BYTES:
            return gather_bytes(data, at, size, valid)
        case Words.DECIMAL:
            return _to_decimals(data, at, size, valid, leaf.type)
        case Words.UUID:
            return _to_uuids(data, at, size, valid)
        case _:
            return _to_fixed(data, at, size, valid, leaf.type)


def enum_names(
    words: Int64, numbers: tuple[int, ...], names: tuple[str, ...], valid: Mask | None, *, is_closed: bool
) -> pa.Array:
    """Return the names of numbers, which ``numbers`` has in ascending order.

    Other numbers are null where the enum ``is_closed``, otherwise their digits.
    """
    known = np.array(numbers or (0,), np.int64)
    if known[-1] - known[0] == known.size - 1:
        at = np.where((words >= known[0]) & (words <= known[-1]), words - known[0], 0)
    else:
        at = np.minimum(np.searchsorted(known, words), known.size - 1)
    is_known = known[at] == words if numbers else np.zeros(words.size, np.bool_)
    texts = list(names)
    if not is_known.all():
        if is_closed:
            valid = is_known if valid is None else valid & is_known
        else:
            is_other = ~is_known if valid is None else valid & ~is_known
            others, places = np.unique(words[is_other], return_inverse=True)
            at[is_other] = len(texts) + places
            texts += map(str, others.tolist())
    return pa.array(texts, pa.string()).take(pa.array(at, mask=None if valid is None else ~valid))


def _are_last_of_keys(keys: pa.Array, offsets: npt.NDArray[np.int32]) -> Mask:
    """Return the keys of the maps ``keys[offsets[i] : offsets[i + 1]]`` that no equal key follows, as a mask."""
    last = np.ones(len(keys), np.bool_)
    encoded = keys.dictionary_encode()
    lists = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    pairs = lists * np.int64(len(encoded.dictionary)) + np.asarray(encoded.indices)
    if pc.count_distinct(pa.array(pairs)).as_py() < pairs.size:
        last[:] = False
        last[pairs.size - 1 - np.unique(pairs[::-1], return_index=True)[1]] = True
    return last


def _kept_items(
    keep: Mask, offsets: npt.NDArray[np.int32], arrays: list[pa.Array]
) -> tuple[npt.NDArray[np.int32], list[pa.Array]]:
    """Return the offsets of lists, and the arrays of their items, with only the items in ``keep``."""
    if keep.all():
        return offsets, arrays
    before = np.zeros(keep.size + 1, np.int32)
    np.cumsum(keep, out=before[1:])
    mask = pa.array(keep)
    return before[offsets], [one.filter(mask) for one in arrays]


def _to_fixed(data: Bytes, at: Int64, size: Int64, valid: Mask | None, kind: pa.DataType) -> pa.Array:
    """Return an array of bytes of a fixed width; a missing value has the size 0."""
    target = empty(at.size * kind.byte_width + 1, np.uint8)
    _copy(data, at, size, kind.byte_width, target)
    return pa.Array.from_buffers(kind, at.size, [bitmap(valid), pa.py_buffer(target)])


def _to_decimals(data: Bytes, at: Int64, size: Int64, valid: Mask | None, kind: pa.DataType) -> pa.Array:
    """Return an array of a decimal type from big-endian two's complement (Avro's); the caller has checked that each value fits."""
    width = kind.bit_width // 8
    target = empty(at.size * width + 1, np.uint8)
    _reverse(data, at, size, width, target)
    return pa.Array.from_buffers(kind, at.size, [bitmap(valid), pa.py_buffer(target)])


def _to_uuids(data: Bytes, at: Int64, size: Int64, valid: Mask | None) -> pa.Array:
    """Return the texts of UUIDs, sixteen bytes each; a missing value has the size 0."""
    found = _to_fixed(data, at, size, valid, pa.binary(16)).to_pylist()
    return pa.array([None if one is None else str(UUID(bytes=one)) for one in found], pa.string())


@kernel
def _copy(data, at, size, width, target):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(at.size):
        for k in range(width):
            target[i * width + k] = data[at[i] + k] if size[i] else 0


@kernel
def _reverse(data, at, size, width, target):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(at.size):
        last = at[i] + size[i] - 1
        sign = np.uint8(0xFF) if size[i] > 0 and data[at[i]] >= 0x80 else np.uint8(0)
        for k in range(width):
            target[i * width + k] = data[last - k] if k < size[i] else sign

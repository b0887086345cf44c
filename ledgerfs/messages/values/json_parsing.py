"""JSON documents to Python values: by orjson, or exactly, with the digits of each number, by Python's own parser.

orjson rounds numbers and refuses JSON of some other writers: NaN and infinities as Python writes them, bytes that are not UTF-8, lone
surrogates. Such documents, and those whose digits are needed, are parsed exactly, with numbers as `Number`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import orjson

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.messages.values.value_decoder import reasons_before
from ledgerfs.messages.values.value_program import Reason

BYTES_AT_ONCE = 1 << 18
"""Most bytes of documents that are Python values at one time, unless one document is larger."""
MOST_DEPTH = 256
"""Most levels of nested lists and objects."""
BAD_JSON = int(Reason.OF_PROGRAM)
"""Reason of a document that is not JSON; the first of a program."""
NO_JSON = "it is not JSON"
NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
_SURROGATES = re.compile("[\ud800-\udfff]")
_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""Brackets, and strings (also without an end), in one pass over the bytes."""


class Number(str):
    """The text of a number."""

    __slots__ = ()


@dataclass(slots=True)
class Documents:
    """The documents ``data[starts[i] : ends[i]]`` as Python values.

    Attributes
    ----------
    values
        None where the document is null, or cannot be parsed.
    reasons
        Reason for None, as in decoders; otherwise 0.
    exact
        The rows whose values are exact.

    """

    data: Bytes
    starts: Int64
    ends: Int64
    reasons: Int64
    values: list[object]
    exact: set[int] = field(default_factory=set)

    @classmethod
    def parsed(cls, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None) -> "Documents":
        """Parse documents; those that are not ``valid`` get the reason `NULL`."""
        made = cls(data, starts, ends, reasons_before(starts.size, valid), [None] * starts.size)
        made._refuse_deep_ones()
        bounds, text = [*zip(starts.tolist(), ends.tolist(), strict=True)], data.data
        for row in np.flatnonzero(made.reasons == 0).tolist():
            start, end = bounds[row]
            try:
                made.values[row] = orjson.loads(text[start:end])
            except orjson.JSONDecodeError:
                made.parse_exactly(row)
        return made

    def text(self, row: int) -> bytes:
        """Return the text of a document."""
        return self.data[self.starts[row] : self.ends[row]].tobytes()

    def parse_exactly(self, row: int) -> None:
        """Parse a document again, with the digits of its numbers."""
        self.exact.add(row)
        self.values[row] = None
        try:
            self.values[row] = _loads(self.text(row).decode("utf-8-sig", "replace"))
        except json.JSONDecodeError as error:
            self.reasons[row] = _reason_of(error)

    def refuse(self, row: int, reason: int) -> None:
        """Record the reason why a document is refused."""
        self.values[row] = None
        self.reasons[row] = reason

    def _refuse_deep_ones(self) -> None:
        for row in np.flatnonzero((self.ends - self.starts > MOST_DEPTH) & (self.reasons == 0)).tolist():
            text = self.text(row)
            if text.count(b"[") + text.count(b"{") > MOST_DEPTH and _is_deep(text):
                self.reasons[row] = Reason.TOO_DEEP


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return {clean(name): value for name, value in pairs}


_loads: Callable[[str], object] = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=Number
).decode


def _is_deep(text: bytes) -> bool:
    depth = 0
    for found in _BRACKETS.finditer(text):
        bracket = found[0]
        if bracket in b"[{":
            depth += 1
            if depth > MOST_DEPTH:
                return True
        elif bracket in b"]}":
            depth -= 1
    return False


def _reason_of(error: json.JSONDecodeError) -> int:
    if error.msg.startswith("Extra data"):
        return Reason.TRAILING
    is_cut = error.msg.startswith("Unterminated string") or error.pos >= len(error.doc)
    return Reason.TRUNCATED if is_cut else BAD_JSON


def clean(text: str) -> str:
    """Return a text with U+FFFD for lone surrogates."""
    return _SURROGATES.sub("\ufffd", text)


def clean_name(text: str) -> str:
    """Return the name of a field without NULs, since other libraries end names there."""
    return text.replace("\0", "\ufffd")


def text_of(value: object) -> str:
    """Return a value that was parsed exactly as JSON, without whitespace."""
    match value:
        case Number():
            return value
        case str():
            return json.dumps(value, ensure_ascii=_SURROGATES.search(value) is not None)
        case list():
            return f"[{','.join(map(text_of, value))}]"
        case dict():
            fields = (f"{json.dumps(name, ensure_ascii=False)}:{text_of(one)}" for name, one in value.items())
            return f"{{{','.join(fields)}}}"
        case _:
            return json.dumps(value)

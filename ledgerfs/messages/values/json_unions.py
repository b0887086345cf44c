"""Choose the branch of an Avro union for a JSON value: a document does not name it, so only the value can decide.

A value belongs to a branch if values of no other are written like it. Numbers without logical types are the same number in all branches:
they get one that holds all numbers that are written so.
"""

from enum import IntEnum

from ledgerfs.formats.schemas.avro_schema import Array, AvroType, Enum, Fixed, Primitive, Union

NONE_FITS, SEVERAL_FIT = -1, -2
"""In place of a branch: no branch fits, or several."""
PLAIN_NUMBERS = frozenset({"int", "long", "float", "double"})


class Given(IntEnum):
    """Kinds of JSON values; whole numbers are `INT` if they have 32 bits, `LONG` if 64, else `REAL`.

    `NOT_FINITE` are the texts that Java writes for such numbers.
    """

    OBJECT = 0
    LIST = 1
    TEXT = 2
    BOOLEAN = 3
    INT = 4
    LONG = 5
    REAL = 6
    NOT_FINITE = 7


_WHOLE = (Given.INT, Given.LONG)
_TEXT = (Given.TEXT, Given.NOT_FINITE)
_REAL = (*_WHOLE, Given.REAL, Given.NOT_FINITE)
_WRITTEN_AS = {
    "boolean": (Given.BOOLEAN,),
    "int": (Given.INT,),
    "long": _WHOLE,
    "float": _REAL,
    "double": _REAL,
    "string": _TEXT,
    "bytes": _TEXT,
}
_BEST = {
    Given.INT: (("int", "long", "double"), ("float",)),
    Given.LONG: (("long",), ("double",), ("float",)),
    Given.REAL: (("double",), ("float",)),
    Given.NOT_FINITE: (("double",), ("float",)),
}


def written_as(kind: AvroType) -> tuple[Given, ...]:
    """Return the JSON kinds of a type that is not a union."""
    match kind:
        case Fixed() | Primitive() if kind.logical is not None and kind.logical.name == "decimal":
            return (*_TEXT, *_WHOLE, Given.REAL)
        case Primitive():
            return _WRITTEN_AS.get(kind.name, ())
        case Enum():
            return (*_TEXT, Given.INT)  # Pulsar's Python client writes numbers
        case Array():
            return (Given.LIST,)
        case _:
            return _TEXT if isinstance(kind, Fixed) else (Given.OBJECT,)


def branches_of_values(union: Union) -> tuple[int, ...]:
    """Return the number of the branch for values of each `Given`, or `NONE_FITS`, or `SEVERAL_FIT`."""
    written = [written_as(one) for one in union.branches]
    return tuple(_branch(union, given, [n for n, one in enumerate(written) if given in one]) for given in Given)


def _branch(union: Union, given: Given, fitting: list[int]) -> int:
    if not fitting and given not in {Given.OBJECT, Given.LIST}:
        # As everywhere, any value without parts may be text.
        fitting = [number for number, one in enumerate(union.branches) if _is_text(one)]
    if len(fitting) < 2:
        return fitting[0] if fitting else NONE_FITS
    names = {number: _plain_number(union.branches[number]) for number in fitting}
    if None in names.values():
        return SEVERAL_FIT
    return next(number for best in _BEST[given] for number, name in names.items() if name in best)


def _is_text(kind: AvroType) -> bool:
    if isinstance(kind, Enum) or (isinstance(kind, Primitive) and kind.name == "string"):
        return True
    return isinstance(kind, Fixed | Primitive) and kind.logical is not None and kind.logical.name in {"decimal", "uuid"}


def _plain_number(kind: AvroType) -> str | None:
    return kind.name if isinstance(kind, Primitive) and kind.logical is None and kind.name in PLAIN_NUMBERS else None

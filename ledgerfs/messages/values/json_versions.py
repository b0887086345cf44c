"""Whether JSON values of one schema may be read by another: fields match by name, and a document does not define what its numbers mean.

Where a common field has another meaning, the reader would return wrong values. A number is the same in any numeric type, but a time of
another unit is another time, and bytes are not the text that contains them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import (
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Recursive,
    Union,
)
from ledgerfs.messages.values.avro_columns import is_null
from ledgerfs.messages.values.avro_matching import described, pairs_of_fields
from ledgerfs.messages.values.json_places import Place
from ledgerfs.messages.values.json_unions import PLAIN_NUMBERS, branches_of_values, written_as


def names_in(writer: AvroSchema, reader: AvroSchema) -> dict[int, str]:
    """Return the aliases by which a reader's fields appear in documents of a writer, by the identities of the fields.

    Raises `InvalidSchemaError`, with the field and both types, where values would be misread.
    """
    comparison = _Comparison(writer.named)
    comparison.compare(writer.root, reader.root, Place())
    return {field: name for field, (name, is_alias) in comparison.names.items() if is_alias}


@dataclass(slots=True)
class _Comparison:
    written: Mapping[str, Named]
    names: dict[int, tuple[str, bool]] = field(default_factory=dict)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _branches: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def compare(self, writer: AvroType, reader: AvroType, place: Place) -> None:
        if isinstance(writer, Recursive):
            writer = self.written[writer.name]
        if (id(writer), id(reader)) in self._seen:
            return
        self._seen.add((id(writer), id(reader)))
        if isinstance(writer, Union):
            for one in writer.branches:
                self.compare(one, reader, place)
        elif is_null(writer) or (isinstance(reader, Primitive) and is_null(reader)):
            pass  # null is the only common value
        elif isinstance(reader, Union):
            self._compare_with_branches(writer, reader, place)
        else:
            self._compare_alike(writer, reader, place)

    def _compare_with_branches(self, writer: AvroType, reader: Union, place: Place) -> None:
        """Compare with the branches that values of a type may be read as."""
        values = [one for one in reader.branches if not is_null(one)]
        if len(values) < 2:
            for one in values:
                self.compare(writer, one, place)
            return
        if id(reader) not in self._branches:
            self._branches[id(reader)] = branches_of_values(reader)
        taken = {self._branches[id(reader)][given] for given in written_as(writer)}
        for number in sorted(taken):
            if number >= 0:
                self.compare(writer, reader.branches[number], place)

    def _compare_alike(self, writer: AvroType, reader: AvroType, place: Place) -> None:
        match writer, reader:
            case Record(), Recursive():
                pass  # read as text
            case Record(), Record():
                self._compare_fields(writer, reader, place)
            case Array(), Array():
                self.compare(writer.items, reader.items, place.part("an item"))
            case Map(), Map():
                self.compare(writer.values, reader.values, place.part("a value"))
            case _ if _meaning(writer) != _meaning(reader) or _loses_digits(writer, reader):
                text = f"{place.described}, {described(writer)}, cannot be read as {described(reader)}"
                raise InvalidSchemaError(text)

    def _compare_fields(self, writer: Record, reader: Record, place: Place) -> None:
        for wanted, given in pairs_of_fields(writer, reader):
            if given is None:
                continue
            name = given.name, given.name != wanted.name
            if self.names.setdefault(id(wanted), name) != name:
                raise InvalidSchemaError(f"{place.field(wanted.name).described} has several names in its schema")
            self.compare(given.type, wanted.type, place.field(given.name))


def _meaning(kind: AvroType) -> str:
    match kind:
        case Fixed() | Primitive() if kind.logical is not None:
            name = kind.logical.name.removeprefix("local-")
            return "text" if name == "uuid" else name
        case Fixed():
            return "bytes"
        case Enum() | Primitive(name="string"):
            return "text"
        case Primitive():
            return "number" if kind.name in PLAIN_NUMBERS else kind.name
        case _:
            return type(kind).__name__


def _loses_digits(writer: AvroType, reader: AvroType) -> bool:
    return (
        isinstance(writer, Primitive)
        and isinstance(reader, Primitive)
        and (writer.name, reader.name) == ("double", "float")
    )

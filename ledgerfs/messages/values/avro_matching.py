"""Which of a writer's Avro types a reader accepts, by the specification and Java's decoder.

Names of records count in unions only, and even there a record with matching fields is enough. Those of enums and fixed types may differ in
their namespace. Aliases are the reader's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import (
    NO_DEFAULT,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Named,
    Primitive,
    Record,
    Recursive,
    Union,
    branch_name,
    short_name,
)

SPANS = {("bytes", "bytes"), ("string", "string"), ("bytes", "string"), ("string", "bytes")}
"""Types of variable size that may be read as each other: (writer's, reader's)."""
MOST_COMPARISONS = 1 << 18
"""Most branches of readers' unions to compare."""
_WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "bytes": ("string",),
    "string": ("bytes",),
}


@dataclass(slots=True)
class Matching:
    """The named types of a writer and a reader, and the results of earlier comparisons."""

    written: Mapping[str, Named]
    wanted: Mapping[str, Named]
    _fitting: dict[tuple[str, str], bool] = field(default_factory=dict)
    _work: int = 0

    def branch(self, writer: AvroType, reader: Union) -> int | None:
        """Return the branch of a reader's union for another type: one that is alike, else a record that fits, else a wider type.

        Raises `InvalidSchemaError` for schemas that require more comparisons than any real ones.
        """
        self._work += len(reader.branches)
        if self._work > MOST_COMPARISONS:
            raise InvalidSchemaError(f"the unions of these schemas need more than {MOST_COMPARISONS:,} comparisons")
        for number, one in enumerate(reader.branches):
            if self._is_alike(writer, one):
                return number
        records = [number for number, one in enumerate(reader.branches) if self._fits(writer, one)]
        same = [number for number in records if _short(writer) == _short(reader.branches[number])]
        wider = (number for number, one in enumerate(reader.branches) if is_wider(writer, one))
        return next(iter([*same, *records, *wider]), None)

    def _is_alike(self, writer: AvroType, reader: AvroType) -> bool:
        """Whether two types have one kind and name; the reader's name may be an alias."""
        if _is_record(writer) and _is_record(reader):
            return branch_name(writer) in (branch_name(reader), *self._record(reader, self.wanted).aliases)
        match writer, reader:
            case Fixed(), Fixed():
                return have_one_name(writer, reader)
            case Enum(), Enum():
                return have_one_name(writer, reader)
            case Primitive(), Primitive():
                return writer.name == reader.name
            case _:
                return type(writer) is type(reader)

    def _fits(self, writer: AvroType, reader: AvroType) -> bool:
        """Whether both are records, and each field of the reader's can be read from the writer's."""
        if not (_is_record(writer) and _is_record(reader)):
            return False
        names = branch_name(writer), branch_name(reader)
        if names not in self._fitting:
            self._fitting[names] = True  # inside their own definitions
            pairs = pairs_of_fields(self._record(writer, self.written), self._record(reader, self.wanted))
            fields = (one is None or self._may_be(one.type, other.type) for other, one in pairs)
            self._fitting[names] = _has_all(pairs) and all(fields)
        return self._fitting[names]

    def _may_be(self, writer: AvroType, reader: AvroType) -> bool:
        """Whether values of a type may be read as another, without a look into its parts."""
        if isinstance(writer, Union):
            return True
        if isinstance(reader, Union):
            return self.branch(writer, reader) is not None
        if _is_record(writer) and _is_record(reader):
            return _has_all(pairs_of_fields(self._record(writer, self.written), self._record(reader, self.wanted)))
        if isinstance(writer, Fixed) and isinstance(reader, Fixed) and writer.size != reader.size:
            return False
        return self._is_alike(writer, reader) or is_wider(writer, reader)

    def _record(self, kind: AvroType, named: Mapping[str, Named]) -> Record:
        found = named[kind.name] if isinstance(kind, Recursive) else kind
        if not isinstance(found, Record):
            raise TypeError(f"{branch_name(kind)} is not a record")
        return found


def pairs_of_fields(writer: Record, reader: Record) -> list[tuple[Field, Field | None]]:
    """Return the reader's fields, each with the writer's field of its name, or of an alias that no other of its fields has as name."""
    by_name = {one.name: one for one in writer.fields}
    taken = {one.name for one in reader.fields}
    pairs = []
    for one in reader.fields:
        found = by_name.get(one.name)
        for alias in one.aliases if found is None else ():
            if alias in by_name and alias not in taken:
                taken.add(alias)
                found = by_name[alias]
                break
        pairs.append((one, found))
    return pairs


def have_one_name(writer: Fixed | Enum, reader: Fixed | Enum) -> bool:
    """Whether a writer's type has a name of the reader's; namespaces may differ."""
    names = (reader.name, *reader.aliases)
    return writer.name in names or short_name(writer.name) in map(short_name, names)


def is_wider(writer: AvroType, reader: AvroType) -> bool:
    """Whether the reader's type is wider, so that it can represent each value of the writer's."""
    if not (isinstance(writer, Primitive) and isinstance(reader, Primitive)):
        return False
    return reader.name in _WIDER.get(writer.name, ())


def mean_the_same(writer: Logical | None, reader: Logical | None) -> bool:
    """Whether numbers of two logical types mean the same. Those of other units or scales do not, although Avro would accept them."""
    if writer is None or reader is None or writer == reader:
        return True
    if writer.name == reader.name == "decimal":
        return writer.scale == reader.scale
    return writer.name.removeprefix("local-") == reader.name.removeprefix("local-")


def described(kind: AvroType) -> str:
    """Return a type in a few words."""
    match kind:
        case Primitive() if kind.logical is not None:
            return f"{kind.name} ({kind.logical.name})"
        case Array():
            return "an array"
        case Map():
            return "a map"
        case Union():
            return "[" + ", ".join(branch_name(one) for one in kind.branches) + "]"
        case _:
            return branch_name(kind)


def _has_all(pairs: list[tuple[Field, Field | None]]) -> bool:
    return all(one is not None or wanted.default is not NO_DEFAULT for wanted, one in pairs)


def _is_record(kind: AvroType) -> bool:
    return isinstance(kind, Record | Recursive)


def _short(kind: AvroType) -> str:
    return short_name(branch_name(kind))

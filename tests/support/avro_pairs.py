"""A reader's Avro schema for a writer's: what people change from version to version, now and then so that values cannot be read."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.support.avro import PRIMITIVES, Draw, name_of

WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "bytes": ("string",),
    "string": ("bytes",),
}
_NEW_RECORD = [{"name": "x", "type": "int"}, {"name": "y", "type": "string", "default": "d"}]
NEW_FIELDS: tuple[tuple[Any, Any], ...] = (
    ("int", -5),
    ("long", 2**62),
    ("float", 1.5),
    ("double", -0.25),
    ("boolean", True),
    ("string", "né"),
    ("bytes", "ÿ\u0001"),
    ("null", None),
    (["null", "string"], None),
    (["string", "null"], "x"),
    (["long", "string", "boolean"], 7),
    ({"type": "array", "items": "int"}, [1, 2, 3]),
    ({"type": "array", "items": ["null", "string"]}, [None]),
    ({"type": "map", "values": "string"}, {"k": "v"}),
    ({"type": "enum", "name": "NewEnum", "symbols": ["P", "Q"]}, "Q"),
    ({"type": "fixed", "name": "NewFixed", "size": 2}, "ab"),
    ({"type": "record", "name": "New", "fields": _NEW_RECORD}, {"x": 3}),
)
"""Fields that a reader may add, with their defaults."""


@st.composite
def readers(draw: Draw, writer: Any) -> Any:
    """A schema with which what ``writer`` wrote is read: one of Avro's own rules for each difference, and some that have none."""
    return _Changer(draw).changed(writer)


@dataclass(slots=True)
class _Changer:
    draw: Draw
    count: int = 0

    def one_of(self, weight: int) -> bool:
        return self.draw(st.integers(0, weight - 1)) == 0

    def changed(self, kind: Any, *, in_list: bool = False, in_union: bool = False) -> Any:
        if isinstance(kind, list):
            return self._union(kind, in_list=in_list)
        made = self._type(kind, in_list=in_list, in_union=in_union)
        if not in_union and made != "null" and self.one_of(8):
            return [made, "null"] if self.one_of(2) else ["null", made]
        return made

    def _type(self, kind: Any, *, in_list: bool, in_union: bool) -> Any:
        if isinstance(kind, str):
            return self._primitive(kind, in_list=in_list, in_union=in_union)
        if kind.get("logicalType") == "decimal":
            return kind
        match kind["type"]:
            case "array":
                return {**kind, "items": self.changed(kind["items"], in_list=True)}
            case "map":
                return {**kind, "values": self.changed(kind["values"], in_list=True)}
            case "record":
                return self._renamed({**kind, "fields": self._fields(kind["fields"], in_list=in_list)})
            case "enum":
                return self._renamed(self._enum(kind))
            case _:
                return self._renamed(kind)

    def _primitive(self, kind: str, *, in_list: bool, in_union: bool) -> str:
        if not in_list and not in_union and self.one_of(30):
            return str(self.draw(st.sampled_from(PRIMITIVES)))
        if kind in WIDER and not in_union and self.one_of(3):
            return str(self.draw(st.sampled_from(WIDER[kind])))
        return kind

    def _renamed(self, kind: Any) -> Any:
        if not self.one_of(4):
            return kind
        self.count += 1
        return {**kind, "name": f"Renamed{self.count}", "aliases": ["Other", kind["name"]]}

    def _enum(self, kind: Any) -> Any:
        symbols = self.draw(st.permutations([*kind["symbols"], "NEW"]))
        if not self.one_of(4):
            return {**kind, "symbols": symbols}
        fewer = symbols[: self.draw(st.integers(1, len(symbols)))]
        return {**kind, "symbols": fewer, "default": fewer[0]} if self.one_of(2) else {**kind, "symbols": fewer}

    def _fields(self, fields: list[Any], *, in_list: bool) -> list[Any]:
        made = []
        for one in fields:
            if self.one_of(6):
                continue
            changed = {**one, "type": self.changed(one["type"], in_list=in_list)}
            if self.one_of(5):
                changed = {**changed, "name": f"new_{one['name']}", "aliases": ["nobody", one["name"]]}
            made.append(changed)
        for _ in range(self.draw(st.integers(0, 2)) if self.one_of(2) else 0):
            made.append(self._new_field(in_list=in_list))
        return list(self.draw(st.permutations(made)))

    def _new_field(self, *, in_list: bool) -> Any:
        self.count += 1
        kind, default = self.draw(st.sampled_from(NEW_FIELDS))
        if isinstance(kind, dict) and "name" in kind:
            kind = {**kind, "name": f"{kind['name']}{self.count}"}
        made = {"name": f"added{self.count}", "type": kind}
        return made if not in_list and self.one_of(12) else {**made, "default": default}

    def _union(self, kind: list[Any], *, in_list: bool) -> Any:
        """Change branches; those that numbers may become come last, since fastavro takes the first that will do, and Java the nearest."""
        made = [self.changed(one, in_list=in_list, in_union=True) for one in kind]
        # Where a record is gone, Java takes another one that fits, and fastavro none.
        others = [one for one in made if isinstance(one, str) or one["type"] != "record"]
        if len(made) > 1 and others and not in_list and self.one_of(10):
            made.remove(self.draw(st.sampled_from(others)))
        names = [name_of(one) for one in made]
        if self.one_of(4):
            made += [one for one in ("boolean", "int", "long", "double") if one not in names and self.one_of(2)]
        if not in_list and len(made) == 1 and made[0] != "null" and self.one_of(2):
            return made[0]
        order = ("null", "boolean", "int", "long", "float", "double")
        return sorted(made, key=lambda one: order.index(one) if isinstance(one, str) and one in order else -1)

"""Unions of JSON: a value is of the one type that is written like it, or cannot be decoded."""

import json
from typing import Any

from ledgerfs.messages.values.json_values import JsonDecoder
from tests.messages.values.test_json_values import decode
from tests.support.each import for_each

CARD = {"type": "record", "name": "Card", "fields": [{"name": "a", "type": ["null", "int"]}]}
TRANSFER = {"type": "record", "name": "Transfer", "fields": [{"name": "iban", "type": ["null", "string"]}]}
HUE = {"type": "enum", "name": "Hue", "symbols": ["RED"]}
DAY = {"type": "int", "logicalType": "date"}
TIME = {"type": "long", "logicalType": "timestamp-millis"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
LONGS = {"type": "map", "values": "long"}
ROW = {"type": "array", "items": "long"}
FOUR = {"type": "fixed", "name": "Four", "size": 3}


@for_each(
    ("union", "text", "branch"),
    [
        (["null", CARD, TRANSFER], '{"iban":"DE02"}', "several"),
        (["null", CARD, LONGS], '{"x":1}', "several"),
        (["null", CARD, ROW], '{"a":1}', "Card"),
        (["null", CARD, ROW], "[1]", "array"),
        (["bytes", "string"], '"abcd"', "several"),
        (["bytes", FOUR], '"abcd"', "several"),
        ([HUE, "string"], '"RED"', "several"),
        ([PRICE, "string"], '"1.5"', "several"),
        ([PRICE, "int"], "5", "several"),
        ([PRICE, "int"], "1.5", "bytes"),
        ([HUE, "int"], "0", "several"),
        ([HUE, "int"], '"RED"', "Hue"),
        ([DAY, "long"], "5", "several"),
        ([DAY, "long"], "5000000000", "long"),
        ([DAY, TIME], "5", "several"),
        ([DAY, "double"], "5", "several"),
        ([DAY, "double"], "5.5", "double"),
        ([TIME, "float"], "5000000000", "several"),
        (["float", "double"], "0.1", "double"),
        (["double", "float"], "0.1", "double"),
        (["float", "double"], "1e300", "double"),
        (["float", "double"], "5", "double"),
        (["float", "int"], "16777217", "int"),
        (["float", "int"], "5000000000", "float"),
        (["float", "int"], "1e39", "too large"),
        (["int", "long", "double"], "5", "int"),
        (["int", "long", "double"], "5000000000", "long"),
        (["double", "long"], "9007199254740993", "long"),
        (["int", "long", "double"], "1e19", "double"),
        (["null", "string", "double"], '"-Infinity"', "several"),
        (["null", "string", "double"], '"NaNs"', "string"),
        (["null", "string", "double"], "NaN", "double"),
        (["null", "string", "int"], '"NaN"', "string"),
        (["null", "int", "float", "double"], '"NaN"', "double"),
        (["null", "string", "int"], "5", "int"),
        (["null", "string", "int"], "1.5", "string"),
        (["null", "string", "int"], "true", "string"),
        (["null", "string", "int"], "[1]", "none"),
        (["null", "string", "boolean"], "true", "boolean"),
    ],
)
def test_of_which_type_of_a_union_a_value_is(union: list[Any], text: str, branch: str) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "u", "type": union}]}
    whole = [f'{{"u":{text}}}'.encode(), b'{"u":null}']
    rows, reasons = decode(JsonDecoder.of_schema(json.dumps(record)), whole)
    assert (rows[1]["u"], reasons[1]) == (None, "")
    of_logical = {"date": "int (date)", "timestamp-millis": "long (timestamp-millis)", "decimal": "bytes (decimal)"}
    names = ", ".join(
        one if isinstance(one, str) else of_logical.get(one.get("logicalType"), one.get("name", one["type"]))
        for one in union
    )
    said = {
        "several": f"its field 'u' is ambiguous: several types of [{names}] match it, and JSON does not distinguish them",
        "none": f"its field 'u' is not one of [{names}]",
        "too large": "its field 'u' is a number outside the range of float",
    }
    assert reasons[0] == said.get(branch, "")
    assert [name for name, one in (rows[0] or {"u": {}})["u"].items() if one is not None] == [branch] * (
        branch not in said
    )

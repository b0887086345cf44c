"""Two schemas mean the same if values of both are written alike, in whichever form, and with whatever blanks, they are told."""

import base64
import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.values.decoders import decoder_of
from tests.support.each import for_each

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NATIVE = {
    "fileDescriptorSet": base64.b64encode(b"\x0a\x04\x0a\x02a.").decode(),
    "rootMessageTypeName": "shop.Order",
    "rootFileDescriptorName": "a.proto",
}
DEFINED = [("AVRO", ORDER), ("JSON", ORDER), ("PROTOBUF_NATIVE", NATIVE), ("PROTOBUF", ORDER)]
PLAIN = ["STRING", "INT64", "BYTES"]

definitions = st.sampled_from([*DEFINED, *((one, None) for one in PLAIN)])


def text(definition: object, indent: int | None = None) -> bytes:
    return b"" if definition is None else json.dumps(definition, indent=indent).encode()


def pair(
    key: tuple[str, object], value: tuple[str, object], *, of_bookkeeper: bool, encoding: str = "INLINE"
) -> SchemaInfo:
    """Return a KEY_VALUE schema as BookKeeper has it, or as the admin API tells it."""
    parts = {"key": key, "value": value}
    if of_bookkeeper:
        texts = [text(definition, 2) for _, definition in parts.values()]
        data = b"".join(struct.pack(">i", len(one)) + one for one in texts)
    else:
        data = json.dumps({name: "" if one is None else one for name, (_, one) in parts.items()}).encode()
    properties = {"kv.encoding.type": encoding} | {f"{name}.schema.type": kind for name, (kind, _) in parts.items()}
    return SchemaInfo("KEY_VALUE", data, properties)


@for_each(("kind", "definition"), DEFINED)
def test_blanks_do_not_matter(kind: str, definition: dict[str, object]) -> None:
    one, other = (SchemaInfo(kind, text(definition, indent)) for indent in (None, 4))
    assert one != other
    assert one.means_the_same(other)
    assert not one.means_the_same(replace(other, data=text({**definition, "name": "x", "rootMessageTypeName": "x"})))
    assert not one.means_the_same(replace(other, data=b"{"))


def test_fields_of_the_older_protobuf_are_in_its_properties() -> None:
    one = SchemaInfo("PROTOBUF", text(ORDER), {"__PARSING_INFO__": "[]"})
    assert one.means_the_same(replace(one, data=text(ORDER, 2)))
    assert not one.means_the_same(replace(one, properties={}))


@given(definitions, definitions)
def test_pairs_of_both_forms_mean_the_same(key: tuple[str, object], value: tuple[str, object]) -> None:
    stored, reported = (pair(key, value, of_bookkeeper=one) for one in (True, False))
    assert stored.means_the_same(reported)
    assert reported.means_the_same(stored)
    assert not stored.means_the_same(pair(key, value, of_bookkeeper=False, encoding="SEPARATED"))


@given(definitions, definitions, definitions)
def test_pairs_of_other_parts_do_not(
    key: tuple[str, object], value: tuple[str, object], other: tuple[str, object]
) -> None:
    stored = pair(key, value, of_bookkeeper=True)
    assert stored.means_the_same(pair(key, other, of_bookkeeper=False)) == (value == other)
    assert stored.means_the_same(pair(other, value, of_bookkeeper=False)) == (key == other)


def test_what_is_damaged_is_only_like_itself() -> None:
    cut = SchemaInfo("KEY_VALUE", b"\x00\x00\x00\x09x")
    assert cut.means_the_same(replace(cut))
    assert not cut.means_the_same(pair(("STRING", None), ("STRING", None), of_bookkeeper=True))


def test_a_definition_that_is_lost_is_like_no_other() -> None:
    lost = SchemaInfo("NONE", unreadable="its ledger is gone")
    assert not lost.means_the_same(SchemaInfo("NONE"))
    assert not SchemaInfo("NONE").means_the_same(lost)
    with pytest.raises(InvalidSchemaError, match="its ledger is gone"):
        decoder_of(lost)
    with pytest.raises(InvalidSchemaError, match="its ledger is gone"):
        decoder_of(SchemaInfo("STRING"), lost)

"""Protobuf values: any message in any order of its fields, against Google's decoder and Pulsar's."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.messages.values import arena, row_spans
from ledgerfs.messages.values.protobuf_kernel import IN_PARTS
from ledgerfs.messages.values.protobuf_values import ProtobufDecoder
from tests.support.each import for_each
from tests.support.protobuf import WIRE, Model, P, file_of, models, sized, tag, varint_bytes


def decoder_of(model: Model) -> ProtobufDecoder:
    return ProtobufDecoder.of(model.schema)


def decode(decoder: ProtobufDecoder, payloads: list[bytes | None], between: bytes = b"") -> tuple[pa.Array, list[int]]:
    """Return what becomes of payloads that stand beside each other, or have other bytes between them."""
    sizes = np.array([len(one or b"") for one in payloads], np.int64)
    data = np.frombuffer(between + b"".join((one or b"") + between for one in payloads) + b"\0", np.uint8)
    starts = len(between) * np.arange(1, len(payloads) + 1) + np.cumsum(sizes) - sizes
    valid = np.array([one is not None for one in payloads], bool)
    array, reasons = decoder.decode(data, starts, starts + sizes, valid)
    array.validate(full=True)
    assert array.type == decoder.type
    assert array.is_null().to_pylist() == (reasons != 0).tolist()
    return array, reasons.tolist()


def rows_of(model: Model, array: pa.Array) -> list[Any]:
    return [model.comparable(one, array.type) for one in array.to_pylist()]


@st.composite
def written(draw: Any, *, plain: bool = False) -> tuple[Model, list[bytes | None]]:
    model = draw(models(plain=plain))
    return model, draw(st.lists(st.none() | model.payloads(), max_size=6))


@pytest.mark.long
@given(written())
@settings(max_examples=80, deadline=None)
def test_any_fields_in_any_order(made: tuple[Model, list[bytes | None]]) -> None:
    model, payloads = made
    array, reasons = decode(decoder_of(model), payloads)
    for payload, row, reason in zip(payloads, rows_of(model, array), reasons, strict=True):
        if payload is None:
            assert reason == -1
        elif reason == IN_PARTS:
            assert row is None
        else:
            assert reason == 0
            assert row == model.parse(payload)


@pytest.mark.long
@given(written(plain=True), st.data())
@settings(max_examples=80, deadline=None)
def test_a_damaged_value_changes_no_other_and_is_what_google_says(
    made: tuple[Model, list[bytes | None]], data: st.DataObject
) -> None:
    model, payloads = made
    decoder = decoder_of(model)
    whole, before = decode(decoder, payloads)
    at = data.draw(st.integers(0, max(len(payloads) - 1, 0)))
    victim = (payloads[at] if payloads else None) or data.draw(model.payloads(2))
    cut = data.draw(st.integers(0, max(len(victim) - 1, 0)))
    middle = data.draw(
        st.sampled_from((b"", b"\xff", b"\x00", b"\x7f", b"\x0b", b"\x0c", b"\xff\xff\xff\xff\x0f"))
        | st.binary(max_size=3)
    )
    damaged = victim[:cut] + middle + data.draw(st.sampled_from((b"", victim[cut + 1 :])))
    array, reasons = decode(decoder, [*payloads[:at], damaged, *payloads[at + 1 :]])
    rows = array.to_pylist()
    elsewhere, others = decode(
        decoder, [*payloads[:at], damaged, *payloads[at + 1 :]], data.draw(st.binary(max_size=20))
    )
    assert others == reasons
    assert repr(elsewhere.to_pylist()) == repr(rows)
    assert repr(rows[:at] + rows[at + 1 :]) == repr(whole.to_pylist()[:at] + whole.to_pylist()[at + 1 :])
    assert reasons[:at] + reasons[at + 1 :] == before[:at] + before[at + 1 :]
    assert not reasons[at] or decoder.explain(reasons[at])
    try:
        expected = model.parse(damaged)
    except DecodeError:
        assert reasons[at]
    else:
        assert reasons[at] == 0
        assert rows_of(model, array)[at] == expected


# By hand: what encoders do not write, but the wire format allows.

PROTO3 = "proto3"
MIXED: dict[str, Any] = {
    "Inner": [
        ("n", 1, P.TYPE_INT32, "plain"),
        ("many", 2, P.TYPE_INT32, "repeated"),
        ("deep", 3, ".p.Deep", "repeated"),
    ],
    "Deep": [("texts", 1, P.TYPE_STRING, "repeated"), ("n", 2, P.TYPE_INT64, "plain")],
    "M0": [
        ("a", 1, P.TYPE_INT32, "plain"),
        ("numbers", 2, P.TYPE_SINT32, "repeated"),
        ("texts", 3, P.TYPE_STRING, "repeated"),
        ("inner", 4, ".p.Inner", "plain"),
        ("items", 5, ".p.Inner", "repeated"),
        ("one", 6, P.TYPE_STRING, "choice"),
        ("other", 7, ".p.Inner", "choice"),
        ("third", 8, ".p.Inner", "choice"),
        ("again", 9, ".p.M0", "plain"),
        ("maybe", 10, P.TYPE_BOOL, "optional"),
    ],
}


def number(field: int, value: int) -> bytes:
    return tag(field, 0) + varint_bytes(value)


def part(field: int, *inner: bytes) -> bytes:
    return tag(field, 2) + sized(b"".join(inner))


def read(payload: bytes, messages: dict[str, Any] = MIXED, syntax: str = PROTO3) -> Any:
    """Return one value, which is also what Google's decoder makes of it."""
    model = Model.of(file_of(messages, syntax))
    array, (reason,) = decode(decoder_of(model), [payload])
    assert reason == 0
    assert rows_of(model, array) == [model.parse(payload)]
    return array.to_pylist()[0]


def reason_of(payload: bytes, messages: dict[str, Any] = MIXED) -> str:
    """Return why a payload is null, between two others that are not."""
    decoder = decoder_of(Model.of(file_of(messages, PROTO3)))
    array, reasons = decode(decoder, [number(1, 5), payload, number(1, 7)])
    assert reasons[0] == reasons[2] == 0
    assert [one and one["a"] for one in array.to_pylist()] == [5, None, 7]
    return decoder.explain(reasons[1])


DEEP_ITEM = part(3, part(1, b"x"), part(1, b"y"), number(2, 5))
OTHER = part(7, number(1, 1), part(2, b"\x01\x02"), DEEP_ITEM, DEEP_ITEM)


@for_each(
    "payload",
    [
        # Lists whose items come between each other, packed and not.
        number(2, 2) + part(3, b"x") + number(2, 4) + part(2, b"\x06\x08") + part(3) + part(5, number(2, 1)) + number(2, 1),
        # The last of a scalar counts, and messages merge.
        number(1, 3) + part(4, number(1, 1), part(2, b"\x01\x02"), DEEP_ITEM) + number(1, 4) + part(4, number(2, 3), DEEP_ITEM),
        # Lists inside lists are of the item that has them.
        part(5, DEEP_ITEM, number(2, 1), DEEP_ITEM) + part(4, DEEP_ITEM) + part(5, number(2, 2), DEEP_ITEM) + part(5),
        # A member that is given again after another begins again.
        OTHER + part(6, b"text") + part(7, number(2, 9), part(3, part(1, b"z"))),
        OTHER + part(8, DEEP_ITEM), OTHER + OTHER, OTHER + part(6, b"text"),
    ],
)  # fmt: skip
def test_what_no_encoder_writes_is_read_as_google_reads_it(payload: bytes) -> None:
    assert read(payload)


def test_a_row_after_one_whose_lists_were_taken_back() -> None:
    deep = part(3, part(1, b"x"), part(1, b"y"), number(2, 5))
    payload = part(7, deep, deep) + part(8, deep) + part(7, number(1, 2))
    model = Model.of(file_of(MIXED, PROTO3))
    payloads = [payload, part(7, deep), payload[:-1], part(8, deep) + part(5, deep), payload]
    array, reasons = decode(decoder_of(model), payloads)
    assert [one > 0 for one in reasons] == [False, False, True, False, False]
    expected = [None if reason else model.parse(one) for one, reason in zip(payloads, reasons, strict=True)]
    assert rows_of(model, array) == expected


def test_a_message_inside_its_own_definition_stays_bytes() -> None:
    inner = number(1, 1) + part(9, number(1, 2))
    assert read(part(9, inner))["again"] == inner
    assert read(part(9) + part(9, inner) + part(9))["again"] == inner
    assert "several parts" in reason_of(part(9, number(1, 1)) + part(9, number(1, 2)))


def test_many_rows_whose_lists_outgrow_their_room() -> None:
    rows = [part(2, varint_bytes(one) * one) + part(5, part(3, part(1, b"x"))) * one for one in range(120)]
    model = Model.of(file_of(MIXED, PROTO3))
    array, reasons = decode(decoder_of(model), rows)
    assert not any(reasons)
    assert rows_of(model, array) == [model.parse(one) for one in rows]


def test_rows_are_decoded_in_spans_of_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = part(3, part(1, b"x"), part(1, b"y"), number(2, 5))
    again = part(7, deep) + part(6, b"text") + part(7, deep)
    rows = [number(1, one) + part(5, deep * (one % 3)) * (one % 7) + (again if one % 5 else b"") for one in range(500)]
    rows[77] = b"\x08"
    model = Model.of(file_of(MIXED, PROTO3))
    whole, reasons = decode(decoder_of(model), rows)
    monkeypatch.setattr(row_spans, "FIRST_WORDS", 2000)
    monkeypatch.setattr(arena, "MOST_WORDS", 8000)
    in_spans, same = decode(decoder_of(model), rows)
    assert in_spans.equals(whole)
    assert reasons == same
    assert [bool(one) for one in reasons] == [one == 77 for one in range(500)]
    assert rows_of(model, whole)[3:8] == [model.parse(one) for one in rows[3:8]]


def test_enums() -> None:
    messages = {
        "M0": [
            ("one", 1, ".p.E", "plain"),
            ("many", 2, ".p.E", "repeated"),
            ("of", 3, P.TYPE_STRING, ".p.E"),
            ("member", 4, ".p.E", "choice"),
        ],
    }
    known, unknown = number(1, 1), number(1, 77)
    entries = part(3, part(1, b"a"), number(2, 1)) + part(3, part(1, b"b"), number(2, 77)) + part(3, part(1, b"c"))
    again = part(3, part(1, b"a"), number(2, 77))
    packed = part(2, b"\x00\x4d\x01", varint_bytes((1 << 64) - 2))
    found = read(known + unknown + entries + again + packed + number(4, 1 << 33 | 1), messages)
    assert found["one"] == "77"
    assert found["many"] == ["E_0", "77", "E_1", "E_N2"]
    assert dict(found["of"]) == {"a": "77", "b": "77", "c": "E_0"}
    assert found["member"] == "E_1"
    found = read(known + unknown + entries + again + packed + number(4, 77), messages, "proto2")
    assert found["one"] == "E_1"
    assert found["many"] == ["E_0", "E_1", "E_N2"]
    assert dict(found["of"]) == {"a": "E_1", "c": "E_0"}
    assert found["member"] is None


def test_maps_have_each_key_once() -> None:
    messages = {"Inner": MIXED["Inner"], "Deep": MIXED["Deep"], "M0": [("of", 1, P.TYPE_INT32, ".p.Inner")]}
    entries = (part(1, number(1, 1), part(2, part(2, b"\x01"))), part(1, part(2, number(1, 5)), number(1, 2)))
    found = read(entries[0] + entries[1] + part(1, number(1, 1), part(2, number(1, 8))) + part(1), messages)
    assert [(key, one["n"], one["many"]) for key, one in found["of"]] == [(2, 5, []), (1, 8, []), (0, 0, [])]


def test_text_that_is_no_utf_8() -> None:
    decoder = decoder_of(Model.of(file_of(MIXED, PROTO3)))
    array, reasons = decode(decoder, [part(6, b"a\xffb"), part(6, b"\xc3\xa9")])
    assert not any(reasons)
    assert array.field("one").to_pylist() == ["a�b", "é"]


DEEP = (b"\x2b" * 10_000, b"\x2b" * 101 + b"\x2c" * 101)


@for_each(
    ("payload", "why"),
    [
        (b"\x08", "ends inside"),
        (b"\x08" + b"\x80" * 11, "ends inside"),
        (b"\x80", "ends inside"),
        (b"\x1a\x05abc", "ends inside"),
        (b"\x1a" + varint_bytes((1 << 64) - 1), "ends inside"),
        (b"\x1a" + varint_bytes(1 << 62), "ends inside"),
        (tag(700, 2) + varint_bytes(1 << 31), "ends inside"),
        (tag(700, 1) + b"1234567", "ends inside"),
        (part(2, b"\x02\x80"), "ends inside"),
        (part(5, part(2, b"\x02")[:-1]), "ends inside"),
        (b"\x00\x01", "no number"),
        (b"\x0e", "a type that"),
        (b"\x0f", "a type that"),
        (varint_bytes(1 << 35 | 8), "no number"),
        (b"\x0c", "without a beginning"),
        (b"\x2b", "does not end"),
        (b"\x2b\x34", "without a beginning"),
        (part(5, b"\x33") + b"\x34", "does not end"),
        *((one, "nested too deeply") for one in DEEP),
    ],
)
def test_malformed_payloads(payload: bytes, why: str) -> None:
    model = Model.of(file_of(MIXED, PROTO3))
    with pytest.raises(DecodeError):
        model.parse(payload)
    assert why in reason_of(payload)


def test_what_is_as_deep_as_google_reads_it() -> None:
    assert read(b"\x2b" * 100 + b"\x2c" * 100) == read(b"")


def test_a_list_takes_no_more_memory_than_its_size_allows() -> None:
    wide = [(f"f{one}", one, P.TYPE_INT64, "plain") for one in range(1, 1001)]
    messages = {"Wide": wide, "M0": [("a", 1, P.TYPE_INT32, "plain"), ("items", 2, ".p.Wide", "repeated")]}
    assert "more memory" in reason_of(part(2) * 1000, messages)
    assert len(read(part(2, *(number(one, 1) for one in range(1, 20))) * 50, messages)["items"]) == 50


# By the schema of another version.

KINDS = {
    "int32": P.TYPE_INT32, "uint32": P.TYPE_UINT32, "int64": P.TYPE_INT64, "uint64": P.TYPE_UINT64, "bool": P.TYPE_BOOL,
    "enum": ".p.E", "sint32": P.TYPE_SINT32, "sint64": P.TYPE_SINT64, "fixed32": P.TYPE_FIXED32, "sfixed32": P.TYPE_SFIXED32,
    "fixed64": P.TYPE_FIXED64, "sfixed64": P.TYPE_SFIXED64, "string": P.TYPE_STRING, "bytes": P.TYPE_BYTES,
    "message": ".p.Inner", "float": P.TYPE_FLOAT, "double": P.TYPE_DOUBLE,
}  # fmt: skip
ALIKE = (
    {"int32", "uint32", "int64", "uint64", "bool", "enum"}, {"sint32", "sint64"}, {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"}, {"string", "bytes"}, {"message", "bytes"},
)  # fmt: skip
VALUES = {
    0: [varint_bytes(one) for one in (0, 1, 2, 5, (1 << 32) - 1, (1 << 33) + 2, (1 << 64) - 1, (1 << 63))],
    1: [b"12345678", b"\xff" * 8],
    5: [b"1234", b"\xff" * 4],
    2: [sized(b""), sized(number(1, 3) + number(2, 4)), sized(b"\x08\x10")],
}


@pytest.mark.parametrize("how", ["plain", "optional", "repeated"])
@for_each("writer", KINDS)
def test_kinds_that_may_be_read_as_each_other(writer: str, how: str) -> None:
    for reader in KINDS:
        read_as_another(writer, reader, how)


def read_as_another(writer: str, reader: str, how: str) -> None:
    models = [Model.of(file_of({**MIXED, "M0": [("x", 3, KINDS[one], how)]}, PROTO3)) for one in (writer, reader)]
    decoder = ProtobufDecoder.of(*(one.schema for one in models))
    payloads = [tag(3, wire_of(KINDS[writer])) + one for one in VALUES[wire_of(KINDS[writer])]]
    payloads = [b"", *(one for one in payloads if reads(models[0], one))]
    array, reasons = decode(decoder, payloads)
    assert len(payloads) > 2
    if writer == reader or any({writer, reader} <= alike for alike in ALIKE):
        for payload, row, reason in zip(payloads, rows_of(models[1], array), reasons, strict=True):
            assert (reason == 0) == reads(models[1], payload)
            assert reason or row == models[1].parse(payload)
    else:
        assert reasons[0] == 0
        texts = {decoder.explain(one) for one in reasons[1:]}
        many = "repeated " if how == "repeated" else ""
        assert texts == {f"its field 3, 'x' ({many}{writer}), cannot be read as 'x' ({many}{reader})"}


def wire_of(kind: Any) -> int:
    if isinstance(kind, str):
        return 0 if kind == ".p.E" else 2
    return WIRE.get(kind, 0)


def reads(model: Model, payload: bytes) -> bool:
    try:
        model.type.FromString(payload)
    except DecodeError:
        return False
    return True


@for_each("syntax", [PROTO3, "proto2"])
@for_each("kind", KINDS)
def test_a_list_is_no_single_value(kind: str, syntax: str) -> None:
    messages = [{**MIXED, "M0": [("x", 3, KINDS[kind], how)]} for how in ("repeated", "optional")]
    schemas = [Model.of(file_of(one, syntax)).schema for one in messages]
    field = tag(3, wire_of(KINDS[kind])) + VALUES[wire_of(KINDS[kind])][0]
    decoder = ProtobufDecoder.of(*schemas)
    _, reasons = decode(decoder, [b"", field, field + field])
    named = f"its field 3, 'x' (repeated {kind}), cannot be read as 'x' ({kind})"
    assert [decoder.explain(one) if one else "" for one in reasons] == ["", named, named]
    array, reasons = decode(ProtobufDecoder.of(*reversed(schemas)), [b"", field])
    assert [len(one) for one in array.field("x").to_pylist()] == [0, 1]


def test_a_packed_list_is_no_single_value() -> None:
    made = [Model.of(file_of({"M0": [("x", 1, P.TYPE_INT32, how)]}, PROTO3)) for how in ("repeated", "plain")]
    schemas = [one.schema for one in made]
    payloads = [b"", part(1, b"\x01\x02"), number(1, 5)]
    array, reasons = decode(ProtobufDecoder.of(*schemas), payloads)
    assert [one > 0 for one in reasons] == [False, True, True]
    array, reasons = decode(ProtobufDecoder.of(*reversed(schemas)), payloads)
    assert array.field("x").to_pylist() == [[], [1, 2], [5]]


def test_values_of_maps_that_are_no_longer_enums() -> None:
    kinds = (P.TYPE_STRING, ".p.Inner"), (P.TYPE_STRING, ".p.E")
    schemas = [Model.of(file_of({**MIXED, "M0": [("x", 1, *kind)]}, "proto2")).schema for kind in kinds]
    decoder = ProtobufDecoder.of(*schemas)
    _, reasons = decode(decoder, [part(1, part(1, b"key")), part(1, part(2, b""))])
    assert [decoder.explain(one) if one else "" for one in reasons] == [
        "",
        "its field 2, 'value' (message), cannot be read as 'value' (enum)",
    ]


def test_messages_that_would_be_too_many_columns_stay_bytes_where_they_are_deep() -> None:
    """Each of twelve messages has all the others: as columns they would be more than there are particles in the sun."""
    names = [f"M{one}" for one in range(12)]
    messages = {
        name: [(other.lower(), at, f".p.{other}", "plain") for at, other in enumerate(names, 1) if other != name]
        for name in names
    }
    model = Model.of(file_of({**messages, "M1": [*messages["M1"], ("x", 99, P.TYPE_INT32, "plain")]}, PROTO3))
    array, reasons = decode(decoder_of(model), [part(2, number(99, 5), part(3, part(2), part(4)))])
    assert reasons == [0]
    (found,) = array.to_pylist()
    assert found["m1"]["x"] == 5
    assert found["m1"]["m2"]["m1"] == b""
    assert model.parse(part(2, number(99, 5)))["m1"]["x"] == 5


def test_fields_that_only_one_version_has() -> None:
    old = {"Inner": MIXED["Inner"][:1], "M0": [MIXED["M0"][0], MIXED["M0"][3], ("gone", 99, P.TYPE_BYTES, "repeated")]}
    new = Model.of(file_of(MIXED, PROTO3))
    schemas = [one.schema for one in (Model.of(file_of(old, PROTO3)), new)]
    payload = number(1, 2) + part(4, number(1, 3)) + part(99, b"bytes")
    array, reasons = decode(ProtobufDecoder.of(*schemas), [payload])
    assert reasons == [0]
    assert rows_of(new, array) == [new.parse(payload)]

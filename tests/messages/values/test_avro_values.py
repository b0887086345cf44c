"""Avro values: any schema and value, against an encoder of the tests' own, fastavro, and Pulsar."""

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.schemas.avro_schema import parse_avro_schema
from ledgerfs.messages.values.avro_program import avro_program
from ledgerfs.messages.values.avro_values import decode_avro
from ledgerfs.messages.values.value_columns import type_of
from tests.support import typed_golden
from tests.support.avro import USED_AGAIN, Model, schemas


def decode(program: Any, rows: list[bytes | None]) -> tuple[list[Any], list[int]]:
    array, reasons = decode_avro(program, *typed_golden.payloads(pa.array(rows, pa.binary())))
    array.validate(full=True)
    assert array.type == type_of(program.column)
    return array.to_pylist(), reasons.tolist()


@st.composite
def written(draw: Any) -> tuple[Model, list[Any], bool]:
    model = Model.of(draw(schemas()))
    return model, draw(st.lists(st.none() | model.values(), max_size=8)), draw(st.booleans())


@pytest.mark.long
@given(written())
@settings(max_examples=120, deadline=None)
def test_any_values_of_any_schema(made: tuple[Model, list[Any], bool]) -> None:
    model, values, blocks = made
    program = avro_program(parse_avro_schema(json.dumps(model.schema)))
    is_null = [one is None and model.schema != "null" for one in values]
    payloads = [None if no else model.encode(one, blocks=blocks) for one, no in zip(values, is_null, strict=True)]
    rows, reasons = decode(program, payloads)
    assert reasons == [-1 if no else 0 for no in is_null]
    assert rows == [None if no else model.in_arrow(one, blocks=blocks) for one, no in zip(values, is_null, strict=True)]


@pytest.mark.long
@given(written(), st.data())
@settings(max_examples=80, deadline=None)
def test_a_damaged_value_changes_no_other(made: tuple[Model, list[Any], bool], data: st.DataObject) -> None:
    model, values, blocks = made
    program = avro_program(parse_avro_schema(json.dumps(model.schema)))
    payloads = [model.encode(one, blocks=blocks) for one in values if one is not None]
    if not payloads:
        return
    at = data.draw(st.integers(0, len(payloads) - 1))
    whole, _ = decode(program, payloads)
    cut = data.draw(st.integers(0, max(len(payloads[at]) - 1, 0)))
    damaged = data.draw(
        st.sampled_from(
            (payloads[at][:cut], payloads[at] + b"\0", payloads[at][:cut] + b"\xff" + payloads[at][cut + 1 :])
        )
    )
    rows, reasons = decode(program, [*payloads[:at], damaged, *payloads[at + 1 :]])
    assert rows[:at] == whole[:at]
    assert rows[at + 1 :] == whole[at + 1 :]
    assert not any(reasons[:at] + reasons[at + 1 :])
    if len(damaged) != len(payloads[at]):
        assert reasons[at] or not payloads[at] or fastavro_reads_all(model.schema, damaged)


def test_a_type_that_is_used_again_is_of_one_arrow_type() -> None:
    model = Model.of(USED_AGAIN)
    value = {"a": {"in": {"out": (0, None)}}, "b": {"out": (1, {"in": {"out": (0, None)}})}}
    expected = {"a": {"in": {"out": None}}, "b": {"out": b"\0"}}
    program = avro_program(parse_avro_schema(json.dumps(model.schema)))
    one = pa.struct([("out", pa.binary())])
    assert type_of(program.column) == pa.struct([("a", pa.struct([("in", one)])), ("b", one)])
    assert decode(program, [model.encode(value)]) == ([expected], [0])
    assert model.in_arrow(value) == expected
    written = BytesIO()
    fastavro.schemaless_writer(
        written, fastavro.parse_schema(model.schema), {"a": {"in": {"out": None}}, "b": {"out": {"in": {"out": None}}}}
    )
    assert written.getvalue() == model.encode(value)


def fastavro_reads_all(schema: Any, payload: bytes) -> bool:
    source = BytesIO(payload)
    fastavro.schemaless_reader(source, fastavro.parse_schema(schema), None)
    return source.tell() == len(payload)

"""Protobuf values: any message in any order of its fields, against Google's decoder and Pulsar's."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.schemas.protobuf_schema import descriptor_schema
from ledgerfs.messages.values.protobuf_kernel import IN_PARTS, TOO_SPARSE
from ledgerfs.messages.values.protobuf_values import ProtobufDecoder
from ledgerfs.messages.values.value_program import Reason
from tests.support.protobuf import Model, models


def decoder_of(model: Model) -> ProtobufDecoder:
    return ProtobufDecoder.of(descriptor_schema(model.files, model.root))


def decode(decoder: ProtobufDecoder, payloads: list[bytes | None]) -> tuple[pa.Array, list[int]]:
    data = np.frombuffer(b"".join(one or b"" for one in payloads) + b"\0", np.uint8)
    ends = np.cumsum([len(one or b"") for one in payloads], dtype=np.int64)
    starts = ends - [len(one or b"") for one in payloads]
    valid = np.array([one is not None for one in payloads], bool)
    array, reasons = decoder.decode(data, starts, ends, valid)
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


@given(written())
@settings(max_examples=200, deadline=None)
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


@given(written(plain=True), st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_value_changes_no_other_and_is_what_google_says(
    made: tuple[Model, list[bytes | None]], data: st.DataObject
) -> None:
    model, payloads = made
    decoder = decoder_of(model)
    whole, before = decode(decoder, payloads)
    at = data.draw(st.integers(0, max(len(payloads) - 1, 0)))
    victim = (payloads[at] if payloads else None) or data.draw(model.payloads(2))
    cut = data.draw(st.integers(0, max(len(victim) - 1, 0)))
    middle = data.draw(st.sampled_from((b"", b"\xff", b"\x00", b"\x7f", b"\x0b", b"\x0c", b"\xff\xff\xff\xff\x0f")) | st.binary(max_size=3))
    damaged = victim[:cut] + middle + data.draw(st.sampled_from((b"", victim[cut + 1 :])))
    array, reasons = decode(decoder, [*payloads[:at], damaged, *payloads[at + 1 :]])
    rows = array.to_pylist()
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

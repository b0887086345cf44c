"""Protobuf values of the typed golden set, as Pulsar decodes them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.protobuf_schema import native_descriptors, protobuf_schema
from ledgerfs.formats.schemas.schema_info import SchemaInfo, key_value_schema
from ledgerfs.messages.values.decoders import decoder_of
from tests.support.protobuf import Model
from tests.support.typed_answers import assert_outermost, numbers_of_unknown, same_protobuf
from tests.support.typed_golden import Topic, assert_equal, plain, schemas_of, topic

NATIVE = ("protonative", "protonative-random-0", "protonative-random-1", "proto2native")
TOP = "public/typed/"


def agree(found: Topic, number: int, reader: SchemaInfo | None = None) -> int:
    """Compare rows of one version; return how many there are."""
    rows, info = np.flatnonzero(found.versions == number), reader or found.schemas[number]
    schema = protobuf_schema(key_value_schema(info).value if info.type == "KEY_VALUE" else info)
    array, reasons = found.decode(decoder_of(found.schemas[number], reader), rows)
    nodes = [numbers_of_unknown(found.expected[row]["value"]) for row in rows]
    assert [reason == -1 for reason in reasons] == [one["t"] == "null" for one in nodes]
    assert not (reasons > 0).any()
    assert_equal(array, nodes, same_protobuf(schema))
    return len(nodes)


@pytest.mark.parametrize("name", NATIVE)
def test_by_the_schema_of_each(golden_typed: Path, name: str) -> None:
    found = topic(golden_typed, TOP + name)
    compared = 0
    for number, info in found.schemas.items():
        assert info.type == "PROTOBUF_NATIVE"
        compared += agree(found, number)
    assert compared == len(found.expected) > 100


@pytest.mark.parametrize("encoding", ["inline", "separated"])
def test_values_of_pairs(golden_typed: Path, encoding: str) -> None:
    found = topic(golden_typed, f"{TOP}kv-{encoding}-string-protonative")
    assert agree(found, 0) == len(found.expected) > 100


def test_an_old_schema_with_the_descriptor_of_another(golden_typed: Path) -> None:
    found, native = topic(golden_typed, TOP + "proto"), schemas_of(golden_typed, TOP + "protonative")
    compared = 0
    for number, info in found.schemas.items():
        assert info.type == "PROTOBUF"
        compared += agree(found, number, native[number])
    assert compared == len(found.expected) > 100


def test_an_old_schema_without_fields_needs_a_descriptor(golden_typed: Path) -> None:
    found, native = topic(golden_typed, TOP + "proto"), schemas_of(golden_typed, TOP + "protonative")
    unknown = SchemaInfo("PROTOBUF", found.schemas[0].data)
    with pytest.raises(InvalidSchemaError, match="without the property __PARSING_INFO__"):
        decoder_of(unknown)
    rows = np.flatnonzero(found.versions == 0)
    arrays = [found.decode(decoder_of(one, native[0]), rows)[0] for one in (unknown, found.schemas[0], native[0])]
    assert plain(arrays[0]) == plain(arrays[1]) == plain(arrays[2])


@pytest.mark.parametrize(("name", "known"), [("proto", "protonative"), ("proto2native", "proto2native")])
def test_an_old_schema_has_the_fields_of_the_outermost_message(golden_typed: Path, name: str, known: str) -> None:
    found, native = topic(golden_typed, TOP + name), schemas_of(golden_typed, TOP + known)
    compared = 0
    for number, info in found.schemas.items():
        rows = np.flatnonzero(found.versions == number)
        is_same = same_protobuf(protobuf_schema(native[number]))
        array, reasons = found.decode(decoder_of(SchemaInfo("PROTOBUF", b"", info.properties)), rows)
        assert not (reasons > 0).any()
        for row, one in zip(rows, plain(array), strict=True):
            node = found.expected[row]["value"]
            assert (one is None) == (node["t"] == "null")
            for field, value in (one or {}).items():
                assert_outermost(value, node["v"][field], is_same)
                compared += 1
    assert compared > 1000


@pytest.mark.parametrize(("writer", "reader"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("name", NATIVE[:3])
def test_by_another_version_as_google_reads_it(golden_typed: Path, name: str, writer: int, reader: int) -> None:
    found = topic(golden_typed, TOP + name)
    rows = np.flatnonzero(found.versions == writer)
    array, reasons = found.decode(decoder_of(found.schemas[writer], found.schemas[reader]), rows)
    files, root = native_descriptors(found.schemas[reader].data)
    model = Model.of(files.SerializeToString(), root)
    values = found.rows["value"].take(pa.array(rows)).to_pylist()
    assert not (reasons > 0).any()
    for value, one in zip(values, array.to_pylist(), strict=True):
        assert model.comparable(one, array.type) == (None if value is None else model.parse(value))

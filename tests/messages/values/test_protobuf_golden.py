"""Protobuf values of the typed golden set, as Pulsar decodes them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.protobuf_schema import native_descriptors
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.values.decoders import decoder_of
from tests.support.protobuf import Model
from tests.support.typed_golden import plain, schemas_of, topic

NATIVE = ("protonative", "protonative-random-0", "protonative-random-1", "proto2native")
TOP = "public/typed/"


def test_an_old_schema_without_fields_needs_a_descriptor(golden_typed: Path) -> None:
    found, native = topic(golden_typed, TOP + "proto"), schemas_of(golden_typed, TOP + "protonative")
    unknown = SchemaInfo("PROTOBUF", found.schemas[0].data)
    with pytest.raises(InvalidSchemaError, match="lacks the property __PARSING_INFO__"):
        decoder_of(unknown)
    rows = np.flatnonzero(found.versions == 0)
    arrays = [found.decode(decoder_of(one, native[0]), rows)[0] for one in (unknown, found.schemas[0], native[0])]
    assert plain(arrays[0]) == plain(arrays[1]) == plain(arrays[2])


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

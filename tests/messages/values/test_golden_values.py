"""Values of the typed golden set as Pulsar decodes them: by their own schema, and by the newest of their topic."""

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ledgerfs.formats.schemas.schema_info import SchemaInfo, key_value_schema
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.primitive_values import PRIMITIVE_TYPES
from tests.support.typed_answers import same_avro
from tests.support.typed_golden import Topic, assert_equal, schemas_of, topic

AVRO = (
    "avro å b+1", "avro söme+name%2F", "avro-array", "avro-auto-produce", "avro-deleted-force", "avro-deleted-last-force",
    "avro-deleted-last", "avro-deleted", "avro-evolved", "avro-logical", "avro-long", "avro-lz4", "avro-mixed-bytes",
    "avro-multischema", "avro-partitioned-partition-0", "avro-partitioned-partition-1", "avro-pojo", "avro-random-0",
    "avro-random-1", "avro-random-2", "avro-random-3", "avro-strict", "avro-times", "avro-txn", "avro-unions", "avro-zstd",
    "bytes-then-avro", "py-avro", "type-changed",
)  # fmt: skip
PRIMITIVE = (
    "prim-boolean", "prim-date", "prim-double", "prim-float", "prim-instant", "prim-int16", "prim-int32", "prim-int64", "prim-int8",
    "prim-local-date-time", "prim-local-date", "prim-local-time", "prim-string", "prim-time", "prim-timestamp", "py-string",
)  # fmt: skip
PAIRS = tuple(
    f"kv-{encoding}-{parts}"
    for encoding in ("inline", "separated")
    for parts in ("avro-avro", "bytes-string", "evolved", "int32-avro", "random")
)
EVOLVED = (
    "avro-evolved",
    "avro-multischema",
    "avro-offset",
    "avro-random-0",
    "avro-random-1",
    "avro-random-2",
    "avro-random-3",
)


def agree(found: Topic, kinds: set[str], latest: int | None = None) -> int:
    """Compare all values of some types of schemas, by their own or by one version; return how many there are."""
    compared = 0
    for number in np.unique(found.versions).tolist():
        if number not in found.schemas or found.schemas[number].type not in kinds:
            continue
        decoder = decoder_of(found.schemas[number], None if latest is None else found.schemas[latest])
        rows = np.flatnonzero(found.versions == number)
        array, reasons = found.decode(decoder, rows)
        said = [found.expected[row] for row in rows]
        are_wrong = np.array(["error" in one for one in said])
        assert (reasons[are_wrong] > 0).all(), "Pulsar raises for it"
        # Where a version is gone, Pulsar's client silently takes values for bytes.
        are_said = np.array(["error" not in one and one["schema_type"] != "BYTES" for one in said])
        assert not (reasons[are_said] > 0).any()
        nodes = [one["value"] for one, is_said in zip(said, are_said, strict=True) if is_said]
        of_recursive = same_avro(found.schemas[number]) if found.schemas[number].type == "AVRO" else None
        assert_equal(array.filter(pa.array(are_said)), nodes, of_recursive)
        compared += len(nodes)
    return compared


@pytest.mark.parametrize("name", AVRO)
def test_avro_by_the_schema_of_each(golden_typed: Path, name: str) -> None:
    found = topic(golden_typed, f"public/typed/{name}")
    assert agree(found, {"AVRO"}) > 10 or name.startswith("avro-deleted")


@pytest.mark.parametrize("name", EVOLVED)
def test_avro_by_the_latest(golden_typed: Path, name: str) -> None:
    found = topic(golden_typed, f"public/typed/{name}", "expected-latest")
    assert agree(found, {"AVRO"}, max(found.schemas)) == sum("error" not in one for one in found.expected)


@pytest.mark.parametrize("name", PRIMITIVE)
def test_primitives(golden_typed: Path, name: str) -> None:
    found = topic(golden_typed, f"public/typed/{name}")
    assert agree(found, set(PRIMITIVE_TYPES)) == len(found.expected)


def test_text_in_another_character_set(golden_typed: Path) -> None:
    """Pulsar's AUTO_CONSUME takes it for UTF-8, and so is no witness; the codec of Python is."""
    found = topic(golden_typed, "public/typed/prim-string-utf16")
    decoder = decoder_of(found.schemas[0])
    array, reasons = found.decode(decoder, np.arange(found.versions.size))
    raw = found.rows["value"].to_pylist()
    assert array.to_pylist() == [None if one is None else one.decode("utf-16") for one in raw]
    assert not (reasons > 0).any()
    assert sum(one["value"].get("v") != text for one, text in zip(found.expected, array.to_pylist(), strict=True)) > 100


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(golden_typed: Path, name: str) -> None:
    found = topic(golden_typed, f"public/typed/{name}")
    assert agree(found, {"KEY_VALUE"}) == len(found.expected) > 100


@pytest.mark.parametrize("name", PAIRS)
def test_schemas_of_pairs_as_bookkeeper_has_them(golden_typed: Path, name: str) -> None:
    """The admin API writes the two schemas in another way: both mean the same."""
    entries = json.loads((golden_typed / "schemas" / "_ledgers.json").read_text())
    stored = [base64.b64decode(one) for one in entries[f"/schemas/public/typed/{name}"]["entries"].values()]
    schemas = schemas_of(golden_typed, f"public/typed/{name}")
    assert len(stored) == len(schemas)
    for told, entry in zip(schemas.values(), stored, strict=True):
        data = fields_of(fields_of(entry)[2])[4]
        found, wanted = (key_value_schema(one) for one in (SchemaInfo("KEY_VALUE", data, told.properties), told))
        assert found.is_separated == wanted.is_separated == ("separated" in name)
        for one, other in ((found.key, wanted.key), (found.value, wanted.value)):
            assert (one.type, one.properties) == (other.type, other.properties)
            assert json.loads(one.data or "null") == json.loads(other.data or "null")


def fields_of(message: bytes) -> dict[int, Any]:
    """Return the last value of each field of a Protobuf message: of those that are numbers or bytes."""
    found: dict[int, Any] = {}
    source = BytesIO(message)

    def varint() -> int:
        number = shift = 0
        while True:
            byte = source.read(1)[0]
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while source.tell() < len(message):
        tag = varint()
        found[tag >> 3] = source.read(varint()) if tag & 7 == 2 else varint()
    return found

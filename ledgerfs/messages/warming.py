"""Compiles the kernels for reading and writing messages, by doing both with a few messages in memory."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from ledgerfs.formats.records import EntryBatch, scan_records
from ledgerfs.formats.schemas.protobuf_files import native_schema_data
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.entry_checksum import check_entries
from ledgerfs.messages.decode.named_versions import named_versions
from ledgerfs.messages.encode.rows import EncodeOptions, MessageEncoder
from ledgerfs.messages.encode.values.places import Place
from ledgerfs.messages.encode.values.value_encoders import encoder_of
from ledgerfs.messages.text.csv_quotes import QuoteCheck
from ledgerfs.messages.transforms.unbatch import unbatch
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.key_values import InlineDecoder
from ledgerfs.messages.values.value_decoder import payloads_of

_AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "text", "type": "string"},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "decimal", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "items", "type": {"type": "array", "items": "long"}},
        {"name": "maybe", "type": ["null", "string"]},
    ],
}
_VALUES: dict[str, list[Any]] = {
    "number": [1, 2],
    "text": ["a", "b"],
    "fixed": [b"ab", b"cd"],
    "items": [[1], []],
    "maybe": ["x", None],
}


def compile_kernels() -> None:
    """Compile the kernels of messages and of typed values, unless they are cached on disk."""
    rows = pa.RecordBatch.from_pydict(
        {
            "key": ["k", None],
            "value": [b"v", None],
            "properties": pa.array([[("a", "b")], []], pa.map_(pa.string(), pa.string())),
            "event_time": pa.array([1000, None], pa.timestamp("us", tz="UTC")),
        }
    )
    for codec, batch in (("none", 1), ("none", 2), ("zstd", 2)):
        encoder = MessageEncoder(rows.schema, EncodeOptions(compression=codec, batch=batch))
        for made in [*encoder.encode(rows), *encoder.finish()]:
            # For kernels, writable memory is another type than the read-only memory that stores return.
            found = scan_records(memoryview(bytes(made.records())), 0, 0, len(made)).batch
            _decode(found)
            for _ in unbatch()(found, 0):
                pass
    _typed_values()
    QuoteCheck(["a"]).follow(b'"a"\n')


def _decode(found: EntryBatch) -> None:
    decoder = TopicDecoder("persistent://public/default/topic", DecodeOptions())
    entries, keep = decoder.walk(found, 0)
    decoder.decode(found, 0, entries, keep)
    check_entries(found)
    named_versions(found)


def _typed_values() -> None:
    avro = SchemaInfo("AVRO", json.dumps(_AVRO).encode())
    encoder = encoder_of(avro)
    given = pa.array([{name: values[row] for name, values in _VALUES.items()} | {"decimal": row} for row in (0, 1)])
    present = np.ones(len(given), np.bool_)
    values = encoder.array_of(given, present, Place("value"))
    decoder_of(avro).decode(*payloads_of(encoder.payloads(values, present)))
    descriptors = FileDescriptorSet(file=[FileDescriptorProto(name="warm.proto", syntax="proto3")])
    descriptors.file[0].message_type.add(name="Row").field.add(name="id", number=1, type=5, label=1)
    native = SchemaInfo("PROTOBUF_NATIVE", native_schema_data(descriptors.SerializeToString(), None))
    decoder_of(native).decode(*payloads_of(pa.array([b"\x08\x01"])))
    number = decoder_of(SchemaInfo("INT64"))
    number.decode(*payloads_of(pa.array([bytes(8)])))
    InlineDecoder(number, number).decode(*payloads_of(pa.array([b"\0\0\0\x08" + bytes(8) + b"\0\0\0\x08" + bytes(8)])))

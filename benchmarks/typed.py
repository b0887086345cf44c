"""Decoding values of schemas to Arrow arrays, against fastavro in the same run, and against the copy of their bytes that a scan makes.

All figures are the best of several runs in one thread, subject and baseline in turn. The values are in memory: made ones of eight fields,
and those of topics that a real Pulsar wrote, over and over. fastavro's figures are of fewer rows, each of which costs it the same.
"""

import argparse
import io
import json
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.kernels.gather import gather_bytes
from ledgerfs.messages.values.decoders import decoder_of
from ledgerfs.messages.values.json_shapes import JsonShapes
from ledgerfs.messages.values.json_values import JsonDecoder
from ledgerfs.messages.values.value_decoder import ValueDecoder
from tests.support.typed_golden import topic

GOLDEN = Path(__file__).parent.parent / "tests" / "data" / "golden" / "pulsar-typed.tar.xz"
GOLDEN_TOPICS = (
    "avro-pojo",
    "avro-strict",
    "avro-logical",
    "avro-unions",
    "avro-random-0",
    "avro-random-1",
    "avro-random-2",
)
PRIMITIVES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "DOUBLE": 8, "TIMESTAMP": 8, "INSTANT": 12, "LOCAL_TIME": 8}
"""Sizes of the values of some types."""
EIGHT_FIELDS = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "city", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
_FEWER = 20
"""fastavro gets one row of so many."""


@dataclass(frozen=True, slots=True)
class Values:
    """Payloads one after the other."""

    data: Bytes
    starts: Int64
    ends: Int64

    @classmethod
    def of(cls, payloads: list[bytes]) -> "Values":
        """Put payloads together."""
        sizes = np.array([len(one) for one in payloads], np.int64)
        ends = np.cumsum(sizes)
        return cls(np.frombuffer(b"".join(payloads), np.uint8), ends - sizes, ends)

    def decode(self, decoder: ValueDecoder) -> pa.Array:
        """Return all values, none of which is bad."""
        array, reasons = decoder.decode(self.data, self.starts, self.ends)
        assert not reasons.any()
        return array

    def copy(self) -> pa.Array:
        """Return them as they are, as a scan of bytes does."""
        return gather_bytes(self.data, self.starts, self.ends - self.starts)


def orders(rows: int) -> list[bytes]:
    """Return values of eight fields."""
    schema = fastavro.parse_schema(EIGHT_FIELDS)
    made = []
    for i in range(rows):
        order = {
            "id": i * 37,
            "name": f"n{i % 1000}",
            "city": "berlin",
            "amount": i / 3,
            "at": 1_700_000_000_000 + i,
            "kind": "ABC"[i % 3],
        }
        target = io.BytesIO()
        fastavro.schemaless_writer(
            target, schema, {**order, "note": "abc" if i % 2 else None, "tags": ["x", "yy"][: i % 3]}
        )
        made.append(target.getvalue())
    return made


def by_fastavro(schema: Any, payloads: list[bytes], kind: pa.DataType | None) -> int:  # noqa: ANN401  (JSON)
    """Decode to dictionaries, and from there to an Arrow array of a type, unless there is none; return how many there are."""
    values = [fastavro.schemaless_reader(io.BytesIO(one), schema, None) for one in payloads]
    return len(values if kind is None else pa.array(values, kind))


def best(runs: int, *works: Callable[[], object]) -> list[float]:
    """Return the least time of each work, s of the processor, all of them in turn."""
    times = []
    for _ in range(runs):
        for work in works:
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
    return [min(times[place :: len(works)]) for place in range(len(works))]


def avro(runs: int, name: str, schema: bytes, payloads: list[bytes], *, to_arrow: bool) -> None:
    """Print one shape of Avro values."""
    decoder, values, few = decoder_of(SchemaInfo("AVRO", schema)), Values.of(payloads), payloads[::_FEWER]
    parsed = fastavro.parse_schema(json.loads(schema))
    kind = decoder.type if to_arrow else None
    took, theirs = best(runs, partial(values.decode, decoder), partial(by_fastavro, parsed, few, kind))
    rate, their_rate = len(payloads) / took, len(few) / theirs
    goal = " (goals: 3 M rows/s, 20 times)" if to_arrow else ""
    print(
        f"{name}, {values.data.size / len(payloads):.0f} B: {rate / 1e6:.2f} M rows/s, {values.data.size / took / 1e6:.0f} MB/s; "
        f"fastavro to {'Arrow' if to_arrow else 'dictionaries'} {their_rate / 1e6:.3f} M rows/s; ratio {rate / their_rate:.0f}{goal}"
    )


def golden(runs: int, rows: int) -> None:
    """Print the values of topics that Pulsar wrote."""
    with tempfile.TemporaryDirectory(prefix="ledgerfs-bench-") as folder, tarfile.open(GOLDEN) as archive:
        archive.extractall(folder)
        for name in GOLDEN_TOPICS:
            found = topic(Path(folder, "pulsar-typed"), f"public/typed/{name}")
            number = max(found.schemas)
            given = zip(found.versions.tolist(), found.rows["value"].to_pylist(), strict=True)
            payloads = [value for version, value in given if version == number and value is not None]
            many = payloads * (rows // len(payloads) + 1)
            avro(runs, name, found.schemas[number].data, many, to_arrow=False)


def primitives(runs: int, rows: int) -> None:
    """Print primitive values against the copy of their bytes."""
    for name, size in PRIMITIVES.items():
        decoder, values = decoder_of(SchemaInfo(name)), Values.of([bytes(size)] * rows)
        took, copied = best(runs, partial(values.decode, decoder), values.copy)
        print(
            f"{name}: {rows / took / 1e6:.0f} M rows/s; their bytes {rows / copied / 1e6:.0f} M; ratio {copied / took:.2f} (goal: 1)"
        )


def pairs(runs: int, rows: int) -> None:
    """Print pairs of key and value, INLINE, against their values alone."""
    parts = orders(rows)
    data = json.dumps({"key": "", "value": EIGHT_FIELDS}).encode()
    properties = {"kv.encoding.type": "INLINE", "key.schema.type": "STRING", "value.schema.type": "AVRO"}
    decoder = decoder_of(SchemaInfo("KEY_VALUE", data, properties))
    alone = decoder_of(SchemaInfo("AVRO", json.dumps(EIGHT_FIELDS).encode()))
    values = Values.of([b"\0\0\0\4key " + len(one).to_bytes(4, "big") + one for one in parts])
    took, without = best(runs, partial(values.decode, decoder), partial(Values.of(parts).decode, alone))
    print(
        f"pairs of text and eight fields: {rows / took / 1e6:.2f} M rows/s; ratio to the values alone {without / took:.2f}"
    )


def documents(runs: int, rows: int) -> None:
    """Print JSON documents of nine fields, by their schema and by the type that they are found to have, and how long that takes."""
    schema = {**EIGHT_FIELDS, "fields": [*EIGHT_FIELDS["fields"], {"name": "count", "type": "int"}]}
    texts = []
    for i in range(rows):
        document = {
            "id": i * 37,
            "name": f"name-{i % 1000}",
            "city": "berlin",
            "amount": i / 8,
            "at": 1_700_000_000_000 + i,
            "kind": "ABC"[i % 3],
            "note": "abc" if i % 2 else None,
            "tags": ["x", "yy"][: i % 3],
            "count": i % 100,
        }
        texts.append(json.dumps(document, separators=(",", ":")).encode())
    values, shapes = Values.of(texts), JsonShapes()
    shapes.look(values.data, values.starts, values.ends)
    by_schema, by_type = JsonDecoder.of_schema(json.dumps(schema)), JsonDecoder.of_type(shapes.type)
    look = partial(JsonShapes().look, values.data, values.starts, values.ends)
    took = best(runs, partial(values.decode, by_schema), partial(values.decode, by_type), look)
    rates = [rows / one / 1e6 for one in took]
    print(
        f"JSON of nine fields, {values.data.size / rows:.0f} B: {rates[0]:.2f} M rows/s (goal: 1.2); "
        f"without a schema {rates[1]:.2f} M, and {rates[2]:.2f} M to find their type"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=200_000)
    given = parser.parse_args()
    eight = json.dumps(EIGHT_FIELDS).encode()
    avro(given.runs, "eight fields", eight, orders(given.rows), to_arrow=True)
    golden(given.runs, given.rows)
    primitives(given.runs, given.rows)
    pairs(given.runs, given.rows)
    documents(given.runs, given.rows)


if __name__ == "__main__":
    main()
